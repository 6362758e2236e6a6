internal import SQLText

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
        default: break
        }
        guard mentionsMovingTable(outline) else { return dropsView(outline, route) }
        switch outline.kind {
        case .insert, .update, .delete:
            if let target = outline.target, let table = movingTable(target) {
                return write(outline, text, table, route)
            }
            return read(outline, text, route)
        case .alterTable, .dropTable, .createIndex, .createTrigger, .createTable, .createVirtualTable, .reindex,
            .dropIndex,
            .dropTrigger:
            let named = [outline.target, outline.onTable].compactMap { $0 }.compactMap(movingTable).map(\.id)
            route.drained = Set(named)
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
        outline.mentions(Set(overlay.byName.keys))
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
            redirectReads(outline, &$0, target: nil)
            RowIDNames(outline: outline) { reference in
                outline.isHiddenByCommonTable(reference) ? nil : movingTable(reference.name)
            }
            .apply(to: &$0, in: text)
        }
        let isOneTable = outline.tableReferences.count == 1 && outline.scopes.count <= 2
        route.isSimple = outline.kind == .select && isOneTable && !outline.functionCalls.contains { $0.name == "cast" }
        return route
    }

    /// Has reads that spell `main.T` read the union table, and leaves out an index that it does not have.
    ///
    /// - Parameter target: The moving table that the statement writes, which three-part names outside any FROM mean.
    private func redirectReads(_ outline: StatementOutline, _ edits: inout SQLEdits, target: MovingTable?) {
        for reference in outline.tableReferences where reference.context != .target {
            guard movingTable(reference.name) != nil else { continue }
            if let schema = reference.name.schemaRange {
                edits.replace(schema, with: "temp")
            } else if outline.isHiddenByCommonTable(reference) {
                continue
            }
            if let index = reference.indexedBy { edits.remove(index) }
        }
        for column in outline.qualifiedReferences where SQLIdentifier.equal(column.schema, "main") {
            guard let table = overlay.byName[lower(column.table)] else { continue }
            if target?.id == table.id, !isRead(table, from: column.scope, outline) { continue }
            edits.replace(column.schemaRange, with: "temp")
        }
    }

    /// Whether a FROM clause around the scope names the table without another name for it.
    private func isRead(_ table: MovingTable, from scope: Int, _ outline: StatementOutline) -> Bool {
        var scope: Int? = scope
        while let current = scope {
            for reference in outline.tableReferences where reference.scope == current && reference.context == .from {
                if reference.alias == nil, movingTable(reference.name)?.id == table.id { return true }
            }
            scope = outline.scopes[current].parent
        }
        return false
    }

    // MARK: Writes

    private func write(_ outline: StatementOutline, _ text: String, _ table: MovingTable, _ route: Route) -> Route {
        guard outline.isComplete, let target = outline.target else {
            var route = route
            route.drained = [table.id]
            return route
        }
        var route = route
        route.redirected = table.id
        var edits = SQLEdits()
        if target.schema == nil { edits.insert("main.", at: target.nameRange.lowerBound) }
        redirectReads(outline, &edits, target: table)
        if outline.kind == .insert {
            evaluateOnce(outline, text, &edits)
        } else {
            let promotion = Promotion(outline: outline, text: text, table: table)
            let isVolatile = VolatileTerms(outline: outline, text: text).isFound
            if isVolatile, outline.from != nil {
                route.drained = [table.id]
                route.redirected = nil
                return route
            }
            if isVolatile || outline.orderBy != nil || outline.limit != nil, outline.from == nil {
                guard let keys = promotion.keys(from: table.name, redirect: redirectReads(in: outline, table)),
                    promotion.restrict(&edits, toKeysIn: KeyCollection.table)
                else {
                    route.drained = [table.id]
                    route.redirected = nil
                    return route
                }
                route.preparation = .collect(table: table.id, keys: keys)
            } else {
                guard
                    let keys = promotion.keys(
                        from: Overlay.pendingName(table.id),
                        redirect: redirectReads(in: outline, table)
                    )
                else {
                    route.drained = [table.id]
                    route.redirected = nil
                    return route
                }
                route.preparation = .promote(table: table.id, keys: keys)
            }
        }
        guard let sql = try? edits.extract(outline.range, from: text) else {
            route.drained = [table.id]
            route.redirected = nil
            route.preparation = .none
            return route
        }
        route.sql = sql
        return route
    }

    private func redirectReads(in outline: StatementOutline, _ table: MovingTable) -> (inout SQLEdits) -> Void {
        { edits in redirectReads(outline, &edits, target: table) }
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
