internal import SQLText
internal import SQLiteConnection

// How rows are copied back to the source.
extension Undo {
    func bringBack(
        _ record: TableRecord,
        _ sql: UndoSQL,
        _ progress: inout Progress,
        atMost rows: Int64
    ) throws -> MigrationProgress.Outcome {
        // Within one file, a snapshot has both sides.
        if !progress.isUnread, migration.sourcePath != nil {
            guard try stepper.isProvenUnread(record.id, since: .undoStage(progress.stage)) else {
                return .waitingForReaders
            }
            // A checkpoint of another connection may have synced nothing.
            try connection.sync(schema: "main")
        }
        progress.isUnread = true
        do {
            if !progress.clearing.isOver { return try clear(record, sql, &progress) }
            if !progress.returning.isOver { return try copyBatch(record, sql, &progress, atMost: rows) }
        } catch let error as SQLiteError where ResultCode.busy ~= error.code || ResultCode.locked ~= error.code {
            return .busy
        }
        // As far as possible, the step waits for readers from before while there is still something to read.
        if migration.sourcePath != nil, record.watermark == nil, try isTrue(sql.isEmpty),
            try !stepper.isProvenUnread(record.id, since: .emptied(progress.stage))
        {
            return .waitingForReaders
        }
        if progress.vainPasses >= Self.vainPasses {
            memory.progress[record.id] = nil
            throw SQLiteError(
                code: .corrupt,
                message:
                    "table \(record.target) is not empty, but none of its rows can be found: one of its indexes is "
                    + "damaged. Run PRAGMA integrity_check, and REINDEX"
            )
        }
        let outcome = try transaction(record, &progress) { now, _ in
            let hasEnded = try now.watermark == nil && isTrue(sql.isEmpty)
            try hasEnded ? end(now, sql) : setStage(now, (now.undoStage ?? 0) + 1)
        }
        // The next step tries again, and first collects the keys anew.
        if outcome == .worked, progress.returned == 0, let refusal = progress.refusal { throw refused(record, refusal) }
        return outcome
    }

    private func clear(
        _ record: TableRecord,
        _ sql: UndoSQL,
        _ progress: inout Progress
    ) throws -> MigrationProgress.Outcome {
        try transaction(record, &progress) { _, progress in
            let upper = try upperKey(sql, of: .returning, progress.clearing)
            try confirm(record)
            _ = try run(
                sql.clear(sql.sql.key.range(after: progress.clearing.last, through: upper)),
                progress.clearing.last,
                upper
            )
            try renew(record)
            progress.clearing.pass(upper)
        }
    }

    /// Copies a batch into the source, then makes the target forget the rows of the batch that the source has.
    private func copyBatch(
        _ record: TableRecord,
        _ sql: UndoSQL,
        _ progress: inout Progress,
        atMost rows: Int64
    ) throws -> MigrationProgress.Outcome {
        let start = ContinuousClock.now
        let walk = progress.returning
        var upper: RowKey?
        var version: [Int64?] = []
        var refusals: [Progress.Refusal] = []
        let copied = try transaction(record, &progress) { _, _ in
            upper = try upperKey(sql, of: .returning, walk, atMost: rows)
            try confirm(record)
            refusals = try copy(record, sql, walk.last, upper)
            try renew(record)
            version = try dataVersions()
        }
        guard copied == .worked else { return copied }
        var left: RowKey?
        let settled = try transaction(record, &progress) { _, progress in
            let isStill = try dataVersions() == version
            let returned = try settle(sql, walk.last, upper)
            try Claims(connection: connection, migration: migration).noteReturn(record)
            if isStill { left = try firstLeft(sql, walk.last, upper, refusals) }
            progress.returned += returned
            progress.refusal = progress.refusal ?? refusals.first
            progress.returning.pass(upper)
            try TableUpdate.countReturned(record, returned, connection)
        }
        memory.batch.adapt(took: ContinuousClock.now - start)
        if settled == .worked, let left {
            // The other rows go on.
            memory.progress[record.id] = progress
            throw differs(record, left)
        }
        return settled
    }

