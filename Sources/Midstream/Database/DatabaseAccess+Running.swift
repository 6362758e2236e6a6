internal import SQLText
internal import SQLiteConnection

/// How a statement of the application runs, by its route: alone, in a snapshot that the overlay fits, or in a
/// transaction.
extension DatabaseAccess {
    static func changed(_ sql: String) -> SQLiteError {
        SQLiteError(code: .schema, message: "database schema has changed", sql: sql)
    }

    /// The overlay turned out to be made for an older schema. Nothing has been done.
    struct Stale: Error {}

    func perform(
        _ piece: Piece,
        _ arguments: Arguments,
        _ onStart: (Statement) -> Void = { _ in },
        _ onRow: (Statement) throws -> Bool
    ) throws {
        try checkTransaction()
        let wasInTransaction = connection.isInTransaction
        let begun = transactionsBegun
        if wasInTransaction { hasEndedTransaction = false }
        do {
            try performInTransaction(piece, arguments, onStart, onRow)
            if lostTransaction != nil { try checkTransaction() }
        } catch {
            noteLosses(wasInTransaction && !hasEndedTransaction, error)
            // The open transaction may be the application's. SQLite may have carried out a BEGIN and yet reported an
            // interruption by a progress handler. Or the body of a loop may have begun a transaction.
            let isOwn = ![.begin, .savepoint].contains(piece.role) && transactionsBegun == begun
            if !wasInTransaction, connection.isInTransaction, isOwn { try? rollBack() }
            throw error
        }
    }

    private func performInTransaction(
        _ piece: Piece,
        _ arguments: Arguments,
        _ onStart: (Statement) -> Void,
        _ onRow: (Statement) throws -> Bool
    ) throws {
        try insideGate {
            try enforceChecks()
            var (tries, staleTries) = (0, 0)
            var isDone = false
            while !isDone {
                do {
                    try HotJournal.rollingBack(rollBackJournals) { try makeCurrent(before: piece) }
                    isDone = try performOnce(piece, arguments, tries, onStart, onRow)
                    tries += 1
                } catch is Stale {
                    // SQLite itself tries as often.
                    staleTries += 1
                    guard staleTries < 50, freshTransaction?.isWritten != true else { throw Self.changed(piece.text) }
                    try outsideFreshTransaction(refreshOverlay)
                }
            }
        }
    }

    /// Notes that a statement's error has rolled back the transaction. The error has been reported, but the block to
    /// which it was reported may go on.
    private func noteLosses(_ wasInTransaction: Bool, _ error: any Error) {
        let isHalfUndone = connection.isHalfUndone
        // While an interrupted statement still runs, the rollback fails.
        if isHalfUndone, connection.isInTransaction { try? rollBack() }
        if isHalfUndone || isInBlock && wasInTransaction && !connection.isInTransaction { noteLost(error) }
        let isOver = !connection.isInTransaction && !connection.isAmidWrite
        if isOver, !isInBlock, kind == .borrowed || !wasInTransaction { lostTransaction = nil }
    }

    /// Runs work that is no statement of the application, and notes that it has rolled back the transaction, as for a
    /// statement.
    func notingLosses<Result>(_ body: () throws -> Result) throws -> Result {
        try checkTransaction()
        let wasInTransaction = connection.isInTransaction
        let hadEnded = hasEndedTransaction
        hasEndedTransaction = false
        overlay.statements.failureOfPlan = nil
        defer { hasEndedTransaction = hasEndedTransaction || hadEnded }
        let result: Result
        do {
            result = try body()
        } catch {
            noteLosses(wasInTransaction && !hasEndedTransaction, error)
            throw error
        }
        if wasInTransaction, !hasEndedTransaction, !connection.isInTransaction {
            noteLost(overlay.statements.failureOfPlan)
            try checkTransaction()
        }
        return result
    }

