internal import SQLText
internal import SQLiteConnection

// Checks of what the caller asks for, before anything is done.
extension Setup {
    /// What is known of a migration while the tables that the caller asks for are checked.
    struct Known {
        let migration: MigrationRecord
        let records: [TableRecord]
        /// What is to become of the source's tables.
        let retirement: SourceRetirement
        /// The records by the names of their targets in lower case.
        private let recordsOfTargets: [String: [TableRecord]]
        let targets: SchemaReader
        let sources: SchemaReader
        /// The names of the target's tables.
        let names: [String]
        let claims: Claims
        /// The claims on tables of the source. If the source is the target's own file, what the fences tell instead.
        let staked: [Claims.Claim]
        private let stakedSources: [String: [Claims.Claim]]
        /// The version of the source's schema, read before the claims.
        private let sourceVersion: Int64
        /// The claims of other files on tables of the target, and on tables of this file whose rows went to a claimed
        /// table within it.
        let onward: [Claims.Claim]
        /// The virtual tables of the source.
        let virtual: VirtualTables

        init(
            _ migration: MigrationRecord,
            _ records: [TableRecord],
            _ retirement: SourceRetirement,
            _ connection: Connection
        ) throws {
            self.migration = migration
            self.records = records
            self.retirement = retirement
            recordsOfTargets = Dictionary(grouping: records) { SQLIdentifier.lowercased($0.target) }
            targets = SchemaReader(connection: connection, schema: "main")
            sources = SchemaReader(connection: connection, schema: migration.schema)
            names = try targets.tableNames()
            claims = Claims(connection: connection, migration: migration)
            // The version is read before the claims, so that a later claim is noticed.
            sourceVersion = try connection.schemaVersion(of: migration.schema)
            staked = try claims.isSameFile ? claims.movedHere() : claims.all()
            onward = try claims.isSameFile ? [] : claims.onward()
            virtual = try VirtualTables(connection, migration.schema)
            stakedSources = Dictionary(grouping: staked) { SQLIdentifier.lowercased($0.sourceTable) }
        }

        /// The claims on tables of the source; `nil` if the source is the target's own file, or if claims may have come
        /// since they were read. The first claim on a table brings a fence, which changes the schema's version.
        func stakedStill(_ connection: Connection) throws -> [Claims.Claim]? {
            let isStill = try !isSameFile && connection.schemaVersion(of: migration.schema) == sourceVersion
            return isStill ? staked : nil
        }

        /// The records of the moves into one target table.
        func records(of target: String) -> [TableRecord] { recordsOfTargets[SQLIdentifier.lowercased(target)] ?? [] }

        /// The claims on one table of the source.
        func staked(on source: String) -> [Claims.Claim] { stakedSources[SQLIdentifier.lowercased(source)] ?? [] }

        var isSameFile: Bool { claims.isSameFile }
    }

    /// Tables that begin together.
    private struct Begun {
        private(set) var all: [Beginning] = []
        private var sources: [String: [MoveSQL]] = [:]
        private var sharing: [String: [TableRecord]] = [:]

        mutating func append(_ beginning: Beginning) {
            all.append(beginning)
            sources[SQLIdentifier.lowercased(beginning.target.name), default: []].append(beginning.sql)
            sharing[SQLIdentifier.lowercased(beginning.record.source), default: []].append(beginning.record)
        }

        /// The moves into a target table, among those that begin.
        func sources(of target: String) -> [MoveSQL] { sources[SQLIdentifier.lowercased(target)] ?? [] }

        /// The moves that take rows from a source table, among those that begin.
        func records(from source: String) -> [TableRecord] { sharing[SQLIdentifier.lowercased(source)] ?? [] }
    }

    /// Checks every table before anything is done, and leaves out the tables whose rows have moved before.
    func check(
        _ wanted: [TableMigration],
        _ retirement: SourceRetirement,
        _ migration: MigrationRecord,
        _ records: [TableRecord],
        at version: Int64
    ) throws -> [Beginning] {
        let known = try Known(migration, records, retirement, connection)
        for note in try isRehearsal ? [] : Unreleased(connection: connection).all() {
            let claim = known.staked.first { $0.id == note.id }
            if note.moved != Unreleased.nothing {
                // The source was released at another path, where the source's file was open.
                guard claim?.moved != nil else { continue }
                try forgetNote(note.id)
            } else {
                // The move was given up before it had begun, or its rows have returned.
                guard claim != nil || migration.hasSource(note.source), try settle(note, claim, migration) else {
                    continue
                }
            }
            throw Overtaken()
        }
        var begun = Begun()
        var isLegible = false
        for wish in wanted {
            guard let source = wish.sourceTable, try !isThere(wish, from: source, known, at: version) else { continue }
            if !isLegible {
                try checkLegibility(known)
                isLegible = true
            }
            guard let beginning = try beginning(wish, from: source, known, besides: begun) else { continue }
            begun.append(beginning)
        }
        try checkTriggers(begun.all, records)
        return begun.all
    }

