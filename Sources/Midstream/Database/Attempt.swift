internal import SQLiteConnection

/// A statement that writes a moving table. It may have to be run again from the start, if the target does not take the
/// type of a value.
struct Attempt {
    let table: MovingTable
    private let access: DatabaseAccess
    private let totalChanges: Int64
    private let changes: Int64
    private let lastInsertRowID: Int64
    private let wasInTransaction: Bool
    /// Whether a savepoint is open, to which the statement can be undone. Within a transaction, SQLite does not undo a
    /// statement that fails with an error which SQLite did not foresee, such as an error of types.
    private let hasSavepoint: Bool

    init(_ access: DatabaseAccess, _ table: MovingTable) {
        self.access = access
        self.table = table
        totalChanges = access.totalChanges
        changes = access.overlay.changes
        lastInsertRowID = access.lastInsertRowID
        wasInTransaction = access.isInTransaction
        let isGuarded = wasInTransaction && table.target.isStrict && table.openCursors == 0
        hasSavepoint = isGuarded && (try? access.connection.execute("SAVEPOINT midstream_attempt")) != nil
    }

    /// Lets stand what the statement has done.
    func keep() {
        guard hasSavepoint, access.isInTransaction else { return }
        try? access.connection.execute("RELEASE midstream_attempt")
    }

    /// Undoes what is left of the statement after an error, and sets the counts of changes back.
    ///
    /// - Returns: `false` if the statement cannot be undone.
    func undo() throws -> Bool {
        if wasInTransaction {
            guard access.isInTransaction else { return false }
            if hasSavepoint {
                access.connection.undoSavepoint("midstream_attempt")
                if access.connection.isHalfUndone { return false }
                access.overlay.statements.rollbacks += 1
                access.overlay.forgetState()
            } else if try hasKeptRows() {
                return false
            }
        }
        access.overlay.statements.internalChanges += access.totalChanges - totalChanges
        access.overlay.setLastInsertRowID(lastInsertRowID)
        access.overlay.reportChanges(changes)
        return true
    }

    /// Whether the failed statement has left rows behind, as with OR FAIL. SQLite need not have counted these rows.
    private func hasKeptRows() throws -> Bool {
        if access.totalChanges != totalChanges { return true }
        guard access.lastInsertRowID != lastInsertRowID else { return false }
        return try table.targetHolds(rowID: access.lastInsertRowID)
    }
}
