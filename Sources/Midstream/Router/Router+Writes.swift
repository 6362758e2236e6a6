internal import SQLText
internal import SQLiteConnection

// Statements that write moving tables.
extension Router {
    /// Refuses a write on a connection that only reads, before anything is done for the write. SQLite would refuse it only when
    /// it runs.
    func checkWritable() throws {
        guard overlay.statements.canPromote else {
            throw SQLiteError(code: .readOnly, message: "attempt to write a readonly database")
        }
    }

    func write(_ outline: StatementOutline, _ text: String, _ table: MovingTable, _ route: Route) throws
        -> Route
    {
        try checkWritable()
        let unread = route.draining([table.id], .unreadText)
        guard outline.isComplete, let target = outline.target else { return unread }
        if overlay.watch.triggers.unsilenced.contains(table.id) { return route.draining([table.id], .program) }
        // What a new row could collide with is known only when the row is made.
        if table.feeds.contains(where: \.hasOtherKeys), outline.kind != .delete {
            return route.draining([table.id], .otherKeys)
        }
        // With ORDER BY or LIMIT, SQLite takes the target's name for a common table of that name.
        if outline.kind != .insert, outline.isHiddenByCommonTable(target.name, scope: 0) { return unread }
        if returningReadsOverlay(outline), ReturningQueries.areEvaluatedForEachRow {
            return route.draining([table.id], .returning)
        }
        var route = route
        route.redirected = table.id
        var edits = SQLEdits()
        if target.schema == nil { edits.insertWord("main.", at: target.nameRange.lowerBound, of: outline) }
        try redirectReads(outline, text, &edits)
        if outline.kind == .insert {
            if dependsOnEarlierRows(outline, target, route) { return route.draining([table.id], .earlierRows) }
            let isVolatile = route.views.map { VolatileTerms(outline: outline, views: $0).isFound } ?? true
            if isVolatile, !evaluateOnce(outline, text, &edits) { return route.draining([table.id], .chosenRows) }
            if let transfer = try transfer(outline) { try apply(transfer, to: &edits, &route, outline) }
        } else {
            // The statement that finds the rows names the target without a schema.
            if hasNamesake(outline, target) { return unread }
            let promotion = Promotion(outline: outline, text: text, table: table)
            let isVolatile = route.views.map { VolatileTerms(outline: outline, views: $0).isFound } ?? true
            let isChosen = isVolatile || outline.orderBy != nil || outline.limit != nil
            let mayChange =
                table.firesTriggers && asksOtherTables(outline)
                || outline.from == nil && asksForSome(outline, route.views ?? [])
            // The statement that runs evaluates again which rows of FROM meet a row. It also visits the rows in the order of
            // their keys, and a trigger may notice that this is not the order of the application's statement.
            let isInOrder = isChosen && overlay.watch.triggers.tables.contains(table.id)
            let isCollected = isChosen || mayChange
            if isInOrder || isCollected && outline.from != nil { return route.draining([table.id], .chosenRows) }
            if isAlone {
                if isCollected { return route.draining([table.id], .chosenRows) }
                let isDone = try promotion.embed(in: &edits) { try redirectReads(outline, text, &$0) }
                return isDone ? edited(route, edits, outline, text) ?? unread : unread
            }
            let relation = isCollected ? table.name : OwnNames.pending(table.id)
            guard let keys = try promotion.keys(from: relation, redirect: { try redirectReads(outline, text, &$0) })
            else {
                return unread
            }
            if isCollected { promotion.restrict(&edits, toKeysIn: KeyCollection(table).table) }
            route.deletesAll =
                route.isPlainDelete
                && [outline.with, outline.whereClause, outline.orderBy, outline.limit] == [nil, nil, nil, nil]
            route.preparation =
                isCollected ? .collect(table: table.id, keys: keys) : .promote(table: table.id, keys: keys)
        }
        return edited(route, edits, outline, text) ?? unread
    }

    private func edited(_ route: Route, _ edits: SQLEdits, _ outline: StatementOutline, _ text: String) -> Route? {
        guard let sql = try? edits.extract(outline.range, from: text) else { return nil }
        var route = route
        route.sql = sql
        return route
    }

