internal import SQLText
internal import SQLiteConnection

/// Moves pending rows one by one, after a batch has met a page of the source that is damaged, and finds out which cannot
/// be read.
///
/// A row is found by its rowid, beyond damaged pages as well as before them, as long as the pages above its own are whole.
struct UnreadableRows {
    let rows: RefusedRows

    private var mover: RowMover { rows.mover }
    private var record: TableRecord { rows.record }
    private var connection: Connection { rows.connection }
    private var sql: MoveSQL { mover.sql }

    /// What came of it.
    struct Outcome {
        var copied: Int64 = 0
        var setAside: Int64 = 0
        /// The row that the target does not take, where it stopped.
        var refusal: (key: RowKey, error: SQLiteError)?
        /// The rowids of which nothing can be read, where it stopped.
        var damage: Damage?
        /// Those that were left out.
        var skipped: [Damage] = []

        var isStopped: Bool { refusal != nil || damage != nil }
    }

    /// Rowids of which nothing can be read, and SQLite's error. There may be more rowids than there were rows.
    struct Damage {
        var rowIDs: ClosedRange<Int64>
        var error: SQLiteError
    }

    // MARK: Moving

    /// What of the rows that follow a position can be read.
    struct Survey {
        fileprivate var last: Int64?
        fileprivate var rowIDs: [Int64] = []
        /// Those of them that cannot be read.
        fileprivate var unreadable: [Int64: SQLiteError] = [:]
        fileprivate var end = End.more
    }

    /// Reads about so many rows that follow a position.
    ///
    /// Outside transactions: within one SQLite refuses all writes once it has met damage.
    func survey(after position: Position, rows count: Int64) throws -> Survey {
        var survey = Survey(last: position.key?.rowID)
        survey.end = try scan(count, &survey)
        for rowID in survey.rowIDs { survey.unreadable[rowID] = try errorOfReading(rowID) }
        if case .damaged(let error) = survey.end {
            let last = survey.rowIDs.last ?? survey.last
            let next = try firstReadable(after: last)
            let first = last.map { $0 + 1 } ?? .min
            let damage = Damage(rowIDs: first...max(first, next.map { $0 - 1 } ?? .max), error: error)
            survey.end = .beforeDamage(damage, isOver: next == nil)
        }
        return survey
    }

    /// Moves the rows that a survey has found, and the watermark with them.
    func move(_ survey: Survey, policy: UnreadableRowPolicy) throws -> Outcome {
        var outcome = Outcome()
        // The last rowid that is done with.
        var last = survey.last
        for rowID in survey.rowIDs {
            if let error = survey.unreadable[rowID] {
                meet(Damage(rowIDs: rowID...rowID, error: error), policy, &outcome)
            } else if try isPending(rowID) {
                switch try rows.move(.rowID(rowID)) {
                case .copied: outcome.copied += 1
                case .setAside: outcome.setAside += 1
                case .stopped(let error): outcome.refusal = (.rowID(rowID), error)
                }
            }
            if outcome.isStopped { break }
            last = rowID
        }
        var isPassed = false
        if !outcome.isStopped {
            switch survey.end {
            case .more, .damaged: break
            case .over: isPassed = true
            case .beforeDamage(let damage, let isOver):
                meet(damage, policy, &outcome)
                if !outcome.isStopped {
                    last = damage.rowIDs.upperBound
                    isPassed = isOver
                }
            }
        }
        try record(outcome.skipped)
        if isPassed || last != survey.last {
            try mover.advance(
                to: isPassed ? nil : last.map { .rowID($0) },
                copied: outcome.copied,
                hasLedger: true,
                setAside: outcome.setAside
            )
        }
        return outcome
    }

    private func meet(_ damage: Damage, _ policy: UnreadableRowPolicy, _ outcome: inout Outcome) {
        switch policy {
        case .skip: outcome.skipped.append(damage)
        case .stop: outcome.damage = damage
        }
    }

    /// How a survey ended.
    fileprivate enum End {
        case more
        case over
        case damaged(SQLiteError)
        /// There is nothing to be read beyond it where it is over.
        case beforeDamage(Damage, isOver: Bool)
    }

    private func scan(_ count: Int64, _ survey: inout Survey) throws -> End {
        let scan = try mover.statements.statement(sql.keys(isBounded: survey.last != nil))
        defer { scan.reset() }
        if let last = survey.last { try scan.bind(last + 1, at: 1) }
        do {
            while survey.rowIDs.count < count {
                guard try scan.step() else { return .over }
                survey.rowIDs.append(scan.int64(at: 0))
            }
            return .more
        } catch {
            guard ResultCode.corrupt ~= error.code else { throw error }
            return .damaged(error)
        }
    }

    private func isPending(_ rowID: Int64) throws -> Bool {
        let statement = try mover.statements.statement(sql.isPending(isBounded: false))
        defer { statement.reset() }
        try statement.bind(rowID, at: 1)
        return try statement.step()
    }

