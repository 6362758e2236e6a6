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

    private static let statements = [
        "DELETE FROM messages WHERE id > ? RETURNING body",
        "UPDATE messages SET sender = 'x' WHERE id = ? AND body = 'body 99' RETURNING body",
    ]

    enum Analysis: CaseIterable {
        case once, twice, rolledBack
    }

    /// If SQLite takes the target's table for small, it looks at each of its rows, and would do so before it promotes rows.
    @Test(arguments: Analysis.allCases, [true, false])
    func whereSQLiteWouldLookAtEachRowTheStatementIsRefused(_ analysis: Analysis, _ isPreparedBefore: Bool) throws {
        let pair = try Self.pair(
            "CREATE TABLE other(a); CREATE INDEX o ON other(a); INSERT INTO other VALUES (1)",
            moved: 5
        )
        let foreign = try ForeignConnection(pair.target)
        let overlay = try foreign.install()
        let rewritten = try Self.statements.map { try overlay.rewritten($0) }
        let kept = try isPreparedBefore ? rewritten.map { try foreign.wrapped.prepare($0) } : []
        if analysis == .rolledBack { try foreign.execute("ANALYZE main.other; BEGIN") }
        try foreign.execute("ANALYZE main")
        if analysis == .rolledBack { try foreign.execute("ROLLBACK") }
        // The rows that SQLite has counted are gone, so that none is there when it looks.
        try foreign.execute("DELETE FROM messages WHERE id <= 5")
        if analysis == .twice { try foreign.execute("ANALYZE main") }
        for (number, sql) in Self.statements.enumerated() {
            var rows: [Row]?
            do {
                let statement = try isPreparedBefore ? kept[number] : foreign.wrapped.prepare(rewritten[number])
                defer { statement.reset() }
                try statement.bind(98, at: 1)
                rows = []
                while try statement.step() { rows?.append(Row(copying: statement)) }
            } catch {
                rows = nil
                #expect("\(error)".contains("SQLite takes the target's table for small"), "\(error)")
            }
            // Whether SQLite takes the table for small is its own affair. A statement acts on all rows, or fails.
            let expected = number == 0 ? 2 : 0
            #expect(rows == nil || rows?.count == expected)
            if analysis == .once { #expect(rows == nil) }
            if rows == nil { _ = try overlay.fetchAll(sql, [98]) }
        }
        #expect(try foreign.rows("SELECT count(*), max(id) FROM messages") == ["93|98"])
    }

    /// Where another connection writes, a write that begins its transaction waits. After a read it would fail at once.
    @Test(
        arguments: [
            "DELETE FROM messages WHERE id = 99 RETURNING body",
            "UPDATE messages SET sender = 'y' WHERE id IN (SELECT a FROM other) RETURNING id",
            "INSERT INTO messages(id) VALUES (99) ON CONFLICT DO NOTHING",
            "INSERT INTO messages(id, body) SELECT a + 300, a FROM other WHERE 1 ON CONFLICT DO NOTHING",
        ],
        [true, false]
    )
    func preparingBeginsNoSnapshot(_ sql: String, _ isEnforced: Bool) throws {
        let pair = try Self.pair("CREATE TABLE other(a)")
        let foreign = try ForeignConnection(pair.target)
        try foreign.execute("PRAGMA foreign_keys = \(isEnforced ? "ON" : "OFF")")
        let overlay = try foreign.install()
        try foreign.execute("UPDATE messages SET sender = 'z' WHERE id IN (1, 2, 3)")
        try foreign.execute("BEGIN")
        let changes = foreign.wrapped.changes
        let statement = try foreign.wrapped.prepare(try overlay.rewritten(sql))
        #expect(foreign.wrapped.changes == changes)
        let other = try Connection(path: pair.target)
        try other.execute("INSERT INTO other VALUES (1)")
        other.close()
        while try statement.step() {}
        try pair.native.execute("INSERT INTO other VALUES (1)")
        try pair.native.execute("UPDATE messages SET sender = 'z' WHERE id IN (1, 2, 3)")
        try pair.native.execute(sql)
        #expect(foreign.wrapped.changes == pair.native.changes)
        try foreign.execute("COMMIT")
        let all = "SELECT * FROM messages ORDER BY id"
        #expect(try foreign.rows(all) == texts(pair.native.fetchAll(all)))
    }

    /// A row of the INSERT changes, by a key, what SQLite has computed for a later row: it computes all rows first, since the table has
    /// triggers.
    @Test(arguments: [
        ("p", "INSERT INTO p(id, k) SELECT id, x || 'y' FROM c WHERE 1 ON CONFLICT(id) DO UPDATE SET k = excluded.k"),
        ("c", "REPLACE INTO p(id, k) SELECT id + 1, 'q' || id FROM c"),
    ])
    func rowsThatKeysChangeMeanwhileAreRefused(_ moving: String, _ sql: String) throws {
        let pair = try Pair(
            schema: """
                CREATE TABLE p(id INTEGER PRIMARY KEY, k TEXT UNIQUE);
                CREATE TABLE c(id INTEGER PRIMARY KEY, x TEXT REFERENCES p(k) ON UPDATE CASCADE ON DELETE CASCADE);
                """,
            rows: "INSERT INTO p VALUES (1, 'a'), (2, 'b'); INSERT INTO c VALUES (1, 'a'), (2, 'a')",
            tables: [moving]
        )
        if moving == "c" {
            let outside = try Connection(path: pair.target)
            try outside.execute("INSERT INTO p VALUES (1, 'a'), (2, 'b')")
            outside.close()
        }
        let foreign = try ForeignConnection(pair.target)
        try foreign.execute("PRAGMA foreign_keys = ON")
        let overlay = try foreign.install()
        let before = try foreign.rows("SELECT * FROM p UNION ALL SELECT * FROM c")
        if moving == "p" {
            let error = #expect(throws: MigrationError.self) { try overlay.rewritten(sql) }
            #expect(error?.code == .refusedStatement)
        } else {
            let error = #expect(throws: SQLiteError.self) { try foreign.execute(sql) }
            #expect(error?.message.contains("could be changed by the rows before it") ?? false)
        }
        #expect(try foreign.rows("SELECT * FROM p UNION ALL SELECT * FROM c") == before)
    }

    /// The name of a table stays that of the target's table, also when SQLite prepares the statement again.
    @Test func aTemporaryViewThatIsMadeLaterIsNotMeant() throws {
        let pair = try Self.pair("CREATE TABLE other(a); INSERT INTO other VALUES (70), (10)")
        let foreign = try ForeignConnection(pair.target)
        let overlay = try foreign.install()
        let sql =
            "DELETE FROM messages WHERE id IN (SELECT o.a FROM other AS o) OR id IN (SELECT other.a + 1 FROM other) RETURNING id"
        try foreign.execute("BEGIN; CREATE TEMP TABLE gone(a)")
        _ = try overlay.rewritten(sql)
        try foreign.execute("ROLLBACK")
        let kept = try foreign.wrapped.prepare(try overlay.rewritten(sql))
        try foreign.execute("CREATE TEMP VIEW other AS SELECT id AS a FROM messages ORDER BY random() LIMIT 50")
        #expect(throws: MigrationError.self) { try overlay.rewritten(sql) }
        var deleted: Set<Int64> = []
        while try kept.step() { deleted.insert(kept.int64(at: 0)) }
        #expect(deleted == [10, 11, 70, 71])
    }

    /// The trigger keeps promoted rows out of the target.
    @Test func aRowThatATriggerKeepsOutIsNotLost() throws {
        let pair = try Self.pair()
        let foreign = try ForeignConnection(pair.target)
        let overlay = try foreign.install()
        try foreign.execute(
            "CREATE TEMP TRIGGER late BEFORE INSERT ON main.messages WHEN NEW.id > 80 BEGIN SELECT RAISE(IGNORE); END"
        )
        let update = try overlay.rewritten("UPDATE messages SET sender = 'x' WHERE id IN (82, 60, 7) RETURNING id")
        let error = #expect(throws: SQLiteError.self) { try foreign.rows(update) }
        #expect(error?.message.contains("keeps a pending row") ?? false, "\(error?.message ?? "")")
        try foreign.execute("DROP TRIGGER late")
        #expect(try foreign.rows("SELECT count(*) FROM messages") == ["100"])
        #expect(try foreign.rows(update).count == 3)
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
        let outside = try Connection(path: pair.target)
        try outside.execute(
            "CREATE TRIGGER later AFTER UPDATE ON messages BEGIN INSERT INTO other SELECT count(*) FROM messages; END"
        )
        outside.close()
        let error = #expect(throws: SQLiteError.self) { try Self.run(statement, 70) }
        #expect(error?.message.contains("MigrationOverlay.refresh") ?? false, "\(error?.message ?? "")")
        #expect(try foreign.rows("SELECT count(*) FROM other") == ["0"])
    }

    /// The second row meets a pending row that the target does not take.
    @Test(arguments: ["INSERT", "INSERT OR IGNORE", "INSERT OR FAIL", "REPLACE"])
    func aStatementThatFailsHalfWayLeavesNothing(_ verb: String) throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(script: "CREATE TABLE t(id INTEGER PRIMARY KEY, k); INSERT INTO t VALUES (1, 'a'), (9, NULL)")
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, k CHECK (k IS NOT NULL))")
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = $0.name }
        let foreign = try ForeignConnection(folder.file("new.db"))
        let overlay = try foreign.install()
        try foreign.execute("BEGIN")
        let sql = try overlay.rewritten("\(verb) INTO t VALUES (5, 'new'), (9, 'x'), (6, 'y') RETURNING id")
        #expect(throws: SQLiteError.self) { try foreign.rows(sql) }
        #expect(try foreign.rows("SELECT id FROM t") == ["1", "9"])
        try foreign.execute("COMMIT")
    }

    @Test func whatMustMoveFirstIsRefused() throws {
        let pair = try Self.pair("CREATE TABLE other(a); CREATE VIEW some AS SELECT a FROM other")
        let foreign = try ForeignConnection(pair.target)
        let overlay = try foreign.install()
        for (sql, reason) in [
            ("DELETE FROM messages WHERE random() > 0 RETURNING id", "a function whose value may change"),
            ("UPDATE messages SET body = a FROM other WHERE a = id RETURNING id", "UPDATE … FROM"),
            ("DELETE FROM messages WHERE changes() = 3 RETURNING id", "changes()"),
            ("DELETE FROM messages WHERE id IN (SELECT a FROM some) RETURNING id", "a view"),
            ("INSERT INTO messages SELECT id + 200, sender, NULL FROM messages RETURNING id", "reads its own table"),
            ("INSERT INTO messages(id) VALUES (201), (app(1)) ON CONFLICT DO NOTHING", "a function of the application"),
            ("INSERT INTO messages(id) SELECT changes() + a FROM other WHERE 1 ON CONFLICT DO NOTHING", "changes()"),
        ] {
            let error = #expect(throws: MigrationError.self) { try overlay.rewritten(sql) }
            #expect(error?.code == .refusedStatement)
            #expect(error?.message.contains(reason) ?? false, "\(error?.message ?? "")")
        }
    }
}
