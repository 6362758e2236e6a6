/// Prepared statements by their text; the least recently used go first.
struct StatementCache {
    private struct Entry {
        var statement: Statement
        var lastUse: UInt64
    }

    private let capacity: Int
    private var entries: [String: Entry] = [:]
    private var clock: UInt64 = 0

    init(capacity: Int) {
        self.capacity = capacity
    }

    subscript(sql: String) -> Statement? {
        mutating get {
            guard let index = entries.index(forKey: sql) else { return nil }
            clock += 1
            entries.values[index].lastUse = clock
            return entries.values[index].statement
        }
        set {
            clock += 1
            entries[sql] = newValue.map { Entry(statement: $0, lastUse: clock) }
            if entries.count > capacity { evict() }
        }
    }

    mutating func removeAll() {
        entries.removeAll()
    }

    /// Drops the older half, so that the search for it is paid once in many insertions.
    private mutating func evict() {
        let uses = entries.values.map(\.lastUse).sorted()
        let limit = uses[uses.count / 2]
        entries = entries.filter { $0.value.lastUse >= limit || $0.value.statement.isBusy }
    }
}
