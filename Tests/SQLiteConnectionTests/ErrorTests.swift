import SQLiteConnection
import Testing

@Suite struct `Errors` {
    @Test func `carry the extended code, message and SQL`() throws {
        let connection = try memory()
        try connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v UNIQUE)")
        try connection.execute("INSERT INTO t VALUES (1, 1)")
        let error = try sqliteError { try connection.execute("INSERT INTO t VALUES (2, 1)") }
        #expect(error.code.rawValue == 2067)
        #expect(error.message == "UNIQUE constraint failed: t.v")
        #expect(error.sql == "INSERT INTO t VALUES (2, 1)")
        #expect(
            "\(error)" == "SQLite error 2067 (constraint failed): UNIQUE constraint failed: t.v, "
                + "in: INSERT INTO t VALUES (2, 1)"
        )
    }

    @Test func `match a primary code in a pattern`() {
        let unique = ResultCode(rawValue: 2067)
        #expect(ResultCode.constraint ~= unique)
        #expect(unique ~= unique)
        #expect(!(unique ~= .constraint))
        #expect(!(ResultCode.busy ~= unique))
        #expect(unique.primary == .constraint)
        switch unique {
        case .busy: Issue.record("not busy")
        case .constraint: break
        default: Issue.record("not matched")
        }
    }

    @Test func `of a text that does not compile name its place`() throws {
        let error = try sqliteError { try memory().execute("SELEC 1") }
        #expect(error.code == .error)
        #expect(error.message == #"near "SELEC": syntax error"#)
    }

    @Test func `of opening name the path`() throws {
        let error = try sqliteError { _ = try Connection(path: "/nowhere/a.db") }
        #expect(error.code.primary == .cannotOpen)
        #expect(error.message.contains("/nowhere/a.db"))
        #expect(try sqliteError { _ = try Connection(path: "a\0b") }.code == .cannotOpen)
        let missing = try TemporaryFolder().file("a.db")
        #expect(throws: SQLiteError.self) { try Connection(path: missing, options: OpenOptions(access: .readWrite)) }
    }

    @Test func `of a write to a file opened for reading say so`() throws {
        let folder = try TemporaryFolder()
        try Connection(path: folder.file("a.db")).execute("CREATE TABLE t(v)")
        let reader = try Connection(path: folder.file("a.db"), options: OpenOptions(access: .readOnly))
        #expect(reader.isReadOnly(schema: "main") == true)
        #expect(reader.isReadOnly(schema: "nowhere") == nil)
        #expect(try sqliteError { try reader.execute("INSERT INTO t VALUES (1)") }.code.primary == .readOnly)
    }
}
