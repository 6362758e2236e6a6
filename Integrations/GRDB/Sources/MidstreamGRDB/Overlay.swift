import GRDB

import struct Midstream.EncryptionKey
import class Midstream.MigrationOverlay

// Makes upserts and RETURNING work on moving tables.
@_exported import enum MidstreamPreparing.Preparing

extension Configuration {
    /// Makes each connection of the database read and write moving tables whole.
    ///
    ///     var configuration = Configuration()
    ///     configuration.installMigrationOverlay()
    ///     let pool = try DatabasePool(path: "new.db", configuration: configuration)
    ///
    /// Call this function after the other calls of `prepareDatabase`, which may define functions and collations.
    ///
    /// - Parameter sourceKey: Gives the key of a source's file by the file's path; `nil` for files that are not encrypted. It needs a
    ///   GRDB that is built on the SQLCipher that Midstream is built on.
    public mutating func installMigrationOverlay(sourceKey: (@Sendable (String) -> EncryptionKey?)? = nil) {
        prepareDatabase { db in
            guard let handle = db.sqliteConnection else { return }
            try MigrationOverlay.install(on: handle, sourceKey: sourceKey)
        }
    }
}

extension DatabaseQueue {
    /// Brings the overlay up to date when a table has begun to move, or has moved; installs it if the connection has none.
    ///
    ///     try database.addMigration(source: .file("old.db")) { … }      // Midstream's Database
    ///     try queue.refreshMigrationOverlay()
    ///
    /// GRDB forgets what it knows of the schema, and observers are told that any table may have changed. Do not call this function
    /// from within an access to the queue.
    ///
    /// - Throws: The errors of `MigrationOverlay.install`. The overlay then stays as it was.
    public func refreshMigrationOverlay(sourceKey: (@Sendable (String) -> EncryptionKey?)? = nil) throws {
        try writeWithoutTransaction { try $0.refreshMigrationOverlay(sourceKey) }
        try write { try $0.notifyChanges(in: .fullDatabase) }
    }

    /// Takes the overlay off the connection, for instance before a `DatabaseMigrator` runs when all tables have moved.
    public func uninstallMigrationOverlay() throws {
        try writeWithoutTransaction { try $0.uninstallMigrationOverlay() }
    }
}

extension DatabasePool {
    /// Brings the overlays up to date when a table has begun to move, or has moved; installs the writer's if it has none.
    ///
    /// This is as for a `DatabaseQueue`. Besides, the pool opens its readers anew. Reads that are running, and snapshots, go on as they
    /// are.
    ///
    /// - Throws: The errors of `MigrationOverlay.install`. The overlay then stays as it was, and readers that the pool opens from now on
    ///   fail with the same error.
    public func refreshMigrationOverlay(sourceKey: (@Sendable (String) -> EncryptionKey?)? = nil) throws {
        defer { invalidateReadOnlyConnections() }
        try writeWithoutTransaction { try $0.refreshMigrationOverlay(sourceKey) }
        invalidateReadOnlyConnections()
        try write { try $0.notifyChanges(in: .fullDatabase) }
    }

    /// Takes the overlay off the writer's connection, for instance before a `DatabaseMigrator` runs when all tables have moved. The
    /// readers keep theirs.
    public func uninstallMigrationOverlay() throws {
        try writeWithoutTransaction { try $0.uninstallMigrationOverlay() }
    }
}

extension GRDB.Database {
    /// The connection's overlay; `nil` if it has none.
    public var migrationOverlay: MigrationOverlay? { sqliteConnection.flatMap(MigrationOverlay.installed) }

    fileprivate func refreshMigrationOverlay(_ sourceKey: (@Sendable (String) -> EncryptionKey?)?) throws {
        defer { clearSchemaCache() }
        guard let handle = sqliteConnection else { return }
        try MigrationOverlay.install(on: handle, sourceKey: sourceKey)
    }

    fileprivate func uninstallMigrationOverlay() throws {
        defer { clearSchemaCache() }
        try migrationOverlay?.uninstall()
    }
}
