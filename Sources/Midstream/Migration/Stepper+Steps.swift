internal import SQLText
internal import SQLiteConnection

/// For each table that has yet to begin, by its id: since when steps have left it alone.
private final class Beginnings: StageMemory {
    var since: [Int64: ContinuousClock.Instant] = [:]

    init(pageSize: Int64) {}
}

/// How long steps leave a table alone that has yet to begin. The process that has stored the table may still be at work
/// on it.
private let patienceWithBeginnings: Duration = .seconds(1)

/// The result of a step so far.
private struct StepResult {
    var outcome = MigrationProgress.Outcome.idle
    var moved: Int64 = 0
    /// The first error of a table. An error in one table must not stop the others, so the step throws it when all
    /// tables have had their turn.
    var failure: (any Error)?

    /// Whether the step has done nothing so far.
    var isStill: Bool { outcome == .idle || outcome == .busy }
}

// What a step does: the stages of a migration, each for the tables that have reached it.
extension Stepper {
    func step(_ limit: Limit) throws -> (outcome: MigrationProgress.Outcome, moved: Int64) {
        let start = clock.now
        let did = try step(limit, since: start)
        obstacles.busySince = did.outcome == .busy ? obstacles.busySince ?? start : nil
        return did
    }

    private func step(
        _ limit: Limit,
        since start: ContinuousClock.Instant
    ) throws -> (outcome: MigrationProgress.Outcome, moved: Int64) {
        guard let (migrations, records) = try withoutPatience({ try load() }) else { return (.busy, 0) }
        var did = StepResult()
        do {
            try leaveSources()
        } catch  where Self.isOfOneSource(error) {
            did.failure = error
        }
        guard !records.isEmpty else {
            if let failure = did.failure { throw failure }
            return (.idle, 0)
        }
        statements.fired.moving = Set(
            records.filter { $0.phase == .copying }.map { SQLIdentifier.lowercased($0.target) }
        )
        if case .time = limit, emptyLongWAL() { return (.worked, 0) }
        statements.forgetSome()
        try dropBuilds(records)
        let starting = records.filter { $0.phase == .starting && limit.concerns($0) }
        // If another file has taken a move over, that file's stepper makes the steps.
        if records.contains(where: { !$0.isOwn }) { did.outcome = .busy }
        // If this file is still being made of a whole file, its rows do not move yet.
        let isUnfinished = try isUnfinished()
        let begun = records.filter {
            $0.phase != .starting && $0.phase != .done && $0.isOwn && (!isUnfinished || $0.isReturning)
        }
        obstacles.isKeptFromTarget = false
        // Tables that return come first: whoever has cancelled their migration wants the source.
        var order = begun.filter(\.isReturning) + begun.filter { !$0.isReturning }
        if case .time(let budget, nil) = limit, order.first?.isReturning != true {
            let together = try advanceTogether(order, migrations, until: start + budget)
            did.moved = together.moved
            did.outcome = together.outcome ?? did.outcome
            order.removeAll {
                together.handled.contains($0.id) || together.outcome == .worked && !apart.contains($0.id)
            }
        }
        try advanceEach(order, migrations, limit, start, &did)
        if did.isStill, !starting.isEmpty {
            do {
                did.outcome = try resume(starting, records, migrations)
            } catch {
                did.failure = did.failure ?? error
            }
        }
        if let failure = did.failure { throw failure }
        return (did.outcome, did.moved)
    }

    /// Does what is next for tables that have begun, one after the other.
    private func advanceEach(
        _ order: [TableRecord],
        _ migrations: [MigrationRecord],
        _ limit: Limit,
        _ start: ContinuousClock.Instant,
        _ step: inout StepResult
    ) throws {
        var lockedSources: Set<Int64> = []
        for record in order {
            guard let migration = migrations.first(where: { $0.id == record.migration }) else { continue }
            guard limit.concerns(record), !lockedSources.contains(record.migration) else { continue }
            let did: (moved: Int64, outcome: MigrationProgress.Outcome)?
            do {
                did = try unlessOvertaken(record) {
                    try withoutPatience { try advance(record, migration, limit, start) } ?? (0, .busy)
                }
            } catch  where Self.isOfOneSource(error) {
                let isRead = record.isMoving
                let cause = error as? SQLiteError
                let reason: any Error =
                    cause.flatMap { isRead && $0.code == .error ? failed(record, $0) : nil } ?? error
                noteStop(record, reason)
                step.failure = step.failure ?? reason
                continue
            }
            // This step itself may have ended the move, and then failed.
            if did == nil { try leaveSources() }
            step.moved += did?.moved ?? 0
            let result = did?.outcome ?? .worked
            noteLocks(record, result)
            if result == .worked { noteProgress(record) }
            if step.isStill || result == .worked { step.outcome = result }
            if result == .busy, !obstacles.isKeptFromTarget {
                lockedSources.insert(record.migration)
                continue
            }
            // A step of a given time works on one table. A step of a given number of rows moves some rows of each
            // table.
            if case .time = limit, result != .waitingForReaders { break }
        }
    }

