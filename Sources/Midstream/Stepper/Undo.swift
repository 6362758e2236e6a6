internal import SQLText
internal import SQLiteConnection

/// Brings a table's rows back to its source, with all that was changed since, while the application goes on.
///
/// Where a row is, is told by the target alone, here as well: a row that is back is one that the target calls pending
/// again. The source may be written only where nobody reads it. So rows go in passes of two stages, and the stored number
/// of the stage tells every process what may be done:
///
/// 1. *Collecting.* The keys of some rows that are in the target go into the ledger, which hides what the source has of
///    them, and into a table of those that are to return. The watermark sinks.
/// 2. *Returning.* When no reader has a snapshot from before (see `isProvenUnread`), the source's rows of those keys are
///    replaced by the target's, and are on the disk before the target forgets its own.
///
/// A row that is written meanwhile is seen to differ, and stays for the next pass. When nothing is left, the table is an
/// ordinary one again, and empty. The source's fence comes down when no reader has a snapshot from before that either:
/// such a one has rows from the source, which others may then write.
struct Undo {
    let stepper: Stepper
    let migration: MigrationRecord

    private var connection: Connection { stepper.connection }

    /// How many rows a pass brings back, at about.
    private static let rowsPerPass: Int64 = 65_536

    /// Another process has moved the rest of a table's rows, or brought them back, since it was looked at.
    struct Overtaken: Error {}

    /// The passes that may bring no row back before that is told: another process may write the last one again and again.
    private static let vainPasses = 100

    /// How far the stage of one table is, for this process.
    struct Progress {
        var stage: Int64
        var collected: Int64 = 0
        var target = Walk()
        var ledger = Walk()
        var isUnread = false
        var clearing = Walk()
        var returning = Walk()
        var returned: Int64 = 0
        var refusal: Refusal?
        /// How many passes before have brought no row back of the last ones, though the source refused none.
        var vainPasses = 0

        /// - Parameter isLast: Whether what is in the target by now is what there is left.
        func next(_ stage: Int64, isLast: Bool) -> Progress {
            var next = Progress(stage: stage)
            guard self.stage + 1 == stage else { return next }
            if stage.isMultiple(of: 2) {
                let isVain = isLast && returned == 0 && refusal == nil
                next.vainPasses = isVain ? vainPasses + 1 : 0
            } else {
                (next.collected, next.vainPasses) = (collected, vainPasses)
            }
            return next
        }

        struct Refusal {
            var key: RowKey
            var cause: SQLiteError?
        }
    }

    /// How far a walk through keys is.
    struct Walk {
        var last: RowKey?
        var isOver = false

        mutating func pass(_ upper: RowKey?) {
            last = upper ?? last
            isOver = upper == nil
        }
    }

    // MARK: Beginning

    /// Makes sure that a table can return.
    ///
    /// - Parameter all: All tables of the file that move.
    /// - Throws: ``MigrationError`` when it cannot; ``Overtaken``.
    func check(_ record: TableRecord, among all: [TableRecord]) throws {
        guard record.phase == .copying else {
            throw UndoSQL.cannot(record, "all of its rows have moved, and its source may be gone")
        }
        if let destination = record.destination {
            throw UndoSQL.cannot(record, "its rows move on to \(destination)")
        }
        if try UnfencedClaims(connection: connection).has(record.id) {
            throw UndoSQL.cannot(
                record,
                "the file of its source could not be written when that began, and has all rows as they were then"
            )
        }
        if record.isRebuild {
            throw UndoSQL.cannot(record, "the table has been rebuilt, and what it was before is its source")
        }
        let others = all.filter { other in
            // Its source's table may have moved before, and be another since then.
            let isFormer =
                other.phase == .done && other.migration == record.migration
                && SQLIdentifier.equal(other.source, record.source)
            return other.id != record.id && !isFormer && SQLIdentifier.equal(other.target, record.target)
        }
        if !others.isEmpty {
            throw UndoSQL.cannot(record, "it has rows of several sources")
        }
        let checked: Void? = try stepper.unlessOvertaken(record) {
            try stepper.attach(migration)
            let former = try Claims(connection: connection, migration: migration).moved(
                from: record.source,
                into: record.target,
                besides: all
            )
            if let table = try VirtualTables(connection, migration.schema).firstMoved() {
                throw UndoSQL.cannot(
                    record,
                    "virtual table \(table) of the source has moved with its whole file, and cannot return"
                )
            }
            // Unless one of them has begun since then, in place of this, which has returned.
            if !former.isEmpty { throw UndoSQL.cannot(record, "other rows of that have moved before") }
            _ = try unlessIrreversible(record) {
                if record.firesTriggers {
                    throw UndoSQL.cannot(record, "rows that have come have fired its triggers, which is not taken back")
                }
                try checkWrites(record, stepper.undoSQL(record, migration))
            }
        }
        if checked == nil { throw Overtaken() }
        if let table = record.refusedRowsTable, try hasRows(table) {
            throw UndoSQL.cannot(
                record,
                "rows were set aside in \(table): insert them where they belong, delete them there, and try again"
            )
        }
        if record.unreadableRowsTable != nil {
            throw UndoSQL.cannot(record, "rows of its source cannot be read")
        }
    }

