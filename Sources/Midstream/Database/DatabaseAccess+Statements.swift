internal import SQLText
internal import SQLiteConnection

// How a prepared statement runs: alone, in a transaction of its own, or while others write.
extension DatabaseAccess {
    func run(
        _ prepared: Prepared,
        _ arguments: Arguments,
        _ onStart: (Statement) -> Void,
        _ onRow: (Statement) throws -> Bool
    ) throws {
        prepared.beginsTransaction = !connection.isInTransaction
        prepared.takesInWrites = connection.isAmidWrite
        // In a block that only reads, the state does not change from the block's beginning to its end.
        if kind == .writer || !isInBlock || !connection.isInTransaction { overlay.forgetState() }
        if let table = prepared.route.changedTable { try MovingAway.checkChange(of: table, on: connection) }
        if let schema = prepared.route.vacuumed {
            try MovingAway(connection: connection, schema: schema).checkVacuum()
        }
        try prepared.bind(arguments)
        if connection.isInTransaction {
            var unseen: [UnseenDelete] = []
            if prepared.keys != nil { try beforeWrite { try protected { unseen = try promote(prepared) } } }
            return try runStatement(prepared, with: unseen, onStart, onRow)
        }
        switch prepared.route.isolation {
        case .none:
            try runAlone(prepared, onStart, onRow)
            try checkBeginning(prepared)
        case .snapshot(let isHeld):
            // The end of a snapshot's statement would end the deferral of foreign keys.
            if defersForeignKeys, !isHeld { return try runStatement(prepared, with: [], onStart, onRow) }
            guard let snapshot = try overlay.snapshot() else { throw Stale() }
            defer { snapshot.reset() }
            try runStatement(
                prepared,
                with: [],
                { statement in
                    // If the snapshot were held any longer, a loop over other tables could not write once another
                    // connection has written.
                    if !isHeld { snapshot.reset() }
                    onStart(statement)
                },
                onRow
            )
        case .unlessPreparedAnew:
            do {
                try runUnlessPreparedAnew(prepared, onStart, onRow)
            } catch is Stale {
                let schema = prepared.route.writtenSchema ?? "main"
                guard schema != "main" else { return try runInTransaction(prepared, onStart, onRow) }
                // A statement that writes another file need not wait for the target's lock.
                try overlay.attachedFiles.check()
                try runStatement(prepared, with: [], onStart, onRow)
            }
        case .transaction:
            try runInTransaction(prepared, onStart, onRow)
        }
    }

    /// Runs the work that precedes a write. If that work fails, the write has changed nothing, and `changes()` is 0.
    private func beforeWrite(_ body: () throws -> Void) throws {
        do {
            try body()
        } catch {
            overlay.reportChanges(0)
            throw error
        }
    }

    /// Makes sure that a statement was prepared for the overlay's schema, if SQLite must not prepare it again as it
    /// begins.
    func confirm(_ prepared: Prepared) throws {
        guard case .unlessPreparedAnew = prepared.route.isolation, !prepared.isOfOverlay, !connection.isInTransaction
        else { return }
        guard try overlay.isCurrent() else { throw Stale() }
        prepared.isOfOverlay = true
    }

    /// Runs a statement for which SQLite takes the write lock as the statement begins, and then checks whether the
    /// schema is the one that the statement was prepared for.
    ///
    /// - Throws: ``Stale`` if the schema is another one; nothing has been done then.
    private func runUnlessPreparedAnew(
        _ prepared: Prepared,
        _ onStart: (Statement) -> Void,
        _ onRow: (Statement) throws -> Bool
    ) throws {
        do {
            try overlay.watch.keeping(prepared.statement) { try runStatement(prepared, with: [], onStart, onRow) }
        } catch {
            throw overlay.watch.takeStop() ? Stale() : error
        }
    }

    /// Runs a statement that gets no transaction from Midstream: SQLite makes one if the statement needs it.
    private func runAlone(
        _ prepared: Prepared,
        _ onStart: (Statement) -> Void,
        _ onRow: (Statement) throws -> Bool
    ) throws {
        guard let schema = prepared.route.vacuumed else { return try runStatement(prepared, with: [], onStart, onRow) }
        guard let snapshot = try overlay.snapshot() else { throw Stale() }
        let tables: Set<String>
        do {
            defer { snapshot.reset() }
            tables = try overlay.ownTables(in: schema)
        }
        do {
            KeptRowIDs(connection: connection).allowVacuum()
            try overlay.watch.vacuuming(tables) { try runStatement(prepared, with: [], onStart, onRow) }
        } catch {
            throw overlay.watch.takeStop() ? Stale() : error
        }
    }

