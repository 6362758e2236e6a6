internal import SQLText
internal import SQLiteConnection

extension Overlay {
    /// What a connection must know of a moving table to show all of its rows.
    struct Move {
        var record: TableRecord
        var migration: MigrationRecord
        var target: TableSchema
        var source: TableSchema
        /// The version of the source's schema.
        var sourceVersion: Int64
        /// The functions that the guard triggers name as a fence.
        var fences: Set<String>
        /// The guard trigger for INSERT.
        var insertGuard: String?
    }

    /// The moves that are under way. Both tables of each must be as they were when the move began. The sources must be attached.
    ///
    /// - Throws: ``MigrationError`` when a table or a source has become another.
    func currentMoves(_ migrations: [MigrationRecord], _ records: [TableRecord]) throws -> [Move] {
        let moving = records.filter { $0.phase == .copying }
        if moving.isEmpty { return [] }
        // The descriptions of tables and the texts by which they are looked up must come from one snapshot; so must the claims
        // and the rows.
        if connection.isInTransaction { return try moves(moving, migrations) }
        return try connection.readingTransaction { try moves(moving, migrations) }
    }

    /// What is read of a source once, for all tables that move from it.
    private struct Side {
        var migration: MigrationRecord
        var version: Int64
        var tables: [String: TableSchema]
        var claims: Claims
        var staked: [Claims.Claim]
        /// `staked`, by the claims' ids.
        var stakedByID: [Int64: Claims.Claim]
        var fenced: [Int64: String]
    }

    private func side(_ migration: MigrationRecord, _ moving: [TableRecord]) throws -> Side {
        let claims = Claims(connection: connection, migration: migration)
        let staked = claims.isSameFile ? [] : try claims.all()
        return Side(
            migration: migration,
            version: try connection.schemaVersion(of: migration.schema),
            tables: try SchemaReader(connection: connection, schema: migration.schema).tables(
                moving.filter { $0.migration == migration.id }.map(\.source),
                knownTables
            ),
            claims: claims,
            staked: staked,
            stakedByID: Dictionary(staked.map { ($0.id, $0) }) { first, _ in first },
            fenced: try claims.fencedTables()
        )
    }

    private func moves(_ moving: [TableRecord], _ migrations: [MigrationRecord]) throws -> [Move] {
        let guards = try GuardTriggers(connection)
        let targets = try SchemaReader(connection: connection, schema: "main")
            .tables(moving.map(\.target), knownTables)
        var sides: [Int64: Side] = [:]
        for migration in migrations where moving.contains(where: { $0.migration == migration.id }) {
            sides[migration.id] = try side(migration, moving)
        }
        let kept = try KeptRowIDs(connection: connection).kept()
        // In the order in which the moves began: if a table has several sources, the union table of each is the next one's
        // target.
        return try moving.compactMap { record in
            guard let side = sides[record.migration] else { return nil }
            guard let target = targets[SQLIdentifier.lowercased(record.target)] else {
                // The application dropped the target table; the stepper will find that out and end the table's migration.
                try GuardedTable(record, guards).check(nil, nil)
                return nil
            }
            if MoveSQL.keepsRowIDs(
                target: target,
                source: side.tables[SQLIdentifier.lowercased(record.source)],
                side.migration
            ),
                !kept.contains(record.id)
            {
                throw KeptRowIDs.isLost(record.target)
            }
            let claim = try side.claims.confirm(record, among: side.stakedByID)
            guard let source = side.tables[SQLIdentifier.lowercased(record.source)] else {
                throw Self.goneSource(record, side.migration)
            }
            try GuardedTable(record, guards).check(target, source)
            try side.claims.checkFence(record, side.fenced, among: side.staked)
            if let claim { try side.claims.checkRowIDs(claim, record, of: source, target) }
            return Move(
                record: record,
                migration: side.migration,
                target: target,
                source: source,
                sourceVersion: side.version,
                fences: Set(MoveSQL.guards.compactMap { guards.fences[MoveSQL.trigger($0, record.id)] }),
                insertGuard: guards.text(ofInsert: record.id)
            )
        }
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

extension Overlay {
    /// The name of the column that is the rowid of a table; `nil` if there is none.
    func rowIDColumn(of name: ObjectName) throws -> String? {
        for schema in name.schema.map({ [$0] }) ?? ["temp", "main"] {
            if let table = try SchemaReader(connection: connection, schema: schema).table(name.name) {
                return table.rowIDColumn.map { table.columns[$0].name }
            }
        }
        return nil
    }
}
