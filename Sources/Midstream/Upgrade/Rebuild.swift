internal import SQLText
internal import SQLiteConnection

/// Gives a table another shape, by a move within the file: from the old table, under another name, to a new table of
/// its name.
///
/// All of this happens in the open transaction, on the connection that writes, without the connection's overlay and
/// with foreign keys switched off.
struct Rebuild {
    let connection: Connection
    let statements: InternalStatements
    let wish: TableRebuild
    let old: TableSchema

    private var store: StateStore { StateStore(connection: connection) }
    private var reader: SchemaReader { SchemaReader(connection: connection, schema: "main") }

    func run() throws -> RebuiltTable {
        let (migrations, records) = try store.load()
        let feeds = records.filter { SQLIdentifier.equal($0.target, old.name) && $0.phase == .copying }
        // If the table has fences, its rows have moved on, and the rows that are left in it must not be written.
        let fences = try Claims.fences(of: old.name, in: "main", connection)
        for trigger in feeds.flatMap({ MoveSQL.dropTriggers($0.id) }) + (try dropTriggers()) {
            try connection.execute(trigger)
        }
        let (backup, new) = try remake()
        let rebuilds = Set(records.filter(\.isRebuild).map(\.migration))
        let migration =
            migrations.first { rebuilds.contains($0.id) }
            ?? MigrationRecord(id: Identifiers.next(), sourcePath: nil)
        let matching = ColumnMatching(
            connection: connection,
            target: new,
            source: backup,
            from: "main." + SQLIdentifier.quoted(backup.name),
            wish: wish.migration
        )
        let columns = try storedRecords(matching)
        var (move, reason) = try Self.move(wish, migration, from: backup, to: new, former: old.sql, on: connection)
        let chains = try feeds.compactMap { feed -> Chain? in
            guard let move, let (origin, source) = try origin(of: feed, migrations) else { return nil }
            return Chain(first: feed, origin: origin, a: source, b: backup, second: move.record, c: new)
        }
        let joined = chains.map { $0.joined() }
        let canJoin = chains.count == feeds.count && !joined.contains(nil)
        if !canJoin {
            for feed in feeds { try moveRest(feed, migrations, into: backup) }
            (move, reason) = try Self.move(wish, migration, from: backup, to: new, former: old.sql, on: connection)
        }
        let links = canJoin ? zip(chains, joined).compactMap { chain, record in record.map { (chain, $0) } } : []
        let joinedMoves = links.map { chain, record in chain.beginning(record, on: connection) }
        try checkConstraints(of: move, joinedMoves)

        // Only a move can set rows aside.
        let isSmall =
            try (move == nil || !wish.refusedRows.stored.settlesUnasked)
            && reader.isSmall(backup.name, rows: wish.rowsCopiedAtOnce)
        let isOnline = move != nil && !isSmall
        // Columns that are generated anew are among the move's columns only.
        if isOnline, let move { try checkOtherKeys(move.record.columns, from: backup, to: new) }
        if !isOnline { try copy(columns, from: backup, to: new) }
        for trigger in wish.triggers + fences.map(\.sql) { try connection.execute(trigger) }
        for (chain, record) in links { try chain.store(record, in: store) }
        if isOnline, let move { try begin(move, of: migration) }
        for joined in joinedMoves {
            _ = try joined.settleFailing(of: joined.sql.isPending(after: joined.record.watermark), statements)
        }
        // Rows that have yet to arrive from an earlier rebuild come in steps, whatever became of the rows that had
        // arrived.
        let comesOn = canJoin && !feeds.isEmpty
        if !canJoin { reason = reason ?? "the rows of its earlier rebuild could not move on in steps" }
        return RebuiltTable(
            name: new.name,
            way: isOnline || comesOn ? .online : .atOnce,
            reason: isSmall && canJoin ? nil : reason
        )
    }

    /// Gives the old table another name, and creates the new table, with its indexes.
    private func remake() throws -> (backup: TableSchema, new: TableSchema) {
        let id = Identifiers.next()
        let backup = try TableBackup(
            connection: connection,
            table: old,
            name: "\(TableRecord.backupPrefix)\(id)"
        ).make()
        try connection.execute(wish.schema)
        for index in wish.indexes { try connection.execute(index) }
        guard let new = try reader.table(old.name) else { throw refuse(.misuse, "table \(old.name) was not created") }
        return (backup, new)
    }

    /// Makes sure that the rows of the move, and those that have yet to come from earlier moves, fit the new table.
    private func checkConstraints(of move: Beginning?, _ joined: [Beginning]) throws {
        try move?.checkConstraints(statements)
        for joined in joined {
            let rows = joined.sql.isPending(after: joined.record.watermark)
            try joined.checkExpressions(of: rows)
            try joined.checkConstraints(of: rows, statements)
        }
    }

    /// Lets the rows of the old table move in steps.
    private func begin(_ move: Beginning, of migration: MigrationRecord) throws {
        try store.create()
        try store.save(migration)
        try move.store(in: store)
        try Claims(connection: connection, migration: migration).stake(move.record)
        _ = try move.settleFailing(statements)
        try connection.create(move.letMove(), in: "main")
    }

    private func storedRecords(_ matching: ColumnMatching) throws -> [ColumnRecord] {
        do {
            return try matching.storedRecords()
        } catch let error as MigrationError {
            throw Self.hiding(matching.source.name, error, old.name)
        }
    }

