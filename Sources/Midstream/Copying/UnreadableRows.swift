internal import SQLiteConnection

/// Moves pending rows one by one, after a batch has met a damaged page of the source, and finds out which rows cannot
/// be read.
///
/// A row is found by its key, beyond damaged pages as well as before them, as long as the pages above its own page are
/// whole.
struct UnreadableRows {
    let rows: RefusedRows

    private var mover: RowMover { rows.mover }
    private var record: TableRecord { rows.record }
    private var sql: MoveSQL { mover.sql }
    private var keys: SourceKeys { SourceKeys(statements: mover.statements, sql: sql) }
    private var report: UnreadableReport { UnreadableReport(mover: mover, record: record, connection: rows.connection) }

    /// What has become of the rows.
    struct Outcome {
        /// What has become of the rows that could be read.
        var rows = RefusedRows.Outcome()
        /// What cannot be read, if the table stops at it.
        var damage: Damage?
        /// What could not be read and was left out.
        var skipped: [Damage] = []

        var isStopped: Bool { rows.refusal != nil || damage != nil }
    }

    // MARK: What can be read

    /// Which of the rows after a position can be read.
    struct Survey {
        fileprivate var start: RowKey?
        fileprivate var items: [Item] = []
        fileprivate var isOver = false

        /// The last key that the survey has reached.
        fileprivate var last: RowKey? { items.last?.key ?? start }
        fileprivate var endsInDamage: Bool { if case .damage? = items.last { true } else { false } }
    }

    fileprivate enum Item {
        /// A row that belongs to the migration, and the way by which it is reached.
        case row(RowKey, MoveSQL.Way)
        /// A row that does not belong to the migration.
        case other(RowKey)
        case damage(Damage)

        var key: RowKey? {
            switch self {
            case .row(let key, _), .other(let key): key
            case .damage(let damage): damage.key
            }
        }
    }

    /// Reads about `count` rows after a position. Reads more if it would end with a row that cannot be read, since
    /// whoever reads the source seeks the watermark.
    ///
    /// Call it outside transactions: within a transaction, SQLite refuses all writes once it has met damage.
    func survey(after position: Position, rows count: Int64) throws -> Survey {
        var survey = Survey(start: position.key)
        repeat {
            let isFirst = survey.items.isEmpty
            let found = try keys.next(count, after: survey.last)
            if found.hasGap, let error = found.error {
                survey.items.append(.damage(Damage(place: .between(survey.last, found.keys.first), error: error)))
            }
            survey.isOver = found.isOver
            for key in found.keys {
                survey.items.append(try item(key, found))
                if !isFirst, !survey.endsInDamage {
                    survey.isOver = false
                    break
                }
            }
        } while survey.endsInDamage && !survey.isOver
        return survey
    }

    private func item(_ key: RowKey, _ found: SourceKeys.Found) throws -> Item {
        var damage = found.error
        for way in sql.ways + (found.way.map { [$0] } ?? []) {
            do {
                guard let belongs = try belongs(key, way) else { continue }
                if !belongs { return .other(key) }
                let statement = try mover.statements.statement(sql.selectRow(way))
                defer { statement.reset() }
                try sql.bind(key, way, to: statement)
                _ = try statement.step()
                // SQLite reads values on other pages only when they are asked for.
                _ = Row(copying: statement)
                return .row(key, way)
            } catch let error as SQLiteError {
                guard ResultCode.corrupt ~= error.code else { throw error }
                damage = damage ?? error
            }
        }
        // An index may have a key that the table no longer has.
        let error = damage ?? SQLiteError(code: .corrupt, message: "database disk image is malformed")
        return .damage(Damage(place: .row(key), error: error))
    }

    /// Whether a row belongs to the migration; `nil` if the way does not lead to the row.
    private func belongs(_ key: RowKey, _ way: MoveSQL.Way) throws -> Bool? {
        let statement = try mover.statements.statement(sql.belongs(way))
        defer { statement.reset() }
        try sql.bind(key, way, to: statement)
        return try statement.step() ? statement.int64(at: 0) != 0 : nil
    }

    // MARK: Moving

    /// Moves the rows that a survey has found, and moves the watermark with them.
    func move(_ survey: Survey, policy: UnreadableRowPolicy) throws -> Outcome {
        var outcome = Outcome()
        // The last key that is done with, and the damage after that key.
        var last = survey.start
        var met: [Damage] = []
        for item in survey.items {
            if case .damage(let damage) = item {
                if policy == .stop {
                    outcome.damage = damage
                    break
                }
                met.append(damage)
            }
            if case .row(let key, let way) = item, try isPending(key) {
                outcome.rows.note(try rows.move(key, by: way), of: key)
                if outcome.isStopped { break }
            }
            guard let key = item.key else { continue }
            last = key
            outcome.skipped += met
            met = []
        }
        let isPassed = survey.isOver && !outcome.isStopped
        if isPassed { outcome.skipped += met }
        try report.add(outcome.skipped)
        // Rows that were reached in other ways are in no checksum.
        try mover.leaveHashesOut()
        if isPassed || last != survey.start {
            try mover.advance(
                to: isPassed ? nil : last,
                copied: outcome.rows.copied,
                hasLedger: true,
                others: outcome.rows.setAside
            )
        }
        return outcome
    }

    /// Whether no statement has brought a row over.
    private func isPending(_ key: RowKey) throws -> Bool {
        let statement = try mover.statements.statement(sql.isInLedger)
        defer { statement.reset() }
        try statement.bind(key, at: 1)
        return try !statement.step()
    }

    // MARK: Counting

    /// Counts the source's rows that belong to the migration, except those that were left out.
    ///
    /// Beside damage, a row is reached only by the way by which it was found before.
    func count() throws -> Int64 {
        var count: Int64 = 0
        var last: RowKey?
        while true {
            let found = try keys.next(SourceCount.rowsPerSlice, after: last)
            if found.hasGap, let error = found.error, try !report.meets(after: last, before: found.keys.first) {
                throw error
            }
            if let first = found.keys.first, let end = found.keys.last {
                if try sql.condition.isEmpty && !report.meets(first, end) {
                    count += Int64(found.keys.count)
                } else {
                    for key in found.keys where try !report.meets(key, key) && isCounted(key, found) { count += 1 }
                }
                last = end
            }
            if found.isOver { return count }
        }
    }

    private func isCounted(_ key: RowKey, _ found: SourceKeys.Found) throws -> Bool {
        if sql.condition.isEmpty { return true }
        switch try item(key, found) {
        case .row: return true
        case .other: return false
        case .damage(let damage): throw damage.error
        }
    }
}
