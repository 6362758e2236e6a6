internal import SQLText
internal import SQLiteConnection

extension Copying {
    /// Counts the source's rows, as far as they can be read.
    ///
    /// - Returns: The count, if it is complete. `nil` as well if pages are damaged and not all rows have been passed.
    func countReadable(
        _ record: TableRecord,
        _ limit: Stepper.Limit,
        _ start: ContinuousClock.Instant
    ) throws -> (rows: Int64, hashes: Int64?)? {
        do {
            if record.unreadableRowsTable == nil { return try count(record, limit, start) }
        } catch let error as SQLiteError where ResultCode.corrupt ~= error.code {
            state.counts[record.id] = nil
            state.damaged[record.id] = record.migration
            if !record.isPassed { return nil }
        }
        do {
            return (try UnreadableRows(rows: refusedRows(record, .success([]))).count(), nil)
        } catch let error as SQLiteError where ResultCode.corrupt ~= error.code {
            throw unreadable(record, nil, error)
        }
    }

    /// Stores how many rows the source has; at the end, stores that they have moved.
    ///
    /// - Returns: `false` if the target could not be locked.
    func storeCount(_ counted: (rows: Int64, hashes: Int64?), _ record: TableRecord) throws -> Bool {
        // Unless the target was locked, the count is forgotten: after an error, whoever has put things right needs a
        // new one.
        var isBusy = false
        defer { if !isBusy { state.counts[record.id] = nil } }
        let isStored: Void? = try stepper.transaction {
            guard try stepper.isCurrent(), let now = try store.table(record.id), now.isMoving,
                now.isPassed == record.isPassed
            else { return }
            if now.isPassed {
                _ = try stepper.claims(of: record)?.confirmTarget(record)
                try mover.complete(now, counted: counted.rows, hashed: counted.hashes)
            } else {
                _ = try mover.run(TableUpdate.storeTotal(record.id)) {
                    try $0.bind(counted.rows, at: 1)
                }
            }
        }
        isBusy = isStored == nil
        return !isBusy
    }

    /// Goes on counting the source's rows, from the largest key down. Copying goes in the other direction.
    ///
    /// - Returns: The count, if it is complete.
    private func count(
        _ record: TableRecord,
        _ limit: Stepper.Limit,
        _ start: ContinuousClock.Instant
    ) throws -> (rows: Int64, hashes: Int64?)? {
        // The first count serves only for the progress. The last count does not rely on it.
        let isLast = record.isPassed
        let hashes = record.verification == .complete && isLast
        var count = state.counts[record.id].flatMap { $0.isLast == isLast ? $0 : nil } ?? SourceCount(isLast: isLast)
        while !count.isComplete {
            let first = try sql.key.nearest(count.end) { shared in
                let edge = try stepper.statements.statement(sql.sliceStart(isEnded: count.end != nil, sharing: shared))
                defer { edge.reset() }
                if let end = count.end { try edge.bind(end, at: 1) }
                try edge.bind(SourceCount.rowsPerSlice - 1, at: sql.key.count + 1)
                return try edge.step() ? sql.key.read(edge) : nil
            }
            let range = sql.key.range((.before, count.end), (.from, first))
            let slice = try stepper.statements.statement(sql.countSlice(range, hashes: hashes))
            defer { slice.reset() }
            if let end = count.end { try slice.bind(end, at: 1) }
            if let first { try slice.bind(first, at: 1 + sql.key.count) }
            guard try slice.step() else { break }
            count.add(slice.int64(at: 0), hashes && !slice.isNull(at: 1) ? slice.int64(at: 1) : 0, from: first)
            if case .time(let budget, _) = limit, clock.now - start > budget / 2 { break }
        }
        state.counts[record.id] = count
        return count.isComplete ? (count.belonging, hashes ? count.hashes : nil) : nil
    }
}

/// A count of the source's rows that goes on from step to step. The source does not change meanwhile.
struct SourceCount {
    static let rowsPerSlice: Int64 = 4096

    /// Whether all rows have been passed, so that the rows that moved are compared with the source as it is at the end.
    let isLast: Bool
    /// All rows from this key on are counted; `nil` before the first slice.
    private(set) var end: RowKey?
    private(set) var isComplete = false
    /// The number of counted rows that belong to the migration.
    private(set) var belonging: Int64 = 0

    /// The sum of these rows' hashes.
    private(set) var hashes: Int64 = 0

    init(isLast: Bool) { self.isLast = isLast }

    /// - Parameter start: The first key of the slice; `nil` if this was the last slice.
    mutating func add(_ belonging: Int64, _ hashes: Int64, from start: RowKey?) {
        self.belonging += belonging
        self.hashes &+= hashes
        end = start
        isComplete = start == nil
    }
}
