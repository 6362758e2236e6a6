internal import Dispatch
internal import SQLText
public import SQLiteConnection

/// A database file, with one connection that writes and a pool that reads, whose tables may be moving.
///
///     let database = try Database(path: "new.db")
///     try database.addMigration(source: .file("old.db")) { table in
///         if table.name == "messages" { table.sourceTable = "old_messages" }
///     }
///     try database.write { try $0.execute("DELETE FROM messages WHERE id = ?", [7]) }
///     while try !database.stepMigration().isFinished {}
///
/// From `addMigration` on, and in every process that opens the file after, the target's tables are read and written as
/// if all rows were there.
///
/// Unchecked Sendable: `writer` is touched on `writerQueue` alone; everything else is Sendable by itself.
public final class Database: @unchecked Sendable {
    /// The file's path, without links.
    public let path: String
    let configuration: DatabaseConfiguration
    let writer: DatabaseAccess
    private let writerQueue = DispatchQueue(label: "midstream.writer")
    private let writerKey = DispatchSpecificKey<Bool>()
    let readers: ReaderPool
    private let walKeeper: WALKeeper
    let engine: MigrationEngine
    let counters = StatementCounters()

    /// Opens a file, and goes on with the migrations that are stored in it.
    ///
    /// - Parameters:
    ///   - path: The file's path.
    ///   - key: The key of an encrypted file, or of one that is made; `nil` for a file that is not encrypted. Needs the
    ///     package trait `SQLCipher`.
    ///   - configuration: How the file is used.
    /// - Throws: ``/SQLiteConnection/SQLiteError`` when it cannot be opened, or the key does not fit;
    ///   ``MigrationError`` when a source that still holds rows cannot be reached: the tables would silently lack them.
    public init(
        path: String,
        key: EncryptionKey? = nil,
        configuration: DatabaseConfiguration = DatabaseConfiguration()
    ) throws {
        guard !path.isEmpty, path != ":memory:", !path.hasPrefix("file:") else {
            throw MigrationError(.misuse, "\"\(path)\" is not the path of a file: a database needs a file")
        }
        let connection = try Self.openingOneThatOthersMake(path) { try Self.openToWrite(path, key, configuration) }
        let keys = Keyring(target: key, sources: configuration.sourceKey)
        let resolved = try Self.resolved(path)
        if let locate = configuration.sourcePath {
            try Relocation(connection: connection, keys: keys, locate: locate).run()
        }
        self.path = resolved
        self.configuration = configuration
        let gate = FileGate.gate(forFile: resolved)
        let knownTables = KnownTables()
        readers = ReaderPool(capacity: configuration.readerCount) { [counters] in
            try DatabaseAccess(
                connection: Self.openToRead(resolved, key, configuration),
                kind: .reader,
                keys: keys,
                knownTables: knownTables,
                counters: counters
            )
        }
        let walKeeper = WALKeeper { [readers] in readers.withoutReaders(for: $0, $1) }
        self.walKeeper = walKeeper
        engine = try MigrationEngine(
            path: resolved,
            gate: gate,
            walKeeper: walKeeper,
            keys: keys,
            makesWholeFile: configuration.movesWholeFile,
            inspecting: connection
        )
        writer = try DatabaseAccess(
            connection: connection,
            kind: .writer,
            gate: gate,
            keys: keys,
            knownTables: knownTables,
            counters: counters
        )
        Self.keepShortWALs(of: connection, walKeeper)
        writerQueue.setSpecific(key: writerKey, value: true)
        writer.onDrain = { [engine] tables, sql in engine.report(.drained(tables: tables, sql: sql)) }
        writer.onSchemaChange = { [engine] in engine.noteSchemaChange() }
        // If the file is being made of a whole file, its tables begin to move before the overlay is made.
        if try !configuration.movesWholeFile || !WholeFileNote.isUnfinished(connection) {
            try writer.overlay.open()
        }
        engine.onSourceInUse { [weak self] in self?.letGoOfSources() }
    }

