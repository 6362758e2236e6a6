internal import SQLText
internal import SQLiteConnection

/// How a statement of the application's runs, by its route: alone, in a snapshot that the overlay fits, or in a transaction.
extension DatabaseAccess {
    static func changed(_ sql: String) -> SQLiteError {
        SQLiteError(code: .schema, message: "database schema has changed", sql: sql)
    }

    /// The overlay turned out to be made for an older schema; nothing has been done.
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
            // SQLite may have begun it, and told that a progress handler has interrupted that. Or the body of a loop has.
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
                    // As often as SQLite itself tries.
                    staleTries += 1
                    guard staleTries < 50, freshTransaction?.isWritten != true else { throw Self.changed(piece.text) }
                    try outsideFreshTransaction(refreshOverlay)
                }
            }
        }
    }

    /// Notes what an error of a statement has brought down. It has been told, but to a block, which may go on.
    private func noteLosses(_ wasInTransaction: Bool, _ error: any Error) {
        let isHalfUndone = connection.isHalfUndone
        // Where an interrupted statement still runs, that fails.
        if isHalfUndone, connection.isInTransaction { try? rollBack() }
        if isHalfUndone || isInBlock && wasInTransaction && !connection.isInTransaction { noteLost(error) }
        let isOver = !connection.isInTransaction && !connection.isAmidWrite
        if isOver, !isInBlock, kind == .borrowed || !wasInTransaction { lostTransaction = nil }
    }

    /// Runs what is no statement of the application's own, and notes what it brings down as for those.
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

    /// - Returns: `false` where the caller is to try again, since the cause has been seen to.
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
        // A loop over a query may have savepoints of its own, and nothing of it needs to be undone.
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

    /// Whether another process has changed what moves since the overlay was compared.
    private func isOutdated() throws -> Bool {
        if overlay.schemaVersion == nil { return false }
        guard let fresh = freshTransaction else { return try !connection.isInTransaction && !overlay.isCurrent() }
        return fresh.isWritten ? try !overlay.isCurrent() : try outsideFreshTransaction { try !overlay.isCurrent() }
    }

    /// A statement of the application's that has ended with an error of SQLite's, and what was the case before the statement
    /// ran.
    private struct Failure {
        let error: SQLiteError
        let prepared: Prepared
        let attempt: Attempt?
        let counts: (total: Int64, changes: Int64, rowID: Int64)
        let wasInTransaction: Bool
        let tries: Int
        /// Whether the statement has come to its first row, or to its end without one.
        let hasBegun: Bool

        var mayRepeat: Bool { tries < 10 && !hasBegun }
    }

    /// Sees to the cause of a failure.
    ///
    /// - Returns: Whether the statement is to be tried again.
    /// - Throws: The application's error, if SQLite's own tells of what the engine has made of the statement.
    private func seesTo(_ failure: Failure) throws -> Bool {
        if try drainUndone(failure) { return true }
        try checkDenial(failure)
        if try drainMistyped(failure) { return true }
        failure.attempt?.keep()
        // The statement had not read all tables that it names when SQLite found a source's schema changed, as
        // with the end of another table's move, and read it anew. No transaction was rolled back.
        if failure.error.code == .abortRollback, failure.mayRepeat, hasKeptTransaction(failure) { return true }
        // A process has died as it wrote a source.
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

    /// Drains the tables that actions of foreign keys could not do without, if they have had the statement undone.
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

    /// Tells in the statement's own terms what the authorizer has denied as the statement began.
    private func checkDenial(_ failure: Failure) throws {
        guard failure.error.code == .authorization else { return }
        if let table = overlay.watch.stateTable { throw Self.isState(table, failure.prepared.text) }
        // Its table has gone since it was prepared.
        if let table = overlay.watch.strayTable { throw Self.missing(table, failure.prepared.text) }
    }

    /// Undoes the statement and drains its table, if the table has refused the type of a value.
    private func drainMistyped(_ failure: Failure) throws -> Bool {
        // What comes once it has given a row is an error of whoever reads that.
        guard let attempt = failure.attempt, !failure.hasBegun,
            failure.error.code == .constraintDatatype || failure.error.code == .mismatch,
            attempt.table.openCursors == 0, try attempt.undo()
        else { return false }
        // With a trigger, SQLite checks types before all other constraints, and of all rows first. Older
        // versions do not, and may have come to the row by others that are to stay.
        try drain([attempt.table.id], .valueType, for: failure.prepared.text)
        return true
    }

    /// Sets `last_insert_rowid()` back if SQLite would natively have refused the row before inserting it.
    private func restoreRowID(after failure: Failure) {
        let route = failure.prepared.route
        // With a trigger, SQLite finds that the key is violated when the row is there.
        let isCheckedFirst =
            route.isCheckedFirst && (failure.wasInTransaction || !route.mayCheckLater && !defersForeignKeys)
        if failure.error.code == .constraintForeignKey, isCheckedFirst {
            overlay.setLastInsertRowID(failure.counts.rowID)
        }
    }

    /// Sees to what kept a statement from running at all, when the schema had changed under it.
    func mends(_ error: SQLiteError, _ prepared: Prepared) throws -> Bool {
        if error.code == .authorization, !overlay.watch.violated.isEmpty {
            try drain(overlay.watch.violated, .program, for: prepared.text)
            return true
        }
        // What the statement was routed to has gone with the end of the migration.
        if error.isMissingTable, try !overlay.isCurrent() {
            try overlay.refresh()
            return true
        }
        // A trigger has met a move that the overlay does not have.
        if error.code == .error, overlay.schemaVersion == nil {
            try overlay.refresh()
            return true
        }
        return false
    }
}
