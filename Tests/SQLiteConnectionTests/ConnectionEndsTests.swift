import SQLiteConnection
import Testing

@Suite struct ConnectionEndsTests {
    @Test func aStatementThatOutlivesItsConnectionCallsNoHandler() throws {
        let folder = try TemporaryFolder()
        var connection: Connection? = try Connection(path: folder.file("a.db"))
        _ = try connection?.fetchOne("PRAGMA journal_mode = WAL")
        try connection?.execute("CREATE TABLE t(a)")
        connection?.setCommitHandler { _, _ in Issue.record("it was called") }
        let statement = try #require(try connection?.prepare("INSERT INTO t VALUES (1)"))
        connection?.close()
        connection = nil
        try statement.run()
    }

    @Test func aCommentMayFollowAStatement() throws {
        let connection = try Connection(path: ":memory:")
        #expect(try connection.fetchValue(Int.self, "SELECT 1; -- one") == 1)
        #expect(try connection.fetchValue(Int.self, "SELECT 1; /* one */ ; -- and no more") == 1)
        #expect(throws: SQLiteError.self) { try connection.fetchOne("SELECT 1; -- one\nSELECT 2") }
        #expect(throws: SQLiteError.self) { try connection.fetchOne("SELECT 1; nonsense") }
    }

    /// To Swift, a quote with a combining mark is no quote.
    @Test func anySchemaNameIsQuoted() throws {
        let folder = try TemporaryFolder()
        try Connection(path: folder.file("b.db")).execute("CREATE TABLE t(a)")
        let connection = try Connection(path: folder.file("a.db"))
        let name = "mark\"\u{301}"
        try connection.attach(folder.file("b.db"), as: name)
        #expect(try connection.fetchValue(Int.self, "SELECT count(*) FROM \"mark\"\"\u{301}\".t") == 0)
    }
}
