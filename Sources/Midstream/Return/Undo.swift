internal import SQLText
internal import SQLiteConnection

/// Brings a table's rows back to its source, with all that was changed since, while the application goes on.
///
/// Here, too, the target alone tells where a row is: a row that is back is one that the target calls pending again. The
/// source may be written only where nobody reads it. So rows go in passes of two stages each, and the stored number of
/// the stage tells every process what may be done:
///
/// 1. *Collecting.* The keys of some rows that are in the target go into the ledger, which hides the source's rows with
///    these keys, and into a table of the keys that are to return. The watermark sinks.
/// 2. *Returning.* When no reader has a snapshot from before (see `isProvenUnread`), the source's rows with these keys
///    are replaced by the target's. They are on the disk before the target forgets its own.
///
/// A row that is written meanwhile differs on the two sides, and stays for the next pass. When nothing is left, the
/// target's table is an ordinary one again, and empty. The source's fence comes down when no reader has a snapshot from
/// before that either: a reader with such a snapshot has rows from the source, which others may write once the fence is
/// gone.
struct Undo {
    let stepper: Stepper
    let migration: MigrationRecord

    var connection: Connection { stepper.connection }
    var memory: UndoMemory { stepper.memory(UndoMemory.self) }

    /// About how many rows a pass brings back.
    private static let rowsPerPass: Int64 = 65_536

    /// Another process has moved the rest of a table's rows, or brought them back, since this process looked at the
    /// table.
    struct Overtaken: Error {}

    /// How many passes may bring no row back before an error says so: another process may write the last row again and
    /// again.
    static let vainPasses = 100

    /// How far this process is with the stage of one table.
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
        /// How many passes before this one have brought back none of the last rows, although the source refused none.
        var vainPasses = 0

