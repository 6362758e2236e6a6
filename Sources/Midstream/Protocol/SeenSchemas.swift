internal import SQLiteConnection

/// The versions that the schemas of the target and of a source had when Midstream last knew that all tables that move between them
/// were as they were when they began to move.
///
/// As long as both files have these versions, no program without Midstream has changed a table, its guard triggers, its fence or
/// its rowids. So a connection that opens the target need not look at each table. When a step's transaction changes a schema,
/// Midstream raises the stored version. Any other change of a schema leaves the stored version behind, and then Midstream looks at
/// each table.
struct SeenSchemas {
    let connection: Connection

    /// Whether both files have the stored versions.
    func areUnchanged(_ migration: MigrationRecord) throws -> Bool {
        let row = try connection.fetchOne(
            "SELECT target_version, source_version FROM main.midstream_migrations WHERE id = ?",
            [migration.id]
        )
        guard let row, let target = try row.get(0, as: Int64?.self), let source = try row.get(1, as: Int64?.self) else {
            return false
        }
        return try target == connection.schemaVersion()
            && source == connection.schemaVersion(of: migration.schema)
    }

    /// Stores that all tables of a migration are unchanged. Call it in the transaction of the target that has looked at them.
    func note(_ migration: MigrationRecord) throws {
        try connection.execute(
            "UPDATE main.midstream_migrations SET target_version = ?, source_version = ? WHERE id = ?",
            [
                try connection.schemaVersion(),
                try connection.schemaVersion(of: migration.schema), migration.id,
            ]
        )
    }

    /// Stores that this transaction of the target has raised the version of the target's schema.
    func raiseTarget(from former: Int64, to version: Int64) throws {
        if former == version { return }
        do {
            try connection.execute(
                """
                UPDATE main.midstream_migrations SET target_version = ?2,
                    source_version = CASE WHEN source IS NULL THEN ?2 ELSE source_version END
                WHERE target_version = ?1
                """,
                [former, version]
            )
        } catch {
            // The state is gone: these were the last tables that moved.
            guard error.isMissingTable else { throw error }
        }
    }

    /// Stores that a transaction of a source has raised the version of the source's schema.
    func raiseSource(of migration: MigrationRecord, from former: Int64, to version: Int64) throws {
        try connection.execute(
            "UPDATE main.midstream_migrations SET source_version = ?3 WHERE id = ?1 AND source_version = ?2",
            [migration.id, former, version]
        )
    }
}
