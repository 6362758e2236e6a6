internal import SQLText
internal import SQLiteConnection

extension Overlay {
    /// What a connection must know of a moving table before it shows it whole.
    struct Move {
        var record: TableRecord
        var migration: MigrationRecord
        var target: TableSchema
        var source: TableSchema
        /// The number of the source's schema.
        var sourceVersion: Int64
    }

    /// The moves that are under way, each of which both tables are as they were when it began. Their sources are attached.
    ///
    /// - Throws: ``MigrationError`` when a table or a source is another.
    func currentMoves(_ migrations: [MigrationRecord], _ records: [TableRecord]) throws -> [Move] {
        let moving = records.filter { $0.phase == .copying }
        if moving.isEmpty { return [] }
        // Descriptions and what they are looked up by must be of one snapshot, and so must the claims and the rows.
        if connection.isInTransaction { return try moves(migrations, records, moving) }
        try connection.execute("BEGIN")
        let found: [Move]
        do {
            found = try moves(migrations, records, moving)
        } catch {
            try? connection.rollBack()
            throw error
        }
        // It reads alone, and goes on where a page is damaged: a COMMIT would fail then. What is made next must not be undone
        // with it.
        try connection.rollBack()
        return found
    }

    private func moves(
        _ migrations: [MigrationRecord],
        _ records: [TableRecord],
        _ moving: [TableRecord]
    ) throws -> [Move] {
        let guards = try GuardTriggers(connection)
        let targets = try SchemaReader(connection: connection, schema: "main")
            .tables(moving.map(\.target), knownTables)
        var moves: [Move] = []
        for migration in migrations {
            let records = moving.filter { $0.migration == migration.id }
            if records.isEmpty { continue }
            let version = try StateStore.schemaVersion(connection, of: migration.schema)
            let sources = try SchemaReader(connection: connection, schema: migration.schema)
                .tables(records.map(\.source), knownTables)
            let claims = Claims(connection: connection, migration: migration)
            let staked = claims.isSameFile ? [] : try claims.all()
            for record in records {
                guard let target = targets[SQLIdentifier.lowercased(record.target)] else {
                    // The application dropped it; the stepper will find that out and end its migration.
                    try GuardedTable(record, guards).check(nil, nil)
                    continue
                }
                let claim = try claims.confirm(record, among: staked)
                guard let source = sources[SQLIdentifier.lowercased(record.source)] else {
                    throw Self.goneSource(record, migration)
                }
                try GuardedTable(record, guards).check(target, source)
                if let claim { try claims.checkRowIDs(claim, record, of: source, target) }
                moves.append(
                    Move(record: record, migration: migration, target: target, source: source, sourceVersion: version)
                )
            }
        }
        // As they began: of several sources of a table, each feeds the next one's union.
        let places = Dictionary(uniqueKeysWithValues: records.enumerated().map { ($1.id, $0) })
        return moves.sorted { places[$0.record.id, default: 0] < places[$1.record.id, default: 0] }
    }

    private static func goneSource(_ record: TableRecord, _ migration: MigrationRecord) -> MigrationError {
        MigrationError(
            .sourceChanged,
            "the source of table \(record.target), table \(record.source) of \(migration.sourcePath ?? "this file"), "
                + "is gone although not all of its rows have moved: restore the file",
            table: record.target
        )
    }
}