        /// - Parameter isLast: Whether no rows are left but those that are in the target by now.
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
    /// - Throws: ``MigrationError`` if it cannot; ``Overtaken`` if another process has been faster.
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
                "its source file could not be written when the move began, and still has all rows as they were then"
            )
        }
        if record.isRebuild {
            throw UndoSQL.cannot(record, "the table was rebuilt, and a rebuild cannot be undone")
        }
        let others = all.filter { other in
            // The table of its source may have moved before, and may be another table since then.
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
            // Another process may have brought this table back and begun one of these moves instead: then the error
            // does not count.
            if !former.isEmpty { throw UndoSQL.cannot(record, "other rows of that table have moved before") }
            _ = try unlessIrreversible(record) {
                if record.firesTriggers {
                    throw UndoSQL.cannot(record, "rows that moved fired its triggers, which cannot be undone")
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

    /// - Returns: What `body` returns; `nil` if the table cannot return, and has no row that would have to.
    private func unlessIrreversible<Result>(_ record: TableRecord, _ body: () throws -> Result) throws -> Result? {
        do {
            return try body()
        } catch let error as MigrationError {
            guard error.code == .unsupported, try !hasRowsToReturn(record) else { throw error }
            return nil
        }
    }

    /// Whether the target has rows of the table, or an entry of the ledger. While it has neither, all rows are in the
    /// source, whatever the columns are made of.
    private func hasRowsToReturn(_ record: TableRecord) throws -> Bool {
        guard record.watermark == nil, record.copied == 0, record.settled == 0 else { return true }
        return try ["\(SQLIdentifier.quoted(record.target))", record.ledger].contains { table in
            try connection.fetchOne("SELECT 1 FROM main.\(table) LIMIT 1") != nil
        }
    }

    /// A source may have an index, a CHECK or a generated column with a function of the application. Its rows can be
    /// read without the function, but not written.
    private func checkWrites(_ record: TableRecord, _ sql: UndoSQL) throws {
        do {
            for text in [sql.copyRow, sql.deleteRow] { _ = try connection.prepare(text) }
        } catch {
            guard error.code == .error else { throw error }
            throw UndoSQL.cannot(record, "its source cannot be written without the application: \(error.message)")
        }
    }

    /// Makes a table return from now on, in the open transaction. Since the table was checked, others may have given it
    /// another shape or another source, or set rows aside.
    ///
    /// - Parameter all: All tables of the file that move.
    func begin(_ record: TableRecord, among all: [TableRecord]) throws {
        guard let now = all.first(where: { $0.id == record.id }) else { throw Overtaken() }
        if now.isReturning { return }
        guard now.phase == .copying else { throw Overtaken() }
        try check(now, among: all)
        try BuildStore(connection: connection).drop(record.id)
        try Returns(connection: connection).create()
        guard let sql = try unlessIrreversible(now, { try stepper.undoSQL(now, migration) }) else {
            // No row is there to return, and none is to come.
            try end(now)
            return try Stops(connection: connection).forget(record.id)
        }
        try connection.execute(sql.createTable)
        try TableUpdate.move(now, to: .returning(stage: 0), connection)
        try TableUpdate.countSettled(now, stepper.store.ledgerCount(now), connection)
        try Stops(connection: connection).forget(record.id)
    }

    private func hasRows(_ table: String) throws -> Bool {
        let name = SQLIdentifier.quoted(table)
        guard try SchemaReader(connection: connection, schema: "main").table(table) != nil else { return false }
        return try connection.fetchOne("SELECT 1 FROM main.\(name) LIMIT 1") != nil
    }

    // MARK: One step

    /// Brings rows back until the step's time is up, or until `rows` rows are back.
    ///
    /// - Parameters:
    ///   - rows: How many rows come back, at most.
    ///   - isOver: Whether no time is left.
    /// - Returns: How many rows came back.
    func advance(
        _ record: TableRecord,
        atMost rows: Int64,
        until isOver: (_ isNearlyDone: Bool) -> Bool
    ) throws -> (returned: Int64, outcome: MigrationProgress.Outcome) {
        try stepper.attach(migration)
        let sql = try stepper.undoSQL(record, migration)
        if record.watermark == nil {
            // The checkpoint copies what is in the WAL by now, so that it need not be copied while writers wait.
            _ = try? connection.checkpoint(mode: .passive)
        }
        var returned: Int64 = 0
        // The step holds the gate, so that no writer of the process comes in between the stages. Otherwise the last
        // rows would never be the last.
        let outcome: MigrationProgress.Outcome? = try stepper.holdingGate {
            var outcome = MigrationProgress.Outcome.busy
            repeat {
                guard let now = try stepper.store.table(record.id), now.phase == .copying, let stage = now.undoStage
                else { return .worked }
                var progress = memory.progress[record.id] ?? Progress(stage: stage)
                if progress.stage != stage {
                    progress = progress.next(stage, isLast: now.watermark == nil)
                }
                let before = progress.returned
                let did =
                    stage.isMultiple(of: 2)
                    ? try collect(now, sql, &progress)
                    : try bringBack(now, sql, &progress, atMost: rows - returned)
                returned += max(0, progress.returned - before)
                memory.progress[record.id] = progress
                guard did == .worked else { return outcome == .worked ? .worked : did }
                outcome = .worked
                if returned >= rows { break }
                if isOver(now.watermark == nil && progress.collected <= memory.batch.rows) { break }
            } while true
            return outcome
        }
        // Here the gate is free: others may write meanwhile.
        if outcome == .worked, let now = try stepper.store.table(record.id), now.hasReturned {
            return (returned, try release(now))
        }
        return (returned, outcome ?? .busy)
    }

    /// Runs `body` in a transaction of the stage in which `record` was read. `body` gets what is stored of the table by
    /// then, and `progress`, which is of this stage; `progress` changes if the transaction does its work.
    func transaction(
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
        // If the schema has changed, the next step has statements for the new one.
        guard done != nil, isCurrent else { return .busy }
        progress = next
        return .worked
    }

    func setStage(_ record: TableRecord, _ stage: Int64) throws {
        try TableUpdate.move(record, to: .returning(stage: stage), connection)
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

    /// Puts the keys of the last rows up to the watermark into the ledger, and lowers the watermark.
    ///
    /// - Returns: How many keys were put into the ledger.
    private func lowerWatermark(_ record: TableRecord, _ sql: UndoSQL) throws -> Int64 {
        let position = try RowMover(statements: stepper.statements, sql: sql.sql).position(record)
        // The stepper has passed all rows, or those up to this key.
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
        let lower = try stepper.statements.statement(TableUpdate.lowerWatermark(record.id))
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

    // MARK: Statements

    func upperKey(
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

    /// The key that a query for the end of a batch gives.
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
            try statement.bind(min(rows, memory.batch.rows) - 1, at: sql.offsetParameter)
        }
        return try statement.step() ? sql.sql.key.read(statement) : nil
    }

    /// The keys that a query of a range gives.
    func keys(_ text: String, _ sql: UndoSQL, _ lower: RowKey?, _ upper: RowKey?) throws -> [RowKey] {
        let statement = try stepper.statements.statement(text)
        defer { statement.reset() }
        try bind(statement, sql, lower, upper)
        var keys: [RowKey] = []
        while try statement.step() { keys.append(try sql.sql.key.read(statement)) }
        return keys
    }

    func bind(_ statement: Statement, _ sql: UndoSQL, _ lower: RowKey?, _ upper: RowKey?) throws {
        if let lower { try statement.bind(lower, at: 1) }
        if let upper { try statement.bind(upper, at: 1 + sql.sql.key.count) }
    }

    func isTrue(_ text: String) throws -> Bool {
        try connection.fetchValue(Int64.self, text) == 1
    }

    /// - Returns: How many rows the statement changed.
    func run(
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

    func refused(_ record: TableRecord, _ refusal: Progress.Refusal) -> MigrationError {
        let why =
            refusal.cause == nil
            ? "The row does not meet the condition of its own migration, or meets that of another migration. " : ""
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

    func differs(_ record: TableRecord, _ key: RowKey) -> MigrationError {
        MigrationError(
            .notVerified,
            "source table \(record.source) does not keep the row \(key.words) of target table \(record.target). The "
                + "row stays in the target. Either its values change when they are converted to the types of the "
                + "source's columns, or a file is damaged: check both files with PRAGMA integrity_check",
            table: record.target,
            row: key
        )
    }
}
