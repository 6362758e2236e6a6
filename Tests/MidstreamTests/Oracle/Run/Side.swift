import Dispatch
import Midstream
import SQLiteConnection

/// One of the two databases that run a case.
protocol Side {
    func scan(_ sql: String, _ arguments: Arguments, _ body: (Statement) throws -> Bool) throws
    var changes: Int64 { get }
    var lastInsertRowID: Int64 { get }
    var isInTransaction: Bool { get }
}

extension DatabaseAccess: Side {
    func scan(_ sql: String, _ arguments: Arguments, _ body: (Statement) throws -> Bool) throws {
        // Natively, the statement took less than three seconds.
        let alarm = DispatchWorkItem { print("oracle: more than a minute: \(sql)") }
        DispatchQueue.global().asyncAfter(deadline: .now() + 60, execute: alarm)
        defer { alarm.cancel() }
        try forEachRow(sql, arguments, body)
    }
}

/// The case cannot be compared any further. Either a write took too long, and interrupting it rolled its transaction
/// back; or SQLite chose a rowid at random.
struct EndlessWrite: Error {}

/// Native SQLite.
struct NativeSide: Side {
    let connection: Connection

    func scan(_ sql: String, _ arguments: Arguments, _ body: (Statement) throws -> Bool) throws {
        let statement = try connection.prepare(sql)
        try statement.bind(arguments)
        // Random joins may take hours. A read that is interrupted here is left out on both sides.
        let alarm = DispatchWorkItem { [handle = connection.interruptHandle] in handle.interrupt() }
        DispatchQueue.global().asyncAfter(deadline: .now() + 3, execute: alarm)
        defer { alarm.cancel() }
        do {
            while try statement.step() {
                guard try body(statement) else { break }
            }
        } catch let error as SQLiteError where error.code == .interrupt && !statement.isReadOnly {
            throw EndlessWrite()
        }
        statement.reset()
    }

    /// Makes SQLite notice what other connections have changed. Otherwise it may report errors according to the schema
    /// that it remembers.
    func readSchema() throws {
        try connection.execute("SELECT 1 FROM sqlite_master")
    }

    var changes: Int64 { connection.changes }
    var lastInsertRowID: Int64 { connection.lastInsertRowID }
    var isInTransaction: Bool { connection.isInTransaction }

    /// Whether the statement only scans one table, by its rowid or by a covering index that source and target have.
    func scansInOrder(_ command: Command, _ oracleCase: OracleCase) -> Bool {
        // The union tables choose as SQLite would without the hint, and search by each term of an OR.
        if command.sql.contains("NOT INDEXED") || command.sql.contains(" OR ") { return false }
        guard let plan = try? connection.fetchAll("EXPLAIN QUERY PLAN " + command.sql), plan.count == 1,
            case .text(let detail)? = plan[0]["detail"]
        else { return false }
        if let index = detail.split(separator: " USING COVERING INDEX ", maxSplits: 1).dropFirst().first {
            // If a column is NOT NULL, SQLite leaves such a condition out, and then an index may cover the rest.
            if ["NULL", "NOTNULL", "ISNULL"].contains(where: command.sql.contains) { return false }
            return detail.hasPrefix("SCAN") && oracleCase.followedIndexes.contains(String(index))
        }
        return detail.hasPrefix("SCAN") && !detail.contains(" USING ")
            || detail.hasPrefix("SEARCH") && detail.contains(" USING INTEGER PRIMARY KEY ")
    }
}

extension Side {
    func run(_ command: Command) -> Outcome {
        run(command, command.arguments)
    }

    private func run(_ command: Command, _ arguments: Arguments) -> Outcome {
        var outcome = Outcome()
        do {
            try self.scan(command.sql, arguments) { statement in
                if outcome.rows.isEmpty { outcome.columns = statement.columnNames.names }
                outcome.rows.append(Row(copying: statement).values)
                outcome.isTooLong = outcome.rows.count > 4000
                return !outcome.isTooLong
            }
        } catch let error as SQLiteError where error.code == .interrupt {
            outcome.isTooLong = true
        } catch is EndlessWrite {
            outcome.isEndless = true
        } catch {
            outcome.note(error)
            // SQLite chooses how far a statement gets before it fails.
            outcome.rows = []
            outcome.columns = []
        }
        return completed(outcome)
    }

    private func completed(_ outcome: Outcome) -> Outcome {
        var outcome = outcome
        outcome.changes = changes
        outcome.lastInsertRowID = lastInsertRowID
        outcome.isInTransaction = isInTransaction
        return outcome
    }

    /// For each row of a scan, runs the statements in turn. Returns the scan's outcome, then the outcome of each
    /// statement.
    func loop(_ select: Command, _ writes: [Command], limit: Int) -> [Outcome] {
        var whole = Outcome()
        var outcomes: [Outcome] = []
        do {
            try self.scan(select.sql, select.arguments) { statement in
                let key = statement.value(at: 0)
                whole.rows.append([key])
                let write = writes[outcomes.count % writes.count]
                var arguments = Arguments()
                if write.sql.contains("?1") { arguments.positional = [key] }
                outcomes.append(run(write, arguments))
                return whole.rows.count < limit
            }
        } catch {
            whole.note(error)
        }
        return [completed(whole)] + outcomes
    }
}
