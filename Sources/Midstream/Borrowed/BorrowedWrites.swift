internal import SQLText
internal import SQLiteConnection

/// Carries out what statements do to the union tables of a connection that other code opened. Each row is written by a statement
/// on the target's table, within the statement that runs.
final class BorrowedWrites {
    let connection: Connection
    /// Statements that were prepared before the overlay was removed may outlive it.
    private(set) weak var overlay: Overlay?
    let statements: InternalStatements
    /// The traits of the file's views and triggers.
    var schemaTraits = QueryTraits.unknown
    /// What rewriting a statement depends on.
    var names = KnownNames()
    /// The traits of the views of `temp`. The connection's owner may make such views at any time.
    private var temporary: (version: Int64, traits: QueryTraits)?
    /// Called with each statement, in the statement's snapshot. An error ends the statement.
    var checkSchema: (() throws -> Void)?
    /// Called when SQLite disconnects a union table.
    var onDisconnect: (() -> Void)?
    /// How many union tables SQLite has connected. SQLite disconnects them when a change of the schema is undone, and connects
    /// them when a statement names them.
    var connectedTables = 0

    struct KnownNames {
        /// The names of the target's tables when the overlay was made, in lower case.
        var tables: Set<String> = []
        /// The version of the schema of `temp` outside transactions, when a statement was last rewritten there.
        var temporaryVersion: Int64?
    }

    fileprivate struct PlanKey: Hashable {
        var text: ExactString
        var table: Int64
        var operation: WritePlan.Operation
    }

    /// What was found out from the texts of statements.
    struct Texts {
        fileprivate let plans = TextPlans<PlanKey, WritePlan>()
        /// See ``BorrowedWrites/runsOneAggregate()``.
        fileprivate let aggregates = TextPlans<ExactString, Bool>()
        /// What statements on tables that foreign keys connect with moving ones ask for.
        let keyPlans = TextPlans<ExactString, KeyPlan>()
        /// See ``BorrowedWrites/rewriting(of:)``.
        let rewritings = TextPlans<RewritingKey, String?>()
    }

    let texts = Texts()
    /// The version of the schema of `temp` when the definitions were last searched for REPLACE.
    var keyedVersion: Int64?
    /// Whether ``MigrationOverlay/execute(_:_:)`` runs a statement. Then nothing need be found out from texts.
    var isAnnounced = false

    /// Whether a statement of Midstream's writes a row for the running statement.
    private(set) var isCarryingOut = false
    /// Whether a statement is being opened: see ``begin(_:)``.
    private var isOpening = false

    /// The statement that wrote the last row, and the connection's count of changes right after.
    private var lastRow: (statement: UInt, changes: Int64)?

    init(overlay: Overlay) {
        self.overlay = overlay
        connection = overlay.connection
        statements = overlay.statements
    }

    static func refusal(of table: MovingTable, _ reason: String) -> SQLiteError {
        SQLiteError(
            code: .error,
            message: "table \(table.name) is moving, and \(reason): run the statement with MigrationOverlay.execute"
        )
    }

    func forgetPlans() {
        texts.plans.removeAll()
        texts.rewritings.removeAll()
        texts.keyPlans.removeAll()
    }

    /// Called when a statement begins to read or write a union table, or goes on to do so.
    func noteStatement() throws {
        statements.epoch += 1
        try checkSchema?()
    }

    /// Does what could not be done while the statement ran that loaded the overlay.
    func completeOverlay() throws {
        if let overlay, overlay.lacksCounts { try overlay.defineCounts() }
    }

    // MARK: Reads

    /// Whether a view that a statement may name, or a trigger, has the trait.
    func viewsHave(_ trait: KeyPath<QueryTraits, Bool>) throws -> Bool {
        try schemaTraits[keyPath: trait] || temporaryTraits()[keyPath: trait]
    }

    /// The version of the schema of `temp`.
    func temporaryVersion() throws -> Int64 {
        let statement = try statements.statement("PRAGMA temp.schema_version")
        defer { statement.reset() }
        return try statement.step() ? statement.int64(at: 0) : 0
    }

