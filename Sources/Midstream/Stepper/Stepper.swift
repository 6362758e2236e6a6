internal import Dispatch
internal import SQLText
internal import SQLiteConnection

/// Moves rows in small transactions on a connection of its own, which has no overlay, fires no triggers unless a migration
/// asks for it, and checks no foreign keys: the whole table satisfies them.
final class Stepper {
    let connection: Connection
    let statements: InternalStatements
    let store: StateStore
    let gate: FileGate
    let walKeeper: WALKeeper
    let keys: Keyring
    let clock = ContinuousClock()
    private var attached: [String: MigrationRecord] = [:]
    private var moves: [Int64: MoveSQL] = [:]
    /// The target's schema version that ``moves`` were made for. Another connection may give a table another shape.
    private var knownVersion: Int64?
    /// The number of the schema with which nothing was noted of a file that was copied as a whole.
    private var finishedVersion: Int64?
    /// The sources' tables as they were when steps began to take rows from them, by the records' ids.
    private var knownSources: [Int64: KnownSource] = [:]
    /// The tables that do not go together with others, since that has failed: see `advanceTogether`.
    var apart: Set<Int64> = []
    /// What is stored, and what it was read with.
    private var loaded: (moment: Moment, state: (migrations: [MigrationRecord], tables: [TableRecord]))?
    /// The entries of ledgers, and what they were counted with.
    private var ledgers: [Int64: (moment: LedgerMoment, count: Int64)] = [:]
    /// How far the copying of tables is.
    let copying: Copying.State
    /// Whether a step has just synced the WAL, so that the next one can copy it without waiting for that.
    private var isWALSynced = false
    /// For each table that waits for readers, for what, and a frame of the WAL behind that.
    var readerMarks: [WatchedFile: (milestone: Milestone, frame: Int)] = [:]
    /// How far the stages are of the tables that return to their sources.
    var undos: [Int64: Undo.Progress] = [:]
    private var undoStatements: [Int64: UndoSQL] = [:]
    /// A batch of these is on the disk of the source before the target forgets it.
    var undoBatch = BatchSize(rows: 64, wanted: .milliseconds(4), least: 64)
    private var isInGate = false
    /// How long a COMMIT takes, on average.
    private(set) var commitTime: Duration = .milliseconds(1)
    private(set) var lastCommit: (time: Duration, pages: Int64) = (.zero, 0)
    /// The migrations whose sources no table needs any more, perhaps, and that have yet to be let go of; and since when
    /// somebody is waited for who has the file open.
    private var sourcesToLeave: [(migration: MigrationRecord, since: ContinuousClock.Instant?)] = []
    /// The sources that have been let go of, by their paths.
    private var sourcesLeft: [String?: MigrationRecord] = [:]
    /// The application's answers to what becomes of refused rows, by the table's id.
    var refusalHandlers: [Int64: @Sendable (RefusedRow) -> RefusedRowDecision] = [:]
    /// Called with what comes to pass.
    var onEvent: ((MigrationEvent) -> Void)?
    /// Called when a source's file is to be deleted and is open: has this process's connections let go of it.
    var onSourceInUse: (() -> Void)?

    /// How long to wait for a lock that another process holds, for all but steps.
    private static let longPatience: Duration = .seconds(5)
    private let lockWait: LockWait
    /// Why tables are stopped, by their ids, where that could not be stored.
    var unstoredStops: [Int64: MigrationStop] = [:]
    /// Who has the lock, where a source cannot be written since a file is locked.
    var lockHolder = LockHolder.sourceWriter
    /// Since when steps have been kept from tables by locks, by the tables' ids, and by whose.
    var locked: [Int64: (since: ContinuousClock.Instant, holder: LockHolder)] = [:]
    /// Whether a step could not lock the target, so that it need not try another table.
    private(set) var isKeptFromTarget = false
    /// Since when steps have been kept out by others, without one that was let in.
    private var busySince: ContinuousClock.Instant?
    /// The tables that have yet to begin, and since when steps have left them alone.
    private var waitingToBegin: [Int64: ContinuousClock.Instant] = [:]
    /// How long steps leave tables alone that have yet to begin: whoever has stored them may be at it.
    private static let patienceWithBeginnings: Duration = .seconds(1)

