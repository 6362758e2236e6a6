import Midstream
import SQLiteC
import SQLiteConnection
import SQLiteFeatures
import Testing

/// Names that are equal to Swift and different to SQLite, and definitions that are not valid UTF-8, such as old
/// programs have written.
@Suite struct LegibleSchemaTests {
    private let folder = TemporaryFolder()
    private var source: String { folder.file("old.db") }
    private var target: String { folder.file("new.db") }

    /// A letter with an accent, in one piece and in two; and the sign for Kelvin, which equals K in Swift.
    private static let pairs = [["\u{E9}", "e\u{301}"], ["\u{C9}", "E\u{301}"], ["K", "\u{212A}"]]

    private func plain(_ path: String, _ sql: String) throws {
        let connection = try Connection(path: path)
        try connection.execute(script: sql)
        connection.close()
    }

    /// Runs statements in which `$` stands for a byte that is not valid UTF-8.
    private func latin(_ path: String, _ sql: String) throws {
        let foreign = try ForeignConnection(path)
        let bytes = sql.utf8.map { $0 == UInt8(ascii: "$") ? 0xE9 : $0 } + [0]
        let code = bytes.withUnsafeBufferPointer { buffer in
            buffer.withMemoryRebound(to: CChar.self) { sqlite3_exec(foreign.handle, $0.baseAddress, nil, nil, nil) }
        }
        #expect(code == SQLITE_OK)
        #expect(foreign.close() == SQLITE_OK)
    }

    private func begin(_ wish: @escaping @Sendable (inout TableMigration) -> Void) throws -> Database {
        let database = try Database(path: target)
        try database.addMigration(source: .file(source), filter: wish)
        return database
    }

    /// - Returns: The message of the error, which must have the code `unsupported` and leave nothing behind.
    private func refusal(_ body: () throws -> Void) throws -> String {
        let error = #expect(throws: MigrationError.self, performing: body)
        #expect(error?.code == .unsupported, "\(String(describing: error))")
        if Files.size(target) > 0 {
            #expect(try MovingFixture.objects(target).filter { $0.contains("midstream") } == [])
        }
        return error?.message ?? ""
    }

    // MARK: Names

    @Test(arguments: pairs, [true, false]) func tablesThatLookTheSameAreRefused(_ names: [String], _ areTargets: Bool)
        throws
    {
        try plain(source, "CREATE TABLE a(id INTEGER PRIMARY KEY); CREATE TABLE b(id INTEGER PRIMARY KEY)")
        try plain(target, "CREATE TABLE a(id INTEGER PRIMARY KEY); CREATE TABLE b(id INTEGER PRIMARY KEY)")
        for (name, new) in zip(["a", "b"], names) {
            try plain(areTargets ? target : source, "ALTER TABLE \(name) RENAME TO \"\(new)\"")
        }
        let message = try refusal {
            _ = try begin { table in
                table.sourceTable = areTargets ? "a" : names[table.name == "a" ? 0 : 1]
            }
        }
        #expect(message.contains("look the same"))
    }

    /// Names that look the same only if the case of letters is ignored are not refused.
    @Test(arguments: [["\u{E9}", "\u{C9}"], ["k", "\u{212A}"]]) func namesThatDifferByMoreAreTwo(_ names: [String])
        throws
    {
        let (one, other) = ("\"\(names[0])\"", "\"\(names[1])\"")
        let tables = "CREATE TABLE \(one)(id INTEGER PRIMARY KEY, v); CREATE TABLE \(other)(id INTEGER PRIMARY KEY, v);"
        try plain(source, tables + "INSERT INTO \(one) VALUES (1, 1); INSERT INTO \(other) VALUES (1, 2), (2, 2)")
        try plain(target, tables)
        let database = try begin { $0.sourceTable = $0.name }
        let sums = "SELECT (SELECT sum(v) FROM \(one)), (SELECT sum(v) FROM \(other))"
        try database.stepMigration(rows: 1)
        #expect(texts(try database.fetchAll(sums)) == ["1|4"])
        try database.execute("UPDATE \(other) SET v = 3 WHERE id = 2")
        #expect(texts(try database.fetchAll(sums)) == ["1|5"])
        try finishMigration(database)
        #expect(texts(try database.fetchAll(sums)) == ["1|5"])
    }

