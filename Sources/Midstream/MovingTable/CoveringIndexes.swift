internal import SQLText
internal import SQLiteConnection

/// The indexes that SQLite scans in place of a table, when it reads all rows but only columns that the index has: the index is
/// smaller than the table. A scan of the union follows the same index, so that rows come in the order in which the whole table
/// would give them.
final class CoveringIndexes {
    private let target: TableSchema
    private let statements: InternalStatements
    private let relation: String
    /// The indexes that the source has as well, each with the columns that it covers. For any other index, the source's rows would
    /// have to be sorted before the first row could be given. With a condition, each row would have to be looked up.
    private let followed: [(index: TableSchema.Index, columns: Set<Int>)]
    /// SQLite's answers, by the used columns.
    private var known: [UInt64: TableSchema.Index?] = [:]

    init(target: TableSchema, source: TableSchema, sql: MoveSQL, statements: InternalStatements) {
        self.target = target
        self.statements = statements
        relation = sql.target
        let key = Set(target.primaryKey.compactMap(\.column) + [target.rowIDColumn].compactMap(\.self))
        followed = target.indexes.filter { sql.condition.isEmpty && $0.isPlain && Self.has(source, $0, sql.columns) }
            .map { index in
                (index, key.union(index.terms.compactMap(\.column)))
            }
    }

    /// Whether the source has an index with the same entries in the same order.
    private static func has(_ source: TableSchema, _ index: TableSchema.Index, _ columns: MappedColumns) -> Bool {
        source.indexes.contains { other in
            other.isPlain && other.terms.count == index.terms.count
                && zip(other.terms, index.terms).allSatisfy { theirs, ours in
                    guard let column = ours.column, column >= 0, columns[column].plain == theirs.column else {
                        return false
                    }
                    return theirs.isDescending == ours.isDescending
                        && SQLIdentifier.equal(theirs.collation, ours.collation)
                }
        }
    }

    /// The index that SQLite scans to read these columns of all rows; `nil` if it reads the table.
    ///
    /// - Parameter used: A bit for each column; the highest bit stands for all columns from 63 on.
    func index(for used: UInt64) throws -> TableSchema.Index? {
        if let known = known[used] { return known }
        let columns = target.columns.indices.filter { used & (1 << UInt64(min($0, 63))) != 0 }
        let isCovered = followed.contains { $0.columns.isSuperset(of: columns) }
        let index = isCovered ? try chosenIndex(for: columns) : nil
        known[used] = .some(index)
        return index
    }

    /// Asks SQLite which index it would scan.
    ///
    /// Source: <https://www.sqlite.org/eqp.html>.
    private func chosenIndex(for columns: [Int]) throws -> TableSchema.Index? {
        let names = columns.isEmpty ? ["1"] : columns.map { SQLIdentifier.quoted(target.columns[$0].name) }
        let query = "EXPLAIN QUERY PLAN SELECT \(KeySQL.list(names)) FROM \(relation)"
        let statement = try statements.prepare(query)
        guard try statement.step() else { return nil }
        let detail = statement.text(at: 3)
        return followed.first { detail.hasSuffix(" USING COVERING INDEX \($0.index.name)") }?.index
    }
}
