import SQLiteConnection
import Testing

@testable import Midstream

/// Rows that the target does not take, of tables that are built.
@Suite struct BuiltRefusedRowTests {
    private let folder = TemporaryFolder()
    private static let rows = 300
    private static let columns = "id INTEGER PRIMARY KEY, n INTEGER, s TEXT"
    /// Rows that break CHECK, and rows that break NOT NULL: one alone, several of a slice, the first and the last.
    private static let broken = Set([1, 40, 41, 42, 43, 120, 222, 300])
    private static let nulls = Set([90, 91, 221])
    private static var refused: Set<Int> { broken.union(nulls) }

    private func begin(_ policy: RefusedRowPolicy, hasRowIDs: Bool = true) throws -> Database {
        let source = try Connection(path: folder.file("old.db"))
        try source.execute("CREATE TABLE t(\(Self.columns) UNIQUE)")
        for id in 1...Self.rows {
            let values: [SQLiteValue] = [
                .integer(Int64(id)), .integer(Self.broken.contains(id) ? -1 : Int64(id * 7919 % 101)),
                Self.nulls.contains(id) ? .null : .text("s\(id * 104_729 % 10_007)"),
            ]
            try source.execute("INSERT INTO t VALUES (?, ?, ?)", Arguments(values))
        }
        source.close()
        let database = try Database(path: folder.file("new.db"))
        let columns = Self.columns + " NOT NULL UNIQUE, CHECK (n >= 0)"
        try database.execute("CREATE TABLE t(\(columns))\(hasRowIDs ? "" : " WITHOUT ROWID")")
        try database.execute("CREATE INDEX i ON t(n, s)")
        try add(database, policy)
        try database.buildsAllTables()
        return database
    }

    private func add(_ database: Database, _ policy: RefusedRowPolicy) throws {
        try database.addMigration(source: .file(folder.file("old.db"))) { table in
            guard table.name == "t" else { return }
            table.sourceTable = "t"
            table.refusedRows = policy
        }
    }

    private func expectBuilt(_ database: Database) throws {
        let builds = "SELECT 1 FROM main.sqlite_master WHERE name = 'midstream_builds'"
        guard try database.fetchOne(builds) != nil else { return }
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM main.midstream_builds WHERE part < 0") == 0)
    }

    private func finish(_ database: Database, by step: (Database) throws -> Bool) throws {
        for _ in 0..<5000 {
            if try step(database) { return }
            try expectBuilt(database)
        }
        Issue.record("it does not end")
    }

