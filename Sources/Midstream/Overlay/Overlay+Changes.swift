internal import SQLText
internal import SQLiteConnection

// What writes of the engine's own do not show in.
extension Overlay {
    /// The rows that the application's last INSERT, UPDATE or DELETE changed.
    var changes: Int64 { changesToReport ?? connection.changes }

    /// Has `changes()` tell that many rows, until the next write.
    func reportChanges(_ changes: Int64) { changesToReport = changes }

    /// Runs writes of the engine's own, which `changes()` and `last_insert_rowid()` do not tell of.
    func unnoticed<Result>(_ body: () throws -> Result) rethrows -> Result {
        let changes = changes
        // The application's clauses may ask meanwhile.
        changesToReport = changes
        defer { changesToReport = changes }
        return try keepingLastInsertRowID(body)
    }

    /// Runs inserts that `last_insert_rowid()` does not tell of.
    func keepingLastInsertRowID<Result>(_ body: () throws -> Result) rethrows -> Result {
        let lastInsertRowID = connection.lastInsertRowID
        defer { setLastInsertRowID(lastInsertRowID) }
        return try body()
    }

    /// Has SQLite report a rowid as the last one inserted.
    func setLastInsertRowID(_ rowID: Int64) {
        connection.lastInsertRowID = rowID
        if connection.lastInsertRowID != rowID { try? insertAndRemove(rowID) }
    }

    /// Has SQLite report a rowid as the last one inserted. Before 3.18 it cannot be told, but by inserting it somewhere.
    private func insertAndRemove(_ rowID: Int64) throws {
        let (changes, before) = (changes, connection.totalChanges)
        defer {
            statements.internalChanges += connection.totalChanges - before
            changesToReport = changes
        }
        let insert = try statements.statement(InsertedRowID.insert)
        try insert.bind(rowID, at: 1)
        try insert.run()
        try statements.statement(InsertedRowID.clear).run()
    }

    /// Sees to it that a write that is about to begin gets from `changes()` what the application's last one changed: a
    /// statement that SQLite prepares anew as it begins would get 0.
    ///
    /// Where a trigger's program may ask, SQLite itself must count as many: there it is another number with each statement.
    func settleChanges() throws {
        guard let wanted = changesToReport ?? (isEmpty ? nil : connection.changes) else { return }
        guard watch.triggers.asksForChanges else {
            changesToReport = wanted
            return
        }
        changesToReport = nil
        if connection.changes == wanted { return }
        let before = connection.totalChanges
        defer { statements.internalChanges += connection.totalChanges - before }
        // No schema may be changed for it, or the statement would be prepared anew.
        try statements.statement(CountedRows.clear).run()
        if wanted == 0 { return try statements.statement(CountedRows.clear).run() }
        let count = try statements.statement(CountedRows.replace)
        try count.bind(wanted, at: 1)
        try count.bind(connection.lastInsertRowID, at: 2)
        try count.run()
    }

    /// The application's own statement has set `changes()`.
    func noteChanges() {
        changesToReport = nil
    }

    /// The application's own statement has been undone. What its triggers have changed stays counted, as natively.
    func noteUndone() {
        statements.internalChanges += changes
        changesToReport = 0
    }
}
