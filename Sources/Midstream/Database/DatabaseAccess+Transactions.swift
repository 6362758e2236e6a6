internal import SQLText
internal import SQLiteConnection

/// Transactions: those of blocks, and those that the application begins by its own statements.
extension DatabaseAccess {
    // MARK: Lost transactions

    func noteLost(_ error: (any Error)?) {
        guard lostTransaction == nil else { return }
        let cause = error as? SQLiteError ?? (error as? MigrationError)?.cause
        lostTransaction = SQLiteError(
            code: cause?.code ?? .abort,
            message: "the transaction has been rolled back by an error" + (error.map { ": \($0)" } ?? "")
        )
    }

    /// - Throws: The error that has rolled the transaction back: what came before is lost, and what follows would be
    ///   committed without it. Also throws if something was left half done and could not be undone.
    func checkTransaction() throws {
        if connection.isHalfUndone { noteLost(nil) }
        guard let lostTransaction else { return }
        // Outside transactions, the writes of a statement that is still running are undone when the loop over it ends.
        if !isInBlock, !connection.isAmidWrite {
            try rollBack()
            self.lostTransaction = nil
        }
        throw lostTransaction
    }

    /// Rolls back the open transaction, if there is one. Open scans then look again on which side a row is.
    func rollBack() throws(SQLiteError) {
        defer {
            overlay.statements.rollbacks += 1
            overlay.forgetState()
            if hasChangedNames { try? forgetNames() }
        }
        try connection.rollBack()
    }

    /// Forgets the statements that were routed by the names in them, and reads again which virtual tables exist. If
    /// these cannot be read, this rolls back the transaction, and the next statement makes the overlay anew.
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

    /// Brings the overlay's names up to date after a ROLLBACK TO. If that fails, this rolls back the transaction: the
    /// names would mean objects that no longer exist.
    func restoreOverlay() throws {
        do {
            try overlay.restoreAfterRollback()
        } catch {
            try rollBack()
            throw error
        }
    }

    // MARK: The snapshot

    /// Makes sure that the overlay fits the snapshot that the statement will read. In a fresh transaction,
    /// `beginInEarnest(for:)` checks that later, when it is known what the statement does.
    func makeCurrent(before piece: Piece) throws {
        if connection.isInTransaction {
            if overlay.isSuspended { try resumeOverlay(before: piece) }
            if connection.isBorrowed, freshTransaction == nil { try forgetMoved(before: piece) }
            let (tables, reason) = overlay.needsDraining
            if !tables.isEmpty { try drain(tables, reason, for: piece.text) }
            return
        }
        // A DETACH must run in any case: it takes away the file that the check refuses.
        if piece.isDetach { return }
        try overlay.attachedFiles.check()
        if try !overlay.isCurrent() || overlay.canDetach { try refreshOverlay() }
    }

    /// In a transaction that other code began, takes out of the overlay the tables whose rows had all moved before the
    /// transaction began. An INSERT into such a table from its own union table would find the rows that it inserts:
    /// SQLite sees two different tables, and no guard trigger, which would make SQLite read the union table to its end
    /// first.
    private func forgetMoved(before piece: Piece) throws {
        do {
            try overlay.removeMoved()
        } catch let error as SQLiteError where error.code.primary == .locked {
            // Another statement is reading the union table.
            if piece.outline.kind == .insert { throw error.naming(piece.text) }
        }
    }

    /// Puts the overlay back for a statement that needs it. A statement that ends the transaction needs no overlay, and
    /// must not fail because it is missing.
    private func resumeOverlay(before piece: Piece) throws {
        switch piece.role {
        case .end, .rollback, .savepoint: break
        case .begin, .query, .write, .other: try overlay.resume()
        }
    }

    // MARK: The application's own transactions

    /// - Throws: ``SQLiteError`` with code `BUSY`, while a statement writes outside a transaction.
    private func checkMayBegin() throws {
        guard connection.isAmidWrite else { return }
        throw SQLiteError(
            code: .busy,
            message:
                "a transaction cannot begin while another statement of this connection writes: run this after that "
                + "statement has ended"
        )
    }

    /// Begins the application's own transaction. Before SQLite 3.28, BEGIN IMMEDIATE and BEGIN EXCLUSIVE lock every
    /// attached file, and so fail if a source is attached that is only read. The application means the target's lock,
    /// so this takes that lock alone.
    func begin(_ statement: () throws -> Void) throws {
        do {
            try statement()
        } catch let error as SQLiteError where error.code == .readOnly {
            // Within a transaction, any BEGIN fails with SQLite's own error.
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

    /// Whether foreign keys are deferred. SQLite ends the deferral when a statement that reads a file ends outside
    /// transactions, even a statement of Midstream's own.
    func areForeignKeysDeferred() throws -> Bool {
        try connection.fetchValue(Int64.self, "PRAGMA defer_foreign_keys") == 1
    }

    /// Sets `defer_foreign_keys` again, if the application has set it. The pragma expires statements, so it is not run
    /// while a statement runs.
    func deferForeignKeys(_ isWanted: Bool) throws {
        if isWanted, !connection.hasBusyStatement { try connection.execute("PRAGMA defer_foreign_keys = 1") }
    }

    // MARK: Blocks

    /// Runs `body` without counting the statements that are refused, since the caller then runs them on another
    /// connection.
    func repeatedElsewhere<Result>(_ body: (DatabaseAccess) throws -> Result) rethrows -> Result {
        isRepeated = true
        defer { isRepeated = false }
        return try body(self)
    }

    /// Holds the gate while `body` runs, and until a transaction that is open afterwards has ended.
    func insideGate<Result>(_ body: () throws -> Result) throws -> Result {
        guard let gate, !isInside else { return try body() }
        // This waits before it enters the gate: inside, it would keep out the thread that makes the steps.
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

    /// Begins a transaction that holds the target's write lock. While tables move, it locks no other file.
    func beginWriting() throws {
        try checkMayBegin()
        do {
            try takeWriteLock()
        } catch let error as SQLiteError where error.code == .readOnly && !connection.isInTransaction {
            // Before SQLite 3.28, BEGIN IMMEDIATE fails if a source is attached, even a source that is no longer
            // needed.
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

    /// Runs `body` in a transaction with a snapshot that the overlay fits.
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
                // The block may have caught the error that rolled back the transaction.
                try checkTransaction()
                isInBlock = false
                // A rollback takes away the copies as well.
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

    /// Rolls back the journals that keep this connection from reading files which it may not write: those of the
    /// sources and, on a connection that only reads, that of the target.
    func rollBackJournals() throws {
        if kind == .reader { try HotJournal.rollBack(connection.path, keys.target) }
        try SourceFile.rollBackJournals(of: overlay.attachedSources, connection, keys)
    }

    /// Begins a transaction. Returns `false`, with no transaction open, if the overlay does not fit the snapshot.
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

    /// Rolls back a transaction that a block without a transaction of its own has left open, or that could not be
    /// rolled back before because there was no memory.
    func endUnattended() {
        try? rollBack()
        if !connection.isInTransaction { lostTransaction = nil }
        freshTransaction = nil
        leaveGateIfIdle()
    }
}
