internal import SQLiteConnection

/// The file that a migration's rows come from.
enum SourceFile {
    /// Attaches the source of a migration. Outside transactions.
    ///
    /// - Throws: ``MigrationError`` when the file is missing, is no database, or cannot be read with its key; an error with
    ///   code `busy` when somebody has it locked longer than the connection waits.
    static func attach(
        _ migration: MigrationRecord,
        to connection: Connection,
        access: OpenOptions.Access,
        keys: Keyring
    ) throws {
        guard let stored = migration.sourcePath else { return }
        let path = FilePath.absolute(stored, fromFolderOf: connection.fileName(schema: "main") ?? "")
        let key = keys.key(ofSource: FilePath.resolved(path))
        do {
            try connection.attach(path, as: migration.schema, access: access, key: key)
        } catch  where ResultCode.busy ~= error.code {
            throw SQLiteError(code: error.code, message: "\(error.message): the source \(path)", sql: error.sql)
        } catch {
            if error.message.contains("must use the same text encoding") {
                throw MigrationError(
                    .unsupported,
                    "\(path) stores texts in another encoding than this database, and SQLite cannot attach such a file: make this "
                        + "one anew with the source's PRAGMA encoding, before its first table. Nothing has been changed",
                    cause: error
                )
            }
            var reason = "see the cause"
            if !FilePath.exists(path) { reason = "there is no such file; restore it" }
            if error.code == .notADatabase {
                reason = error.message
                if key == nil { reason += ", by the source of addMigration or by DatabaseConfiguration.sourceKey" }
            }
            throw MigrationError(
                .sourceUnavailable,
                "cannot open \(path), which still holds rows of tables that are moving: \(reason)",
                cause: error
            )
        }
    }
}
