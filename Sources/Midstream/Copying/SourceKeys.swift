internal import SQLiteConnection

/// Finds the keys of a source with damaged pages, in the order of the keys.
///
/// Use it outside transactions: within a transaction, SQLite refuses all writes once it has met damage.
struct SourceKeys {
    let statements: InternalStatements
    let sql: MoveSQL

    /// The keys that follow a key.
    struct Found {
        var keys: [RowKey] = []
        /// The way by which the keys were reached, if there is one.
        var way: MoveSQL.Way?
        /// SQLite's error, if a page is damaged.
        var error: SQLiteError?
        /// Whether there may be rows before the first of the keys; if there are no keys, whether there may be rows
        /// after the start.
        var hasGap = false
        /// Whether nothing follows the keys, or nothing that can be read.
        var isOver = false
    }

    /// How many keys are held at once, at most.
    private static let most: Int64 = 65_536

    /// About `count` keys after `start`, or from the first key on. Keys are left out only if ``Found/hasGap`` says so.
    ///
    /// - Complexity: O(`count`), but O(n) beside a damaged page.
    func next(_ count: Int64, after start: RowKey?) throws -> Found {
        if start == .rowID(.max) { return Found(isOver: true) }
        let count = Int(max(1, min(count, Self.most)))
        let up = try walk(.up(after: start), count, after: start)
        guard let error = up.error, up.keys.isEmpty else {
            return Found(keys: up.keys, way: .up(after: start), isOver: up.isOver)
        }
        if start != nil, !sql.seeksRowIDs {
            // It may be the seek of `start` that has failed.
            let all = try walk(.up(after: nil), count, after: start)
            if all.error == nil || !all.keys.isEmpty {
                return Found(keys: all.keys, way: .up(after: nil), error: error, isOver: all.isOver)
            }
        }
        let down = try walk(.down(from: nil), count, after: start)
        guard down.error != nil else {
            return Found(keys: down.keys, way: .down(from: nil), error: error, isOver: down.keys.isEmpty)
        }
        if let keys = try listed(count, after: start) { return Found(keys: keys, error: error, isOver: keys.isEmpty) }
        // The keys that can be read from the other end tell how far the damage goes at most. There may be whole pages
        // between two damaged ones.
        guard let between = try probe(between: start, and: down.keys.first) else {
            let isClosed = isNext(down.keys.first, start)
            return Found(
                keys: down.keys,
                way: .down(from: nil),
                error: error,
                hasGap: !isClosed,
                isOver: down.keys.isEmpty
            )
        }
        let way = MoveSQL.Way.down(from: between)
        let keys = try walk(way, count, after: start).keys
        let first = keys.first ?? between
        return Found(keys: keys.isEmpty ? [first] : keys, way: way, error: error, hasGap: !isNext(first, start))
    }

    /// Whether there is no rowid between the two keys.
    private func isNext(_ key: RowKey?, _ start: RowKey?) -> Bool {
        guard let key = key?.rowID else { return false }
        return key == start?.rowID.map { $0 + 1 } ?? .min
    }

    // MARK: By the order of the keys

    /// The first keys after the start that a way reaches, up to damage. If the way leads down, the last keys that it
    /// reaches.
    private func walk(_ way: MoveSQL.Way, _ count: Int, after start: RowKey?) throws -> (
        keys: [RowKey], error: SQLiteError?, isOver: Bool
    ) {
        let scan = try statements.statement(sql.keys(way, isBounded: start != nil))
        defer { scan.reset() }
        try sql.bind(start, way, to: scan)
        let isDown = if case .down = way { true } else { false }
        var keys: [RowKey] = []
        var error: SQLiteError?
        var isOver = true
        do {
            while try scan.step() {
                guard scan.int64(at: sql.key.count) != 0 else {
                    if isDown { break }
                    continue
                }
                keys.append(try sql.key.read(scan))
                if isDown {
                    if keys.count >= 2 * count { keys.removeFirst(count) }
                } else if keys.count == count {
                    isOver = false
                    break
                }
            }
        } catch let met {
            guard ResultCode.corrupt ~= met.code else { throw met }
            error = met
            isOver = false
        }
        return (isDown ? keys.suffix(count).reversed() : keys, error, isOver)
    }

    // MARK: By another order

    /// The keys after the start, as an index lists them, if an index can be read to its end.
    private func listed(_ count: Int, after start: RowKey?) throws -> [RowKey]? {
        for listing in sql.listings {
            do {
                let scan = try statements.statement(sql.listedKeys(listing, isBounded: start != nil))
                defer { scan.reset() }
                if let start { try scan.bind(start, at: 1) }
                try scan.bind(Int64(count), at: 1 + sql.key.count)
                var keys: [RowKey] = []
                while try scan.step() { keys.append(try sql.key.read(scan)) }
                return keys
            } catch let error as SQLiteError {
                // An old SQLite does not read the whole of an index that the query itself would not use.
                guard ResultCode.corrupt ~= error.code || error.code == .error else { throw error }
            }
        }
        return nil
    }

    // MARK: By luck

    /// How many numbers are tried one after the other, and how many more at equal distances.
    private static let probes: Int64 = 20_000

    /// A key between two keys, if nothing is known of what is between them. It is found if the first columns in which
    /// the two keys differ are integers, and these are dense; otherwise it is found only with luck.
    private func probe(between start: RowKey?, and end: RowKey?) throws -> RowKey? {
        guard let (prefix, range) = numbers(between: start, and: end), var probe = range.first else { return nil }
        let limit = range.upperBound
        let distance = max(1, (limit / 2 - range.lowerBound / 2) / Self.probes * 2)
        var tries: Int64 = 0
        while probe < limit, tries < 2 * Self.probes {
            if let found = try first(prefix, from: probe) {
                // If this key is not in the range, no key between the probe and the end can be read.
                let values = sql.key.folded(found).values
                guard values.starts(with: prefix), case .integer(let number) = values[prefix.count] else { return nil }
                return range.contains(number) ? found : nil
            }
            tries += 1
            let (sum, overflow) = probe.addingReportingOverflow(tries < Self.probes ? 1 : distance)
            if overflow { break }
            probe = sum
        }
        return nil
    }

    /// The values of the first columns, as far as the two keys have them in common, and the numbers between the next
    /// columns.
    private func numbers(between start: RowKey?, and end: RowKey?) -> (prefix: [ExactValue], range: Range<Int64>)? {
        if start == nil && end == nil { return nil }
        if sql.key.isRowID {
            let first = start?.rowID.map { $0 + 1 } ?? .min
            return ([], first..<max(first, end?.rowID ?? .max))
        }
        guard let start = start.map(sql.key.folded), let end = end.map(sql.key.folded),
            let column = zip(start.values, end.values).enumerated().first(where: { $1.0 != $1.1 })?.offset,
            case .integer(let first) = start.values[column], case .integer(let last) = end.values[column], first < last
        else { return nil }
        return (Array(start.values.prefix(column)), (first + 1)..<last)
    }

    /// The first key whose first columns are `prefix` and `number`, or come after these; `nil` if the page on which it
    /// would be is damaged.
    private func first(_ prefix: [ExactValue], from number: Int64) throws -> RowKey? {
        let seek = try statements.statement(sql.firstKey(columns: prefix.count + 1))
        defer { seek.reset() }
        for (offset, value) in prefix.enumerated() { try seek.bind(value, at: 1 + offset) }
        try seek.bind(number, at: 1 + prefix.count)
        do {
            return try seek.step() ? sql.key.read(seek) : nil
        } catch {
            guard ResultCode.corrupt ~= error.code else { throw error }
            return nil
        }
    }
}