    @Test(arguments: pairs, ["both", "one in each"])
    func columnsThatLookTheSameAreRefused(_ names: [String], _ where: String) throws {
        let isOneInEach = `where` != "both"
        let columns = names.map { "\"\($0)\" TEXT" }
        try plain(
            source,
            "CREATE TABLE t(id INTEGER PRIMARY KEY, \(isOneInEach ? columns[0] : columns.joined(separator: ", ")))"
        )
        try plain(
            target,
            "CREATE TABLE t(id INTEGER PRIMARY KEY, \(isOneInEach ? columns[1] : columns.joined(separator: ", ")))"
        )
        let message = try refusal {
            _ = try begin { table in
                table.sourceTable = "t"
                table.unmatchedColumns = .ignored
            }
        }
        #expect(message.contains("look the same"))
    }

    /// Conditions are texts like any others, and may have any characters.
    @Test func conditionsThatLookTheSameAreTwo() throws {
        try plain(source, "CREATE TABLE s(id INTEGER PRIMARY KEY, k TEXT)")
        try plain(
            source,
            "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20) "
                + "INSERT INTO s SELECT i, CASE WHEN i < 8 THEN '\u{E9}' ELSE 'e\u{301}' END FROM n"
        )
        try plain(
            target,
            "CREATE TABLE p(id INTEGER PRIMARY KEY, k TEXT); CREATE TABLE q(id INTEGER PRIMARY KEY, k TEXT)"
        )
        let database = try begin { table in
            table.sourceTable = "s"
            table.condition = table.name == "p" ? "k = '\u{E9}'" : "k = 'e\u{301}'"
            table.verification = .complete
        }
        let counts = "SELECT (SELECT count(*) FROM p), (SELECT count(*) FROM q)"
        #expect(texts(try database.fetchAll(counts)) == ["7|13"])
        try database.stepMigration(rows: 3)
        #expect(texts(try database.fetchAll(counts)) == ["7|13"])
        try finishMigration(database)
        #expect(texts(try database.fetchAll(counts)) == ["7|13"])
    }

    @Test(arguments: [0, 1000]) func aShapeWithColumnsThatLookTheSameIsRefused(_ rows: Int) throws {
        try plain(target, "CREATE TABLE t(id INTEGER PRIMARY KEY, \"\u{E9}\" TEXT); INSERT INTO t VALUES (1, 'a')")
        let database = try Database(path: target)
        let shape =
            "CREATE TABLE t(id INTEGER PRIMARY KEY, \"\u{E9}\" TEXT, \"e\u{301}\" TEXT NOT NULL DEFAULT 'd', CHECK (id > -5))"
        var options = SchemaOptions()
        options.rowsChangedAtOnce = rows
        var message = try refusal { try database.upgrade(to: DatabaseSchema(sql: shape), options: options) }
        #expect(message.contains("look the same"))
        message = try refusal {
            try database.write { access in
                _ = try access.rebuild("t") { table in
                    table.schema = shape
                    table.rowsCopiedAtOnce = rows
                }
            }
        }
        #expect(message.contains("look the same"))
        #expect(texts(try database.fetchAll("SELECT * FROM t")) == ["1|a"])
    }

    // MARK: Texts

    private static let definition = "(id INTEGER PRIMARY KEY, k TEXT, v)"

    @Test(arguments: ["view", "trigger", "target", "source"]) func whatIsNotValidIsRefused(_ place: String) throws {
        let invalid = "(id INTEGER PRIMARY KEY, k TEXT DEFAULT '$', v)"
        try latin(
            source,
            "CREATE TABLE s\(place == "source" ? invalid : Self.definition); INSERT INTO s VALUES (1, '$', 1)"
        )
        try latin(target, "CREATE TABLE t\(place == "target" ? invalid : Self.definition); CREATE TABLE log(x)")
        if place == "view" { try latin(target, "CREATE VIEW w AS SELECT * FROM t WHERE k = '$'") }
        if place == "trigger" {
            try latin(target, "CREATE TRIGGER w AFTER UPDATE ON t BEGIN INSERT INTO log VALUES ('$'); END")
        }
        let message = try refusal { _ = try begin { if $0.name == "t" { $0.sourceTable = "s" } } }
        #expect(message.contains("UTF-8"))
    }

