internal import Dispatch
internal import SQLText
internal import SQLiteConnection

/// Moves rows in small transactions on a connection of its own. The connection has no overlay, fires no triggers unless a
/// migration asks for it, and checks no foreign keys, since the whole table satisfies them.
///
/// It has more than 15 stored properties, since all stages share its connection, its locks and its closures.
final class Stepper {
    let connection: Connection
    let statements: InternalStatements
    let store: StateStore
    let gate: FileGate
    let walKeeper: WALKeeper
    let keys: Keyring
    let clock = ContinuousClock()
    private var attached: [String: MigrationRecord] = [:]
    /// What was read of the files, and may have to be read again.
    var known = Known()
    /// The tables that do not move together with others, since that has failed: see `advanceTogether`.
    var apart: Set<Int64> = []
    /// The stages' memories, by their types.
    private var memories: [ObjectIdentifier: any StageMemory] = [:]
    /// The size of the target's pages, in bytes.
    let pageSize: Int64
    /// Whether a step has just synced the WAL, so that the next step can copy the WAL without waiting for a sync.
    var isWALSynced = false
    /// For each table that waits for readers: the milestone, and a frame of the WAL behind the milestone.
    var readerMarks: [WatchedFile: (milestone: Milestone, frame: Int)] = [:]
    var isInGate = false
    /// How long a COMMIT takes, on average.
    var commitTime: Duration = .milliseconds(1)
    var lastCommit: (time: Duration, pages: Int64) = (.zero, 0)
    /// The application's answers to what becomes of refused rows, by the table's id.
    var refusalHandlers: [Int64: RefusedRowPolicy.Handler] = [:]
    /// Makes a step. The code that knows the stages sets this closure.
    var makeStep: (Limit) throws -> MigrationProgress.Outcome = { _ in
        throw MigrationError(.misuse, "makeStep has not been set on this stepper")
    }
    /// Called with each event.
    var onEvent: ((MigrationEvent) -> Void)?
    /// Called when a source's file is to be deleted but is open. The closure makes this process's connections let go of the file.
    var onSourceInUse: (() -> Void)?

