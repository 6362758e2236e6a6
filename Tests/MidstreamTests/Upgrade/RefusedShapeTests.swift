import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// If a new shape or a target refuses rows, the error names them, by the table and their keys.
@Suite struct RefusedShapeTests {
    private static let rows = "INSERT INTO t VALUES (1, 'a'), (7, 'b'), (9, 'B')"

    /// SQLite refuses each of these as well, when the rows are copied by hand.
    @Test(arguments: [
        ("n TEXT UNIQUE COLLATE NOCASE", "", ["UNIQUE constraint failed: t.n", "rowid 9", "rowid 7"]),
        (
            "n TEXT", "CREATE UNIQUE INDEX i ON t(n COLLATE NOCASE)",
            ["UNIQUE constraint failed: t.n", "rowid 9", "rowid 7"]
        ),
        ("n TEXT CHECK (n <> 'b')", "", ["CHECK", "rowid 7"]),
    ])
    func rowsThatANewShapeRefusesAreNamed(_ column: String, _ index: String, _ words: [String]) throws {
        let folder = TemporaryFolder()
        let shape = "CREATE TABLE t(id INTEGER PRIMARY KEY, \(column)); \(index)"
        let plain = try Connection(path: folder.file("plain.db"))
        try plain.execute(script: shape)
        #expect(throws: SQLiteError.self) { try plain.execute(Self.rows) }
        let database = try Database(path: folder.file("main.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, n TEXT); \(Self.rows)")
        // A small table would get the index at once.
        var options = SchemaOptions()
        options.rowsChangedAtOnce = 0
        let error = #expect(throws: (any Error).self) {
            try database.upgrade(to: DatabaseSchema(sql: shape), options: options)
        }
        let message = error.map { "\($0)" } ?? ""
        for word in words + ["table t", "Nothing has been changed"] {
            #expect(message.contains(word), "\(message)")
        }
        #expect(!message.contains("midstream_"), "\(message)")
        #expect(texts(try database.fetchAll("SELECT * FROM t ORDER BY id")) == ["1|a", "7|b", "9|B"])
    }