    /// Whether the rows that are asked for have come or are coming, so that no move needs to begin.
    ///
    /// - Throws: ``MigrationError`` if other rows are coming, or if the source tells of a move that the target does not
    ///   know.
    private func isThere(
        _ wish: TableMigration,
        from sourceName: String,
        _ known: Known,
        at version: Int64
    ) throws -> Bool {
        let (migration, records, claims) = (known.migration, known.records, known.claims)
        // If a table was dropped and there is one of its name again, that is another table.
        let staked = known.staked(on: sourceName)
        let wasDropped = staked.contains(where: \.isDropped)
        let isMadeAnew = try wasDropped && known.sources.table(sourceName) != nil
        // The move was taken over together with the table into which it went: see `Setup+Chains`.
        let isOnward = staked.contains { claim in
            !(claim.isDropped && isMadeAnew) && claims.hasMovedOn(claim, sourceName, wish, known.onward)
        }
        if isOnward { return true }
        let own = staked.filter {
            SQLIdentifier.equal($0.targetTable, wish.name) && claims.isOwn($0, for: wish.condition)
        }
        let same = own.filter { Claims.isSame($0.condition, wish.condition) }
        // The record's target may differ, since the target's rows move on to another table by now. Or the source has
        // got another path.
        let isKnown = same.contains { claim in
            records.contains { record in
                record.id == claim.id && (record.phase != .done || !SQLIdentifier.equal(record.target, wish.name))
            }
        }
        if isKnown { return true }
        // Other rows may follow when those have moved; they have come before others that moved on to the table.
        let candidates = own.isEmpty ? known.records(of: wish.name) : records
        let other = candidates.first { record in
            record.phase != .done
                && (own.contains { $0.id == record.id }
                    || record.migration == migration.id && SQLIdentifier.equal(record.target, wish.name)
                        && SQLIdentifier.equal(record.source, sourceName))
        }
        if same.isEmpty, let other { throw Self.otherRows(other, wish) }
        try checkState(of: own, wish, from: sourceName, claims)
        try checkKnowledge(of: own, wish, from: sourceName, known, at: version)
        if known.retirement != .keep, !isRehearsal { try releaseKept(same, wish, from: sourceName, known) }
        // The rows have moved. With sources that stay, this is how the next launch finds out. It is not so if the
        // source's table has been dropped, and a table that has been made since stands there.
        return !same.isEmpty && !(isMadeAnew && own.contains(where: \.isDropped))
    }

    /// Makes sure that the target is not older than the state that the rows have moved into.
    private func checkState(
        of own: [Claims.Claim],
        _ wish: TableMigration,
        from sourceName: String,
        _ claims: Claims
    ) throws {
        if try own.allSatisfy({ try $0.targetVersion ?? 0 <= connection.schemaVersion() }) { return }
        if let lost = own.first(where: claims.isStale) {
            throw claims.belongs(sourceName, to: lost, for: wish.name)
        }
        throw MigrationError(
            .foreignState,
            "the rows of source table \(sourceName) have moved into table \(wish.name) in a newer state of this "
                + "database: its file was replaced, or restored from an older backup. Restore the newer file; "
                + "or, if the older one is meant, leave addMigration out",
            table: wish.name
        )
    }

    /// Makes sure that the target knows each unfinished move of which the source tells.
    ///
    /// - Throws: ``Overtaken`` if the claims must be read anew.
    private func checkKnowledge(
        of own: [Claims.Claim],
        _ wish: TableMigration,
        from sourceName: String,
        _ known: Known,
        at version: Int64
    ) throws {
        let unknown = own.filter { claim in claim.moved == nil && !known.records.contains { $0.id == claim.id } }
        for claim in unknown {
            guard let note = try Unreleased(connection: connection).note(of: claim.id), !note.isAfter(claim) else {
                continue
            }
            // What had not begun has come since this was looked for.
            if note.moved != Unreleased.nothing {
                try Retirement(stepper: stepper, migration: known.migration)
                    .releaseLate(claim, moved: note.moved, note.retirement ?? .keep, wish)
            }
            throw Overtaken()
        }
        if unknown.isEmpty { return }
        guard try isStill(at: version) else { throw Overtaken() }
        throw MigrationError(
            .foreignState,
            "source table \(sourceName) is being moved into table \(wish.name), but the target does not know of it: "
                + "the target was replaced or restored from a backup. Restore source and target together",
            table: wish.name
        )
    }

