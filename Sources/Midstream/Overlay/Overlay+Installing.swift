internal import SQLText
internal import SQLiteConnection

// How moving tables are set up on the connection, and removed.
extension Overlay {
    /// Makes the TEMP objects. The sources must be attached.
    func install(_ moves: [Move]) throws {
        hiddenByTemporaryTables.removeAll()
        let temporary = moves.isEmpty ? [] : try temporaryNames()
        var unions: [SchemaRow] = []
        for move in moves { try install(move, besides: temporary, &unions) }
        try create(unions)
        if statements.canPromote { try createKeyCollections(moves) }
        foreignKeys = try ForeignKeyTies(SchemaReader(connection: connection, schema: "main"), moving: byName)
        try installKeyActions()
        try installTwins()
        if !byName.isEmpty {
            try execute(CountedRows.create)
            if Connection.libraryVersionNumber < 3_018_000 { try execute(InsertedRowID.create) }
        }
        try watchAccesses()
        try findTemporaryTriggers()
        // A rollback may bring back the union tables of drained tables. Tables that are neither moving nor drained had to be
        // known only until their union tables were dropped.
        let known = (Array(byName.values) + drained).flatMap(\.feeds)
        tables.byID = Dictionary(known.map { ($0.id, $0) }) { first, _ in first }
        returning = byName.values.flatMap(\.feeds).filter(\.isReturning)
        generation += 1
    }

    /// Makes the TEMP triggers that promote rows at the other ends of foreign keys, if the connection enforces keys. Other code may
    /// switch enforcement on at any time.
    private func installKeyActions() throws {
        let isEnforced = connection.isOn(.foreignKeys)
        let isWanted = statements.canPromote && (isEnforced || connection.isBorrowed)
        let reader = SchemaReader(connection: connection, schema: "main")
        try keyActions.read(reader, isWanted ? foreignKeys : ForeignKeyTies(), moving: byName)
        if isWanted, isEnforced, connection.isBorrowed, let table = byName.values.first(where: lacksKeyActions) {
            throw MigrationError(
                .unsupported,
                "foreign keys are enforced, and connect table \(table.name) with other tables in a way that only a Database can "
                    + "follow while the table moves. Let the table finish moving first, or switch foreign keys off here",
                table: table.name
            )
        }
        for trigger in keyActions.triggers { try execute(trigger) }
    }

    /// Whether foreign keys connect a moving table with other tables in a way that cannot be enforced without draining.
    func lacksKeyActions(_ table: MovingTable) -> Bool {
        !foreignKeys.tables(of: table.name).isEmpty && !keyActions.handles(table.name)
    }

    private func removeKeyTriggers() throws {
        let names = try connection.fetchAll("SELECT name FROM sqlite_temp_master WHERE type = 'trigger'").map {
            try $0.get(0, as: String.self)
        }
        for name in names where OwnNames.isTrigger(name) {
            // SQLite does not know a trigger whose table another program has renamed.
            try execute("DROP TRIGGER IF EXISTS temp.\(SQLIdentifier.quoted(name))")
        }
    }

    private func findTemporaryTriggers() throws {
        boundByTemporaryTriggers.removeAll()
        guard !byName.isEmpty else { return }
        let sql = "SELECT tbl_name, name FROM sqlite_temp_master WHERE type = 'trigger'"
        for row in try connection.fetchAll(sql) where !OwnNames.isTrigger(try row.get(1)) {
            let name: String = try row.get(0)
            if let table = table(named: name) {
                boundByTemporaryTriggers.insert(table.id)
            } else if twins.contains(where: { SQLIdentifier.equal($0, name) }) {
                boundByTemporaryTriggers.formUnion(byName.values.map(\.id))
            }
        }
    }

    func attach(_ migration: MigrationRecord) throws {
        guard let path = migration.sourcePath, attached[migration.schema] == nil else { return }
        // Before 3.28, BEGIN IMMEDIATE fails if a file is attached read-only. Where other code begins the transactions, it must
        // not fail.
        let isWritable = connection.isBorrowed && Connection.libraryVersionNumber < 3_028_000
        try SourceFile.attach(migration, to: connection, access: isWritable ? .readWrite : .readOnly, keys: keys)
        attached[migration.schema] = path
    }