    init(path: String, gate: FileGate, walKeeper: WALKeeper, keys: Keyring) throws {
        connection = try Connection(path: path, options: OpenOptions(access: .readWrite, key: keys.target))
        self.keys = keys
        statements = InternalStatements(connection: connection, canPromote: false)
        store = StateStore(connection: connection)
        self.gate = gate
        self.walKeeper = walKeeper
        lockWait = LockWait(of: connection, patience: Self.longPatience)
        try StoredValue.define(on: connection)
        try RowHash.define(on: connection)
        // No statements but the engine's own run here.
        connection.remembersSchemas = true
        try connection.configure(.foreignKeys, false)
        try connection.configure(.triggers, false)
        connection.setAuthorizer { [fired = statements.fired] event in fired.isFiring ? fired.decide(event) : .allow }
        // Without a WAL, the source must not be ahead of what a power loss brings back.
        try connection.setSynchronous("NORMAL", withoutWAL: "EXTRA")
        try connection.execute("PRAGMA main.cache_size = -8192")
        // The journal of a batch's statement, which is a file otherwise, is at most as long as the batch.
        try connection.execute("PRAGMA temp_store = MEMORY")
        connection.setAutomaticCheckpoint(frames: 0)
        // SQLCipher 4 gives it as text.
        let pageSize: Int64 =
            switch try connection.fetchValue(SQLiteValue.self, "PRAGMA main.page_size") {
            case .integer(let size): size
            case .text(let size): Int64(size) ?? 4096
            default: 4096
            }
        copying = Copying.State(pageSize: pageSize)
    }

    // MARK: Sources

    func isAttached(_ migration: MigrationRecord) -> Bool { attached[migration.schema] != nil }

    /// Attaches a migration's source, so that it can be written. Outside transactions.
    func attach(_ migration: MigrationRecord) throws {
        guard migration.sourcePath != nil else { return }
        if attached[migration.schema] != nil, try !detachReplaced(migration) { return }
        // Under a number that another process's beginning was faster than. A file that is attached twice locks itself.
        for other in attached.values where other.hasSource(migration.sourcePath) { try detach(other) }
        try SourceFile.attach(migration, to: connection, access: .readWrite, keys: keys)
        // With FULL, a journal that was deleted may be back after a power loss, and undo what the target relies on.
        try connection.execute("PRAGMA \(migration.schema).synchronous = EXTRA")
        // Debian's SQLite overwrites what is deleted, which would make a DROP as long as a copy.
        try connection.execute("PRAGMA \(migration.schema).secure_delete = FAST")
        attached[migration.schema] = migration
    }

    /// Whether the source's file has been moved away or replaced since it was attached: what is written may go where nobody
    /// finds it then.
    private func isElsewhere(_ migration: MigrationRecord) -> Bool { connection.hasMoved(schema: migration.schema) }

    /// Detaches a source in whose place there is another file.
    func detachReplaced(_ migration: MigrationRecord) throws -> Bool {
        guard !connection.isInTransaction, SourceFile.isReplaced(migration, on: connection) else { return false }
        try detach(migration)
        // What was begun is begun anew.
        copying.counts.removeAll()
        return true
    }

    /// Makes sure, before what is written to the source counts, that others find it there.
    func checkInPlace(_ migration: MigrationRecord) throws {
        guard migration.sourcePath != nil, isElsewhere(migration) else { return }
        throw MigrationError(
            .sourceUnavailable,
            "the file \(path(of: migration) ?? "of the source") was moved away or replaced while it is open. Nothing is lost: put it "
                + "back, or open the database anew where it is, by DatabaseConfiguration.sourcePath if that is another folder"
        )
    }

    func detach(_ migration: MigrationRecord) throws {
        guard attached.removeValue(forKey: migration.schema) != nil else { return }
        statements.removeAll()
        moves.removeAll()
        undoStatements.removeAll()
        // The file may be another one when it is attached again.
        undos.removeAll()
        copying.damaged = copying.damaged.filter { $0.value != migration.id }
        apart.removeAll()
        loaded = nil
        knownSources = knownSources.filter { $0.value.migration.id != migration.id }
        connection.clearStatementCache()
        try connection.detach(migration.schema)
    }

    /// Detaches what could not be written when it was attached: SQLite reads it alone from then on. The next step tries again.
    func detachReadOnly() {
        for migration in attached.values where connection.isReadOnly(schema: migration.schema) ?? false {
            try? detach(migration)
        }
    }

