internal import Dispatch
internal import SQLText
internal import SQLiteConnection

/// Moves rows in small transactions on a connection of its own, which has no overlay, fires no triggers unless a migration
/// asks for it, and checks no foreign keys: the whole table satisfies them.
final class Stepper {
    let connection: Connection
    let statements: InternalStatements
    let store: StateStore
    private let gate: FileGate
    private let walKeeper: WALKeeper
    let keys: Keyring
    private let clock = ContinuousClock()
    private var attached: [String: MigrationRecord] = [:]
    private var moves: [Int64: MoveSQL] = [:]
    /// The target's schema version that ``moves`` were made for. Another connection may give a table another shape.
    private var knownVersion: Int64?
    /// The number of the schema with which nothing was noted of a file that was copied as a whole.
    private var finishedVersion: Int64?
    /// The sources' tables as they were when steps began to take rows from them, by the records' ids.
    private var knownSources: [Int64: KnownSource] = [:]
    private var batch = BatchSize()
    /// The same while writers come: they wait for no more than such a batch.
    private var shortBatch = BatchSize(wanted: .microseconds(100))
    /// Until when writers of the process are expected to come, since one has waited for a step.
    private var contendedUntil = ContinuousClock().now
    private static let contention = Duration.milliseconds(500)
    private var counts: [Int64: SourceCount] = [:]
    /// The tables whose source has turned out to be damaged, and their migrations: its rows cannot be counted until all that can be
    /// read have moved.
    private var damaged: [Int64: Int64] = [:]
    /// Whether a step has just synced the WAL, so that the next one can copy it without waiting for that.
    private var isWALSynced = false
    /// For each table that waits for readers, for what, and a frame of the WAL behind that.
    var readerMarks: [WatchedFile: (milestone: Milestone, frame: Int)] = [:]
    /// How far the stages are of the tables that return to their sources.
    var undos: [Int64: Undo.Progress] = [:]
    private var undoStatements: [Int64: UndoSQL] = [:]
    /// A batch of these is on the disk of the source before the target forgets it.
    var undoBatch = BatchSize(rows: 64, wanted: .milliseconds(4), least: 64)
    /// The pages that a transaction of batches has written when it is committed, whatever time it has: the WAL holds all of them,
    /// and it may be started anew only behind a transaction.
    private let longTransaction: Int64
    private var isInGate = false
    private var commitTime: Duration = .milliseconds(1)
    private var lastCommit: (time: Duration, pages: Int64) = (.zero, 0)
    /// The migrations whose sources no table needs any more, perhaps, and that have yet to be let go of; and since when
    /// somebody is waited for who has the file open.
    private var sourcesToLeave: [(migration: MigrationRecord, since: ContinuousClock.Instant?)] = []
    /// The application's answers to what becomes of refused rows, by the table's id.
    var refusalHandlers: [Int64: @Sendable (RefusedRow) -> RefusedRowDecision] = [:]
    /// Called with what comes to pass.
    var onEvent: ((MigrationEvent) -> Void)?
    /// Called when a source's file is to be deleted and is open: has this process's connections let go of it.
    var onSourceInUse: (() -> Void)?

