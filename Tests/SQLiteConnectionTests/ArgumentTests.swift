import SQLiteConnection
import Testing

@Suite struct `Arguments of a statement` {
    @Test func `are bound by position`() throws {
        #expect(try memory().fetchOne("SELECT ?, ?2, ?1", [1, "two"])?.values == [1, "two", 1])
    }

    @Test func `are bound by name, with or without prefix`() throws {
        let connection = try memory()
        let sql = "SELECT :a, @b, $c"
        #expect(try connection.fetchOne(sql, ["a": 1, "b": 2, "c": 3])?.values == [1, 2, 3])
        #expect(try connection.fetchOne(sql, [":a": 1, "@b": 2, "$c": nil])?.values == [1, 2, nil])
    }

    /// A text, the given values, and the parameter that lacks a value.
    private static let incomplete: [(String, Arguments, String)] = [
        ("SELECT ?", [], "parameter ?1"),
        ("SELECT ?, ?", [1], "parameter ?2"),
        ("SELECT ?, ?, ?", [1], "parameters ?2, ?3"),
        ("SELECT ?1, ?3", [1, 2], "parameter ?3"),
        ("SELECT ?1, ?3", [1], "parameter ?3"),
        ("SELECT ?1, ?3", ["?1": 1], "parameter ?3"),
        ("SELECT ?, ?3", ["?3": 1], "parameter ?1"),
        ("SELECT :a, :b", [1], "parameter :b"),
        ("SELECT :a, :b", ["a": 1], "parameter :b"),
        ("SELECT @a, @b", ["@b": 1], "parameter @a"),
        ("SELECT $a, $b::c(d)", ["a": 1], "parameter $b::c(d)"),
        ("SELECT :a, @a, $a", ["a": 1], "parameters @a, $a"),
        ("SELECT ?, :a", ["a": 1], "parameter ?1"),
        ("SELECT :a, ?", ["a": 1], "parameter ?2"),
        ("; -- a comment\n SELECT '?', ?2 -- ?1", ["?2": 1, "?3": 2], "no parameter is named ?3"),
        ("SELECT ?70, ?", ["?70": 1], "parameter ?71"),
        ("SELECT ?64, ?65, ?128, ?129", ["?64": 1, "?129": 1], "parameters ?65, ?128"),
        (
            "SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?", [],
            "parameters ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, …"
        ),
    ]

    @Test(arguments: incomplete.indices) func `that are missing are an error that names the parameter`(
        index: Int
    ) throws {
        let (sql, arguments, names) = Self.incomplete[index]
        let connection = try memory()
        // The error comes as well after a run that gave all values.
        try connection.execute(
            sql,
            Arguments(values: Array(repeating: 1, count: connection.prepare(sql).parameterCount))
        )
        let wanted =
            names.hasPrefix("no ")
            ? names
            : "no value\(names.hasPrefix("parameters") ? "s are" : " is") given for \(names); for NULL, give nil"
        func check(_ body: () throws -> Void) throws {
            let error = try sqliteError(body)
            #expect(error == SQLiteError(code: .range, message: wanted, sql: sql))
        }
        try check { try connection.execute(sql, arguments) }
        try check { _ = try connection.fetchAll(sql, arguments) }
        try check { _ = try connection.fetchOne(sql, arguments) }
        try check { _ = try connection.fetchValue(Int.self, sql, arguments) }
        try check { _ = try connection.fetchAll(Int.self, sql, arguments) }
        try check { _ = try connection.fetchOne(Int.self, sql, arguments) }
        let statement = try connection.prepare(sql)
        try check { try statement.bind(arguments) }
        if !wanted.hasPrefix("no parameter") { try check { _ = try statement.step() } }
    }

    @Test func `that the text has no use for need not be given`() throws {
        let connection = try memory()
        #expect(try connection.fetchOne("SELECT ?1, ?3", ["?1": 1, "?3": 3])?.values == [1, 3])
        #expect(try connection.fetchOne("SELECT ?1, ?3", [1, 2, 3])?.values == [1, 3])
        #expect(try connection.fetchOne("SELECT :a, ?9, :a", ["a": 1, "?9": 9])?.values == [1, 9, 1])
        #expect(try connection.fetchOne("SELECT ?90, '?2', \"?3\", ?90 /* ?4 */", ["?90": 1])?[0] == 1)
    }