    /// Detaches what no table moves from, after a beginning that was refused: SQLite attaches ten files at most.
    func detachUnneeded() {
        guard let tables = try? store.load().tables else { return }
        for migration in attached.values
        where !tables.contains(where: { $0.migration == migration.id && $0.phase != .done }) {
            try? detach(migration)
        }
    }

    /// Where the source's file is; `nil` when it is the target's own.
    func path(of migration: MigrationRecord) -> String? {
        migration.path(fromFolderOf: connection.fileName(schema: "main") ?? "")
    }

    /// The file that is there; `nil` where there is none, or it is the target's own.
    func sourceFile(of migration: MigrationRecord) -> String? { path(of: migration).flatMap(FilePath.lastingIdentity) }

    func sql(for record: TableRecord, _ migration: MigrationRecord) throws -> MoveSQL {
        if let sql = moves[record.id], try record.phase != .copying || knownSources[record.id]?.isCurrent() ?? false {
            return sql
        }
        try attach(migration)
        try knownSources[record.id]?.confirm()
        let sourceVersion = try StateStore.schemaVersion(connection, of: migration.schema)
        guard let target = try SchemaReader(connection: connection, schema: "main").table(record.target) else {
            throw MigrationError(
                .missingTable,
                "target table \(record.target) was dropped before all of its rows had moved: restore the target from "
                    + "a backup",
                table: record.target
            )
        }
        guard let source = try SchemaReader(connection: connection, schema: migration.schema).table(record.source)
        else {
            throw MigrationError(
                .sourceChanged,
                "source table \(record.source) was dropped before all of its rows had moved: restore the source from "
                    + "a backup",
                table: record.target
            )
        }
        try GuardedTable(record, GuardTriggers(connection, of: record.id)).check(target, source)
        if record.phase == .copying { try Claims(connection: connection, migration: migration).checkFence(record) }
        let sql = MoveSQL(record: record, migration: migration, target: target, source: source)
        if record.phase == .copying { try KeptRowIDs(connection: connection).check(sql) }
        moves[record.id] = sql
        if record.phase == .copying, knownSources[record.id] == nil {
            knownSources[record.id] = KnownSource(source, record, migration, version: sourceVersion, connection)
        }
        return sql
    }

    /// What a step of a table that was read before runs; `nil` when it does not fit since another connection has given the table
    /// another shape in between, which the next step reads.
    private func currentSQL(for record: TableRecord, _ migration: MigrationRecord) throws -> MoveSQL? {
        do {
            return try sql(for: record, migration)
        } catch {
            if try isCurrent() { throw error }
            return nil
        }
    }

    /// Reads the stored state, and forgets what belongs to older shapes of the tables.
    func load() throws -> (migrations: [MigrationRecord], tables: [TableRecord]) {
        // A change that comes in between is seen by its number, in the transaction that counts.
        let version = try StateStore.schemaVersion(connection)
        if version != knownVersion {
            moves.removeAll()
            undoStatements.removeAll()
            knownVersion = version
        }
        return try stored()
    }

    /// Reads the stored state once more within a step. Tables that another connection has changed meanwhile are not taken for known:
    /// the step goes by the records that it began with.
    func stored() throws -> (migrations: [MigrationRecord], tables: [TableRecord]) {
        try connection.isInTransaction ? store.load() : connection.readingTransaction(loadKnown)
    }

    /// When the stored state was read. What other connections commit changes the first number, what this one does the second.
    ///
    /// Source: <https://www.sqlite.org/pragma.html#pragma_data_version>.
    private struct Moment: Equatable {
        var data: Int64?
        var changes: Int64
        var schema: Int64
    }

    /// When a ledger's entries were counted: steps change a ledger only with the rest.
    private struct LedgerMoment: Equatable {
        var data: Int64?
        var watermark: Int64?
        var copied: Int64
        var settled: Int64
    }

    /// The stored state, which is read anew if it may have changed. In a transaction that only reads.
    private func loadKnown() throws -> (migrations: [MigrationRecord], tables: [TableRecord]) {
        let schema = try StateStore.schemaVersion(connection)
        let now = Moment(data: try dataVersion(), changes: connection.totalChanges, schema: schema)
        if let loaded, loaded.moment == now { return loaded.state }
        let state = try store.load()
        loaded = (now, state)
        return state
    }

