internal import Dispatch
internal import SQLText
internal import SQLiteConnection
internal import Synchronization

/// Runs a database's migrations: begins them, makes the steps, and informs the listeners.
final class MigrationEngine: Sendable {
    private let path: String
    private let gate: FileGate
    private let walKeeper: WALKeeper
    private let keys: Keyring
    /// The stepper, which is opened when there is something to move.
    private let stepper: Confined<StepperBox>
    /// Whether the file may be one that the database of this engine is making of another file.
    private let makesWholeFile: Bool
    private let listeners = Mutex(Listeners())
    private let auto = AutoMigration()

    private final class StepperBox {
        var stepper: Stepper?
        var isClosed = false

        func close() {
            isClosed = true
            stepper?.removeWALsLeft()
            stepper = nil
        }
    }

    private struct Listeners {
        var filters: [Filter] = []
        /// How often tables may have been created. This tells whether a table has come while a filter was added.
        var schemaChanges = 0
        var mayHaveNewTables = false
        /// Whether a table that was created could not begin to move. The next step tries again.
        var haveNewTablesFailed = false
        var event: [@Sendable (MigrationEvent) -> Void] = []
        var progress: [@Sendable (MigrationProgress) -> Void] = []
        var streams: [Int: AsyncStream<MigrationProgress>.Continuation] = [:]
        var lastStream = 0
        /// Whether the database is closed: its streams have ended, and new streams end at once.
        var isClosed = false
        /// Tables whose migrations were cancelled, about which the filters are not asked again.
        var cancelled: Set<String> = []
        /// Tables that were seen to move.
        var begun: Set<String> = []
        var sourceInUse: (@Sendable () -> Void)?
        /// The thread that uses the stepper, and that calls the application meanwhile.
        var user: ThreadIdentity?
    }

    private struct Filter: Sendable {
        var source: MigrationSource
        var retirement: SourceRetirement
        var givenUp: Set<String>
        var body: @Sendable (inout TableMigration) throws -> Void
        /// What the filter asked for when it was added. A filter that is added again and asks for that replaces the first.
        var asked: [String: String]
    }

    /// - Parameters:
    ///   - makesWholeFile: Whether the file may be one that is being made of another.
    ///   - connection: A connection with which to find out whether the file has migrations whose beginning or end was cut short.
    init(
        path: String,
        gate: FileGate,
        walKeeper: WALKeeper,
        keys: Keyring,
        makesWholeFile: Bool,
        inspecting connection: Connection
    ) throws {
        self.path = path
        self.makesWholeFile = makesWholeFile
        self.keys = keys
        self.gate = gate
        self.walKeeper = walKeeper
        stepper = Confined(StepperBox())
        let (_, records) = try StateStore(connection: connection).load()
        if records.contains(where: \.isHalfBegun) {
            _ = try withStepper { try Setup(stepper: $0).resume() }
        }
        if try !Unreleased(connection: connection).claimed().isEmpty {
            try withStepper { try Setup(stepper: $0).takeBackClaimed() }
        }
    }

    private func makeStepper() throws -> Stepper {
        let stepper = try Stepper(path: path, gate: gate, walKeeper: walKeeper, keys: keys)
        stepper.makeStep = { [unowned stepper] in try stepper.step($0).outcome }
        return stepper
    }

    func withStepper<Result>(_ body: (Stepper) throws -> Result) throws -> Result {
        var events: [MigrationEvent] = []
        defer { for event in events { report(event) } }
        let result = try stepper.withValueUnlessHeld { box in
            if box.isClosed { throw MigrationError(.misuse, "the database is closed") }
            let stepper = try box.stepper ?? makeStepper()
            box.stepper = stepper
            // An earlier call could not roll back, for want of memory.
            if stepper.connection.isInTransaction || stepper.connection.isHalfUndone {
                try stepper.connection.rollBack()
            }
            if !makesWholeFile { try stepper.checkFinished() }
            stepper.onEvent = { events.append($0) }
            let sourceInUse = listeners.withLock { listeners in
                listeners.user = .current
                return listeners.sourceInUse
            }
            stepper.onSourceInUse = { sourceInUse?() }
            defer {
                stepper.onEvent = nil
                listeners.withLock { $0.user = nil }
                // A caller that closed the database during `body` could not close the stepper.
                if listeners.withLock(\.isClosed) { box.close() }
            }
            do {
                return try body(stepper)
            } catch {
                stepper.detachReadOnly()
                // A file that could be opened only for reading may be writable at the next call.
                if stepper.connection.isReadOnly(schema: "main") ?? false { box.stepper = nil }
                throw error
            }
        }
        guard let result else {
            throw MigrationError(
                .misuse,
                "the database is already working on its migrations: a filter of addMigration, or a closure of "
                    + "refusedRows = .ask, must not call its migration functions. Call them before or after"
            )
        }
        return result
    }