    /// Runs a statement in a transaction of its own, together with the promotions that it needs. If the statement
    /// fails, what it leaves done natively, as UPDATE OR FAIL does, stays done.
    private func runInTransaction(
        _ prepared: Prepared,
        _ onStart: (Statement) -> Void,
        _ onRow: (Statement) throws -> Bool
    ) throws {
        if connection.isAmidWrite { return try runAmidWrite(prepared, onStart, onRow) }
        let isWrite = prepared.route.role == .write
        if isWrite { try beforeWrite(beginWriting) } else { try beginWriting() }
        var unseen: [UnseenDelete] = []
        do {
            try overlay.attachedFiles.check()
            guard try overlay.isCurrent() else { throw Stale() }
            try beforeWrite { unseen = try promote(prepared) }
        } catch {
            try? rollBack()
            throw error
        }
        let before = connection.totalChanges
        // The body of a loop over the rows may end this transaction, and begin another.
        let begun = transactionsBegun
        do {
            try runStatement(prepared, with: unseen, onStart, onRow)
        } catch {
            if connection.isHalfUndone {
                try? rollBack()
            } else if connection.isInTransaction, transactionsBegun == begun {
                try commitOrRollBack()
            }
            throw error
        }
        do {
            guard transactionsBegun == begun else {
                throw SQLiteError(
                    code: .error,
                    message: "cannot commit: the body of the loop has ended the transaction in which the loop's "
                        + "statement ran"
                )
            }
            let changes = overlay.changes
            try commitOrRollBack()
            // At COMMIT, a full-text table (FTS4) writes by statements of its own, which change the count.
            if prepared.route.role == .write, overlay.changes != changes { overlay.reportChanges(changes) }
        } catch {
            // To the application, the statement itself has failed. DROP TABLE counts too: it deletes rows if foreign
            // keys are enforced.
            if prepared.route.role == .write || connection.totalChanges != before { overlay.noteUndone() }
            throw error
        }
    }

    /// Undoes a statement that writes outside transactions, if something was left half done in the loop over its rows.
    /// Otherwise SQLite would commit the half that was done with the statement.
    private func undo(_ statement: Statement) {
        noteLost(nil)
        do {
            try connection.execute("BEGIN")
        } catch {
            // After an interrupt, everything fails for as long as a statement runs. The running statement fails as
            // well, and SQLite undoes it.
            while (try? statement.step()) == true {}
        }
        statement.reset()
        try? rollBack()
    }

    /// Runs a statement while another statement of the connection writes outside transactions. SQLite commits both when
    /// the last one has ended.
    private func runAmidWrite(
        _ prepared: Prepared,
        _ onStart: (Statement) -> Void,
        _ onRow: (Statement) throws -> Bool
    ) throws {
        if prepared.keys != nil {
            try overlay.unnoticed { try WriteLock.take(connection, by: "midstream_state", in: "main") }
        }
        try overlay.attachedFiles.check()
        guard try overlay.isCurrent() else { throw Stale() }
        var unseen: [UnseenDelete] = []
        if prepared.keys != nil { try protected { unseen = try promote(prepared) } }
        try runStatement(prepared, with: unseen, onStart, onRow)
    }

    /// Runs a statement. For a DELETE, this also deletes the pending rows in `unseen`, which the DELETE means and which
    /// need not come into the target: all of them, or none if the DELETE fails. While the DELETE runs, these rows are
    /// still pending.
    private func runStatement(
        _ prepared: Prepared,
        with unseen: [UnseenDelete],
        _ onStart: (Statement) -> Void,
        _ onRow: (Statement) throws -> Bool
    ) throws {
        if let view = prepared.route.droppedView { try overlay.removeTwin(of: view) }
        if prepared.route.suspendsOverlay, !overlay.isEmpty {
            try checkNothingReads(Array(overlay.byName.values), .schemaChange)
            return try overlay.suspended { try runStatement(prepared, onStart, onRow) }
        }
        if !prepared.route.substitutes.isEmpty {
            try protected { for sql in prepared.route.substitutes { try overlay.execute(sql) } }
            return onStart(prepared.statement)
        }
        if unseen.isEmpty {
            try ignoringChecks(prepared.route.ignoresChecks) { try runStatement(prepared, onStart, onRow) }
            if prepared.route.changesAttachedFiles { try overlay.attachedFiles.admit() }
            return
        }
        try protected {
            try withoutGuards(of: unseen) { try runStatement(prepared, onStart, onRow) }
            do {
                try overlay.unnoticed { for rows in unseen { try rows.perform() } }
            } catch {
                overlay.statements.noteHalfDone()
                throw error
            }
            overlay.reportChanges(overlay.changes + unseen.reduce(0) { $0 + $1.rows })
        }
    }

