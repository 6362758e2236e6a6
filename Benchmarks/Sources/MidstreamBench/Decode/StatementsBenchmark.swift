internal import CBaseline
internal import Midstream
internal import SQLiteConnection

/// What the Swift layers add to statements of one row. The ways are: plain C with statements prepared once;
/// `Statement`, prepared once as well; `Connection`, which looks statements up by their texts; and `Database` on a file
/// in which nothing moves.
///
/// Each way has a file of its own. The ways take turns, so that other work of the machine affects them alike.
func statementsBenchmark(_ options: Options, _ report: Report) throws {
    let folder = try WorkFolder(below: options.folder)
    Report.note("statements")
    let contenders = try StatementContenders(folder, rows: 100_000)
    defer { contenders.close() }
    var random = Random(seed: 31)
    var lines: [[String]] = []
    for work in StatementContenders.Work.allCases {
        var cell = Cell(ways: StatementContenders.ways.count, countsProcessorTime: options.processorTime)
        var lengths = StatementContenders.ways.map { _ in Int64(0) }
        while cell.slices < 15 || cell.total < 3 * options.seconds {
            let keys = (0..<work.count).map { _ in random.next(1...contenders.rows) }
            try cell.measure { lengths[$0] = try contenders.run(work, keys, by: $0) }
            guard lengths.allSatisfy({ $0 == lengths[0] }) else {
                throw SQLiteError(code: .error, message: "\(work.name): the ways read something else")
            }
        }
        let time = cell.median(of: 0) / Double(work.count)
        lines.append(
            [work.name, time.asTime]
                + StatementContenders.ways.indices.dropFirst().map { cell.ratio(of: $0, to: 0).short }
        )
    }
    report.section(
        "statements",
        "one row each, times plain C; \(contenders.rows.grouped) rows"
            + (options.processorTime ? "; processor time" : "")
    )
    report.table(["statements"] + StatementContenders.ways, lines)
}

private struct StatementContenders {
    enum Work: CaseIterable {
        case select, insert, update

        var name: String {
            switch self {
            case .select: "select by key, 200 in a transaction"
            case .insert: "insert 200 in a transaction"
            case .update: "update by key, each in its transaction"
            }
        }

        var count: Int { self == .update ? 50 : 200 }
    }

    static let ways = ["C", "Statement", "Connection", "Database"]

    let rows: Int64
    private let baseline: OpaquePointer
    private let statements: Statements
    private let connection: Connection
    private let database: Database

    /// Statements that are prepared once, as in C.
    private struct Statements {
        let connection: Connection
        private let (begin, beginWrite, commit): (Statement, Statement, Statement)
        private let (select, insert, update): (Statement, Statement, Statement)

        init(_ path: String) throws {
            connection = try Connection(path: path)
            try connection.execute("PRAGMA synchronous = NORMAL")
            begin = try connection.prepare("BEGIN")
            beginWrite = try connection.prepare("BEGIN IMMEDIATE")
            commit = try connection.prepare("COMMIT")
            select = try connection.prepare(StatementContenders.select)
            insert = try connection.prepare(StatementContenders.insert)
            update = try connection.prepare(StatementContenders.update)
        }

        func run(_ work: Work, _ keys: [Int64]) throws -> Int64 {
            var length: Int64 = 0
            switch work {
            case .select:
                try begin.run()
                for key in keys {
                    try select.bind(key, at: 1)
                    if try select.step() { length += StatementContenders.length(select) }
                    select.reset()
                }
                try commit.run()
            case .insert:
                try beginWrite.run()
                for index in keys.indices {
                    try insert.bind(Int64(index), at: 1)
                    try insert.bind(StatementContenders.sender, at: 2)
                    try insert.bind(StatementContenders.body, at: 3)
                    try insert.run()
                }
                try commit.run()
            case .update:
                for (index, key) in keys.enumerated() {
                    try beginWrite.run()
                    try update.bind(Int64(index), at: 1)
                    try update.bind(key, at: 2)
                    try update.run()
                    try commit.run()
                }
            }
            return length
        }
    }