    private func temporaryTraits() throws -> QueryTraits {
        let version = try temporaryVersion()
        if let temporary, temporary.version == version, !connection.isInTransaction { return temporary.traits }
        let views = try statements.statement("SELECT sql FROM sqlite_temp_master WHERE type = 'view'")
        defer { views.reset() }
        var traits = QueryTraits()
        while try views.step() {
            if case .text(let sql) = views.value(at: 0) { traits.add(SQLScript(sql).outline()) }
        }
        // What a transaction has made may be undone, and another change may then get the schema version.
        if !connection.isInTransaction { temporary = (version, traits) }
        return traits
    }

    func runningStatementsHaveCompound() -> Bool {
        connection.runningStatements().contains { $0.sql.map { SQLScript($0).outline().hasCompound } ?? true }
    }

    /// Whether one statement alone runs, and gives one row when it has read all rows of one table.
    func runsOneAggregate() -> Bool {
        let running = connection.runningStatements()
        guard running.count == 1, let text = running[0].sql else { return false }
        return texts.aggregates.plan(for: ExactString(string: text)) {
            let outline = SQLScript(text).outline()
            return outline.isOneAggregate && outline.tableReferences.count == 1 && outline.scopes.count <= 2
        }
    }

    func refuseRowMembership(on table: MovingTable) throws {
        for running in connection.runningStatements() {
            guard let sql = running.sql, SQLScript(sql).outline().hasRowMembership else { continue }
            throw Self.refusal(of: table, "the statement has a row value before IN, and compares a number with text")
        }
    }

    // MARK: The beginning of a write

    /// Takes the target's write lock before the statement reads. Natively SQLite would have the lock by now. If another
    /// connection writes, SQLite refuses at once a lock that is asked for after a read.
    func begin(_ table: MovingTable) throws {
        // A statement that was undone may run again.
        lastRow = nil
        // Taking the lock sets `changes()`.
        let asksForChanges = connection.runningStatements(thatMayWrite: true).contains { running in
            running.sql.map { SQLScript($0).outline().functionCalls.contains { $0.name == "changes" } } ?? true
        }
        // If a TEMP trigger on the target's table writes the union table, SQLite calls this function again meanwhile.
        if !asksForChanges, !isOpening {
            isOpening = true
            defer { isOpening = false }
            try openStatement(table)
        }
        try noteStatement()
    }

    /// Makes SQLite note the state of the target before the running statement changes it, so that this statement alone can be
    /// undone. By itself, SQLite would do so only for `temp`, which is where the union table is.
    ///
    /// The UPDATE that this function runs changes nothing. But since the UPDATE could violate the rowid's uniqueness after other
    /// rows, SQLite opens a statement journal for it, and with it one for the statement within which it runs. (An INSERT would
    /// set the sequence of AUTOINCREMENT.)
    ///
    /// Source: <https://www.sqlite.org/tempfiles.html>, section 2.3.
    func openStatement(_ table: MovingTable) throws {
        let key = table.key.target[0]
        let sql = "UPDATE OR ABORT \(table.sql.target) SET \(key) = \(key) WHERE 0"
        try statements.statement(sql).run()
    }

    // MARK: Rows

    /// Inserts, changes or deletes a row.
    ///
    /// - Parameter values: The old rowid, the new rowid, then all columns. For an INSERT, NULL and NULL come first; for a DELETE,
    ///   there is only the old rowid.
    /// - Returns: The rowid of an inserted row.
    func update(_ table: MovingTable, _ values: ValueReferences) throws -> Int64? {
        let operation: WritePlan.Operation =
            values.count == 1 ? .delete : (values[0].storageClass == .null ? .insert : .update)
        let writers = connection.runningStatements(thatMayWrite: true)
        guard writers.count == 1, let text = writers[0].sql else {
            throw Self.refusal(of: table, "more than one statement that writes is running")
        }
        try checkKeys(of: table)
        try noteStatement()
        let plan = try plan(text, operation, table)
        let isLaterRow = lastRow.map { $0 == (writers[0].identity, connection.totalChanges) } ?? false
        lastRow = nil
        if isLaterRow, let refusal = plan.refusalOfSecondRow { throw Self.refusal(of: table, refusal) }
        if isLaterRow, plan.changesFollowedKey, connection.isOn(.foreignKeys) {
            throw Self.refusal(of: table, "a foreign key changes other rows with each row that the statement changes")
        }

        let lastInsertRowID = connection.lastInsertRowID
        let (total, own) = (connection.totalChanges, statements.internalChanges)
        // If the row fails, SQLite undoes all that was done for it.
        var counted: Int64 = 0
        defer { statements.internalChanges = own + connection.totalChanges - total - counted }
        let mode = connection.conflictMode
        statements.beginNotingRefusals()
        do {
            if connection.isInTransaction { try openStatement(table) }
            let isDone = try carryOut(plan, operation, table, values)
            // The statement that runs counts the row itself, and not what foreign keys have done.
            let promoted = statements.internalChanges - own
            counted = connection.totalChanges - total - promoted - (isDone ? 1 : 0)
            let inserted = connection.lastInsertRowID
            if operation != .insert || !isDone { overlay?.setLastInsertRowID(lastInsertRowID) }
            // A row that is left as it is has no effect on the rows after it, and is not counted.
            if isDone { lastRow = (writers[0].identity, connection.totalChanges) }
            if !isDone { throw try notDone(mode, table) }
            return operation == .insert ? inserted : nil
        } catch {
            overlay?.setLastInsertRowID(lastInsertRowID)
            throw (error as? SQLiteError).map { outOfClause(ofKeys($0, plan, operation, table), mode) } ?? error
        }
    }