    /// - Returns: The rows that the source refuses.
    private func copy(
        _ record: TableRecord,
        _ sql: UndoSQL,
        _ lower: RowKey?,
        _ upper: RowKey?
    ) throws -> [Progress.Refusal] {
        let others = try Claims(connection: connection, migration: migration).otherConditions(record)
        // Rows that are there before are another table's, which knows them by keys that this table has as well.
        let before = Set(try strangers(sql, lower, upper, others).map(sql.sql.key.folded))
        var refusals: [Progress.Refusal] = []
        do {
            let copy = sql.copy(sql.sql.key.range(after: lower, through: upper))
            _ = try run(copy, by: { try $0.stepOfCopy() }, lower, upper)
        } catch let error as SQLiteError where error.isRefusal {
            refusals = try copyOneByOne(sql, lower, upper)
        }
        if let misplaced = sql.misplaced(sql.sql.key.range(after: lower, through: upper)) {
            let cause = SQLiteError(
                code: .constraint,
                message: "the target's column for the source's rowid is NULL, or has another value than the target's"
            )
            refusals += try keys(misplaced, sql, lower, upper).map { Progress.Refusal(key: $0, cause: cause) }
        }
        for stranger in try strangers(sql, lower, upper, others) where !before.contains(sql.sql.key.folded(stranger)) {
            refusals.append(Progress.Refusal(key: stranger, cause: nil))
            _ = try run(sql.deleteRow, stranger, nil)
        }
        return refusals
    }

    /// The keys of a range whose rows in the source are not this table's.
    private func strangers(
        _ sql: UndoSQL,
        _ lower: RowKey?,
        _ upper: RowKey?,
        _ others: [String]
    ) throws -> [RowKey] {
        guard sql.hasConditions(others) else { return [] }
        do {
            return try keys(sql.strangers(sql.sql.key.range(after: lower, through: upper), others), sql, lower, upper)
        } catch let error as SQLiteError where error.code == .error {
            // A row on which a function of the condition fails does not meet the condition.
            return try keys(sql.returningKeys(sql.sql.key.range(after: lower, through: upper)), sql, lower, upper)
                .filter {
                    do {
                        return try !keys(sql.strangerRow(others), sql, $0, nil).isEmpty
                    } catch let error as SQLiteError where error.code == .error {
                        return true
                    }
                }
        }
    }

    private func copyOneByOne(_ sql: UndoSQL, _ lower: RowKey?, _ upper: RowKey?) throws -> [Progress.Refusal] {
        var refusals: [Progress.Refusal] = []
        let keys = try stepper.statements.prepare(sql.returningKeys(sql.sql.key.range(after: lower, through: upper)))
        defer { keys.reset() }
        try bind(keys, sql, lower, upper)
        let copy = try stepper.statements.prepare(sql.copyRow)
        while try keys.step() {
            let key = try sql.sql.key.read(keys)
            copy.reset()
            try copy.bind(key, at: 1)
            do {
                _ = try copy.stepOfCopy()
            } catch {
                guard error.isRefusal else { throw error }
                refusals.append(Progress.Refusal(key: key, cause: error))
            }
        }
        return refusals
    }

    /// - Returns: How many rows are back.
    private func settle(_ sql: UndoSQL, _ lower: RowKey?, _ upper: RowKey?) throws -> Int64 {
        try connection.execute(sql.createReturned)
        try connection.execute(sql.clearReturned)
        _ = try run(sql.findReturned(sql.sql.key.range(after: lower, through: upper)), lower, upper)
        return try sql.forgetReturned.map { try run($0, nil, nil) }.first ?? 0
    }

    /// A key of a range whose row neither went back nor was refused.
    private func firstLeft(
        _ sql: UndoSQL,
        _ lower: RowKey?,
        _ upper: RowKey?,
        _ refusals: [Progress.Refusal]
    ) throws -> RowKey? {
        let refused = Set(refusals.map { sql.sql.key.folded($0.key) })
        // If rows were refused since they would not be this table's in the source, the first of them is reported instead.
        if refusals.contains(where: { $0.cause == nil }) { return nil }
        let keys = try stepper.statements.prepare(sql.returningKeys(sql.sql.key.range(after: lower, through: upper)))
        try bind(keys, sql, lower, upper)
        while try keys.step() {
            let key = try sql.sql.key.read(keys)
            if !refused.contains(sql.sql.key.folded(key)) { return key }
        }
        return nil
    }

    private func confirm(_ record: TableRecord) throws {
        try Claims(connection: connection, migration: migration).confirmOwn(record)
    }

    private func renew(_ record: TableRecord) throws {
        try Claims(connection: connection, migration: migration).renew(record)
    }

    /// Numbers that tell whether somebody else has written one of the files: the application has written the target, or
    /// another process at the same stage has written the source.
    ///
    /// Source: <https://www.sqlite.org/pragma.html#pragma_data_version>.
    private func dataVersions() throws -> [Int64?] {
        try ["main", migration.schema].map { try connection.fetchValue("PRAGMA \($0).data_version") }
    }
}
