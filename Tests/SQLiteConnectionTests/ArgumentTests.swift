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

    @Test func `that are not given are NULL, also after a run that gave them`() throws {
        let connection = try memory()
        #expect(try connection.fetchOne("SELECT ?, ?", [1, 2])?.values == [1, 2])
        #expect(try connection.fetchOne("SELECT ?, ?", [3])?.values == [3, nil])
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

    /// SQLite takes it for a mark of the byte order, and away.
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
