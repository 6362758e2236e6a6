internal import SQLiteConnection
internal import SQLText

/// The file that a migration's rows come from.
enum SourceFile {
    /// Attaches the source of a migration. Outside transactions.
    ///
    /// - Throws: ``MigrationError`` when the file is missing or is no database.
    static func attach(_ migration: MigrationRecord, to connection: Connection, access: OpenOptions.Access) throws {
        guard let stored = migration.sourcePath else { return }
        let path = FilePath.absolute(stored, fromFolderOf: connection.fileName(schema: "main") ?? "")
        let schema = SQLIdentifier.quoted(migration.schema)
        do {
            let statement = try connection.prepare("ATTACH ?1 AS \(schema)")
            try statement.bind(FilePath.uri(path, mode: access == .readOnly ? "ro" : "rw"), at: 1)
            try statement.run()
        } catch {
            throw MigrationError(
                .sourceUnavailable,
                "cannot open \(path), which still holds rows of tables that are moving: "
                    + (FilePath.exists(path) ? "see the cause" : "there is no such file; restore it"),
                cause: error
            )
        }
        do {
            // The first read, which is where a file that is no database shows.
            _ = try connection.fetchValue(Int64.self, "SELECT count(*) FROM \(schema).sqlite_master")
        } catch {
            try? connection.execute("DETACH \(schema)")
            throw MigrationError(
                .sourceUnavailable,
                "cannot read \(path), which still holds rows of tables that are moving: see the cause",
                cause: error
            )
        }
    }
}
