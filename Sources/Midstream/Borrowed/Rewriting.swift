internal import SQLText
internal import SQLiteConnection

/// What the rewriting of a statement depends on.
struct RewritingKey: Hashable {
    var text: ExactString
    var enforcesForeignKeys: Bool
    /// The version of the schema of `temp`, in which the application may make tables and views.
    var temporaryVersion: Int64
}

// Statements that write the target's table on a connection of other code, and promote the rows that they need by themselves.
extension BorrowedWrites {
    /// The statement that does what the given one cannot do with a union table; `nil` if the given one can be left as it is.
    ///
    /// This reads nothing of the files: in a transaction, it would begin a snapshot. If another connection writes, SQLite refuses at once a
    /// lock that is asked for after that.
    func rewriting(of sql: String) throws -> String? {
        guard !isAnnounced, let overlay else { return nil }
        let key = RewritingKey(
            text: ExactString(string: sql),
            enforcesForeignKeys: connection.isOn(.foreignKeys),
            temporaryVersion: try temporaryVersion()
        )
        // What a transaction has made in `temp` may be undone, and another change may then get the version.
        if !connection.isInTransaction { names.temporaryVersion = key.temporaryVersion }
        guard key.temporaryVersion == names.temporaryVersion else { return try rewriting(of: sql, key, overlay) }
        return try texts.rewritings.plan(for: key) { try rewriting(of: sql, key, overlay) }
    }

    private func rewriting(of sql: String, _ key: RewritingKey, _ overlay: Overlay) throws -> String? {
        let outline = SQLScript(sql).outline()
        guard let table = tableOfRefused(outline, overlay) else { return nil }
        if let reason = try reasonAgainst(outline) { throw Self.mustMove(table, reason) }
        var router = Router(overlay: overlay, enforcesForeignKeys: key.enforcesForeignKeys)
        router.isAlone = true
        let route = try router.route(outline, in: sql)
        guard route.drained.isEmpty, route.substitutes.isEmpty, !route.ignoresChecks, !route.suspendsOverlay,
            route.redirected != nil
        else { throw Self.mustMove(table, route.reason.construct) }
        return route.sql
    }

    private static func mustMove(_ table: MovingTable, _ reason: String) -> MigrationError {
        MigrationError(
            .refusedStatement,
            "table \(table.name) is moving, and \(reason) needs its rows in one place before the statement runs: run the statement with "
                + "MigrationOverlay.execute or fetchAll",
            table: table.name
        )
    }

    /// The moving table that a statement writes in a way that SQLite, or ``WritePlan``, refuses for a union table.
    private func tableOfRefused(_ outline: StatementOutline, _ overlay: Overlay) -> MovingTable? {
        switch outline.kind {
        case .insert: guard !outline.upsert.isEmpty || outline.returning != nil else { return nil }
        case .update: guard outline.returning != nil || outline.from != nil else { return nil }
        case .delete: guard outline.returning != nil else { return nil }
        default: return nil
        }
        guard let target = outline.target, target.schema == nil else { return nil }
        return overlay.table(named: target.name)
    }

    /// The construct because of which a statement cannot be rewritten, if its outline tells.
    private func reasonAgainst(_ outline: StatementOutline) throws -> String? {
        if outline.from != nil { return "UPDATE … FROM" }
        // SQLite counts the promotions of a statement that runs.
        if outline.kind != .insert,
            outline.functionCalls.contains(where: { ["changes", "total_changes"].contains($0.name) })
        {
            return "changes()"
        }
        // The table's triggers make SQLite compute all rows first.
        if outline.kind == .insert, outline.returning == nil, !outline.insertsOneRow,
            outline.functionCalls.contains(where: {
                !VolatileTerms.isSteady($0.name) && !["random", "randomblob"].contains($0.name)
            })
        {
            return "a function of the application in an INSERT of several rows"
        }
        // SQLite reads all rows before it inserts the first one only while the target's table has triggers.
        if outline.kind == .insert, !outline.insertsOneRow, Self.readsTarget(outline) {
            return "an INSERT of several rows that reads its own table"
        }
        // The view's definition may change later.
        let namesView = try outline.tableReferences.contains { reference in
            guard reference.context != .target, !reference.isTableFunction, !outline.isHiddenByCommonTable(reference)
            else { return false }
            return try !names.tables.contains(SQLIdentifier.lowercased(reference.name.name))
                || isTemporary(reference.name.name)
        }
        return namesView ? "a view, a TEMP table, or a table that is made after the overlay," : nil
    }

    private static func readsTarget(_ outline: StatementOutline) -> Bool {
        outline.tableReferences.contains { reference in
            reference.context != .target
                && outline.target.map { SQLIdentifier.equal($0.name, reference.name.name) } ?? false
        }
    }

    private func isTemporary(_ name: String) throws -> Bool {
        if overlay?.table(named: name) != nil { return false }
        let statement = try statements.statement("SELECT 1 FROM sqlite_temp_master WHERE name = ?1 COLLATE NOCASE")
        defer { statement.reset() }
        try statement.bind(name, at: 1)
        return try statement.step()
    }

    /// Notes that a statement writes the target's table itself.
    func noteDirectWrite(of table: MovingTable) throws {
        if isCarryingOut || isAnnounced { return statements.epoch += 1 }
        try noteStatement()
        try checkKeys(of: table)
    }

    /// Makes sure that foreign keys can be followed if they are enforced.
    func checkKeys(of table: MovingTable) throws {
        guard connection.isOn(.foreignKeys), overlay?.lacksKeyActions(table) ?? true else { return }
        throw Self.refusal(of: table, "a foreign key connects it with another table")
    }

    /// Makes sure that SQLite finds rows by a list of their keys, as ``Promotion/embed(in:redirect:)`` needs it. If SQLite takes the table for
    /// small, it looks at each of its rows instead, and evaluates the list at the first one. It would then miss rows that come before the
    /// first one, and all rows if the table is empty.
    func checkPlan(of table: MovingTable) throws {
        if isAnnounced { return }
        // SQLite prepares an EXPLAIN never again.
        let plan = try connection.prepare(
            "EXPLAIN QUERY PLAN SELECT 1 FROM \(table.sql.target) AS t NOT INDEXED WHERE \(table.key.isRowID ? table.key.target[0] : "rowid") "
                + "IN (SELECT 1 UNION ALL SELECT 2)"
        )
        defer { plan.reset() }
        guard try plan.step(), case .text(let detail) = plan.value(at: 3), detail.hasPrefix("SEARCH") else {
            throw Self.refusal(
                of: table,
                "SQLite takes the target's table for small (ANALYZE has counted its rows), and would not look for rows by a list of keys"
            )
        }
    }
}
