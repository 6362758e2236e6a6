internal import SQLText
internal import SQLiteConnection

/// Copies a table's rows to the target: in batches, and one by one if a batch is refused or meets a damaged page.
struct Copying {
    let stepper: Stepper
    let migration: MigrationRecord
    let sql: MoveSQL

    var connection: Connection { stepper.connection }
    var store: StateStore { stepper.store }
    var state: State { stepper.memory(State.self) }
    var clock: ContinuousClock { ContinuousClock() }
    var mover: RowMover { RowMover(statements: stepper.statements, sql: sql) }

    /// What the stage remembers from step to step.
    final class State: StageMemory {
        var batch = BatchSize()
        /// The size of batches while writers come: a writer waits for no more than such a batch.
        var shortBatch = BatchSize(wanted: .microseconds(100))
        /// The time until which writers of the process are expected to come, since one has waited for a step.
        var contendedUntil = ContinuousClock().now
        /// The size of batches of rows and entries that are built.
        var builtBatch = BatchSize()
        /// A table with fewer rows is not built, since its rows have soon moved without that.
        var leastBuilt: Int64 = 10_000
        /// How many rows that were written may be missing from a build when the live table adopts the build. Each of
        /// these rows comes to random places of the indexes while everybody else waits. If more rows are missing, they
        /// are merged before that.
        var mostUnmerged: Int64 = 1000
        /// The limit in place of ``mostUnmerged`` if the rows cannot be merged before that, or if others write so fast
        /// that more rows are missing after each merge.
        var mostUnmergedAtLast: Int64 = 5000
        /// How many entries with NULLs may be written when the live table adopts a build. SQLite's `integrity_check`
        /// finds such entries wrong until then, so as many as possible wait for the end.
        var mostNulls: Int64 = 2000
        /// How tables are built, by the tables' ids, and the schema version for which that was found out. Outer `nil`:
        /// not known; inner `nil`: the table is not built.
        var builds: [Int64: (version: Int64, build: TableBuild?)] = [:]
        /// By the tables' ids: while the target's content has this number (`PRAGMA data_version`), the table's build
        /// has all rows that were written.
        var mergedAt: [Int64: Int64] = [:]
        /// The tables that have refused a row of a build. From then on, a build looks for the rows that are refused
        /// next.
        var refusing: Set<Int64> = []
        /// How far the source's rows are counted, by the tables' ids.
        var counts: [Int64: SourceCount] = [:]
        /// The tables whose source has turned out to be damaged, and the tables' migrations. The source's rows cannot
        /// be counted until all readable rows have moved.
        var damaged: [Int64: Int64] = [:]
        /// How many pages a transaction of batches may write. Once it has written as many, it is committed, even if
        /// time is left: the WAL holds all of these pages, and can start anew only after a transaction.
        let longTransaction: Int64

        /// - Parameter pageSize: The page size of the target, in bytes.
        init(pageSize: Int64) {
            longTransaction = Copying.longTransaction / max(512, pageSize)
        }

        func forget(_ id: Int64) { counts[id] = nil }
        func forgetSource(_ migration: MigrationRecord) { damaged = damaged.filter { $0.value != migration.id } }
        func noteReplacedSource() { counts.removeAll() }
    }

    /// In bytes. Together with the pages in the cache, and those that the WAL has by then, 64 MB at most.
    private static let longTransaction: Int64 = 48 << 20
    private static let contention = Duration.milliseconds(500)

    func advance(
        _ record: TableRecord,
        _ limit: Stepper.Limit,
        _ start: ContinuousClock.Instant
    ) throws -> (moved: Int64, outcome: MigrationProgress.Outcome) {
        // The stepper counts the rows first, for the progress, and again at the end, before it calls the table moved.
        let isCountable = state.damaged[record.id] == nil && record.unreadableRowsTable == nil
        if record.total == nil && isCountable || record.isPassed {
            guard let counted = try countReadable(record, limit, start) else { return (0, .worked) }
            guard try storeCount(counted, record) else { return (0, .busy) }
            if record.isPassed { return (0, .worked) }
            guard case .rows = limit else { return (0, .worked) }
        }
        if let did = try Building(self).advance(record, limit, start) { return did }
        let copied = try stepper.firing(sql) {
            switch limit {
            case .time(let budget, _): try move(record, until: start + budget)
            case .rows(let rows, _): try move(record, rows: rows)
            }
        }
        return copied.map { ($0, .worked) } ?? (0, .busy)
    }

    /// What a step tried to move: the position at which the step began, and the batch at which it stood.
    private typealias Tried = (start: Position, batch: Position, upper: RowKey?)

    /// Moves batches until the time is up; `nil` if the target could not be locked. While writers come, each batch is a
    /// short transaction of its own.
    private func move(_ record: TableRecord, until deadline: ContinuousClock.Instant) throws -> Int64? {
        var moved: Int64?
        while true {
            let start = clock.now
            let isContended = start < state.contendedUntil
            let rows =
                try isContended
                ? move(record, by: &state.shortBatch, until: start) : move(record, by: &state.batch, until: deadline)
            guard let rows else { return moved }
            moved = (moved ?? 0) + rows
            let now = clock.now
            if now > deadline, !isContended, !isHeldUpBySync(now - start) { state.batch.shrink() }
            if rows == 0 || now >= state.contendedUntil || now + (now - start) >= deadline { return moved }
        }
    }