    private func dataVersion() throws -> Int64? { try connection.fetchValue("PRAGMA main.data_version") }

    /// How far the migrations are.
    func readProgress(_ outcome: MigrationProgress.Outcome, _ moved: Int64) throws -> MigrationProgress {
        // In one snapshot: other processes step as well.
        try connection.readingTransaction {
            let state = try loadKnown()
            let data = try dataVersion()
            return try MigrationEngine.progress(state, store, outcome, moved) { record in
                let moment = LedgerMoment(
                    data: data,
                    watermark: record.watermark,
                    copied: record.copied,
                    settled: record.settled
                )
                if let known = ledgers[record.id], known.moment == moment { return known.count }
                let count = try store.ledgerCount(record)
                ledgers[record.id] = (moment, count)
                return count
            } stop: { record in
                stop(of: record)
            }
        }
    }

    /// What is known of a table's move may be true no longer.
    func forget(_ id: Int64) {
        moves[id] = nil
        ledgers[id] = nil
        copying.counts[id] = nil
        undos[id] = nil
        undoStatements[id] = nil
        knownSources[id] = nil
    }

    /// Makes sure that what was made for a source's table reads it rightly, in the transaction that is open.
    func confirmSource(_ record: TableRecord) throws { try knownSources[record.id]?.confirm() }

    /// Makes sure, in the transaction that is open, that nobody has written a source that has no fence.
    func checkSourceUnchanged(_ record: TableRecord) throws { try knownSources[record.id]?.checkUnchanged() }

    func undoSQL(_ record: TableRecord, _ migration: MigrationRecord) throws -> UndoSQL {
        if let sql = undoStatements[record.id] { return sql }
        let move = try sql(for: record, migration)
        // It has its columns, which a record that is read with each step has not.
        guard let whole = try store.load().tables.first(where: { $0.id == record.id }),
            let target = try SchemaReader(connection: connection, schema: "main").table(record.target),
            let source = try SchemaReader(connection: connection, schema: migration.schema).table(record.source)
        else {
            throw MigrationError(
                .missingTable,
                "table \(record.target), whose rows return, or its source table "
                    + "\(record.source) was dropped: restore the files from a backup",
                table: record.target
            )
        }
        let sql = try UndoSQL(whole, move, target: target, source: source)
        undoStatements[record.id] = sql
        return sql
    }

    // MARK: Transactions

    /// Runs `body` in a transaction of the target that keeps out the process's writers; `nil` when they, or another
    /// process, keep it out.
    ///
    /// - Parameter patience: How long to wait for the process's writers; `nil`: as long as a step does.
    func transaction<Result>(
        isDurable: Bool = false,
        patience: Duration? = nil,
        _ body: () throws -> Result
    ) throws -> Result? {
        try holdingGate(waiting: patience) {
            try transactionInGate(isDurable: isDurable, body)
        } ?? nil
    }

    /// Keeps out the process's writers while `body` runs; `nil` when they keep it out.
    func holdingGate<Result>(waiting patience: Duration? = nil, _ body: () throws -> Result) throws -> Result? {
        if isInGate { return try body() }
        guard gate.enterForStep(waiting: patience ?? max(patienceOfSteps, .milliseconds(10))) else {
            isKeptFromTarget = true
            return nil
        }
        isInGate = true
        defer {
            isInGate = false
            gate.leaveStep()
        }
        return try body()
    }

    /// Runs `body`, which waits for so long where another process holds a lock.
    private func waiting<Result>(_ patience: Duration, _ body: () throws -> Result) rethrows -> Result {
        let former = lockWait.patience
        lockWait.patience = patience
        defer { lockWait.patience = former }
        return try body()
    }

    /// How long a step waits for a lock: hardly, since it can be made later; but a tenth of the time for which others have kept
    /// steps out, up to a bound. Without a WAL, readers that come and go all the while would keep them out for ever.
    private var patienceOfSteps: Duration {
        let shortest: Duration = .milliseconds(5)
        return busySince.map { min(max((clock.now - $0) / 10, shortest), .milliseconds(250)) } ?? shortest
    }