    /// - Returns: What `body` does; `nil` where that cannot be, and no row is there to return.
    private func unlessIrreversible<Result>(_ record: TableRecord, _ body: () throws -> Result) throws -> Result? {
        do {
            return try body()
        } catch let error as MigrationError {
            guard error.code == .unsupported, try !hasRowsToReturn(record) else { throw error }
            return nil
        }
    }

    /// Whether the target has rows of the table, or an entry of the ledger. While it has none, all rows are in the source, whatever
    /// the columns are made of.
    private func hasRowsToReturn(_ record: TableRecord) throws -> Bool {
        guard record.watermark == nil, record.copied == 0, record.settled == 0 else { return true }
        return try ["\(SQLIdentifier.quoted(record.target))", record.ledger].contains { table in
            try connection.fetchOne("SELECT 1 FROM main.\(table) LIMIT 1") != nil
        }
    }

    /// A source may have an index, a CHECK or a generated column with a function of the application's, which rows can be read
    /// without, and not be written.
    private func checkWrites(_ record: TableRecord, _ sql: UndoSQL) throws {
        do {
            for text in [sql.copyRow, sql.deleteRow] { _ = try connection.prepare(text) }
        } catch {
            guard error.code == .error else { throw error }
            throw UndoSQL.cannot(record, "its source cannot be written without the application: \(error.message)")
        }
    }

    /// Has a table return from now on, in the transaction that is open. Others may have given it another shape, another
    /// source, or rows that are set aside since it was checked.
    ///
    /// - Parameter all: All tables of the file that move.
    func begin(_ record: TableRecord, among all: [TableRecord]) throws {
        guard let now = all.first(where: { $0.id == record.id }) else { throw Overtaken() }
        if now.undoStage != nil { return }
        guard now.phase == .copying else { throw Overtaken() }
        try check(now, among: all)
        try BuildStore(connection: connection).drop(record.id)
        try Returns(connection: connection).create()
        guard let sql = try unlessIrreversible(now, { try stepper.undoSQL(now, migration) }) else {
            // Nothing is there to return, nor is to come.
            try end(now)
            return try Stops(connection: connection).forget(record.id)
        }
        try connection.execute(sql.createTable)
        try connection.execute(
            // For the progress: what the ledger has of rows to come is no more to be told from what is collected.
            "UPDATE main.midstream_tables SET undo_stage = 0, ceiling = NULL, settled = settled + ? WHERE id = ?",
            [stepper.store.ledgerCount(now), record.id]
        )
        try Stops(connection: connection).forget(record.id)
    }

    private func hasRows(_ table: String) throws -> Bool {
        let name = SQLIdentifier.quoted(table)
        guard try SchemaReader(connection: connection, schema: "main").table(table) != nil else { return false }
        return try connection.fetchOne("SELECT 1 FROM main.\(name) LIMIT 1") != nil
    }

    // MARK: One step