    /// How long everything but a step waits for a lock that another process holds.
    static let longPatience: Duration = .seconds(5)
    let lockWait: LockWait
    /// What keeps steps from tables.
    var obstacles = Obstacles()

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
        // Only the engine's own statements run here.
        connection.remembersSchemas = true
        try connection.configure(.foreignKeys, false)
        try connection.configure(.triggers, false)
        connection.setAuthorizer { [fired = statements.fired] event in fired.isFiring ? fired.decide(event) : .allow }
        // Without a WAL, the source must not be ahead of the target that a power loss brings back.
        try connection.setSynchronous("NORMAL", withoutWAL: "EXTRA")
        try connection.execute("PRAGMA main.cache_size = -8192")
        // The statement journal of a batch would otherwise be a file. In memory it takes at most as much as the batch.
        try connection.execute("PRAGMA temp_store = MEMORY")
        connection.setAutomaticCheckpoint(frames: 0)
        // SQLCipher 4 gives the page size as text.
        pageSize =
            switch try connection.fetchValue(SQLiteValue.self, "PRAGMA main.page_size") {
            case .integer(let size): size
            case .text(let size): Int64(size) ?? 4096
            default: 4096
            }
    }

    // MARK: Sources

    func isAttached(_ migration: MigrationRecord) -> Bool { attached[migration.schema] != nil }

    /// Attaches a migration's source for writing. Call it outside transactions.
    func attach(_ migration: MigrationRecord) throws {
        guard migration.sourcePath != nil else { return }
        if attached[migration.schema] != nil, try !detachReplaced(migration) { return }
        // The file may be attached already under another migration id: another process began first. A file that is attached twice
        // locks itself.
        for other in attached.values where other.hasSource(migration.sourcePath) { try detach(other) }
        try SourceFile.attach(migration, to: connection, access: .readWrite, keys: keys)
        // With FULL, a journal that was deleted may be back after a power loss, and undo what the target relies on.
        try connection.execute("PRAGMA \(migration.schema).synchronous = EXTRA")
        // Debian's SQLite overwrites what is deleted, which would make a DROP as long as a copy.
        try connection.execute("PRAGMA \(migration.schema).secure_delete = FAST")
        attached[migration.schema] = migration
    }

    /// Whether the source's file has been moved away or replaced since it was attached. If it has, nobody may find what is
    /// written to it.
    private func isElsewhere(_ migration: MigrationRecord) -> Bool { connection.hasMoved(schema: migration.schema) }

    /// Detaches a source in whose place there is another file.
    ///
    /// - Returns: Whether the source has been detached.
    func detachReplaced(_ migration: MigrationRecord) throws -> Bool {
        guard !connection.isInTransaction, SourceFile.isReplaced(migration, on: connection) else { return false }
        try detach(migration)
        // Stages must begin again with what they had begun.
        for memory in memories.values { memory.noteReplacedSource() }
        return true
    }

    /// Makes sure that others find the source's file where it was attached. Call it before a write of the source counts.
    func checkInPlace(_ migration: MigrationRecord) throws {
        guard migration.sourcePath != nil, isElsewhere(migration) else { return }
        throw MigrationError(
            .sourceUnavailable,
            "the file \(path(of: migration) ?? "of the source") was moved or replaced while it was open. Nothing is "
                + "lost: put the file back, or open the database anew at its new place, giving the file's path by "
                + "DatabaseConfiguration.sourcePath if it is in another folder"
        )
    }

    func detach(_ migration: MigrationRecord) throws {
        guard attached.removeValue(forKey: migration.schema) != nil else { return }
        statements.removeAll()
        known.moves.removeAll()
        // The file may be another one when it is attached again.
        for memory in memories.values { memory.forgetSource(migration) }
        apart.removeAll()
        known.loaded = nil
        known.sources = known.sources.filter { $0.value.migration.id != migration.id }
        connection.clearStatementCache()
        try connection.detach(migration.schema)
    }

    /// Detaches sources that could not be written when they were attached: SQLite only reads such a file from then on. The next
    /// step tries again.
    func detachReadOnly() {
        for migration in attached.values where connection.isReadOnly(schema: migration.schema) ?? false {
            try? detach(migration)
        }
    }

    /// Detaches the sources from which no table moves, after a beginning that was refused: SQLite attaches ten files at most.
    func detachUnneeded() {
        guard let tables = try? store.load().tables else { return }
        for migration in attached.values
        where !tables.contains(where: { $0.migration == migration.id && $0.phase != .done }) {
            try? detach(migration)
        }
    }

    /// The path of the source's file; `nil` if the source is the target's own file.
    func path(of migration: MigrationRecord) -> String? {
        migration.path(fromFolderOf: connection.fileName(schema: "main") ?? "")
    }

    /// The identity of the file that is there now; `nil` if there is none, or if the source is the target's own file.
    func sourceFile(of migration: MigrationRecord) -> String? { path(of: migration).flatMap(FilePath.lastingIdentity) }

    func sql(for record: TableRecord, _ migration: MigrationRecord) throws -> MoveSQL {
        if let sql = known.moves[record.id],
            try record.phase != .copying || known.sources[record.id]?.isCurrent() ?? false
        {
            return sql
        }
        try attach(migration)
        try known.sources[record.id]?.confirm()
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
        known.moves[record.id] = sql
        if record.phase == .copying, known.sources[record.id] == nil {
            known.sources[record.id] = KnownSource(source, record, migration, version: sourceVersion, connection)
        }
        return sql
    }

    /// The SQL with which a step works on a table whose record was read before. `nil` if the SQL does not fit because another
    /// connection has changed the table's shape in between; the next step reads the new shape.
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
        // If the schema changes in between, the transaction that counts notices that by the version.
        let version = try connection.schemaVersion()
        if version != known.version {
            known.moves.removeAll()
            for memory in memories.values { memory.forgetShapes() }
            known.version = version
        }
        return try stored()
    }

    /// Reads the stored state once more within a step. Tables that another connection has changed meanwhile do not count as
    /// known: the step goes by the records that it began with.
    func stored() throws -> (migrations: [MigrationRecord], tables: [TableRecord]) {
        try connection.isInTransaction ? store.load() : connection.readingTransaction(loadKnown)
    }

    /// The stored state, which is read again if it may have changed. Call it in a transaction that only reads.
    private func loadKnown() throws -> (migrations: [MigrationRecord], tables: [TableRecord]) {
        let schema = try connection.schemaVersion()
        let now = Known.Moment(data: try dataVersion(), changes: connection.totalChanges, schema: schema)
        if let loaded = known.loaded, loaded.moment == now { return loaded.state }
        let state = try store.load()
        known.loaded = (now, state)
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
                let moment = Known.LedgerMoment(
                    data: data,
                    watermark: record.watermark,
                    copied: record.copied,
                    settled: record.settled
                )
                if let counted = known.ledgers[record.id], counted.moment == moment { return counted.count }
                let count = try store.ledgerCount(record)
                known.ledgers[record.id] = (moment, count)
                return count
            } stop: { record in
                stop(of: record)
            }
        }
    }

    /// Forgets what is known of a table's move, since that may no longer be true.
    func forget(_ id: Int64) {
        known.moves[id] = nil
        known.ledgers[id] = nil
        for memory in memories.values { memory.forget(id) }
        known.sources[id] = nil
    }

    /// Makes sure, in the open transaction, that the SQL made for a source's table still reads the table rightly.
    func confirmSource(_ record: TableRecord) throws { try known.sources[record.id]?.confirm() }

    /// Makes sure, in the open transaction, that nobody has written a source that has no fence.
    func checkSourceUnchanged(_ record: TableRecord) throws { try known.sources[record.id]?.checkUnchanged() }

    // MARK: What stages remember

    /// The memory of a stage, which is made when it is first asked for.
    func memory<Memory: StageMemory>(_ type: Memory.Type) -> Memory {
        if let memory = memories[ObjectIdentifier(type)] as? Memory { return memory }
        let memory = Memory(pageSize: pageSize)
        memories[ObjectIdentifier(type)] = memory
        return memory
    }

    // MARK: Limits

    /// What a step may do.
    enum Limit {
        /// Work for that long, the commit included, on all tables or on the named one.
        case time(Duration, table: String?)
        /// Move that many pending rows of each table, or of the named one, however long it takes.
        case rows(Int64, table: String?)

        /// Whether a step may do anything for a table.
        func concerns(_ record: TableRecord) -> Bool {
            switch self {
            case .time(_, let table), .rows(_, let table): table.map { SQLIdentifier.equal($0, record.target) } ?? true
            }
        }
    }

    // MARK: What a step relies on

    /// Makes sure that the file is not one that is still being made of another file.
    func checkFinished() throws {
        if try isUnfinished() { try WholeFileNote.checkFinished(connection) }
    }

    func isUnfinished() throws -> Bool {
        let version = try connection.schemaVersion()
        if version == known.finishedVersion { return false }
        if try WholeFileNote.isUnfinished(connection) { return true }
        known.finishedVersion = version
        return false
    }

    /// Runs `body`, which relies on what was read of a table before.
    ///
    /// - Returns: `nil` if `body` fails because another process has brought the table further: what `body` missed is rightly
    ///   gone.
    @discardableResult
    func unlessOvertaken<Result>(_ record: TableRecord, _ body: () throws -> Result) throws -> Result? {
        do {
            return try body()
        } catch {
            guard try store.table(record.id)?.phase != record.phase else { throw error }
            return nil
        }
    }

    /// Runs `body`, which copies rows of a table. The target's triggers are on meanwhile if they are to fire.
    func firing<Result>(_ sql: MoveSQL, _ body: () throws -> Result) throws -> Result {
        guard sql.firesTriggers else { return try body() }
        try connection.configure(.triggers, true)
        defer { try? connection.configure(.triggers, false) }
        return try body()
    }

    /// Whether, in the open transaction, the target's tables have the shapes that the stepper knows.
    func isCurrent() throws -> Bool {
        try connection.schemaVersion() == known.version
    }

    /// Whether, in the open transaction, the target's tables and the source of one table have the shapes that the stepper knows.
    func isCurrent(_ record: TableRecord) throws -> Bool {
        try isCurrent() && known.sources[record.id]?.isCurrent() ?? true
    }

    /// The claims in the source of a table; `nil` if the source is a table of the same file.
    func claims(of record: TableRecord) -> Claims? {
        attached.values.first { $0.id == record.migration }.map { Claims(connection: connection, migration: $0) }
    }
}
