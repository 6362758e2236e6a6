internal import SQLText
internal import SQLiteConnection

/// Decides how a statement runs while tables move: redirects the target of writes to `main`, and says what must be
/// promoted or drained first. Leaves reads as they are, except where they name a moving table with its schema.
///
/// Every byte that need not change stays.
struct Router {
    let overlay: Overlay
    /// Whether the connection enforces foreign keys.
    let enforcesForeignKeys: Bool
    /// Whether nothing can be done before the statement, so that the statement must promote by itself the rows that it affects. Such a
    /// statement names no view.
    var isAlone = false

    /// - Throws: `SQLiteError` when a file cannot be read. SQLite may have rolled back the open transaction then.
    func route(_ outline: StatementOutline, in text: String) throws -> Route {
        var route = try way(outline, in: text)
        route.isolation = try isolation(outline, route)
        return route
    }

    private func isolation(_ outline: StatementOutline, _ route: Route) throws -> Route.Isolation {
        let readsUnion = !overlay.isEmpty && mentionsMovingTable(outline)
        switch outline.kind {
        case .select, .explain: return .snapshot(isHeld: readsUnion)
        case .insert, .update, .delete:
            // The pragma that switches CHECK constraints off for this statement makes SQLite prepare the statement
            // again.
            if route.ignoresChecks { return .transaction }
            if case .none = route.preparation {} else { return .transaction }
            let isOutside = try readsUnion && route.redirected == nil && outline.target.map(isOutsideMain) ?? false
            return isOutside ? .snapshot(isHeld: true) : .unlessPreparedAnew
        case .createTable, .createView, .createVirtualTable, .createIndex, .createTrigger, .dropTable, .dropIndex,
            .dropView, .dropTrigger, .alterTable, .analyze, .reindex:
            let names = [outline.target, outline.onTable].compactMap { $0 }
            if try isTemporary(outline) || names.contains(where: isOutsideMain) {
                // A table can be made of a query's rows: CREATE TABLE … AS.
                return outline.kind == .createTable ? .snapshot(isHeld: readsUnion) : .none
            }
            // Taking objects out of the overlay makes SQLite prepare the statement again.
            let changesOverlay =
                outline.kind == .alterTable || outline.kind == .dropView && names.contains(where: isTwin)
            return !overlay.isEmpty && changesOverlay ? .transaction : .unlessPreparedAnew
        case .pragma:
            let name = outline.target.map { lower($0.name) } ?? ""
            return Self.pragmasThatReadRows.contains(name) ? .snapshot(isHeld: false) : .none
        default: return .none
        }
    }

    private static let definitions: Set<StatementKind> = [
        .createTable, .createVirtualTable, .createView, .createTrigger, .dropTable, .dropView, .dropTrigger,
        .alterTable,
    ]

    private static let pragmasOfTheConnection: Set = [
        "defer_foreign_keys", "foreign_keys", "ignore_check_constraints", "recursive_triggers",
        "reverse_unordered_selects",
    ]
    private static let pragmasThatReadRows: Set = ["foreign_key_check", "integrity_check", "quick_check"]

    /// Whether a name means an object of `temp`, or of a file that the application has attached.
    private func isOutsideMain(_ name: ObjectName) throws -> Bool {
        if let schema = name.schema, !SQLIdentifier.equal(schema, "main") { return true }
        return try isTemporary(name)
    }

    private func way(_ outline: StatementOutline, in text: String) throws -> Route {
        var route = try asItIs(outline)
        guard !overlay.isEmpty || overlay.hasSources else { return route }
        route.rollbacks = RollbackClauses(outline, on: outline.target.flatMap { overlay.table(named: $0.name) })
        route.add(views: try views(namedBy: outline))
        if let target = outline.target, try isStray(outline) {
            return inMain(target, route, outline, text)
        }
        if let missed = try dropOfOverlay(outline, text, route) { return missed }
        if let wayOfKind = try wayOfKind(outline, text, &route) { return wayOfKind }
        route.suspendsOverlay = outline.kind == .alterTable
        let functions = DescribingFunctions(outline, in: text)
        if let (tables, reason) = unreachable(outline, route, functions) { return route.draining(tables, reason) }
        guard mentionsMovingTable(outline) || !functions.isEmpty || overlay.watch.contents.hasCopies else {
            if route.isEvaluatedOnce { return edited(route, outline, text) { _ = evaluateOnce(outline, text, &$0) } }
            return dropsView(outline, route)
        }
        return try wayToMovingTables(outline, text, route)
    }