    // MARK: Beginning

    func add(
        _ source: MigrationSource,
        _ retirement: SourceRetirement,
        givingUp names: Set<String>,
        allowsNoTables: Bool,
        _ filter: @escaping @Sendable (inout TableMigration) throws -> Void
    ) throws -> [String] {
        let changesBefore = listeners.withLock(\.schemaChanges)
        let (chosen, records) = try withStepper { stepper in
            (try Setup(stepper: stepper).begin(source, retirement, givingUp: names, filter), try stepper.load().tables)
        }
        if !allowsNoTables { try chosen.checkNotEmpty() }
        let (asked, moving) = (chosen.sources, records.map { SQLIdentifier.lowercased($0.target) })
        listeners.withLock { listeners in
            listeners.begun.formUnion(moving)
            listeners.filters.removeAll { $0.source == source && $0.asked == asked }
            listeners.cancelled.subtract(asked.keys.map(SQLIdentifier.lowercased))
            listeners.filters.append(
                Filter(source: source, retirement: retirement, givenUp: names, body: filter, asked: asked)
            )
            // Another thread has created tables since the filter was asked.
            if listeners.schemaChanges != changesBefore { listeners.mayHaveNewTables = true }
        }
        considerNewTables()
        return chosen.moving(among: records)
    }

    /// Checks what a filter asks for as ``add(_:_:givingUp:allowsNoTables:_:)`` does, and begins nothing.
    func rehearse(
        _ source: MigrationSource,
        _ retirement: SourceRetirement,
        _ filter: (inout TableMigration) throws -> Void
    ) throws -> MigrationRehearsal {
        try withStepper { stepper in
            let setup = Setup(stepper: stepper, isRehearsal: true)
            let chosen = try setup.begin(source, retirement, givingUp: [], filter)
            let moving = Set(chosen.moving(among: try stepper.load().tables))
            return MigrationRehearsal(
                beginning: chosen.beginning,
                moving: moving,
                moved: Set(chosen.sources.keys).subtracting(chosen.beginning).subtracting(moving)
            )
        }
    }

    /// Whether this thread runs a filter, or decides what becomes of a refused row. If the thread wrote meanwhile, it would wait
    /// for the very call that waits for the thread.
    var isInMidstOfStep: Bool { listeners.withLock { $0.user == .current } }

    /// Makes tables return to their sources.
    ///
    /// - Parameter names: The tables; `nil` for all that move.
    func cancel(_ names: [String]?) throws {
        var progress = Cancelling()
        do {
            try withStepper { stepper in
                try Setup(stepper: stepper).takeBackClaimed()
                try Setup(stepper: stepper).resume()
                try stepper.untilDone {
                    do {
                        return try tryToCancel(names, stepper, &progress) ? () : nil
                    } catch is Undo.Overtaken {
                        return nil
                    }
                }
            }
        } catch {
            listeners.withLock { $0.cancelled.subtract(progress.noted) }
            throw error
        }
    }

    /// Notes cancelled tables, about which the filters are not asked again.
    ///
    /// - Returns: The names, in lower case, that were not noted before.
    private func note(_ cancelled: [TableRecord]) -> Set<String> {
        let names = Set(cancelled.map { SQLIdentifier.lowercased($0.target) })
        return listeners.withLock { listeners in
            defer { listeners.cancelled.formUnion(names) }
            return names.subtracting(listeners.cancelled)
        }
    }

    /// What one call that cancels has done so far, by the tables' names in lower case.
    private struct Cancelling {
        /// The tables whose beginning an earlier try has taken back.
        var takenBack: Set<String> = []
        /// The tables that this call has added to ``Listeners/cancelled``.
        var noted: Set<String> = []
    }

