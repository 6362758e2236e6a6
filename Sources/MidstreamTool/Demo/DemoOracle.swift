internal import SQLiteConnection
internal import Synchronization

/// Plain SQLite, which repeats what the application did, in the same order, and compares every result.
final class DemoOracle: Sendable {
    struct Result: Sendable {
        var reads = 0
        var writes = 0
        var rows = 0
        /// How many results differed. The first few are in `examples`, in words.
        var differences = 0
        var examples: [String] = []

        mutating func note(_ example: String) {
            differences += 1
            if examples.count < 5 { examples.append(example) }
        }
    }

    private let path: String
    private let log: DemoLog
    private let state = Mutex(Result())

    init(path: String, log: DemoLog) {
        self.path = path
        self.log = log
    }

    var result: Result { state.withLock { $0 } }

    func note(_ example: String) {
        state.withLock { $0.note(example) }
    }

    /// Compares entries until the log ends.
    func run() throws {
        let connection = try Connection(path: path, options: OpenOptions(access: .readWrite))
        defer { connection.close() }
        try connection.execute("PRAGMA synchronous = OFF")
        var turn = try connection.fetchValue(Int64.self, DemoClock.read) ?? 0
        while true {
            switch log.next(at: turn) {
            case .reads(let reads):
                for outcomes in reads {
                    state.withLock { $0.reads += outcomes.count }
                    try compare(outcomes, connection)
                }
            case .turn(let outcomes):
                turn += 1
                state.withLock { $0.writes += 1 }
                try connection.transaction {
                    try compare(outcomes, connection)
                    try connection.execute(DemoClock.advance)
                }
            case .wait: SystemCalls.sleep(milliseconds: 1)
            case .end:
                if log.leftovers > 0 { note("\(log.leftovers) transactions have no place in the order of turns") }
                return
            }
        }
    }

    private func compare(_ outcomes: [DemoOutcome], _ connection: Connection) throws {
        for outcome in outcomes {
            let wanted = try DemoResult.of(outcome.statement) { sql, arguments in
                try connection.fetchAll(sql, arguments)
            } execute: { sql, arguments in
                try connection.execute(sql, arguments)
                return (connection.changes, connection.lastInsertRowID)
            }
            state.withLock { state in
                if case .rows(let rows) = wanted { state.rows += rows.count }
                guard !Self.areEqual(outcome, wanted) else { return }
                state.note(
                    "\(outcome.statement.sql)\n    got    \(Self.text(outcome.result))\n    wanted \(Self.text(wanted))"
                )
            }
        }
    }

    private static func areEqual(_ outcome: DemoOutcome, _ wanted: DemoResult) -> Bool {
        if case .changed(let rows, _) = outcome.result, case .changed(let wantedRows, _) = wanted,
            !outcome.statement.sql.hasPrefix("INSERT")
        {
            // The application's connection was opened later, so the last row that it inserted may be another.
            return rows == wantedRows
        }
        return outcome.result == wanted
    }

    private static func text(_ result: DemoResult) -> String {
        switch result {
        case .rows(let rows):
            let first = rows.first.map { JSON(array: $0.values.map { JSON($0) }).text } ?? ""
            return "\(NumberText.count(Int64(rows.count), "row")) \(first.prefix(160))"
        case .changed(let rows, let id): return "\(rows) changed, last insert \(id)"
        case .failure(let code, let message): return "error \(code), \(message)"
        }
    }
}
