internal import SQLiteConnection

extension Filling {
    /// Copies the entries that the source's index has between two entries.
    struct Between {
        private let statements: InternalStatements
        private let index: TableBuild.Part
        private let walk: IndexWalk
        /// The statements that have been prepared, by the ends that they are for.
        private var made: [IndexWalk.Ends: [(copy: Statement, last: Statement)]] = [:]

        init(statements: InternalStatements, index: TableBuild.Part, walk: IndexWalk) {
            self.statements = statements
            self.index = index
            self.walk = walk
        }

        /// Copies the entries from one entry to another, up to as many as are wanted.
        ///
        /// - Parameters:
        ///   - first: The entry before those that are copied; `nil` to copy from the beginning.
        ///   - second: The entry after those that are copied; `nil` to copy up to the end.
        ///   - left: How many entries are wanted. If fewer are there, the number of copied entries is subtracted.
        ///   - inserted: The entries that are copied are added to this count.
        /// - Returns: The last entry that was copied, if there were as many as are wanted; otherwise `nil`.
        mutating func copy(
            after first: [ExactValue]?,
            before second: [ExactValue]?,
            _ left: inout Int64,
            _ inserted: inout Int64
        ) throws -> [ExactValue]? {
            let count = walk.terms.count
            let ends = IndexWalk.Ends(
                hasFirst: first != nil,
                hasSecond: second != nil,
                isOneGroup: first.map { first in second.map { first.dropLast() == $0.dropLast() } ?? false } ?? false
            )
            for piece in try pieces(ends) {
                let wanted = left
                func bind(_ statement: Statement) throws {
                    if let first { try statement.bind(.columns(first), at: 1) }
                    try statement.bind(wanted, at: count + 1)
                    if let second { try statement.bind(.columns(second), at: count + 2) }
                }
                let found = try statements.run(piece.copy, by: { try $0.stepOfCopy() }, bind)
                inserted += found
                if found == wanted {
                    defer { piece.last.reset() }
                    try bind(piece.last)
                    guard try piece.last.step() else {
                        throw SQLiteError(code: .corrupt, message: "an entry is gone")
                    }
                    return (0..<count).map { RowReader(piece.last).exactValue(at: $0) }
                }
                left -= found
            }
            return nil
        }

        private mutating func pieces(_ ends: IndexWalk.Ends) throws -> [(copy: Statement, last: Statement)] {
            if let known = made[ends] { return known }
            let pieces = try walk.between(ends, notNull: index.nullablePlaces).map { piece in
                (
                    try statements.statement("INSERT INTO \(index.relation) \(walk.entries(piece))"),
                    try statements.statement(walk.last(piece))
                )
            }
            made[ends] = pieces
            return pieces
        }
    }
}