    /// Keeps WALs short when the writer commits: the target's WAL, and those of sources and other attached files.
    private static func keepShortWALs(of writer: Connection, _ walKeeper: WALKeeper) {
        writer.setCommitHandler { [unowned writer] schema, frames in
            if schema == "main" {
                if walKeeper.committed(frames) { walKeeper.copy(writer) }
            } else if frames >= WALKeeper.checkpointFrames {
                _ = try? writer.checkpoint(schema: schema, mode: .passive)
            }
        }
    }

    /// Makes idle connections detach the sources that no table needs any more.
    private func letGoOfSources() {
        readers.withIdle { try? $0.overlay.refresh() }
        writerQueue.async { @Sendable [self] in
            if !writer.isInTransaction { try? writer.overlay.refresh() }
        }
    }

    /// Opens a file. If the file was not there, and somebody else has made it meanwhile, encrypted with another salt,
    /// this opens it once more: by then that salt is in the file.
    static func openingOneThatOthersMake<Result>(_ path: String, _ open: () throws -> Result) throws -> Result {
        let isNew = !FilePath.hasContent(path)
        do {
            return try open()
        } catch let error as SQLiteError where error.code == .notADatabase && isNew && FilePath.hasContent(path) {
            return try open()
        }
    }

    /// The path of an open file, without links.
    private static func resolved(_ path: String) throws -> String {
        let resolved = FilePath.resolved(path)
        guard FilePath.exists(resolved) else {
            throw MigrationError(
                .misuse,
                "the folder of \(path) has a name that is not UTF-8, and cannot be found again: use another folder"
            )
        }
        return resolved
    }

    private static func openToRead(
        _ path: String,
        _ key: EncryptionKey?,
        _ configuration: DatabaseConfiguration
    ) throws -> Connection {
        let connection = try Connection(path: path, options: OpenOptions(access: .readOnly, key: key))
        try HotJournal.rollingBack(of: path, key) { try configure(connection, configuration) }
        return connection
    }

    private static func openToWrite(
        _ path: String,
        _ key: EncryptionKey?,
        _ configuration: DatabaseConfiguration
    ) throws -> Connection {
        let connection = try Connection(
            path: path,
            options: OpenOptions(access: configuration.createsFile ? .readWriteCreate : .readWrite, key: key)
        )
        try configure(connection, configuration)
        if configuration.journalMode == .wal {
            try WALMode.set(connection, patience: configuration.busyTimeout)
        }
        try connection.setSynchronous(
            configuration.synchronous.rawValue,
            withoutWAL: configuration.synchronous.withoutWAL
        )
        // The salt of an encrypted file is in its first page. That page is written now, since all connections must find
        // the salt there.
        if key != nil, try connection.fetchValue(Int64.self, "PRAGMA main.page_count") == 0 {
            try connection.execute("PRAGMA main.user_version = 0")
        }
        return connection
    }

    private static func configure(_ connection: Connection, _ configuration: DatabaseConfiguration) throws {
        connection.setBusyTimeout(milliseconds: Int32(clamping: configuration.busyTimeout.nanoseconds / 1_000_000))
        // This is the first read. If the file is no database, the read fails.
        try connection.checkReadable()
        try connection.configure(.foreignKeys, configuration.enforcesForeignKeys)
    }

    deinit {
        engine.stop()
        engine.endStreams()
        readers.close()
    }

    /// Ends auto migration and closes the idle connections. Running blocks go on to their end. If one of these blocks
    /// closes the database, calls on other threads may still work until the block has ended.
    public func close() {
        engine.stop()
        let isInBlock = isOnWriter || readers.current != nil || engine.isInMidstOfStep
        readers.close()
        if isInBlock {
            // An `addMigration` or a step on another thread may be waiting for this block to end, or the writer for
            // this step.
            writerQueue.async { @Sendable [self] in
                engine.close()
                writer.close()
            }
        } else {
            engine.endStreams()
            // The stepper's connection can write the sources. It is closed last, so that SQLite removes their WALs.
            writerQueue.sync { writer.close() }
            engine.close()
        }
    }