    /// - Returns: `false` if another process has meanwhile let a table move that was about to.
    private func tryToCancel(_ names: [String]?, _ stepper: Stepper, _ progress: inout Cancelling) throws -> Bool {
        let setup = Setup(stepper: stepper)
        let (_, migrations, records) = try setup.resumeAndLoad()
        for name in names ?? []
        where !progress.takenBack.contains(SQLIdentifier.lowercased(name))
            && !records.contains(where: { SQLIdentifier.equal($0.target, name) })
        {
            throw MigrationError(
                .misuse,
                "table \(name) does not move: its migration has ended, or there never was one",
                table: name
            )
        }
        let chosen = records.filter { record in
            // A table that has moved may move again, after its source's table was made anew.
            let isFormer =
                record.phase == .done
                && records.contains { $0.phase != .done && SQLIdentifier.equal($0.target, record.target) }
            return names.map { !isFormer && $0.contains { SQLIdentifier.equal($0, record.target) } }
                ?? (record.phase == .starting || record.phase == .copying && record.isOwn)
        }
        let undos = chosen.filter { !$0.isReturning && $0.phase != .starting }.compactMap { record in
            migrations.first { $0.id == record.migration }.map { (record, Undo(stepper: stepper, migration: $0)) }
        }
        for (record, undo) in undos { try undo.check(record, among: records) }
        progress.noted.formUnion(note(chosen))
        progress.takenBack.formUnion(
            chosen.filter { $0.phase == .starting }.map { SQLIdentifier.lowercased($0.target) }
        )
        for record in chosen where record.phase == .starting {
            guard let migration = migrations.first(where: { $0.id == record.migration }) else { continue }
            try setup.takeBack(record, migration)
            if try stepper.store.table(record.id) != nil { return false }
        }
        if undos.isEmpty { return true }
        try stepper.waitingTransaction {
            let now = try stepper.load().tables
            for (record, undo) in undos { try undo.begin(record, among: now) }
        }
        return true
    }

    /// Sets the closure to call when a source's file is to be deleted but is open.
    func onSourceInUse(_ body: @escaping @Sendable () -> Void) {
        listeners.withLock { $0.sourceInUse = body }
    }

    private static func moving(_ stepper: Stepper) throws -> [String] {
        try stepper.load().tables.map { SQLIdentifier.lowercased($0.target) }
    }

    /// Notes that tables may have been created.
    func noteSchemaChange() {
        listeners.withLock { listeners in
            listeners.schemaChanges += 1
            listeners.mayHaveNewTables = !listeners.filters.isEmpty
        }
    }

    /// Asks the filters about the tables that were created since the last call.
    func considerNewTables() {
        let (filters, settled) = listeners.withLock { listeners in
            defer { listeners.mayHaveNewTables = false }
            if listeners.mayHaveNewTables { listeners.haveNewTablesFailed = false }
            // Another process may have cancelled a move that this process has begun.
            return (listeners.mayHaveNewTables ? listeners.filters : [], listeners.cancelled.union(listeners.begun))
        }
        for filter in filters {
            do {
                let moving = try withStepper { stepper in
                    _ = try Setup(stepper: stepper).begin(
                        filter.source,
                        filter.retirement,
                        givingUp: filter.givenUp
                    ) { table in
                        if !settled.contains(SQLIdentifier.lowercased(table.name)) { try filter.body(&table) }
                    }
                    return try Self.moving(stepper)
                }
                listeners.withLock { $0.begun.formUnion(moving) }
            } catch {
                listeners.withLock { $0.haveNewTablesFailed = true }
                let unknown = MigrationError(.misuse, "a table that was created cannot begin to move: \(error)")
                report(.failed(error as? MigrationError ?? unknown))
            }
        }
    }

    // MARK: Steps

    func step(_ limit: Stepper.Limit) throws -> MigrationProgress {
        listeners.withLock { if $0.haveNewTablesFailed { $0.mayHaveNewTables = true } }
        considerNewTables()
        do {
            let progress = try withStepper { stepper in
                let (outcome, moved) = try stepper.step(limit)
                return try Self.progress(stepper, outcome, moved)
            }
            announce(progress)
            return progress
        } catch let error as MigrationError {
            tellOfFailure(error)
            throw error
        } catch let error as SQLiteError {
            tellOfFailure(MigrationError(.sqliteError, error.message, cause: error))
            throw error
        }
    }