    /// An error with the table's name in place of the backup's, which is of no use to the application.
    static func hiding(_ backup: String, _ error: MigrationError, _ table: String) -> MigrationError {
        MigrationError(error.code, error.message.replacing(backup, with: table), table: table, cause: error.cause)
    }

    func refuse(_ code: MigrationError.Code, _ message: String) -> MigrationError {
        MigrationError(code, message, table: old.name)
    }

    /// The move; or, if the rows cannot move in steps, the reason.
    static func move(
        _ wish: TableRebuild,
        _ migration: MigrationRecord,
        from backup: TableSchema,
        to new: TableSchema,
        former: String?,
        on connection: Connection
    ) throws -> (Beginning?, reason: String?) {
        do {
            let beginning = try Beginning(
                checking: wish.migration,
                migration,
                .drop,
                target: new,
                source: backup,
                others: [],
                former: former,
                on: connection
            )
            return (beginning, nil)
        } catch let error as MigrationError {
            guard [.unequalTables, .unsupported].contains(error.code) else { throw error }
            return (nil, hiding(backup.name, error, new.name).message)
        }
    }

    private func dropTriggers() throws -> [String] {
        try connection.fetchAll(
            "SELECT name FROM main.sqlite_master WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE",
            [old.name]
        ).map { "DROP TRIGGER IF EXISTS main." + SQLIdentifier.quoted(try $0.get(0)) } + dropTemporaryTriggers()
    }

    /// The statements that drop this connection's TEMP triggers on the table, as if the table were dropped. SQLite
    /// would otherwise attach these triggers to the backup when the table gets the backup's name.
    private func dropTemporaryTriggers() throws -> [String] {
        let isHidden = try connection.fetchOne(
            "SELECT 1 FROM sqlite_temp_master WHERE type IN ('table', 'view') AND name = ? COLLATE NOCASE",
            [old.name]
        )
        if isHidden != nil { return [] }
        return try connection.fetchAll(
            "SELECT name, sql FROM sqlite_temp_master WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE",
            [old.name]
        ).compactMap { row in
            // The trigger may be on a table of another file.
            let schema = SQLScript(try row.get(1)).outline().onTable?.schema
            guard schema.map({ SQLIdentifier.equal($0, "main") }) ?? true else { return nil }
            return "DROP TRIGGER temp." + SQLIdentifier.quoted(try row.get(0))
        }
    }

    /// The source of an earlier move into the table: its migration, and its table.
    private func origin(
        of feed: TableRecord,
        _ migrations: [MigrationRecord]
    ) throws -> (MigrationRecord, TableSchema)? {
        guard let migration = migrations.first(where: { $0.id == feed.migration }),
            let source = try SchemaReader(connection: connection, schema: migration.schema).table(feed.source)
        else { return nil }
        return (migration, source)
    }

    /// Ends a move into the table that cannot go on as a move into the new shape.
    private func moveRest(_ feed: TableRecord, _ migrations: [MigrationRecord], into backup: TableSchema) throws {
        guard let (migration, source) = try origin(of: feed, migrations) else {
            throw refuse(
                .sourceChanged,
                "source table \(feed.source) is gone, but rows of it still have to move into table \(old.name)"
            )
        }
        guard !feed.firesTriggers else {
            throw refuse(
                .unsupported,
                "rows that have yet to move into table \(old.name) fire its triggers, and cannot move into its new shape: let "
                    + "them move first"
            )
        }
        let sql = MoveSQL(record: feed, migration: migration, target: backup, source: source)
        let mover = RowMover(statements: statements, sql: sql)
        do {
            _ = try mover.moveRest(feed)
        } catch let error as SQLiteError where ResultCode.constraint ~= error.code {
            throw MigrationError(
                .rowRefused,
                "rows have yet to move into table \(old.name) from an earlier migration, and must do so before the "
                    + "table gets this shape. The table refuses one of them, which the next step names: delete that "
                    + "row, or change it so that the table takes it",
                table: old.name,
                cause: error
            )
        }
        guard let moved = try store.table(feed.id) else { return }
        let (rows, hashes) = try mover.countSource(moved)
        try mover.complete(moved, counted: rows, hashed: hashes)
    }

    /// Copies all rows, and drops the old table.
    private func copy(_ columns: [ColumnRecord], from backup: TableSchema, to new: TableSchema) throws {
        let mapped = MappedColumns(target: new, source: backup, records: columns)
        let written = new.columns.indices.filter { new.columns[$0].generation == nil }
        var names = written.map { SQLIdentifier.quoted(new.columns[$0].name) }
        var values = written.map { mapped[$0].copied }
        if new.hasRowID, new.rowIDColumn == nil, backup.hasRowID, let name = new.rowIDName, let value = backup.rowIDName
        {
            names.append(name)
            values.append(value)
        }
        let source = "main." + SQLIdentifier.quoted(backup.name)
        let insert =
            "INSERT OR ABORT INTO main.\(SQLIdentifier.quoted(new.name))(\(names.joined(separator: ", "))) "
            + "SELECT \(values.joined(separator: ", ")) FROM \(source)"
        do {
            try connection.execute(insert)
        } catch {
            guard Self.isOfRow(error) else { throw error }
            // By the time the application reads the error, the backup is gone.
            throw namingRows(error, of: insert, mapped, from: backup, to: new).naming(wish.schema)
        }
        if new.isAutoIncrement, let sequence = try AutoIncrement.sequence(of: backup.name, in: "main", connection) {
            try AutoIncrement.raise(of: new.name, in: "main", to: sequence, connection)
        }
        try connection.execute("DROP TABLE \(source)")
    }
}