    /// Whether the open transaction should end, rather than do once more what has just taken `time`. It should end if
    /// the step's time would be over, if somebody waits, or if the WAL has become too long.
    func isToCommit(by deadline: ContinuousClock.Instant, beforeAnother time: Duration) -> Bool {
        let now = clock.now
        if stepper.gate.isAwaitedByWriters { state.contendedUntil = now + Self.contention }
        return now + time + stepper.commitTime >= deadline || stepper.gate.isAwaited
            || connection.pagesWritten + Int64(stepper.walKeeper.framesInTheWay) >= state.longTransaction
    }

    /// Whether a transaction took its time because the disk is slow to sync. Fewer rows would not change that.
    func isHeldUpBySync(_ time: Duration) -> Bool {
        stepper.lastCommit.pages < 64 && stepper.lastCommit.time > time / 2
    }

    /// Moves batches in one transaction, at least one, until the time is up or somebody waits.
    private func move(
        _ record: TableRecord,
        by batch: inout BatchSize,
        until deadline: ContinuousClock.Instant
    ) throws -> Int64? {
        try moving(record, atMost: batch.rows) { tried in
            var moved: Int64 = 0
            while let position = try position(record) {
                let start = clock.now
                let upper = try mover.key(at: batch.rows - 1, from: position, isPending: false)
                tried = (tried?.start ?? position, position, upper)
                moved += try mover.move(
                    record,
                    from: position,
                    through: upper,
                    hasLedger: hasLedger(),
                    undoing: .transaction
                )
                guard upper != nil else { break }
                let time = clock.now - start
                batch.adapt(took: time)
                if isToCommit(by: deadline, beforeAnother: time) { break }
            }
            return moved
        }
    }

    /// Whether the source has fewer rows than a batch, so that the table can move together with others.
    func isSmall() throws -> Bool {
        let rows = min(state.batch.rows, state.leastBuilt)
        return try !sql.firesTriggers && mover.key(at: rows - 1, from: .start, isPending: false) == nil
    }

    /// Moves all rows of a small table, and ends its copying, in the open transaction.
    func moveWhole(_ record: TableRecord) throws -> Int64 {
        guard let now = try store.table(record.id), now.isMoving else { return 0 }
        try confirm(record)
        var moved: Int64 = 0
        if let position = try mover.position(now) {
            moved = try mover.move(now, from: position, through: nil, hasLedger: hasLedger(), undoing: .transaction)
        }
        guard let passed = try store.table(record.id) else { return moved }
        let (rows, hashes) = try mover.countSource(passed)
        try mover.complete(passed, counted: rows, hashed: hashes)
        state.counts[record.id] = nil
        return moved
    }

    /// Moves exactly `rows` pending rows, or all that are left.
    private func move(_ record: TableRecord, rows: Int64) throws -> Int64? {
        guard rows > 0 else { return 0 }
        return try moving(record, atMost: rows) { tried in
            guard let position = try position(record) else { return 0 }
            let upper = try mover.key(at: rows - 1, from: position, isPending: true)
            tried = (position, position, upper)
            return try mover.move(record, from: position, through: upper, hasLedger: true, undoing: .transaction)
        }
    }

    /// How far a table has come by now; `nil` if there is nothing to copy, for instance because another process has
    /// cancelled the move.
    private func position(_ record: TableRecord) throws -> Position? {
        guard try stepper.isCurrent(record), let now = try store.table(record.id), now.isMoving else { return nil }
        return try mover.position(now)
    }

    /// Runs `body`, which notes what it tries to move, in a transaction. If the target refuses a row, the rows before
    /// that row move all the same, and the row is reported.
    private func moving(
        _ record: TableRecord,
        atMost rows: Int64,
        _ body: (inout Tried?) throws -> Int64
    ) throws -> Int64? {
        var tried: Tried?
        do {
            return try stepper.transaction {
                try confirm(record)
                let moved = try body(&tried)
                // Another program may have written meanwhile what SQLite reads without a lock.
                try stepper.checkSourceUnchanged(record)
                return moved
            }
        } catch let error as SQLiteError where ResultCode.constraint ~= error.code {
            guard let tried else { throw error }
            do {
                return try moveUpToRefused(record, tried, error)
            } catch let error as SQLiteError where ResultCode.corrupt ~= error.code {
                return try moveReadable(record, atMost: rows)
            }
        } catch let error as SQLiteError where ResultCode.corrupt ~= error.code {
            return try moveReadable(record, atMost: rows)
        }
    }

    /// Makes sure, in the transaction that moves rows, that the rows have not returned to the source, and that they
    /// still have the rowids with which the move began.
    func confirm(_ record: TableRecord) throws {
        guard let claims = stepper.claims(of: record) else { return }
        // Within a transaction, this must not meet damage: SQLite refuses all writes then.
        let looksAtRowIDs = sql.hasImplicitKey && state.damaged[record.id] == nil
        _ = try looksAtRowIDs ? claims.confirm(record) : claims.confirmTarget(record)
    }

