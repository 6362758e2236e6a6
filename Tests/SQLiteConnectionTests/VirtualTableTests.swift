import SQLiteConnection
import Testing

/// Where a callback of the sample table fails.
private enum Place: Sendable, CaseIterable {
    case connect, declare, bestIndex, open, filter, next, column, rowID, update
}

/// What has happened to the sample tables.
private final class Journal {
    var failure: Place?
    var code = ResultCode.busy
    var opened = 0
    var closed = 0
    var connected = 0
    var disconnected = 0
    var steps = 0
    var rows: [(id: Int64, name: String)] = [(1, "one"), (2, "two"), (3, "three"), (4, "four"), (5, "five")]

    func visit(_ place: Place) throws {
        if failure == place { throw SQLiteError(code: code, message: "failed on purpose in \(place)") }
    }
}

private final class SampleModule: VirtualTableModule {
    let journal: Journal
    init(_ journal: Journal) { self.journal = journal }

    override func connect(name: String, arguments: [String]) throws -> (declaration: String, table: VirtualTable) {
        try journal.visit(.connect)
        journal.connected += 1
        let declaration = journal.failure == .declare ? "CREATE TABLE x(a,)" : "CREATE TABLE x(id INTEGER, name TEXT)"
        return (declaration, SampleTable(journal))
    }
}

private final class SampleTable: VirtualTable {
    let journal: Journal
    init(_ journal: Journal) { self.journal = journal }

    override func bestIndex(_ info: IndexInfo) throws {
        try journal.visit(.bestIndex)
        info.setEstimatedCost(1_000)
        info.setEstimatedRows(1_000)
        for index in 0..<info.constraintCount {
            let constraint = info.constraint(at: index)
            guard constraint.isUsable, constraint.column == 0, constraint.comparison == .equal else { continue }
            info.use(constraint: index, asArgument: 0)
            info.setPlan(1)
            info.setEstimatedCost(1)
            info.setEstimatedRows(1)
            info.setUnique()
        }
        if info.order.count == 1, info.order[0].column == 0, !info.order[0].isDescending { info.setOrderConsumed() }
    }

    override func open() throws -> VirtualTableCursor {
        try journal.visit(.open)
        journal.opened += 1
        return SampleCursor(journal)
    }

    override func update(_ arguments: ValueReferences) throws -> Int64? {
        try journal.visit(.update)
        return try super.update(arguments)
    }

    override func disconnect() { journal.disconnected += 1 }
}

private final class SampleCursor: VirtualTableCursor {
    let journal: Journal
    var position = 0
    var only: Int64?
    init(_ journal: Journal) { self.journal = journal }

    override func filter(plan: Int, arguments: ValueReferences) throws {
        try journal.visit(.filter)
        position = -1
        only = plan == 1 ? arguments[0].int64 : nil
        advance()
    }

    override func next() throws {
        try journal.visit(.next)
        advance()
    }

    private func advance() {
        repeat {
            position += 1
            journal.steps += 1
        } while position < journal.rows.count && only != nil && journal.rows[position].id != only
        isAtEnd = position >= journal.rows.count
    }

    override func column(_ index: Int, to result: ResultContext) throws {
        try journal.visit(.column)
        if index == 0 { result.set(journal.rows[position].id) } else { result.set(.text(journal.rows[position].name)) }
    }

    override func rowID() throws -> Int64 {
        try journal.visit(.rowID)
        return journal.rows[position].id
    }

    override func close() { journal.closed += 1 }
}

@Suite struct `Virtual tables` {
    private func sample(_ journal: Journal) throws -> Connection {
        let connection = try memory()
        try connection.createModule("sample", SampleModule(journal))
        try connection.execute("CREATE VIRTUAL TABLE temp.t USING sample(a, b c)")
        return connection
    }

    private func plan(_ connection: Connection, _ sql: String) throws -> String {
        try connection.fetchAll("EXPLAIN QUERY PLAN \(sql)").map { "\($0["detail"] ?? nil)" }.joined(separator: "\n")
    }

    @Test func `are scanned`() throws {
        let journal = Journal()
        let connection = try sample(journal)
        #expect(try connection.fetchAll("SELECT name FROM t").map { $0[0] } == ["one", "two", "three", "four", "five"])
        #expect(try connection.fetchOne("SELECT rowid, id FROM t WHERE name = 'two'")?.values == [2, 2])
        #expect(journal.opened == 2)
        #expect(journal.closed == journal.opened)
    }

