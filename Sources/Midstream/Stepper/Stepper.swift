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
    var knownVersion: Int64?
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
    /// What stages remember, by their types.
    private var memories: [ObjectIdentifier: any StageMemory] = [:]
    /// The size of the target's pages, in bytes.
    let pageSize: Int64
    /// Whether a step has just synced the WAL, so that the next one can copy it without waiting for that.
    var isWALSynced = false
    /// For each table that waits for readers, for what, and a frame of the WAL behind that.
    var readerMarks: [WatchedFile: (milestone: Milestone, frame: Int)] = [:]
    var isInGate = false
    /// How long a COMMIT takes, on average.
    var commitTime: Duration = .milliseconds(1)
    var lastCommit: (time: Duration, pages: Int64) = (.zero, 0)
    /// The application's answers to what becomes of refused rows, by the table's id.
    var refusalHandlers: [Int64: RefusedRowPolicy.Handler] = [:]
    /// Makes a step. Whoever knows the stages sets it.
    var makeStep: (Limit) throws -> MigrationProgress.Outcome = { _ in
        throw MigrationError(.misuse, "nobody has said how this stepper makes steps")
    }
    /// Called with what comes to pass.
    var onEvent: ((MigrationEvent) -> Void)?
    /// Called when a source's file is to be deleted and is open: has this process's connections let go of it.
    var onSourceInUse: (() -> Void)?

    /// How long to wait for a lock that another process holds, for all but steps.
    static let longPatience: Duration = .seconds(5)
    let lockWait: LockWait
    /// Why tables are stopped, by their ids, where that could not be stored.
    var unstoredStops: [Int64: MigrationStop] = [:]
    /// Who has the lock, where a source cannot be written since a file is locked.
    var lockHolder = LockHolder.sourceWriter
    /// Since when steps have been kept from tables by locks, by the tables' ids, and by whose.
    var locked: [Int64: (since: ContinuousClock.Instant, holder: LockHolder)] = [:]
    /// Whether a step could not lock the target, so that it need not try another table.
    var isKeptFromTarget = false
    /// Since when steps have been kept out by others, without one that was let in.
    var busySince: ContinuousClock.Instant?

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
        pageSize =
            switch try connection.fetchValue(SQLiteValue.self, "PRAGMA main.page_size") {
            case .integer(let size): size
            case .text(let size): Int64(size) ?? 4096
            default: 4096
            }
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
        for memory in memories.values { memory.noteReplacedSource() }
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
        // The file may be another one when it is attached again.
        for memory in memories.values { memory.forgetSource(migration) }
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
        let sourceVersion = try connection.schemaVersion(of: migration.schema)
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
    func currentSQL(for record: TableRecord, _ migration: MigrationRecord) throws -> MoveSQL? {
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
        let version = try connection.schemaVersion()
        if version != knownVersion {
            moves.removeAll()
            for memory in memories.values { memory.forgetShapes() }
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
        let schema = try connection.schemaVersion()
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
            return try store.progress(of: state, outcome, moved) { record in
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
        for memory in memories.values { memory.forget(id) }
        knownSources[id] = nil
    }

    /// Makes sure that what was made for a source's table reads it rightly, in the transaction that is open.
    func confirmSource(_ record: TableRecord) throws { try knownSources[record.id]?.confirm() }

    /// Makes sure, in the transaction that is open, that nobody has written a source that has no fence.
    func checkSourceUnchanged(_ record: TableRecord) throws { try knownSources[record.id]?.checkUnchanged() }

    // MARK: What stages remember

    /// What a stage remembers.
    func memory<Memory: StageMemory>(_ type: Memory.Type) -> Memory {
        if let memory = memories[ObjectIdentifier(type)] as? Memory { return memory }
        let memory = Memory(pageSize: pageSize)
        memories[ObjectIdentifier(type)] = memory
        return memory
    }

    // MARK: Limits

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

    // MARK: What a step relies on

    /// Makes sure that the file is none that is being made of another one.
    func checkFinished() throws {
        if try isUnfinished() { try WholeFileNote.checkFinished(connection) }
    }

    func isUnfinished() throws -> Bool {
        let version = try connection.schemaVersion()
        if version == finishedVersion { return false }
        if try WholeFileNote.isUnfinished(connection) { return true }
        finishedVersion = version
        return false
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

    /// Runs what copies rows of a table with the target's triggers on, if these are to fire.
    func firing<Result>(_ sql: MoveSQL, _ body: () throws -> Result) throws -> Result {
        guard sql.firesTriggers else { return try body() }
        try connection.configure(.triggers, true)
        defer { try? connection.configure(.triggers, false) }
        return try body()
    }

    /// Whether tables have the shapes that are known, in the transaction that is open.
    func isCurrent() throws -> Bool {
        try connection.schemaVersion() == knownVersion
    }

    /// The same, and that of one table's source.
    func isCurrent(_ record: TableRecord) throws -> Bool {
        try isCurrent() && knownSources[record.id]?.isCurrent() ?? true
    }

    /// What the source of a table knows; `nil` where that is a table of the same file.
    func claims(of record: TableRecord) -> Claims? {
        attached.values.first { $0.id == record.migration }.map { Claims(connection: connection, migration: $0) }
    }
}