    /// How long to wait for a lock that another process holds, for all but steps.
    private static let longPatience: Duration = .seconds(5)
    private let lockWait: LockWait
    /// Whether a step could not lock the target, so that it need not try another table.
    private var isKeptFromTarget = false
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
        longTransaction = Self.longTransaction / max(512, pageSize)
    }

    /// Together with the pages that are in the cache, and those that the WAL has by then, 64 MB at most.
    private static let longTransaction: Int64 = 48 << 20

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
    private func detachReplaced(_ migration: MigrationRecord) throws -> Bool {
        guard !connection.isInTransaction, SourceFile.isReplaced(migration, on: connection) else { return false }
        try detach(migration)
        // What was begun is begun anew.
        counts.removeAll()
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
        damaged = damaged.filter { $0.value != migration.id }
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
                "target table \(record.target) is gone although its rows have not all moved",
                table: record.target
            )
        }
        guard let source = try SchemaReader(connection: connection, schema: migration.schema).table(record.source)
        else {
            throw MigrationError(
                .sourceChanged,
                "source table \(record.source) is gone although its rows have not all moved",
                table: record.target
            )
        }
        try GuardedTable(record, GuardTriggers(connection)).check(target, source)
        if record.phase == .copying { try Claims(connection: connection, migration: migration).checkFence(record) }
        let sql = MoveSQL(record: record, migration: migration, target: target, source: source)
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
        return try store.load()
    }

    /// What is known of a table's move may be true no longer.
    func forget(_ id: Int64) {
        moves[id] = nil
        counts[id] = nil
        undos[id] = nil
        undoStatements[id] = nil
        knownSources[id] = nil
    }

    /// Makes sure that what was made for a source's table reads it rightly, in the transaction that is open.
    func confirmSource(_ record: TableRecord) throws { try knownSources[record.id]?.confirm() }

    func undoSQL(_ record: TableRecord, _ migration: MigrationRecord) throws -> UndoSQL {
        if let sql = undoStatements[record.id] { return sql }
        let move = try sql(for: record, migration)
        // It has its columns, which a record that is read with each step has not.
        guard let whole = try store.load().tables.first(where: { $0.id == record.id }),
            let target = try SchemaReader(connection: connection, schema: "main").table(record.target),
            let source = try SchemaReader(connection: connection, schema: migration.schema).table(record.source)
        else {
            throw MigrationError(.missingTable, "table \(record.target) or its source is gone", table: record.target)
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
            let isKnown = try isCurrent()
            result = try body()
            // What it changed itself is known.
            if isKnown { knownVersion = try StateStore.schemaVersion(connection) }
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
            throw error
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
            guard let error = error as? SQLiteError, ResultCode.busy ~= error.code else { throw error }
            throw MigrationError(
                .sourceUnavailable,
                "somebody else writes \(path(of: migration) ?? "the source"), or the target, all the while, so that its tables "
                    + "cannot be closed for writes: try again when that has ended",
                cause: error
            )
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
        let done: Void?? = try withoutPatience { try holdingBothLocks(migration, of: record, waiting: nil, body) }
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
        defer { try? connection.rollBack() }
        try lockSource(migration, of: record)
        try checkInPlace(migration)
        return try holdingGate(waiting: patience) {
            do {
                try WriteLock.take(connection, by: "midstream_state", in: "main")
            } catch let error as SQLiteError where error.isMissingTable {
                return
            } catch let error as SQLiteError where ResultCode.busy ~= error.code {
                isKeptFromTarget = true
                throw error
            }
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
        for record in begun.filter({ $0.undoStage != nil }) + begun.filter({ $0.undoStage == nil }) {
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
                failure = failure ?? cause.flatMap { isRead && $0.code == .error ? failed(record, $0) : nil } ?? error
                continue
            }
            // It may have been this step that ended it, and failed after that.
            if did == nil { try leaveSources() }
            moved += did?.moved ?? 0
            let result = did?.outcome ?? .worked
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

    /// Whether an error may be one table's or one source's, and others go on: not where it is the caller's, the memory's, or
    /// whoever has interrupted it.
    private static func isOfOneSource(_ error: any Error) -> Bool {
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
            do {
                // All begin together, or none does.
                let own = records.filter { $0.migration == migration.id && $0.phase == .starting }
                try Setup(stepper: self).finishBeginning(own, migration)
            } catch {
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
        case .copying: try copy(record, migration, limit, start)
        case .copied, .retiring: (0, try Retirement(stepper: self, migration: migration).advance(record))
        }
    }

    private func copy(
        _ record: TableRecord,
        _ migration: MigrationRecord,
        _ limit: Limit,
        _ start: ContinuousClock.Instant
    ) throws -> (moved: Int64, outcome: MigrationProgress.Outcome) {
        guard let sql = try currentSQL(for: record, migration) else { return (0, .worked) }
        // Rows are counted first, so that progress can be told, and again in the end, before the table is called moved.
        let isCountable = damaged[record.id] == nil && record.unreadableRowsTable == nil
        if record.total == nil && isCountable || record.isPassed {
            guard let counted = try countReadable(record, sql, limit, start) else { return (0, .worked) }
            guard try storeCount(counted, record, RowMover(statements: statements, sql: sql)) else { return (0, .busy) }
            if record.isPassed { return (0, .worked) }
            guard case .rows = limit else { return (0, .worked) }
        }
        let copied = try firing(sql) {
            switch limit {
            case .time(let budget, _): try move(record, sql, until: start + budget)
            case .rows(let rows, _): try move(record, sql, rows: rows)
            }
        }
        return copied.map { ($0, .worked) } ?? (0, .busy)
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

    // MARK: Copying

    /// What a step tried to move: where it began, and the batch that it was at.
    private typealias Tried = (start: Position, batch: Position, upper: RowKey?)

    /// Moves batches until the time is up; `nil` when the target could not be locked. While writers come, each batch is a
    /// transaction of its own, and a short one.
    private func move(_ record: TableRecord, _ sql: MoveSQL, until deadline: ContinuousClock.Instant) throws -> Int64? {
        var moved: Int64?
        while true {
            let start = clock.now
            let isContended = start < contendedUntil
            let rows =
                try isContended
                ? move(record, sql, by: &shortBatch, until: start) : move(record, sql, by: &batch, until: deadline)
            guard let rows else { return moved }
            moved = (moved ?? 0) + rows
            let now = clock.now
            if now > deadline, !isContended, !isHeldUpBySync(now - start) { batch.shrink() }
            if rows == 0 || now >= contendedUntil || now + (now - start) >= deadline { return moved }
        }
    }

    /// Whether a transaction took its time because the disk is slow to sync, which fewer rows would not change.
    private func isHeldUpBySync(_ time: Duration) -> Bool { lastCommit.pages < 64 && lastCommit.time > time / 2 }

    /// Moves batches in one transaction, a first one in any case, until the time is up or somebody waits.
    private func move(
        _ record: TableRecord,
        _ sql: MoveSQL,
        by batch: inout BatchSize,
        until deadline: ContinuousClock.Instant
    ) throws -> Int64? {
        try moving(record, sql, atMost: batch.rows) { mover, tried in
            var moved: Int64 = 0
            while let position = try position(record, mover) {
                let start = clock.now
                let upper = try mover.key(at: batch.rows - 1, from: position, isPending: false)
                tried = (tried?.start ?? position, position, upper)
                moved += try mover.move(
                    record,
                    from: position,
                    through: upper,
                    hasLedger: hasLedger(sql),
                    undoing: .transaction
                )
                guard upper != nil else { break }
                let now = clock.now
                batch.adapt(took: now - start)
                if gate.isAwaitedByWriters { contendedUntil = now + Self.contention }
                if now + (now - start) + commitTime >= deadline || gate.isAwaited { break }
                if connection.pagesWritten + Int64(walKeeper.framesInTheWay) >= longTransaction { break }
            }
            return moved
        }
    }

    /// Moves exactly that many pending rows, or all that are left.
    private func move(_ record: TableRecord, _ sql: MoveSQL, rows: Int64) throws -> Int64? {
        guard rows > 0 else { return 0 }
        return try moving(record, sql, atMost: rows) { mover, tried in
            guard let position = try position(record, mover) else { return 0 }
            let upper = try mover.key(at: rows - 1, from: position, isPending: true)
            tried = (position, position, upper)
            return try mover.move(record, from: position, through: upper, hasLedger: true, undoing: .transaction)
        }
    }

    /// How far a table has come by now; `nil` when there is nothing to copy, as when another process has cancelled it.
    private func position(_ record: TableRecord, _ mover: RowMover) throws -> Position? {
        guard try isCurrent(), try knownSources[record.id]?.isCurrent() ?? true,
            let now = try store.table(record.id), now.isMoving
        else { return nil }
        return try mover.position(now)
    }

    /// Whether tables have the shapes that are known, in the transaction that is open.
    func isCurrent() throws -> Bool {
        try StateStore.schemaVersion(connection) == knownVersion
    }

    /// Runs `body`, which notes what it tries, in a transaction. When the target refuses a row, what comes before that is
    /// moved after all, and the row is reported.
    private func moving(
        _ record: TableRecord,
        _ sql: MoveSQL,
        atMost rows: Int64,
        _ body: (RowMover, inout Tried?) throws -> Int64
    ) throws -> Int64? {
        var tried: Tried?
        do {
            return try transaction {
                try confirm(record, sql)
                return try body(RowMover(statements: statements, sql: sql), &tried)
            }
        } catch let error as SQLiteError where ResultCode.constraint ~= error.code {
            guard let tried else { throw error }
            do {
                return try moveUpToRefused(record, sql, tried, error)
            } catch let error as SQLiteError where ResultCode.corrupt ~= error.code {
                return try moveReadable(record, sql, atMost: rows)
            }
        } catch let error as SQLiteError where ResultCode.corrupt ~= error.code {
            return try moveReadable(record, sql, atMost: rows)
        }
    }

    /// What the source of a table knows; `nil` where that is a table of the same file.
    private func claims(_ record: TableRecord) -> Claims? {
        attached.values.first { $0.id == record.migration }.map { Claims(connection: connection, migration: $0) }
    }

    /// Makes sure, in the transaction that moves rows, that they have not returned to the source, and have the rowids that
    /// they began with.
    private func confirm(_ record: TableRecord, _ sql: MoveSQL) throws {
        guard let claims = claims(record) else { return }
        // Within a transaction damage must not be met: SQLite refuses all writes then.
        let looksAtRowIDs = sql.hasImplicitKey && damaged[record.id] == nil
        _ = try looksAtRowIDs ? claims.confirm(record) : claims.confirmTarget(record)
    }

    private func hasLedger(_ sql: MoveSQL) throws -> Bool {
        let statement = try statements.statement("SELECT EXISTS (SELECT 1 FROM \(sql.ledger))")
        defer { statement.reset() }
        return try statement.step() && statement.int64(at: 0) != 0
    }

    /// Moves the rows before a batch that was refused, and that batch's one by one up to the row that the target does not
    /// take.
    private func moveUpToRefused(
        _ record: TableRecord,
        _ sql: MoveSQL,
        _ tried: Tried,
        _ error: SQLiteError
    ) throws -> Int64? {
        let mover = RowMover(statements: statements, sql: sql)
        let others = attachingOthers(of: record)
        var outcome = RefusedRows.Outcome()
        let moved: Int64? = try transaction {
            try confirm(record, sql)
            guard try position(record, mover) == tried.start, let now = try store.table(record.id) else { return 0 }
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
            outcome = try refusedRows(now, mover, others).move(from: tried.batch, through: tried.upper)
            return moved + outcome.copied
        }
        guard let moved else { return nil }
        if outcome.setAside > 0 { onEvent?(.rowsSetAside(table: record.target, count: outcome.setAside)) }
        if let refusal = outcome.refusal { throw refused(record, refusal) }
        return moved
    }

    private func refused(_ record: TableRecord, _ refusal: (key: RowKey, error: SQLiteError)) -> MigrationError {
        // Of a rebuilt table the source's name is nobody's business.
        let (target, origin, other) =
            record.isRebuild
            ? ("the new shape of table", "", ", or when the table is rebuilt once more, with another value for the row")
            : ("target table", " of source table \(record.source)", "")
        return MigrationError(
            .rowRefused,
            "\(target) \(record.target) refuses the row \(refusal.key.words)\(origin). It stays there and is read as before. "
                + "The migration goes on when it is deleted or, where a CHECK refuses it, changed so that the target takes it"
                + other,
            table: record.target,
            row: refusal.key,
            cause: refusal.error
        )
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

    /// Moves rows one by one, after a batch has met a page that is damaged.
    private func moveReadable(
        _ record: TableRecord,
        _ sql: MoveSQL,
        atMost rows: Int64
    ) throws -> Int64? {
        // It may have been restored.
        if let migration = attached.values.first(where: { $0.id == record.migration }), try detachReplaced(migration) {
            return 0
        }
        let mover = RowMover(statements: statements, sql: sql)
        damaged[record.id] = record.migration
        guard let position = try position(record, mover) else { return 0 }
        let others = attachingOthers(of: record)
        func oneByOne(_ record: TableRecord) -> UnreadableRows {
            UnreadableRows(rows: refusedRows(record, mover, others))
        }
        let survey = try oneByOne(record).survey(after: position, rows: rows)
        var outcome = UnreadableRows.Outcome()
        let moved: Int64? = try transaction {
            try confirm(record, sql)
            guard let now = try store.table(record.id), try self.position(record, mover) == position else { return 0 }
            outcome = try oneByOne(now).move(survey, policy: now.unreadableRows)
            return outcome.copied
        }
        guard let moved else { return nil }
        if outcome.setAside > 0 { onEvent?(.rowsSetAside(table: record.target, count: outcome.setAside)) }
        for damage in outcome.skipped { onEvent?(.rowsSkipped(table: record.target, keys: damage.keys(sql.key))) }
        if let refusal = outcome.refusal { throw refused(record, refusal) }
        if let damage = outcome.damage { throw unreadable(record, damage.keys(sql.key), damage.error) }
        return moved
    }

    private func refusedRows(
        _ record: TableRecord,
        _ mover: RowMover,
        _ others: Result<[MoveSQL], any Error>
    ) -> RefusedRows {
        RefusedRows(
            mover: mover,
            record: record,
            handler: refusalHandlers[record.id],
            others: others,
            connection: connection
        )
    }

    /// The other moves into a table, where the application may be asked for other values of its rows; an error matters only
    /// then. Outside transactions: their sources are attached.
    private func attachingOthers(of record: TableRecord) -> Result<[MoveSQL], any Error> {
        guard record.refusedRows == .ask else { return .success([]) }
        return Result {
            // Not by `load`, which would take tables for known that have changed since the batch was tried.
            let (migrations, records) = try store.load()
            return try records.filter { other in
                other.id != record.id && other.phase == .copying && SQLIdentifier.equal(other.target, record.target)
            }.compactMap { other in
                try migrations.first { $0.id == other.migration }.map { try sql(for: other, $0) }
            }
        }
    }

    private func unreadable(_ record: TableRecord, _ keys: UnreadableKeys?, _ error: SQLiteError) -> MigrationError {
        let place =
            switch keys {
            case .rowIDs(let rowIDs) where rowIDs.lowerBound == rowIDs.upperBound:
                "The row with rowid \(rowIDs.lowerBound)"
            case .rowIDs(let rowIDs) where rowIDs.upperBound == .max: "Rows with rowids from \(rowIDs.lowerBound) on"
            case .rowIDs(let rowIDs): "Rows with rowids from \(rowIDs.lowerBound) to \(rowIDs.upperBound)"
            case .row: "The row with the key that this error has"
            case .between: "Rows with keys between those that this error has"
            case nil: "Rows"
            }
        return MigrationError(
            .unreadableRows,
            "\(place) of source table \(record.source) cannot be read: its file is damaged. What comes before has moved to "
                + "table \(record.target). Restore the source's file, or leave them out with unreadableRows = .skip",
            table: record.target,
            unreadableKeys: keys,
            cause: error
        )
    }

    // MARK: Counting

    /// Counts the source's rows, as far as they can be read.
    ///
    /// - Returns: The count when it is complete. `nil` as well where pages are damaged, before all rows have been passed.
    private func countReadable(
        _ record: TableRecord,
        _ sql: MoveSQL,
        _ limit: Limit,
        _ start: ContinuousClock.Instant
    ) throws -> (rows: Int64, hashes: Int64?)? {
        do {
            if record.unreadableRowsTable == nil { return try count(record, sql, limit, start) }
        } catch let error as SQLiteError where ResultCode.corrupt ~= error.code {
            counts[record.id] = nil
            damaged[record.id] = record.migration
            if !record.isPassed { return nil }
        }
        do {
            return (
                try UnreadableRows(rows: refusedRows(record, RowMover(statements: statements, sql: sql), .success([])))
                    .count(),
                nil
            )
        } catch let error as SQLiteError where ResultCode.corrupt ~= error.code {
            throw unreadable(record, nil, error)
        }
    }

    /// Stores how many rows the source has; in the end, that they have moved.
    ///
    /// - Returns: `false` when the target could not be locked.
    private func storeCount(
        _ counted: (rows: Int64, hashes: Int64?),
        _ record: TableRecord,
        _ mover: RowMover
    ) throws -> Bool {
        // Who has seen to what is wrong has it counted anew.
        var isBusy = false
        defer { if !isBusy { counts[record.id] = nil } }
        let isStored: Void? = try transaction {
            guard try isCurrent(), let now = try store.table(record.id), now.isMoving, now.isPassed == record.isPassed
            else {
                return
            }
            if now.isPassed {
                _ = try claims(record)?.confirmTarget(record)
                try mover.complete(now, counted: counted.rows, hashed: counted.hashes)
            } else {
                _ = try mover.run("UPDATE main.midstream_tables SET total = ?1 WHERE id = \(record.id)") {
                    try $0.bind(counted.rows, at: 1)
                }
            }
        }
        isBusy = isStored == nil
        return !isBusy
    }

    /// Goes on counting the source's rows from the largest key down, which is not how they are copied.
    ///
    /// - Returns: The count when it is complete.
    private func count(
        _ record: TableRecord,
        _ sql: MoveSQL,
        _ limit: Limit,
        _ start: ContinuousClock.Instant
    ) throws -> (rows: Int64, hashes: Int64?)? {
        // The first count is for the progress alone, and the last one does not rest on it.
        let isLast = record.isPassed
        let hashes = record.verification == .complete && isLast
        var count = counts[record.id].flatMap { $0.isLast == isLast ? $0 : nil } ?? SourceCount(isLast: isLast)
        while !count.isComplete {
            let first = try sql.key.nearest(count.end) { shared in
                let edge = try statements.statement(sql.sliceStart(isEnded: count.end != nil, sharing: shared))
                defer { edge.reset() }
                if let end = count.end { try edge.bind(end, at: 1) }
                try edge.bind(SourceCount.rowsPerSlice - 1, at: sql.key.count + 1)
                return try edge.step() ? sql.key.read(edge) : nil
            }
            let range = sql.key.range((.before, count.end), (.from, first))
            let slice = try statements.statement(sql.countSlice(range, hashes: hashes))
            defer { slice.reset() }
            if let end = count.end { try slice.bind(end, at: 1) }
            if let first { try slice.bind(first, at: 1 + sql.key.count) }
            guard try slice.step() else { break }
            count.add(slice.int64(at: 0), hashes && !slice.isNull(at: 1) ? slice.int64(at: 1) : 0, from: first)
            if case .time(let budget, _) = limit, clock.now - start > budget / 2 { break }
        }
        counts[record.id] = count
        return count.isComplete ? (count.belonging, hashes ? count.hashes : nil) : nil
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

/// The number of rows that a batch looks at, so that several fit into a step.
struct BatchSize {
    /// Few at first: each may be of megabytes.
    private(set) var rows: Int64 = 16

    /// What a batch should take.
    var wanted = Duration.milliseconds(1)
    var least: Int64 = 1

    mutating func adapt(took time: Duration) {
        if time > wanted * 2 {
            shrink()
        } else if time < wanted {
            rows = min(rows + (time < wanted / 4 ? rows : rows / 4 + 1), 100_000)
        }
    }

    mutating func shrink() {
        rows = max(least, rows / 2)
    }
}

/// A count of the source's rows that goes on from step to step. The source does not change meanwhile.
struct SourceCount {
    static let rowsPerSlice: Int64 = 4096

    /// Whether the rows have passed by now, so that they are compared with the source as it is in the end.
    let isLast: Bool
    /// The rows from that key on are counted; `nil` before the first slice.
    private(set) var end: RowKey?
    private(set) var isComplete = false
    /// The rows that belong to the migration.
    private(set) var belonging: Int64 = 0

    /// The sum of their hashes.
    private(set) var hashes: Int64 = 0

    init(isLast: Bool) { self.isLast = isLast }

    /// - Parameter start: The first key of the slice; `nil` when it was the last one.
    mutating func add(_ belonging: Int64, _ hashes: Int64, from start: RowKey?) {
        self.belonging += belonging
        self.hashes &+= hashes
        end = start
        isComplete = start == nil
    }
}