    /// U+FFFD is a character like any other, and a table that has nothing to do with the move may have any text.
    @Test func whatIsValidIsNotRefused() throws {
        try plain(source, "CREATE TABLE s\(Self.definition); INSERT INTO s VALUES (1, '\u{FFFD}', 1), (2, 'x', 2)")
        try plain(target, "CREATE TABLE t\(Self.definition); CREATE VIEW w AS SELECT * FROM t WHERE k = '\u{FFFD}'")
        try latin(target, "CREATE TABLE other(x DEFAULT '$')")
        let database = try begin { if $0.name == "t" { $0.sourceTable = "s" } }
        #expect(texts(try database.fetchAll("SELECT id FROM w")) == ["1"])
        try database.execute("INSERT INTO other DEFAULT VALUES")
        #expect(try database.fetchValue(String.self, "SELECT hex(x) FROM other") == "E9")
    }

    /// A program without Midstream makes the view, and knows nothing of the move.
    @Test func aViewThatComesLaterAndIsNotValidIsTold() throws {
        try plain(source, "CREATE TABLE s\(Self.definition); INSERT INTO s VALUES (1, 'x', 1)")
        try plain(target, "CREATE TABLE t\(Self.definition)")
        let database = try begin { if $0.name == "t" { $0.sourceTable = "s" } }
        try latin(target, "CREATE VIEW w AS SELECT * FROM t WHERE k = '$'")
        let error = #expect(throws: MigrationError.self) { try database.fetchAll("SELECT * FROM w") }
        #expect(error?.code == .unsupported)
        try plain(target, "DROP VIEW w")
        #expect(try database.fetchAll("SELECT * FROM t").count == 1)
    }

