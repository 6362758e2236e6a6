internal import SQLText
internal import SQLiteConnection

// What `changes()`, `total_changes()` and `last_insert_rowid()` report: the engine's own writes must not show in them.
extension Overlay {
    /// The rows that the application's last INSERT, UPDATE or DELETE changed.
    var changes: Int64 { changesToReport ?? connection.changes }

    /// Makes `changes()` return that number until the next write.
    func reportChanges(_ changes: Int64) { changesToReport = changes }

    /// Runs writes of the engine's own without a trace in `changes()` and `last_insert_rowid()`.
    func unnoticed<Result>(_ body: () throws -> Result) rethrows -> Result {
        let changes = changes
        // Clauses of the application's statement may call `changes()` meanwhile.
        changesToReport = changes
        defer { changesToReport = changes }
        return try keepingLastInsertRowID(body)
    }

    /// Runs inserts without a trace in `last_insert_rowid()`.
    func keepingLastInsertRowID<Result>(_ body: () throws -> Result) rethrows -> Result {
        let lastInsertRowID = connection.lastInsertRowID
        defer { setLastInsertRowID(lastInsertRowID) }
        return try body()
    }

    /// Makes SQLite report a rowid as the last one inserted.
    func setLastInsertRowID(_ rowID: Int64) {
        connection.lastInsertRowID = rowID
        if connection.lastInsertRowID != rowID { try? insertAndRemove(rowID) }
    }

    /// Makes SQLite before 3.18 report a rowid as the last one inserted. The only way is to insert the rowid somewhere.
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

    /// Makes `changes()`, within a write that is about to begin, return what the application's last write changed. Without this,
    /// a statement that SQLite prepares again as it begins would get 0.
    ///
    /// If a trigger's program may call `changes()`, SQLite itself must have counted as many rows: within the program, the number
    /// changes with each statement.
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
        // This must change no schema, or SQLite would prepare the application's statement again.
        try statements.statement(CountedRows.clear).run()
        if wanted == 0 { return try statements.statement(CountedRows.clear).run() }
        let count = try statements.statement(CountedRows.replace)
        try count.bind(wanted, at: 1)
        try count.bind(connection.lastInsertRowID, at: 2)
        try count.run()
    }

    /// Called when the application's own statement has set `changes()`.
    func noteChanges() {
        changesToReport = nil
    }

    /// Called when the application's own statement has been undone. What the statement's triggers have changed stays counted, as
    /// natively.
    func noteUndone() {
        statements.internalChanges += changes
        changesToReport = 0
    }
}
