internal import SQLText
internal import SQLiteConnection

/// Rows that a statement means are brought into the target before it runs.
extension DatabaseAccess {
    /// Runs promotions in a savepoint, so that one that fails half way leaves nothing behind.
    func protected(_ body: () throws -> Void) throws {
        let isOutermost = !connection.isInTransaction
        do {
            try connection.execute("SAVEPOINT midstream_promotion")
        } catch {
            guard ResultCode.busy ~= error.code, connection.isInTransaction || isAmidWrite else { throw error }
            return try unprotected(body)
        }
        do {
            try body()
            try connection.execute("RELEASE midstream_promotion")
        } catch {
            connection.undoSavepoint("midstream_promotion", isOutermost: isOutermost)
            throw error
        }
    }

    /// There is no savepoint while something writes, a blob's handle say. Each row is promoted whole all the same, unless it is
    /// interrupted, or there is no memory: then all is lost that the transaction has done.
    private func unprotected(_ body: () throws -> Void) throws {
        let before = connection.totalChanges
        do {
            try body()
        } catch {
            let isWhole = (error as? SQLiteError).map { ResultCode.constraint ~= $0.code } ?? false
            if !isWhole, connection.totalChanges != before { connection.noteHalfUndone() }
            throw error
        }
    }

    /// Promotes the pending rows that the statement means. The application sees nothing of it.
    ///
    /// - Returns: Those that the target does not take, where the statement deletes them.
    func promote(_ prepared: Prepared) throws -> [RefusedDelete] {
        guard let keys = prepared.keys else { return [] }
        do {
            try promote(prepared, keys) { try $0.promoteIfPending($1, $2) }
            return []
        } catch let error as SQLiteError where ResultCode.constraint ~= error.code {
            return try promoteRefused(prepared, keys, error)
        }
    }

    func promote(
        _ prepared: Prepared,
        _ keys: Statement,
        _ promoteRow: (MovingTable, RowKey, LiveState) throws -> Void
    ) throws {
        defer { keys.reset() }
        try overlay.unnoticed {
            switch prepared.route.preparation {
            case .promote(let id, _):
                guard let table = overlay.tables.byID[id] else { return }
                let feeds = table.feeds
                guard try feeds.contains(where: { try $0.state().lowerBound != nil }) else { return }
                try forEachKey(of: prepared, keys) {
                    let key = table.key.read(keys)
                    for feed in feeds { try promoteRow(feed, key, feed.state()) }
                }
            case .collect(let id, _):
                guard let table = overlay.tables.byID[id] else { return }
                try collect(prepared, keys, table)
                for feed in table.feeds {
                    let state = try feed.state()
                    guard state.lowerBound != nil else { continue }
                    let collected = try overlay.statements.statement(KeyCollection(table).all)
                    defer { collected.reset() }
                    while try collected.step() { try promoteRow(feed, table.key.read(collected), state) }
                }
            case .none: break
            }
        }
    }

    /// Has CHECK constraints hold again, after they were ignored for rows that are promoted.
    func enforceChecks() throws {
        guard ignoresChecks else { return }
        try connection.execute("PRAGMA ignore_check_constraints = 0")
        ignoresChecks = false
    }

    /// Brings rows into the target that its constraints do not take, so that the application can mend or delete them: in
    /// a table that is whole it could.
    private func promoteRefused(_ prepared: Prepared, _ keys: Statement, _ error: SQLiteError) throws
        -> [RefusedDelete]
    {
        if error.code == .constraintCheck, !connection.hasBusyStatement {
            // The pragma expires statements, so none may be running.
            ignoresChecks = true
            try connection.execute("PRAGMA ignore_check_constraints = 1")
            defer { try? enforceChecks() }
            do {
                try promote(prepared, keys) { try $0.promoteIfPending($1, $2) }
                return []
            } catch let other as SQLiteError where ResultCode.constraint ~= other.code && prepared.route.isPlainDelete {
            }
        }
        guard prepared.route.isPlainDelete else { throw error }
        var refused: [RefusedDelete] = []
        try promote(prepared, keys) { table, key, state in
            do {
                try table.promoteIfPending(key, state)
            } catch let error as SQLiteError where ResultCode.constraint ~= error.code {
                // Of one table: what holds for the first row holds for all.
                guard try !refused.isEmpty || overlay.deletesUnseen(from: table) else { throw error }
                refused.append(RefusedDelete(table: table, key: key))
            }
        }
        return refused
    }

    func collect(_ prepared: Prepared, _ keys: Statement, _ table: MovingTable) throws {
        let before = connection.totalChanges
        defer { overlay.statements.internalChanges += connection.totalChanges - before }
        let collection = KeyCollection(table)
        try overlay.statements.statement(collection.clear).run()
        let insert = try overlay.statements.statement(collection.insert)
        try forEachKey(of: prepared, keys) {
            try insert.bind(table.key.read(keys), at: 1)
            try insert.run()
        }
    }

    /// Goes through the keys, by the application's own clauses: SQLite may prepare them anew when they begin to run.
    private func forEachKey(of prepared: Prepared, _ keys: Statement, _ body: () throws -> Void) throws {
        var hasKey = try overlay.watch.beginning(prepared.route.ofKeys) { try keys.step() }
        while hasKey {
            try body()
            hasKey = try keys.step()
        }
    }
}