    @Test func `of a name that stands twice are given once`() throws {
        #expect(try memory().fetchOne("SELECT :a, :b, :a", ["a": 1, "b": 2])?.values == [1, 2, 1])
        #expect(try memory().fetchOne("SELECT ?2, ?1, ?2", [1, 2])?.values == [2, 1, 2])
    }

    @Test func `may be NULL`() throws {
        #expect(try memory().fetchOne("SELECT ?, ?", [nil, SQLiteValue.null])?.values == [nil, nil])
        #expect(try memory().fetchOne("SELECT :a, $b", ["a": nil, "b": Int?.none])?.values == [nil, nil])
        let statement = try memory().prepare("SELECT ?")
        try statement.bind(SQLiteValue.null, at: 1)
        #expect(try statement.step() && statement.isNull(at: 0))
    }

    @Test func `that are bound one by one are all needed, and stay`() throws {
        let statement = try memory().prepare("SELECT ?1 + ?3")
        try statement.bind(1, at: 1)
        let error = try sqliteError { _ = try statement.step() }
        #expect(error.message == "no value is given for parameter ?3; for NULL, give nil")
        try statement.bind(3, at: 3)
        for third: Int64 in [3, 5] {
            try statement.bind(third, at: 3)
            #expect(try statement.step() && statement.int64(at: 0) == 1 + third)
            statement.reset()
        }
        statement.clearBindings()
        #expect(
            try sqliteError { _ = try statement.step() }.message.hasPrefix("no values are given for parameters ?1, ?3")
        )
    }

    @Test func `of who used a cached statement before are gone`() throws {
        let connection = try memory()
        let first = try connection.cachedStatement("SELECT ?, ?")
        try first.bind([1, 2])
        #expect(try first.step())
        first.reset()
        let second = try connection.cachedStatement("SELECT ?, ?")
        #expect(second === first)
        try second.bind(3, at: 1)
        #expect(try sqliteError { _ = try second.step() }.message.contains("parameter ?2"))
    }

    @Test func `stay when SQLite prepares the statement anew`() throws {
        let connection = try memory()
        try connection.execute("CREATE TABLE t(a)")
        try connection.execute("INSERT INTO t VALUES (?)", [1])
        try connection.execute("ALTER TABLE t ADD b DEFAULT 7")
        let select = try connection.prepare("SELECT b FROM t WHERE a = ?")
        try select.bind(1, at: 1)
        #expect(try select.step() && select.int64(at: 0) == 7)
        select.reset()
        try connection.execute("CREATE INDEX by_a ON t(a)")
        #expect(try select.step() && select.int64(at: 0) == 7)
    }

    @Test func `that are missing keep a write from being run`() throws {
        let connection = try memory()
        try connection.execute(
            script: "CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1, 'x'), (2, NULL)"
        )
        for (sql, arguments): (String, Arguments) in [
            ("UPDATE t SET a = :a WHERE id = :id", ["id": 1]), ("DELETE FROM t WHERE id = ? OR a IS ?", [1]),
            ("INSERT INTO t VALUES (?, ?)", [3]),
        ] {
            #expect(try sqliteError { try connection.execute(sql, arguments) }.code == .range)
        }
        #expect(try connection.fetchAll("SELECT * FROM t").map(\.values) == [[1, "x"], [2, nil]])
    }

    @Test func `cannot be given to a script`() throws {
        let connection = try memory()
        let error = try sqliteError {
            try connection.execute(script: "CREATE TABLE t(a); INSERT INTO t VALUES (@a); SELECT 1")
        }
        #expect(error.message == "no value is given for parameter @a; for NULL, give nil")
        #expect(error.sql == " INSERT INTO t VALUES (@a);")
        #expect(try connection.fetchValue(Int.self, "SELECT count(*) FROM t") == 0)
    }

    @Test func `are not needed to explain a statement`() throws {
        let connection = try memory()
        #expect(try !connection.fetchAll("EXPLAIN SELECT ?, :a").isEmpty)
        #expect(try !connection.fetchAll("EXPLAIN SELECT ?, :a", [1]).isEmpty)
    }

    @Test func `that are too many are an error`() throws {
        let error = try sqliteError { try memory().execute("SELECT ?", [1, 2]) }
        #expect(error.code == .range)
        #expect(error.message == "2 values given for 1 parameters")
        #expect(error.sql == "SELECT ?")
    }

    @Test func `with an unknown name are an error`() throws {
        let error = try sqliteError { try memory().execute("SELECT :a", ["b": 1]) }
        #expect(error.code == .range)
        #expect(error.message == "no parameter is named b")
    }

    @Test func `beyond the last parameter are an error, however large the index`() throws {
        let statement = try memory().prepare("SELECT ?")
        for index in [-1, 0, 2, Int(Int32.max), 1 << 32 | 1, Int.max, Int.min] {
            #expect(try sqliteError { try statement.bind(1, at: index) }.code == .range)
        }
        try statement.bind(SQLiteValue.null, at: 1)
        #expect(try statement.step())
        #expect(statement.isNull(at: 0))
    }

    @Test func `have names and indexes`() throws {
        let statement = try memory().prepare("SELECT :a, ?, ?5")
        #expect(statement.parameterCount == 5)
        #expect(statement.parameterName(at: 1) == ":a")
        #expect(statement.parameterName(at: 2) == nil)
        #expect(statement.parameterName(at: 5) == "?5")
        #expect(statement.parameterIndex(of: "a") == 1)
        #expect(statement.parameterIndex(of: "z") == nil)
    }

    @Test func `never appear in an error`() throws {
        let connection = try memory()
        try connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT UNIQUE CHECK (length(v) < 20))")
        try connection.execute("INSERT INTO t VALUES (1, ?)", ["secret"])
        for arguments: Arguments in [[2, "secret"], [3, "secret secret secret secret"], ["secret", "x"]] {
            let error = try sqliteError { try connection.execute("INSERT INTO t VALUES (?, ?)", arguments) }
            #expect("\(error)".contains("INSERT INTO t VALUES (?, ?)"))
            #expect(!"\(error)".contains("secret"))
        }
    }

    @Test func `can be columns of another statement`() throws {
        let connection = try memory()
        let source = try connection.prepare("SELECT 1, 2.5, 'x', x'00', NULL")
        #expect(try source.step())
        let copy = try connection.prepare("SELECT ?, ?, ?, ?, ?")
        for index in 0..<5 { try copy.bind(column: index, of: source, at: index + 1) }
        #expect(try copy.step())
        #expect(Row(copying: copy).values == [1, 2.5, "x", .blob([0]), nil])
    }

    /// SQLite takes such a beginning for a byte order mark, and removes it.
    @Test(arguments: ["UTF-8", "UTF-16le", "UTF-16be"])
    func `of another statement or call keep what text begins with`(encoding: String) throws {
        let connection = try memory()
        try connection.execute("PRAGMA encoding = '\(encoding)'")
        try connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, text)")
        let texts =
            encoding == "UTF-8"
            ? ["efbbbf61", "efbfbe61", "61"]
            : ["fffe6100", "feff0061", "fffefffe", "61006200", "d800", "00d83ddc", "3dd800de", "3dd83dd800dea5000020"]
        for text in texts { try connection.execute("INSERT INTO t(text) VALUES (CAST(x'\(text)' AS TEXT))") }
        try connection.createFunction("bound", argumentCount: 1) { values, result in
            let copy = try connection.prepare("SELECT hex(CAST(? AS BLOB))")
            try copy.bind(values[0], at: 1)
            #expect(try copy.step())
            result.set(.text(copy.text(at: 0)))
        }
        let source = try connection.prepare(
            "SELECT text, hex(CAST(text AS BLOB)), bound(text), text FROM t ORDER BY id"
        )
        let copy = try connection.prepare("SELECT hex(CAST(? AS BLOB))")
        for text in texts {
            #expect(try source.step())
            #expect(source.text(at: 1).lowercased() == text)
            #expect(source.text(at: 2).lowercased() == text)
            try copy.bind(column: 0, of: source, at: 1)
            #expect(try copy.step())
            #expect(copy.text(at: 0).lowercased() == text)
            copy.reset()
            try copy.bind(RowReader(source).exactValue(at: 3), at: 1)
            #expect(try copy.step())
            #expect(copy.text(at: 0).lowercased() == text)
            copy.reset()
        }
    }
}
