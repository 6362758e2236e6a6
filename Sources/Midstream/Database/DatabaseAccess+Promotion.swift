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
            guard ResultCode.busy ~= error.code, connection.isInTransaction || connection.isAmidWrite else {
                throw error
            }
            // Something writes, a blob's handle say. Each row is promoted whole all the same; where that fails, the transaction
            // is lost.
            let wasProtected = overlay.statements.isProtected
            overlay.statements.isProtected = false
            defer { overlay.statements.isProtected = wasProtected }
            return try body()
        }
        do {
            try body()
            try releasePromotion()
        } catch {
            connection.undoSavepoint("midstream_promotion", isOutermost: isOutermost)
            throw error
        }
    }

    /// Nothing that a promotion runs ends its savepoint. But without memory for one, old versions of SQLite begin none, and do not
    /// say so.
    private func releasePromotion() throws {
        do {
            try connection.execute("RELEASE midstream_promotion")
        } catch let error where error.message.contains("no such savepoint") {
            throw SQLiteError(code: .outOfMemory, message: "there was no memory for a savepoint", sql: error.sql)
        }
    }

    /// Promotes the pending rows that the statement means. The application sees nothing of it.
    ///
    /// - Returns: Those that the statement deletes without their having been there.
    func promote(_ prepared: Prepared) throws -> [UnseenDelete] {
        guard let keys = prepared.keys else { return [] }
        if let all = try allUnseen(prepared) { return [all] }
        do {
            try promote(prepared, keys) { try $0.promoteIfPending($1, $2) }
            return []
        } catch let error as SQLiteError where ResultCode.constraint ~= error.code {
            return try promoteRefused(prepared, keys, error)
        }
    }

    /// The pending rows of a table of which all are deleted; `nil` where there are none, or something asks for each.
    private func allUnseen(_ prepared: Prepared) throws -> UnseenDelete? {
        guard prepared.route.deletesAll, kind == .writer,
            let table = prepared.route.redirected.flatMap({ overlay.tables.byID[$0] }), table.inner == nil,
            !table.isReturning, !table.sql.firesTriggers, table.openCursors == 0, try table.state().lowerBound != nil,
            try table.deletesUnseen()
        else { return nil }
        return try overlay.unnoticed {
            // The checksum is of each row that is passed.
            guard let record = try StateStore(connection: connection).table(table.id), record.isMoving,
                record.verification != .complete
            else { return nil }
            do {
                return .all(table, try table.countPending())
            } catch let error as SQLiteError where ResultCode.corrupt ~= error.code {
                return nil
            }
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
                    let key = try table.key.read(keys)
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

    /// Runs `body` without CHECK constraints, if they are to be ignored and no statement runs: the pragma expires these.
    func ignoringChecks(_ areIgnored: Bool, _ body: () throws -> Void) throws {
        guard areIgnored, !connection.hasBusyStatement,
            try connection.fetchValue(Int64.self, "PRAGMA ignore_check_constraints") == 0
        else { return try body() }
        ignoresChecks = true
        try connection.execute("PRAGMA ignore_check_constraints = 1")
        defer { try? enforceChecks() }
        try body()
    }

    /// Brings rows into the target that its constraints do not take, so that the application can mend or delete them: in
    /// a table that is whole it could.
    private func promoteRefused(_ prepared: Prepared, _ keys: Statement, _ error: SQLiteError) throws
        -> [UnseenDelete]
    {
        // Where the row's triggers fire, the rows that these write have CHECKs as well.
        if error.code == .constraintCheck, !connection.hasBusyStatement, !firesTriggers(prepared) {
            do {
                try ignoringChecks(true) { try promote(prepared, keys) { try $0.promoteIfPending($1, $2) } }
                return []
            } catch let other as SQLiteError where ResultCode.constraint ~= other.code && prepared.route.isPlainDelete {
            }
        }
        guard prepared.route.isPlainDelete else { throw error }
        var refused: [UnseenDelete] = []
        try promote(prepared, keys) { table, key, state in
            do {
                try table.promoteIfPending(key, state)
            } catch let error as SQLiteError where ResultCode.constraint ~= error.code {
                // Of one table: what holds for the first row holds for all.
                guard try !refused.isEmpty || table.deletesUnseen() else { throw error }
                refused.append(.row(table, key))
            }
        }
        return refused
    }

    private func firesTriggers(_ prepared: Prepared) -> Bool {
        prepared.route.redirected.flatMap { overlay.tables.byID[$0] }?.firesTriggers ?? false
    }

    func collect(_ prepared: Prepared, _ keys: Statement, _ table: MovingTable) throws {
        let (before, own) = (connection.totalChanges, overlay.statements.internalChanges)
        defer { overlay.statements.internalChanges = own + connection.totalChanges - before }
        let collection = KeyCollection(table)
        try overlay.statements.statement(collection.clear).run()
        let insert = try overlay.statements.statement(collection.insert)
        try forEachKey(of: prepared, keys) {
            try insert.bind(table.key.read(keys), at: 1)
            // The clauses may ask for it.
            try overlay.keepingLastInsertRowID { try insert.run() }
            overlay.statements.internalChanges = own + connection.totalChanges - before
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