    /// - Returns: `false` if the caller must try again, since the cause of the failure has been removed.
    private func performOnce(
        _ piece: Piece,
        _ arguments: Arguments,
        _ tries: Int,
        _ onStart: (Statement) -> Void,
        _ onRow: (Statement) throws -> Bool
    ) throws -> Bool {
        let wasInTransaction = connection.isInTransaction
        let prepared = try prepareUnlessStale(piece)
        if !prepared.route.drained.isEmpty, tries < 10 {
            try drain(prepared.route.drained, prepared.route.reason, for: prepared.text)
            return false
        }
        try confirm(prepared)
        try beginInEarnest(for: prepared)
        if wasInTransaction, !connection.isInTransaction {
            noteLost(overlay.statements.failureOfPlan)
            try checkTransaction()
        }
        let attempt = attempt(of: prepared)
        let counts = (total: totalChanges, changes: overlay.changes, rowID: lastInsertRowID)
        var hasBegun = false
        do {
            try run(
                prepared,
                arguments,
                {
                    hasBegun = true
                    onStart($0)
                },
                onRow
            )
            attempt?.keep()
            noteTransaction(prepared.route.role, wasInTransaction)
            noteBeginning(prepared)
            try finished(prepared)
            return true
        } catch is Stale {
            throw Stale()
        } catch let error as SQLiteError {
            let failure = Failure(
                error: error,
                prepared: prepared,
                attempt: attempt,
                counts: counts,
                wasInTransaction: wasInTransaction,
                tries: tries,
                hasBegun: hasBegun
            )
            if try seesTo(failure) { return false }
            restoreRowID(after: failure)
            try finished(prepared)
            throw error.naming(prepared.text)
        } catch {
            attempt?.keep()
            try finished(prepared)
            throw error
        }
    }

    private func prepareUnlessStale(_ piece: Piece) throws -> Prepared {
        do {
            return try prepare(piece)
        } catch {
            guard !(error is Stale), try isOutdated() else { throw error }
            throw Stale()
        }
    }

    private func attempt(of prepared: Prepared) -> Attempt? {
        // A query gets no savepoint: a loop over it may set savepoints of its own, and nothing of a query needs to be
        // undone.
        let written = prepared.route.role == .write ? prepared.route.redirected : nil
        return written.flatMap { overlay.tables.byID[$0] }.map { Attempt(self, $0) }
    }

    /// Notes that a statement has begun or ended the application's transaction.
    private func noteTransaction(_ role: Route.Role, _ wasInTransaction: Bool) {
        switch role {
        case .begin where connection.isInTransaction,
            .savepoint where connection.isInTransaction && !wasInTransaction:
            transactionsBegun += 1
            hasEndedTransaction = false
        case .end where wasInTransaction && !connection.isInTransaction,
            .rollback where wasInTransaction && !connection.isInTransaction:
            hasEndedTransaction = true
        default: break
        }
    }

    /// Whether another process has changed which tables move since the overlay was last compared with the schema.
    private func isOutdated() throws -> Bool {
        if overlay.schemaVersion == nil { return false }
        guard let fresh = freshTransaction else { return try !connection.isInTransaction && !overlay.isCurrent() }
        return fresh.isWritten ? try !overlay.isCurrent() : try outsideFreshTransaction { try !overlay.isCurrent() }
    }

    /// A statement of the application that has ended with an error of SQLite, and what was the case before the
    /// statement ran.
    private struct Failure {
        let error: SQLiteError
        let prepared: Prepared
        let attempt: Attempt?
        let counts: (total: Int64, changes: Int64, rowID: Int64)
        let wasInTransaction: Bool
        let tries: Int
        /// Whether the statement has come to its first row, or to its end if it gives no row.
        let hasBegun: Bool

        var mayRepeat: Bool { tries < 10 && !hasBegun }
    }

