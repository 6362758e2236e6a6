import GRDB

import struct SQLiteConnection.Arguments

import class Midstream.MigrationOverlay
import struct Midstream.EncryptionKey

extension Configuration {
    /// Makes each connection of the database read and write moving tables whole.
    ///
    ///     var configuration = Configuration()
    ///     configuration.installMigrationOverlay()
    ///     let pool = try DatabasePool(path: "new.db", configuration: configuration)
    ///
    /// Call this function after the other calls of `prepareDatabase`, which may define functions and collations.
    ///
    /// - Parameter sourceKey: Gives the key of a source's file by the file's path; `nil` for files that are not encrypted.
    public mutating func installMigrationOverlay(
        sourceKey: (@Sendable (String) -> EncryptionKey?)? = nil
    ) {
        prepareDatabase { db in
            guard let handle = db.sqliteConnection else { return }
            try MigrationOverlay.install(on: handle, sourceKey: sourceKey)
        }
    }
}

extension DatabaseWriter {
    /// Tells the connections that a table has begun to move, or that it has moved.
    ///
    ///     try database.addMigration(source: .file("old.db")) { … }      // Midstream's Database
    ///     try pool.refreshMigrationOverlay()
    ///
    /// The writer's overlay is brought up to date, GRDB forgets what it knows of the schema, and a pool opens its readers anew.
    ///
    /// - Throws: The errors of `MigrationOverlay.refresh`. The overlay then stays as it was.
    public func refreshMigrationOverlay() throws {
        try writeWithoutTransaction { db in
            try db.migrationOverlay?.refresh()
            db.clearSchemaCache()
        }
        (self as? DatabasePool)?.invalidateReadOnlyConnections()
    }

    /// Takes the overlay off the writer's connection, for instance before a `DatabaseMigrator` changes tables that have moved. A pool's
    /// readers keep theirs.
    public func uninstallMigrationOverlay() throws {
        try writeWithoutTransaction { db in
            try db.migrationOverlay?.uninstall()
            db.clearSchemaCache()
        }
    }
}

extension GRDB.Database {
    /// The connection's overlay; `nil` if it has none.
    public var migrationOverlay: MigrationOverlay? { sqliteConnection.flatMap(MigrationOverlay.installed) }

    /// Runs statements that SQLite refuses on a moving table: upserts, RETURNING, UPDATE … FROM. Where no table moves, the statements
    /// run, too.
    ///
    ///     try db.executeOnMovingTables(
    ///         sql: "INSERT INTO player(id, score) VALUES (?, ?) ON CONFLICT(id) DO UPDATE SET score = excluded.score",
    ///         arguments: [7, 1000])
    ///
    /// GRDB does not see what the statements change. So observers are told that any table may have changed.
    ///
    /// - Throws: `SQLiteError` of Midstream, as on a table that is whole; `MigrationError` with code `refusedStatement` when the
    ///   statement needs all rows in one place.
    public func executeOnMovingTables(sql: String, arguments: [(any DatabaseValueConvertible)?] = []) throws {
        guard let overlay = migrationOverlay else {
            return try execute(sql: sql, arguments: StatementArguments(arguments))
        }
        try overlay.execute(sql, Arguments(arguments))
        try notifyChanges(in: .fullDatabase)
    }

    /// The rows of one such statement. If it writes, observers are told as by ``executeOnMovingTables(sql:arguments:)``.
    public func fetchAllOnMovingTables(
        sql: String,
        arguments: [(any DatabaseValueConvertible)?] = []
    ) throws -> [GRDB.Row] {
        guard let overlay = migrationOverlay else {
            return try GRDB.Row.fetchAll(self, sql: sql, arguments: StatementArguments(arguments))
        }
        let before = totalChangesCount
        let rows = try overlay.fetchAll(sql, Arguments(arguments))
        if totalChangesCount != before { try notifyChanges(in: .fullDatabase) }
        return rows.map { row in
            var values: [String: (any DatabaseValueConvertible)?] = [:]
            for (index, value) in row.values.enumerated() where values[row.columns.names[index]] == nil {
                values[row.columns.names[index]] = value.databaseValue
            }
            return GRDB.Row(values)
        }
    }
}
