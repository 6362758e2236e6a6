internal import SQLiteConnection

/// A statement that writes a moving table, and that may have to be run again from the start: if the target does not take the
/// type of a value.
struct Attempt {
    let table: MovingTable
    private let access: DatabaseAccess
    private let totalChanges: Int64
    private let changes: Int64
    private let lastInsertRowID: Int64
    private let wasInTransaction: Bool
    /// Whether a savepoint is open, to which it can be undone. SQLite does not undo a statement in a transaction whose
    /// error it did not foresee, as those of types.
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

    /// Lets what it has done stand.
    func keep() {
        guard hasSavepoint, access.isInTransaction else { return }
        try? access.connection.execute("RELEASE midstream_attempt")
    }

    /// Undoes what is left of it after an error; the counts are as before it then.
    ///
    /// - Returns: `false` when that cannot be done.
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

    /// As with OR FAIL. SQLite need not have counted them.
    private func hasKeptRows() throws -> Bool {
        if access.totalChanges != totalChanges { return true }
        guard access.lastInsertRowID != lastInsertRowID else { return false }
        return try table.targetHolds(rowID: access.lastInsertRowID)
    }
}