    /// Runs `body`, which waits for another process's locks as long as a step does, and gives up when one cannot be had.
    ///
    /// - Returns: `nil` then: without a WAL, whoever commits keeps out those who read as well.
    func withoutPatience<Result>(_ body: () throws -> Result) throws -> Result? {
        do {
            return try waiting(patienceOfSteps, body)
        } catch let error as SQLiteError where ResultCode.busy ~= error.code {
            return nil
        }
    }

    /// A transaction that is on the disk when it returns. Waits for writers of the process.
    func waitingTransaction(_ body: () throws -> Void) throws {
        try untilDone { try transaction(isDurable: true, patience: .seconds(1), body) }
    }

    /// How long others' transactions are waited for.
    static let patience = Duration.seconds(30)

    /// Tries until something is done, for as long as others are waited for.
    func untilDone<Result>(_ body: () throws -> Result?) throws -> Result {
        let deadline = clock.now + Self.patience
        repeat {
            if let result = try body() { return result }
        } while clock.now < deadline
        throw MigrationError(
            .misuse,
            "a transaction of this process, or of another that uses the file, does not end: end it, and try again"
        )
    }

    private func transactionInGate<Result>(
        isDurable: Bool,
        _ body: () throws -> Result
    ) throws -> Result? {
        do {
            try WriteLock.begin(connection)
        } catch let error as SQLiteError where ResultCode.busy ~= error.code {
            isKeptFromTarget = true
            return nil
        }
        let result: Result
        let versionBefore = knownVersion
        do {
            let former = try StateStore.schemaVersion(connection)
            result = try body()
            let version = try StateStore.schemaVersion(connection)
            try SeenSchemas(connection: connection).raiseTarget(from: former, to: version)
            // What it changed itself is known.
            if former == versionBefore { knownVersion = version }
            #if DEBUG
                if let broken = try store.checkInvariants() { preconditionFailure(broken) }
            #endif
            let start = clock.now
            guard try commitUnlessBusy() else {
                isKeptFromTarget = true
                knownVersion = versionBefore
                return nil
            }
            lastCommit = (clock.now - start, connection.takePagesWritten())
            commitTime = (commitTime * 3 + lastCommit.time) / 4
            walKeeper.stepped(Int(lastCommit.pages))
        } catch {
            knownVersion = versionBefore
            // Also after a COMMIT that could not be had: it would keep readers out.
            try? connection.rollBack()
            throw Self.namingFullDisk(of: connection.fileName(schema: "main"), error)
        }
        if isDurable { try connection.sync(schema: "main") }
        return result
    }

    /// - Returns: `false` when readers keep it out, as they do without a WAL; then it has been rolled back.
    private func commitUnlessBusy() throws -> Bool {
        do {
            try connection.execute("COMMIT")
            return true
        } catch {
            guard ResultCode.busy ~= error.code else { throw error }
            try connection.rollBack()
            return false
        }
    }

    /// Writes the source in a transaction that is on the disk when it returns. The target's lock is held as well, so that
    /// `body` may rely on what it finds there; nothing of the target is written.
    ///
    /// Where the state has gone with the last migration, there is nothing to do any more.
    func writeSource(_ migration: MigrationRecord, of record: TableRecord, _ body: () throws -> Void) throws {
        do {
            try waiting(Self.longPatience) {
                try untilDone { try holdingBothLocks(migration, of: record, waiting: .seconds(1), body) }
            }
        } catch {
            guard let error = error as? SQLiteError, ResultCode.busy ~= error.code else {
                throw Self.namingFullDisk(of: path(of: migration), error)
            }
            throw isLocked(migration, cause: error)
        }
        try connection.sync(schema: migration.schema)
    }

    /// The same in a step, which tries once.
    ///
    /// - Returns: `nil` when somebody else writes one of the files.
    func writeSourceAtOnce(
        _ migration: MigrationRecord,
        of record: TableRecord,
        _ body: () throws -> Void
    ) throws -> Void? {
        let done: Void??
        do {
            done = try withoutPatience { try holdingBothLocks(migration, of: record, waiting: nil, body) }
        } catch {
            throw Self.namingFullDisk(of: path(of: migration), error)
        }
        guard let done = done ?? nil else { return nil }
        try connection.sync(schema: migration.schema)
        return done
    }

