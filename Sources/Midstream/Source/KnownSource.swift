internal import SQLiteConnection

/// The source's table as a connection knows it, and whether it still is so.
///
/// Midstream's connections leave a source's table as it is. Other programs can alter or VACUUM it at any time, since its
/// fence refuses writes alone; SQLite then raises the number of the file's schema.
final class KnownSource {
    private let record: TableRecord
    let migration: MigrationRecord
    private let table: TableSchema
    private let connection: Connection
    private var version: Int64
    /// What the file looked like when the table began to move, where it has no fence; `nil` where that has yet to be looked up.
    private var stamp: SourceStamp??
    /// The file and its WAL, when they were last found unchanged.
    private var seen: [FilePath.Status?] = []

    /// - Parameters:
    ///   - table: As it was read after `version`.
    ///   - version: The number of the source's schema.
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

    /// Whether nothing has changed the file's schema since it was looked at last, in the current snapshot.
    func isCurrent() throws -> Bool { try newVersion() == nil }

    /// The number of the source's schema, where it is another than before.
    private func newVersion() throws -> Int64? {
        // What changes the target's own file makes the overlay anew.
        guard migration.sourcePath != nil else { return nil }
        try checkUnchanged()
        let now = try connection.schemaVersion(of: migration.schema)
        return now == version ? nil : now
    }

    /// Makes sure that nobody has written a source that has no fence.
    func checkUnchanged() throws {
        if stamp == nil { stamp = .some(try UnfencedClaims(connection: connection).stamp(of: record.id)) }
        guard let stamp = stamp ?? nil, let path = connection.fileName(schema: migration.schema) else { return }
        let now = [path, path + "-wal"].map(FilePath.status)
        if now == seen { return }
        try Claims(connection: connection, migration: migration).checkUnchanged(since: stamp, record)
        seen = now
    }

    /// Makes sure that statements which were made for the table read it rightly, in the connection's current snapshot.
    ///
    /// - Throws: ``MigrationError``, `sourceChanged`.
    func confirm() throws {
        guard let now = try newVersion() else { return }
        let found = try SchemaReader(connection: connection, schema: migration.schema).table(record.source)
        // Columns that are new are nobody's, but for what an expression has as a word.
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
        // First, since another table has other rowids as well.
        try claims.checkFence(record)
        try claims.confirm(record)
        version = now
    }

    /// Whether the connection reads a file in whose place there is another one: what returns is written there.
    var isReplaced: Bool { SourceFile.isReplaced(migration, on: connection) }

    /// What a statement is told that would read a table's rows without those that have returned.
    var replacement: MigrationError {
        MigrationError(
            .sourceUnavailable,
            "the file \(connection.fileName(schema: migration.schema) ?? "of the source") was replaced while rows of table "
                + "\(record.target) return to it: run the statement again, in a transaction of its own",
            table: record.target
        )
    }

    /// The same before all rows move at once, and that the source is the one that they began to move from.
    func confirmWhole() throws {
        try confirm()
        _ = try Claims(connection: connection, migration: migration).confirmTarget(record)
    }
}