    /// Brings rows back until the step's time is up, or so many are.
    ///
    /// - Parameters:
    ///   - rows: The most that come back.
    ///   - isOver: Whether no time is left.
    /// - Returns: How many came back.
    func advance(
        _ record: TableRecord,
        atMost rows: Int64,
        until isOver: (_ isNearlyDone: Bool) -> Bool
    ) throws -> (returned: Int64, outcome: MigrationProgress.Outcome) {
        try stepper.attach(migration)
        let sql = try stepper.undoSQL(record, migration)
        if record.watermark == nil {
            // What is in the WAL by now need not be copied while writers wait.
            _ = try? connection.checkpoint(mode: .passive)
        }
        var returned: Int64 = 0
        // Between the stages no writer of the process comes in, or the last rows would never be the last.
        let outcome: MigrationProgress.Outcome? = try stepper.holdingGate {
            var outcome = MigrationProgress.Outcome.busy
            repeat {
                guard let now = try stepper.store.table(record.id), now.phase == .copying, let stage = now.undoStage
                else { return .worked }
                var progress = stepper.undos[record.id] ?? Progress(stage: stage)
                if progress.stage != stage {
                    progress = progress.next(stage, isLast: now.watermark == nil)
                }
                let before = progress.returned
                let did =
                    stage.isMultiple(of: 2)
                    ? try collect(now, sql, &progress)
                    : try bringBack(now, sql, &progress, atMost: rows - returned)
                returned += max(0, progress.returned - before)
                stepper.undos[record.id] = progress
                guard did == .worked else { return outcome == .worked ? .worked : did }
                outcome = .worked
                if returned >= rows { break }
                if isOver(now.watermark == nil && progress.collected <= stepper.undoBatch.rows) { break }
            } while true
            return outcome
        }
        // Others may write meanwhile.
        if outcome == .worked, let now = try stepper.store.table(record.id), now.phase == .copied, now.undoStage != nil
        {
            return (returned, try release(now))
        }
        return (returned, outcome ?? .busy)
    }

    /// Runs `body` in a transaction of the stage that `record` was read in, with what is stored of the table by then;
    /// `progress` is of this stage, and changes with it.
    private func transaction(
        _ record: TableRecord,
        _ progress: inout Progress,
        _ body: (TableRecord, inout Progress) throws -> Void
    ) throws -> MigrationProgress.Outcome {
        var next = progress
        var isCurrent = true
        let done: Void? = try stepper.transaction {
            isCurrent = try stepper.isCurrent()
            guard isCurrent else { return }
            try stepper.checkInPlace(migration)
            guard let now = try stepper.store.table(record.id), now.undoStage == record.undoStage,
                now.phase == record.phase
            else { return }
            try stepper.confirmSource(record)
            try body(now, &next)
        }
        // The next step has statements for the new schema.
        guard done != nil, isCurrent else { return .busy }
        progress = next
        return .worked
    }

    private func setStage(_ record: TableRecord, _ stage: Int64) throws {
        try connection.execute("UPDATE main.midstream_tables SET undo_stage = ? WHERE id = ?", [stage, record.id])
    }

    // MARK: Collecting

    private func collect(
        _ record: TableRecord,
        _ sql: UndoSQL,
        _ progress: inout Progress
    ) throws -> MigrationProgress.Outcome {
        try transaction(record, &progress) { now, progress in
            if progress.collected < Self.rowsPerPass {
                if now.watermark != nil {
                    progress.collected += try lowerWatermark(now, sql)
                    return
                }
                if !progress.target.isOver {
                    let upper = try upperKey(sql, of: .target, progress.target)
                    progress.collected += try run(
                        sql.settle(ofTarget: true, sql.sql.key.range(after: progress.target.last, through: upper)),
                        progress.target.last,
                        upper
                    )
                    progress.target.pass(upper)
                    return
                }
            }
            if !progress.ledger.isOver {
                let upper = try upperKey(sql, of: .ledger, progress.ledger)
                let collected = try run(
                    sql.collect(sql.sql.key.range(after: progress.ledger.last, through: upper)),
                    progress.ledger.last,
                    upper
                )
                progress.ledger.pass(upper)
                if collected > 0 || !progress.ledger.isOver { return }
            }
            try setStage(now, (now.undoStage ?? 0) + 1)
        }
    }

