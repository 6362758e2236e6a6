internal import SQLText
internal import SQLiteConnection

// Statements that change the schema.
extension Router {
    /// Whether a change of the schema names what only an attached source has, so that SQLite would change that.
    func isStray(_ outline: StatementOutline) throws -> Bool {
        switch outline.kind {
        case .dropTable, .dropIndex, .dropView, .dropTrigger, .alterTable, .reindex, .analyze:
            guard let target = outline.target, target.schema == nil else { return false }
            return try overlay.strayTable(among: [target.name]) != nil
        default: return false
        }
    }

    /// A change of the definition of a moving table, or of what mentions one.
    func changeDefinition(_ outline: StatementOutline, _ text: String, _ route: Route) throws -> Route {
        if let noOperation = try existing(outline, text, route) { return noOperation }
        var route = route
        let named = [outline.target, outline.onTable].compactMap { $0 }.compactMap(movingTable).map(\.id)
        route.drain(Set(named), .schemaChange)
        if outline.kind == .createTrigger { return trigger(outline, text, route) }
        if outline.kind == .createTable, named.isEmpty { return try read(outline, text, route) }
        return route
    }

    /// CREATE TRIGGER, on a moving table or on a view of one, or with a program that mentions either.
    private func trigger(_ outline: StatementOutline, _ text: String, _ route: Route) -> Route {
        var route = route
        if overlay.connection.isInTransaction {
            // The transaction may go on with a statement that fires it.
            route.drain(overlay.tablesTouched(by: outline), .schemaChange)
        }
        guard let view = outline.onTable, let target = outline.target, isTwin(view) else { return route }
        overlay.watch.triggers.noteOwner(view.name)
        // It would be the twin's, and go with it.
        if isTemporary(outline) { return route.draining(allTables, .schemaChange) }
        guard target.schema == nil else { return route }
        return inMain(target, route, outline, text)
    }

    /// The name that an EXPLAIN of a change of the schema must have with its schema: SQLite makes no triggers and indexes
    /// on virtual tables, and alters none.
    func unlikeVirtual(_ outline: StatementOutline) -> ObjectName? {
        guard let table = outline.onTable ?? outline.target, movingTable(table) != nil else { return nil }
        return switch outline.explained {
        case .createTrigger: table
        case .createIndex, .alterTable: outline.target
        default: nil
        }
    }

    /// The route of a statement that brings one of these names into `temp`. The moving tables that the name hides are
    /// drained first.
    ///
    /// - Returns: `nil` if no moving table is hidden.
    func hiding(_ names: [String], _ route: Route) -> Route? {
        let hidden = overlay.tablesHidden(by: names)
        return hidden.isEmpty ? nil : route.draining(hidden, .temporaryTable)
    }

    // MARK: What is dropped

    /// DROP of a table or view of the overlay's own in `temp`, of which the application knows none.
    ///
    /// - Returns: `nil` if something else is dropped.
    func dropOfOverlay(_ outline: StatementOutline, _ text: String, _ route: Route) throws -> Route? {
        guard outline.kind == .dropTable || outline.kind == .dropView, let target = outline.target,
            try isUnionTable(target) || isTwinInTemp(target)
        else { return nil }
        guard outline.isConditional else {
            let kind = outline.kind == .dropTable ? "table" : "view"
            throw SQLiteError(code: .error, message: "no such \(kind): \(outline.text(target.range))")
        }
        return edited(route, outline, text) {
            $0.replace(target.nameRange, withWord: "midstream_none", of: outline)
        }
    }

    /// Whether the name is that of the overlay's own table in `temp`.
    private func isUnionTable(_ name: ObjectName) throws -> Bool {
        guard let schema = name.schema, SQLIdentifier.equal(schema, "temp"),
            let table = overlay.byName[lower(name.name)]
        else { return false }
        return !overlay.hiddenByTemporaryTables.contains(table.id)
    }

    /// Whether the name is that of a view's twin, with the schema.
    private func isTwinInTemp(_ name: ObjectName) -> Bool {
        guard let schema = name.schema, SQLIdentifier.equal(schema, "temp") else { return false }
        return overlay.twins.contains { SQLIdentifier.equal($0, name.name) }
    }

    /// Has a view's twin go with the view, if the statement drops a view.
    func dropsView(_ outline: StatementOutline, _ route: Route) -> Route {
        var route = route
        if outline.kind == .dropView, let target = outline.target { route.droppedView = target.name }
        return route
    }

    /// DROP INDEX, on a moving table or another one.
    func dropIndex(_ outline: StatementOutline, _ route: Route) -> Route {
        // The triggers that keep a key unique across the two files are made for the keys that there were. Where they are not,
        // rows that have yet to move may be what the index is dropped for.
        guard let name = outline.target?.name, let table = tableOfIndex(name), table.isUnique, !table.hasOtherKeys
        else {
            return route
        }
        return route.draining([table.id], .schemaChange)
    }

    // MARK: What is there already

    /// CREATE … IF NOT EXISTS of what exists does nothing, and so needs nothing drained. Applications run it at each
    /// launch.
    func existing(_ outline: StatementOutline, _ text: String, _ route: Route) throws -> Route? {
        guard outline.isConditional, !isTemporary(outline), let target = outline.target else { return nil }
        switch outline.kind {
        case .createTable:
            return movingTable(target) == nil ? nil : route
        case .createIndex:
            guard let table = outline.onTable.flatMap(movingTable), tableOfIndex(target.name)?.id == table.id else {
                return nil
            }
            // With its schema named, SQLite looks for the index before it looks at the table.
            guard target.schema == nil else { return route }
            return inMain(target, route, outline, text)
        case .createTrigger:
            let sql = "SELECT 1 FROM main.sqlite_master WHERE type = 'trigger' AND name = ? COLLATE NOCASE"
            guard target.schema.map({ SQLIdentifier.equal($0, "main") }) ?? true,
                try overlay.connection.fetchOne(sql, [target.name]) != nil
            else { return nil }
            return target.schema == nil ? inMain(target, route, outline, text) : route
        default: return nil
        }
    }

    /// The moving table that has an index of that name, whether the index is unique, and whether the table has keys that triggers do
    /// not tell of.
    private func tableOfIndex(_ name: String) -> (id: Int64, isUnique: Bool, hasOtherKeys: Bool)? {
        for table in overlay.byName.values {
            for index in table.target.indexes where SQLIdentifier.equal(index.name, name) {
                return (table.id, index.isUnique, table.feeds.contains(where: \.hasOtherKeys))
            }
        }
        return nil
    }
}
