internal import SQLiteConnection

extension InternalStatements {
    /// Runs a statement that copies one or more rows into the target.
    ///
    /// AUTOINCREMENT does not count these rows as new. Whether they fire the target's triggers is the migration's choice.
    func movingRows<Result>(of sql: MoveSQL, _ copy: () throws -> Result) throws -> Result {
        try keepingSequence(of: sql) {
            guard sql.firesTriggers else { return try copy() }
            do {
                return try fired.firing(sql, copy)
            } catch {
                // SQLite shows what a trigger does while it prepares the statement, so statements that fired a wrong trigger must
                // be prepared again.
                if error is MigrationError { removeAll() }
                throw error
            }
        }
    }

    /// Leaves AUTOINCREMENT's sequence as it was: the application may have set it back.
    private func keepingSequence<Result>(of sql: MoveSQL, _ copy: () throws -> Result) throws -> Result {
        guard sql.hasSequence else { return try copy() }
        let name = sql.targetName
        let before = try sequence(name)
        let result = try copy()
        guard try sequence(name) != before else { return result }
        let text =
            before.isEmpty
            ? "DELETE FROM main.sqlite_sequence WHERE name = ?1"
            // If there are several rows, which only the application can have made, SQLite takes the first.
            : "UPDATE main.sqlite_sequence SET seq = ?2 WHERE rowid = (SELECT min(rowid) FROM main.sqlite_sequence WHERE name = ?1)"
        let restore = try statement(text)
        defer { restore.reset() }
        try restore.bind(name, at: 1)
        if let value = before.first { try restore.bind(value, at: 2) }
        _ = try restore.step()
        return result
    }

    /// The number that AUTOINCREMENT has reached; `nil` if the table has no AUTOINCREMENT, or has no number stored.
    func sequence(of sql: MoveSQL) throws -> Int64? {
        guard sql.hasSequence, case .integer(let value)? = try sequence(sql.targetName).first else { return nil }
        return value
    }

    /// The number in the table's row of `sqlite_sequence`; empty if there is no row.
    private func sequence(_ name: String) throws -> [SQLiteValue] {
        let statement = try statement("SELECT seq FROM main.sqlite_sequence WHERE name = ?1")
        defer { statement.reset() }
        try statement.bind(name, at: 1)
        return try statement.step() ? [statement.value(at: 0)] : []
    }
}
