import Midstream
import MidstreamTesting
import SQLiteConnection
import SQLiteFeatures
import Testing

/// Statements that write the target's table on a connection of other code, as `MigrationOverlay.rewritten` gives them. What they do to the
/// rows is compared by ``BorrowedOracleTests``.
@Suite(.needs(.returning)) struct RewritingTests {
    private static func pair(_ extra: String = "", moved: Int64 = 40) throws -> Pair {
        try Pair(
            schema: "CREATE TABLE messages(id INTEGER PRIMARY KEY, sender TEXT, body TEXT UNIQUE)",
            rows: """
                INSERT INTO messages WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100)
                SELECT i, 'user ' || (i % 7), 'body ' || i FROM n
                """,
            extra: extra,
            tables: ["messages"],
            moved: moved
        )
    }

    private static let upsert = """
        INSERT INTO messages(id, sender) VALUES (?, 'new') ON CONFLICT(id) DO UPDATE SET sender = sender || '+' RETURNING sender
        """

    /// Runs a kept statement once.
    private static func run(_ statement: Statement, _ value: Int64) throws -> String? {
        defer { statement.reset() }
        try statement.bind(value, at: 1)
        let result: SQLiteValue? = try statement.step() ? statement.value(at: 0) : nil
        while try statement.step() {}
        guard case .text(let text)? = result else { return nil }
        return text
    }

    @Test func whatSQLiteTakesStaysAsItIs() throws {
        let pair = try Self.pair("CREATE TABLE other(a PRIMARY KEY)")
        let foreign = try ForeignConnection(pair.target)
        let overlay = try foreign.install()
        for sql in [
            "SELECT * FROM messages", "INSERT INTO messages(sender) VALUES ('conflict')",
            "DELETE FROM messages -- RETURNING",
            "INSERT INTO other VALUES (1) ON CONFLICT DO NOTHING", "DELETE FROM main.messages RETURNING id",
            "no SQL; RETURNING",
        ] {
            #expect(try overlay.rewritten(sql) == sql)
        }
    }

    /// The statement is prepared once. It meets a row that has yet to move, one that has moved, and no row; then all rows have moved,
    /// and the overlay lets go of the table.
    @Test func aStatementThatIsKeptStaysRight() throws {
        let pair = try Self.pair()
        let foreign = try ForeignConnection(pair.target)
        let overlay = try foreign.install()
        let statement = try foreign.wrapped.prepare(try overlay.rewritten(Self.upsert))
        #expect(try Self.run(statement, 70) == "user 0+")
        #expect(try Self.run(statement, 70) == "user 0++")
        #expect(try Self.run(statement, 20) == "user 6+")
        #expect(try Self.run(statement, 101) == "new")
        try pair.database.stepMigration(rows: 40)
        #expect(try Self.run(statement, 75) == "user 5+")
        #expect(try Self.run(statement, 85) == "user 1+")
        while try !pair.database.stepMigration().isFinished {}
        #expect(try Self.run(statement, 86) == "user 2+")
        let update = try foreign.wrapped.prepare(
            try overlay.rewritten("UPDATE messages SET body = id WHERE id = ? RETURNING body")
        )
        #expect(try Self.run(update, 88) == "88")
        try overlay.refresh()
        #expect(try Self.run(statement, 87) == "user 3+")
        #expect(throws: SQLiteError.self) { try Self.run(update, 89) }
        #expect(try overlay.rewritten(Self.upsert) == Self.upsert)
        #expect(try foreign.rows("SELECT count(*), count(DISTINCT id) FROM messages") == ["101|101"])
    }

    /// With few rows, SQLite looks at each row of the target, and would do so before it promotes rows.
    @Test(arguments: [true, false]) func whereSQLiteWouldLookAtEachRowTheStatementIsRefused(_ isPreparedBefore: Bool)
        throws
    {
        let pair = try Self.pair(moved: 2)
        let foreign = try ForeignConnection(pair.target)
        let overlay = try foreign.install()
        let delete = try overlay.rewritten("DELETE FROM messages WHERE id > ? RETURNING body")
        let kept = isPreparedBefore ? try foreign.wrapped.prepare(delete) : nil
        try foreign.execute("ANALYZE main")
        // The rows that SQLite has counted are gone, so that none is there when it looks.
        try overlay.execute("DELETE FROM messages WHERE id < 3")
        let error = #expect(throws: SQLiteError.self) { _ = try Self.run(kept ?? foreign.wrapped.prepare(delete), 98) }
        #expect(error?.message.contains("ANALYZE has counted few rows") ?? false, "\(error?.message ?? "")")
        #expect(try foreign.rows("SELECT count(*) FROM messages") == ["98"])
        #expect(try overlay.fetchAll("DELETE FROM messages WHERE id > 98 RETURNING body").count == 2)
        // An UPDATE does not depend on it.
        let update = try foreign.wrapped.prepare(
            try overlay.rewritten("UPDATE messages SET sender = 'x' WHERE id = ? RETURNING body")
        )
        #expect(try Self.run(update, 90) == "body 90")
        _ = kept
    }

    @Test func keysThatAreEnforcedLaterAreNoticed() throws {
        // Rows of a table with such an index cannot be found by their keys.
        let pair = try Pair(
            schema: """
                CREATE TABLE t(id INTEGER PRIMARY KEY, k); CREATE TABLE c(x REFERENCES t(id));
                CREATE UNIQUE INDEX i ON c(x) WHERE x > 5
                """,
            rows: "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
            tables: ["t"]
        )
        let foreign = try ForeignConnection(pair.target)
        let overlay = try foreign.install()
        let sql = "INSERT INTO t(id) VALUES (?) ON CONFLICT(id) DO UPDATE SET k = k || 'c' RETURNING k"
        let statement = try foreign.wrapped.prepare(try overlay.rewritten(sql))
        #expect(try Self.run(statement, 1) == "ac")
        try foreign.execute("PRAGMA foreign_keys = ON")
        let error = #expect(throws: SQLiteError.self) { try Self.run(statement, 2) }
        #expect(error?.message.contains("a foreign key connects it with another table") ?? false)
        let refusal = #expect(throws: MigrationError.self) { try overlay.rewritten(sql) }
        #expect(refusal?.code == .refusedStatement)
        #expect(refusal?.message.contains("an enforced foreign key") ?? false)
        #expect(try foreign.rows("SELECT id, k FROM t") == ["1|ac", "2|b"])
    }

    @Test func aChangedSchemaIsNoticed() throws {
        let pair = try Self.pair("CREATE TABLE other(a)")
        let foreign = try ForeignConnection(pair.target)
        let overlay = try foreign.install()
        let statement = try foreign.wrapped.prepare(try overlay.rewritten(Self.upsert))
        try pair.native.execute("SELECT 1")
        let outside = try Connection(path: pair.target)
        try outside.execute(
            "CREATE TRIGGER later AFTER UPDATE ON messages BEGIN INSERT INTO other SELECT count(*) FROM messages; END"
        )
        outside.close()
        let error = #expect(throws: SQLiteError.self) { try Self.run(statement, 70) }
        #expect(error?.message.contains("MigrationOverlay.refresh") ?? false, "\(error?.message ?? "")")
        #expect(try foreign.rows("SELECT count(*) FROM other") == ["0"])
    }

    /// While the table moves, its triggers make SQLite read all rows before it inserts the first one.
    @Test func aStatementThatReadsWhatItWritesIsRefusedOnceAllRowsHaveMoved() throws {
        let pair = try Self.pair(moved: 98)
        let foreign = try ForeignConnection(pair.target)
        let overlay = try foreign.install()
        let sql =
            "INSERT INTO messages(sender) SELECT sender FROM messages WHERE id > ? ORDER BY id LIMIT 4 ON CONFLICT DO NOTHING"
        let statement = try foreign.wrapped.prepare(try overlay.rewritten(sql + " RETURNING sender"))
        #expect(try Self.run(statement, 98) == "user 1")
        #expect(try foreign.rows("SELECT count(*) FROM messages") == ["102"])
        while try !pair.database.stepMigration().isFinished {}
        let error = #expect(throws: SQLiteError.self) { try Self.run(statement, 100) }
        #expect(error?.message.contains("has moved") ?? false, "\(error?.message ?? "")")
        #expect(try foreign.rows("SELECT count(*) FROM messages") == ["102"])
        // A statement that reads another table is right.
        #expect(try Self.run(foreign.wrapped.prepare(try overlay.rewritten(Self.upsert)), 102) == "user 2+")
        try overlay.refresh()
        #expect(try foreign.rows(sql + " RETURNING sender", [101]) == ["user 2+"])
    }

    @Test func whatMustMoveFirstIsRefused() throws {
        let pair = try Self.pair("CREATE TABLE other(a)")
        let foreign = try ForeignConnection(pair.target)
        let overlay = try foreign.install()
        for (sql, reason) in [
            ("DELETE FROM messages WHERE random() > 0 RETURNING id", "a function whose value may change"),
            ("UPDATE messages SET body = a FROM other WHERE other.rowid = id", "a rowid beside FROM"),
            ("INSERT INTO messages(id) SELECT changes() + a FROM other WHERE 1 ON CONFLICT DO NOTHING", "changes()"),
        ] {
            let error = #expect(throws: MigrationError.self) { try overlay.rewritten(sql) }
            #expect(error?.code == .refusedStatement)
            #expect(error?.message.contains(reason) ?? false, "\(error?.message ?? "")")
        }
    }
}
