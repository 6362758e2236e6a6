/// How a transaction takes its locks.
public enum TransactionMode: String, Sendable {
    /// With the first statement that needs them.
    case deferred = "DEFERRED"
    /// The write lock at once.
    case immediate = "IMMEDIATE"
    /// Everything at once.
    case exclusive = "EXCLUSIVE"
}

extension Connection {
    /// Runs `body` in a transaction: committed when it returns, rolled back when it throws.
    public func transaction<Result>(
        _ mode: TransactionMode = .deferred,
        _ body: () throws -> Result
    ) throws -> Result {
        try execute("BEGIN \(mode.rawValue)")
        do {
            let result = try body()
            // The body may have caught the error that did so.
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

    /// Runs `body`, which reads alone, in a transaction that is rolled back: where it has met a damaged page and gone on, a
    /// COMMIT would fail. While a statement writes outside a transaction, it would be rolled back too: statements that have begun
    /// to read hold the files' snapshots then.
    ///
    /// - Throws: What `body` throws; ``SQLiteError`` when there is no memory to end the transaction, which stays open then.
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

    /// Runs `body`, which reads alone, on one snapshot of each of these files, also while a statement runs that asks for it. In a
    /// transaction, it is the one of the transaction, which whoever calls has taken in that order.
    ///
    /// - Parameter schemas: What the files are attached as, as SQL writes it, in the order in which their snapshots are taken.
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

    /// Rolls the open transaction back, if there is one: SQLite itself has ended it after some errors.
    ///
    /// - Throws: ``SQLiteError`` when there is no memory to do so. The transaction stays open then.
    public func rollBack() throws(SQLiteError) {
        schemaKnowledge = nil
        try endTransaction()
    }

    /// The same where nothing was written.
    private func endTransaction() throws(SQLiteError) {
        if isInTransaction {
            do {
                try execute("ROLLBACK")
            } catch {
                // A progress handler is asked after so many instructions of all runs of a statement, be it after the rollback. A new
                // one has few.
                guard error.code.primary == .interrupt else { throw error }
                if isInTransaction { try? prepare("ROLLBACK").run() }
                // Too many where the handler is asked after each, and interrupts. A statement that writes and is interrupted has
                // SQLite itself roll all of the transaction back; this one writes nothing that stays.
                if isInTransaction { try? execute("PRAGMA temp.user_version = 0") }
                if isInTransaction { try prepare("ROLLBACK").run() }
            }
        }
        isHalfUndone = false
    }

    /// Has ``isHalfUndone`` tell that half of something was done, which no savepoint surrounds.
    package func noteHalfUndone() { isHalfUndone = true }

    /// Rolls back to a savepoint and ends it. Where SQLite cannot, since another statement is running that has been
    /// interrupted, ``isHalfUndone`` tells until the transaction has been rolled back.
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

    /// Runs `body` in a savepoint: released when it returns, rolled back when it throws; see ``undoSavepoint(_:isOutermost:)``.
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