    /// ADD COLUMN checks no row, and CREATE INDEX names none.
    @Test(arguments: ["", "CREATE INDEX i ON t(abs(n))", "CREATE INDEX i ON t(id) WHERE abs(n) > 1"])
    func rowsOnWhichAnExpressionFailsAreNamed(_ index: String) throws {
        if index.isEmpty, !SQLiteFeature.generatedColumns.isAvailable { return }
        let folder = TemporaryFolder()
        let database = try Database(path: folder.file("main.db"))
        try database.execute(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, n); INSERT INTO t VALUES (1, 1), (7, -9223372036854775807 - 1)"
        )
        let column = index.isEmpty ? ", g AS (abs(n))" : ""
        let schema = DatabaseSchema(sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, n\(column)); \(index)")
        for run in [{ try database.plan(for: schema) }, { try database.upgrade(to: schema) }] {
            let error = #expect(throws: MigrationError.self) { _ = try run() }
            #expect(error?.code == .rowRefused && error?.key == 7)
            #expect(error?.message.contains("of table t fails on 1 row of table t (rowid 7)") == true)
        }
        try database.execute("DELETE FROM t WHERE id = 7")
        #expect(try database.upgrade(to: schema).changes.map(\.way) == [.statements])
        #expect(texts(try database.fetchAll("SELECT * FROM t")) == [index.isEmpty ? "1|1|1" : "1|1"])
    }

    /// For ADD COLUMN, SQLite would say only that a CHECK failed.
    @Test(arguments: ["a DEFAULT 5 CHECK (a > 9)", "a CHECK (a IS NOT NULL)"])
    func rowsThatANewColumnDoesNotFitAreNamed(_ column: String) throws {
        let folder = TemporaryFolder()
        let database = try Database(path: folder.file("main.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, n); INSERT INTO t VALUES (3, 1)")
        let schema = DatabaseSchema(sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, n, \(column))")
        let error = #expect(throws: (any Error).self) { try database.upgrade(to: schema) }
        let message = error.map { "\($0)" } ?? ""
        for word in ["CHECK", "table t", "rowid 3", "Nothing has been changed"] {
            #expect(message.contains(word), "\(message)")
        }
        try database.execute("DELETE FROM t")
        _ = try database.upgrade(to: schema)
    }

    @Test func aTextThatIsToBeAnIntegerPrimaryKeyIsNamed() throws {
        let folder = TemporaryFolder()
        let database = try Database(path: folder.file("main.db"))
        try database.execute("CREATE TABLE t(id TEXT PRIMARY KEY, n); INSERT INTO t VALUES ('7', 1), ('6f96-11d0', 2)")
        let schema = DatabaseSchema(sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, n)")
        let error = #expect(throws: SQLiteError.self) { try database.upgrade(to: schema) }
        #expect(error?.code == .mismatch)
        let message = error?.message ?? ""
        #expect(message.contains("the row with rowid 2 of table t does not fit"), "\(message)")
        #expect(!message.contains("midstream_"), "\(message)")
    }

    @Test func rowsOfASourceThatWouldBeEqualAreNamedBoth() throws {
        let error = #expect(throws: MigrationError.self) {
            _ = try SmallMove(
                source:
                    "CREATE TABLE t(id INTEGER PRIMARY KEY, n TEXT); CREATE INDEX i ON t(n COLLATE NOCASE); \(Self.rows)",
                target: "CREATE TABLE t(id INTEGER PRIMARY KEY, n TEXT UNIQUE COLLATE NOCASE)"
            )
        }
        #expect(error?.code == .keyCollision && error?.key == 7)
        #expect(
            error?.message.contains("source table t, such as those with rowid 7 and rowid 9,") == true,
            "\(error?.message ?? "")"
        )
    }

    @Test func rowsWithoutRowidsThatWouldBeEqualAreNamedByTheirKeys() throws {
        let error = #expect(throws: MigrationError.self) {
            _ = try SmallMove(
                source: "CREATE TABLE t(a TEXT, b, n TEXT, PRIMARY KEY (a, b)) WITHOUT ROWID; CREATE INDEX i ON t(n); "
                    + "INSERT INTO t VALUES ('x', 1, 'n'), ('x', 2, 'm'), ('y', 1, 'n')",
                target: "CREATE TABLE t(a TEXT, b, n TEXT UNIQUE, PRIMARY KEY (a, b)) WITHOUT ROWID"
            )
        }
        #expect(error?.message.contains("key ('x', 1) and key ('y', 1)") == true, "\(error?.message ?? "")")
    }

    /// The remedy that the message names works.
    @Test(.needs(.indexesOnExpressions)) func anIndexThatIsMissingIsNamedInWordsOfTheSchema() throws {
        let source = "CREATE TABLE t(id INTEGER PRIMARY KEY, n); INSERT INTO t VALUES (1, 2)"
        let target = "CREATE TABLE t(id TEXT PRIMARY KEY, n)"
        let error = #expect(throws: MigrationError.self) { _ = try SmallMove(source: source, target: target) }
        let message = error?.message ?? ""
        #expect(message.contains("has no index on (id, converted to TEXT)"), "\(message)")
        #expect(message.contains("is made of id || '', and create an index on id || ''"), "\(message)")
        #expect(!message.contains("midstream_"), "\(message)")
        let move = try SmallMove(source: "\(source); CREATE INDEX i ON t(id || '')", target: target) {
            $0.columns["id"] = .expression("id || ''")
        }
        try finishMigration(move.database)
        #expect(texts(try move.database.fetchAll("SELECT typeof(id), * FROM t")) == ["text|1|2"])
    }

    @Test func anErrorOfASchemaHasItsPlace() throws {
        let folder = TemporaryFolder()
        let database = try Database(path: folder.file("main.db"))
        func message(_ sql: String) -> String {
            do {
                _ = try database.plan(for: DatabaseSchema(sql: sql))
                return ""
            } catch {
                return (error as? MigrationError)?.message ?? (error as? SQLiteError)?.message ?? "\(error)"
            }
        }
        let broken = message("CREATE TABLE t(a);\n\nCREATE TABLE u(\n  ä INTEGER,,\n  b);")
        #expect(broken.contains("near \",\": syntax error"))
        // Since 3.38, SQLite tells which word is wrong. The place of the statement is known in any case.
        #expect(broken.hasPrefix("line 4, column 13: ") || broken.hasPrefix("line 3, column 1: "), "\(broken)")
        let other = message("CREATE TABLE t(a);\n  INSERT INTO t VALUES (1)")
        #expect(other.hasPrefix("line 2, column 3: "), "\(other)")
    }

    @Test(arguments: ["t(n COLLATE NOCASE)", "t(n) WHERE id < 9"]) func rowsInTheWayOfANewIndexAreNamed(_ on: String)
        throws
    {
        let folder = TemporaryFolder()
        let database = try Database(path: folder.file("main.db"))
        try database.execute(
            """
            CREATE TABLE t(id INTEGER PRIMARY KEY, n TEXT); CREATE INDEX i ON t(n);
            INSERT INTO t VALUES (3, 'other'), (7, 'x'), (8, \(on.contains("NOCASE") ? "'X'" : "'x'")), (9, NULL), (10, NULL);
            """
        )
        let schema = DatabaseSchema(
            sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, n TEXT); CREATE UNIQUE INDEX i ON \(on)"
        )
        let error = #expect(throws: MigrationError.self) { try database.upgrade(to: schema) }
        #expect(error?.code == .keyCollision && error?.table == "t")
        let words = "several rows of table t, such as those with rowid 7 and rowid 8, would have equal values of (n"
        #expect(
            error?.message.contains(words) == true && error?.message.contains("index i is unique:") == true,
            "\(error?.message ?? "")"
        )
        try database.execute("DELETE FROM t WHERE id = 8")
        try database.upgrade(to: schema)
    }
}