    /// Tells the listeners that a step has failed, and which tables are stopped now.
    private func tellOfFailure(_ error: MigrationError) {
        report(.failed(error))
        if error.code == .misuse { return }
        if let progress = try? withStepper({ try Self.progress($0, .failed, 0) }) { announce(progress) }
    }

    func readProgress() throws -> MigrationProgress {
        try withStepper { try Self.progress($0, .idle, 0) }
    }

    private static func progress(
        _ stepper: Stepper,
        _ outcome: MigrationProgress.Outcome,
        _ moved: Int64
    ) throws -> MigrationProgress {
        var progress = try stepper.readProgress(outcome, moved)
        if progress.isFinished, stepper.isLeavingSource { progress.outcome = .waitingForReaders }
        return progress
    }

    // MARK: Telling

    func addHandler(_ handler: @escaping @Sendable (MigrationEvent) -> Void) {
        listeners.withLock { $0.event.append(handler) }
    }

    func addProgressHandler(_ handler: @escaping @Sendable (MigrationProgress) -> Void) {
        listeners.withLock { $0.progress.append(handler) }
    }

    /// - Parameter now: Gives the progress that the stream begins with.
    func progressStream(now: () -> MigrationProgress?) -> AsyncStream<MigrationProgress> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: MigrationProgress.self,
            bufferingPolicy: .bufferingNewest(1)
        )
        let id: Int? = listeners.withLock { listeners in
            if listeners.isClosed { return nil }
            listeners.lastStream += 1
            listeners.streams[listeners.lastStream] = continuation
            return listeners.lastStream
        }
        guard let id else {
            continuation.finish()
            return stream
        }
        continuation.onTermination = { [weak self] _ in
            _ = self?.listeners.withLock { $0.streams.removeValue(forKey: id) }
        }
        // The progress is read once the stream hears of steps; otherwise the last step could come between.
        if let progress = now() {
            continuation.yield(progress)
            if progress.isFinished { continuation.finish() }
        }
        return stream
    }

    func report(_ event: MigrationEvent) {
        for handler in listeners.withLock({ $0.event }) { handler(event) }
    }

    private func announce(_ progress: MigrationProgress) {
        let (handlers, streams) = listeners.withLock { ($0.progress, Array($0.streams.values)) }
        for handler in handlers { handler(progress) }
        for stream in streams {
            stream.yield(progress)
            if progress.isFinished { stream.finish() }
        }
    }

    // MARK: Auto migration

    func start(_ pace: MigrationPace, _ throttle: (@Sendable () -> Bool)?) {
        guard !listeners.withLock(\.isClosed) else { return }
        auto.start(pace) { [weak self] isRunning in
            guard let self else { return false }
            // A step that has little to do, such as a step that syncs, leaves time for other steps.
            let end = ContinuousClock.now + pace.budget
            var left = pace.budget
            while left >= pace.budget / 4 {
                if let throttle, !throttle() { return true }
                // An error has been reported; the next step tries again.
                guard let progress = try? step(.time(left, table: nil)) else { return true }
                // A listener that was told of the end may have begun another migration.
                if progress.isFinished { return (try? readProgress())?.isFinished == false }
                if progress.outcome != .worked || !isRunning() || listeners.withLock(\.isClosed) { return true }
                left = end - .now
            }
            return true
        }
        // A thread that closed the database meanwhile has stopped only the timer that ran before this one.
        if listeners.withLock(\.isClosed) { auto.stop() }
    }

    func stop() {
        auto.stop()
    }

    /// Ends auto migration, and closes the stepper's connection once a running step has ended.
    func close() {
        endStreams()
        auto.stop()
        // If a filter closes the database, the call that runs the filter closes the stepper when it ends.
        _ = stepper.withValueUnlessHeld { $0.close() }
    }

    /// Ends all streams: no further progress will come.
    func endStreams() {
        let streams = listeners.withLock { listeners in
            defer { listeners.streams.removeAll() }
            listeners.isClosed = true
            return Array(listeners.streams.values)
        }
        for stream in streams { stream.finish() }
    }
}
