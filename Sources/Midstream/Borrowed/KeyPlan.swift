internal import SQLText
internal import SQLiteConnection

/// What a statement of other code asks of the TEMP triggers for enforced foreign keys. Midstream reads it from the statement's
/// text, since nobody announces the statement.
struct KeyPlan {
    /// Whether the statement may say REPLACE.
    let mayReplace: Bool
    /// Why the statement, with such triggers, would not write what it writes without them, whether or not keys are enforced.
    let refusal: SQLiteError?
    /// Why the triggers may be passed other values than those that the statement stores.
    let refusalOfValues: SQLiteError?

    init(_ text: String, _ overlay: Overlay, isPlainTable: (String) throws -> Bool) rethrows {
        let outline = SQLScript(text).outline()
        mayReplace = outline.mentions(["replace"])
        guard outline.kind == .insert, let target = outline.target, let schema = overlay.keyActions.table(target.name),
            overlay.table(named: target.name) == nil
        else {
            refusal = nil
            refusalOfValues = nil
            return
        }
        func error(_ reason: String) -> SQLiteError {
            SQLiteError(
                code: .error,
                message:
                    "a foreign key connects table \(target.name) with one that is moving, and \(reason): run the statement "
                    + "with MigrationOverlay.execute"
            )
        }
        refusal =
            WritePlan.asksForEarlierRows(outline)
            ? error("the values of a row could depend on the rows before it") : nil
        let router = Router(overlay: overlay, enforcesForeignKeys: true)
        if router.readsWhatKeysChange(outline, target) {
            refusalOfValues = error("what a row reads could be changed by the rows before it")
            return
        }
        refusalOfValues =
            try Self.computesKeyTwice(outline, schema, overlay.keyActions.passedColumns(of: target.name), isPlainTable)
            ? error("the statement may compute a key twice") : nil
    }

    /// Whether an INSERT may compute a key of its row in a way that gives another value the next time. If a table has a trigger, SQLite
    /// evaluates the expressions of one row of VALUES once for the trigger and once for the row.
    private static func computesKeyTwice(
        _ outline: StatementOutline,
        _ schema: TableSchema,
        _ passed: Set<Int>,
        _ isPlainTable: (String) throws -> Bool
    ) rethrows -> Bool {
        guard case .values(let rows, _)? = outline.source, rows.count == 1 else { return false }
        return try zip(rows[0].indices, rows[0]).contains { place, value in
            let column = outline.columns == nil ? place : schema.columnIndex(outline.columnNames[place]) ?? -1
            guard column < 0 || passed.contains(column) else { return false }
            let calls = outline.functionCalls.contains { call in
                value.contains(call.nameRange.lowerBound) && !VolatileTerms.isSteady(call.name)
            }
            if calls { return true }
            return try outline.tableReferences.contains { reference in
                try value.contains(reference.name.range.lowerBound) && !isPlainTable(reference.name.name)
            }
        }
    }
}

// Statements on tables that enforced foreign keys connect with moving ones.
extension BorrowedWrites {
    /// Finds out what the running statements ask for, before a trigger of ``KeyActions`` acts.
    ///
    /// - Parameter isEnforced: Whether the connection enforces foreign keys. If not, the trigger does nothing, but SQLite evaluates an
    ///   INSERT differently since there is a trigger.
    func noteKeyActions(isEnforced: Bool) throws {
        guard !isAnnounced, let overlay else { return }
        let plans = try connection.runningStatements(thatMayWrite: true).map { running in
            try running.sql.map { text in
                try texts.keyPlans.plan(for: ExactString(string: text)) {
                    try KeyPlan(text, overlay, isPlainTable: isPlainTable)
                }
            }
        }
        if let refusal = plans.lazy.compactMap({ $0?.refusal }).first { throw refusal }
        guard isEnforced else { return }
        try noteStatement()
        let version = try temporaryVersion()
        if version != keyedVersion {
            try overlay.keyActions.readDefinitions()
            keyedVersion = version
        }
        if let refusal = plans.lazy.compactMap({ $0?.refusalOfValues }).first { throw refusal }
        overlay.keyActions.statementReplaces = plans.contains { $0?.mayReplace ?? true }
    }

    /// The error of a statement that needs all rows of the tables that foreign keys connect; `nil` if Midstream itself runs the
    /// statement, and will run it again.
    func refusalOfKeys(_ table: String) -> SQLiteError? {
        if isAnnounced { return nil }
        return SQLiteError(
            code: .error,
            message:
                "table \(table) is moving, and rows that foreign keys connect with this one must move first: run the "
                + "statement through a Database that opens the same file"
        )
    }

    /// The error of a row that breaks a foreign key. SQLite checks immediate keys at the end of the statement that writes a row,
    /// and that is one statement for each row here.
    func ofKeys(_ error: SQLiteError, _ plan: WritePlan, _ operation: WritePlan.Operation, _ table: MovingTable)
        -> SQLiteError
    {
        guard error.code == .constraintForeignKey, !plan.isOfOneRow, let actions = overlay?.keyActions else {
            return error
        }
        let isMendable = actions.keys(to: table.name).contains { key in
            if key.child == key.parent { return true }
            switch operation {
            case .insert: return plan.replaces || actions.definitionsReplace
            case .delete: return key.definition.actsOnDelete
            case .update: return true
            }
        }
        guard isMendable else { return error }
        let refusal = Self.refusal(of: table, "a later row of the statement could mend the key that this row breaks")
        return SQLiteError(code: error.code, message: "\(error.message). \(refusal.message)")
    }
}
