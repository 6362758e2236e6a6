import Midstream
import SQLiteConnection
import Testing

/// A source goes when nobody can read it any more, and not before, even if somebody reads at every moment.
@Suite struct OverlappingReadersTests {
    private let folder = TemporaryFolder()

    /// A database whose table of 1,000 rows is about to move.
    private func movingDatabase() throws -> Database {
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(
            script: """
                CREATE TABLE t(id INTEGER PRIMARY KEY, x);
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) INSERT INTO t SELECT i, i FROM n;
                """
        )
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x); CREATE TABLE other(x)")
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = $0.name == "t" ? "t" : nil }
        return database
    }

    // reader 1   | reads |       | reads |
    // reader 2       | reads |       | reads |
    // writer       w   w   w   w   w   w   w
    @Test func aSourceGoesAlthoughThereIsNoMomentWithoutReaders() throws {
        let database = try movingDatabase()
        let readers = try (0..<2).map { _ in try Connection(path: database.path) }
        func begin(_ reader: Connection) throws {
            try reader.execute("BEGIN")
            _ = try reader.fetchValue(Int64.self, "SELECT count(*) FROM other")
        }
        try begin(readers[0])
        var steps = 0
        while !database.isMigrated, steps < 40 {
            try database.execute("INSERT INTO other VALUES (1)")
            try database.stepMigration()
            try database.execute("INSERT INTO other VALUES (2)")
            try begin(readers[(steps + 1) % 2])
            try readers[steps % 2].execute("COMMIT")
            steps += 1
        }
        #expect(database.isMigrated)
        #expect(try database.fetchValue(Int64.self, "SELECT sum(id) FROM t") == 500_500)
    }

    @Test func aSourceStaysForAReaderFromBefore() throws {
        let database = try movingDatabase()
        try database.stepMigration(rows: 300)
        try database.read { reader in
            #expect(try reader.fetchValue(Int64.self, "SELECT count(*) FROM t") == 1000)
            for _ in 0..<40 {
                let progress = try database.stepMigration(rows: .max)
                #expect(!progress.isFinished)
                try database.execute("INSERT INTO other VALUES (1)")
                #expect(try reader.fetchValue(Int64.self, "SELECT sum(id) FROM t") == 500_500)
            }
            #expect(try database.stepMigration().outcome == .waitingForReaders)
        }
        while try !database.stepMigration().isFinished {}
        #expect(try database.fetchValue(Int64.self, "SELECT sum(id) FROM t") == 500_500)
    }
}