    /// - Parameter patience: For how long writers of the process are waited for; `nil` for as long as a step does.
    /// - Returns: `nil` when they keep it from the target.
    private func holdingBothLocks(
        _ migration: MigrationRecord,
        of record: TableRecord,
        waiting patience: Duration?,
        _ body: () throws -> Void
    ) throws -> Void? {
        try connection.execute("BEGIN")
        defer { if connection.isInTransaction { try? connection.rollBack() } }
        lockHolder = .sourceWriter
        try lockSource(migration, of: record)
        try checkInPlace(migration)
        return try holdingGate(waiting: patience) {
            lockHolder = .targetWriter
            do {
                try WriteLock.take(connection, by: "midstream_state", in: "main")
            } catch let error as SQLiteError where error.isMissingTable {
                return
            } catch let error as SQLiteError where ResultCode.busy ~= error.code {
                isKeptFromTarget = true
                throw error
            }
            lockHolder = .sourceReader
            try body()
            try connection.execute("COMMIT")
        }
    }

    /// Keeps others from writing the source, in the transaction that is open. Where neither of the tables is there, as when
    /// a program without Midstream has dropped one that was about to move, there is nothing to write.
    private func lockSource(_ migration: MigrationRecord, of record: TableRecord) throws {
        for table in ["midstream_claims", record.source] {
            do {
                return try WriteLock.take(connection, by: table, in: migration.schema)
            } catch {
                // It may be a view as well.
                guard error.code == .error else { throw error }
            }
        }
    }

    // MARK: One step

    /// What a step may do.
    enum Limit {
        /// Work for that long, the commit included, at all tables or at that one.
        case time(Duration, table: String?)
        /// Move so many pending rows of each table, or of that one, however long it takes.
        case rows(Int64, table: String?)

        /// Whether a step may do anything for a table.
        func concerns(_ record: TableRecord) -> Bool {
            switch self {
            case .time(_, let table), .rows(_, let table): table.map { SQLIdentifier.equal($0, record.target) } ?? true
            }
        }
    }

    func step(_ limit: Limit) throws -> (outcome: MigrationProgress.Outcome, moved: Int64) {
        let start = clock.now
        let did = try step(limit, since: start)
        busySince = did.outcome == .busy ? busySince ?? start : nil
        return did
    }

    /// Makes sure that the file is none that is being made of another one.
    func checkFinished() throws {
        if try isUnfinished() { try WholeFile.checkFinished(connection) }
    }

    private func isUnfinished() throws -> Bool {
        let version = try StateStore.schemaVersion(connection)
        if version == finishedVersion { return false }
        if try WholeFile.isUnfinished(connection) { return true }
        finishedVersion = version
        return false
    }

