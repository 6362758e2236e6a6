extension LogicScript {
    /// Statements that come before a sample, if it can be: all of them must be run.
    private static let mostStatements = 200

    /// A part of a long script that can run by itself: so many records in a row, and before them all statements up to
    /// there, which then belong to what fills the tables.
    ///
    /// - Parameter seed: Says where; the same seed gives the same part.
    func sample(_ count: Int, seed: UInt64) -> LogicScript {
        guard let first = records.firstIndex(where: { $0.isQuery }), records.count - first > count else { return self }
        var generator = SeededGenerator(seed: seed)
        let statements = records.indices.filter { !records[$0].isQuery }
        let latest = min(records.count - count, statements.dropFirst(Self.mostStatements).first ?? .max)
        let start = Int.random(in: first...max(first, latest), using: &generator)
        var part = self
        part.records = records[..<start].filter { !$0.isQuery } + records[start..<start + count]
        return part
    }
}
