import Midstream
import SQLiteConnection
import Testing

/// Statements that may not write, or cannot write at present.
@Suite struct LockedStatementTests {
    private static let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, a)"
    private static let rows = """
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) INSERT INTO t SELECT i, i FROM n
        """
    private static let extra = "CREATE TABLE other(x); INSERT INTO other VALUES (1), (2), (3)"

    /// Changes are counted as SQLite counts them: a statement that failed for a lock has changed nothing.
    @Test(arguments: [
        "INSERT INTO t VALUES (99, 'n')", "UPDATE t SET a = 'z' WHERE id = 30", "UPDATE t SET a = 'z' WHERE id = 2",
        "DELETE FROM t WHERE id > 30", "DELETE FROM t", "INSERT INTO other VALUES (5)", "DELETE FROM other",
    ]) func whatFailsForALockHasChangedNothing(_ sql: String) throws {
        var configuration = DatabaseConfiguration()
        configuration.busyTimeout = .milliseconds(20)
        let pair = try Pair(
            schema: Self.schema,
            rows: Self.rows,
            extra: Self.extra,
            tables: ["t"],
            moved: 7,
            configuration: configuration
        )
        let other = try Connection(path: pair.target)
        try pair.database.withoutTransaction { access in
            for isInTransaction in [false, true] {
                try access.execute("UPDATE other SET x = x + 1")
                #expect(try access.fetchValue(Int64.self, "SELECT changes()") == 3)
                if isInTransaction {
                    try access.execute("BEGIN")
                    _ = try access.fetchAll("SELECT count(*) FROM other")
                }
                try other.execute("BEGIN IMMEDIATE")
                try other.execute("UPDATE other SET x = x")
                let error = #expect(throws: SQLiteError.self) { try access.execute(sql) }
                #expect(error.map { ResultCode.busy ~= $0.code } == true, "\(sql): \(error as Any)")
                #expect(try access.fetchValue(Int64.self, "SELECT changes()") == 0, "\(sql)")
                try other.execute("ROLLBACK")
                if isInTransaction { try access.execute("ROLLBACK") }
            }
            try access.execute(sql)
            try pair.native.execute(sql)
        }
        let look = "SELECT * FROM t ORDER BY id"
        #expect(try texts(pair.database.fetchAll(look)) == texts(pair.native.fetchAll(look)))
    }

    private static let drain = "CREATE INDEX by_a ON t(a)"

    /// SQLite detaches no source while a statement runs that began in the transaction in which the source was read.
    @Test(
        arguments: [
            ["BEGIN", drain, "COMMIT"], ["SAVEPOINT s", drain, "RELEASE s"], ["SELECT 2", "SELECT 2", drain],
        ],
        ["SELECT x FROM other", "SELECT id FROM t"]
    )
    func whatHasDrainedMayEndInALoop(_ statements: [String], _ query: String) throws {
        // The table cannot be drained while it is read.
        if statements.last == Self.drain, query.hasSuffix(" t") { return }
        let pair = try Pair(schema: Self.schema, rows: Self.rows, extra: Self.extra, tables: ["t"], moved: 7)
        let before = statements.prefix(2)
        let inLoop = [
            statements[2], "SELECT 1", "INSERT INTO other VALUES (4)", "UPDATE t SET a = 0 WHERE id = 30", "BEGIN",
            "ROLLBACK",
        ]
        try pair.database.withoutTransaction { access in
            for sql in before { try access.execute(sql) }
            var isOver = false
            try access.forEachRow(query) { _ in
                if !isOver { for sql in inLoop { _ = try access.fetchAll(sql) } }
                isOver = true
                return true
            }
            try access.execute("SELECT 1")
            #expect(try access.fetchAll("PRAGMA database_list").allSatisfy { $0[1] != .text("midstream_source_1") })
        }
        for sql in before { try pair.native.execute(sql) }
        let loop = try pair.native.prepare(query)
        _ = try loop.step()
        for sql in inLoop { _ = try pair.native.fetchAll(sql) }
        while try loop.step() {}
        for look in ["SELECT * FROM t ORDER BY id", "SELECT * FROM other"] {
            #expect(try texts(pair.database.fetchAll(look)) == texts(pair.native.fetchAll(look)))
        }
    }

    enum Change: CaseIterable {
        case begins, ends, isDrained
    }

    /// With `query_only`, SQLite refuses to write TEMP tables as well, and the overlay needs such tables.
    @Test(arguments: Change.allCases) func aConnectionThatIsToWriteNothingFollowsWhatMovesAllTheSame(_ change: Change)
        throws
    {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(script: Self.schema + ";" + Self.rows)
        old.close()
        let path = folder.file("new.db")
        let database = try Database(path: path)
        try database.execute(Self.schema + ";" + Self.extra)
        func begin(_ database: Database) throws {
            try database.addMigration(source: .file(folder.file("old.db"))) { table in
                if table.name == "t" { table.sourceTable = "t" }
            }
        }
        if change != .begins { try begin(database) }
        try database.withoutTransaction { access in
            try access.execute("PRAGMA query_only = 1")
            let rows: Int64? = change == .begins ? 0 : 40
            #expect(try access.fetchValue(Int64.self, "SELECT count(*) FROM t") == rows)
            let other = try Database(path: path)
            switch change {
            case .begins: try begin(other)
            case .ends: try finishMigration(other)
            case .isDrained: try other.execute("CREATE INDEX ta ON t(a)")
            }
            #expect(try access.fetchValue(Int64.self, "SELECT count(*) FROM t") == 40)
            #expect(try access.fetchValue(Int64.self, "PRAGMA query_only") == 1)
            for sql in ["UPDATE t SET a = 0 WHERE id = 30", "INSERT INTO other VALUES (9)", "DELETE FROM t"] {
                let error = #expect(throws: SQLiteError.self) { try access.execute(sql) }
                #expect(error?.code == .readOnly, "\(sql)")
            }
            try access.execute("PRAGMA query_only = 0")
            try access.execute("UPDATE t SET a = 0 WHERE id = 30")
            #expect(try access.fetchValue(Int64.self, "SELECT sum(a = 0) FROM t") == 1)
        }
        try finishMigration(database)
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 40)
    }

    /// An ALTER TABLE for which the overlay is taken down still fails, and takes nothing else down with it.
    @Test(
        arguments: [
            "ALTER TABLE u RENAME TO u2", "DROP TABLE u", "ALTER TABLE other RENAME TO others",
            "CREATE INDEX ua ON u(id)",
        ],
        [true, false]
    )
    func aSchemaThatIsNotToBeChangedFailsAlone(_ change: String, _ hasChanged: Bool) throws {
        let pair = try Pair(
            schema: Self.schema + "; CREATE TABLE u(id INTEGER PRIMARY KEY)",
            rows: Self.rows + "; INSERT INTO u VALUES (3), (4)",
            extra: Self.extra,
            tables: ["t", "u"],
            moved: 7
        )
        try pair.database.withoutTransaction { access in
            func same(_ sql: String) throws {
                #expect(texts(try access.fetchAll(sql)) == texts(try pair.native.fetchAll(sql)), "\(sql)")
            }
            func both(_ sql: String) throws {
                try pair.native.execute(script: sql)
                try access.execute(sql)
            }
            try both("BEGIN")
            try both("INSERT INTO other VALUES (4)")
            try both("UPDATE t SET a = 50 WHERE id = 30")
            if hasChanged { try both("ALTER TABLE t ADD COLUMN b DEFAULT 5") }
            try both("PRAGMA query_only = 1")
            for _ in 0..<2 {
                let error = #expect(throws: SQLiteError.self) { try access.execute(change) }
                #expect(error?.code == .readOnly)
                #expect(throws: SQLiteError.self) { try pair.native.execute(change) }
                #expect(access.isInTransaction)
                for sql in ["SELECT 1", "SELECT * FROM other", "SELECT * FROM t", "SELECT * FROM u"] { try same(sql) }
            }
            try both("PRAGMA query_only = 0")
            try both("INSERT INTO other VALUES (5)")
            try both("DELETE FROM u WHERE id = 3")
            try both("COMMIT")
            for sql in ["SELECT * FROM other", "SELECT * FROM t", "SELECT * FROM u"] { try same(sql) }
        }
        try pair.finish()
        for sql in ["SELECT * FROM other", "SELECT * FROM t", "SELECT * FROM u"] {
            #expect(texts(try pair.database.fetchAll(sql)) == texts(try pair.native.fetchAll(sql)), "\(sql)")
        }
    }
}
