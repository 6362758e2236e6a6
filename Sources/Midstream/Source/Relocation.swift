internal import SQLiteConnection

/// Has a target and its sources find each other again where their folders have been given other paths: see
/// ``DatabaseConfiguration/sourcePath``.
///
/// Each names the other by its path. The source is told first; who dies in between does the rest the next time.
struct Relocation {
    /// The target's, before anything of a migration is looked at.
    let connection: Connection
    let keys: Keyring
    /// Where a source is by now, by the path that it had as seen from the target's folder.
    let locate: (String) -> String?

    private var target: String { connection.fileName(schema: "main").map(FilePath.resolved) ?? "" }

    /// Outside transactions.
    func run() throws {
        for tries in 1... {
            let version = try connection.schemaVersion()
            do {
                return try relocate()
            } catch {
                // Another process may have brought a table further.
                guard tries < 10, try connection.schemaVersion() != version else { throw error }
            }
        }
    }

    private func relocate() throws {
        let store = StateStore(connection: connection)
        guard try store.exists() else { return }
        let (migrations, records) = try store.load()
        for migration in migrations {
            let moving = records.filter { $0.migration == migration.id && $0.phase != .done }
            guard !moving.isEmpty, let former = migration.path(fromFolderOf: target), let path = locate(former),
                FilePath.exists(path)
            else { continue }
            do {
                try relocate(migration, moving, to: FilePath.resolved(path))
            } catch {
                // What has yet to begin keeps no database closed.
                guard moving.allSatisfy({ $0.phase == .starting }) else { throw error }
            }
        }
    }

    private func relocate(_ migration: MigrationRecord, _ records: [TableRecord], to path: String) throws {
        var relocated = migration
        relocated.sourcePath = FilePath.relative(path, toFolderOf: target)
        try SourceFile.attach(relocated, to: connection, access: .readWrite, keys: keys)
        defer { try? connection.detach(migration.schema) }
        // The claims know the new path before the target does.
        try connection.execute("PRAGMA \(migration.schema).synchronous = EXTRA")
        let claims = Claims(connection: connection, migration: relocated)
        let known = try claims.all()
        for record in records where record.phase == .copying && !known.contains(where: { $0.id == record.id }) {
            throw MigrationError(
                .foreignState,
                "\(path) is not the file that table \(record.target) moves from: have DatabaseConfiguration.sourcePath give the "
                    + "path of that one, or nil where it has not been moved",
                table: record.target
            )
        }
        // What a table of another file has taken over is read here, and claimed by that file.
        try claim(records.filter(\.isOwn), claims)
        guard !relocated.hasSource(migration.sourcePath) else { return }
        try connection.transaction {
            // Not BEGIN IMMEDIATE, which would lock the source as well.
            try WriteLock.take(connection, by: "midstream_migrations", in: "main")
            let store = StateStore(connection: connection)
            // Its last table may have gone meanwhile.
            guard try store.exists(), try store.load().migrations.contains(where: { $0.id == migration.id }) else {
                return
            }
            try store.save(relocated)
            try UnfencedClaims(connection: connection).relocate(relocated)
        }
    }

    /// Has the claims on the source name this target, unless the one that they name is there: then this is a copy of it.
    private func claim(_ records: [TableRecord], _ claims: Claims) throws {
        let own = claims.targetFile()
        func stale() throws -> [(record: TableRecord, file: String)] {
            try claims.all().filter(claims.isStale).compactMap { claim in
                guard var record = records.first(where: { $0.id == claim.id }) else { return nil }
                // The table that was asked for stays known, where its rows move on within the target.
                record.target = claim.targetTable
                return (record, claim.targetFile)
            }
        }
        guard try !stale().isEmpty else { return }
        try connection.transaction(.immediate) {
            for (record, former) in try stale() { try claims.assign(record, to: own, among: [former]) }
        }
        try connection.sync(schema: claims.migration.schema)
    }
}
