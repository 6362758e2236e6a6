import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// DELETE of all rows of a table that moves: those that are pending go without having been in the target.
@Suite struct DeleteAllTests {
    enum Shape: String, CaseIterable {
        case rowIDs = "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT UNIQUE, b)"
        case sequence = "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT, b)"
        case noColumn = "CREATE TABLE t(id TEXT UNIQUE, a TEXT, b)"
        case pairs = "CREATE TABLE t(id INTEGER, a TEXT, b, PRIMARY KEY (a, id)) WITHOUT ROWID"
    }

    /// Those of which SQLite counts the rows.
    private static let shapes =
        [.rowIDs, .sequence, .noColumn] + SQLiteFeature.writesOfKeyedTables.ifAvailable([Shape.pairs])

    private static let rows = """
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100)
        INSERT INTO t(id, a, b) SELECT i, 'a' || i, i % 7 FROM n
        """
    private static let looks = [
        "SELECT id, a, b FROM t ORDER BY id, a", "SELECT count(*) FROM t", "SELECT b, count(*) FROM t GROUP BY b",
        "SELECT changes()", "SELECT * FROM lst",
    ]

    private func expectSame(_ pair: Pair, _ access: DatabaseAccess, _ note: String, _ looks: [String] = looks) throws {
        for look in looks {
            let (theirs, ours) = (try texts(pair.native.fetchAll(look)), try texts(access.fetchAll(look)))
            #expect(ours == theirs, "\(note): \(look)")
        }
    }

    private func run(_ sql: String, _ pair: Pair, _ access: DatabaseAccess) throws {
        let total = "SELECT total_changes()"
        let before = try [pair.native.fetchValue(Int64.self, total), access.fetchValue(Int64.self, total)]
        let theirs = Result { try pair.native.execute(sql) }
        let ours = Result { try access.execute(sql) }
        let after = try [pair.native.fetchValue(Int64.self, total), access.fetchValue(Int64.self, total)]
        let changes = zip(after, before).map { ($0 ?? 0) - ($1 ?? 0) }
        #expect(changes[0] == changes[1], "\(sql)")
        #expect((try? theirs.get()) == nil ? (try? ours.get()) == nil : (try? ours.get()) != nil, "\(sql)")
    }

    /// Whether no row of the source was copied.
    private func nothingCopied(_ pair: Pair, moved: Int64) throws -> Bool {
        let reader = try Connection(path: pair.target)
        let copied = try reader.fetchValue(Int64.self, "SELECT copied FROM midstream_tables")
        let id = try #require(try reader.fetchValue(Int64.self, "SELECT id FROM midstream_tables"))
        let ledger = try reader.fetchValue(Int64.self, "SELECT count(*) FROM midstream_ledger_\(id)")
        return copied == moved && ledger == 0
    }

    @Test(arguments: shapes, [0, 40] as [Int64])
    func goesWithoutBeingCopied(_ shape: Shape, _ moved: Int64) throws {
        for (inBlock, isPromoted) in [(false, false), (false, true), (true, false), (true, true)] {
            let pair = try Pair(
                schema: shape.rawValue,
                rows: Self.rows,
                extra: "CREATE TABLE lst(x)",
                tables: ["t"],
                moved: moved
            )
            let statements =
                (isPromoted ? ["UPDATE t SET b = 'x' WHERE id > 90", "DELETE FROM t WHERE id % 10 = 3"] : []) + [
                    "DELETE FROM t", "INSERT INTO t(a, b) VALUES ('new', 1)", "INSERT INTO t(id, a) VALUES (77, 'a78')",
                    "DELETE FROM t", "INSERT INTO t(id, a, b) VALUES (5, 'a5', 0)",
                ]
            func all(_ access: DatabaseAccess) throws {
                for sql in statements {
                    try run(sql, pair, access)
                    try expectSame(pair, access, "\(inBlock), \(isPromoted): \(sql)")
                }
            }
            if inBlock { try pair.database.write(all) } else { try pair.database.withoutTransaction(all) }
            #expect(try nothingCopied(pair, moved: moved))
            let other = try Database(path: pair.target)
            #expect(try texts(other.fetchAll(Self.looks[0])) == texts(pair.native.fetchAll(Self.looks[0])))
            other.close()
            try pair.finish()
            #expect(pair.database.migrationStatistics.drains(of: "t") == 0)
            let left = Array(Self.looks.prefix(3))
            try pair.database.withoutTransaction { try expectSame(pair, $0, "moved", left) }
            for sql in ["INSERT INTO t(id, a) VALUES ((SELECT max(id) FROM t) + 1, 'last')"] {
                try pair.native.execute(sql)
                try pair.database.execute(sql)
            }
            try pair.database.withoutTransaction { try expectSame(pair, $0, "moved", left) }
        }
    }

