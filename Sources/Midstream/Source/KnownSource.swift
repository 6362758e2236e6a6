internal import SQLiteConnection

/// The source's table as a connection knows it. Checks whether the table is still so.
///
/// Midstream's connections leave a source's table as it is. Other programs can ALTER or VACUUM it at any time, since its fence only
/// refuses writes. SQLite then raises the version of the file's schema.
final class KnownSource {
    private let record: TableRecord
    let migration: MigrationRecord
    private let table: TableSchema
    private let connection: Connection
    private var version: Int64
    /// The file's stamp when the table began to move, if the file has no fence. The outer `nil` means that the stamp has yet to be
    /// looked up.
    private var stamp: SourceStamp??
    /// The status of the file and its WAL when they were last found unchanged.
    private var seen: [FilePath.Status?] = []

    /// - Parameters:
    ///   - table: The table's description, read after `version`.
    ///   - version: The version of the source's schema.
    init(
        _ table: TableSchema,
        _ record: TableRecord,
        _ migration: MigrationRecord,
        version: Int64,
        _ connection: Connection
    ) {
        self.table = table
        self.record = record
        self.migration = migration
        self.version = version
        self.connection = connection
    }

    /// Whether the file's schema is unchanged in the current snapshot since it was last looked at.
    func isCurrent() throws -> Bool { try newVersion() == nil }

    /// The version of the source's schema, if it has changed; otherwise `nil`.
    private func newVersion() throws -> Int64? {
        // A change of the target's own file makes the overlay anew.
        guard migration.sourcePath != nil else { return nil }
        try checkUnchanged()
        let now = try connection.schemaVersion(of: migration.schema)
        return now == version ? nil : now
    }

    /// If the source has no fence, checks that nobody has written it.
    func checkUnchanged() throws {
        if stamp == nil { stamp = .some(try UnfencedClaims(connection: connection).stamp(of: record.id)) }
        guard let stamp = stamp ?? nil, let path = connection.fileName(schema: migration.schema) else { return }
        let now = [path, path + "-wal"].map(FilePath.status)
        if now == seen { return }
        try Claims(connection: connection, migration: migration).checkUnchanged(since: stamp, record)
        seen = now
    }

    /// Checks that statements made for the table read it correctly, in the connection's current snapshot.
    ///
    /// - Throws: ``MigrationError``, `sourceChanged`.
    func confirm() throws {
        guard let now = try newVersion() else { return }
        let found = try SchemaReader(connection: connection, schema: migration.schema).table(record.source)
        // New columns do no harm, unless a word of an expression now means one of them.
        guard let found, found.columns.prefix(table.columns.count) == table.columns[...],
            found.hasRowID == table.hasRowID, found.rowIDColumn == table.rowIDColumn,
            found.primaryKey == table.primaryKey, found.rowIDName == table.rowIDName
        else {
            throw MigrationError(
                .sourceChanged,
                "the columns or the key of source table \(record.source), from which table \(record.target) is moving, were "
                    + "changed by a program without Midstream: change them back, and open the database again",
                table: record.target
            )
        }
        try GuardedTable.checkWords(of: record, found)
        let claims = Claims(connection: connection, migration: migration)
        // This check comes first, since another table has other rowids as well.
        try claims.checkFence(record)
        try claims.confirm(record)
        version = now
    }

    /// Whether another file has taken the place of the file that the connection reads. Rows that return are written to the new
    /// file.
    var isReplaced: Bool { SourceFile.isReplaced(migration, on: connection) }

    /// The error for a statement that would read a table's rows without those that have returned.
    var replacement: MigrationError {
        MigrationError(
            .sourceUnavailable,
            "the file \(connection.fileName(schema: migration.schema) ?? "of the source") was replaced while rows of "
                + "table \(record.target) were returning to it: run the statement again, in a transaction of its own",
            table: record.target
        )
    }

    /// Like `confirm()`, before all rows move at once. Also checks that the source is the one from which the rows began to move.
    func confirmWhole() throws {
        try confirm()
        _ = try Claims(connection: connection, migration: migration).confirmTarget(record)
    }
}
