import Midstream
import SQLiteC
import SQLiteConnection
import SQLiteFeatures
import Testing

/// Generated columns, and keys that triggers cannot pass on.
@Suite struct ColumnKindTests {
    @Test(.needs(.generatedColumns), arguments: [0, 2] as [Int64])
    func generatedColumnsMoveWithTheirTable(_ moved: Int64) throws {
        let pair = try Pair(
            schema: """
                CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, v TEXT AS (upper(a)), s INTEGER AS (length(a)) STORED);
                CREATE INDEX i ON t(v)
                """,
            rows: "INSERT INTO t(id, a) VALUES (1, 'one'), (2, 'two'), (3, 'three'), (5, 'five')",
            tables: ["t"],
            moved: moved
        )
        for sql in [
            "UPDATE t SET a = 'dos' WHERE v = 'TWO'", "INSERT INTO t(a) VALUES ('six')",
            "INSERT INTO t VALUES (9, 'nine')",
            "DELETE FROM t WHERE s = 5",
        ] {
            try pair.database.execute(sql)
            try pair.native.execute(sql)
        }
        for sql in ["SELECT * FROM t", "SELECT id FROM t WHERE v > 'F' ORDER BY v", "SELECT sum(s), max(v) FROM t"] {
            #expect(texts(try pair.database.fetchAll(sql)) == texts(try pair.native.fetchAll(sql)), "\(sql)")
        }
        #expect(throws: SQLiteError.self) { try pair.database.execute("UPDATE t SET v = 'x'") }
        try pair.finish()
        let all = "SELECT * FROM t"
        #expect(texts(try pair.database.fetchAll(all)) == texts(try pair.native.fetchAll(all)))
    }