    private static let sender = "user000017"
    private static let body = "The quick brown fox jumps over the lazy dog, and goes on to the next one."

    init(_ folder: WorkFolder, rows: Int64) throws {
        self.rows = rows
        let path = folder.file("rows.db")
        let made = try Connection(path: path)
        try made.execute("CREATE TABLE messages(id INTEGER PRIMARY KEY, time, sender, body)")
        try made.execute(
            """
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
            INSERT INTO messages SELECT i, i, printf('user%06d', i), printf('message number %010d of the benchmark', i) FROM n
            """,
            [rows]
        )
        try made.execute("PRAGMA journal_mode = WAL")
        made.close()
        for name in ["c.db", "statements.db", "connection.db", "database.db"] { try folder.copy("rows.db", to: name) }
        guard let baseline = baseline_statements_open(folder.file("c.db")) else {
            throw SQLiteError(code: .cannotOpen, message: "the baseline cannot open \(folder.file("c.db"))")
        }
        self.baseline = baseline
        statements = try Statements(folder.file("statements.db"))
        connection = try Connection(path: folder.file("connection.db"))
        try connection.execute("PRAGMA synchronous = NORMAL")
        database = try Database(path: folder.file("database.db"))
    }

    func close() {
        baseline_statements_close(baseline)
        statements.connection.close()
        connection.close()
        database.close()
    }

    /// - Returns: The length of what was read.
    func run(_ work: Work, _ keys: [Int64], by way: Int) throws -> Int64 {
        switch way {
        case 0: try runInC(work, keys)
        case 1: try statements.run(work, keys)
        case 2: try run(work, keys, connection)
        default: try run(work, keys, database)
        }
    }

    private func runInC(_ work: Work, _ keys: [Int64]) throws -> Int64 {
        let count = Int32(keys.count)
        switch work {
        case .select: return baseline_statements_select(baseline, keys, count)
        case .insert:
            guard baseline_statements_insert(baseline, Self.sender, Self.body, count) == 1 else { throw Self.failure }
        case .update: guard baseline_statements_update(baseline, keys, count) == 1 else { throw Self.failure }
        }
        return 0
    }

    private static let failure = SQLiteError(code: .error, message: "the baseline failed")

    private static let select = "SELECT id, sender, body FROM messages WHERE id = ?"
    private static let insert = "INSERT INTO messages VALUES (NULL, ?, ?, ?)"
    private static let update = "UPDATE messages SET time = ? WHERE id = ?"

    private static func length(_ statement: Statement) -> Int64 {
        Int64(statement.text(at: 1).utf8.count + statement.text(at: 2).utf8.count)
    }

    private func run(_ work: Work, _ keys: [Int64], _ connection: Connection) throws -> Int64 {
        var length: Int64 = 0
        switch work {
        case .select:
            try connection.transaction {
                for key in keys {
                    let statement = try connection.cachedStatement(Self.select)
                    defer { statement.reset() }
                    try statement.bind(key, at: 1)
                    if try statement.step() { length += Self.length(statement) }
                }
            }
        case .insert:
            try connection.transaction(.immediate) {
                for index in keys.indices {
                    try connection.execute(Self.insert, [index, Self.sender, Self.body])
                }
            }
        case .update:
            for (index, key) in keys.enumerated() {
                try connection.transaction(.immediate) { try connection.execute(Self.update, [index, key]) }
            }
        }
        return length
    }

    private func run(_ work: Work, _ keys: [Int64], _ database: Database) throws -> Int64 {
        var length: Int64 = 0
        switch work {
        case .select:
            try database.read { access in
                for key in keys {
                    try access.forEachRow(Self.select, [key]) {
                        length += Self.length($0); return true
                    }
                }
            }
        case .insert:
            try database.write { access in
                for index in keys.indices { try access.execute(Self.insert, [index, Self.sender, Self.body]) }
            }
        case .update:
            for (index, key) in keys.enumerated() { try database.execute(Self.update, [index, key]) }
        }
        return length
    }
}