    /// - Parameters:
    ///   - temporary: The names of TEMP tables and views, in lower case, without those of the overlay, which are not there yet.
    ///   - unions: The union tables that are to be created; the function adds those of this move.
    private func install(_ move: Move, besides temporary: Set<String>, _ unions: inout [SchemaRow]) throws {
        let (record, target) = (move.record, move.target)
        let name = SQLIdentifier.lowercased(target.name)
        let table = MovingTable(
            record: record,
            migration: move.migration,
            target: target,
            source: move.source,
            sourceVersion: move.sourceVersion,
            insertGuard: move.insertGuard,
            inner: byName[name],
            isHidden: byName[name]?.isHidden ?? temporary.contains(name),
            statements: statements
        )
        for fence in move.fences where !fences.contains(fence) { try defineFence(fence) }
        tables.byID[table.id] = table
        byName[name] = table
        if let inner = table.inner {
            if !inner.isHidden { unions.removeAll { SQLIdentifier.equal($0.name, target.name) } }
            unions.append(union(OwnNames.whole(inner.id), inner, "whole"))
        }
        if table.isHidden {
            hiddenByTemporaryTables.insert(table.id)
        } else {
            unions.append(union(target.name, table, "whole"))
        }
        if table.hasPendingUnion { unions.append(union(OwnNames.pending(table.id), table, "pending")) }
    }

    /// All tables with rowids share one collection.
    private func createKeyCollections(_ moves: [Move]) throws {
        let first = moves.first(where: \.target.hasRowID)?.record.id
        for move in moves where !move.target.hasRowID || move.record.id == first {
            if let table = tables.byID[move.record.id] { try execute(KeyCollection(table).create) }
        }
    }

    private func temporaryNames() throws -> Set<String> {
        let sql = "SELECT name FROM sqlite_temp_master WHERE type IN ('table', 'view')"
        return Set(try connection.fetchAll(sql).map { SQLIdentifier.lowercased(try $0.get(0)) })
    }

    /// Whether a TEMP table or view has that name. The overlay's own tables and views must not be there yet.
    func hasTemporary(_ name: String) throws -> Bool {
        let sql = "SELECT 1 FROM sqlite_temp_master WHERE name = ? COLLATE NOCASE AND type IN ('table', 'view')"
        return try connection.fetchOne(sql, [name]) != nil
    }

    private func union(_ name: String, _ table: MovingTable, _ scope: String) -> SchemaRow {
        let module = table.target.hasRowID ? moduleName : UnionModule.keyedName
        return SchemaRow(
            kind: .table,
            name: name,
            table: name,
            words: ("CREATE VIRTUAL TABLE", "USING \(module)(\(table.id), \(scope))")
        )
    }

    /// Creates union tables. If they are written into `sqlite_temp_master`, SQLite connects each when a statement first names it.
    private func create(_ unions: [SchemaRow]) throws {
        guard connection.isBorrowed else { return try connection.create(unions, in: "temp", execute) }
        // Other code's authorizer may not allow writes of `sqlite_temp_master`.
        for union in unions { try execute(union.create(in: "temp")) }
        try hide(unions.map(\.name))
    }

    /// Hides union tables from queries of `sqlite_temp_master` for `type = 'table'`. A library that asks `temp` and then `main` where
    /// a table is finds the target's table, with its keys, indexes and foreign keys. Statements still mean the union table: when
    /// SQLite reads the schema, it compares the type regardless of case.
    private func hide(_ names: [String]) throws {
        let master = "sqlite_temp_master"
        for name in names {
            let sql = "SELECT rowid FROM \(master) WHERE type = 'table' AND name = ?"
            guard let row = try connection.fetchValue(Int64.self, sql, [name]) else { continue }
            // A handle on the value neither counts as a change nor needs `writable_schema`.
            try connection.withBlob(schema: "temp", table: master, column: "type", rowID: row, isWritable: true) {
                try $0.write(Array("TABLE".utf8), at: 0)
            }
        }
    }

