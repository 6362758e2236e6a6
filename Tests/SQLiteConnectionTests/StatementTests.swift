import Dispatch
import SQLiteConnection
import Synchronization
import Testing

@Suite struct `Statements` {
    @Test func `rows are read by index and by name`() throws {
        let row = try #require(try memory().fetchOne("SELECT 1 AS a, 'x' AS b, NULL AS A"))
        #expect(row[0] == 1)
        #expect(row["b"] == "x")
        #expect(row["a"] == 1)
        #expect(row["A"] == .null)
        #expect(row["B"] == "x")
        #expect(row["c"] == nil)
        #expect(try row.get("a", as: Int.self) == 1)
        #expect(try row.get(1, as: String.self) == "x")
        #expect(try sqliteError { _ = try row.get("b", as: Int.self) }.message == "column b cannot be read as Int")
        #expect(try sqliteError { _ = try row.get("c", as: Int.self) }.code == .range)
        #expect(try sqliteError { _ = try row.get(3, as: Int.self) }.code == .mismatch)
    }

    @Test func `rows and values can be printed`() throws {
        let sql = "SELECT 1 AS id, 'a \"b\"' AS name, 1.5 AS size, x'00ff' AS data, NULL AS gone, zeroblob(33) AS long"
        let row = try #require(try memory().fetchOne(sql))
        let zeros = String(repeating: "0", count: 64)
        #expect(
            "\(row)" == #"[id: 1, name: "a \"b\"", size: 1.5, data: x'00ff', gone: NULL, long: x'"#
                + "\(zeros)…' (33 bytes)]"
        )
        #expect(row.values.prefix(5).map { "\($0)" } == ["1", "a \"b\"", "1.5", "x'00ff'", "NULL"])
        #expect("\(row.values.prefix(2))" == #"[1, "a \"b\""]"#)
        #expect(String(describing: row["name"]) == #"Optional("a \"b\"")"#)
        #expect("\([row])".hasPrefix("[[id: 1, "))
        // A row with the same name twice can be printed, too.
        #expect(try memory().fetchOne("SELECT 1 AS a, 2 AS a").map { "\($0)" } == "[a: 1, a: 2]")
    }

    @Test func `names that differ in their bytes are different columns`() throws {
        let row = try #require(try memory().fetchOne("SELECT 1 AS \"é\", 2 AS \"e\u{301}\""))
        #expect(row["é"] == 1)
        #expect(row["e\u{301}"] == 2)
    }

    @Test func `a read of the wrong type names column and type`() throws {
        let statement = try memory().prepare("SELECT 'x' AS name")
        #expect(try statement.step())
        let error = try sqliteError { _ = try statement.read(Int.self, at: 0) }
        #expect(error.message == "column name holds text, which cannot be read as Int")
    }

    @Test func `a read of a column agrees with the conversion of its value`() throws {
        func check<Wanted: ValueConvertible & Equatable>(_: Wanted.Type, _ statement: Statement) {
            let value = statement.value(at: 0)
            #expect(Wanted.read(from: statement, at: 0) == Wanted(sqliteValue: value), "\(value) as \(Wanted.self)")
        }
        let connection = try memory()
        for value in Values.samples {
            let statement = try connection.cachedStatement("SELECT ?")
            defer { statement.reset() }
            try statement.bind(value, at: 1)
            #expect(try statement.step())
            check(Int64.self, statement)
            check(Int8.self, statement)
            check(UInt32.self, statement)
            check(Double.self, statement)
            check(Float.self, statement)
            check(Bool.self, statement)
            check(String.self, statement)
            check([UInt8].self, statement)
            check(Int?.self, statement)
            check(String?.self, statement)
        }
    }

    @Test func `an ended statement begins anew`() throws {
        let statement = try memory().prepare("SELECT 1")
        for _ in 0..<3 {
            #expect(try statement.step())
            #expect(statement.isBusy)
            #expect(try !statement.step())
            #expect(!statement.isBusy)
        }
    }

    @Test func `a failed statement can run again`() throws {
        let connection = try memory()
        try connection.execute("CREATE TABLE t(v UNIQUE)")
        let statement = try connection.prepare("INSERT INTO t VALUES (?)")
        try statement.bind(1, at: 1)
        try statement.run()
        #expect(throws: SQLiteError.self) { try statement.run() }
        try statement.bind(2, at: 1)
        try statement.run()
        #expect(try connection.fetchValue(Int.self, "SELECT count(*) FROM t") == 2)
    }

    @Test func `columns are right after a schema change`() throws {
        let connection = try memory()
        try connection.execute("CREATE TABLE t(a)")
        try connection.execute("INSERT INTO t VALUES (1)")
        let statement = try connection.prepare("SELECT * FROM t")
        #expect(try statement.step())
        #expect(statement.columnNames.names == ["a"])
        statement.reset()
        try connection.execute("ALTER TABLE t ADD COLUMN b DEFAULT 2")
        #expect(try statement.step())
        #expect(statement.columnCount == 2)
        #expect(Row(copying: statement)["b"] == 2)
        statement.reset()
        // The table now has as many columns, with other names.
        try connection.execute(script: "DROP TABLE t; CREATE TABLE t(b, c); INSERT INTO t VALUES (3, 4)")
        #expect(try statement.step())
        #expect(statement.columnNames.names == ["b", "c"])
        #expect(Row(copying: statement)["b"] == 3)
        #expect(try !statement.step())
        // The end of a run is also a beginning.
        try connection.execute(script: "DROP TABLE t; CREATE TABLE t(d)")
        #expect(try !statement.step())
        #expect(statement.columnNames.names == ["d"])
    }

    @Test func `one text has one statement`() throws {
        let connection = try memory()
        #expect(try sqliteError { _ = try connection.prepare("SELECT 1; SELECT 2") }.code == .misuse)
        #expect(try sqliteError { _ = try connection.prepare(" -- nothing") }.code == .misuse)
        #expect(try sqliteError { _ = try connection.prepare("") }.code == .misuse)
        _ = try connection.prepare("SELECT 1; ;\n\t\r\u{c} ")
        let (first, rest) = try connection.prepareFirst("SELECT 1; SELECT 2")
        #expect(first != nil)
        #expect(rest == " SELECT 2")
    }

    @Test func `a NUL in the text is an error, not its end`() throws {
        let connection = try memory()
        for text in ["\0", "SELECT 1;\0 SELECT 2", "SELECT '\0'"] {
            #expect(try sqliteError { _ = try connection.prepare(text) }.message.contains("NUL"))
            #expect(try sqliteError { try connection.execute(script: text) }.message.contains("NUL"))
        }
    }

    @Test func `a very long text compiles up to SQLite's limit`() throws {
        let connection = try memory()
        let long = "SELECT " + String(repeating: " ", count: 900_000) + "1"
        #expect(try connection.fetchValue(Int.self, long) == 1)
    }

    @Test func `a script runs to its end, in linear time`() throws {
        let connection = try memory()
        var script = "CREATE TABLE t(v); -- comment; with a semicolon\n"
        for number in 0..<20_000 { script += "INSERT INTO t VALUES (\(number));\n" }
        try connection.transaction { try connection.execute(script: script + "/* end */") }
        #expect(try connection.fetchValue(Int.self, "SELECT count(*) FROM t") == 20_000)
        try connection.execute(script: "")
        try connection.execute(script: " ; ; -- nothing")
    }

    @Test func `a script stops at its first error`() throws {
        let connection = try memory()
        let error = try sqliteError {
            try connection.execute(
                script: "CREATE TABLE t(v UNIQUE); INSERT INTO t VALUES (1), (1); INSERT INTO t VALUES (2)"
            )
        }
        #expect(error.code.primary == .constraint)
        #expect(error.sql == " INSERT INTO t VALUES (1), (1);")
        #expect(try connection.fetchValue(Int.self, "SELECT count(*) FROM t") == 0)
    }

    @Test func `a statement knows whether it writes`() throws {
        let connection = try memory()
        try connection.execute("CREATE TABLE t(v)")
        #expect(try connection.prepare("SELECT * FROM t").isReadOnly)
        #expect(try !connection.prepare("INSERT INTO t VALUES (1)").isReadOnly)
    }

    /// SQLite may say that an existing table does not exist, with a code that nobody expects.
    @Test func `a statement is prepared while others change the schema`() async throws {
        let folder = try TemporaryFolder()
        let path = folder.file("a.db")
        let reader = try Connection(path: path)
        try reader.execute("PRAGMA journal_mode = WAL")
        let isOver = Mutex(false)
        let group = DispatchGroup()
        DispatchQueue(label: "writer").async(group: group) {
            defer { isOver.withLock { $0 = true } }
            guard let writer = try? Connection(path: path) else { return }
            writer.setBusyTimeout(milliseconds: 5000)
            for _ in 0..<2000 {
                try? writer.execute("CREATE TABLE t(x)")
                try? writer.execute("DROP TABLE t")
            }
        }
        var codes: Set<ResultCode> = []
        for count in 0... {
            if isOver.withLock({ $0 }) { break }
            // As long as SQLite finds the table in the schema that it knows, it does not read the schema again.
            if count.isMultiple(of: 10) { _ = try? reader.fetchValue(Int.self, "SELECT count(*) FROM sqlite_master") }
            do {
                _ = try reader.prepare("SELECT x FROM t")
            } catch {
                codes.insert(error.code)
            }
        }
        await withCheckedContinuation { continuation in group.notify(queue: .global()) { continuation.resume() } }
        #expect(codes == [.error])
    }
}