    @Test(.needs(.generatedColumns), arguments: ["upper(a)", "lower( A )", "lower(a) STORED", "lower(a)"])
    func aColumnMayBeGeneratedInAnotherWay(_ expression: String) throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, v TEXT GENERATED ALWAYS AS (lower(a)))")
        try old.execute("INSERT INTO t(a) VALUES ('Ab'), ('Cd')")
        old.close()
        let database = try Database(path: folder.file("new.db"))
        let stored = expression.hasSuffix("STORED")
        let inner = expression.replacing(" STORED", with: "")
        try database.execute(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, v TEXT AS (\(inner))\(stored ? " STORED" : ""))"
        )
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "t" }
        let expected = inner == "upper(a)" ? ["AB", "CD"] : ["ab", "cd"]
        #expect(texts(try database.fetchAll("SELECT v FROM t ORDER BY v")) == expected)
        try finishMigration(database)
        #expect(texts(try database.fetchAll("SELECT v FROM t ORDER BY v")) == expected)
    }

    @Test(.needs(.generatedColumns)) func aGeneratedColumnMayBecomeAPlainOne() throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, v TEXT AS (upper(a)))")
        try old.execute("INSERT INTO t(a) VALUES ('one'), ('two')")
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, v TEXT)")
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "t" }
        try database.execute("UPDATE t SET v = 'ZWEI' WHERE v = 'TWO'; INSERT INTO t VALUES (3, 'three', 'DREI')")
        #expect(texts(try database.fetchAll("SELECT v FROM t")) == ["ONE", "ZWEI", "DREI"])
        try finishMigration(database)
        #expect(texts(try database.fetchAll("SELECT v FROM t")) == ["ONE", "ZWEI", "DREI"])
    }

    /// The keys that a new row must not share with another row.
    private static let keys = ["(lower(a))", "(a) WHERE b > 0", "(a, b + 1)"]

    @Test(.needs(.indexesOnExpressions), arguments: keys) func aHiddenKeyIsKeptAcrossTheFiles(_ key: String) throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b INTEGER); CREATE UNIQUE INDEX u ON t\(key)",
            rows: "INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2), (3, 'z', 0)",
            tables: ["t"],
            moved: 1
        )
        try pair.database.execute("DELETE FROM t WHERE id = 3")
        #expect(pair.database.migrationStatistics.drains(of: "t") == 0)
        let sql = "INSERT INTO t VALUES (9, 'y', 2)"
        let theirs = #expect(throws: SQLiteError.self) { try pair.native.execute(sql) }
        let mine = #expect(throws: SQLiteError.self) { try pair.database.execute(sql) }
        #expect(mine?.code == theirs?.code)
        #expect(mine?.message == theirs?.message)
        #expect(pair.database.migrationStatistics.drained["t"]?[.otherKeys] == 1)
        try pair.finish()
    }

    /// To the column, the two values are the same; to the index they are not.
    @Test(arguments: [("NOCASE", "a", "A"), ("RTRIM", "a", "a ")], ["", "OR IGNORE ", "OR REPLACE "])
    func anIndexOfAnotherCollationKeepsItsKey(_ key: (collation: String, first: String, second: String), _ or: String)
        throws
    {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT COLLATE \(key.collation)); "
                + "CREATE UNIQUE INDEX u ON t(a COLLATE BINARY)",
            rows: "INSERT INTO t VALUES (1, '\(key.first)'), (2, '\(key.second)'), (3, 'c')",
            tables: ["t"],
            moved: 1
        )
        let sql = "UPDATE \(or)t SET a = '\(key.second)' WHERE id = 1"
        let messages = try messages(of: sql, on: pair)
        #expect(messages[0] == messages[1])
        #expect((messages[0] == nil) == !or.isEmpty)
        let dump = "SELECT id || a FROM t ORDER BY id"
        #expect(texts(try pair.database.fetchAll(dump)) == texts(try pair.native.fetchAll(dump)))
        try pair.finish()
    }

    /// The errors with which a statement fails natively, and then through Midstream; `nil` if it does not fail.
    private func messages(of sql: String, on pair: Pair) throws -> [String?] {
        try [{ try pair.native.execute(sql) }, { try pair.database.execute(sql) }].map { run in
            do {
                try run()
                return nil
            } catch let error as SQLiteError {
                return error.message
            }
        }
    }

    /// REPLACE puts the default in the place of NULL, and some row has each value that the default can have.
    @Test(arguments: [
        (
            "id INTEGER PRIMARY KEY, a, code INTEGER NOT NULL ON CONFLICT REPLACE DEFAULT (abs(random()) % 60) UNIQUE",
            "INSERT INTO t(a, code) VALUES ('new', NULL)"
        ),
        (
            "id INTEGER PRIMARY KEY, a, code INTEGER NOT NULL DEFAULT (abs(random()) % 60) UNIQUE",
            "INSERT OR REPLACE INTO t(a, code) VALUES ('new', NULL)"
        ),
        (
            "id INTEGER PRIMARY KEY, a, code INTEGER NOT NULL DEFAULT (abs(random()) % 60) UNIQUE",
            "UPDATE OR REPLACE t SET code = NULL WHERE id = (SELECT max(id) FROM t)"
        ),
        (
            "id INTEGER, a, code INTEGER NOT NULL DEFAULT (abs(random()) % 60) PRIMARY KEY) WITHOUT ROWID",
            "INSERT OR REPLACE INTO t(a, code) VALUES ('new', NULL)"
        ),
        (
            "id INTEGER PRIMARY KEY, a, code INTEGER NOT NULL DEFAULT (abs(random()) % 60) UNIQUE",
            "INSERT INTO t(a, code) VALUES ('new', NULL)"
        ),
    ])
    func aKeyByDefaultMayBeAnotherEachTime(_ columns: String, _ statement: String) throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(\(columns)\(columns.hasSuffix("WITHOUT ROWID") ? "" : ")")",
            rows: "WITH n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 59) INSERT INTO t(id, a, code) "
                + "SELECT i + 1, 'old', i FROM n",
            tables: ["t"],
            moved: 2
        )
        // The test is not about the rowid that SQLite chooses.
        try pair.database.execute("DELETE FROM t WHERE code IN (1, 50)")
        try pair.database.execute("INSERT INTO t(a, code) VALUES ('of 1', 1), ('of 50', 50)")
        for round in 0..<20 {
            let messages = try messages(of: statement, on: pair)
            #expect(messages[0] == messages[1])
            let keys = "SELECT count(DISTINCT code) = count(*), min(code) >= 0 FROM t"
            #expect(texts(try pair.database.fetchAll(keys)) == ["1|1"], "\(round)")
            if statement.hasPrefix("INSERT") {
                #expect(try pair.database.fetchValue(Int.self, "SELECT count(*) FROM t") == 60)
            }
        }
        try pair.finish()
        #expect(try pair.database.fetchValue(Bool.self, "SELECT count(DISTINCT code) = count(*) FROM t") == true)
    }

    /// Natively, an UPDATE touches neither of the table's two rows.
    @Test func aTableMayHaveTwoSequences() throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a)",
            rows: "INSERT INTO t(a) VALUES (1), (2), (3), (4), (5)",
            tables: ["t"],
            moved: 1
        )
        for sql in [
            "INSERT INTO sqlite_sequence(rowid, name, seq) VALUES (-3, 't', 3)",
            "UPDATE t SET a = 0 WHERE id IN (3, 5)",
            "DELETE FROM t WHERE id > 3", "INSERT INTO t(a) VALUES (6)", "DELETE FROM sqlite_sequence WHERE rowid = -3",
            "INSERT INTO t(a) VALUES (7)",
        ] {
            try pair.database.execute(sql)
            try pair.native.execute(sql)
            for query in ["SELECT rowid, * FROM sqlite_sequence ORDER BY rowid", "SELECT * FROM t ORDER BY id"] {
                #expect(texts(try pair.database.fetchAll(query)) == texts(try pair.native.fetchAll(query)), "\(sql)")
            }
        }
        try pair.finish()
    }

    @Test func aTableMayHaveManyKeyColumns() throws {
        let names = (0..<40).map { "c\($0)" }
        let keys = (0..<3).map { "UNIQUE (\(names.shuffled().prefix(38).joined(separator: ", ")), c\($0))" }
        let pair = try Pair(
            schema: "CREATE TABLE t(\(names.joined(separator: ", ")), \(keys.joined(separator: ", ")))",
            rows: "INSERT INTO t(c0, c1, c2) VALUES (1, 2, 3)",
            tables: ["t"]
        )
        try pair.database.execute("INSERT INTO t(c0) VALUES (5)")
        #expect(try pair.database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 2)
        try pair.finish()
    }

    /// Midstream reads a generated column from the source only if the source has exactly the values that the target
    /// will have.
    @Test(
        .needs(.generatedColumns),
        arguments: [
            ("a, h AS (g + 1), g AS (a * 3)", "a, h AS (g + 1), g AS (a * 2)"),
            ("a, g AS (a * 3), h AS (g + 1)", "a, g AS (a * 2), h AS (g + 1)"),
            ("a, g AS (a * 3), h AS (g + 1)", "a, g AS (a * 3), h AS (g + 1)"),
            ("a REAL, g TEXT AS (a * 1.0)", "a REAL, g REAL AS (a * 1.0)"),
            ("a, g INTEGER AS (a)", "a, g TEXT AS (a)"), ("a, g INTEGER AS (a * 1.0)", "a, g BLOB AS (a * 1.0)"),
            ("a, g TEXT COLLATE NOCASE AS (a)", "a, g TEXT AS (a)"),
            ("a, g AS (a || 'e\u{301}')", "a, g AS (a || '\u{e9}')"),
        ]
    )
    func whatIsGeneratedIsTheTargets(_ columns: (source: String, target: String)) throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, \(columns.source))")
        try old.execute("INSERT INTO t(a) VALUES (1), ('007'), ('1e3'), (0.30000000000000004), ('a'), ('A')")
        old.close()
        let plain = try Connection(path: folder.file("plain.db"))
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, \(columns.target))")
        do {
            try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "t" }
        } catch let error as MigrationError where error.code == .unsupported {
            #expect(columns.target.contains("h AS") && columns.source != columns.target)
            return
        }
        try plain.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, \(columns.target))")
        try plain.execute("INSERT INTO t(a) VALUES (1), ('007'), ('1e3'), (0.30000000000000004), ('a'), ('A')")
        for _ in 0..<2 {
            for query in ["SELECT *, typeof(g), hex(g) FROM t", "SELECT id FROM t WHERE g = 'A'"] {
                #expect(texts(try database.fetchAll(query)) == texts(try plain.fetchAll(query)), "\(query)")
            }
            try finishMigration(database)
        }
    }

    /// SQLite accepts such a table, and fails when one of the columns is read.
    @Test(.needs(.generatedColumns)) func columnsThatAreMadeOfEachOtherAreRefused() throws {
        let folder = TemporaryFolder()
        let create = "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, g AS (b), b AS (g))"
        let old = try Connection(path: folder.file("old.db"))
        guard (try? old.execute(create)) != nil else { return }
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute(create)
        #expect(throws: (any Error).self) {
            try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "t" }
        }
    }

    /// SQLite looks for HIDDEN only in the types of virtual tables, and a type may be written in quotes.
    @Test(arguments: [
        "TEXT HIDDEN", "hidden", "\"NOT NULL\"", "\"PRIMARY KEY\"", "\"INT, q\"", "\"DEFAULT 5\"", "\"CHECK(0)\"",
        "\"x)\"", "\"x /* \"", "[a\"b]",
        "VARCHAR(10)", "DECIMAL(10, 5)", "DOUBLE PRECISION", "\"unique\"", "'AS'",
    ])
    func aDeclaredTypeMayBeAnything(_ type: String) throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a \(type), b)",
            rows: "INSERT INTO t VALUES (1, '9', 1), (2, 7, 2), (3, '10', 3), (4, 'a', 4)",
            tables: ["t"],
            moved: 2
        )
        for sql in [
            "SELECT * FROM t ORDER BY id", "SELECT id FROM t WHERE a < '10'", "SELECT id FROM t WHERE a IN ('9', 7)",
            "SELECT id, typeof(a) FROM t WHERE a = 10", "INSERT INTO t VALUES (5, '11', 5)",
            "SELECT * FROM t AS x NATURAL JOIN t AS y ORDER BY id", "UPDATE t SET b = 6 WHERE a = '10'",
            "SELECT t.* FROM t ORDER BY id",
        ] {
            let rows = try pair.database.withoutTransaction { texts(try $0.fetchAll(sql)) }
            #expect(rows == texts(try pair.native.fetchAll(sql)), "\(sql)")
        }
        try pair.finish()
    }

    /// The result of a JSON function is text once it is stored.
    @Test(.needs(.jsonFunctions), arguments: ["", "TEXT", "BLOB"]) func aValueHasNoSubtype(_ type: String) throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        try old.execute("INSERT INTO t(a) VALUES ('{\"x\":1}'), ('[2]'), ('[3]')")
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a, n \(type))")
        try database.addMigration(source: .file(folder.file("old.db"))) { table in
            table.sourceTable = "t"
            table.columns["n"] = .expression("json(a)")
        }
        let queries = [
            "SELECT json_array(n) FROM t", "SELECT json_group_array(n) FROM t",
            "SELECT json_object('k', max(n)) FROM t",
            "SELECT json_array(n) FROM (SELECT n FROM t ORDER BY n)", "SELECT json_array(n) FROM t GROUP BY n",
        ]
        let pending = try queries.map { texts(try database.fetchAll($0)) }
        try finishMigration(database)
        #expect(try queries.map { texts(try database.fetchAll($0)) } == pending)
        #expect(pending[0].first == #"["{\"x\":1}"]"#)
    }

    /// The collation is the application's own, which has it on its connections.
    @Test(arguments: ["my order", "select", "nöcase", "a\"b"]) func aCollationMayHaveAnyName(_ name: String) throws {
        let folder = TemporaryFolder()
        func open(_ file: String) throws -> ForeignConnection {
            let connection = try ForeignConnection(folder.file(file))
            let code = sqlite3_create_collation_v2(
                connection.handle,
                name,
                SQLITE_UTF8,
                nil,
                { _, count, first, otherCount, other in
                    let first = UnsafeRawBufferPointer(start: first, count: Int(count))
                    let other = UnsafeRawBufferPointer(start: other, count: Int(otherCount))
                    return first.elementsEqual(other) ? 0 : first.lexicographicallyPrecedes(other) ? 1 : -1
                },
                nil
            )
            #expect(code == SQLITE_OK)
            return connection
        }
        let quoted = "\"" + name.replacing("\"", with: "\"\"") + "\""
        let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT COLLATE \(quoted), b)"
        let (native, old, new) = try (open("plain.db"), open("old.db"), open("new.db"))
        for connection in [native, old, new] { try connection.execute(schema) }
        for connection in [native, old] {
            try connection.execute("INSERT INTO t VALUES (1, 'x', 1), (2, 'Y', 2), (3, 'z', 3)")
        }
        let database = try Database(path: folder.file("new.db"))
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = $0.name }
        database.close()
        try new.install()
        for sql in ["UPDATE t SET b = 7 WHERE id > 1", "DELETE FROM t WHERE a < 'z' AND b = 1"] {
            try new.execute(sql)
            try native.execute(sql)
        }
        for sql in [
            "SELECT * FROM t ORDER BY a", "SELECT * FROM t", "SELECT id FROM t WHERE a > 'Y' ORDER BY id",
            "SELECT max(a) FROM t",
        ] {
            #expect(try new.rows(sql) == native.rows(sql), "\(sql)")
        }
        for connection in [native, old, new] { #expect(connection.close() == SQLITE_OK) }
    }
}
