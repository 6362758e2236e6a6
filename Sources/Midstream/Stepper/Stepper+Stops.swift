internal import SQLiteConnection

// The first step that fails on a table stores why the table is stopped, so that other processes can report it too.
extension Stepper {
    /// Notes that a step has failed on a table.
    func noteStop(_ record: TableRecord, _ error: any Error) {
        let known = error as? MigrationError
        guard let known = known ?? (error as? SQLiteError).map({ MigrationError(.sqliteError, $0.message, cause: $0) })
        else {
            return
        }
        let stop = MigrationStop(known)
        if record.stop == stop {
            obstacles.unstoredStops[record.id] = nil
            return
        }
        // The file itself may be what fails. Then only this process reports the stop.
        obstacles.unstoredStops[record.id] = stop
        let stored: Void?? =
            try? withoutPatience {
                try transaction {
                    if try store.table(record.id) != nil { try Stops(connection: connection).note(stop, of: record.id) }
                }
            } ?? nil
        if stored != nil { obstacles.unstoredStops[record.id] = nil }
    }

    /// Forgets why a table was stopped, since a step has made progress with the table.
    func noteProgress(_ record: TableRecord) {
        obstacles.unstoredStops[record.id] = nil
        guard record.stop != nil else { return }
        _ = try? withoutPatience { try transaction { try Stops(connection: connection).forget(record.id) } }
    }

    /// Why the table of that record is stopped; `nil` if the table is not stopped.
    func stop(of record: TableRecord) -> MigrationStop? {
        if let stop = obstacles.unstoredStops[record.id] ?? record.stop { return stop }
        guard let lock = obstacles.locked[record.id], clock.now - lock.since > Self.patienceWithLocks,
            record.phase != .done,
            let migration = try? store.load().migrations.first(where: { $0.id == record.migration })
        else { return nil }
        return MigrationStop(isLocked(migration, by: lock.holder))
    }

    /// The error. If a file could not be written because its disk is full, the error gets a message that names the file.
    static func namingFullDisk(of path: String?, _ error: any Error) -> any Error {
        guard let path, var full = error as? SQLiteError, ResultCode.full ~= full.code else { return error }
        full.message =
            "the disk of \(path) is full. Nothing is lost, and what was being written has been undone: make room on the disk, and try again"
        return full
    }

    // MARK: Locks

    /// What keeps steps from tables.
    struct Obstacles {
        /// By the tables' ids, why tables are stopped, for as long as this could not be stored.
        var unstoredStops: [Int64: MigrationStop] = [:]
        /// The transaction that holds the lock, if a source cannot be written because a file is locked.
        var lockHolder = LockHolder.sourceWriter
        /// By the tables' ids, since when locks have kept steps from a table, and who holds the lock.
        var locked: [Int64: (since: ContinuousClock.Instant, holder: LockHolder)] = [:]
        /// Whether a step could not lock the target. The step then need not try another table.
        var isKeptFromTarget = false
        /// Since when others have kept out every step; `nil` if the last step was let in.
        var busySince: ContinuousClock.Instant?
    }

    /// The transaction whose lock keeps a file from being written.
    enum LockHolder {
        /// A transaction that writes the source.
        case sourceWriter
        /// A transaction that reads the source, which has no WAL.
        case sourceReader
        /// A transaction that writes the target, or that reads the target if this has no WAL.
        case targetWriter
    }

    /// How long a file must be locked before its table is called stopped: transactions come and go.
    private static let patienceWithLocks: Duration = .seconds(1)

    /// Notes whether a lock has kept a step from a table.
    func noteLocks(_ record: TableRecord, _ outcome: MigrationProgress.Outcome) {
        guard outcome == .busy else {
            obstacles.locked[record.id] = nil
            return
        }
        obstacles.locked[record.id] = (
            obstacles.locked[record.id]?.since ?? clock.now, obstacles.isKeptFromTarget ? .targetWriter : .sourceWriter
        )
    }

    func isLocked(_ migration: MigrationRecord, by holder: LockHolder? = nil, cause: SQLiteError? = nil)
        -> MigrationError
    {
        let target = connection.fileName(schema: "main") ?? "the target"
        let source = path(of: migration) ?? target
        let reason =
            switch holder ?? obstacles.lockHolder {
            case .sourceWriter: "another connection is writing \(source)"
            case .targetWriter: "another connection is writing \(target)"
            case .sourceReader:
                "another connection is reading \(source), which has no WAL, so the file cannot be written before the "
                    + "reader's transaction ends"
            }
        return MigrationError(
            .locked,
            "\(reason). The connection may belong to this process or to another; a SELECT that was not read to its end "
                + "also holds a lock. Nothing is lost: end its transaction, and try again",
            cause: cause
        )
    }

    /// Whether an error may concern only one table or one source, so that the others go on. It does not if the caller has misused
    /// a function, if memory is short, or if somebody has interrupted the step.
    static func isOfOneSource(_ error: any Error) -> Bool {
        let known = error as? MigrationError
        if known?.code == .misuse { return false }
        guard let cause = error as? SQLiteError ?? known?.cause else { return known != nil }
        return ![ResultCode.outOfMemory, .interrupt, .misuse].contains { $0 ~= cause.code }
    }
}
