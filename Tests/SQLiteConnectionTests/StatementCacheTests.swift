import Testing

@testable import SQLiteConnection

@Suite struct `The statement cache` {
    @Test func `gives the same statement for the same text`() throws {
        let connection = try memory()
        #expect(try connection.cachedStatement("SELECT 1") === connection.cachedStatement("SELECT 1"))
        #expect(try connection.cachedStatement("SELECT 1") !== connection.cachedStatement("SELECT 2"))
    }

    @Test func `tells texts apart that Swift takes for equal`() throws {
        let connection = try memory()
        #expect(try connection.fetchValue(Int.self, "SELECT length('é')") == 1)
        #expect(try connection.fetchValue(Int.self, "SELECT length('e\u{301}')") == 2)
    }

    @Test func `gives another statement while one is busy`() throws {
        let connection = try memory()
        let sql = "SELECT 1 UNION ALL SELECT 2"
        let outer = try connection.cachedStatement(sql)
        #expect(try outer.step())
        let inner = try connection.cachedStatement(sql)
        #expect(inner !== outer)
        #expect(try inner.step())
        #expect(try outer.step())
        #expect(outer.int64(at: 0) == 2)
        #expect(inner.int64(at: 0) == 1)
    }

    @Test func `keeps busy statements when it is full`() throws {
        let connection = try memory()
        let busy = "SELECT 'busy' UNION ALL SELECT 'still'"
        weak let held = try connection.cachedStatement(busy)
        #expect(try held?.step() == true)
        for number in 0..<1_000 { try connection.execute("SELECT \(number)") }
        #expect(connection.cache.count <= 128)
        #expect(held != nil)
        #expect(try held?.step() == true)
        #expect(held?.text(at: 0) == "still")
        held?.reset()
        for number in 0..<1_000 { try connection.execute("SELECT -\(number)") }
        #expect(held == nil)
    }

    @Test func `keeps the statements used last`() throws {
        let connection = try memory()
        let first = try connection.cachedStatement("SELECT 'used'")
        for number in 0..<1_000 {
            try connection.execute("SELECT \(number)")
            #expect(try connection.cachedStatement("SELECT 'used'") === first)
        }
    }

    @Test func `survives schema changes`() throws {
        let connection = try memory()
        try connection.execute("CREATE TABLE t(a)")
        try connection.execute("INSERT INTO t VALUES (1)")
        #expect(try connection.fetchOne("SELECT * FROM t")?.columns.names == ["a"])
        try connection.execute("ALTER TABLE t ADD COLUMN b")
        #expect(try connection.fetchOne("SELECT * FROM t")?.columns.names == ["a", "b"])
        try connection.execute("DROP TABLE t")
        #expect(throws: SQLiteError.self) { try connection.fetchOne("SELECT * FROM t") }
        try connection.execute("CREATE TABLE t(c)")
        try connection.execute("INSERT INTO t VALUES (3)")
        #expect(try connection.fetchOne("SELECT * FROM t")?["c"] == 3)
    }
}