    /// Puts the keys of the last rows up to the watermark into the ledger, and lowers it.
    ///
    /// - Returns: The keys.
    private func lowerWatermark(_ record: TableRecord, _ sql: UndoSQL) throws -> Int64 {
        let position = try RowMover(statements: stepper.statements, sql: sql.sql).position(record)
        // All has been passed, or up to that key.
        let top: RowKey? = if case .after(let key)? = position { key } else { nil }
        var bottom = try lowerKey(sql, ofTarget: false, above: nil, through: top)
        bottom = try lowerKey(sql, ofTarget: true, above: bottom, through: top) ?? bottom
        var settled: Int64 = 0
        for isTarget in [true, false] {
            settled += try run(
                sql.settle(ofTarget: isTarget, sql.sql.key.range(after: bottom, through: top)),
                bottom,
                top
            )
        }
        let key = sql.sql.key
        if let bottom, !key.isRowID {
            _ = try RowMover(statements: stepper.statements, sql: sql.sql).run(sql.sql.storeWatermarkKey) {
                try $0.bind(bottom, at: 1)
            }
        }
        let lower = try stepper.statements.statement(sql.lowerWatermark)
        defer { lower.reset() }
        if let bottom { try lower.bind(bottom.rowID ?? 0, at: 1) } else { try lower.bind(SQLiteValue.null, at: 1) }
        _ = try lower.step()
        return settled
    }

    private func lowerKey(_ sql: UndoSQL, ofTarget isTarget: Bool, above lower: RowKey?, through upper: RowKey?) throws
        -> RowKey?
    {
        let text = sql.lowerKey(ofTarget: isTarget, sql.sql.key.range(after: lower, through: upper))
        return try key(text, sql, lower, upper)
    }

    // MARK: Returning

    private func bringBack(
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
            // A checkpoint by somebody else may have synced nothing.
            try connection.sync(schema: "main")
        }
        progress.isUnread = true
        do {
            if !progress.clearing.isOver { return try clear(record, sql, &progress) }
            if !progress.returning.isOver { return try copyBatch(record, sql, &progress, atMost: rows) }
        } catch let error as SQLiteError where ResultCode.busy ~= error.code || ResultCode.locked ~= error.code {
            return .busy
        }
        // Readers from before are waited for while there is something to read, as far as that goes.
        if migration.sourcePath != nil, record.watermark == nil, try isTrue(sql.isEmpty),
            try !stepper.isProvenUnread(record.id, since: .emptied(progress.stage))
        {
            return .waitingForReaders
        }
        if progress.vainPasses >= Self.vainPasses {
            stepper.undos[record.id] = nil
            throw SQLiteError(
                code: .corrupt,
                message:
                    "table \(record.target) is not empty, and no row of it is found: an index of it is damaged. See "
                    + "PRAGMA integrity_check, and REINDEX"
            )
        }
        let outcome = try transaction(record, &progress) { now, _ in
            let hasEnded = try now.watermark == nil && isTrue(sql.isEmpty)
            try hasEnded ? end(now, sql) : setStage(now, (now.undoStage ?? 0) + 1)
        }
        // The next step tries again, from the keys on.
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

