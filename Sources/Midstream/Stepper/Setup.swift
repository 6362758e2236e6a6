internal import SQLText
internal import SQLiteConnection

/// Begins migrations, and finishes beginnings that were cut short.
///
/// The order is: the target knows of the migration; the source is fenced for it; the target's table begins to move.
/// Each is on the disk before the next. So a fence that the target does not know is always an error, never a fresh start.
struct Setup {
    let stepper: Stepper

    private var connection: Connection { stepper.connection }

    /// A table that may begin to move.
    private typealias Beginning = (record: TableRecord, sql: MoveSQL)

    /// Begins the moves that the filter asks for, of tables that do not move already.
    ///
    /// - Returns: Whether any began.
    func begin(
        _ source: MigrationSource,
        _ retirement: SourceRetirement,
        _ filter: (inout TableMigration) throws -> Void
    ) throws -> Bool {
        // One that was begun and could not be fenced, since somebody held the source.
        if try stepper.store.load().tables.contains(where: { $0.phase == .starting }) { try resume() }
        let (migrations, records) = try stepper.store.load()
        let path = try sourcePath(source, retirement)
        if path == .some(nil), source != .sameDatabase { return false }
        let stored = path ?? nil
        let migration =
            migrations.first { $0.sourcePath == stored }
            ?? MigrationRecord(id: Identifiers.next(), sourcePath: stored, retirement: retirement)
        let reader = SchemaReader(connection: connection, schema: "main")
        var wanted: [TableMigration] = []
        for name in try reader.tableNames() {
            var table = TableMigration(name: name)
            try filter(&table)
            guard table.sourceTable != nil else { continue }
            if let record = records.first(where: { SQLIdentifier.equal($0.target, name) && $0.phase != .done }) {
                guard record.migration == migration.id else {
                    throw MigrationError(
                        .unsupported,
                        "table \(name) already moves from another source: wait until it has moved",
                        table: name
                    )
                }
                continue
            }
            let hasMoved = records.contains {
                $0.migration == migration.id && SQLIdentifier.equal($0.target, name)
                    && SQLIdentifier.equal($0.source, table.sourceTable ?? "")
            }
            if !hasMoved { wanted.append(table) }
        }
        guard !wanted.isEmpty else { return false }
        let isNew = !migrations.contains(migration)
        do {
            try attach(migration, source)
            let begun = try check(wanted, migration, records)
            if begun.isEmpty {
                // All has moved. The process may have ended before it could delete the file.
                if isNew { try Retirement(stepper: stepper, migration: migration).detachSource() }
                return false
            }
            try store(begun, migration)
        } catch {
            if isNew { try? stepper.detach(migration) }
            throw error
        }
        try resume()
        return true
    }

    private func attach(_ migration: MigrationRecord, _ source: MigrationSource) throws {
        guard case .file(let path) = source.location, !stepper.isAttached(migration) else {
            return try stepper.attach(migration)
        }
        try stepper.keys.trying(source.key, ofSource: FilePath.resolved(path)) { try stepper.attach(migration) }
    }

    /// The source's path as the target stores it.
    ///
    /// - Returns: `.some(nil)` for the target itself, or when a source that was to be deleted is gone.
    private func sourcePath(_ source: MigrationSource, _ retirement: SourceRetirement) throws -> String?? {
        guard case .file(let path) = source.location else { return .some(nil) }
        guard FilePath.exists(path) else {
            if retirement == .deleteFileWhenEmpty { return .some(nil) }
            throw MigrationError(
                .sourceUnavailable,
                "there is no source file \(path): check the path. If its migration has ended, leave addMigration out"
            )
        }
        let target = connection.fileName(schema: "main") ?? ""
        let resolved = FilePath.resolved(path)
        guard FilePath.identity(resolved) != FilePath.identity(target) else {
            throw MigrationError(.misuse, "the source is the target's own file: say .sameDatabase")
        }
        return FilePath.relative(resolved, toFolderOf: target)
    }

