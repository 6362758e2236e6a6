internal import SQLText
internal import SQLiteConnection

/// Transactions: the blocks', and those that the application begins by statements of its own.
extension DatabaseAccess {
    // MARK: Lost ones

    func noteLost(_ error: (any Error)?) {
        guard lostTransaction == nil else { return }
        let cause = error as? SQLiteError ?? (error as? MigrationError)?.cause
        lostTransaction = SQLiteError(
            code: cause?.code ?? .abort,
            message: "the transaction has been rolled back by an error" + (error.map { ": \($0)" } ?? "")
        )
    }

    /// - Throws: What came before is lost, and what follows would be committed without it; or half of something was done, and
    ///   could not be undone.
    func checkTransaction() throws {
        if connection.isHalfUndone { noteLost(nil) }
        guard let lostTransaction else { return }
        if !isInBlock {
            try connection.rollBack()
            self.lostTransaction = nil
        }
        throw lostTransaction
    }

    // MARK: The snapshot

    /// Sees to it that the overlay fits the snapshot that the statement will read.
    func makeCurrent(before piece: Piece) throws {
        if connection.isInTransaction, overlay.isSuspended { try resumeOverlay(before: piece) }
        let (tables, reason) = overlay.needsDraining
        if connection.isInTransaction, !tables.isEmpty { try drain(tables, reason, for: piece.text) }
        // A block's transaction may have been ended by an error that the block has caught.
        if isInBlock, connection.isInTransaction, freshTransaction == nil { return }
        if !connection.isInTransaction {
            // What mends it must be run.
            if piece.isDetach { return }
            try overlay.attachedFiles.check()
            if try !overlay.isCurrent() { try refreshOverlay() }
            return
        }
        guard freshTransaction != nil else { return }
        let role = piece.role(overlay)
        switch role {
        case .begin, .savepoint, .end, .rollback: return
        case .query, .write, .other: break
        }
        if connection.isWriting == true {
            // Something was done that nobody has told of: it must not be undone.
            guard try overlay.isCurrent() else { throw Self.changed(piece.text) }
            freshTransaction = nil
            return
        }
        if role == .query || connection.hasBusyStatement { return try beginSnapshot() }
        // Who writes first may wait for the write lock, unless something has been read. Of what is prepared already, SQLite
        // itself looks whether it is of the schema.
        if cache.contains(piece.key, overlay) { return }
        try beforeFreshTransaction {
            try overlay.attachedFiles.check()
            if try !overlay.isCurrent() { try refreshOverlay() }
        }
    }

    /// Begins the snapshot of the application's transaction, if it has none, for the overlay to fit it.
    func beginSnapshot() throws {
        while freshTransaction != nil {
            if try overlay.isCurrent() { freshTransaction = nil } else { try beforeFreshTransaction(refreshOverlay) }
            overlay.forgetState()
        }
    }

    /// Runs `body` with the application's transaction rolled back, if it is fresh, and begins that again.
    func beforeFreshTransaction(_ body: () throws -> Void) throws {
        guard let beginning = freshTransaction, connection.isInTransaction else { return try body() }
        let areDeferred = areForeignKeysDeferred
        try connection.execute("ROLLBACK")
        let result = Result { try body() }
        do {
            for statement in beginning { try connection.execute(script: statement) }
            try deferForeignKeys(areDeferred)
        } catch {
            noteLost(error)
            throw error
        }
        try result.get()
    }

    /// What ends the transaction needs no overlay, and must not fail for want of it.
    private func resumeOverlay(before piece: Piece) throws {
        switch piece.role(overlay) {
        case .end, .rollback, .savepoint: break
        case .begin, .query, .write, .other: try overlay.resume()
        }
    }

    // MARK: Those of the application's own

    /// Notes what begins a transaction of the application's, as long as it can be begun again.
    func noteBeginning(_ prepared: Prepared) {
        switch prepared.route.role {
        case .begin where prepared.beginsTransaction, .savepoint where prepared.beginsTransaction:
            freshTransaction = isSeenLater(prepared) ? [prepared.text] : nil
        case .savepoint, .end, .rollback: freshTransaction?.append(prepared.text)
        case .begin, .query, .write, .other: break
        }
    }

    /// Whether it is time to see whether the overlay fits when the transaction's first statement comes. It is not where the
    /// transaction could not be begun again then, since it has a lock, or another library may run statements of its own in it. One
    /// that has begun with the changes of a statement that runs cannot be begun again even now: ``isWriting`` tells.
    private func isSeenLater(_ prepared: Prepared) -> Bool {
        if kind == .borrowed { return false }
        return connection.isWriting == true && runningWrites > 0 || prepared.statement.isReadOnly
    }

    /// Whether a statement of the connection, or the handle of a value, writes outside a transaction. One that were begun now
    /// would take it in, could not be committed before it ends, and would undo it if rolled back.
    var isAmidWrite: Bool {
        !connection.isInTransaction && (runningWrites > 0 || connection.isWriting == true)
    }

    /// - Throws: ``SQLiteError``, `BUSY`, while a statement writes outside a transaction.
    private func checkMayBegin() throws {
        guard isAmidWrite else { return }
        throw SQLiteError(
            code: .busy,
            message:
                "no transaction can be begun and ended while a statement of the connection writes: run this when that has ended"
        )
    }

    /// Sees to it that a transaction that has just begun has an overlay that fits, if it is to be seen at once.
    func checkBeginning(_ prepared: Prepared) throws {
        guard prepared.beginsTransaction, connection.isInTransaction, !isSeenLater(prepared) else { return }
        do {
            guard try overlay.isCurrent() else { throw Stale() }
        } catch {
            // What another library's statement writes is its own.
            if connection.isWriting == true, prepared.statement.isReadOnly { throw Self.changed(prepared.text) }
            try connection.rollBack()
            throw error
        }
    }

