internal import SQLText
internal import SQLiteConnection

/// Decides how a statement runs while tables move: redirects the target of writes to `main`, and says what must be
/// promoted or drained first. Reads are left as they are, but for a moving table's name spelt with its schema.
///
/// Every byte that need not change stays.
struct Router {
    let overlay: Overlay
    /// Whether the connection enforces foreign keys.
    let enforcesForeignKeys: Bool

    func route(_ outline: StatementOutline, in text: String) -> Route {
        let sql = outline.text(outline.range)
        var route = Route(role: Self.role(of: outline), sql: sql)
        route.isPlainDelete = outline.kind == .delete && outline.returning == nil
        route.traits = overlay.traitsOfTwins
        route.traits.add(outline)
        if let target = outline.target, isOnlyInSource(target, outline) {
            return edited(route, outline, text) { $0.insert("main.", at: target.nameRange.lowerBound) }
        }
        guard !overlay.isEmpty else { return route }
        switch outline.kind {
        case .insert, .update, .delete:
            if enforcesForeignKeys, let target = outline.target, let tied = overlay.tiedByForeignKey[lower(target.name)]
            {
                route.drained = tied
                return route
            }
        case .vacuum:
            route.drained = Set(overlay.byName.values.map(\.id))
            return route
        case .pragma:
            return pragma(outline, text, route)
        case .dropIndex:
            // The triggers that keep a key unique across the two files are made for the keys that there were.
            if let name = outline.target?.name, let table = tableOfIndex(name), table.unique {
                route.drained = [table.id]
            }
            return route
        case .analyze where outline.target == nil:
            // Not of the sources, which are attached.
            return edited(route, outline, text) { $0.insert(" main", at: outline.range.upperBound) }
        default: break
        }
        route.suspendsOverlay = outline.kind == .alterTable
        guard mentionsMovingTable(outline) else { return dropsView(outline, route) }
        switch outline.kind {
        case .insert, .update, .delete:
            if let target = outline.target, let table = movingTable(target) {
                return write(outline, text, table, route)
            }
            return read(outline, text, route)
        case .alterTable, .dropTable, .createIndex, .createTrigger, .createTable, .createVirtualTable, .reindex,
            .dropTrigger:
            if let noOperation = existing(outline, text, route) { return noOperation }
            let named = [outline.target, outline.onTable].compactMap { $0 }.compactMap(movingTable).map(\.id)
            route.drained = Set(named)
            if outline.kind == .createTrigger, overlay.connection.isInTransaction {
                // The transaction may go on with a statement that fires it.
                route.drained.formUnion(overlay.tablesReadUnseen(by: outline))
            }
            if outline.kind == .createTable, named.isEmpty { return read(outline, text, route) }
            return route
        case .analyze:
            if let target = outline.target, target.schema == nil, movingTable(target) != nil {
                return edited(route, outline, text) { $0.insert("main.", at: target.nameRange.lowerBound) }
            }
            return route
        case .createView, .dropView: return dropsView(outline, route)
        default: return read(outline, text, route)
        }
    }

    /// Whether the statement changes something that only an attached source has, and SQLite would look for it there.
    private func isOnlyInSource(_ target: ObjectName, _ outline: StatementOutline) -> Bool {
        switch outline.kind {
        case .dropTable, .dropIndex, .dropView, .dropTrigger, .alterTable, .analyze:
            target.schema == nil && (try? overlay.strayTable(among: [target.name])) != nil
        default: false
        }
    }

    // MARK: What is there already

    /// CREATE … IF NOT EXISTS of what exists does nothing, and so needs nothing drained. Applications run it at each
    /// launch.
    private func existing(_ outline: StatementOutline, _ text: String, _ route: Route) -> Route? {
        guard outline.isConditional, !outline.isTemporary, let target = outline.target else { return nil }
        switch outline.kind {
        case .createTable:
            return movingTable(target) == nil ? nil : route
        case .createIndex:
            guard let table = outline.onTable.flatMap(movingTable), tableOfIndex(target.name)?.id == table.id else {
                return nil
            }
            // With its schema named, SQLite looks for the index before it looks at the table.
            guard target.schema == nil else { return route }
            return edited(route, outline, text) { $0.insert("main.", at: target.nameRange.lowerBound) }
        default: return nil
        }
    }