    @Test(arguments: shapes) func comesBackWithARollback(_ shape: Shape) throws {
        let pair = try Pair(
            schema: shape.rawValue,
            rows: Self.rows,
            extra: "CREATE TABLE lst(x)",
            tables: ["t"],
            moved: 30
        )
        let looks = Array(Self.looks.prefix(3))
        try pair.database.withoutTransaction { access in
            for sql in [
                "BEGIN", "UPDATE t SET b = 'p' WHERE id = 60", "SAVEPOINT s", "DELETE FROM t",
                "INSERT INTO t(id, a) VALUES (60, 'a60')", "ROLLBACK TO s", "UPDATE t SET b = 'q' WHERE id = 70",
                "DELETE FROM t",
                "ROLLBACK TO s", "RELEASE s", "DELETE FROM t", "INSERT INTO t(id, a) VALUES (3, 'a99')", "ROLLBACK",
                "BEGIN", "DELETE FROM t WHERE id = 80", "COMMIT",
            ] {
                try run(sql, pair, access)
                try expectSame(pair, access, sql, looks)
            }
        }
        try pair.finish()
        try pair.database.withoutTransaction { try expectSame(pair, $0, "moved", looks) }
    }

    /// Where something asks for each row, all are there.
    @Test(arguments: [
        "CREATE TRIGGER x AFTER DELETE ON t BEGIN INSERT INTO lst VALUES (old.a); END",
        "CREATE TRIGGER x BEFORE DELETE ON t WHEN old.id % 5 = 0 BEGIN SELECT raise(IGNORE); END",
        "CREATE TABLE child(id REFERENCES t(id)); INSERT INTO child VALUES (7)",
        "CREATE TABLE child(id REFERENCES t(id) ON DELETE CASCADE); INSERT INTO child VALUES (7), (50)",
        "CREATE TABLE child(id REFERENCES t(id) ON DELETE SET NULL); INSERT INTO child VALUES (7), (50)",
    ])
    func whatAsksForRowsFindsThem(_ extra: String) throws {
        let parts = extra.split(separator: "; INSERT").map(String.init)
        var configuration = DatabaseConfiguration()
        configuration.enforcesForeignKeys = true
        let pair = try Pair(
            schema: Shape.rowIDs.rawValue,
            rows: Self.rows,
            extra: "CREATE TABLE lst(x);" + (extra.hasPrefix("CREATE TRIGGER") ? extra : parts[0]),
            tables: ["t"],
            moved: 20,
            configuration: configuration
        )
        let looks = Self.looks + (extra.contains("child") ? ["SELECT * FROM child"] : [])
        try pair.database.withoutTransaction { access in
            if !extra.hasPrefix("CREATE TRIGGER") { try run("INSERT" + parts[1], pair, access) }
            try run("DELETE FROM t", pair, access)
            try expectSame(pair, access, extra, looks)
        }
        try pair.finish()
        try pair.database.withoutTransaction { try expectSame(pair, $0, extra, Array(looks.prefix(3))) }
    }

    @Test func aLoopOverTheRowsSeesThemGo() throws {
        for order in ["", " ORDER BY id", " ORDER BY id DESC", " ORDER BY b"] {
            for delete in ["DELETE FROM t", "DELETE FROM t WHERE id > 0"] {
                let pair = try Pair(
                    schema: Shape.sequence.rawValue,
                    rows: Self.rows,
                    extra: "CREATE TABLE lst(x)",
                    tables: ["t"],
                    moved: 20
                )
                var (theirs, ours): ([String], [String]) = ([], [])
                let loop = try pair.native.prepare("SELECT id FROM t" + order)
                while try loop.step() {
                    theirs.append("\(loop.int64(at: 0))")
                    if theirs.count == 3 { try pair.native.execute(delete) }
                }
                try pair.database.write { access in
                    try access.forEachRow("SELECT id FROM t" + order) { row in
                        ours.append("\(try row.read(Int64.self, at: 0))")
                        if ours.count == 3 { try access.execute(delete) }
                        return true
                    }
                }
                #expect(ours == theirs, "\(order), \(delete)")
                #expect(try pair.database.fetchAll("SELECT * FROM t").isEmpty)
                try pair.finish()
                #expect(try pair.database.fetchAll("SELECT * FROM t").isEmpty)
            }
        }
    }

    @Test(arguments: [MigrationVerification.batches, .complete, .count], ["b <> 3", nil])
    func isCountedInTheEnd(_ verification: MigrationVerification, _ condition: String?) throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(script: Shape.rowIDs.rawValue + ";" + Self.rows)
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute(Shape.rowIDs.rawValue)
        try database.addMigration(source: .file(folder.file("old.db"))) { table in
            table.sourceTable = "t"
            table.condition = condition
            table.verification = verification
        }
        try database.stepMigration(rows: 20)
        let count = try #require(try database.fetchValue(Int64.self, "SELECT count(*) FROM t"))
        try database.write { access in
            try access.execute("UPDATE t SET b = 'x' WHERE id = 90")
            try access.execute("DELETE FROM t")
            #expect(try access.fetchValue(Int64.self, "SELECT changes()") == count)
        }
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 0)
        try finishMigration(database)
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 0)
    }

    @Test func theMoveMayBeCancelledAfterIt() throws {
        let pair = try Pair(schema: Shape.rowIDs.rawValue, rows: Self.rows, tables: ["t"], moved: 20)
        try pair.database.execute("DELETE FROM t")
        try pair.database.execute("INSERT INTO t(id, a) VALUES (50, 'new'), (500, 'newer')")
        try pair.database.cancelMigration()
        try finishMigration(pair.database)
        pair.database.close()
        let old = try Connection(path: pair.source)
        #expect(try texts(old.fetchAll("SELECT id, a FROM t")) == ["50|new", "500|newer"])
    }
}