    /// Drops the builds of tables whose rows have moved in another way, or return.
    private func dropBuilds(_ records: [TableRecord]) throws {
        let builds = BuildStore(connection: connection)
        // The ids are read in one snapshot, since another process may end the last migration and drop the stored state.
        let ids = try connection.readingTransaction(builds.ids).filter { id in
            records.contains { $0.id == id && !($0.isMoving && $0.watermark == nil) }
        }
        if ids.isEmpty { return }
        _ = try transaction { for id in ids { try builds.drop(id) } }
    }

    /// Goes on with tables whose beginning was cut short, if the step has nothing else to do, and other processes have
    /// had time to do it.
    ///
    /// - Throws: The reason why one of them cannot begin.
    private func resume(
        _ wanted: [TableRecord],
        _ records: [TableRecord],
        _ migrations: [MigrationRecord]
    ) throws -> MigrationProgress.Outcome {
        let now = clock.now
        let beginnings = memory(Beginnings.self)
        for record in wanted where beginnings.since[record.id] == nil { beginnings.since[record.id] = now }
        let due = wanted.filter { now - (beginnings.since[$0.id] ?? now) >= patienceWithBeginnings }
        if due.isEmpty { return .busy }
        for record in due { beginnings.since[record.id] = nil }
        var failure: (any Error)?
        for migration in migrations {
            guard due.contains(where: { $0.migration == migration.id }) else { continue }
            // All tables of a migration begin together, or none does.
            let own = records.filter { $0.migration == migration.id && $0.phase == .starting }
            do {
                try Setup(stepper: self).finishBeginning(own, migration)
                for record in own { noteProgress(record) }
            } catch {
                for record in own { noteStop(record, error) }
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
        return .worked
    }

    /// Does what is next for one table.
    private func advance(
        _ record: TableRecord,
        _ migration: MigrationRecord,
        _ limit: Limit,
        _ start: ContinuousClock.Instant
    ) throws -> (moved: Int64, outcome: MigrationProgress.Outcome) {
        switch record.phase {
        case .starting, .done: (0, .idle)
        case .copying where record.isReturning: try bringBack(record, migration, limit, start)
        case .copied where record.isReturning: (0, try Undo(stepper: self, migration: migration).release(record))
        case .copying:
            // Another connection may have changed the table's shape. Then the next step reads the new shape.
            try currentSQL(for: record, migration).map {
                try Copying(stepper: self, migration: migration, sql: $0).advance(record, limit, start)
            } ?? (0, .worked)
        case .copied, .retiring: (0, try Retirement(stepper: self, migration: migration).advance(record))
        }
    }

    /// Brings rows back to the source. When the last rows are due, the step may take 200 ms more than its time, and
    /// does not yield to writers: these would be ahead again.
    private func bringBack(
        _ record: TableRecord,
        _ migration: MigrationRecord,
        _ limit: Limit,
        _ start: ContinuousClock.Instant
    ) throws -> (moved: Int64, outcome: MigrationProgress.Outcome) {
        var most = Int64.max
        if case .rows(let rows, _) = limit { most = rows }
        guard most > 0 else { return (0, .idle) }
        let (returned, outcome) = try Undo(stepper: self, migration: migration).advance(record, atMost: most) {
            guard case .time(let budget, _) = limit else { return false }
            let time = clock.now - start
            return $0 ? time > budget + .milliseconds(200) : time >= budget || gate.isAwaited
        }
        return (returned, outcome)
    }

    /// The error for an expression of the application that fails: a condition, a mapping, or a function that does not
    /// exist.
    private func failed(_ record: TableRecord, _ error: SQLiteError) -> MigrationError {
        MigrationError(
            .sqliteError,
            "the rows of source table \(record.source) cannot be read for table \(record.target): \(error.message). Nothing is lost: "
                + "the migration goes on when its condition and its columns' expressions work for all rows",
            table: record.target,
            cause: error
        )
    }

    /// Empties the WAL if steps have made it long: one step syncs it, the next one copies it into the file.
    private func emptyLongWAL() -> Bool {
        guard walKeeper.isDueForSteps else { return false }
        if isWALSynced {
            walKeeper.shorten(connection)
        } else {
            // If the sync fails, nothing is lost: the checkpoint syncs the WAL as well.
            try? connection.sync(schema: "main")
        }
        isWALSynced.toggle()
        return true
    }
}