    /// Retires the source's table now, if its rows moved earlier and the table was kept then.
    private func releaseKept(
        _ same: [Claims.Claim],
        _ wish: TableMigration,
        from sourceName: String,
        _ known: Known
    ) throws {
        // The table was kept for what the target lacked, since the caller had not given that up. A table that was to be
        // kept stays, whatever the caller says now.
        for claim in same where !claim.isDropped && claim.isDroppable && !known.isSameFile {
            guard let moved = claim.moved, try known.sources.table(sourceName) != nil else { continue }
            try Retirement(stepper: stepper, migration: known.migration)
                .releaseLate(claim, moved: moved, known.retirement, wish)
        }
    }

    /// Makes sure that a table can begin to move.
    ///
    /// - Parameter begun: The tables that begin together with this one.
    /// - Returns: `nil` if there is nothing to move.
    private func beginning(
        _ wish: TableMigration,
        from sourceName: String,
        _ known: Known,
        besides begun: Begun
    ) throws -> Beginning? {
        let (migration, records, claims) = (known.migration, known.records, known.claims)
        let isSameFile = known.isSameFile
        try checkFree(wish, sourceName, known)
        try checkLegibility(of: wish.name, from: sourceName, known)
        // The definitions are read before the tables are looked at, so that later changes are noticed.
        let definitions = try Definitions(of: wish.name, from: sourceName, migration, connection)
        guard let target = try known.targets.table(wish.name) else { return nil }
        guard let source = try source(of: wish, sourceName, known) else { return nil }
        guard !isSameFile || !SQLIdentifier.equal(source.name, target.name) else {
            throw MigrationError(.misuse, "table \(target.name) cannot move into itself", table: target.name)
        }
        try checkUnclaimed(wish.name, sourceName, migration)
        try InsertTriggers.check(wish, connection)
        try checkForeignKeys(of: target, wish, known)
        var beginning = try Beginning(
            checking: wish,
            migration,
            known.retirement,
            target: target,
            source: source,
            others: others(of: target.name, known.records(of: target.name))
                + begun.sources(of: target.name),
            on: connection
        )
        try beginning.checkNulls()
        beginning.definitions = definitions
        let record = beginning.record
        let moving = records.filter {
            $0.migration == migration.id && $0.phase != .done && SQLIdentifier.equal($0.source, sourceName)
        }
        let sharing = begun.records(from: sourceName)
        try claims.checkOwners(record, among: known.stakedStill(connection))
        try checkFormers(of: record, migration, isShared: !moving.isEmpty || !sharing.isEmpty)
        stepper.refusalHandlers[record.id] = wish.refusedRows.handler
        let staked = known.staked(on: sourceName)
        let others = try staked.filter { try !claims.isOfFormer($0) } + (isSameFile ? moving.map(claims.claim) : [])
        for other in others + sharing.map(claims.claim) { try claims.checkDisjoint(record, other) }
        return beginning
    }

    /// Makes sure that neither table is on its way back, and that no virtual table keeps its content in the source's table.
    private func checkFree(_ wish: TableMigration, _ sourceName: String, _ known: Known) throws {
        // Rows that go back to a source must neither meet rows that come into their table from another source, nor move
        // on.
        for name in [wish.name] + (known.isSameFile ? [sourceName] : []) {
            let returning = known.records(of: name).first(where: \.isReturning)
            guard let returning else { continue }
            if returning.phase == .copied { throw Returning(record: returning) }
            throw Self.isReturning(returning)
        }
        guard let owner = known.virtual.owner(of: sourceName) else { return }
        throw MigrationError(
            .unsupported,
            "source table \(sourceName) keeps the content of virtual table \(owner), and cannot move alone: leave "
                + "it out. Virtual tables move with their whole file, by Database(path:movingAllOf:)",
            table: wish.name
        )
    }