    /// The moving table that has an index of that name, and whether the index is unique.
    private func tableOfIndex(_ name: String) -> (id: Int64, unique: Bool)? {
        for table in overlay.byName.values {
            for index in table.target.indexes where SQLIdentifier.equal(index.name, name) {
                return (table.id, index.isUnique)
            }
        }
        return nil
    }

    // MARK: What is meant

    private func lower(_ name: String) -> String { SQLIdentifier.lowercased(name) }

    static func role(of outline: StatementOutline) -> Route.Role {
        switch outline.kind {
        case .select, .explain: .query
        case .insert, .update, .delete: .write
        case .begin: .begin
        case .savepoint: .savepoint
        case .commit, .release: .end
        case .rollback, .rollbackTo: .rollback
        default: .other
        }
    }

    private func mentionsMovingTable(_ outline: StatementOutline) -> Bool {
        outline.mentions(Set(overlay.byName.keys).union(overlay.twins.map(lower)))
    }

    /// Whether a read of the name is to see the overlay's table or view.
    private func isOverlaid(_ name: ObjectName) -> Bool {
        if movingTable(name) != nil { return true }
        if let schema = name.schema, !SQLIdentifier.equal(schema, "main") { return false }
        return overlay.twins.contains { SQLIdentifier.equal($0, name.name) }
    }

    /// The moving table that the name means as the target of a write.
    private func movingTable(_ name: ObjectName) -> MovingTable? {
        if let schema = name.schema, !SQLIdentifier.equal(schema, "main") { return nil }
        return overlay.byName[lower(name.name)]
    }

    private func dropsView(_ outline: StatementOutline, _ route: Route) -> Route {
        var route = route
        if outline.kind == .dropView, let target = outline.target { route.droppedView = target.name }
        return route
    }

    private func edited(
        _ route: Route,
        _ outline: StatementOutline,
        _ text: String,
        _ body: (inout SQLEdits) -> Void
    ) -> Route {
        var edits = SQLEdits()
        body(&edits)
        var route = route
        if let sql = try? edits.extract(outline.range, from: text) { route.sql = sql }
        return route
    }

    // MARK: Reads

    private func read(_ outline: StatementOutline, _ text: String, _ route: Route) -> Route {
        if let count = WholeCount(outline), let table = movingTable(count.table) {
            var route = route
            route.sql = table.sql.wholeCount(named: count.resultName)
            route.redirected = table.id
            return route
        }
        var route = edited(route, outline, text) {
            redirectReads(outline, &$0)
            RowIDNames(outline: outline) { reference in
                outline.isHiddenByCommonTable(reference) ? nil : movingTable(reference.name)
            }
            .apply(to: &$0, in: text)
        }
        // A view is a query of its own.
        let namesView = outline.tableReferences.contains { movingTable($0.name) == nil }
        let isOneTable = !namesView && outline.tableReferences.count == 1 && outline.scopes.count <= 2
        route.traits.isSimple =
            outline.kind == .select && isOneTable && !outline.functionCalls.contains { $0.name == "cast" }
            && !mayCompareColumns(outline)
        return route
    }

    /// Whether a condition may compare one column with another: after `a = 1`, SQLite gives `b > a` as `b > 1`, and yet
    /// compares with the affinity of `a`.
    private func mayCompareColumns(_ outline: StatementOutline) -> Bool {
        outline.whereClause.map { outline.repeatsName(in: $0) } ?? false
    }

    /// Has reads that spell `main.T` read the union table, and leaves out an index that it does not have.
    private func redirectReads(_ outline: StatementOutline, _ edits: inout SQLEdits) {
        for reference in outline.tableReferences where reference.context != .target {
            guard isOverlaid(reference.name) else { continue }
            if let schema = reference.name.schemaRange {
                edits.replace(schema, with: "temp")
            } else if outline.isHiddenByCommonTable(reference) {
                continue
            }
            if let index = reference.indexedBy { edits.remove(index) }
        }
        for column in outline.qualifiedReferences where SQLIdentifier.equal(column.schema, "main") {
            guard let reference = outline.source(of: column), reference.context == .from, isOverlaid(reference.name)
            else { continue }
            edits.replace(column.schemaRange, with: "temp")
        }
    }