    /// Whether the statement reads a table of another file that has the target's name.
    private func hasNamesake(_ outline: StatementOutline, _ target: ObjectName) -> Bool {
        let name = outline.targetAlias?.name ?? target.name
        return outline.tableReferences.contains { reference in
            guard reference.context != .target, let schema = reference.name.schema else { return false }
            return !SQLIdentifier.equal(schema, "main")
                && SQLIdentifier.equal(reference.alias ?? reference.name.name, name)
        }
    }

    /// Whether the rows that an UPDATE or DELETE affects depend on a subquery with LIMIT. Which rows such a subquery gives may
    /// depend on how SQLite finds them, and so may differ between the statement that finds the keys and the statement that runs.
    private func asksForSome(_ outline: StatementOutline, _ views: [StatementOutline]) -> Bool {
        guard let start = outline.with == nil ? outline.whereClause?.lowerBound : outline.range.lowerBound else {
            return false
        }
        return outline.mentions(["limit"], from: start) || views.contains { $0.mentions(["limit"]) }
    }

    /// Whether the rows that an UPDATE or DELETE affects depend on other tables: triggers that the statement's promotions fire
    /// may write these tables.
    private func asksOtherTables(_ outline: StatementOutline) -> Bool {
        outline.tableReferences.contains { reference in
            reference.context != .target && outline.set.map { !$0.contains(reference.name.range.lowerBound) } ?? true
                && movingTable(reference.name) == nil
        }
    }

    /// Whether a subquery of RETURNING reads what may be the table being written.
    private func returningReadsOverlay(_ outline: StatementOutline) -> Bool {
        guard let returning = outline.returning else { return false }
        return outline.tableReferences.contains { reference in
            returning.contains(reference.name.range.lowerBound) && isOverlaid(reference.name)
        }
    }

    /// Whether the values of an INSERT's later rows may depend on its earlier rows: if the table has a trigger, SQLite computes
    /// all rows first.
    func asksForEarlierRows(_ outline: StatementOutline, _ views: [StatementOutline]?) -> Bool {
        if case .values(let rows, _)? = outline.source, rows.count == 1 { return false }
        guard let views else { return true }
        return ([outline] + views).contains { text in
            text.functionCalls.contains { ["changes", "total_changes", "last_insert_rowid"].contains($0.name) }
        }
    }

    func dependsOnEarlierRows(_ outline: StatementOutline, _ target: ObjectName, _ route: Route) -> Bool {
        asksForEarlierRows(outline, route.views) || readsWhatKeysChange(outline, target)
    }

    /// Whether the actions of enforced foreign keys may change, as an INSERT writes a row, what a later row of the INSERT reads. If the
    /// table has a trigger, SQLite computes all rows first.
    func readsWhatKeysChange(_ outline: StatementOutline, _ target: ObjectName) -> Bool {
        guard enforcesForeignKeys, outline.returning == nil, !outline.insertsOneRow,
            !outline.upsert.isEmpty || outline.mentions(["replace"]) || overlay.keyActions.definitionsReplace
        else { return false }
        let tied = overlay.foreignKeys.groups.first { $0.contains(lower(target.name)) } ?? []
        return outline.tableReferences.contains { $0.context != .target && tied.contains(lower($0.name.name)) }
    }

    /// Turns one row of VALUES into a SELECT. If the table has a trigger, SQLite evaluates the expressions of VALUES once for the
    /// trigger and once for the row, and a function may give two values.
    ///
    /// - Returns: `false` if that is not possible because a value calls an aggregate: a SELECT accepts aggregates, and VALUES
    ///   does not.
    func evaluateOnce(_ outline: StatementOutline, _ text: String, _ edits: inout SQLEdits) -> Bool {
        guard case .values(let rows, let range)? = outline.source, rows.count == 1, let first = rows[0].first,
            let last = rows[0].last
        else { return true }
        if AggregateCalls.areIn(outline, text) { return false }
        edits.replace(range.lowerBound..<first.lowerBound, with: "SELECT (")
        // Within parentheses, no value can have an alias.
        for (value, next) in zip(rows[0], rows[0].dropFirst()) {
            edits.replace(value.upperBound..<next.lowerBound, with: "), (")
        }
        edits.replace(last.upperBound..<range.upperBound, with: ") WHERE 1 ")
        return true
    }
}