    private func step(
        _ limit: Limit,
        since start: ContinuousClock.Instant
    ) throws -> (outcome: MigrationProgress.Outcome, moved: Int64) {
        guard let (migrations, records) = try withoutPatience({ try load() }) else { return (.busy, 0) }
        // What keeps one table keeps no other.
        var failure: (any Error)?
        do {
            try leaveSources()
        } catch  where Self.isOfOneSource(error) {
            failure = error
        }
        guard !records.isEmpty else {
            if let failure { throw failure }
            return (.idle, 0)
        }
        statements.fired.moving = Set(
            records.filter { $0.phase == .copying }.map { SQLIdentifier.lowercased($0.target) }
        )
        if case .time = limit, emptyLongWAL() { return (.worked, 0) }
        statements.forgetSome()
        try dropBuilds(records)
        let starting = records.filter { $0.phase == .starting && limit.concerns($0) }
        // Another file's stepper moves what that has taken over.
        var outcome = records.contains { !$0.isOwn } ? MigrationProgress.Outcome.busy : .idle
        var moved: Int64 = 0
        // Rows of a file that is being made do not move yet.
        let isUnfinished = try isUnfinished()
        let begun = records.filter {
            $0.phase != .starting && $0.phase != .done && $0.isOwn && (!isUnfinished || $0.undoStage != nil)
        }
        isKeptFromTarget = false
        var lockedSources: Set<Int64> = []
        // Who has cancelled one wants its source.
        var order = begun.filter { $0.undoStage != nil } + begun.filter { $0.undoStage == nil }
        if case .time(let budget, nil) = limit, order.first?.undoStage == nil {
            let together = try advanceTogether(order, migrations, until: start + budget)
            moved = together.moved
            outcome = together.outcome ?? outcome
            order.removeAll {
                together.handled.contains($0.id) || together.outcome == .worked && !apart.contains($0.id)
            }
        }
        for record in order {
            guard let migration = migrations.first(where: { $0.id == record.migration }) else { continue }
            guard limit.concerns(record), !lockedSources.contains(record.migration) else { continue }
            let did: (moved: Int64, outcome: MigrationProgress.Outcome)?
            do {
                did = try unlessOvertaken(record) {
                    try withoutPatience { try advance(record, migration, limit, start) } ?? (0, .busy)
                }
            } catch  where Self.isOfOneSource(error) {
                let isRead = record.phase == .copying && record.undoStage == nil
                let cause = error as? SQLiteError
                let reason: any Error =
                    cause.flatMap { isRead && $0.code == .error ? failed(record, $0) : nil } ?? error
                noteStop(record, reason)
                failure = failure ?? reason
                continue
            }
            // It may have been this step that ended it, and failed after that.
            if did == nil { try leaveSources() }
            moved += did?.moved ?? 0
            let result = did?.outcome ?? .worked
            noteLocks(record, result)
            if result == .worked { noteProgress(record) }
            if outcome == .idle || outcome == .busy || result == .worked { outcome = result }
            if result == .busy, !isKeptFromTarget {
                lockedSources.insert(record.migration)
                continue
            }
            // In time, one table after the other; by rows, a piece of each.
            if case .time = limit, result != .waitingForReaders { break }
        }
        if outcome == .idle || outcome == .busy, !starting.isEmpty {
            do {
                outcome = try resume(starting, records, migrations)
            } catch {
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
        return (outcome, moved)
    }

    /// Drops what was built of tables whose rows have moved otherwise, or return.
    private func dropBuilds(_ records: [TableRecord]) throws {
        let builds = BuildStore(connection: connection)
        // In one snapshot: another process may end the last migration, and its state goes.
        let ids = try connection.readingTransaction(builds.ids).filter { id in
            records.contains { $0.id == id && !($0.isMoving && $0.watermark == nil) }
        }
        if ids.isEmpty { return }
        _ = try transaction { for id in ids { try builds.drop(id) } }
    }

    /// Whether an error may be one table's or one source's, and others go on: not where it is the caller's, the memory's, or
    /// whoever has interrupted it.
    static func isOfOneSource(_ error: any Error) -> Bool {
        let known = error as? MigrationError
        if known?.code == .misuse { return false }
        guard let cause = error as? SQLiteError ?? known?.cause else { return known != nil }
        return ![ResultCode.outOfMemory, .interrupt, .misuse].contains { $0 ~= cause.code }
    }

    /// Goes on with tables whose beginning was cut short, where a step has nothing else to do, and others have had time to.
    ///
    /// - Throws: Why one of them cannot begin.
    private func resume(
        _ wanted: [TableRecord],
        _ records: [TableRecord],
        _ migrations: [MigrationRecord]
    ) throws -> MigrationProgress.Outcome {
        let now = clock.now
        for record in wanted where waitingToBegin[record.id] == nil { waitingToBegin[record.id] = now }
        let due = wanted.filter { now - (waitingToBegin[$0.id] ?? now) >= Self.patienceWithBeginnings }
        if due.isEmpty { return .busy }
        for record in due { waitingToBegin[record.id] = nil }
        var failure: (any Error)?
        for migration in migrations {
            guard due.contains(where: { $0.migration == migration.id }) else { continue }
            // All begin together, or none does.
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

    func noteSourceToLeave(_ migration: MigrationRecord) {
        if !sourcesToLeave.contains(where: { $0.migration == migration }) { sourcesToLeave.append((migration, nil)) }
    }

    func noteSourceLeft(_ migration: MigrationRecord) {
        sourcesToLeave.removeAll { $0.migration == migration }
        sourcesLeft[migration.sourcePath] = migration
    }

    /// Has SQLite remove the WALs of sources that have been let go of, once no other connection of the process has them: one that
    /// reads alone, and is the last to close a file, leaves them behind.
    func removeWALsLeft() {
        for migration in sourcesLeft.values where !isAttached(migration) {
            guard let path = path(of: migration), FilePath.exists(path), FilePath.exists(path + "-wal") else {
                continue
            }
            try? attach(migration)
            _ = try? StateStore.schemaVersion(connection, of: migration.schema)
            try? detach(migration)
        }
    }

    /// Whether a source has yet to be let go of.
    var isLeavingSource: Bool { !sourcesToLeave.isEmpty }

    /// How long others are waited for who have a file open that is to be deleted.
    private static let patienceWithOthers: Duration = .seconds(2)

    /// Notes that somebody has a source's file open.
    ///
    /// - Returns: Whether it has been so for too long. Then it stays.
    func hasWaitedToLeave(_ migration: MigrationRecord) -> Bool {
        guard let index = sourcesToLeave.firstIndex(where: { $0.migration == migration }) else { return true }
        let since = sourcesToLeave[index].since ?? clock.now
        sourcesToLeave[index].since = since
        guard clock.now - since > Self.patienceWithOthers else { return false }
        Retirement(stepper: self, migration: migration).tellOfKeptFile()
        return true
    }

    /// Lets go of sources for which that has failed in an earlier step.
    private func leaveSources() throws {
        if sourcesToLeave.isEmpty { return }
        _ = try withoutPatience {
            // What called the last table done may not be on the disk yet.
            try connection.sync(schema: "main")
            for (migration, _) in sourcesToLeave { try Retirement(stepper: self, migration: migration).leaveSource() }
        }
    }

    /// Runs `body`, which relies on what was read of a table before.
    ///
    /// - Returns: `nil` when it fails since another process has brought the table further: what was missed is rightly gone.
    @discardableResult
    func unlessOvertaken<Result>(_ record: TableRecord, _ body: () throws -> Result) throws -> Result? {
        do {
            return try body()
        } catch {
            guard try store.table(record.id)?.phase != record.phase else { throw error }
            return nil
        }
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
        case .copying where record.undoStage != nil: try bringBack(record, migration, limit, start)
        case .copied where record.undoStage != nil: (0, try Undo(stepper: self, migration: migration).release(record))
        case .copying:
            // Another connection may have given the table another shape, which the next step reads.
            try currentSQL(for: record, migration).map {
                try Copying(stepper: self, migration: migration, sql: $0).advance(record, limit, start)
            } ?? (0, .worked)
        case .copied, .retiring: (0, try Retirement(stepper: self, migration: migration).advance(record))
        }
    }

    /// Brings rows back to the source. When the last ones have come up, the time does not count: writers would be ahead again.
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

    /// Runs what copies rows of a table with the target's triggers on, if these are to fire.
    func firing<Result>(_ sql: MoveSQL, _ body: () throws -> Result) throws -> Result {
        guard sql.firesTriggers else { return try body() }
        try connection.configure(.triggers, true)
        defer { try? connection.configure(.triggers, false) }
        return try body()
    }

    /// Whether tables have the shapes that are known, in the transaction that is open.
    func isCurrent() throws -> Bool {
        try StateStore.schemaVersion(connection) == knownVersion
    }

    /// The same, and that of one table's source.
    func isCurrent(_ record: TableRecord) throws -> Bool {
        try isCurrent() && knownSources[record.id]?.isCurrent() ?? true
    }

    /// What the source of a table knows; `nil` where that is a table of the same file.
    func claims(of record: TableRecord) -> Claims? {
        attached.values.first { $0.id == record.migration }.map { Claims(connection: connection, migration: $0) }
    }

    /// An expression of the application's fails: a condition or a mapping, or a function that is not there.
    private func failed(_ record: TableRecord, _ error: SQLiteError) -> MigrationError {
        MigrationError(
            .sqliteError,
            "the rows of source table \(record.source) cannot be read for table \(record.target): \(error.message). Nothing is lost: "
                + "the migration goes on when its condition and its columns' expressions work for all rows",
            table: record.target,
            cause: error
        )
    }

    // MARK: The WAL

    /// Empties the WAL if steps have made it long: one step syncs it, the next one copies it into the file.
    private func emptyLongWAL() -> Bool {
        guard walKeeper.isDueForSteps else { return false }
        if isWALSynced {
            walKeeper.shorten(connection)
        } else {
            // A failure loses nothing: the checkpoint syncs for itself.
            try? connection.sync(schema: "main")
        }
        isWALSynced.toggle()
        return true
    }
}