    /// Removes the cause of a failure, if Midstream can.
    ///
    /// - Returns: Whether the statement must be tried again.
    /// - Throws: The error for the application, if SQLite's own error is about what Midstream has made of the
    ///   statement.
    private func seesTo(_ failure: Failure) throws -> Bool {
        if try drainUndone(failure) { return true }
        try checkDenial(failure)
        if try drainMistyped(failure) { return true }
        failure.attempt?.keep()
        // When another table's move ends, for instance, a source's schema changes. SQLite has found such a change
        // before the statement had read all tables that it names, and has read the schema again. No transaction was
        // rolled back.
        if failure.error.code == .abortRollback, failure.mayRepeat, hasKeptTransaction(failure) { return true }
        // A process has died while it wrote a source.
        if failure.error.code == .readOnlyRollback, (try? rollBackJournals()) != nil, failure.mayRepeat,
            hasKeptTransaction(failure)
        {
            return true
        }
        guard failure.mayRepeat, !isInBlock, !connection.isInTransaction else { return false }
        return try mends(failure.error, failure.prepared)
    }

    private func hasKeptTransaction(_ failure: Failure) -> Bool {
        connection.isInTransaction == failure.wasInTransaction
    }

    /// Drains the tables that the actions of foreign keys could not do without, if these actions have made SQLite undo
    /// the statement.
    private func drainUndone(_ failure: Failure) throws -> Bool {
        let undone = overlay.keyActions.takeUndone()
        guard !undone.isEmpty, failure.mayRepeat, hasKeptTransaction(failure) else { return false }
        failure.attempt?.keep()
        // SQLite has undone all of the statement.
        overlay.statements.rollbacks += 1
        overlay.forgetState()
        overlay.statements.internalChanges += totalChanges - failure.counts.total
        overlay.setLastInsertRowID(failure.counts.rowID)
        overlay.reportChanges(failure.counts.changes)
        try drain(undone, .foreignKey, for: failure.prepared.text)
        return true
    }

    /// Reports in the application's own terms what the authorizer denied as the statement began.
    private func checkDenial(_ failure: Failure) throws {
        guard failure.error.code == .authorization else { return }
        if let table = overlay.watch.stateTable { throw Self.isState(table, failure.prepared.text) }
        // The statement's table has been dropped since the statement was prepared.
        if let table = overlay.watch.strayTable { throw Self.missing(table, failure.prepared.text) }
    }

    /// Undoes the statement and drains its table, if the table has refused the type of a value.
    private func drainMistyped(_ failure: Failure) throws -> Bool {
        // An error that comes after the first row is one of the code that reads the row.
        guard let attempt = failure.attempt, !failure.hasBegun,
            failure.error.code == .constraintDatatype || failure.error.code == .mismatch,
            attempt.table.openCursors == 0, try attempt.undo()
        else { return false }
        // With a trigger, SQLite checks types before all other constraints, and checks those of all rows first. Older
        // versions do not: they may have written other rows before this one, which must stay.
        try drain([attempt.table.id], .valueType, for: failure.prepared.text)
        return true
    }

    /// Sets `last_insert_rowid()` back if SQLite would natively have refused the row before inserting it.
    private func restoreRowID(after failure: Failure) {
        let route = failure.prepared.route
        // With a trigger, SQLite finds out that a foreign key is violated only after it has inserted the row.
        let isCheckedFirst =
            route.isCheckedFirst && (failure.wasInTransaction || !route.mayCheckLater && !defersForeignKeys)
        if failure.error.code == .constraintForeignKey, isCheckedFirst {
            overlay.setLastInsertRowID(failure.counts.rowID)
        }
    }

    /// Removes what kept a statement from running at all after the schema had changed.
    func mends(_ error: SQLiteError, _ prepared: Prepared) throws -> Bool {
        if error.code == .authorization, !overlay.watch.violated.isEmpty {
            try drain(overlay.watch.violated, .program, for: prepared.text)
            return true
        }
        // The object to which the statement was routed has gone with the end of the migration.
        if error.isMissingTable, try !overlay.isCurrent() {
            try overlay.refresh()
            return true
        }
        // A trigger has met a move that the overlay does not know.
        if error.code == .error, overlay.schemaVersion == nil {
            try overlay.refresh()
            return true
        }
        return false
    }
}