    /// Checks every table before anything is done, and leaves out those that have moved before.
    private func check(
        _ wanted: [TableMigration],
        _ migration: MigrationRecord,
        _ records: [TableRecord]
    ) throws -> [Beginning] {
        let targets = SchemaReader(connection: connection, schema: "main")
        let sources = SchemaReader(connection: connection, schema: migration.schema)
        let claims = Claims(connection: connection, migration: migration)
        let staked = migration.sourcePath == nil ? [] : try claims.all()
        var begun: [Beginning] = []
        for wish in wanted {
            guard let sourceName = wish.sourceTable, let target = try targets.table(wish.name) else { continue }
            let own = staked.first {
                SQLIdentifier.equal($0.sourceTable, sourceName) && SQLIdentifier.equal($0.targetTable, wish.name)
                    && $0.targetFile == claims.targetFile()
            }
            // It has moved; with sources that stay, this is how the next launch finds out.
            if let own, own.moved != nil {
                guard try own.targetVersion ?? 0 <= StateStore.schemaVersion(connection) else {
                    throw MigrationError(
                        .foreignState,
                        "the rows of source table \(sourceName) moved into table \(wish.name) of a newer state of this "
                            + "database: it was replaced, or restored from a backup of before. If that is meant, leave "
                            + "addMigration out",
                        table: wish.name
                    )
                }
                continue
            }
            if own != nil {
                throw MigrationError(
                    .foreignState,
                    "source table \(sourceName) is being moved into table \(wish.name), but the target does not know of it: "
                        + "the target was replaced or restored from a backup. Restore the pair together",
                    table: wish.name
                )
            }
            guard let source = try sources.table(sourceName) else {
                // Of the same file: it has moved and was dropped.
                if migration.sourcePath == nil { continue }
                throw MigrationError(
                    .missingTable,
                    "there is no table \(sourceName) in \(stepper.path(of: migration) ?? "the source")",
                    table: wish.name
                )
            }
            guard migration.sourcePath != nil || !SQLIdentifier.equal(source.name, target.name) else {
                throw MigrationError(.misuse, "table \(target.name) cannot move into itself", table: target.name)
            }
            // It has moved, and stayed.
            if try migration.sourcePath == nil && claims.hasFence(source: source.name, target: target.name) { continue }
            let from = SQLIdentifier.quoted(migration.schema) + "." + SQLIdentifier.quoted(source.name)
            try checkCondition(wish, source, from)
            let columns = try ColumnMatching(
                connection: connection,
                target: target,
                source: source,
                from: from,
                wish: wish
            ).records()
            let record = TableRecord(
                id: Identifiers.next(),
                migration: migration.id,
                target: target.name,
                source: source.name,
                condition: wish.condition,
                columns: columns,
                phase: .starting,
                watermark: nil,
                ceiling: nil,
                copied: 0,
                settled: 0,
                total: nil
            )
            let sql = MoveSQL(record: record, migration: migration, target: target, source: source)
            try Compatibility(
                connection: connection,
                target: target,
                source: source,
                sql: sql
            ).check()
            let others =
                migration.sourcePath == nil ? records.filter { $0.migration == migration.id }.map(claims.claim) : staked
            for other in others + begun.map({ claims.claim($0.record) })
            where SQLIdentifier.equal(other.sourceTable, sourceName) {
                try claims.checkDisjoint(record, other)
            }
            begun.append((record, sql))
        }
        return begun
    }

    private func checkCondition(_ wish: TableMigration, _ source: TableSchema, _ from: String) throws {
        guard let condition = wish.condition else { return }
        try RowExpression(
            connection: connection,
            source: source,
            from: from,
            text: condition,
            what: "the condition for table \(wish.name)",
            table: wish.name
        ).check()
    }

    private func store(_ begun: [Beginning], _ migration: MigrationRecord) throws {
        try transaction {
            try stepper.store.create()
            try stepper.store.save(migration)
            for (record, sql) in begun {
                try stepper.store.save(record)
                for table in sql.createTables { try connection.execute(table) }
            }
        }
    }

    /// Finishes what was begun: fences sources, lets tables move, and makes sure that sources are those that were
    /// claimed.
    func resume() throws {
        let (migrations, records) = try stepper.store.load()
        for record in records where record.phase == .starting || record.phase == .copying {
            guard let migration = migrations.first(where: { $0.id == record.migration }) else { continue }
            try stepper.attach(migration)
            let claims = Claims(connection: connection, migration: migration)
            if record.phase == .copying {
                try claims.confirm(record)
                continue
            }
            if migration.sourcePath != nil {
                _ = try? connection.execute("PRAGMA \(migration.schema).journal_mode = WAL")
                try connection.transaction { try claims.stake(record) }
                try connection.sync(schema: migration.schema)
            }
            let sql = try stepper.sql(for: record, migration)
            try transaction {
                if migration.sourcePath == nil { try claims.stake(record) }
                try raiseSequence(record, migration, sql)
                for trigger in try triggers(record, sql) { try connection.execute(trigger) }
                try connection.execute(
                    "UPDATE main.midstream_tables SET phase = ? WHERE id = ?",
                    [MigrationPhase.copying.rawValue, record.id]
                )
            }
        }
    }

    private func triggers(_ record: TableRecord, _ sql: MoveSQL) throws -> [String] {
        guard let target = try SchemaReader(connection: connection, schema: "main").table(record.target) else {
            return []
        }
        return sql.triggers(of: target)
    }

    /// Rowids that AUTOINCREMENT must not choose again are those of both sides.
    private func raiseSequence(_ record: TableRecord, _ migration: MigrationRecord, _ sql: MoveSQL) throws {
        guard let target = try SchemaReader(connection: connection, schema: "main").table(record.target),
            target.isAutoIncrement
        else { return }
        let schema = SQLIdentifier.quoted(migration.schema)
        var sequence: Int64? = try connection.fetchValue(sql.largestSourceKey)
        let hasSequence = try connection.fetchValue(
            Int64.self,
            "SELECT 1 FROM \(schema).sqlite_master WHERE name = 'sqlite_sequence'"
        )
        if hasSequence != nil {
            let old: Int64? = try connection.fetchValue(
                "SELECT seq FROM \(schema).sqlite_sequence WHERE name = ? COLLATE NOCASE",
                [record.source]
            )
            sequence = [sequence, old].compactMap { $0 }.max()
        }
        guard let sequence else { return }
        try connection.execute(
            "UPDATE main.sqlite_sequence SET seq = max(seq, ?1) WHERE name = ?2",
            [sequence, target.name]
        )
        if connection.changes == 0 {
            try connection.execute(
                "INSERT INTO main.sqlite_sequence(name, seq) VALUES (?1, ?2)",
                [target.name, sequence]
            )
        }
    }

    /// A transaction that is on the disk when it returns. Waits for writers of the process.
    private func transaction(_ body: () throws -> Void) throws {
        connection.setBusyTimeout(milliseconds: 5000)
        defer { connection.setBusyTimeout(milliseconds: 5) }
        for _ in 0..<100 {
            let done: Void? = try stepper.transaction(isDurable: true, patience: .seconds(1), body)
            if done != nil { return }
        }
        throw MigrationError(.misuse, "a write transaction of this process does not end: end it, and try again")
    }
}