    /// Copies a batch into the source, then has the target forget what of it the source has.
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
            try connection.execute(
                "UPDATE main.midstream_tables SET copied = max(0, copied - ?1), "
                    + "settled = max(0, settled - max(0, ?1 - copied)), ceiling = NULL WHERE id = ?2",
                [returned, record.id]
            )
        }
        stepper.undoBatch.adapt(took: ContinuousClock.now - start)
        if settled == .worked, let left {
            // The others go on.
            stepper.undos[record.id] = progress
            throw differs(record, left)
        }
        return settled
    }

    /// - Returns: The rows that the source does not take.
    private func copy(
        _ record: TableRecord,
        _ sql: UndoSQL,
        _ lower: RowKey?,
        _ upper: RowKey?
    ) throws -> [Progress.Refusal] {
        let others = try Claims(connection: connection, migration: migration).otherConditions(record)
        // Those that are there before are another table's, which knows them by keys that this one has as well.
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

    /// The keys of a range whose rows in the source are none of this table's.
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
            // What a function of the condition fails on does not meet it.
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

    /// A key of a range that neither went back nor was refused.
    private func firstLeft(
        _ sql: UndoSQL,
        _ lower: RowKey?,
        _ upper: RowKey?,
        _ refusals: [Progress.Refusal]
    ) throws -> RowKey? {
        let refused = Set(refusals.map { sql.sql.key.folded($0.key) })
        // Strangers are told of by their first.
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

    /// Numbers that tell whether somebody else has written one of the files: the application the target, or another process
    /// that is at the same stage the source.
    ///
    /// Source: <https://www.sqlite.org/pragma.html#pragma_data_version>.
    private func dataVersions() throws -> [Int64?] {
        try ["main", migration.schema].map { try connection.fetchValue("PRAGMA \($0).data_version") }
    }

    // MARK: Ending

    /// All rows are back: the target's table is an ordinary one again.
    private func end(_ record: TableRecord, _ sql: UndoSQL) throws {
        try end(record)
        try connection.execute("DROP TABLE \(sql.returning)")
        try connection.execute(sql.dropReturned)
    }

    private func end(_ record: TableRecord) throws {
        try connection.execute(
            "UPDATE main.midstream_tables SET phase = ?1, watermark = ?2, ceiling = NULL, copied = 0, settled = 0, total = 0, "
                + "undo_stage = ifnull(undo_stage, 0) WHERE id = ?3",
            [MigrationPhase.copied.rawValue, Int64.max, record.id]
        )
        for text in MoveSQL.dropTriggers(record.id) { try connection.execute(text) }
    }

    /// Opens the source of a table to writers that has ended, and has the target forget it.
    func release(_ record: TableRecord) throws -> MigrationProgress.Outcome {
        let isGone = try isGoneSinceOpening(record)
        if migration.sourcePath != nil, !isGone {
            guard try stepper.isProvenUnread(record.id, since: .end) else { return .waitingForReaders }
            // The source's rows are the only ones from now on. A checkpoint by somebody else may have synced nothing.
            try connection.sync(schema: "main")
            try stepper.attach(migration)
            try stepper.checkInPlace(migration)
            guard try noteOpening(record),
                try stepper.writeSourceAtOnce(migration, of: record, { try open(record) }) != nil
            else { return .busy }
        }
        var isMine = false
        let done: Void? = try stepper.transaction(isDurable: true) {
            isMine = try stepper.store.table(record.id) != nil
            guard isMine else { return }
            if migration.sourcePath == nil { try open(record) }
            if isGone {
                let returns = Returns(connection: connection)
                try Unreleased(connection: connection).note(
                    .init(
                        id: record.id,
                        moved: Unreleased.nothing,
                        source: migration.sourcePath,
                        file: returns.file(of: record),
                        writes: returns.writes(of: record)
                    )
                )
            }
            try stepper.store.remove(record)
        }
        guard done != nil else { return .busy }
        stepper.forget(record.id)
        if isMine { stepper.onEvent?(.tableReturned(record.target)) }
        try Retirement(stepper: stepper, migration: migration).leaveSource()
        return .worked
    }

    /// Whether the file of a source that may have been opened is not there any more: it may have been used since, and deleted or
    /// replaced.
    private func isGoneSinceOpening(_ record: TableRecord) throws -> Bool {
        guard record.undoStage == Self.opening, let path = stepper.path(of: migration) else { return false }
        if FilePath.isGone(path) { return true }
        guard let file = try Returns(connection: connection).file(of: record), file != FilePath.lastingIdentity(path)
        else {
            return false
        }
        // What is there may be a copy, which has the claim.
        try stepper.attach(migration)
        return try Claims(connection: connection, migration: migration).all(only: record.id).isEmpty
    }

    /// The number of the last stage of all, in which the source is opened: it has no claim then, or none any more.
    private static let opening = Int64.max

    /// Notes that the source is about to be opened. Until then, one without the claim is another file, or from before.
    ///
    /// - Returns: `false` where somebody keeps the target locked.
    private func noteOpening(_ record: TableRecord) throws -> Bool {
        let claims = Claims(connection: connection, migration: migration)
        let claim = try claims.all(only: record.id).first
        // Another process may have opened it since the record was read, or have ended the move.
        guard let now = try stepper.store.table(record.id), now.undoStage != Self.opening else { return true }
        guard let claim else { throw claims.isOther(record) }
        try claims.checkOwner(claim)
        try claims.checkStage(claim, now)
        let file = stepper.sourceFile(of: migration)
        let noted: Void? = try stepper.transaction(isDurable: true) {
            guard try stepper.store.table(record.id) != nil else { return }
            try Returns(connection: connection).note(file: file, of: record)
            try connection.execute(
                "UPDATE main.midstream_tables SET undo_stage = ?1 WHERE id = ?2 AND phase = ?3 AND undo_stage IS NOT NULL",
                [Self.opening, record.id, MigrationPhase.copied.rawValue]
            )
        }
        return noted != nil
    }

    /// Takes the fence down.
    private func open(_ record: TableRecord) throws {
        let claims = Claims(connection: connection, migration: migration)
        if !claims.isSameFile, let claim = try claims.all().first(where: { $0.id == record.id }) {
            try claims.checkOwner(claim)
            // The file may be from before its rows returned.
            try claims.checkStage(claim, stepper.store.table(record.id))
        }
        try claims.withdraw(record)
        try Self.raiseSequence(record, migration, connection)
    }

    /// Has the source's AUTOINCREMENT choose none of the rowids again that a table which has returned has had.
    static func raiseSequence(_ record: TableRecord, _ migration: MigrationRecord, _ connection: Connection) throws {
        let reader = SchemaReader(connection: connection, schema: migration.schema)
        guard let source = try reader.table(record.source), source.isAutoIncrement,
            let sequence = try AutoIncrement.sequence(of: record.target, in: "main", connection)
        else { return }
        try AutoIncrement.raise(of: source.name, in: migration.schema, to: sequence, connection)
    }

    // MARK: Statements

    private func upperKey(
        _ sql: UndoSQL,
        of walked: UndoSQL.Walked,
        _ walk: Walk,
        atMost rows: Int64 = .max
    ) throws -> RowKey? {
        try sql.sql.key.nearest(walk.last) { shared in
            let text = sql.upperKey(of: walked, isBounded: walk.last != nil, sharing: shared)
            return try key(text, sql, walk.last, nil, atMost: rows)
        }
    }

    /// The key that a query gives which asks for one behind a batch.
    private func key(
        _ text: String,
        _ sql: UndoSQL,
        _ lower: RowKey?,
        _ upper: RowKey?,
        atMost rows: Int64 = .max
    ) throws -> RowKey? {
        let statement = try stepper.statements.statement(text)
        defer { statement.reset() }
        try bind(statement, sql, lower, upper)
        if statement.parameterCount >= sql.offsetParameter {
            try statement.bind(min(rows, stepper.undoBatch.rows) - 1, at: sql.offsetParameter)
        }
        return try statement.step() ? sql.sql.key.read(statement) : nil
    }

    /// The keys that a query of a range gives.
    private func keys(_ text: String, _ sql: UndoSQL, _ lower: RowKey?, _ upper: RowKey?) throws -> [RowKey] {
        let statement = try stepper.statements.statement(text)
        defer { statement.reset() }
        try bind(statement, sql, lower, upper)
        var keys: [RowKey] = []
        while try statement.step() { keys.append(try sql.sql.key.read(statement)) }
        return keys
    }

    private func bind(_ statement: Statement, _ sql: UndoSQL, _ lower: RowKey?, _ upper: RowKey?) throws {
        if let lower { try statement.bind(lower, at: 1) }
        if let upper { try statement.bind(upper, at: 1 + sql.sql.key.count) }
    }

    private func isTrue(_ text: String) throws -> Bool {
        try connection.fetchValue(Int64.self, text) == 1
    }

    /// - Returns: How many rows it changed.
    private func run(
        _ text: String,
        by step: (Statement) throws -> Bool = { try $0.step() },
        _ lower: RowKey?,
        _ upper: RowKey?
    ) throws -> Int64 {
        try stepper.statements.run(text, by: step) { statement in
            if let lower { try statement.bind(lower, at: 1) }
            if let upper { try statement.bind(upper, at: 1 + upper.values.count) }
        }
    }

    // MARK: Errors

    private func refused(_ record: TableRecord, _ refusal: Progress.Refusal) -> MigrationError {
        let why =
            refusal.cause == nil
            ? "It does not meet the condition by which the table's rows were taken from there, or meets that of another "
                + "table. " : ""
        return MigrationError(
            .rowRefused,
            "source table \(record.source) refuses the row \(refusal.key.words) of target table \(record.target). \(why)"
                + "The row stays in the target and is read as before. The rows go on returning when the row is "
                + "deleted, or changed so that the source takes it",
            table: record.target,
            row: refusal.key,
            cause: refusal.cause
        )
    }

    private func differs(_ record: TableRecord, _ key: RowKey) -> MigrationError {
        MigrationError(
            .notVerified,
            "source table \(record.source) does not keep the row \(key.words) of target table \(record.target). It stays in "
                + "the target. Its values change when they are converted to the types of the source's columns; otherwise check "
                + "both files with PRAGMA integrity_check",
            table: record.target,
            row: key
        )
    }
}