    @Test func `get their module's arguments and name`() throws {
        final class Recorder: VirtualTableModule {
            var calls: [[String]] = []
            override func connect(name: String, arguments: [String]) throws -> (
                declaration: String, table: VirtualTable
            ) {
                calls.append([name] + arguments)
                return ("CREATE TABLE x(a)", VirtualTable())
            }
        }
        let connection = try memory()
        let recorder = Recorder()
        try connection.createModule("recorder", recorder)
        try connection.execute("CREATE VIRTUAL TABLE temp.\"my table\" USING recorder(a, b = 'c, d', (e, f))")
        #expect(recorder.calls == [["my table", "a", "b = 'c, d'", "(e, f)"]])
        #expect(
            try sqliteError { try connection.execute("SELECT * FROM \"my table\"") }.message
                == "the table has no cursor"
        )
    }

    @Test func `are asked for the rows of a constraint`() throws {
        let journal = Journal()
        let connection = try sample(journal)
        #expect(try connection.fetchAll("SELECT name FROM t WHERE id = ?", [3]).map { $0[0] } == ["three"])
        #expect(try plan(connection, "SELECT * FROM t WHERE id = 3").contains("INDEX 1:"))
        #expect(try plan(connection, "SELECT * FROM t WHERE id > 3").contains("INDEX 0:"))
        #expect(try connection.fetchAll("SELECT name FROM t WHERE id > 3").count == 2)
        // In a join, the value comes from the other table.
        try connection.execute(script: "CREATE TABLE o(k); INSERT INTO o VALUES (5), (1), (9)")
        #expect(
            try connection.fetchAll("SELECT name FROM o JOIN t ON t.id = o.k ORDER BY o.rowid").map { $0[0] }
                == ["five", "one"]
        )
    }

    @Test func `save the sort when they say that they are in order`() throws {
        let connection = try sample(Journal())
        #expect(try !plan(connection, "SELECT * FROM t ORDER BY id").contains("TEMP B-TREE"))
        #expect(try plan(connection, "SELECT * FROM t ORDER BY name").contains("TEMP B-TREE"))
        #expect(try plan(connection, "SELECT * FROM t ORDER BY id DESC").contains("TEMP B-TREE"))
        #expect(try connection.fetchAll("SELECT id FROM t ORDER BY id DESC").map { $0[0] } == [5, 4, 3, 2, 1])
    }

    @Test func `know the collation of a constraint`() throws {
        final class Table: VirtualTable {
            var collations: Set<String> = []
            override func bestIndex(_ info: IndexInfo) throws {
                for index in 0..<info.constraintCount { collations.insert(info.collation(at: index) ?? "?") }
            }
        }
        final class Module: VirtualTableModule {
            let table = Table()
            override func connect(name: String, arguments: [String]) throws -> (
                declaration: String, table: VirtualTable
            ) {
                ("CREATE TABLE x(a)", table)
            }
        }
        let connection = try memory()
        let module = Module()
        try connection.createModule("m", module)
        try connection.execute("CREATE VIRTUAL TABLE temp.t USING m")
        _ = try connection.prepare("SELECT * FROM t WHERE a = 'x' COLLATE NOCASE")
        #expect(module.table.collations == (Connection.libraryVersionNumber >= 3_022_000 ? ["NOCASE"] : ["?"]))
    }

    @Test(arguments: Place.allCases)
    fileprivate func `have their errors reach the caller`(place: Place) throws {
        let journal = Journal()
        let connection = try memory()
        try connection.createModule("sample", SampleModule(journal))
        if place != .connect && place != .declare { try connection.execute("CREATE VIRTUAL TABLE temp.t USING sample") }
        let sql =
            switch place {
            case .connect, .declare: "CREATE VIRTUAL TABLE temp.t USING sample"
            case .rowID: "SELECT rowid FROM t"
            case .update: "INSERT INTO t VALUES (1, 'x')"
            default: "SELECT id, name FROM t"
            }
        journal.failure = place
        let error = try sqliteError { try connection.execute(sql) }
        if place == .declare {
            #expect(error.code == .error)
            #expect(error.message.contains("syntax error"))
        } else {
            #expect(error.message == "failed on purpose in \(place)")
            // While SQLite compiles a statement, it keeps only the message.
            #expect(error.code == (place == .bestIndex ? .error : .busy))
        }
        #expect(error.sql == sql)
        #expect(journal.opened == journal.closed)
        // Nothing is left behind: the statement works once the cause is gone.
        journal.failure = nil
        if place != .update { try connection.execute(sql) }
        #expect(journal.opened == journal.closed)
        // A code of success does not make a success of an error.
        journal.failure = place
        journal.code = .ok
        if place == .connect || place == .declare { try connection.execute("DROP TABLE t") }
        #expect(throws: SQLiteError.self) {
            connection.clearStatementCache()
            try connection.execute(sql)
        }
    }

    @Test func `refuse writes in their own words`() throws {
        let connection = try sample(Journal())
        for sql in ["INSERT INTO t VALUES (1, 'x')", "UPDATE t SET name = 'x' WHERE id = 1", "DELETE FROM t"] {
            let error = try sqliteError { try connection.execute(sql) }
            #expect(error.code == .readOnly)
            #expect(error.message == "the table cannot be written")
        }
    }

    @Test func `take writes, and tell the rowid`() throws {
        final class Writable: VirtualTable {
            var calls: [[SQLiteValue]] = []
            override func update(_ arguments: ValueReferences) throws -> Int64? {
                calls.append((0..<arguments.count).map { arguments[$0].value })
                return 42
            }
        }
        final class Module: VirtualTableModule {
            let table = Writable()
            override func connect(name: String, arguments: [String]) throws -> (
                declaration: String, table: VirtualTable
            ) {
                ("CREATE TABLE x(a, b)", table)
            }
        }
        let connection = try memory()
        let module = Module()
        try connection.createModule("m", module)
        try connection.execute("CREATE VIRTUAL TABLE temp.t USING m")
        try connection.execute("INSERT INTO t(b) VALUES ('x')")
        #expect(module.table.calls == [[nil, nil, nil, "x"]])
        #expect(connection.lastInsertRowID == 42)
    }

    @Test func `are scanned twice at once`() throws {
        let journal = Journal()
        let connection = try sample(journal)
        #expect(try connection.fetchValue(Int.self, "SELECT count(*) FROM t AS a, t AS b WHERE a.name < b.name") == 10)
        #expect(journal.opened == journal.closed)
    }

    @Test func `close their cursor when a scan is left`() throws {
        let journal = Journal()
        let connection = try sample(journal)
        let statement = try connection.prepare("SELECT * FROM t")
        #expect(try statement.step())
        #expect(journal.opened - journal.closed == 1)
        statement.reset()
        #expect(journal.opened == journal.closed)
    }

    @Test func `are let go when dropped and when the connection closes`() throws {
        let journal = Journal()
        weak var module: SampleModule?
        do {
            let connection = try memory()
            let made = SampleModule(journal)
            module = made
            try connection.createModule("sample", made)
            try connection.execute("CREATE VIRTUAL TABLE temp.t USING sample")
            try connection.execute("CREATE VIRTUAL TABLE temp.u USING sample")
            try connection.execute("DROP TABLE t")
            #expect(journal.disconnected == 1)
            _ = try connection.fetchAll("SELECT * FROM u")
            connection.close()
        }
        #expect(journal.disconnected == journal.connected)
        #expect(journal.opened == journal.closed)
        #expect(module == nil)
    }

    @Test func `are let go by the last statement when it outlives its connection`() throws {
        let journal = Journal()
        do {
            let connection = try sample(journal)
            let statement = try connection.prepare("SELECT * FROM t")
            #expect(try statement.step())
            connection.close()
            #expect(try statement.step())
            #expect(statement.text(at: 1) == "two")
        }
        #expect(journal.opened == journal.closed)
        #expect(journal.disconnected == journal.connected)
    }

    @Test func `may use the statement cache while a statement goes`() throws {
        final class Cursor: VirtualTableCursor {
            let connection: Connection
            init(_ connection: Connection) { self.connection = connection }
            override func filter(plan: Int, arguments: ValueReferences) throws { isAtEnd = false }
            override func next() throws { isAtEnd = true }
            override func close() { try? connection.execute("SELECT 'closed'") }
        }
        final class Table: VirtualTable {
            unowned let connection: Connection
            init(_ connection: Connection) { self.connection = connection }
            override func open() throws -> VirtualTableCursor { Cursor(connection) }
        }
        final class Module: VirtualTableModule {
            unowned let connection: Connection
            init(_ connection: Connection) { self.connection = connection }
            override func connect(name: String, arguments: [String]) throws -> (
                declaration: String, table: VirtualTable
            ) {
                ("CREATE TABLE x(a)", Table(connection))
            }
        }
        let connection = try memory()
        try connection.createModule("m", Module(connection))
        try connection.execute("CREATE VIRTUAL TABLE temp.t USING m")
        #expect(try connection.cachedStatement("SELECT * FROM t").step())
        connection.clearStatementCache()
        #expect(try connection.fetchValue(Int.self, "SELECT 1") == 1)
    }
}
