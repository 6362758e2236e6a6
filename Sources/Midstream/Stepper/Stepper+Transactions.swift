internal import SQLiteConnection

// Transactions of the target, and of a source.
extension Stepper {
    /// Runs `body` in a transaction of the target that keeps out the process's writers.
    ///
    /// - Parameter patience: How long to wait for the process's writers; `nil` for as long as a step waits.
    /// - Returns: `nil` if the process's writers, or another process, keep the transaction out.
    func transaction<Result>(
        isDurable: Bool = false,
        patience: Duration? = nil,
        _ body: () throws -> Result
    ) throws -> Result? {
        try holdingGate(waiting: patience) {
            try transactionInGate(isDurable: isDurable, body)
        } ?? nil
    }

    /// Keeps out the process's writers while `body` runs.
    ///
    /// - Returns: `nil` if the process's writers keep the caller out.
    func holdingGate<Result>(waiting patience: Duration? = nil, _ body: () throws -> Result) throws -> Result? {
        if isInGate { return try body() }
        guard gate.enterForStep(waiting: patience ?? max(patienceOfSteps, .milliseconds(10))) else {
            obstacles.isKeptFromTarget = true
            return nil
        }
        isInGate = true
        defer {
            isInGate = false
            gate.leaveStep()
        }
        return try body()
    }

    /// Runs `body`, which waits for at most `patience` if another process holds a lock.
    private func waiting<Result>(_ patience: Duration, _ body: () throws -> Result) rethrows -> Result {
        let former = lockWait.patience
        lockWait.patience = patience
        defer { lockWait.patience = former }
        return try body()
    }

    /// How long a step waits for a lock. It hardly waits, since the step can be made later. If others have kept steps out for a
    /// time, it waits for a tenth of that time, up to a bound: without a WAL, readers that come and go all the time would
    /// otherwise keep steps out for ever.
    private var patienceOfSteps: Duration {
        let shortest: Duration = .milliseconds(5)
        return obstacles.busySince.map { min(max((clock.now - $0) / 10, shortest), .milliseconds(250)) } ?? shortest
    }

    /// Runs `body`, which waits for other processes' locks as long as a step does.
    ///
    /// - Returns: `nil` if a lock cannot be had. Without a WAL, a connection that commits keeps out those that read as well.
    func withoutPatience<Result>(_ body: () throws -> Result) throws -> Result? {
        do {
            return try waiting(patienceOfSteps, body)
        } catch let error as SQLiteError where ResultCode.busy ~= error.code {
            return nil
        }
    }

    /// Runs a transaction that is on the disk when this function returns. Waits for the process's writers.
    func waitingTransaction(_ body: () throws -> Void) throws {
        try untilDone { try transaction(isDurable: true, patience: .seconds(1), body) }
    }

    /// How long to wait for other transactions.
    static let patience = Duration.seconds(30)

    /// Calls `body` until it gives a result, for as long as the stepper waits for other transactions.
    func untilDone<Result>(_ body: () throws -> Result?) throws -> Result {
        let deadline = clock.now + Self.patience
        repeat {
            if let result = try body() { return result }
        } while clock.now < deadline
        throw MigrationError(
            .misuse,
            "a transaction of this process, or of another process that uses the file, has been open for too long: end "
                + "it, and try again"
        )
    }

    private func transactionInGate<Result>(
        isDurable: Bool,
        _ body: () throws -> Result
    ) throws -> Result? {
        do {
            try WriteLock.begin(connection)
        } catch let error as SQLiteError where ResultCode.busy ~= error.code {
            obstacles.isKeptFromTarget = true
            return nil
        }
        let result: Result
        let versionBefore = known.version
        do {
            let former = try connection.schemaVersion()
            result = try body()
            let version = try connection.schemaVersion()
            try SeenSchemas(connection: connection).raiseTarget(from: former, to: version)
            // The stepper knows what `body` itself has changed.
            if former == versionBefore { known.version = version }
            #if DEBUG
                if let broken = try store.checkInvariants() { preconditionFailure(broken) }
            #endif
            let start = clock.now
            guard try commitUnlessBusy() else {
                obstacles.isKeptFromTarget = true
                known.version = versionBefore
                return nil
            }
            lastCommit = (clock.now - start, connection.takePagesWritten())
            commitTime = (commitTime * 3 + lastCommit.time) / 4
            walKeeper.stepped(Int(lastCommit.pages))
        } catch {
            known.version = versionBefore
            // Also after a COMMIT that failed: the open transaction would keep readers out.
            try? connection.rollBack()
            throw Self.namingFullDisk(of: connection.fileName(schema: "main"), error)
        }
        if isDurable { try connection.sync(schema: "main") }
        return result
    }

    /// - Returns: `false` if readers keep the COMMIT out, as they do without a WAL; the transaction has then been rolled back.
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

    /// Writes the source in a transaction that is on the disk when this function returns. The transaction holds the target's lock
    /// as well, so `body` may rely on what it finds in the target. It writes nothing of the target.
    ///
    /// If the stored state has gone with the last migration, nothing is left to do, and `body` does not run.
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

    /// Does within a step what ``writeSource(_:of:_:)`` does, but tries only once.
    ///
    /// - Returns: `nil` if somebody else is writing one of the files.
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

    /// - Parameter patience: How long to wait for the process's writers; `nil` for as long as a step waits.
    /// - Returns: `nil` if the process's writers keep the stepper from the target.
    private func holdingBothLocks(
        _ migration: MigrationRecord,
        of record: TableRecord,
        waiting patience: Duration?,
        _ body: () throws -> Void
    ) throws -> Void? {
        try connection.execute("BEGIN")
        defer { if connection.isInTransaction { try? connection.rollBack() } }
        obstacles.lockHolder = .sourceWriter
        try lockSource(migration, of: record)
        try checkInPlace(migration)
        return try holdingGate(waiting: patience) {
            obstacles.lockHolder = .targetWriter
            do {
                try WriteLock.take(connection, by: "midstream_state", in: "main")
            } catch let error as SQLiteError where error.isMissingTable {
                return
            } catch let error as SQLiteError where ResultCode.busy ~= error.code {
                obstacles.isKeptFromTarget = true
                throw error
            }
            obstacles.lockHolder = .sourceReader
            try body()
            try connection.execute("COMMIT")
        }
    }

    /// Keeps others from writing the source, in the open transaction. If neither of the two tables exists, there is nothing to
    /// write: a program without Midstream may have dropped a table that was about to move.
    private func lockSource(_ migration: MigrationRecord, of record: TableRecord) throws {
        for table in ["midstream_claims", record.source] {
            do {
                return try WriteLock.take(connection, by: table, in: migration.schema)
            } catch {
                // The table may be missing, or be a view.
                guard error.code == .error else { throw error }
            }
        }
    }
}
