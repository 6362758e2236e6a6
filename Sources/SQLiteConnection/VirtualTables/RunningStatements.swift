internal import SQLiteC

/// A statement that has begun and not ended.
public struct RunningStatement {
    /// The statement's text; `nil` if SQLite has none.
    public let sql: String?
    /// Whether the statement may write.
    public let mayWrite: Bool
    /// Identifies the statement, to be compared with identities that were given before. Another statement may later have
    /// the same identity.
    public let identity: UInt
}

/// What the statement that writes a virtual table says of conflicts.
public enum ConflictMode: Int32, Sendable {
    /// OR ROLLBACK.
    case rollback = 1
    /// OR IGNORE.
    case ignore = 2
    /// OR FAIL.
    case fail = 3
    /// OR ABORT, or no OR clause.
    case abort = 4
    /// OR REPLACE.
    case replace = 5
}

extension Connection {
    /// The statements that have begun and not ended, whoever prepared them.
    ///
    /// - Complexity: O(n) in the prepared statements of the connection.
    ///
    /// Source: <https://www.sqlite.org/c3ref/stmt_busy.html>.
    public func runningStatements(thatMayWrite writesOnly: Bool = false) -> [RunningStatement] {
        guard !isClosed else { return [] }
        var running: [RunningStatement] = []
        var next = sqlite3_next_stmt(db, nil)
        while let statement = next {
            if sqlite3_stmt_busy(statement) != 0 {
                let mayWrite = sqlite3_stmt_readonly(statement) == 0
                if mayWrite || !writesOnly {
                    running.append(
                        RunningStatement(
                            sql: sqlite3_sql(statement).map { String(cString: $0) },
                            mayWrite: mayWrite,
                            identity: UInt(bitPattern: statement)
                        )
                    )
                }
            }
            next = sqlite3_next_stmt(db, statement)
        }
        return running
    }

    /// What the running statement says of conflicts. For use while a virtual table is being written.
    public var conflictMode: ConflictMode {
        isClosed ? .abort : ConflictMode(rawValue: sqlite3_vtab_on_conflict(db)) ?? .abort
    }
}
