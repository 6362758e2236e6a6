import SQLiteConnection
import Testing

@Suite struct `The authorizer` {
    private func sample() throws -> Connection {
        let connection = try memory()
        try connection.execute(script: "CREATE TABLE t(a, b); INSERT INTO t VALUES (1, 2)")
        return connection
    }

    @Test func `is asked about every access`() throws {
        let connection = try sample()
        var reads: [String] = []
        connection.setAuthorizer { event in
            if event.action == .read {
                reads.append("\(event.schema ?? "").\(event.first ?? "").\(event.second ?? "")")
            }
            return .allow
        }
        #expect(try connection.fetchOne("SELECT a, b FROM t")?.values == [1, 2])
        #expect(reads == ["main.t.a", "main.t.b"])
    }

    @Test func `denies`() throws {
        let connection = try sample()
        connection.setAuthorizer { $0.action == .delete && $0.first == "t" ? .deny : .allow }
        let error = try sqliteError { try connection.execute("DELETE FROM t") }
        #expect(error.code == .authorization)
        #expect(try connection.fetchValue(Int.self, "SELECT count(*) FROM t") == 1)
        connection.setAuthorizer(nil)
        try connection.execute("DELETE FROM t")
    }

    @Test func `has columns read as NULL`() throws {
        let connection = try sample()
        // The statement was prepared and cached before. Setting an authorizer makes SQLite prepare it again.
        #expect(try connection.fetchOne("SELECT a, b FROM t")?.values == [1, 2])
        connection.setAuthorizer { $0.action == .read && $0.second == "b" ? .ignore : .allow }
        #expect(try connection.fetchOne("SELECT a, b FROM t")?.values == [1, nil])
    }

    @Test func `sees who makes the access`() throws {
        let connection = try sample()
        try connection.execute("CREATE TRIGGER g AFTER INSERT ON t BEGIN UPDATE t SET b = 9; END")
        var accessors: Set<String> = []
        connection.setAuthorizer { event in
            if event.action == .update {
                accessors.insert(event.accessor ?? "")
                #expect(event.hasAccessor)
            }
            return .allow
        }
        try connection.execute("INSERT INTO t VALUES (1, 1)")
        #expect(accessors == ["g"])
    }
}