    /// The error with which the statement must end. The OR clause applies only to constraints of the new row. It does not apply
    /// to the row's types, to errors that triggers raise, or to pending rows that the target does not take; but SQLite would
    /// apply it by the error's code.
    private func outOfClause(_ error: SQLiteError, _ mode: ConflictMode) -> SQLiteError {
        guard ResultCode.constraint ~= error.code, mode != .abort, mode != .replace else { return error }
        switch error.code {
        case .constraintDatatype: return SQLiteError(code: .mismatch, message: error.message)
        case _ where statements.refusal != nil, .constraintTrigger, .constraintForeignKey:
            return SQLiteError(code: .error, message: error.message)
        default: return error
        }
    }

    /// The error for a row that was left as it is.
    private func notDone(_ mode: ConflictMode, _ table: MovingTable) throws -> SQLiteError {
        // SQLite goes on with the next row, and does not count this one. The message is empty, since SQLite would keep it and report
        // it with a later error.
        if mode == .ignore { return SQLiteError(code: .constraint, message: "") }
        throw Self.refusal(of: table, "a row that the statement would change no longer exists")
    }

    /// - Returns: Whether a row was changed.
    private func carryOut(
        _ plan: WritePlan,
        _ operation: WritePlan.Operation,
        _ table: MovingTable,
        _ values: ValueReferences
    ) throws -> Bool {
        if operation != .insert {
            let key = RowKey.rowID(values[0].int64)
            do {
                try table.promoteIfPending(key, table.state())
            } catch let error as SQLiteError
                where ResultCode.constraint ~= error.code && error.code != .constraintTrigger && operation == .delete
            {
                // A key to the table would have to act on the row.
                guard try table.deletesUnseen() else { throw error }
                // A pending row that cannot be in the target is deleted without having been there.
                try table.discard(key)
                return true
            }
        }
        let statement = try statements.statement(plan.sql)
        isCarryingOut = true
        defer {
            isCarryingOut = false
            statement.reset()
            statement.clearBindings()
        }
        for (offset, argument) in plan.arguments.enumerated() { try statement.bind(values[argument], at: offset + 1) }
        try statement.run()
        return connection.changes > 0
    }

    private func plan(_ text: String, _ operation: WritePlan.Operation, _ table: MovingTable) throws -> WritePlan {
        let key = PlanKey(text: ExactString(string: text), table: table.id, operation: operation)
        return try texts.plans.plan(for: key) { try WritePlan(text, operation, on: table, isPlainTable: isPlainTable) }
    }

    func isPlainTable(_ name: String) throws -> Bool {
        let statement = try statements.statement(
            """
            SELECT type = 'table' FROM (SELECT 1 AS rank, type, name FROM sqlite_temp_master
            UNION ALL SELECT 2, type, name FROM main.sqlite_master)
            WHERE name = ?1 COLLATE NOCASE AND type IN ('table', 'view') ORDER BY rank LIMIT 1
            """
        )
        defer { statement.reset() }
        try statement.bind(name, at: 1)
        return try statement.step() && statement.int64(at: 0) != 0
    }
}
