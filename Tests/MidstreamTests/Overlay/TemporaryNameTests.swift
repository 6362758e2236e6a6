import Midstream
import SQLiteConnection
import Testing

/// If a TEMP table or view has the name of a moving table, or of a view of one, the name means the TEMP object on its
/// connection, as natively.
@Suite struct TemporaryNameTests {
    private static let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, x);"
    private static let rows =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20) INSERT INTO t SELECT i, i % 3 FROM n"
    private static let extra = "CREATE VIEW v AS SELECT id, x + 1 AS y FROM t WHERE id > 3;"

    private static let uses = [
        "SELECT * FROM t ORDER BY 1", "SELECT count(*) FROM main.t", "INSERT INTO t(id) VALUES (7)",
        "UPDATE t SET id = 8",
        "UPDATE main.t SET x = 9 WHERE id = 19", "DELETE FROM t", "SELECT * FROM main.t ORDER BY 1",
        "SELECT * FROM v ORDER BY 1",
        "SELECT count(*) FROM main.v", "SELECT * FROM temp.t ORDER BY 1",
    ]

    private func compare(_ pair: Pair, _ statements: [String]) throws {
        try pair.database.withoutTransaction { access in
            for statement in statements {
                let mine = Self.outcome { try access.fetchAll(statement) }
                let theirs = Self.outcome { try pair.native.fetchAll(statement) }
                #expect(mine == theirs, "\(statement)")
            }
        }
    }

    private static func outcome(_ body: () throws -> [Row]) -> [String] {
        do {
            return texts(try body())
        } catch {
            return ["error: " + ((error as? SQLiteError)?.message ?? "\(error)")]
        }
    }

    @Test(
        arguments: [
            "CREATE TEMP TABLE t(id, z); INSERT INTO temp.t VALUES (1, 2)", "CREATE TABLE temp.t(id, z)",
            "CREATE TEMP VIEW t AS SELECT id FROM main.t", "CREATE VIRTUAL TABLE temp.t USING fts4(id)",
            "CREATE TEMP TABLE x(id, z); ALTER TABLE x RENAME TO t", "CREATE TEMP VIEW v AS SELECT 1",
            "CREATE TEMP TABLE v(z)",
        ],
        [true, false]
    )
    func hidesItWhenItIsMadeWhileItMoves(_ sql: String, _ isInTransaction: Bool) throws {
        let pair = try Pair(schema: Self.schema, rows: Self.rows, extra: Self.extra, tables: ["t"], moved: 7)
        let uses = isInTransaction ? ["BEGIN", "SELECT count(*) FROM t"] : ["SELECT count(*) FROM t"]
        let made = sql.split(separator: "; ").map(String.init)
        try compare(pair, uses + made + Self.uses + (isInTransaction ? ["COMMIT"] : []) + Self.uses)
        #expect(pair.database.migrationStatistics.drained["t"]?[.temporaryTable] == 1)
        try pair.finish()
        try compare(pair, Self.uses + ["DROP TABLE IF EXISTS temp.t", "DROP VIEW IF EXISTS temp.v"] + Self.uses)
    }

    @Test(
        arguments: [
            "CREATE TEMP TABLE t(id, z); INSERT INTO temp.t VALUES (1, 2)",
            "CREATE TEMP VIEW t AS SELECT id FROM main.t",
            "CREATE TEMP VIEW v AS SELECT 1", "CREATE TEMP TABLE v(z)", "CREATE TEMP TABLE \"T\"(id)",
        ],
        [true, false]
    )
    func hidesItWhenItWasThereBefore(_ sql: String, _ isInBlock: Bool) throws {
        let pair = try Pair(schema: Self.schema, rows: Self.rows, extra: Self.extra, tables: [])
        try pair.database.execute(sql)
        try pair.native.execute(script: sql)
        try pair.database.addMigration(source: .file(pair.source)) { if $0.name == "t" { $0.sourceTable = "t" } }
        if isInBlock {
            try pair.database.write { access in
                #expect(texts(try access.fetchAll("SELECT count(*) FROM main.t")) == ["20"])
                try access.execute("UPDATE main.t SET x = 5 WHERE id = 20")
            }
            try pair.native.execute("UPDATE main.t SET x = 5 WHERE id = 20")
        }
        try compare(pair, Self.uses)
        #expect(pair.database.migrationStatistics.drained["t"] == [.temporaryTable: 1])
        try pair.finish()
        try compare(pair, Self.uses)
        try compare(pair, ["DROP TABLE IF EXISTS temp.t", "DROP VIEW IF EXISTS temp.v"] + Self.uses)
    }

    /// By then, the overlay's own TEMP view of that name has gone. A rollback brings it back.
    @Test(
        arguments: [
            ["CREATE INDEX tx ON t(x)"], ["PRAGMA foreign_key_check"],
            ["DROP VIEW v", "CREATE VIEW v AS SELECT id FROM t"],
            ["CREATE INDEX tx ON t(x)", "SAVEPOINT s", "ROLLBACK TO s"], ["DROP VIEW v"], [],
        ],
        ["CREATE TEMP VIEW v AS SELECT 4 AS id", "CREATE TEMP TABLE v(id)"]
    )
    func aTransactionMakesOneOfTheNameOfAView(_ before: [String], _ made: String) throws {
        let again = ["SELECT * FROM v", "DELETE FROM t WHERE id IN (SELECT id FROM v)", "SELECT * FROM t ORDER BY id"]
        for beginning in ["BEGIN", "BEGIN IMMEDIATE", "SAVEPOINT a"] {
            let pair = try Pair(schema: Self.schema, rows: Self.rows, extra: Self.extra, tables: ["t"], moved: 7)
            let end = beginning == "SAVEPOINT a" ? "RELEASE a" : "COMMIT"
            try compare(pair, [beginning] + before + [made, "SELECT * FROM v", end] + again + again)
            try compare(pair, ["SELECT name FROM main.sqlite_master WHERE type = 'view'"])
            try pair.finish()
            try compare(pair, again + [made.contains("VIEW") ? "DROP VIEW v" : "DROP TABLE v"] + again)
        }
    }

    /// Then the overlay's own view is back, and is dropped together with the view that it stands for.
    @Test(
        arguments: [
            ["BEGIN", "ROLLBACK"], ["BEGIN IMMEDIATE", "ROLLBACK"], ["SAVEPOINT s", "ROLLBACK TO s", "RELEASE s"],
        ],
        ["CREATE TEMP VIEW v AS SELECT 4 AS id", "CREATE TEMP TABLE v(id)", "DROP VIEW v"]
    )
    func oneThatIsRolledBackLeavesNothing(_ transaction: [String], _ made: String) throws {
        let pair = try Pair(schema: Self.schema, rows: Self.rows, extra: Self.extra, tables: ["t"], moved: 7)
        let uses = [
            "SELECT * FROM v ORDER BY 1", "UPDATE t SET x = (SELECT max(y) FROM v) WHERE id = 8",
            "SELECT * FROM t ORDER BY 1",
        ]
        try compare(pair, [transaction[0], made] + transaction.dropFirst() + uses)
        let other = try Database(path: pair.target)
        for sql in ["DROP VIEW v", "CREATE VIEW v AS SELECT id, x * 100 AS y FROM t"] {
            try other.execute(sql)
            try pair.native.execute(sql)
        }
        try compare(pair, uses + ["DROP VIEW v", "CREATE VIEW v AS SELECT id, 5 AS y FROM t"] + uses)
        try pair.finish()
        try compare(pair, uses + ["DROP VIEW v"] + uses)
    }

    @Test func aReaderThatHasOneRefusesUntilTheTableHasMoved() throws {
        let pair = try Pair(schema: Self.schema, rows: Self.rows, tables: [])
        var configuration = DatabaseConfiguration()
        configuration.readerCount = 1
        let database = try Database(path: pair.target, configuration: configuration)
        do {
            try database.read { try $0.execute("CREATE TEMP TABLE t(id)") }
        } catch {
            // Readers can have no TEMP tables.
            #expect((error as? SQLiteError)?.code == .readOnly)
            return
        }
        try database.addMigration(source: .file(pair.source)) { if $0.name == "t" { $0.sourceTable = "t" } }
        let error = #expect(throws: MigrationError.self) { try database.read { try $0.fetchAll("SELECT * FROM t") } }
        #expect(error?.code == .refusedStatement && error?.reason == .temporaryTable)
        try finishMigration(database)
        #expect(try database.read { try $0.fetchAll("SELECT * FROM t") } == [])
    }

    @Test func aBorrowedConnectionThatHasOneIsRefused() throws {
        let pair = try Pair(schema: Self.schema, rows: Self.rows, tables: ["t"], moved: 5)
        let foreign = try ForeignConnection(pair.target)
        try foreign.execute("CREATE TEMP TABLE t(id)")
        let error = #expect(throws: MigrationError.self) { try foreign.install() }
        #expect(error?.code == .unsupported && error?.message.contains("TEMP table t") == true)
    }
}