    // MARK: Reading

    /// Runs `body` in a transaction that reads: everything in `body` sees the same snapshot.
    public func read<Result>(_ body: (DatabaseAccess) throws -> Result) throws -> Result {
        try readers.withReader(beyondCapacity: mayBeWaitedFor) { try $0.withTransaction(body) }
    }

    /// Runs `body` in a transaction that reads, on another thread. Cancelling the task interrupts `body`.
    public func read<Result: Sendable>(
        _ body: @escaping @Sendable (DatabaseAccess) throws -> Result
    ) async throws -> Result {
        let interruption = Interruption()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                readers.schedule { reader in
                    continuation.resume(
                        with: Swift.Result {
                            let access = try reader.get().access
                            return try interruption.guarding(access.connection) { try access.withTransaction(body) }
                        }
                    )
                }
            }
        } onCancel: {
            interruption.cancel()
        }
    }

    // MARK: Writing

    /// Runs `body` in a transaction that writes: committed when it returns, rolled back when it throws.
    ///
    /// Only one such block runs at a time; others wait. If an error makes SQLite roll back the whole transaction, as
    /// with OR ROLLBACK or a full disk, later statements of the block fail with that error's code. This call then fails
    /// with it, too, even if `body` has caught the error.
    public func write<Result>(_ body: (DatabaseAccess) throws -> Result) throws -> Result {
        try onWriter(orThrow: true) { try $0.withTransaction(body) }
    }

    /// Runs `body` in a transaction that writes, on another thread. Cancelling the task interrupts `body` and rolls the
    /// transaction back.
    public func write<Result: Sendable>(
        _ body: @escaping @Sendable (DatabaseAccess) throws -> Result
    ) async throws -> Result {
        let interruption = Interruption()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                writerQueue.async { @Sendable [self] in
                    continuation.resume(
                        with: Swift.Result {
                            writer.endUnattended()
                            defer { afterWriting() }
                            return try interruption.guarding(writer.connection) {
                                try writer.withTransaction { access in
                                    let result = try body(access)
                                    // The cancellation may have met no statement that it could interrupt.
                                    try interruption.check()
                                    return result
                                }
                            }
                        }
                    )
                }
            }
        } onCancel: {
            interruption.cancel()
        }
    }

    /// Runs `body` alone on the connection that writes, without a transaction: each statement commits by itself, unless
    /// `body` begins a transaction. A transaction that `body` leaves open is rolled back.
    public func withoutTransaction<Result>(_ body: (DatabaseAccess) throws -> Result) throws -> Result {
        try onWriter(orThrow: true) { writer in
            defer { writer.endUnattended() }
            return try body(writer)
        }
    }

    private func onWriter<Result>(orThrow: Bool, _ body: (DatabaseAccess) throws -> Result) throws -> Result {
        guard !engine.isInMidstOfStep else {
            throw MigrationError(
                .misuse,
                "the database is working on its migrations: the filter of addMigration and the closure of refusedRows "
                    + "= .ask must not write it. Write before or after"
            )
        }
        guard DispatchQueue.getSpecific(key: writerKey) != true else {
            throw MigrationError(
                .misuse,
                "a block that writes cannot begin another block that writes: use the access that the block was given"
            )
        }
        return try writerQueue.sync {
            writer.endUnattended()
            defer { afterWriting() }
            return try body(writer)
        }
    }

    /// Whether the caller runs on the writer, where steps and new migrations would wait for themselves.
    var isOnWriter: Bool { DispatchQueue.getSpecific(key: writerKey) == true }

    /// Whether all readers may be waiting for the caller. Then the caller must not wait for a reader to end.
    private var mayBeWaitedFor: Bool { isOnWriter || engine.isInMidstOfStep }

    /// Does what is due after the writer's work.
    private func afterWriting() {
        if walKeeper.isLong, !writer.isInTransaction { walKeeper.shorten(writer.connection) }
        engine.considerNewTables()
    }

    // MARK: Single statements

    /// Runs one or several statements, each committed by itself. Values can be given only for a single statement.
    public func execute(_ sql: String, _ arguments: Arguments = Arguments()) throws {
        try withoutTransaction { try $0.execute(sql, arguments) }
    }

    /// All rows of one statement that reads.
    public func fetchAll(_ sql: String, _ arguments: Arguments = Arguments()) throws -> [Row] {
        try readOne { try $0.fetchAll(sql, arguments) }
    }

    /// The first row of one statement that reads.
    public func fetchOne(_ sql: String, _ arguments: Arguments = Arguments()) throws -> Row? {
        try readOne { try $0.fetchOne(sql, arguments) }
    }

    /// The first column of the first row of one statement that reads.
    public func fetchValue<Wanted: ValueConvertible>(
        _ type: Wanted.Type,
        _ sql: String,
        _ arguments: Arguments = Arguments()
    ) throws -> Wanted? {
        try readOne { try $0.fetchValue(type, sql, arguments) }
    }

    /// The rows of one statement that reads, decoded by their columns' names.
    public func fetchAll<Record: Decodable>(
        _ type: Record.Type,
        _ sql: String,
        _ arguments: Arguments = Arguments()
    ) throws -> [Record] {
        try readOne { try $0.fetchAll(type, sql, arguments) }
    }

    /// The first row of one statement that reads, decoded by its columns' names.
    public func fetchOne<Record: Decodable>(
        _ type: Record.Type,
        _ sql: String,
        _ arguments: Arguments = Arguments()
    ) throws -> Record? {
        try readOne { try $0.fetchOne(type, sql, arguments) }
    }

    /// Inserts a record in a transaction of its own; see ``DatabaseAccess/insert(_:into:)``.
    public func insert(_ record: some Encodable, into table: String) throws {
        try write { try $0.insert(record, into: table) }
    }

    /// Runs `body` with a reader, or with the writer if the statement needs a table drained first.
    func readOne<Result>(_ body: (DatabaseAccess) throws -> Result) throws -> Result {
        do {
            return try readers.withReader(beyondCapacity: mayBeWaitedFor) {
                try $0.repeatedElsewhere { try $0.withTransaction(body) }
            }
        } catch let error as MigrationError where error.code == .refusedStatement {
            return try withoutTransaction(body)
        }
    }
}