    // MARK: Writes

    private func write(_ outline: StatementOutline, _ text: String, _ table: MovingTable, _ route: Route) -> Route {
        var drained = route
        drained.drained = [table.id]
        guard outline.isComplete, let target = outline.target else { return drained }
        // With ORDER BY or LIMIT, SQLite takes the target for a common table of its name.
        if outline.kind != .insert, outline.isHiddenByCommonTable(target.name, scope: 0) { return drained }
        if returningReadsOverlay(outline), ReturningQueries.areEvaluatedForEachRow { return drained }
        var route = route
        route.redirected = table.id
        var edits = SQLEdits()
        if target.schema == nil { edits.insert("main.", at: target.nameRange.lowerBound) }
        redirectReads(outline, &edits)
        if outline.kind == .insert {
            if asksForEarlierRows(outline) { return drained }
            evaluateOnce(outline, text, &edits)
        } else {
            let promotion = Promotion(outline: outline, text: text, table: table)
            let isVolatile = VolatileTerms(outline: outline, text: text).isFound
            let isChosen = isVolatile || outline.orderBy != nil || outline.limit != nil
            // Which rows of FROM meet a row is evaluated again by the statement.
            if isChosen, outline.from != nil { return drained }
            let relation = isChosen ? table.name : Overlay.pendingName(table.id)
            guard let keys = promotion.keys(from: relation, redirect: { redirectReads(outline, &$0) }) else {
                return drained
            }
            if isChosen { promotion.restrict(&edits, toKeysIn: KeyCollection.table) }
            route.preparation = isChosen ? .collect(table: table.id, keys: keys) : .promote(table: table.id, keys: keys)
        }
        guard let sql = try? edits.extract(outline.range, from: text) else { return drained }
        route.sql = sql
        return route
    }

    /// Whether a subquery of RETURNING reads what may be the table that is written.
    private func returningReadsOverlay(_ outline: StatementOutline) -> Bool {
        guard let returning = outline.returning else { return false }
        return outline.tableReferences.contains { reference in
            returning.contains(reference.name.range.lowerBound) && isOverlaid(reference.name)
        }
    }

    /// Whether the values of an INSERT's later rows may tell of its earlier ones: with a trigger, SQLite computes all rows
    /// first.
    private func asksForEarlierRows(_ outline: StatementOutline) -> Bool {
        if case .values(let rows, _)? = outline.source, rows.count == 1 { return false }
        return outline.functionCalls.contains { ["changes", "total_changes", "last_insert_rowid"].contains($0.name) }
    }

    /// Turns one row of VALUES into a SELECT: with a trigger, SQLite evaluates the expressions of VALUES once for the
    /// trigger and once for the row, and a function may give two values.
    private func evaluateOnce(_ outline: StatementOutline, _ text: String, _ edits: inout SQLEdits) {
        guard case .values(let rows, let range)? = outline.source, rows.count == 1, let first = rows[0].first,
            let last = rows[0].last
        else { return }
        let bytes = Array(text.utf8)[first.lowerBound..<last.upperBound]
        guard bytes.contains(0x28) else { return }
        edits.replace(range.lowerBound..<first.lowerBound, with: "SELECT ")
        edits.replace(last.upperBound..<range.upperBound, with: " WHERE 1")
    }

    // MARK: Pragmas

    /// Pragmas that describe a table: of a moving one they are to describe `main`'s.
    private static let descriptions: Set<String> = [
        "table_info", "table_xinfo", "index_list", "foreign_key_list", "index_info", "index_xinfo",
    ]

    private func pragma(_ outline: StatementOutline, _ text: String, _ route: Route) -> Route {
        guard let target = outline.target else { return route }
        var route = route
        let name = lower(target.name)
        if Self.descriptions.contains(name), target.schema == nil, mentionsMovingTable(outline) {
            return edited(route, outline, text) { $0.insert("main.", at: target.nameRange.lowerBound) }
        }
        if name == "foreign_key_check" { route.drained = Set(overlay.byName.values.map(\.id)) }
        if ["temp_store", "temp_store_directory", "foreign_keys", "writable_schema"].contains(name) {
            route.unsettlesOverlay = true
        }
        return route
    }
}