    private func hasLedger() throws -> Bool {
        let statement = try stepper.statements.statement("SELECT EXISTS (SELECT 1 FROM \(sql.ledger))")
        defer { statement.reset() }
        return try statement.step() && statement.int64(at: 0) != 0
    }

    /// Moves the rows before a refused batch, and then the rows of the batch one by one, up to the row that the target
    /// does not take.
    private func moveUpToRefused(
        _ record: TableRecord,
        _ tried: Tried,
        _ error: SQLiteError
    ) throws -> Int64? {
        let others = attachingOthers(of: record)
        var outcome = RefusedRows.Outcome()
        let moved: Int64? = try stepper.transaction {
            try confirm(record)
            guard try position(record) == tried.start, let now = try store.table(record.id) else { return 0 }
            var moved: Int64 = 0
            if tried.start != tried.batch {
                moved = try mover.move(
                    record,
                    from: tried.start,
                    through: tried.batch.key,
                    hasLedger: true,
                    undoing: .transaction
                )
            }
            outcome = try refusedRows(now, others).move(from: tried.batch, through: tried.upper)
            return moved + outcome.copied
        }
        guard let moved else { return nil }
        outcome.report(of: record, to: stepper.onEvent)
        if let refusal = outcome.refusal { throw refused(record, refusal) }
        return moved
    }

    func refused(_ record: TableRecord, _ refusal: (key: RowKey, error: SQLiteError)) -> MigrationError {
        // The source of a rebuilt table is Midstream's own backup. Its name means nothing to the application.
        let (target, origin, other) =
            record.isRebuild
            ? ("the new shape of table", "", ", or when the table is rebuilt once more, with another value for the row")
            : ("target table", " of source table \(record.source)", "")
        return MigrationError(
            .rowRefused,
            "\(target) \(record.target) refuses the row \(refusal.key.words)\(origin). The row stays there and is "
                + "read as before. The migration goes on when the row is deleted or, where a CHECK refuses it, "
                + "changed so that the target takes it"
                + other,
            table: record.target,
            row: refusal.key,
            cause: refusal.error
        )
    }

    /// Moves rows one by one, after a batch has met a damaged page.
    private func moveReadable(_ record: TableRecord, atMost rows: Int64) throws -> Int64? {
        // The source's file may have been restored in the meantime.
        if stepper.isAttached(migration), try stepper.detachReplaced(migration) { return 0 }
        state.damaged[record.id] = record.migration
        guard let position = try position(record) else { return 0 }
        let others = attachingOthers(of: record)
        func oneByOne(_ record: TableRecord) -> UnreadableRows {
            UnreadableRows(rows: refusedRows(record, others))
        }
        let survey = try oneByOne(record).survey(after: position, rows: rows)
        var outcome = UnreadableRows.Outcome()
        let moved: Int64? = try stepper.transaction {
            try confirm(record)
            guard let now = try store.table(record.id), try self.position(record) == position else { return 0 }
            outcome = try oneByOne(now).move(survey, policy: now.unreadableRows)
            return outcome.rows.copied
        }
        guard let moved else { return nil }
        outcome.rows.report(of: record, to: stepper.onEvent)
        for damage in outcome.skipped {
            stepper.onEvent?(.rowsSkipped(table: record.target, keys: damage.keys(sql.key)))
        }
        if let refusal = outcome.rows.refusal { throw refused(record, refusal) }
        if let damage = outcome.damage { throw unreadable(record, damage.keys(sql.key), damage.error) }
        return moved
    }

    func refusedRows(
        _ record: TableRecord,
        _ others: Result<[MoveSQL], any Error>
    ) -> RefusedRows {
        RefusedRows(
            mover: mover,
            record: record,
            handler: stepper.refusalHandlers[record.id],
            others: others,
            connection: connection
        )
    }

    /// The other moves into the record's table, if the application may be asked for other values of the table's rows;
    /// an error matters only then. Call this outside transactions, since it attaches the sources of these moves.
    private func attachingOthers(of record: TableRecord) -> Result<[MoveSQL], any Error> {
        guard record.refusedRows.asks else { return .success([]) }
        return Result {
            // The stepper's own `load` would call tables known that have changed since the batch was tried.
            let (migrations, records) = try store.load()
            return try records.filter { other in
                other.id != record.id && other.phase == .copying && SQLIdentifier.equal(other.target, record.target)
            }.compactMap { other in
                try migrations.first { $0.id == other.migration }.map { try stepper.sql(for: other, $0) }
            }
        }
    }

    func unreadable(_ record: TableRecord, _ keys: UnreadableKeys?, _ error: SQLiteError) -> MigrationError {
        MigrationError(
            .unreadableRows,
            "rows of source table \(record.source) cannot be read: \(keys.map { "\($0)" } ?? "some of them"). A page "
                + "of its file is damaged. The rows before them have moved to table \(record.target). Restore the "
                + "source's file, or leave these rows out with unreadableRows = .skip",
            table: record.target,
            unreadableKeys: keys,
            cause: error
        )
    }
}
