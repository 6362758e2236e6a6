internal import SQLText
internal import SQLiteConnection

/// Promotes the rows that a statement affects, before the statement runs.
extension DatabaseAccess {
    /// Runs promotions in a savepoint, so that a promotion that fails half way leaves nothing behind.
    func protected(_ body: () throws -> Void) throws {
        let isOutermost = !connection.isInTransaction
        do {
            try connection.execute("SAVEPOINT midstream_promotion")
        } catch {
            guard ResultCode.busy ~= error.code, connection.isInTransaction || connection.isAmidWrite else {
                throw error
            }
            // While something writes, such as a blob's handle, SQLite sets no savepoint. Each row is still promoted as
            // a whole. If a promotion fails then, the transaction is lost.
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

    /// Ends the savepoint of promotions. Nothing that a promotion runs ends it. But if there is no memory for a
    /// savepoint, old versions of SQLite set none, and do not say so.
    private func releasePromotion() throws {
        do {
            try connection.execute("RELEASE midstream_promotion")
        } catch let error where error.message.contains("no such savepoint") {
            throw SQLiteError(code: .outOfMemory, message: "there was no memory for a savepoint", sql: error.sql)
        }
    }

    /// Promotes the pending rows that the statement affects. The application sees nothing of the promotions.
    ///
    /// - Returns: The pending rows that the statement deletes without their having been in the target.
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

    /// All pending rows of a table, if the statement deletes all rows of the table; `nil` if no row is pending, or if
    /// each of the rows has to be looked at.
    private func allUnseen(_ prepared: Prepared) throws -> UnseenDelete? {
        guard prepared.route.deletesAll, kind == .writer,
            let table = prepared.route.redirected.flatMap({ overlay.tables.byID[$0] }), table.inner == nil,
            !table.isReturning, !table.sql.firesTriggers, table.openCursors == 0, try table.state().lowerBound != nil,
            try table.deletesUnseen()
        else { return nil }
        return try overlay.unnoticed {
            // The checksum of a complete verification needs each row that the watermark passes.
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

    /// Makes SQLite check CHECK constraints again, after it has ignored them for promoted rows.
    func enforceChecks() throws {
        guard ignoresChecks else { return }
        try connection.execute("PRAGMA ignore_check_constraints = 0")
        ignoresChecks = false
    }

    /// Runs `body` without CHECK constraints, if they are to be ignored and no statement runs: the pragma expires
    /// running statements.
    func ignoringChecks(_ areIgnored: Bool, _ body: () throws -> Void) throws {
        guard areIgnored, !connection.hasBusyStatement,
            try connection.fetchValue(Int64.self, "PRAGMA ignore_check_constraints") == 0
        else { return try body() }
        ignoresChecks = true
        try connection.execute("PRAGMA ignore_check_constraints = 1")
        defer { try? enforceChecks() }
        try body()
    }

    /// Promotes rows that the target's constraints refuse, so that the application can change or delete them. It could
    /// do so in a whole table.
    private func promoteRefused(_ prepared: Prepared, _ keys: Statement, _ error: SQLiteError) throws
        -> [UnseenDelete]
    {
        // If the application's triggers fire for promoted rows, CHECKs must hold for the rows that the triggers write.
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
                // All refused rows are of one table. What holds for the first of them holds for all.
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
            // The statement's clauses may ask for the last inserted rowid.
            try overlay.keepingLastInsertRowID { try insert.run() }
            overlay.statements.internalChanges = own + connection.totalChanges - before
        }
    }

    /// Calls `body` for each key that the query finds. The query has the application's own clauses, so SQLite may
    /// prepare it again as it begins to run.
    private func forEachKey(of prepared: Prepared, _ keys: Statement, _ body: () throws -> Void) throws {
        var hasKey = try overlay.watch.beginning(prepared.route.ofKeys) { try keys.step() }
        while hasKey {
            try body()
            hasKey = try keys.step()
        }
    }
}