    /// Why a row of the source cannot be read, or not all of it; `nil` when it can.
    private func errorOfReading(_ rowID: Int64) throws -> SQLiteError? {
        do {
            for text in [sql.belongs, sql.selectRow] {
                let statement = try mover.statements.statement(text)
                defer { statement.reset() }
                try statement.bind(rowID, at: 1)
                _ = try statement.step()
                // What is on other pages is read when it is asked for.
                _ = Row(copying: statement)
                _ = try statement.step()
            }
            return nil
        } catch let error as SQLiteError where ResultCode.corrupt ~= error.code {
            return error
        }
    }

    // MARK: Beyond the damage

    /// How many rowids are tried one after the other, and then at equal distances.
    private static let probes: Int64 = 20_000

    /// The first rowid beyond a damaged page that can be read; `nil` when there is none.
    ///
    /// From the other end, what can be read tells how far the damage goes at most. There may be pages between two damaged
    /// ones that are whole: they are found where rowids are dense, or else with luck.
    private func firstReadable(after key: Int64?) throws -> Int64? {
        let first = key.map { $0 + 1 } ?? .min
        let bound = try lowest(from: first, through: nil)
        let limit = bound ?? .max
        var found: Int64?
        var probe = bound == nil && key == nil ? Int64.max : first
        let distance = max(1, (limit / 2 - first / 2) / Self.probes * 2)
        var tries: Int64 = 0
        while found == nil, probe < limit, tries < 2 * Self.probes {
            found = try next(from: probe)
            tries += 1
            let (sum, overflow) = probe.addingReportingOverflow(tries < Self.probes ? 1 : distance)
            if overflow { break }
            probe = sum
        }
        guard let found, found < limit else { return bound }
        return try lowest(from: first, through: found - 1) ?? found
    }

    /// The lowest rowid that a scan down comes to, from a rowid or the last one, before it meets damage.
    private func lowest(from first: Int64, through end: Int64?) throws -> Int64? {
        let scan = try mover.statements.statement(sql.keysDown(isEnded: end != nil, isConditional: false))
        defer { scan.reset() }
        try scan.bind(first, at: 1)
        if let end { try scan.bind(end, at: 2) }
        var lowest: Int64?
        do {
            while try scan.step() { lowest = scan.int64(at: 0) }
        } catch {
            guard ResultCode.corrupt ~= error.code else { throw error }
        }
        return lowest
    }

    /// The first rowid from that one on; `nil` when the page that it would be on is damaged.
    private func next(from key: Int64) throws -> Int64? {
        let seek = try mover.statements.statement(sql.firstKey)
        defer { seek.reset() }
        try seek.bind(key, at: 1)
        do {
            return try seek.step() ? seek.int64(at: 0) : nil
        } catch {
            guard ResultCode.corrupt ~= error.code else { throw error }
            return nil
        }
    }

    // MARK: What was left out

    private static let report = ReportTable(
        kind: "unreadable",
        nameColumn: "unreadable_rows_table",
        columns: ["first_rowid", "last_rowid", "reason"]
    )

    private func record(_ skipped: [Damage]) throws {
        guard !skipped.isEmpty else { return }
        // The table has fewer rows from now on than were counted.
        try connection.execute("UPDATE main.midstream_tables SET total = NULL WHERE id = ?", [record.id])
        let name = SQLIdentifier.quoted(try Self.report.make(for: record, connection))
        for damage in skipped {
            try connection.execute(
                "INSERT INTO main.\(name) VALUES (?, ?, ?)",
                [damage.rowIDs.lowerBound, damage.rowIDs.upperBound, damage.error.message]
            )
            // Rows that statements have brought over are in the target, but cannot be counted in the source.
            try connection.execute(
                "DELETE FROM \(sql.ledger) WHERE key BETWEEN ? AND ?",
                [damage.rowIDs.lowerBound, damage.rowIDs.upperBound]
            )
        }
    }

    /// Counts the source's rows that belong, from the last one down, but for those that were left out.
    func count() throws -> Int64 {
        guard let table = record.unreadableRowsTable else { return try countRows([]) }
        let name = SQLIdentifier.quoted(table)
        return try countRows(
            connection.fetchAll("SELECT first_rowid, last_rowid FROM main.\(name) ORDER BY first_rowid DESC")
                .map { try $0.get(0, as: Int64.self)...$0.get(1, as: Int64.self) }
        )
    }

    private func countRows(_ skipped: [ClosedRange<Int64>]) throws -> Int64 {
        var count: Int64 = 0
        // No row beyond it is still to be counted.
        var end: Int64?
        while true {
            let scan = try mover.statements.statement(sql.keysDown(isEnded: end != nil, isConditional: true))
            defer { scan.reset() }
            try scan.bind(Int64.min, at: 1)
            if let end { try scan.bind(end, at: 2) }
            do {
                while try scan.step() {
                    let rowID = scan.int64(at: 0)
                    if !skipped.contains(where: { $0.contains(rowID) }) { count += 1 }
                    if rowID == .min { return count }
                    end = rowID - 1
                }
                return count
            } catch {
                // It is one of the ranges that it has come to, or a page is damaged that was not.
                guard ResultCode.corrupt ~= error.code,
                    let range = skipped.first(where: { range in end.map { range.upperBound <= $0 } ?? true })
                else { throw error }
                if range.lowerBound == .min { return count }
                end = range.lowerBound - 1
            }
        }
    }
}
