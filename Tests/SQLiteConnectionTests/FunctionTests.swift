import SQLiteConnection
import Synchronization
import Testing

@Suite struct `Functions` {
    /// Otherwise SQLite would prepare the statement again, and run it again.
    @Test func `fail once with an error of the schema`() throws {
        let connection = try Connection(path: ":memory:")
        let calls = Mutex(0)
        try connection.createFunction("changed", argumentCount: 0) { _, _ in
            calls.withLock { $0 += 1 }
            throw SQLiteError(code: .schema, message: "it has changed")
        }
        let error = #expect(throws: SQLiteError.self) { try connection.execute("SELECT changed()") }
        #expect(error?.code == .error)
        #expect(error?.message == "it has changed")
        #expect(calls.withLock { $0 } == 1)
    }

    @Test func `take and give values of every class`() throws {
        let connection = try memory()
        try connection.createFunction("same", argumentCount: 1) { $1.set($0[0].value) }
        for value in `Values`.samples {
            let row = try #require(
                try connection.fetchOne("SELECT same(?1), typeof(?1) = typeof(same(?1))", Arguments(values: [value]))
            )
            #expect(row[0] == value)
            #expect(row[1] == 1)
        }
    }

    @Test func `take any number of arguments`() throws {
        let connection = try memory()
        try connection.createFunction("count_of", argumentCount: -1, flags: .deterministic) {
            $1.set(Int64($0.count))
        }
        #expect(try connection.fetchOne("SELECT count_of(), count_of(1, 2, 3)")?.values == [0, 3])
    }

    @Test func `give NULL when they set nothing`() throws {
        let connection = try memory()
        try connection.createFunction("no_result", argumentCount: 0) { _, _ in }
        #expect(try connection.fetchOne("SELECT no_result()")?[0] == .null)
    }

    @Test func `fail the statement with code and message`() throws {
        let connection = try memory()
        try connection.createFunction("fail", argumentCount: 1) { arguments, _ in
            throw SQLiteError(code: ResultCode(rawValue: Int32(arguments[0].int64)), message: "refused: why")
        }
        for code: Int32 in [1, 5, 19, 23, 2067] {
            let error = try sqliteError { try connection.execute("SELECT fail(?)", [code]) }
            #expect(error.code.rawValue == code)
            #expect(error.message == "refused: why")
            #expect(error.sql == "SELECT fail(?)")
        }
        // A code of success does not make a success of an error.
        for code: Int32 in [0, 100, 101] {
            let error = try sqliteError { try connection.execute("SELECT fail(?)", [code]) }
            #expect(error.code == .error)
            #expect(error.message == "refused: why")
        }
    }

    @Test func `fail the statement with any error`() throws {
        struct Failure: Error, CustomStringConvertible { let description = "no luck" }
        let connection = try memory()
        try connection.createFunction("fail", argumentCount: 0) { _, _ in throw Failure() }
        let error = try sqliteError { try connection.execute("SELECT fail()") }
        #expect(error.code == .error)
        #expect(error.message == "no luck")
    }

    @Test func `take the place of those built in`() throws {
        let connection = try memory()
        #expect(try connection.fetchValue(Int.self, "SELECT abs(-2)") == 2)
        try connection.createFunction("abs", argumentCount: 1) { $1.set($0[0].int64 * 10) }
        #expect(try connection.fetchValue(Int.self, "SELECT abs(-2)") == -20)
        #expect(try connection.fetchValue(Int.self, "SELECT ABS(-2)") == -20)
    }

    @Test func `may use their connection`() throws {
        let connection = try memory()
        try connection.execute("CREATE TABLE t(v)")
        try connection.createFunction("log", argumentCount: 1) { [unowned connection] arguments, _ in
            try connection.execute("INSERT INTO t VALUES (?)", Arguments(values: [arguments[0].value]))
        }
        try connection.execute("SELECT log(1), log('x')")
        #expect(try connection.fetchAll("SELECT v FROM t").map { $0[0] } == [1, "x"])
    }

    @Test func `are let go with their connection, or when they are replaced`() throws {
        final class Token {}
        weak var held: Token?
        do {
            let connection = try memory()
            do {
                let token = Token()
                held = token
                try connection.createFunction("f", argumentCount: 0) { _, _ in withExtendedLifetime(token) {} }
            }
            #expect(held != nil)
            try connection.createFunction("f", argumentCount: 0) { _, _ in }
            #expect(held == nil)
            do {
                let token = Token()
                held = token
                try connection.createFunction("g", argumentCount: 0) { _, _ in withExtendedLifetime(token) {} }
            }
            #expect(held != nil)
        }
        #expect(held == nil)
    }

    @Test func `with impossible argument counts are refused`() throws {
        let connection = try memory()
        for count in [-2, 1_000, Int.max] {
            #expect(throws: SQLiteError.self) { try connection.createFunction("f", argumentCount: count) { _, _ in } }
        }
    }
}