    /// Removes the TEMP objects, including those that a rollback has brought back or that a failure has left.
    func removeTables() throws {
        try removeKeyTriggers()
        try removeTwins()
        // A union table that reads another one was created after it, and must be dropped first.
        let unions = try connection.fetchAll(
            "SELECT name FROM sqlite_temp_master WHERE lower(type) = 'table' AND sql LIKE 'CREATE VIRTUAL TABLE %' "
                + "AND sql LIKE '% USING midstream\\_union%' ESCAPE '\\' ORDER BY rowid DESC"
        )
        try dropUnions(unions.map { try $0.get(0) })
        byName.removeAll()
        returning.removeAll()
        statements.removeAll()
    }

    private func remove(_ table: MovingTable) throws {
        // A union table that reads others must be dropped before them.
        let inner = table.feeds.dropFirst().map { OwnNames.whole($0.id) }
        try dropUnions((table.isHidden ? [] : [table.name]) + inner + table.feeds.map { OwnNames.pending($0.id) })
    }

    private func dropUnions(_ names: [String]) throws {
        statements.isRemovingTables = true
        defer { statements.isRemovingTables = false }
        for name in names {
            try execute("DROP TABLE IF EXISTS temp.\(SQLIdentifier.quoted(name))")
            // Other code's authorizer may make the statement do nothing.
            guard connection.isBorrowed, try exists(name) else { continue }
            throw SQLiteError(
                code: .authorization,
                message: "the connection's authorizer keeps TEMP tables from being dropped"
            )
        }
    }

    /// The moving tables that have the names of the given ones, each with all of its sources.
    func groups(of ids: Set<Int64>) -> [MovingTable] {
        Set(ids.compactMap { tables.byID[$0].map { SQLIdentifier.lowercased($0.name) } }).sorted()
            .compactMap { byName[$0] }
    }

    /// Takes a drained table out of the overlay, within the transaction that drained it.
    func removeDrained(_ table: MovingTable) throws {
        try remove(table)
        byName[SQLIdentifier.lowercased(table.name)] = nil
        for trigger in keyActions.triggerNames(uselessWithout: Set(byName.values.map(\.id))) {
            try execute("DROP TRIGGER IF EXISTS temp.\(trigger)")
        }
        drained.append(table)
        try removeTwins()
        try installTwins()
        noteMovingTables()
        generation += 1
        schemaVersion = nil
    }

    /// Takes those tables out of the overlay that, in the snapshot of the open transaction, have moved.
    ///
    /// - Throws: `SQLiteError`, `LOCKED`, if a statement is reading such a table.
    func removeMoved() throws {
        if try isEmpty && drained.isEmpty || isOfSchema() { return }
        if !drained.isEmpty { try restoreAfterRollback() }
        let moving = Set(try store.load().tables.filter { $0.phase == .copying }.map(\.id))
        for table in byName.values where !table.feeds.contains(where: { moving.contains($0.id) }) {
            guard table.openCursors == 0 else {
                throw SQLiteError(code: .locked, message: "database table is locked: \(table.name)")
            }
            try removeDrained(table)
        }
    }

    /// Brings the overlay's names up to date with the TEMP objects after a ROLLBACK TO.
    func restoreAfterRollback() throws {
        // The overlay was made within the transaction, perhaps after the savepoint, for tables that may no longer move.
        if hasResumed { return try suspended {} }
        for table in drained where try isBack(table) { byName[SQLIdentifier.lowercased(table.name)] = table }
        drained.removeAll { byName[SQLIdentifier.lowercased($0.name)] != nil }
        twins = Set(try twinsInPlace())
        noteMovingTables()
        generation += 1
    }

    func isBack(_ table: MovingTable) throws -> Bool {
        try exists(table.hasPendingUnion ? OwnNames.pending(table.id) : table.name)
    }

    private func exists(_ name: String) throws -> Bool {
        try connection.fetchValue(Int64.self, "SELECT 1 FROM sqlite_temp_master WHERE name = ?", [name]) != nil
    }
}
