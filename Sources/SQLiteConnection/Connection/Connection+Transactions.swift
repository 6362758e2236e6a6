/// When a transaction takes its locks.
public enum TransactionMode: String, Sendable {
    /// Each lock with the first statement that needs it.
    case deferred = "DEFERRED"
    /// The write lock at once.
    case immediate = "IMMEDIATE"
    /// Everything at once.
    case exclusive = "EXCLUSIVE"
}

extension Connection {
    /// Runs `body` in a transaction. The transaction is committed when `body` returns, and rolled back when it throws.
    public func transaction<Result>(
        _ mode: TransactionMode = .deferred,
        _ body: () throws -> Result
    ) throws -> Result {
        try execute("BEGIN \(mode.rawValue)")
        do {
            let result = try body()
            // The body may have caught the error that rolled the transaction back.
            guard isInTransaction else {
                throw SQLiteError(code: .abort, message: "an error has rolled the transaction back before its end")
            }
            try execute("COMMIT")
            return result
        } catch {
            try? rollBack()
            throw error
        }
    }

    /// Runs `body`, which only reads, in a transaction that is rolled back: after `body` has met a damaged page and
    /// gone on, a COMMIT would fail. While a statement writes outside a transaction, a rollback would undo its writes
    /// too. Then `body` runs without a transaction, and statements that have begun to read hold the files' snapshots.
    ///
    /// - Throws: Whatever `body` throws; ``SQLiteError`` if there is no memory to end the transaction, which then stays
    ///   open.
    package func readingTransaction<Result>(_ body: () throws -> Result) throws -> Result {
        if isAmidWrite { return try holdingSnapshots(body) }
        try execute("BEGIN")
        let result: Result
        do {
            result = try body()
        } catch {
            try? endTransaction()
            throw error
        }
        try endTransaction()
        return result
    }

    private func holdingSnapshots<Result>(_ body: () throws -> Result) throws -> Result {
        let schemas = try fetchAll("PRAGMA database_list").map { try $0.get(1, as: String.self) }
        return try holdingSnapshots(of: schemas.filter { $0 != "temp" }.map(\.quotedIdentifier), body)
    }

    /// Runs `body`, which only reads, on one snapshot of each of these files, even if a running statement has called
    /// this. In a transaction, the snapshots are those of the transaction, and the caller has taken them in this order.
    ///
    /// - Parameter schemas: The schemas of the files, as SQL writes them, in the order in which their snapshots are
    ///   taken.
    package func holdingSnapshots<Result>(of schemas: [String], _ body: () throws -> Result) throws -> Result {
        if isInTransaction { return try body() }
        var holders: [Statement] = []
        defer { for statement in holders { statement.reset() } }
        for schema in schemas {
            let statement = try prepare("PRAGMA \(schema).schema_version")
            _ = try statement.step()
            holders.append(statement)
        }
        return try body()
    }

    /// Rolls back the open transaction, if there is one: after some errors SQLite itself has ended it.
    ///
    /// - Throws: ``SQLiteError`` if there is no memory for the rollback. The transaction then stays open.
    public func rollBack() throws(SQLiteError) {
        schemaKnowledge = nil
        try endTransaction()
    }

    /// Rolls back the open transaction, if there is one, and keeps what is known of the schemas.
    private func endTransaction() throws(SQLiteError) {
        if isInTransaction {
            do {
                try execute("ROLLBACK")
            } catch {
                // SQLite asks a progress handler after a number of instructions, counted over all runs of a statement,
                // and may do so even after the rollback. A new statement has run few instructions.
                guard error.code.primary == .interrupt else { throw error }
                if isInTransaction { try? prepare("ROLLBACK").run() }
                // Even a new statement has too many instructions if the handler is asked after each one, and
                // interrupts. When a statement that writes is interrupted, SQLite itself rolls back the whole
                // transaction. This statement writes nothing that stays.
                if isInTransaction { try? execute("PRAGMA temp.user_version = 0") }
                if isInTransaction { try prepare("ROLLBACK").run() }
            }
        }
        isHalfUndone = false
    }

    /// Sets ``isHalfUndone``, because something was left half done that no savepoint surrounds.
    package func noteHalfUndone() { isHalfUndone = true }

    /// Rolls back to a savepoint and ends it. SQLite cannot do that while another statement that has been interrupted
    /// is still running. Then ``isHalfUndone`` is set until the transaction has been rolled back.
    ///
    /// - Parameters:
    ///   - name: The savepoint's name.
    ///   - isOutermost: Whether the savepoint began the transaction.
    public func undoSavepoint(_ name: String, isOutermost: Bool = false) {
        schemaKnowledge = nil
        guard isInTransaction else { return }
        let quoted = name.quotedIdentifier
        if isOutermost, (try? rollBack()) != nil { return }
        do {
            try execute("ROLLBACK TO \(quoted)")
        } catch {
            isHalfUndone = true
            return
        }
        _ = try? execute("RELEASE \(quoted)")
    }

    /// Runs `body` in a savepoint. The savepoint is released when `body` returns, and rolled back when it throws; see
    /// ``undoSavepoint(_:isOutermost:)``.
    public func savepoint<Result>(_ name: String = "savepoint", _ body: () throws -> Result) throws -> Result {
        let quoted = name.quotedIdentifier
        let isOutermost = !isInTransaction
        try execute("SAVEPOINT \(quoted)")
        do {
            let result = try body()
            if isInTransaction { try execute("RELEASE \(quoted)") }
            return result
        } catch {
            undoSavepoint(name, isOutermost: isOutermost)
            throw error
        }
    }
}
