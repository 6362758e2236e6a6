internal import SQLText
internal import SQLiteConnection

// Statements that change the schema.
extension Router {
    /// Whether a change of the schema names an object that only an attached source has. SQLite would change the
    /// source's object.
    func isStray(_ outline: StatementOutline) throws -> Bool {
        switch outline.kind {
        case .dropTable, .dropIndex, .dropView, .dropTrigger, .alterTable, .reindex, .analyze:
            guard let target = outline.target, target.schema == nil else { return false }
            return try overlay.strayTable(among: [target.name]) != nil
        default: return false
        }
    }

    /// The route of a change to the definition of a moving table, or of an object that mentions one.
    func changeDefinition(_ outline: StatementOutline, _ text: String, _ route: Route) throws -> Route {
        if let noOperation = try existing(outline, text, route) { return noOperation }
        var route = route
        let named = [outline.target, outline.onTable].compactMap { $0 }.compactMap(movingTable).map(\.id)
        route.drain(Set(named), .schemaChange)
        if outline.kind == .createTrigger { return trigger(outline, text, route) }
        if outline.kind == .createTable, named.isEmpty { return try read(outline, text, route) }
        return route
    }

    /// The route of a CREATE TRIGGER on a moving table or on a view of one, or with a program that mentions either.
    private func trigger(_ outline: StatementOutline, _ text: String, _ route: Route) -> Route {
        var route = route
        if overlay.connection.isInTransaction {
            // A later statement of the transaction may fire the trigger.
            route.drain(overlay.tablesTouched(by: outline), .schemaChange)
        }
        guard let view = outline.onTable, let target = outline.target, isTwin(view) else { return route }
        overlay.watch.triggers.noteOwner(view.name)
        // SQLite would bind the trigger to the view's twin, and drop it with the twin.
        if isTemporary(outline) { return route.draining(allTables, .schemaChange) }
        guard target.schema == nil else { return route }
        return inMain(target, route, outline, text)
    }

    /// The name that must get its schema in an EXPLAIN of a change of the schema. Without the schema, the name means
    /// the union table, and SQLite makes no triggers and indexes on virtual tables, and alters none.
    func unlikeVirtual(_ outline: StatementOutline) -> ObjectName? {
        guard let table = outline.onTable ?? outline.target, movingTable(table) != nil else { return nil }
        return switch outline.explained {
        case .createTrigger: table
        case .createIndex, .alterTable: outline.target
        default: nil
        }
    }

    /// The route of a statement that puts an object with one of these names into `temp`. The moving tables that such an
    /// object hides are drained first.
    ///
    /// - Returns: `nil` if no moving table is hidden.
    func hiding(_ names: [String], _ route: Route) -> Route? {
        let hidden = overlay.tablesHidden(by: names)
        return hidden.isEmpty ? nil : route.draining(hidden, .temporaryTable)
    }

    // MARK: What is dropped

    /// The route of a DROP of the overlay's own table or view in `temp`. To the application, such an object does not
    /// exist.
    ///
    /// - Returns: `nil` if the statement drops something else.
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

    /// Whether the name has the schema `temp`, and is that of a view's twin.
    private func isTwinInTemp(_ name: ObjectName) -> Bool {
        guard let schema = name.schema, SQLIdentifier.equal(schema, "temp") else { return false }
        return overlay.twins.contains { SQLIdentifier.equal($0, name.name) }
    }

    /// If the statement drops a view, the route drops the view's twin as well.
    func dropsView(_ outline: StatementOutline, _ route: Route) -> Route {
        var route = route
        if outline.kind == .dropView, let target = outline.target { route.droppedView = target.name }
        return route
    }

    /// The route of a DROP INDEX, on a moving table or another one.
    func dropIndex(_ outline: StatementOutline, _ route: Route) -> Route {
        // The guard triggers keep a key unique across the two files. They were made for the keys that the table had then, so
        // the table is drained before such a key is dropped. If the table has other keys, it is not drained: the index may
        // be dropped for the sake of rows that have yet to move.
        guard let name = outline.target?.name, let table = tableOfIndex(name), table.isUnique, !table.hasOtherKeys
        else {
            return route
        }
        return route.draining([table.id], .schemaChange)
    }

    // MARK: What is there already

    /// CREATE … IF NOT EXISTS of an object that exists does nothing, and so no table is drained for it. Applications
    /// run such statements at each launch.
    func existing(_ outline: StatementOutline, _ text: String, _ route: Route) throws -> Route? {
        guard outline.isConditional, !isTemporary(outline), let target = outline.target else { return nil }
        switch outline.kind {
        case .createTable:
            return movingTable(target) == nil ? nil : route
        case .createIndex:
            guard let table = outline.onTable.flatMap(movingTable), tableOfIndex(target.name)?.id == table.id else {
                return nil
            }
            // If the index's schema is named, SQLite looks for the index before it looks at the table.
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

    /// The moving table that has an index of that name, whether the index is unique, and whether the table has keys
    /// that the guard triggers do not pass on.
    private func tableOfIndex(_ name: String) -> (id: Int64, isUnique: Bool, hasOtherKeys: Bool)? {
        for table in overlay.byName.values {
            for index in table.target.indexes where SQLIdentifier.equal(index.name, name) {
                return (table.id, index.isUnique, table.feeds.contains(where: \.hasOtherKeys))
            }
        }
        return nil
    }
}