    /// The route of a statement that runs as it is, with the traits that matter whether or not tables move.
    private func asItIs(_ outline: StatementOutline) throws -> Route {
        let sql = outline.text(outline.range)
        var route = Route(role: Self.role(of: outline), sql: sql)
        route.isPlainDelete = outline.kind == .delete && outline.returning == nil
        route.traits.add(outline)
        // A trigger's program may ask for `changes()` through a view.
        if outline.kind == .createTrigger || outline.kind == .createView, outline.mentions(["changes"]) {
            overlay.watch.triggers.asksForChanges = true
        }
        if outline.kind == .createTrigger || outline.kind == .createTable { overlay.keyActions.noteDefinition(outline) }
        if outline.kind == .pragma, let target = outline.target {
            route.mayDeferForeignKeys = lower(target.name) == "defer_foreign_keys"
            route.touchesNoFile = Self.pragmasOfTheConnection.contains(lower(target.name))
        }
        if outline.kind == .dropTable || outline.kind == .alterTable, let target = outline.target,
            try !isTemporary(target)
        {
            route.changedTable = target
        }
        if outline.kind == .vacuum, !isInto(outline) { route.vacuumed = outline.target?.name ?? "main" }
        route.changesAttachedFiles = outline.kind == .attach || outline.kind == .detach
        route.changesNames = route.changesAttachedFiles || Self.definitions.contains(outline.kind)
        return route
    }

    /// Sees to what a statement needs because of its kind, whichever moving tables it mentions.
    ///
    /// - Returns: The route of the statement, if the router need not look at anything else.
    private func wayOfKind(_ outline: StatementOutline, _ text: String, _ route: inout Route) throws -> Route? {
        switch outline.kind {
        // DROP TABLE deletes the rows first.
        case .insert, .update, .delete, .dropTable: return try wayOfKeys(outline, text, &route)
        case .vacuum: return route.draining(allTables, .vacuum)
        case .pragma:
            return try pragma(outline, text, route)
        case .dropIndex: return dropIndex(outline, route)
        case .createTable, .createView, .createVirtualTable:
            guard let target = outline.target, isTemporary(outline) else { return nil }
            return hiding([target.name], route)
        case .alterTable:
            guard let target = outline.target, try isTemporary(target) else { return nil }
            // ALTER TABLE … RENAME may give the TEMP table one of these names.
            let names = overlay.byName.keys + overlay.twins.map(lower)
            return hiding(names.filter { outline.mentions([$0]) }, route)
        case .createTrigger:
            if let noOperation = try existing(outline, text, route) { return noOperation }
            // SQLite reports a TEMP trigger and a trigger of `main` by the same name, and does not tell them apart.
            if isTemporary(outline), let name = outline.target?.name { overlay.watch.triggers.noteNamesake(of: name) }
            // Rows that are still to come would fire the new trigger, by themselves or by what their own triggers
            // change.
            route.drain(Set(overlay.byName.values.filter(\.firesTriggers).map(\.id)), .schemaChange)
        case .analyze where outline.target == nil:
            // Without a name, ANALYZE would go through the attached sources as well.
            return edited(route, outline, text) { $0.insert(" main", at: outline.range.upperBound) }
        case .reindex:
            if let target = outline.target, try target.schema != nil || isInTarget(target.name) { return nil }
            // Without a schema, REINDEX would go through the attached sources as well.
            route.substitutes = try overlay.tablesToReindex()
        default: break
        }
        return nil
    }