    /// Runs a statement that deletes all rows of a table. SQLite empties a table without triggers page by page instead
    /// of row by row, and the guard triggers are the only triggers here. Switching them off expires statements, so it
    /// is not done while a statement runs.
    private func withoutGuards(of unseen: [UnseenDelete], _ body: () throws -> Void) throws {
        guard case .all = unseen.first, !connection.hasBusyStatement else { return try body() }
        try connection.configure(.triggers, false)
        defer { try? connection.configure(.triggers, true) }
        try body()
    }

    private func runStatement(
        _ prepared: Prepared,
        _ onStart: (Statement) -> Void,
        _ onRow: (Statement) throws -> Bool
    ) throws {
        let statement = prepared.statement
        let isWrite = prepared.route.role == .write
        let before = connection.totalChanges
        if isWrite {
            try overlay.settleChanges()
            overlay.keyActions.begin(replaces: prepared.route.mayReplace)
        }
        try deferForeignKeys(defersForeignKeys)
        defer {
            if isWrite, connection.isHalfUndone, !connection.isInTransaction { undo(statement) }
            statement.reset()
            // Creating or dropping a virtual table may write its shadow tables, and SQLite counts these rows.
            let hasWritten = isWrite || prepared.route.role == .other && connection.totalChanges != before
            if hasWritten, !overlay.watch.isStopped { overlay.noteChanges() }
        }
        var hasRow = false
        if prepared.route.role == .begin {
            try begin { _ = try overlay.watch.beginning(prepared.route) { try statement.step() } }
        } else {
            let rollbacks = prepared.route.rollbacks
            if rollbacks != nil { overlay.statements.beginNotingRefusals() }
            do {
                hasRow = try overlay.watch.beginning(prepared.route) { try statement.step() }
            } catch let error as SQLiteError {
                // The statement collides with a row that could not be promoted. SQLite undoes only the statement, where
                // natively it would roll back the transaction.
                let refusal = overlay.statements.refusal
                let isRefused = refusal.flatMap { rollbacks?.rollBack(after: $0) } ?? false
                if isRefused, ResultCode.constraint ~= error.code, connection.isInTransaction {
                    statement.reset()
                    try? rollBack()
                }
                throw error
            }
        }
        if overlay.watch.hasPreparedAnew {
            statement.refreshColumns()
            // The statement holds a snapshot of the file that has changed.
            if prepared.route.role == .query, !connection.isInTransaction { try overlay.attachedFiles.check() }
            // A query that was made of both sides may meet another shape of the source's table by now.
            if prepared.route.role == .query, let id = prepared.route.redirected {
                try overlay.tables.byID[id]?.knownSource.confirm()
            }
        }
        onStart(statement)
        while hasRow {
            guard try onRow(statement) else {
                try statement.checkValuesRead()
                return try statement.end()
            }
            hasRow = try statement.step()
        }
    }

    // MARK: After a statement

    /// Forgets what names meant before the statement, if they may mean something else after the statement.
    private func forgetChangedNames(_ prepared: Prepared) throws {
        guard hasChangedNames else { return }
        if prepared.route.changesNames || prepared.route.role == .rollback { try forgetNames() }
        if !connection.isInTransaction { hasChangedNames = false }
    }

    /// - Throws: An error if Midstream cannot find out what names mean from now on. The transaction has been rolled
    ///   back then.
    func finished(_ prepared: Prepared) throws {
        if prepared.route.role == .rollback || !prepared.beginsTransaction && !connection.isInTransaction {
            overlay.statements.rollbacks += 1
        }
        defer { if !connection.isInTransaction { freshTransaction = nil } }
        // The copies are of the snapshot that has ended.
        if !connection.isInTransaction { try overlay.dropCopies() }
        if prepared.route.unsettlesOverlay { overlay.forgetSchemaVersion() }
        if defersForeignKeys || prepared.route.mayDeferForeignKeys {
            defersForeignKeys = !connection.isInTransaction && (try? areForeignKeysDeferred()) ?? defersForeignKeys
        }
        switch prepared.route.role {
        case .rollback:
            if connection.isInTransaction { try restoreOverlay() }
        case .other:
            onSchemaChange?()
            if prepared.route.changesNames { hasChangedNames = true }
        case .begin, .savepoint, .query, .write, .end: break
        }
        try forgetChangedNames(prepared)
    }
}
