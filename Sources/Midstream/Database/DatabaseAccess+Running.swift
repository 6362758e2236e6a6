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
        let prepared: Prepared
        do {
            prepared = try prepare(piece)
        } catch {
            guard !(error is Stale), try isOutdated() else { throw error }
            throw Stale()
        }
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
        // A loop over a query may have savepoints of its own, and nothing of it needs to be undone.
        let written = prepared.route.role == .write ? prepared.route.redirected : nil
        let attempt = written.flatMap { overlay.tables.byID[$0] }.map { Attempt(self, $0) }
        let counts = (totalChanges, overlay.changes, lastInsertRowID)
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
            switch prepared.route.role {
            case .begin where connection.isInTransaction,
                .savepoint where connection.isInTransaction && !wasInTransaction:
                transactionsBegun += 1
                hasEndedTransaction = false
            case .end where wasInTransaction && !connection.isInTransaction,
                .rollback where wasInTransaction && !connection.isInTransaction:
                hasEndedTransaction = true
            default: break
            }
            noteBeginning(prepared)
            try finished(prepared)
            return true
        } catch is Stale {
            throw Stale()
        } catch let error as SQLiteError {
            let undone = overlay.keyActions.takeUndone()
            if !undone.isEmpty, tries < 10, !hasBegun, connection.isInTransaction == wasInTransaction {
                attempt?.keep()
                // SQLite has undone all of the statement.
                overlay.statements.rollbacks += 1
                overlay.forgetState()
                overlay.statements.internalChanges += totalChanges - counts.0
                overlay.setLastInsertRowID(counts.2)
                overlay.reportChanges(counts.1)
                try drain(undone, .foreignKey, for: prepared.text)
                return false
            }
            if error.code == .authorization, let table = overlay.watch.stateTable {
                throw Self.isState(table, prepared.text)
            }
            // Its table has gone since it was prepared.
            if error.code == .authorization, let table = overlay.watch.strayTable {
                throw Self.missing(table, prepared.text)
            }
            // What comes once it has given a row is an error of whoever reads that.
            if let attempt, !hasBegun, error.code == .constraintDatatype || error.code == .mismatch,
                attempt.table.openCursors == 0, try attempt.undo()
            {
                // With a trigger, SQLite checks types before all other constraints, and of all rows first. Older
                // versions do not, and may have come to the row by others that are to stay.
                try drain([attempt.table.id], .valueType, for: prepared.text)
                return false
            }
            attempt?.keep()
            // The statement had not read all tables that it names when SQLite found a source's schema changed, as
            // with the end of another table's move, and read it anew. No transaction was rolled back.
            if error.code == .abortRollback, tries < 10, !hasBegun, connection.isInTransaction == wasInTransaction {
                return false
            }
            // A process has died as it wrote a source.
            if error.code == .readOnlyRollback, (try? rollBackJournals()) != nil, tries < 10, !hasBegun,
                connection.isInTransaction == wasInTransaction
            {
                return false
            }
            if tries < 10, !hasBegun, !isInBlock, !connection.isInTransaction, try mends(error, prepared) {
                return false
            }
            // With a trigger, SQLite finds that the key is violated when the row is there.
            let isCheckedFirst =
                prepared.route.isCheckedFirst
                && (wasInTransaction || !prepared.route.mayCheckLater && !defersForeignKeys)
            if error.code == .constraintForeignKey, isCheckedFirst {
                overlay.setLastInsertRowID(counts.2)
            }
            try finished(prepared)
            throw error.naming(prepared.text)
        } catch {
            attempt?.keep()
            try finished(prepared)
            throw error
        }
    }

    /// Whether another process has changed what moves since the overlay was compared.
    private func isOutdated() throws -> Bool {
        if overlay.schemaVersion == nil { return false }
        guard let fresh = freshTransaction else { return try !connection.isInTransaction && !overlay.isCurrent() }
        return fresh.isWritten ? try !overlay.isCurrent() : try outsideFreshTransaction { try !overlay.isCurrent() }
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
