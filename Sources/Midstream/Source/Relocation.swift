internal import SQLiteConnection

/// Makes a target and its sources find each other again when their folders have other paths: see
/// ``DatabaseConfiguration/sourcePath``.
///
/// Each file stores the path of the other. The source is updated first; if the process dies in between, the next call does the
/// rest.
struct Relocation {
    /// The target's connection, before it looks at anything of a migration.
    let connection: Connection
    let keys: Keyring
    /// Returns the present path of a source, given the path that the source had as seen from the target's folder; `nil` if it has
    /// not moved.
    let locate: (String) -> String?

    private var target: String { connection.fileName(schema: "main").map(FilePath.resolved) ?? "" }

    /// Updates the paths. Call it outside transactions.
    func run() throws {
        for tries in 1... {
            let version = try connection.schemaVersion()
            do {
                return try relocate()
            } catch {
                // Another process may have brought a table further meanwhile.
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
                // Tables that have yet to begin must not keep the database closed.
                guard moving.allSatisfy({ $0.phase == .starting }) else { throw error }
            }
        }
    }

    private func relocate(_ migration: MigrationRecord, _ records: [TableRecord], to path: String) throws {
        var relocated = migration
        relocated.sourcePath = FilePath.relative(path, toFolderOf: target)
        try SourceFile.attach(relocated, to: connection, access: .readWrite, keys: keys)
        defer { try? connection.detach(migration.schema) }
        // The claims must have the new path on the disk before the target has it.
        try connection.execute("PRAGMA \(migration.schema).synchronous = EXTRA")
        let claims = Claims(connection: connection, migration: relocated)
        let known = try claims.all()
        for record in records where record.phase == .copying && !known.contains(where: { $0.id == record.id }) {
            throw MigrationError(
                .foreignState,
                "\(path) is not the file that table \(record.target) moves from: have DatabaseConfiguration.sourcePath "
                    + "give the path of that file, or nil if the file has not been moved",
                table: record.target
            )
        }
        // A move that another file has taken over is only read here; that file updates its claim.
        try claim(records.filter(\.isOwn), claims)
        guard !relocated.hasSource(migration.sourcePath) else { return }
        try connection.transaction {
            // BEGIN IMMEDIATE would lock the source as well.
            try WriteLock.take(connection, by: "midstream_migrations", in: "main")
            let store = StateStore(connection: connection)
            // The migration's last table may have ended meanwhile.
            guard try store.exists(), try store.load().migrations.contains(where: { $0.id == migration.id }) else {
                return
            }
            try store.save(relocated)
            try UnfencedClaims(connection: connection).relocate(relocated)
        }
    }

    /// Makes the claims on the source name this target, unless the file that they name exists: then this target is a copy of it.
    private func claim(_ records: [TableRecord], _ claims: Claims) throws {
        let own = claims.targetFile()
        func stale() throws -> [(record: TableRecord, file: String)] {
            try claims.all().filter(claims.isStale).compactMap { claim in
                guard var record = records.first(where: { $0.id == claim.id }) else { return nil }
                // If the table's rows move on within the target, the claim still names the table that was asked for.
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
