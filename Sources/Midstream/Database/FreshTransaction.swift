internal import SQLText
internal import SQLiteConnection

/// A transaction that the application has begun by a statement of its own, until the first one in it that reads or writes a
/// file.
///
/// SQLite takes neither a lock nor a snapshot before that. So it is seen then whether the overlay fits; where it does not, it
/// is made anew, and the transaction is begun again.
struct FreshTransaction {
    /// What began it, and the savepoints in it.
    var statements: [String]
    /// Whether it has taken in what a statement has written that was still running. It cannot be begun again then.
    let isWritten: Bool
    /// Whether it was begun by BEGIN, and not by SAVEPOINT.
    let isByBegin: Bool
}

extension DatabaseAccess {
    /// Notes what begins a transaction of the application's.
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

    /// Whether it is time to see whether the overlay fits when the transaction's first statement comes. It is not where the
    /// transaction could not be begun again then, since it has a lock, or another library may run statements of its own in it.
    private func isSeenLater(_ prepared: Prepared) -> Bool {
        !connection.isBorrowed && (prepared.takesInWrites || prepared.statement.isReadOnly)
    }

    /// Sees to it that a transaction that has just begun has an overlay that fits, if it is to be seen at once.
    func checkBeginning(_ prepared: Prepared) throws {
        guard prepared.beginsTransaction, connection.isInTransaction, !isSeenLater(prepared) else { return }
        do {
            guard try overlay.isCurrent() else { throw Stale() }
        } catch {
            // What another library's statement writes is its own.
            guard !prepared.takesInWrites else { throw error is Stale ? Self.changed(prepared.text) : error }
            try rollBack()
            throw error
        }
    }

    /// Has a fresh transaction begin in earnest for its first statement, with the target's write lock where that writes the
    /// target.
    ///
    /// - Throws: ``Stale`` if the overlay does not fit; `SQLiteError`, `BUSY` where the lock is waited for in vain. The
    ///   transaction is as fresh as it was.
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
        // A statement that still reads has a snapshot, by which the lock can be had at once or not at all.
        if isWriting, !fresh.isWritten, !connection.hasBusyStatement { try lockTarget(fresh) }
        guard try overlay.isCurrent() else { throw Stale() }
        overlay.forgetState()
        freshTransaction = nil
    }

    /// The same for what the engine itself does in it, with an overlay that fits.
    func beginInEarnest() throws {
        while freshTransaction != nil, connection.isInTransaction {
            do {
                try beginInEarnest(writing: false)
            } catch is Stale {
                try outsideFreshTransaction(refreshOverlay)
            }
        }
    }

    /// Begins the transaction again with the target's write lock. What was read to prepare the statement is a snapshot, with
    /// which SQLite would not wait for it.
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

    /// A table to take the lock by where nothing moves. In a file that has none, nothing can begin to.
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
            // It has gone, or begun to move, which is seen next.
        }
    }

    /// Runs `body` with a fresh transaction rolled back, if there is one, and begins that again.
    ///
    /// - Throws: `SQLiteError`, `SCHEMA`, where it cannot be begun again.
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
