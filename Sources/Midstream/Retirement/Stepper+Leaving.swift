internal import SQLiteConnection

/// The sources that are to be let go of.
final class SourcesToLeave: StageMemory {
    /// The migrations whose sources no table needs any more, perhaps, and that have yet to be let go of; and since when
    /// somebody is waited for who has the file open.
    var waiting: [(migration: MigrationRecord, since: ContinuousClock.Instant?)] = []
    /// The sources that have been let go of, by their paths.
    var left: [String?: MigrationRecord] = [:]

    init(pageSize: Int64) {}
}

extension Stepper {
    private var leaving: SourcesToLeave { memory(SourcesToLeave.self) }

    func noteSourceToLeave(_ migration: MigrationRecord) {
        if !leaving.waiting.contains(where: { $0.migration == migration }) { leaving.waiting.append((migration, nil)) }
    }

    func noteSourceLeft(_ migration: MigrationRecord) {
        leaving.waiting.removeAll { $0.migration == migration }
        leaving.left[migration.sourcePath] = migration
    }

    /// Has SQLite remove the WALs of sources that have been let go of, once no other connection of the process has them: one that
    /// reads alone, and is the last to close a file, leaves them behind.
    func removeWALsLeft() {
        for migration in leaving.left.values where !isAttached(migration) {
            guard let path = path(of: migration), FilePath.exists(path), FilePath.exists(path + "-wal") else {
                continue
            }
            try? attach(migration)
            _ = try? connection.schemaVersion(of: migration.schema)
            try? detach(migration)
        }
    }

    /// Whether a source has yet to be let go of.
    var isLeavingSource: Bool { !leaving.waiting.isEmpty }

    /// How long others are waited for who have a file open that is to be deleted.
    private static let patienceWithOthers: Duration = .seconds(2)

    /// Notes that somebody has a source's file open.
    ///
    /// - Returns: Whether it has been so for too long. Then it stays.
    func hasWaitedToLeave(_ migration: MigrationRecord) -> Bool {
        guard let index = leaving.waiting.firstIndex(where: { $0.migration == migration }) else { return true }
        let since = leaving.waiting[index].since ?? clock.now
        leaving.waiting[index].since = since
        guard clock.now - since > Self.patienceWithOthers else { return false }
        Retirement(stepper: self, migration: migration).tellOfKeptFile()
        return true
    }

    /// Lets go of sources for which that has failed in an earlier step.
    func leaveSources() throws {
        if leaving.waiting.isEmpty { return }
        _ = try withoutPatience {
            // What called the last table done may not be on the disk yet.
            try connection.sync(schema: "main")
            for (migration, _) in leaving.waiting { try Retirement(stepper: self, migration: migration).leaveSource() }
        }
    }
}
