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
            // What it needs first expires it.
            if route.ignoresChecks { return .transaction }
            if case .none = route.preparation {} else { return .transaction }
            let isOutside = try readsUnion && route.redirected == nil && outline.target.map(isOutsideMain) ?? false
            return isOutside ? .snapshot(isHeld: true) : .unlessPreparedAnew
        case .createTable, .createView, .createVirtualTable, .createIndex, .createTrigger, .dropTable, .dropIndex,
            .dropView, .dropTrigger, .alterTable, .analyze, .reindex:
            let names = [outline.target, outline.onTable].compactMap { $0 }
            if try isTemporary(outline) || names.contains(where: isOutsideMain) {
                // As a table is made of a query's rows.
                return outline.kind == .createTable ? .snapshot(isHeld: readsUnion) : .none
            }
            // What is taken out of the overlay has SQLite prepare the statement anew.
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

    /// Whether a name means something of `temp`, or of a file that the application has attached.
    private func isOutsideMain(_ name: ObjectName) throws -> Bool {
        if let schema = name.schema, !SQLIdentifier.equal(schema, "main") { return true }
        return try isTemporary(name)
    }

    private func way(_ outline: StatementOutline, in text: String) throws -> Route {
        let sql = outline.text(outline.range)
        var route = Route(role: Self.role(of: outline), sql: sql)
        route.isPlainDelete = outline.kind == .delete && outline.returning == nil
        route.traits.add(outline)
        // A trigger's program may ask by way of a view.
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
        guard !overlay.isEmpty || overlay.hasSources else { return route }
        route.rollbacks = RollbackClauses(outline, on: outline.target.flatMap { overlay.table(named: $0.name) })
        route.add(views: try views(namedBy: outline))
        if let target = outline.target, try isStray(outline) {
            return inMain(target, route, outline, text)
        }
        if outline.kind == .dropTable || outline.kind == .dropView, let target = outline.target,
            try isUnionTable(target) || isTwinInTemp(target)
        {
            // The application knows of none.
            guard outline.isConditional else {
                let kind = outline.kind == .dropTable ? "table" : "view"
                throw SQLiteError(code: .error, message: "no such \(kind): \(outline.text(target.range))")
            }
            return edited(route, outline, text) {
                $0.replace(target.nameRange, withWord: "midstream_none", of: outline)
            }
        }
        switch outline.kind {
        case .insert, .update, .delete, .dropTable:
            // DROP TABLE deletes the rows first.
            let tied = enforcesForeignKeys ? outline.target.map { overlay.tablesTied(to: $0.name) } ?? [] : []
            route.mayReplace = outline.mentions(["replace"])
            route.mayActByKeys = try enforcesForeignKeys && outline.isComplete && overlay.isOfSchema()
            if !tied.isEmpty, let target = outline.target, try !isOutsideMain(target) {
                try checkWritable()
                guard outline.kind != .dropTable, route.mayActByKeys, overlay.keyActions.handles(target.name) else {
                    return route.draining(tied, .foreignKey)
                }
                if let table = overlay.keyActions.table(target.name) {
                    route.isCheckedFirst = isCheckedFirst(outline, table)
                    route.mayCheckLater = ConstraintWords(table.sql).hasDeferred
                }
                if outline.kind == .insert, movingTable(target) == nil {
                    // The TEMP triggers have it evaluated differently.
                    if asksForEarlierRows(outline, route.views) { return route.draining(tied, .earlierRows) }
                    let isVolatile = route.views.map { VolatileTerms(outline: outline, views: $0).isFound } ?? true
                    var edits = SQLEdits()
                    if isVolatile, !evaluateOnce(outline, text, &edits) { return route.draining(tied, .chosenRows) }
                    route.isEvaluatedOnce = isVolatile
                }
            }
        case .vacuum: return route.draining(allTables, .vacuum)
        case .pragma:
            return try pragma(outline, text, route)
        case .dropIndex:
            // The triggers that keep a key unique across the two files are made for the keys that there were. Where they are not,
            // rows that have yet to move may be what the index is dropped for.
            if let name = outline.target?.name, let table = tableOfIndex(name), table.isUnique, !table.hasOtherKeys {
                route.drain([table.id], .schemaChange)
            }
            return route
        case .createTable, .createView, .createVirtualTable:
            guard let target = outline.target, isTemporary(outline) else { break }
            let hidden = overlay.tablesHidden(by: [target.name])
            if !hidden.isEmpty { return route.draining(hidden, .temporaryTable) }
        case .alterTable:
            guard let target = outline.target, try isTemporary(target) else { break }
            // It may get one of these names.
            let names = overlay.byName.keys + overlay.twins.map(lower)
            let hidden = overlay.tablesHidden(by: names.filter { outline.mentions([$0]) })
            if !hidden.isEmpty { return route.draining(hidden, .temporaryTable) }
        case .createTrigger:
            if let noOperation = try existing(outline, text, route) { return noOperation }
            // SQLite tells of the two by one name.
            if isTemporary(outline), let name = outline.target?.name { overlay.watch.triggers.noteNamesake(of: name) }
            // What has yet to come would fire it, or what it changes.
            route.drain(Set(overlay.byName.values.filter(\.firesTriggers).map(\.id)), .schemaChange)
        case .analyze where outline.target == nil:
            // Not of the sources, which are attached.
            return edited(route, outline, text) { $0.insert(" main", at: outline.range.upperBound) }
        case .reindex:
            if let target = outline.target, try target.schema != nil || isInTarget(target.name) { break }
            // Not the sources, which are attached.
            route.substitutes = try overlay.tablesToReindex()
        default: break
        }
        route.suspendsOverlay = outline.kind == .alterTable
        let functions = DescribingFunctions(outline, in: text)
        if checksForeignKeys(outline) || route.views?.contains(where: checksForeignKeys) ?? false {
            return route.draining(allTables, .foreignKeyCheck)
        }
        if !functions.canBeEdited || route.views?.contains(where: describesOtherTables) ?? false {
            return route.draining(allTables, .tableDescription)
        }
        if Self.role(of: outline) != .other, let views = route.views, overlay.isPassed(by: views) {
            return route.draining(allTables, .program)
        }
        let contents = overlay.watch.contents.tables(neededBy: outline, views: route.views)
        if !contents.isDisjoint(with: overlay.byName.values.lazy.map(\.id)) {
            return route.draining(contents.intersection(allTables), .program)
        }
        guard mentionsMovingTable(outline) || !functions.isEmpty || overlay.watch.contents.hasCopies else {
            if route.isEvaluatedOnce { return edited(route, outline, text) { _ = evaluateOnce(outline, text, &$0) } }
            return dropsView(outline, route)
        }
        switch outline.kind {
        case .insert, .update, .delete:
            if let target = outline.target, let table = movingTable(target) {
                return try write(outline, text, table, route)
            }
            // What fires the view's triggers are the rows that it has, and it may read a table without SQLite's telling.
            if outline.kind != .insert, let target = outline.target, isTwin(target),
                overlay.watch.triggers.owners.contains(lower(target.name))
            {
                return route.draining(allTables, .program)
            }
            return try read(outline, text, route)
        case .alterTable, .dropTable, .createIndex, .createTrigger, .createTable, .createVirtualTable, .dropTrigger:
            if let noOperation = try existing(outline, text, route) { return noOperation }
            let named = [outline.target, outline.onTable].compactMap { $0 }.compactMap(movingTable).map(\.id)
            route.drain(Set(named), .schemaChange)
            if outline.kind == .createTrigger { return trigger(outline, text, route) }
            if outline.kind == .createTable, named.isEmpty { return try read(outline, text, route) }
            return route
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

    private var allTables: Set<Int64> { Set(overlay.byName.values.map(\.id)) }

    /// Whether natively, without the triggers of the engine's own, SQLite checks the keys of the only row before it inserts that.
    private func isCheckedFirst(_ outline: StatementOutline, _ table: TableSchema) -> Bool {
        guard outline.kind == .insert, outline.returning == nil,
            !outline.mentions(["replace"]), !ConstraintWords(table.sql).hasReplace,
            !overlay.watch.triggers.insertOwners.contains(lower(table.name)),
            outline.upsert.isEmpty || !outline.mentions(["set"])
        else { return false }
        return switch outline.source {
        case .values(let rows, _)?: rows.count == 1
        case .defaultValues?: true
        default: false
        }
    }

    // MARK: Views

    /// The views that a statement names, and that these name. What begins or ends a transaction names none, and reads nothing.
    private func views(namedBy outline: StatementOutline) throws -> [StatementOutline] {
        switch Self.role(of: outline) {
        case .begin, .savepoint, .end, .rollback: return []
        case .query, .write, .other: break
        }
        let names = outline.tableReferences.map(\.name) + [outline.target].compactMap { $0 }
        let isOfTables = outline.isComplete && names.allSatisfy { movingTable($0) != nil }
        return isOfTables ? [] : try overlay.viewsNamed(by: outline)
    }

    /// Whether a view describes tables by functions, and has no twin that describes those of `main`.
    private func describesOtherTables(_ view: StatementOutline) -> Bool {
        guard DescribingFunctions.areUsed(in: view), let name = view.target?.name else { return false }
        return !overlay.twins.contains { SQLIdentifier.equal($0, name) }
    }

    private func checksForeignKeys(_ outline: StatementOutline) -> Bool {
        outline.tableReferences.contains { SQLIdentifier.equal($0.name.name, "pragma_foreign_key_check") }
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
    private func unlikeVirtual(_ outline: StatementOutline) -> ObjectName? {
        guard let table = outline.onTable ?? outline.target, movingTable(table) != nil else { return nil }
        return switch outline.explained {
        case .createTrigger: table
        case .createIndex, .alterTable: outline.target
        default: nil
        }
    }

    /// Whether a change of the schema names what only an attached source has, so that SQLite would change that.
    private func isStray(_ outline: StatementOutline) throws -> Bool {
        switch outline.kind {
        case .dropTable, .dropIndex, .dropView, .dropTrigger, .alterTable, .reindex, .analyze:
            guard let target = outline.target, target.schema == nil else { return false }
            return try overlay.strayTable(among: [target.name]) != nil
        default: return false
        }
    }

    // MARK: What is there already

    /// CREATE … IF NOT EXISTS of what exists does nothing, and so needs nothing drained. Applications run it at each
    /// launch.
    private func existing(_ outline: StatementOutline, _ text: String, _ route: Route) throws -> Route? {
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
        outline.mentions(overlay.names)
    }

    /// Whether a read of the name is to see the overlay's table or view.
    private func isOverlaid(_ name: ObjectName) -> Bool {
        movingTable(name) != nil || isTwin(name) || isCopied(name)
    }

    /// Whether the name is that of a full-text table which has a copy.
    private func isCopied(_ name: ObjectName) -> Bool {
        if let schema = name.schema, !SQLIdentifier.equal(schema, "main") { return false }
        return overlay.watch.contents.copies.contains(lower(name.name))
    }

    /// Whether the name is that of a view that has a twin.
    private func isTwin(_ name: ObjectName) -> Bool {
        if let schema = name.schema, !SQLIdentifier.equal(schema, "main") { return false }
        return overlay.twins.contains { SQLIdentifier.equal($0, name.name) }
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

    /// The moving table that the name means as the target of a write.
    func movingTable(_ name: ObjectName) -> MovingTable? {
        if let schema = name.schema, !SQLIdentifier.equal(schema, "main") { return nil }
        return overlay.byName[lower(name.name)]
    }

    /// Whether a VACUUM makes another file, and leaves its own as it is.
    private func isInto(_ vacuum: StatementOutline) -> Bool {
        vacuum.mentions(["into"], from: vacuum.target?.nameRange.upperBound ?? vacuum.range.lowerBound)
    }

    /// Whether what is created is to be in `temp`.
    private func isTemporary(_ outline: StatementOutline) -> Bool {
        outline.isTemporary || outline.target?.schema.map { SQLIdentifier.equal($0, "temp") } ?? false
    }

    /// Whether a table's name means one of the application's in `temp`.
    private func isTemporary(_ name: ObjectName) throws -> Bool {
        if let schema = name.schema { return SQLIdentifier.equal(schema, "temp") }
        let sql = "SELECT 1 FROM sqlite_temp_master WHERE type = 'table' AND name = ? COLLATE NOCASE"
        return try !isOverlaid(name) && overlay.connection.fetchOne(sql, [name.name]) != nil
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
        _ body: (inout SQLEdits) throws -> Void
    ) rethrows -> Route {
        var edits = SQLEdits()
        try body(&edits)
        var route = route
        if let sql = try? edits.extract(outline.range, from: text) { route.sql = sql }
        return route
    }

    /// The statement with a name that it uses looked up in `main` alone.
    private func inMain(_ name: ObjectName, _ route: Route, _ outline: StatementOutline, _ text: String) -> Route {
        edited(route, outline, text) { $0.insertWord("main.", at: name.nameRange.lowerBound, of: outline) }
    }

    // MARK: Reads

    /// Whether a source is as the overlay knows it. Where it is not, the union table tells.
    private func isAsKnown(_ source: KnownSource) throws -> Bool {
        do {
            try source.confirm()
            return true
        } catch is MigrationError {
            return false
        }
    }

    /// Whether a table has moved that a statement of other code keeps in the overlay. The ledger is gone then, which
    /// `MoveSQL.wholeCount` reads. Where no other code runs, the overlay is up to date.
    private func isBorrowedAndOver(_ table: MovingTable) throws -> Bool {
        try overlay.statements.isBorrowed && table.state().lowerBound == nil
    }

    private func read(_ outline: StatementOutline, _ text: String, _ route: Route) throws -> Route {
        if let count = WholeCount(outline), let table = movingTable(count.table), table.inner == nil,
            try !isBorrowedAndOver(table)
        {
            var route = route
            route.sql = table.sql.wholeCount(named: count.resultName)
            route.redirected = table.id
            return route
        }
        if let reference = outline.tableReferences.first, let table = movingTable(reference.name),
            let aggregates = SidewiseAggregates(outline, table), try isAsKnown(table.knownSource)
        {
            var route = route
            route.sql = aggregates.sql
            route.redirected = table.id
            return route
        }
        var transferred = route
        var route = try edited(route, outline, text) {
            // The view's own triggers are what writes it; its twin has none.
            if [.insert, .update, .delete].contains(outline.kind), let target = outline.target, target.schema == nil,
                isTwin(target)
            {
                $0.insertWord("main.", at: target.nameRange.lowerBound, of: outline)
            }
            try redirectReads(outline, text, &$0)
            rowIDNames(outline).nameColumns(&$0, in: text)
            if let transfer = try transfer(outline) { try apply(transfer, to: &$0, &transferred, outline) }
            if route.isEvaluatedOnce { _ = evaluateOnce(outline, text, &$0) }
        }
        (route.ignoresChecks, route.isOfMoment) = (transferred.ignoresChecks, transferred.isOfMoment)
        // A view is a query of its own.
        let namesView = outline.tableReferences.contains { movingTable($0.name) == nil }
        let isOneTable = !namesView && outline.tableReferences.count == 1 && outline.scopes.count <= 2
        route.traits.isSimple =
            outline.kind == .select && outline.isComplete && isOneTable
            && !outline.functionCalls.contains { $0.name == "cast" }
            && !mayCompareColumns(outline)
        route.traits.isAggregated = isOneTable && outline.isOneAggregate
        return route
    }

    private func rowIDNames(_ outline: StatementOutline) -> RowIDNames {
        RowIDNames(
            outline: outline,
            movingTable: { outline.isHiddenByCommonTable($0) ? nil : movingTable($0.name) },
            otherKey: overlay.rowIDColumn
        )
    }

    /// Whether a condition may compare one column with another: after `a = 1`, SQLite gives `b > a` as `b > 1`, and yet
    /// compares with the affinity of `a`.
    private func mayCompareColumns(_ outline: StatementOutline) -> Bool {
        guard let range = outline.whereClause else { return false }
        guard let table = outline.tableReferences.first.flatMap({ movingTable($0.name) }) else { return true }
        let names = outline.columnNames(in: range).map(table.target.ownName)
        // What is no column may be the name of a result that is one.
        return Set(names).count < names.count || !names.allSatisfy(table.target.hasColumn)
    }

    /// Has reads that spell `main.T` read the union table, and leaves out an index that it does not have.
    private func redirectReads(_ outline: StatementOutline, _ text: String, _ edits: inout SQLEdits) throws {
        let functions = DescribingFunctions(outline, in: text)
        if !functions.isEmpty {
            try functions.apply(to: &edits, in: outline, ofMain: overlay.byName.keys + overlay.strayNames())
        }
        for reference in outline.tableReferences where reference.context != .target {
            guard isOverlaid(reference.name) else { continue }
            if reference.isTableFunction {
                // A table is no function, but a virtual table may be.
                let name = reference.name
                if name.schema == nil { edits.insertWord("main.", at: name.nameRange.lowerBound, of: outline) }
                continue
            }
            if let schema = reference.name.schemaRange {
                edits.replace(schema, withWord: "temp", of: outline)
            } else if outline.isHiddenByCommonTable(reference) {
                continue
            }
            if let index = reference.indexedBy, mayLeaveOut(index, of: reference, outline) {
                // In a text that is no SQL, SQLite is to find the same mistake.
                if outline.isComplete { edits.remove(index) } else { edits.replace(index, with: "NOT INDEXED") }
            }
        }
        for column in outline.qualifiedReferences where SQLIdentifier.equal(column.schema, "main") {
            guard let reference = outline.source(of: column), reference.context == .from, isOverlaid(reference.name)
            else { continue }
            edits.replace(column.schemaRange, withWord: "temp", of: outline)
        }
        try rowIDNames(outline).orderCompounds(&edits, in: text)
        ResultNames(outline: outline).keep(&edits, in: text)
    }

    /// Whether `INDEXED BY i` names an index that there is: else SQLite is to say that there is none.
    private func mayLeaveOut(_ index: Range<Int>, of reference: TableReference, _ outline: StatementOutline) -> Bool {
        guard let name = outline.nameOfIndex(index) else { return true }
        return movingTable(reference.name)?.target.hasIndex(name) ?? false
    }

    // MARK: Writes

    /// Refuses on a connection that reads what SQLite refuses when it runs, before anything is done for it.
    private func checkWritable() throws {
        guard overlay.statements.canPromote else {
            throw SQLiteError(code: .readOnly, message: "attempt to write a readonly database")
        }
    }

    private func write(_ outline: StatementOutline, _ text: String, _ table: MovingTable, _ route: Route) throws
        -> Route
    {
        try checkWritable()
        let unread = route.draining([table.id], .unreadText)
        guard outline.isComplete, let target = outline.target else { return unread }
        if overlay.watch.triggers.unsilenced.contains(table.id) { return route.draining([table.id], .program) }
        // What a new row could collide with can only be told when it is made.
        if table.feeds.contains(where: \.hasOtherKeys), outline.kind != .delete {
            return route.draining([table.id], .otherKeys)
        }
        // With ORDER BY or LIMIT, SQLite takes the target for a common table of its name.
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
            if asksForEarlierRows(outline, route.views) { return route.draining([table.id], .earlierRows) }
            let isVolatile = route.views.map { VolatileTerms(outline: outline, views: $0).isFound } ?? true
            if isVolatile, !evaluateOnce(outline, text, &edits) { return route.draining([table.id], .chosenRows) }
            if let transfer = try transfer(outline) { try apply(transfer, to: &edits, &route, outline) }
        } else {
            // The statement that finds the rows calls the target by its name alone.
            if hasNamesake(outline, target) { return unread }
            let promotion = Promotion(outline: outline, text: text, table: table)
            let isVolatile = route.views.map { VolatileTerms(outline: outline, views: $0).isFound } ?? true
            let isChosen = isVolatile || outline.orderBy != nil || outline.limit != nil
            let mayChange =
                table.firesTriggers && asksOtherTables(outline)
                || outline.from == nil && asksForSome(outline, route.views ?? [])
            // Which rows of FROM meet a row is evaluated again by the statement; and it visits the rows by their keys,
            // which a trigger may tell from the order that it would have.
            let isInOrder = isChosen && overlay.watch.triggers.tables.contains(table.id)
            let isCollected = isChosen || mayChange
            if isInOrder || isCollected && outline.from != nil { return route.draining([table.id], .chosenRows) }
            let relation = isCollected ? table.name : Overlay.pendingName(table.id)
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
        guard let sql = try? edits.extract(outline.range, from: text) else { return unread }
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

    /// Whether what an UPDATE or DELETE means depends on a subquery with LIMIT: which rows that gives may depend on how SQLite comes
    /// to them, in either of two statements.
    private func asksForSome(_ outline: StatementOutline, _ views: [StatementOutline]) -> Bool {
        guard let start = outline.with == nil ? outline.whereClause?.lowerBound : outline.range.lowerBound else {
            return false
        }
        return outline.mentions(["limit"], from: start) || views.contains { $0.mentions(["limit"]) }
    }

    /// Whether what an UPDATE or DELETE means depends on other tables: triggers that its promotions fire may write them.
    private func asksOtherTables(_ outline: StatementOutline) -> Bool {
        outline.tableReferences.contains { reference in
            reference.context != .target && outline.set.map { !$0.contains(reference.name.range.lowerBound) } ?? true
                && movingTable(reference.name) == nil
        }
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
    private func asksForEarlierRows(_ outline: StatementOutline, _ views: [StatementOutline]?) -> Bool {
        if case .values(let rows, _)? = outline.source, rows.count == 1 { return false }
        guard let views else { return true }
        return ([outline] + views).contains { text in
            text.functionCalls.contains { ["changes", "total_changes", "last_insert_rowid"].contains($0.name) }
        }
    }

    /// Turns one row of VALUES into a SELECT: with a trigger, SQLite evaluates the expressions of VALUES once for the
    /// trigger and once for the row, and a function may give two values.
    ///
    /// - Returns: `false` where that cannot be: a SELECT takes aggregates, which VALUES does not.
    private func evaluateOnce(_ outline: StatementOutline, _ text: String, _ edits: inout SQLEdits) -> Bool {
        guard case .values(let rows, let range)? = outline.source, rows.count == 1, let first = rows[0].first,
            let last = rows[0].last
        else { return true }
        if AggregateCalls.areIn(outline, text) { return false }
        edits.replace(range.lowerBound..<first.lowerBound, with: "SELECT (")
        // In parentheses none of them can have an alias.
        for (value, next) in zip(rows[0], rows[0].dropFirst()) {
            edits.replace(value.upperBound..<next.lowerBound, with: "), (")
        }
        edits.replace(last.upperBound..<range.upperBound, with: ") WHERE 1 ")
        return true
    }

    // MARK: Pragmas

    /// Whether a pragma would describe the union table, or a table or index of an attached source.
    private func describesOther(_ outline: StatementOutline) throws -> Bool {
        try mentionsMovingTable(outline) || describesSource(outline)
    }

    /// Whether a pragma names a table or an index that only an attached source has.
    private func describesSource(_ outline: StatementOutline) throws -> Bool {
        guard let argument = outline.arguments else { return false }
        let name = SQLIdentifier.unquoted(outline.text(argument))
        return try overlay.strayTable(among: [name]) != nil
    }

    /// Whether REINDEX would find a table or an index of that name, and not a collation.
    private func isInTarget(_ name: String) throws -> Bool {
        if ["binary", "nocase", "rtrim"].contains(lower(name)) { return false }
        let sql =
            "SELECT 1 FROM main.sqlite_master WHERE name = ?1 COLLATE NOCASE "
            + "UNION ALL SELECT 1 FROM sqlite_temp_master WHERE name = ?1 COLLATE NOCASE"
        return try overlay.connection.fetchValue(Int64.self, sql, [name]) != nil
    }

    /// Pragmas that may name a table or an index.
    private static let pragmasOfTables = DescribingFunctions.pragmas.union([
        "integrity_check", "quick_check", "table_list",
    ])

    /// Pragmas that without a schema are of all attached files.
    private static let pragmasOfAllFiles: Set<String> = [
        "optimize", "wal_checkpoint", "journal_mode", "journal_size_limit", "locking_mode",
    ]

    private func pragma(_ outline: StatementOutline, _ text: String, _ route: Route) throws -> Route {
        guard let target = outline.target else { return route }
        var route = route
        let name = lower(target.name)
        if Self.pragmasOfTables.contains(name), target.schema == nil, try describesOther(outline) {
            return inMain(target, route, outline, text)
        }
        // Not the sources, which are attached, and read alone.
        if Self.pragmasOfAllFiles.contains(name), target.schema == nil {
            return inMain(target, route, outline, text)
        }
        if name == "foreign_key_check" {
            route.drain(allTables, .foreignKeyCheck)
            guard target.schema == nil, try describesSource(outline) else { return route }
            return inMain(target, route, outline, text)
        }
        if ["temp_store", "temp_store_directory", "foreign_keys", "writable_schema"].contains(name) {
            route.unsettlesOverlay = true
        }
        return route
    }
}
