internal import SQLText
internal import SQLiteConnection

/// A transaction that the application has begun by its own statement, before the first statement in it that reads or
/// writes a file.
///
/// Until that first statement, SQLite takes neither a lock nor a snapshot. So Midstream checks only then whether the
/// overlay fits. If it does not, Midstream makes the overlay anew, and begins the transaction again.
struct FreshTransaction {
    /// The statement that began the transaction, and the savepoint statements in it.
    var statements: [String]
    /// Whether the transaction has taken in the writes of a statement that was still running when it began. Such a
    /// transaction cannot be begun again.
    let isWritten: Bool
    /// Whether the transaction was begun by BEGIN, and not by SAVEPOINT.
    let isByBegin: Bool
}

extension DatabaseAccess {
    /// Notes that the application's statement has begun a transaction.
    func noteBeginning(_ prepared: Prepared) {
        switch prepared.route.role {
        case .begin where prepared.beginsTransaction, .savepoint where prepared.beginsTransaction:
            guard isSeenLater(prepared) else { return freshTransaction = nil }
            freshTransaction = FreshTransaction(
                statements: [prepared.text],
                isWritten: prepared.takesInWrites,
                isByBegin: prepared.route.role == .begin
            )
        case .savepoint, .end, .rollback: freshTransaction?.statements.append(prepared.text)
        case .begin, .query, .write, .other: break
        }
    }

    /// Whether the check that the overlay fits can wait for the transaction's first statement. It cannot if the
    /// transaction could not be begun again then: because the transaction has a lock, or because another library may
    /// run its own statements in it.
    private func isSeenLater(_ prepared: Prepared) -> Bool {
        !connection.isBorrowed && (prepared.takesInWrites || prepared.statement.isReadOnly)
    }

    /// Makes sure that the overlay fits a transaction that has just begun, if the check cannot wait for its first
    /// statement.
    func checkBeginning(_ prepared: Prepared) throws {
        guard prepared.beginsTransaction, connection.isInTransaction, !isSeenLater(prepared) else { return }
        do {
            guard try overlay.isCurrent() else { throw Stale() }
        } catch {
            // The transaction holds writes of another library's statement, so Midstream must not roll it back.
            guard !prepared.takesInWrites else { throw error is Stale ? Self.changed(prepared.text) : error }
            try rollBack()
            throw error
        }
    }

    /// Checks the overlay in a fresh transaction before its first statement. If that statement writes the target, the
    /// transaction is begun again with the target's write lock.
    ///
    /// - Throws: ``Stale`` if the overlay does not fit; `SQLiteError` with code `BUSY` if the wait for the lock was in
    ///   vain. The transaction is then as fresh as it was.
    func beginInEarnest(for prepared: Prepared) throws {
        switch prepared.route.role {
        case .begin, .savepoint, .end, .rollback: return
        case .query, .write, .other: break
        }
        if prepared.route.touchesNoFile { return }
        try beginInEarnest(writing: prepared.route.locksTarget)
    }

    /// - Parameter isWriting: Whether the target is written.
    func beginInEarnest(writing isWriting: Bool) throws {
        guard let fresh = freshTransaction, connection.isInTransaction else { return }
        // A statement that still reads holds a snapshot. With that, SQLite gives the lock at once or not at all.
        if isWriting, !fresh.isWritten, !connection.hasBusyStatement { try lockTarget(fresh) }
        guard try overlay.isCurrent() else { throw Stale() }
        overlay.forgetState()
        freshTransaction = nil
    }

    /// Checks the overlay in a fresh transaction for Midstream's own work, and makes the overlay anew until it fits.
    func beginInEarnest() throws {
        while freshTransaction != nil, connection.isInTransaction {
            do {
                try beginInEarnest(writing: false)
            } catch is Stale {
                try outsideFreshTransaction(refreshOverlay)
            }
        }
    }

    /// Begins the transaction again with the target's write lock. Preparing the statement has read the file, and with
    /// the snapshot of that read, SQLite would not wait for the lock.
    private func lockTarget(_ fresh: FreshTransaction) throws {
        let areDeferred = try areForeignKeysDeferred()
        try rollBack()
        do {
            try overlay.attachedFiles.check()
            if fresh.isByBegin {
                try beginWriting()
            } else {
                let table = try overlay.isEmpty ? anyTable() : "midstream_state"
                try connection.execute(script: fresh.statements[0])
                if let table { try takeLock(by: table) }
            }
            for statement in fresh.statements.dropFirst() { try connection.execute(script: statement) }
            try deferForeignKeys(areDeferred)
        } catch {
            try beginAgain(fresh, areForeignKeysDeferred: areDeferred)
            throw error
        }
    }

    /// A table by which to take the write lock while nothing moves; `nil` if the file has no table. In such a file,
    /// nothing can begin to move.
    private func anyTable() throws -> String? {
        try connection.fetchValue(
            String.self,
            "SELECT name FROM main.sqlite_master WHERE type = 'table' AND rootpage > 0 AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' LIMIT 1"
        )
    }

    private func takeLock(by table: String) throws {
        do {
            try overlay.unnoticed { try WriteLock.take(connection, by: table, in: "main") }
        } catch let error as SQLiteError where error.code == .error {
            // The table has been dropped or has begun to move, which the next check finds.
        }
    }

    /// Rolls back the fresh transaction, if there is one, runs `body`, and begins the transaction again.
    ///
    /// - Throws: `SQLiteError` with code `SCHEMA` if the transaction cannot be begun again.
    func outsideFreshTransaction<Result>(_ body: () throws -> Result) throws -> Result {
        guard let fresh = freshTransaction, connection.isInTransaction else { return try body() }
        guard !fresh.isWritten else { throw Self.changed(fresh.statements[0]) }
        let areDeferred = try areForeignKeysDeferred()
        try rollBack()
        let result = Swift.Result { try body() }
        try beginAgain(fresh, areForeignKeysDeferred: areDeferred)
        return try result.get()
    }

    private func beginAgain(_ fresh: FreshTransaction, areForeignKeysDeferred: Bool) throws {
        do {
            try rollBack()
            for statement in fresh.statements { try connection.execute(script: statement) }
            try deferForeignKeys(areForeignKeysDeferred)
        } catch {
            noteLost(error)
            throw error
        }
    }
}
