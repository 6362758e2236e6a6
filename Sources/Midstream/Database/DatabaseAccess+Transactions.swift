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
        // What a running statement writes outside transactions is undone when its loop ends.
        if !isInBlock, !connection.isAmidWrite {
            try rollBack()
            self.lostTransaction = nil
        }
        throw lostTransaction
    }

    /// Rolls the open transaction back, if there is one. Open scans look again where a row is.
    func rollBack() throws(SQLiteError) {
        defer {
            overlay.statements.rollbacks += 1
            overlay.forgetState()
            if hasChangedNames { try? forgetNames() }
        }
        try connection.rollBack()
    }

    /// Forgets the statements that were routed by what they named, and looks again which virtual tables there are. Where these
    /// cannot be read, the transaction is rolled back, and the overlay made anew before the next statement.
    func forgetNames() throws {
        forgetPrepared()
        overlay.statements.definitions += 1
        do {
            try overlay.readContentTables()
        } catch {
            overlay.forgetSchemaVersion()
            hasChangedNames = false
            try rollBack()
            throw error
        }
    }

    /// Brings the overlay's names up to date after a ROLLBACK TO. Where that cannot be, the transaction is rolled back: they
    /// would mean what is not there.
    func restoreOverlay() throws {
        do {
            try overlay.restoreAfterRollback()
        } catch {
            try rollBack()
            throw error
        }
    }

    // MARK: The snapshot

    /// Sees to it that the overlay fits the snapshot that the statement will read. In a fresh transaction that is seen when it is
    /// known what the statement does.
    func makeCurrent(before piece: Piece) throws {
        if connection.isInTransaction {
            if overlay.isSuspended { try resumeOverlay(before: piece) }
            if connection.isBorrowed, freshTransaction == nil { try forgetMoved(before: piece) }
            let (tables, reason) = overlay.needsDraining
            if !tables.isEmpty { try drain(tables, reason, for: piece.text) }
            return
        }
        // What mends it must be run.
        if piece.isDetach { return }
        try overlay.attachedFiles.check()
        if try !overlay.isCurrent() || overlay.canDetach { try refreshOverlay() }
    }

    /// Takes out of the overlay what has moved before the transaction began, which other code did. An INSERT into such a table from
    /// its union would find its own rows: SQLite sees two tables, and no guard trigger, for which it would read to the end first.
    private func forgetMoved(before piece: Piece) throws {
        do {
            try overlay.removeMoved()
        } catch let error as SQLiteError where error.code.primary == .locked {
            // A statement is reading it.
            if piece.outline.kind == .insert { throw error.naming(piece.text) }
        }
    }

    /// What ends the transaction needs no overlay, and must not fail for want of it.
    private func resumeOverlay(before piece: Piece) throws {
        switch piece.role {
        case .end, .rollback, .savepoint: break
        case .begin, .query, .write, .other: try overlay.resume()
        }
    }

    // MARK: Those of the application's own

    /// - Throws: ``SQLiteError``, `BUSY`, while a statement writes outside a transaction.
    private func checkMayBegin() throws {
        guard connection.isAmidWrite else { return }
        throw SQLiteError(
            code: .busy,
            message:
                "no transaction can be begun and ended while a statement of the connection writes: run this when that has ended"
        )
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

    /// Commits the open transaction, unless half of something in it could not be undone.
    func commitOrRollBack() throws {
        do {
            if connection.isHalfUndone { noteLost(nil) }
            if let lostTransaction { throw lostTransaction }
            try connection.execute("COMMIT")
        } catch {
            try? rollBack()
            throw error
        }
    }

    // MARK: Deferred foreign keys

    /// SQLite ends this when a statement that reads a file ends outside transactions, be it one of the engine's own.
    func areForeignKeysDeferred() throws -> Bool {
        try connection.fetchValue(Int64.self, "PRAGMA defer_foreign_keys") == 1
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
    func insideGate<Result>(_ body: () throws -> Result) throws -> Result {
        guard let gate, !isInside else { return try body() }
        // Within the gate it would keep out whoever makes the steps.
        overlay.awaitReturn()
        try gate.enter()
        isInside = true
        defer { leaveGateIfIdle() }
        return try body()
    }

    private func leaveGateIfIdle() {
        guard isInside, !isInBlock, !connection.isInTransaction else { return }
        isInside = false
        gate?.leave()
    }

    /// Begins a transaction that holds the target's write lock: no other file's while tables move.
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
                try checkTransaction()
                isInBlock = false
                // A rollback takes them as well.
                do { try overlay.dropCopies() } catch { try rollBack() }
                if connection.isInTransaction { try commitOrRollBack() }
                afterBlock()
                return result
            } catch {
                isInBlock = false
                try? rollBack()
                if !connection.isInTransaction { overlay.watch.contents.forgetCopies() }
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
        try HotJournal.rollingBack(rollBackJournals, begin)
    }

    /// Rolls back the journals that keep this connection from reading a file which it may not write: of the sources, and where it
    /// only reads, of the target.
    func rollBackJournals() throws {
        if kind == .reader { try HotJournal.rollBack(connection.path, keys.target) }
        try SourceFile.rollBackJournals(of: overlay.attachedSources, connection, keys)
    }

    /// Begins a transaction, unless the overlay does not fit its snapshot.
    private func beginIfCurrent() throws -> Bool {
        try overlay.attachedFiles.check()
        try checkMayBegin()
        if kind == .writer { try beginWriting() } else { try connection.execute("BEGIN") }
        do {
            if try overlay.isCurrent() { return true }
            try rollBack()
            return false
        } catch {
            try? rollBack()
            throw error
        }
    }

    /// Rolls back what a block without a transaction of its own has left open, or what could not be rolled back before for
    /// want of memory.
    func endUnattended() {
        try? rollBack()
        if !connection.isInTransaction { lostTransaction = nil }
        freshTransaction = nil
        leaveGateIfIdle()
    }
}
