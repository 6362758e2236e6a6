import Midstream
import SQLiteConnection
import Testing

@Suite struct MigrationSetupTests {
    private func old(_ folder: TemporaryFolder, _ name: String, _ script: String) throws -> String {
        try Connection(path: folder.file(name)).execute(script: script)
        return folder.file(name)
    }

    private static let rows =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) INSERT INTO t SELECT i, i % 3 FROM n;"

    private func finish(_ database: Database) throws {
        for _ in 0..<1000 where try database.stepMigration().isFinished { return }
        Issue.record("the migration does not end")
    }

    @Test func aMigrationGoesOnByItselfWhenTheFileIsOpenedAgain() throws {
        let folder = TemporaryFolder()
        let source = try old(folder, "old.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, k);" + Self.rows)
        do {
            let database = try Database(path: folder.file("new.db"))
            try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, k)")
            try database.addMigration(source: .file(source)) { $0.sourceTable = "t" }
            try database.stepMigration(rows: 10)
            database.close()
        }
        let database = try Database(path: folder.file("new.db"))
        #expect(!database.isMigrated)
        #expect(try database.fetchValue(Int64.self, "SELECT sum(id) FROM t") == 5050)
        try finish(database)
        #expect(try database.fetchValue(Int64.self, "SELECT sum(id) FROM t") == 5050)
        // The application adds the migration at each launch, even if nothing is left to do.
        try database.addMigration(source: .file(source)) { $0.sourceTable = "t" }
        #expect(database.isMigrated)
        #expect(try database.fetchValue(Int64.self, "SELECT sum(id) FROM t") == 5050)
    }

    @Test func oneTableIsSplitIntoTwoFiles() throws {
        let folder = TemporaryFolder()
        let source = try old(folder, "old.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, k);" + Self.rows)
        let first = try Database(path: folder.file("first.db"))
        let second = try Database(path: folder.file("second.db"))
        for (database, condition) in [(first, "k = 0"), (second, "k <> 0")] {
            try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, k)")
            try database.addMigration(source: .file(source)) {
                $0.sourceTable = "t"
                $0.condition = condition
            }
        }
        #expect(try first.fetchValue(Int64.self, "SELECT count(*) FROM t") == 33)
        #expect(try second.fetchValue(Int64.self, "SELECT count(*) FROM t") == 67)
        try finish(first)
        #expect(try second.fetchValue(Int64.self, "SELECT count(*) FROM t") == 67)
        try finish(second)
        #expect(try first.fetchValue(Int64.self, "SELECT count(*) FROM t") == 33)
        #expect(try second.fetchValue(Int64.self, "SELECT count(*) FROM t") == 67)
        let left = try Connection(path: source)
        #expect(
            try left.fetchValue(Int64.self, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 't'") == nil
        )
    }

    @Test func twoTablesOfOneFileTakePartsOfOneSource() throws {
        let folder = TemporaryFolder()
        let source = try old(folder, "old.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, k);" + Self.rows)
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE a(id INTEGER PRIMARY KEY, k); CREATE TABLE b(id INTEGER PRIMARY KEY, k)")
        try database.addMigration(source: .file(source)) {
            $0.sourceTable = "t"
            $0.condition = $0.name == "a" ? "k = 0" : "k <> 0"
        }
        #expect(
            try database.fetchAll("SELECT count(*), (SELECT count(*) FROM b) FROM a").map(\.values)
                == [[.integer(33), .integer(67)]]
        )
        try finish(database)
        #expect(
            try database.fetchValue(Int64.self, "SELECT sum(id) FROM (SELECT id FROM a UNION ALL SELECT id FROM b)")
                == 5050
        )
    }

    @Test func aTableMovesWithinItsOwnFile() throws {
        let folder = TemporaryFolder()
        let path = try old(folder, "one.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, k);" + Self.rows)
        let database = try Database(path: path)
        try database.execute("CREATE TABLE fresh(id INTEGER PRIMARY KEY, k)")
        try database.addMigration(source: .sameDatabase) { if $0.name == "fresh" { $0.sourceTable = "t" } }
        try database.stepMigration(rows: 40)
        try database.execute("UPDATE fresh SET k = 9 WHERE id IN (1, 99)")
        #expect(throws: SQLiteError.self) { try database.execute("INSERT INTO t(k) VALUES (1)") }
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM fresh WHERE k = 9") == 2)
        try finish(database)
        #expect(try database.fetchValue(Int64.self, "SELECT sum(id) FROM fresh") == 5050)
        #expect(
            texts(try database.fetchAll("SELECT name FROM sqlite_master ORDER BY name")) == ["fresh"]
        )
    }

    @Test func aTableThatIsCreatedLaterBeginsToMove() throws {
        let folder = TemporaryFolder()
        let source = try old(folder, "old.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, k);" + Self.rows)
        let database = try Database(path: folder.file("new.db"))
        try database.addMigration(source: .file(source), allowsNoTables: true) {
            if $0.name == "t" { $0.sourceTable = "t" }
        }
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, k)")
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 100)
        try finish(database)
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 100)
    }

    @Test func severalSourcesFeedTablesOfTheirOwn() throws {
        let folder = TemporaryFolder()
        let database = try Database(path: folder.file("new.db"))
        for name in ["a", "b", "c"] {
            let source = try old(
                folder,
                name + ".db",
                "CREATE TABLE t(id INTEGER PRIMARY KEY, k);" + Self.rows
            )
            try database.execute("CREATE TABLE \(name)(id INTEGER PRIMARY KEY, k)")
            try database.addMigration(source: .file(source)) { if $0.name == name { $0.sourceTable = "t" } }
        }
        let sum = "SELECT (SELECT sum(id) FROM a) + (SELECT sum(id) FROM b) + (SELECT sum(id) FROM c)"
        #expect(try database.fetchValue(Int64.self, sum) == 15150)
        try database.stepMigration(rows: 10)
        #expect(try database.fetchValue(Int64.self, sum) == 15150)
        try finish(database)
        #expect(try database.fetchValue(Int64.self, sum) == 15150)
    }

    @Test func aFileThatIsEmptyIsDeletedWhenThatIsWished() throws {
        let folder = TemporaryFolder()
        let source = try old(folder, "old.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, k);" + Self.rows)
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, k)")
        for _ in 0..<2 {
            try database.addMigration(source: .file(source), retirement: .deleteFileWhenEmpty) { $0.sourceTable = "t" }
            try finish(database)
        }
        #expect(throws: SQLiteError.self) {
            _ = try Connection(path: source, options: OpenOptions(access: .readOnly)).fetchAll(
                "SELECT 1 FROM sqlite_master"
            )
        }
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 100)
    }

    @Test func aSourceThatIsKeptKeepsItsRows() throws {
        let folder = TemporaryFolder()
        let source = try old(folder, "old.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, k);" + Self.rows)
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, k)")
        try database.addMigration(source: .file(source), retirement: .keep) { $0.sourceTable = "t" }
        try finish(database)
        let kept = try Connection(path: source)
        #expect(try kept.fetchValue(Int64.self, "SELECT count(*) FROM t") == 100)
        #expect(throws: SQLiteError.self) { try kept.execute("DELETE FROM t") }
        try database.addMigration(source: .file(source), retirement: .keep) { $0.sourceTable = "t" }
        #expect(database.isMigrated)
    }
}