    /// Sees to what a write needs because of the foreign keys that tie its table to moving ones.
    ///
    /// - Returns: The route of the statement, if the tied tables must be drained.
    private func wayOfKeys(_ outline: StatementOutline, _ text: String, _ route: inout Route) throws -> Route? {
        let tied = enforcesForeignKeys ? outline.target.map { overlay.tablesTied(to: $0.name) } ?? [] : []
        route.mayReplace = outline.mentions(["replace"])
        // What runs alone checks the schema as it begins.
        route.mayActByKeys = try enforcesForeignKeys && outline.isComplete && (isAlone || overlay.isOfSchema())
        guard !tied.isEmpty, let target = outline.target, try !isOutsideMain(target) else { return nil }
        try checkWritable()
        guard outline.kind != .dropTable, route.mayActByKeys, overlay.keyActions.handles(target.name) else {
            return route.draining(tied, .foreignKey)
        }
        if let table = overlay.keyActions.table(target.name) {
            route.isCheckedFirst = isCheckedFirst(outline, table)
            route.mayCheckLater = ConstraintWords(table.sql).hasDeferred
        }
        guard outline.kind == .insert, movingTable(target) == nil else { return nil }
        // With the TEMP triggers for foreign keys, SQLite evaluates such an INSERT differently.
        if dependsOnEarlierRows(outline, target, route) { return route.draining(tied, .earlierRows) }
        let isVolatile = route.views.map { VolatileTerms(outline: outline, views: $0).isFound } ?? true
        var edits = SQLEdits()
        if isVolatile, !evaluateOnce(outline, text, &edits) { return route.draining(tied, .chosenRows) }
        route.isEvaluatedOnce = isVolatile
        return nil
    }

    /// The moving tables that a statement reaches past the overlay, by functions, views or virtual tables, and the reason to
    /// drain them.
    private func unreachable(
        _ outline: StatementOutline,
        _ route: Route,
        _ functions: DescribingFunctions
    ) -> (tables: Set<Int64>, reason: MigrationStatistics.Reason)? {
        if checksForeignKeys(outline) || route.views?.contains(where: checksForeignKeys) ?? false {
            return (allTables, .foreignKeyCheck)
        }
        if !functions.canBeEdited || route.views?.contains(where: describesOtherTables) ?? false {
            return (allTables, .tableDescription)
        }
        if Self.role(of: outline) != .other, let views = route.views, overlay.isPassed(by: views) {
            return (allTables, .program)
        }
        let contents = overlay.watch.contents.tables(neededBy: outline, views: route.views)
        if contents.isDisjoint(with: overlay.byName.values.lazy.map(\.id)) { return nil }
        return (contents.intersection(allTables), .program)
    }

    /// The route of a statement that mentions or describes moving tables.
    private func wayToMovingTables(_ outline: StatementOutline, _ text: String, _ route: Route) throws -> Route {
        switch outline.kind {
        case .insert, .update, .delete:
            if let target = outline.target, let table = movingTable(target) {
                return try write(outline, text, table, route)
            }
            // The view's triggers fire for the rows that the view has, and the view may read a moving table without
            // SQLite's reporting the read.
            if outline.kind != .insert, let target = outline.target, isTwin(target),
                overlay.watch.triggers.owners.contains(lower(target.name))
            {
                return route.draining(allTables, .program)
            }
            return try read(outline, text, route)
        case .alterTable, .dropTable, .createIndex, .createTrigger, .createTable, .createVirtualTable, .dropTrigger:
            return try changeDefinition(outline, text, route)
        case .analyze, .reindex:
            if let target = outline.target, target.schema == nil, movingTable(target) != nil {
                return edited(route, outline, text) {
                    $0.insertWord("main.", at: target.nameRange.lowerBound, of: outline)
                }
            }
            return route
        case .createView where isTemporary(outline) && outline.columns == nil:
            return try edited(route, outline, text) {
                try rowIDNames(outline).orderCompounds(&$0, in: text)
                rowIDNames(outline).nameColumns(&$0, in: text)
            }
        case .createView, .dropView: return dropsView(outline, route)
        case .explain:
            guard let name = unlikeVirtual(outline), name.schema == nil else { return try read(outline, text, route) }
            return inMain(name, route, outline, text)
        default: return try read(outline, text, route)
        }
    }

    var allTables: Set<Int64> { Set(overlay.byName.values.map(\.id)) }

    /// Whether native SQLite, without the engine's own triggers, checks the foreign keys of the statement's only row
    /// before it inserts the row.
    private func isCheckedFirst(_ outline: StatementOutline, _ table: TableSchema) -> Bool {
        guard outline.kind == .insert, outline.returning == nil,
            !outline.mentions(["replace"]), !ConstraintWords(table.sql).hasReplace,
            !overlay.watch.triggers.insertOwners.contains(lower(table.name)),
            outline.upsert.isEmpty || !outline.mentions(["set"])
        else { return false }
        return outline.insertsOneRow
    }