    /// Takes the target's write lock in the transaction that is open, or in that of the statement that writes.
    ///
    /// - Throws: ``Stale`` if the overlay was not made for it; `SQLiteError`, `BUSY` where the lock is waited for in vain: the
    ///   transaction is as fresh as it was.
    func lockTarget() throws {
        do {
            try overlay.unnoticed { try WriteLock.take(connection, by: "midstream_state", in: "main") }
        } catch let error as SQLiteError where error.isMissingTable {
            // Another process has just ended the last migration.
            throw Stale()
        }
        guard try overlay.isOfSchema() else { throw Stale() }
    }

    /// Begins the application's own transaction. Where BEGIN IMMEDIATE and EXCLUSIVE would lock every attached file (before
    /// SQLite 3.28), they fail for a source, which is read alone; what they are meant for is the target's lock.
    func begin(_ statement: () throws -> Void) throws {
        do {
            try statement()
        } catch let error as SQLiteError where error.code == .readOnly {
            // In a transaction, any BEGIN fails as it would natively.
            if connection.isInTransaction { return try connection.execute("BEGIN") }
            guard !overlay.isEmpty else { throw error }
            try beginWriting()
        }
    }

    func commitOrRollBack() throws {
        do {
            try connection.execute("COMMIT")
        } catch {
            try? connection.rollBack()
            throw error
        }
    }

    // MARK: Deferred foreign keys

    /// SQLite ends this when a statement that reads a file ends outside transactions, be it one of the engine's own.
    var areForeignKeysDeferred: Bool {
        (try? connection.fetchValue(Int64.self, "PRAGMA defer_foreign_keys")) == 1
    }

    /// Sets it again, if the application has. The pragma expires statements, so none may be running.
    func deferForeignKeys(_ isWanted: Bool) throws {
        if isWanted, !connection.hasBusyStatement { try connection.execute("PRAGMA defer_foreign_keys = 1") }
    }

    // MARK: Blocks

    /// Runs `body` with what is refused left uncounted, since the caller runs it elsewhere then.
    func repeatedElsewhere<Result>(_ body: (DatabaseAccess) throws -> Result) rethrows -> Result {
        isRepeated = true
        defer { isRepeated = false }
        return try body(self)
    }

    /// Holds the gate while `body` runs, and for as long as a transaction is open after it.
    func insideGate<Result>(_ body: () throws -> Result) rethrows -> Result {
        guard let gate, !isInside else { return try body() }
        // Within the gate it would keep out whoever makes the steps.
        overlay.awaitReturn()
        gate.enter()
        isInside = true
        defer { leaveGateIfIdle() }
        return try body()
    }

    private func leaveGateIfIdle() {
        guard isInside, !isInBlock, !connection.isInTransaction else { return }
        isInside = false
        gate?.leave()
    }

    /// Begins a transaction that holds the target's write lock, and no other file's.
    func beginWriting() throws {
        try checkMayBegin()
        do {
            try takeWriteLock()
        } catch let error as SQLiteError where error.code == .readOnly && !connection.isInTransaction {
            // Before 3.28 BEGIN IMMEDIATE fails where a source is attached, be it needed no longer.
            try overlay.refresh()
            try takeWriteLock()
        }
    }

    private func takeWriteLock() throws {
        if overlay.isEmpty {
            try connection.execute("BEGIN IMMEDIATE")
        } else {
            try overlay.unnoticed { try WriteLock.begin(connection) }
        }
    }

    /// Runs `body` in a transaction whose snapshot the overlay fits.
    func withTransaction<Result>(_ body: (DatabaseAccess) throws -> Result) throws -> Result {
        guard !isInBlock, !connection.isInTransaction else {
            throw MigrationError(.misuse, "a transaction is already open on this connection")
        }
        return try insideGate {
            try beginBlock()
            try deferForeignKeys(defersForeignKeys)
            defersForeignKeys = false
            overlay.forgetState()
            isInBlock = true
            lostTransaction = nil
            defer { lostTransaction = nil }
            do {
                let result = try body(self)
                // The block may have caught the error.
                if connection.isHalfUndone { noteLost(nil) }
                if let lostTransaction { throw lostTransaction }
                isInBlock = false
                if connection.isInTransaction { try commitOrRollBack() }
                afterBlock()
                return result
            } catch {
                isInBlock = false
                try? connection.rollBack()
                afterBlock()
                throw error
            }
        }
    }

    private func afterBlock() {
        freshTransaction = nil
        if overlay.schemaVersion == nil { onSchemaChange?() }
    }

    private func beginBlock() throws {
        func begin() throws {
            while try !beginIfCurrent() { try refreshOverlay() }
        }
        if kind == .writer { return try begin() }
        try HotJournal.rollingBack(of: connection.path, keys.target, begin)
    }

    /// Begins a transaction, unless the overlay does not fit its snapshot.
    private func beginIfCurrent() throws -> Bool {
        try overlay.attachedFiles.check()
        try checkMayBegin()
        if kind == .writer { try beginWriting() } else { try connection.execute("BEGIN") }
        do {
            if try overlay.isCurrent() { return true }
            try connection.rollBack()
            return false
        } catch {
            try? connection.rollBack()
            throw error
        }
    }

    /// Rolls back what a block without a transaction of its own has left open, or what could not be rolled back before for
    /// want of memory.
    func endUnattended() {
        try? connection.rollBack()
        if !connection.isInTransaction { lostTransaction = nil }
        freshTransaction = nil
        leaveGateIfIdle()
    }
}
