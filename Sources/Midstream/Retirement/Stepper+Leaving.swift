internal import SQLiteConnection

/// The sources that are to be let go of.
final class SourcesToLeave: StageMemory {
    /// The migrations whose sources have yet to be let go of, since perhaps no table needs them any more; and the time
    /// since when the stepper has waited for somebody who has the file open.
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

    /// Makes SQLite remove the WALs of sources that have been let go of, once no other connection of the process has
    /// these files open. A connection that only reads, and is the last to close a file, leaves the WAL behind.
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

    /// How long the stepper waits for others who have a file open that is to be deleted.
    private static let patienceWithOthers: Duration = .seconds(2)

    /// Notes that somebody has a source's file open.
    ///
    /// - Returns: Whether somebody has had the file open for too long. Then the file stays.
    func hasWaitedToLeave(_ migration: MigrationRecord) -> Bool {
        guard let index = leaving.waiting.firstIndex(where: { $0.migration == migration }) else { return true }
        let since = leaving.waiting[index].since ?? clock.now
        leaving.waiting[index].since = since
        guard clock.now - since > Self.patienceWithOthers else { return false }
        Retirement(stepper: self, migration: migration).tellOfKeptFile()
        return true
    }

    /// Lets go of sources if an earlier step has failed to do so.
    func leaveSources() throws {
        if leaving.waiting.isEmpty { return }
        _ = try withoutPatience {
            // The commit that called the last table done may not be on the disk yet.
            try connection.sync(schema: "main")
            for (migration, _) in leaving.waiting { try Retirement(stepper: self, migration: migration).leaveSource() }
        }
    }
}