    // MARK: Views

    /// The views that a statement names, and the views that these name. A statement that begins or ends a transaction
    /// names none and reads nothing.
    private func views(namedBy outline: StatementOutline) throws -> [StatementOutline] {
        if isAlone { return [] }
        switch Self.role(of: outline) {
        case .begin, .savepoint, .end, .rollback: return []
        case .query, .write, .other: break
        }
        let names = outline.tableReferences.map(\.name) + [outline.target].compactMap { $0 }
        let isOfTables = outline.isComplete && names.allSatisfy { movingTable($0) != nil }
        return isOfTables ? [] : try overlay.viewsNamed(by: outline)
    }

    /// Whether a view uses functions that describe tables, and has no twin. Only a twin describes the tables of `main`.
    private func describesOtherTables(_ view: StatementOutline) -> Bool {
        guard DescribingFunctions.areUsed(in: view), let name = view.target?.name else { return false }
        return !overlay.twins.contains { SQLIdentifier.equal($0, name) }
    }

    private func checksForeignKeys(_ outline: StatementOutline) -> Bool {
        outline.tableReferences.contains { SQLIdentifier.equal($0.name.name, "pragma_foreign_key_check") }
    }

    // MARK: What is meant

    func lower(_ name: String) -> String { SQLIdentifier.lowercased(name) }

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

    func mentionsMovingTable(_ outline: StatementOutline) -> Bool {
        outline.mentions(overlay.names)
    }

    /// Whether a read of the name must see the overlay's table or view.
    func isOverlaid(_ name: ObjectName) -> Bool {
        movingTable(name) != nil || isTwin(name) || isCopied(name)
    }

    /// Whether the name is that of a full-text table that has a copy.
    private func isCopied(_ name: ObjectName) -> Bool {
        if let schema = name.schema, !SQLIdentifier.equal(schema, "main") { return false }
        return overlay.watch.contents.copies.contains(lower(name.name))
    }

    /// Whether the name is that of a view that has a twin.
    func isTwin(_ name: ObjectName) -> Bool {
        if let schema = name.schema, !SQLIdentifier.equal(schema, "main") { return false }
        return overlay.twins.contains { SQLIdentifier.equal($0, name.name) }
    }

    /// The moving table that the name means as the target of a write.
    func movingTable(_ name: ObjectName) -> MovingTable? {
        if let schema = name.schema, !SQLIdentifier.equal(schema, "main") { return nil }
        return overlay.byName[lower(name.name)]
    }

    /// Whether a VACUUM writes another file, and leaves the database's file as it is.
    private func isInto(_ vacuum: StatementOutline) -> Bool {
        vacuum.mentions(["into"], from: vacuum.target?.nameRange.upperBound ?? vacuum.range.lowerBound)
    }

    /// Whether a CREATE makes its object in `temp`.
    func isTemporary(_ outline: StatementOutline) -> Bool {
        outline.isTemporary || outline.target?.schema.map { SQLIdentifier.equal($0, "temp") } ?? false
    }

    /// Whether a name means a table of the application in `temp`.
    func isTemporary(_ name: ObjectName) throws -> Bool {
        if let schema = name.schema { return SQLIdentifier.equal(schema, "temp") }
        let sql = "SELECT 1 FROM sqlite_temp_master WHERE type = 'table' AND name = ? COLLATE NOCASE"
        return try !isOverlaid(name) && overlay.connection.fetchOne(sql, [name.name]) != nil
    }

    func edited(
        _ route: Route,
        _ outline: StatementOutline,
        _ text: String,
        _ body: (inout SQLEdits) throws -> Void
    ) rethrows -> Route {
        var edits = SQLEdits()
        try body(&edits)
        var route = route
        if let sql = try? edits.extract(outline.range, from: text) { route.sql = sql }
        return route
    }

    /// The route of the statement with `main.` before the given name, so that SQLite looks the name up in `main` alone.
    func inMain(_ name: ObjectName, _ route: Route, _ outline: StatementOutline, _ text: String) -> Route {
        edited(route, outline, text) { $0.insertWord("main.", at: name.nameRange.lowerBound, of: outline) }
    }
}
