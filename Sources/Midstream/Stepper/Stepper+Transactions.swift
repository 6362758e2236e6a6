internal import SQLiteConnection

// Transactions of the target, and of a source.
extension Stepper {
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
            let former = try connection.schemaVersion()
            result = try body()
            let version = try connection.schemaVersion()
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
}