    /// The source's table; `nil` if it has moved within the same file and was dropped.
    ///
    /// - Throws: ``MigrationError`` if there is no such table, or its rows have moved to a table that is gone.
    private func source(of wish: TableMigration, _ sourceName: String, _ known: Known) throws -> TableSchema? {
        let former = known.staked(on: sourceName).first { claim in
            Claims.isSame(claim.condition, wish.condition)
                && claim.targetFile.hasSameBytes(as: known.claims.targetFile())
        }
        let source = try known.sources.table(sourceName)
        if let former, source == nil || !former.isDropped,
            !known.names.contains(where: { SQLIdentifier.equal($0, former.targetTable) })
        {
            throw Self.isRenamed(former, wish)
        }
        if let source { return source }
        if known.isSameFile { return nil }
        throw MigrationError(
            .missingTable,
            "there is no table \(sourceName) in \(stepper.path(of: known.migration) ?? "the source")",
            table: wish.name
        )
    }

    /// Makes sure that Swift's strings can represent both tables, and what else the target has that reads or writes its
    /// table.
    private func checkLegibility(of name: String, from sourceName: String, _ known: Known) throws {
        for (schema, table) in [("main", name), (known.migration.schema, sourceName)] {
            try LegibleSchema.checkTexts(
                connection,
                in: schema,
                where: "tbl_name = ?1 COLLATE NOCASE AND type <> 'trigger'",
                [table],
                table: name
            )
        }
        let columns = try known.targets.columnNames(of: name)
        let others = try known.sources.columnNames(of: sourceName)
        for names in [columns, others] { try LegibleSchema.checkNames(names, "columns", table: name) }
        try LegibleSchema.checkNames(columns, besides: others, "columns", table: name)
    }

    /// Makes sure that Swift's strings can represent the two files' views and triggers and the names in them, once for
    /// all tables.
    private func checkLegibility(_ known: Known) throws {
        try LegibleSchema.checkTexts(connection, in: "main", where: "type IN ('view', 'trigger')")
        for schema in Set(["main", known.migration.schema]) {
            try LegibleSchema.checkNames(
                LegibleSchema.names(connection, in: schema),
                "tables, views or triggers"
            )
        }
    }

    /// Makes sure that the target has the tables that the table's foreign keys refer to.
    private func checkForeignKeys(of target: TableSchema, _ wish: TableMigration, _ known: Known) throws {
        // Within one file, a move changes nothing for a foreign key. And in a whole file, a key that has no parent here
        // had none before.
        if known.isSameFile || wish.movesWithFile { return }
        let waived = wish.waivedForeignKeys.map(SQLIdentifier.lowercased)
        for parent in target.parents where !waived.contains(SQLIdentifier.lowercased(parent)) {
            if known.names.contains(where: { SQLIdentifier.equal($0, parent) }) { continue }
            throw MigrationError(
                .missingTable,
                "table \(target.name) has a foreign key to table \(parent), which this database does not have: where foreign keys are "
                    + "enforced, SQLite refuses every write of \(target.name). Create \(parent) here and have it move as well, or "
                    + "leave the key out of the definition of \(target.name). If the key need not hold, name \(parent) in "
                    + "waivedForeignKeys",
                table: target.name
            )
        }
    }

    /// Makes sure that no other file has taken over the rows of the target, or of a source in the target's own file.
    func checkUnclaimed(_ target: String, _ source: String, _ migration: MigrationRecord) throws {
        for table in [target] + (migration.sourcePath == nil ? [source] : []) {
            guard let destination = try stepper.store.destination(of: table) else { continue }
            throw MigrationError(
                .misuse,
                "the rows of table \(table) are moving to \(destination): wait until they have arrived, or move the "
                    + "rows of table \(source) there",
                table: target
            )
        }
        guard let fence = try Claims.fences(of: target, in: "main", stepper.connection).first else { return }
        let words = fence.strings.first ?? "the rows of table \(target) have moved"
        throw MigrationError(
            .misuse,
            "\(words). The table that is left here was kept, and takes no rows: move the rows of table \(source) "
                + "there, or drop the table here and create it anew",
            table: target
        )
    }

    /// Makes sure that triggers which fire for moving rows do not touch tables that move at the same time.
    private func checkTriggers(_ begun: [Beginning], _ records: [TableRecord]) throws {
        let moving = records.filter { $0.phase == .copying || $0.phase == .starting }
        let migrations = try stepper.load().migrations
        let before = try moving.filter(\.firesTriggers).compactMap { record in
            try migrations.first { $0.id == record.migration }.map { try stepper.sql(for: record, $0) }
        }
        let fired = stepper.statements.fired
        fired.moving = Set((moving + begun.map(\.record)).map { SQLIdentifier.lowercased($0.target) })
        for sql in before + begun.map(\.sql) where sql.firesTriggers {
            try stepper.firing(sql) { try fired.check(sql) }
        }
    }
}
