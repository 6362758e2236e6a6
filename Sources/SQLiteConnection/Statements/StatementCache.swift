/// Prepared statements by their text. The least recently used statements are dropped first.
struct StatementCache {
    private struct Entry {
        var statement: Statement
        var lastUse: UInt64
    }

    private let capacity: Int
    private var entries: [ExactString: Entry] = [:]
    private var clock: UInt64 = 0
    /// The entry that was found last: loops run the same statement again and again.
    private var last: (text: String, statement: Statement)?

    init(capacity: Int) {
        self.capacity = capacity
    }

    var count: Int { entries.count }

    /// The statement of that text.
    mutating func statement(_ sql: String) -> Statement? {
        if let last, last.text.hasSameBytes(as: sql) { return last.statement }
        guard let index = entries.index(forKey: ExactString(string: sql)) else { return nil }
        clock += 1
        entries.values[index].lastUse = clock
        last = (sql, entries.values[index].statement)
        return entries.values[index].statement
    }

    /// Keeps a statement under its text.
    ///
    /// - Returns: The statements that were dropped. The caller lets go of them after this access to the cache has
    ///   ended: finalizing a statement can close a virtual table's cursor, whose code may come back to the cache.
    mutating func insert(_ statement: Statement) -> [Statement] {
        clock += 1
        last = nil
        let key = ExactString(string: statement.sql)
        let replaced = entries.updateValue(Entry(statement: statement, lastUse: clock), forKey: key)
        let evicted = entries.count > capacity ? evict() : []
        return replaced.map { evicted + [$0.statement] } ?? evicted
    }

    /// Forgets all statements.
    ///
    /// - Returns: The statements, for the caller to let go of, as with ``insert(_:)``.
    mutating func removeAll() -> [Statement] {
        last = nil
        let statements = entries.values.map(\.statement)
        entries.removeAll()
        return statements
    }

    /// Drops the half of the statements that was used longest ago, so that the search for it is paid once in many
    /// insertions. Busy statements stay.
    private mutating func evict() -> [Statement] {
        let uses = entries.values.map(\.lastUse).sorted()
        let limit = uses[uses.count / 2]
        let victims = entries.filter { $0.value.lastUse < limit && !$0.value.statement.isBusy }
        for key in victims.keys { entries[key] = nil }
        return victims.values.map(\.statement)
    }
}