    private func expectSound() throws {
        let target = try Connection(path: folder.file("new.db"))
        #expect(try target.fetchAll("PRAGMA integrity_check").map { try $0.get(0, as: String.self) } == ["ok"])
        #expect(
            try target.fetchValue(Int.self, "SELECT count(*) FROM sqlite_master WHERE name LIKE 'midstream_b%'") == 0
        )
    }

    @Test(arguments: [1, 7, 100, nil] as [Int64?], [true, false])
    func theyAreSetAside(_ rowsPerStep: Int64?, hasRowIDs: Bool) throws {
        let database = try begin(.setAside, hasRowIDs: hasRowIDs)
        var steps = 0
        try finish(database) {
            steps += 1
            if steps == 5 {
                // One that has yet to be built fits by then, one has left, and one whose key is taken again.
                try $0.execute("UPDATE t SET n = 5 WHERE id = 222")
                try $0.execute("DELETE FROM t WHERE id = 300")
                try $0.execute("DELETE FROM t WHERE id = 221")
                try $0.execute("INSERT INTO t VALUES (221, 6, 'new')")
            }
            guard let rowsPerStep else { return try $0.stepMigration(budget: .milliseconds(1)).isFinished }
            return try $0.stepMigration(rows: rowsPerStep).isFinished
        }
        let aside = try Set(
            database.fetchAll("SELECT id FROM midstream_refused_t").map { try $0.get(0, as: Int.self) }
        )
        // As many steps may have moved all before.
        let changed: Set<Int> = [221, 222, 300]
        #expect(aside.union(changed) == Self.refused.union(changed))
        let left = try Set(database.fetchAll("SELECT id FROM t NOT INDEXED").map { try $0.get(0, as: Int.self) })
        #expect(left.subtracting(changed) == Set(1...Self.rows).subtracting(Self.refused).subtracting(changed))
        #expect(left.contains(221) && !left.contains(300))
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t WHERE n >= 0") == left.count)
        database.close()
        try expectSound()
    }

    @Test(arguments: [1, 30, nil] as [Int64?], [true, false])
    func theTableStopsAtEach(_ rowsPerStep: Int64?, hasRowIDs: Bool) throws {
        let database = try begin(.stop, hasRowIDs: hasRowIDs)
        var stopped: [Int] = []
        try finish(database) { database in
            do {
                guard let rowsPerStep else { return try database.stepMigration(budget: .milliseconds(1)).isFinished }
                return try database.stepMigration(rows: rowsPerStep).isFinished
            } catch let error as MigrationError where error.code == .rowRefused {
                let words = try #require(error.row)
                let id = try #require(Int(words.filter(\.isNumber)), "\(words)")
                stopped.append(id)
                let left = Self.rows - stopped.dropLast().count { Self.nulls.contains($0) }
                #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == left)
                // It goes on where it was, with whoever opens the file.
                #expect(throws: MigrationError.self) { try database.stepMigration(rows: 300) }
                // Of the others an UPDATE would be refused.
                let isMended = Self.broken.contains(id)
                try database.execute(isMended ? "UPDATE t SET n = 0 WHERE id = ?" : "DELETE FROM t WHERE id = ?", [id])
                return false
            }
        }
        #expect(stopped == Self.refused.sorted())
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t NOT INDEXED") == Self.rows - Self.nulls.count)
        database.close()
        try expectSound()
    }

    @Test(arguments: [1, 7, 100] as [Int64]) func theApplicationIsAsked(_ rowsPerStep: Int64) throws {
        let database = try begin(
            .ask { row in
                if row.rowID == 300 { return .setAside }
                if row.values["s"] == .null { return .replace(["s": .text("asked \(row.rowID ?? 0)")]) }
                return .replace(["n": .integer(1000)])
            }
        )
        try finish(database) { try $0.stepMigration(rows: rowsPerStep).isFinished }
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == Self.rows - 1)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t WHERE n = 1000") == Self.broken.count - 1)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t WHERE s LIKE 'asked%'") == Self.nulls.count)
        #expect(texts(try database.fetchAll("SELECT midstream_rowid FROM midstream_refused_t")) == ["300"])
        database.close()
        try expectSound()
    }

    /// Whoever opens the file makes but one step.
    @Test func eachProcessGetsOn() throws {
        var database = try begin(.setAside)
        var steps = 0
        while try !database.stepMigration(rows: 100).isFinished {
            steps += 1
            try #require(steps < 50)
            try expectBuilt(database)
            database.close()
            database = try Database(path: folder.file("new.db"))
            try database.buildsAllTables()
        }
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == Self.rows - Self.refused.count)
        database.close()
        try expectSound()
    }

    /// An answer is compared with all rows, of which none is in the target yet.
    @Test(arguments: [1, 2, 299]) func anAnswerThatAnotherRowHasIsRefused(_ other: Int) throws {
        let value = "s\(other * 104_729 % 10_007)"
        let database = try begin(
            .ask { row in
                // The second row comes after the first one, and before the next that is refused.
                if other == 2, row.rowID == 1 { return .replace(["n": .integer(0)]) }
                return .replace(["n": .integer(0), "s": .text(value)])
            }
        )
        var error: MigrationError?
        for _ in 0..<50 where error == nil {
            do { try database.stepMigration(rows: 100) } catch let thrown as MigrationError { error = thrown }
        }
        // Of the first row it is no other's.
        #expect(error?.row == (other == 299 ? "rowid 1" : "rowid 40"), "\(String(describing: error))")
        #expect((error?.cause as? SQLiteError)?.code == .constraintUnique)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t WHERE s = ?", [value]) == 1)
    }

    /// What was set aside returns to the source once it is where it belongs.
    @Test(arguments: [4, 8, 12]) func aMigrationThatHasSetRowsAsideIsCancelled(_ before: Int) throws {
        let database = try begin(.setAside)
        for _ in 0..<before { try database.stepMigration(rows: 40) }
        try expectBuilt(database)
        let error = #expect(throws: MigrationError.self) { try database.cancelMigration() }
        #expect(error?.message.contains("rows were set aside in midstream_refused_t") == true)
        try database.execute("INSERT INTO t SELECT midstream_rowid, 1, 'back ' || id FROM midstream_refused_t")
        try database.execute("DELETE FROM midstream_refused_t")
        try database.cancelMigration()
        try finish(database) { try $0.stepMigration(rows: 50).isFinished }
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 0)
        database.close()
        let source = try Connection(path: folder.file("old.db"))
        #expect(try source.fetchValue(Int.self, "SELECT count(*) FROM t") == Self.rows)
        #expect(try source.fetchValue(Int.self, "SELECT count(*) FROM t WHERE s LIKE 'back %'") ?? 0 > 0)
        try expectSound()
    }
}