/// Connects a task's cancellation with the connection that it happens to run on.
final class Interruption: Sendable {
    /// A queue that nothing else can keep busy.
    private static let queue = DispatchQueue(label: "midstream.interruptions")

    private let state = Confined(State())

    private final class State {
        var isCancelled = false
        var handle: InterruptHandle?
    }

    /// Interrupts what runs, again and again until it has ended: an interruption between two statements has no effect
    /// on the second.
    func cancel() {
        let isRunning = state.withValue { state in
            state.isCancelled = true
            state.handle?.interrupt()
            return state.handle != nil
        }
        guard isRunning else { return }
        Self.queue.asyncAfter(deadline: .now() + .milliseconds(5)) { @Sendable [self] in cancel() }
    }

    /// - Throws: ``CancellationError`` when the task has been cancelled.
    func check() throws {
        if state.withValue({ $0.isCancelled }) { throw CancellationError() }
    }

    /// Runs `body`, and ends it when the task is cancelled.
    func guarding<Result>(_ connection: Connection, _ body: () throws -> Result) throws -> Result {
        try state.withValue { state in
            if state.isCancelled { throw CancellationError() }
            state.handle = connection.interruptHandle
        }
        defer { state.withValue { $0.handle = nil } }
        do {
            return try body()
        } catch {
            // The interruption may also have hit the opening of a source.
            let cause = error as? SQLiteError ?? (error as? MigrationError)?.cause
            if cause?.isInterruption == true, state.withValue({ $0.isCancelled }) { throw CancellationError() }
            throw error
        }
    }
}
