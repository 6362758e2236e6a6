internal import SQLText
internal import SQLiteConnection

// Wishes about tables that are moving already.
extension Setup {
    /// Makes sure that the wishes are what is stored, as far as that can no longer change.
    func checkUnchanged(
        _ wish: TableMigration,
        _ retirement: SourceRetirement,
        _ record: TableRecord,
        _ migration: MigrationRecord,
        _ source: MigrationSource
    ) throws {
        guard record.isOwn, record.phase == .copying || record.phase == .starting else { return }
        if retirement != record.retirement {
            throw Self.changed("retirement .\(record.retirement)", "retirement .\(retirement)", record)
        }
        guard !record.columns.contains(.joined) else { return }
        // If not all rows of a table can be hashed, less is stored than was asked for.
        let isLowered = wish.verification == .complete && record.verification == .batches
        if wish.verification != record.verification, !isLowered {
            throw Self.changed("verification \(record.verification)", "\(wish.verification)", record)
        }
        // A wish that is left out stays as it was.
        if let fires = wish.firesTriggers, fires != record.firesTriggers {
            let words = ("firesTriggers = true", "firesTriggers = false")
            throw Self.changed(fires ? words.1 : words.0, fires ? words.0 : words.1, record)
        }
        // A source that cannot be attached now is checked when its tables go on moving.
        try? attach(migration, source)
        try checkColumns(wish, record, migration)
    }

    /// Makes sure that, of the tables of one file, either all or none began to move with `.deleteFileWhenEmpty`.
    func checkDeletion(_ retirement: SourceRetirement, _ migration: MigrationRecord, _ records: [TableRecord]) throws {
        guard let path = migration.sourcePath else { return }
        let other = records.first { record in
            record.migration == migration.id && record.isOwn && record.phase != .done
                && (record.retirement == .deleteFileWhenEmpty) != (retirement == .deleteFileWhenEmpty)
        }
        guard let other else { return }
        throw MigrationError(
            .misuse,
            "tables of \(path) began to move with retirement .\(other.retirement), and now retirement .\(retirement) "
                + "was asked for. If the file is to be deleted when it is empty, all of its tables that move at the "
                + "same time must ask for that"
        )
    }

    private static func changed(_ stored: String, _ asked: String, _ record: TableRecord) -> MigrationError {
        MigrationError(
            .misuse,
            "table \(record.target) began to move with \(stored), and now \(asked) was asked for. Ask for the same until "
                + "its rows have moved, or cancel its migration",
            table: record.target
        )
    }

    private func checkColumns(_ wish: TableMigration, _ record: TableRecord, _ migration: MigrationRecord) throws {
        guard migration.sourcePath == nil || stepper.isAttached(migration),
            let target = try SchemaReader(connection: connection, schema: "main").table(record.target),
            let source = try SchemaReader(connection: connection, schema: migration.schema).table(record.source)
        else { return }
        let matching = ColumnMatching(
            connection: connection,
            target: target,
            source: source,
            from: migration.name(of: source.name),
            wish: wish
        )
        if let difference = try matching.difference(from: record.columns) {
            throw Self.changed(
                "column \(difference.column) made of \(difference.stored)",
                difference.asked,
                record
            )
        }
        if let column = matching.ignoredBefore(in: record.columns) {
            throw Self.changed(
                "unmatchedColumns = .ignored, since it has no column \(column)",
                "unmatchedColumns = .refused",
                record
            )
        }
    }

    /// Whether the filter, which now chooses no table, was right before. This is so if rows of the source have moved into this
    /// database, or if a table that the filter chooses has moved on, so that a view which refuses writes has the table's name.
    ///
    /// An application repeats the calls that began a migration at each launch. The first call of a chain chooses no table once
    /// the chain has ended.
    func hasEnded(
        _ filter: (inout TableMigration) throws -> Void,
        _ migration: MigrationRecord,
        _ source: MigrationSource
    ) throws -> Bool {
        let triggers = "SELECT DISTINCT tbl_name, name FROM main.sqlite_master WHERE type = 'trigger' ORDER BY tbl_name"
        for row in try connection.fetchAll(triggers) where OwnNames.isFence(try row.get(1)) {
            var table = TableMigration(name: try row.get(0))
            try filter(&table)
            if table.sourceTable != nil { return true }
        }
        guard migration.sourcePath != nil else { return false }
        defer { stepper.detachUnneeded() }
        try attach(migration, source)
        let claims = Claims(connection: connection, migration: migration)
        return try claims.all().contains { $0.targetFile.hasSameBytes(as: claims.targetFile()) }
    }
}