    @Test(arguments: [0, 1000]) func aTableWhoseDefinitionIsNotValidIsNotRebuilt(_ rows: Int) throws {
        try latin(target, "CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT DEFAULT '$'); INSERT INTO t(id) VALUES (1)")
        let database = try Database(path: target)
        var message = try refusal {
            try database.write { access in
                _ = try access.rebuild("t") { table in
                    table.columns["w"] = .value(.integer(5))
                    table.schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT, w INTEGER)"
                    table.rowsCopiedAtOnce = rows
                }
            }
        }
        #expect(message.contains("UTF-8"))
        var options = SchemaOptions()
        options.rowsChangedAtOnce = rows
        let schema = DatabaseSchema(
            sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT, w INTEGER NOT NULL DEFAULT 5, CHECK (w > 1))"
        )
        message = try refusal { try database.upgrade(to: schema, options: options) }
        #expect(message.contains("UTF-8"))
        #expect(try database.fetchValue(String.self, "SELECT hex(k) FROM t") == "E9")
    }

    @Test func aFileOfWhichSomethingIsNotValidDoesNotMoveAsAWhole() throws {
        try latin(source, "CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT DEFAULT '$'); INSERT INTO t(id) VALUES (1)")
        let message = try refusal { _ = try Database(path: target, movingAllOf: .file(source)) }
        #expect(message.contains("UTF-8"))
        #expect(Files.size(target) == 0)
    }

    /// The value of the default is invalid, but the text of the definition is valid.
    @Test func aDefaultThatIsNotValidIsWhatRowsGet() throws {
        try plain(source, "CREATE TABLE s(id INTEGER PRIMARY KEY); INSERT INTO s VALUES (1), (2)")
        try plain(target, "CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT DEFAULT (CAST(x'e9' AS TEXT)))")
        let database = try begin { table in
            table.sourceTable = "s"
            table.columns["k"] = .defaultValue
        }
        try database.stepMigration(rows: 1)
        let rows = "SELECT id, typeof(k), hex(k) FROM t ORDER BY id"
        #expect(texts(try database.fetchAll(rows)) == ["1|text|E9", "2|text|E9"])
        try finishMigration(database)
        #expect(texts(try database.fetchAll(rows)) == ["1|text|E9", "2|text|E9"])
    }

    /// Midstream cannot tell the columns of such an index.
    @Test func aUniqueIndexWhoseNameIsNotValidIsHeldTo() throws {
        try plain(
            source,
            "CREATE TABLE s(id INTEGER PRIMARY KEY, a); INSERT INTO s VALUES (1, 'a'), (2, 'b'), (3, 'c')"
        )
        try plain(target, "CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        let database = try begin { $0.sourceTable = "s" }
        try database.stepMigration(rows: 1)
        try latin(target, "CREATE UNIQUE INDEX v$ ON t(a)")
        let error = #expect(throws: SQLiteError.self) { try database.execute("UPDATE t SET a = 'c' WHERE id = 1") }
        #expect(error?.code.primary == .constraint)
        try database.execute("INSERT INTO t VALUES (4, 'd')")
        try finishMigration(database)
        #expect(texts(try database.fetchAll("SELECT * FROM t ORDER BY id")) == ["1|a", "2|b", "3|c", "4|d"])
    }

    // MARK: Truth values

    /// For rows from before, SQLite reads the column as the integer 1, which no row can be written with.
    @Test(
        arguments: ["true", "FALSE", "((/* */ true))", "(+(FALSE))"],
        [MigrationVerification.count, .batches, .complete]
    )
    func aTextColumnThatWasAddedWithATruthValueMoves(_ value: String, _ verification: MigrationVerification) throws {
        guard Connection.libraryVersionNumber >= 3_023_000 else { return }
        try plain(source, "CREATE TABLE s(id INTEGER PRIMARY KEY); INSERT INTO s VALUES (1), (2), (3)")
        try plain(source, "ALTER TABLE s ADD COLUMN v TEXT DEFAULT \(value); INSERT INTO s VALUES (4, 'x')")
        try plain(target, "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)")
        let database = try begin { table in
            table.sourceTable = "s"
            table.verification = verification
        }
        try database.stepMigration(rows: 1)
        let wanted = value.contains("true") ? "1" : "0"
        let rows = "SELECT typeof(v), v FROM t ORDER BY id"
        let expected = [String](repeating: "text|\(wanted)", count: 3) + ["text|x"]
        #expect(texts(try database.fetchAll(rows)) == expected)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t WHERE v = '\(wanted)'") == 3)
        try finishMigration(database)
        #expect(texts(try database.fetchAll(rows)) == expected)
    }
    /// ALTER TABLE adds no column with such a constraint.
    @Test(arguments: [
        "(id INTEGER PRIMARY KEY, v TEXT UNIQUE DEFAULT true)",
        "(id INTEGER, v TEXT DEFAULT FALSE PRIMARY KEY) WITHOUT ROWID",
        "(id INTEGER PRIMARY KEY, v TEXT DEFAULT true, UNIQUE (v, id))",
    ])
    func aKeyMayBeATruthValueByDefault(_ columns: String) throws {
        guard Connection.libraryVersionNumber >= 3_023_000 else { return }
        try plain(
            source,
            "CREATE TABLE t\(columns); INSERT INTO t(id) VALUES (1); INSERT INTO t VALUES (2, 'x'), (3, 'y')"
        )
        try plain(target, "CREATE TABLE t\(columns)")
        let database = try begin { $0.sourceTable = "t" }
        try database.stepMigration(rows: 1)
        try database.execute("UPDATE t SET v = 'z' WHERE v = 'y'")
        let rows = "SELECT id, v GLOB '[01]', typeof(v) FROM t ORDER BY id"
        let expected = ["1|1|text", "2|0|text", "3|0|text"]
        #expect(texts(try database.fetchAll(rows)) == expected)
        try finishMigration(database)
        #expect(texts(try database.fetchAll(rows)) == expected)
    }
}
