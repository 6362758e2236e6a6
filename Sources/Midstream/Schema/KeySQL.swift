internal import SQLText
internal import SQLiteConnection

/// The key that identifies a row of a moving table on both sides, and the SQL on keys.
///
/// The key is the rowid; for a WITHOUT ROWID target, it is the columns of the PRIMARY KEY. Rows are copied in the order of their
/// keys.
final class KeySQL: Sendable {
    /// The target's columns that are the key; empty if the key is the rowid.
    let columns: [Int]
    /// The key's names in the target and in the source.
    let target: [String]
    let source: [String]
    /// The key's names in the engine's own tables.
    let ledger: [String]
    /// The column definitions of the engine's own tables: the key is their primary key.
    let ledgerColumns: String
    /// The names and collations of the key's columns; empty if the key is the rowid.
    let names: [(column: String, collation: String)]
    /// Conditions that the key of every row that can belong to the migration meets. Empty if every row of the source meets them;
    /// rows that do not are those that the migration's condition leaves out.
    let belonging: [String]
    /// `belonging` in terms by which SQLite seeks no index.
    let belongingUnsought: [String]
    /// Whether SQLite seeks what comes before or after a key by the first column alone. It does so if the columns do not all go in
    /// one direction, or if the source's rowid is a column after others.
    let isSoughtByFirst: Bool
    private let descends: [Bool]
    private let collations: [BuiltInCollation]

    init(target: TableSchema, source: TableSchema, columns mapped: MappedColumns) {
        columns = target.primaryKey.compactMap(\.column)
        guard !columns.isEmpty else {
            self.target = [target.rowIDName ?? "rowid"]
            // A source without rowids has the target's INTEGER PRIMARY KEY as a column.
            self.source = [target.rowIDColumn.map { mapped[$0].copied } ?? source.rowIDName ?? "rowid"]
            belonging =
                source.hasRowID && self.source[0] == source.rowIDName
                // The first term lets SQLite seek by an index.
                ? [] : ["\(self.source[0]) <= \(Int64.max)", "typeof(\(self.source[0])) = 'integer'"]
            belongingUnsought = Array(belonging.suffix(1))
            ledger = ["key"]
            ledgerColumns = "key INTEGER PRIMARY KEY"
            names = []
            isSoughtByFirst = false
            descends = [false]
            collations = [.binary]
            return
        }
        self.target = columns.map { SQLIdentifier.quoted(target.columns[$0].name) }
        self.source = columns.map { mapped[$0].copied }
        let nullable = columns.filter { !(mapped[$0].plain.map { source.columns[$0].isNotNull } ?? false) }
        belonging = nullable.map { "\(mapped[$0].copied) IS NOT NULL" }
        belongingUnsought = belonging.map { "+" + $0 }
        names = columns.map { (target.columns[$0].name, target.columns[$0].collation) }
        ledger = columns.indices.map { "k\($0)" }
        let definitions = zip(ledger, columns).map { name, column in
            let column = target.columns[column]
            return "\(name) \(column.affinity.typeName) NOT NULL COLLATE \(SQLIdentifier.quoted(column.collation))"
        }
        // If all columns go in one direction, SQLite can read the index in both directions.
        let directions = target.primaryKey.map(\.isDescending)
        descends = Set(directions).count == 1 ? directions.map { _ in false } : directions
        let terms = zip(ledger, descends).map { $1 ? $0 + " DESC" : $0 }
        ledgerColumns = Self.list(definitions + ["PRIMARY KEY(\(Self.list(terms)))"])
        let rowID = source.hasRowID ? source.rowIDColumn : nil
        isSoughtByFirst =
            descends.contains(true) || columns.dropFirst().contains { rowID != nil && mapped[$0].plain == rowID }
        collations = columns.map { BuiltInCollation(name: target.columns[$0].collation) ?? .binary }
    }

    var isRowID: Bool { columns.isEmpty }
    /// How many values the key has.
    var count: Int { target.count }

    /// What follows the parentheses in the CREATE TABLE of the engine's own tables.
    var ledgerOptions: String { isRowID ? "" : " WITHOUT ROWID" }

    // MARK: SQL

    static func list(_ names: [String]) -> String { names.joined(separator: ", ") }

    static func tuple(_ names: [String]) -> String { names.count == 1 ? names[0] : "(\(list(names)))" }

    /// Like `tuple`, for rows that are looked up by several keys. SQLite (3.40) looks up a row's index entries by the values that
    /// the row was found by. With RTRIM, these may differ from the row's own values, and SQLite takes the file for damaged. So such
    /// rows are found by a scan.
    func tupleOfSought(_ names: [String]) -> String {
        Self.tuple(count > 1 && collations.contains(.rtrim) ? names.map { "+" + $0 } : names)
    }

    /// The parameters of a key. The first one has the number `first`.
    func parameters(from first: Int) -> [String] { (0..<count).map { "?\(first + $0)" } }

    func equals(_ names: [String], _ operands: [String]) -> String {
        zip(names, operands).map { "\($0) = \($1)" }.joined(separator: " AND ")
    }

    /// A comparison in the key's own order.
    enum Comparison {
        case after, from, before, through

        fileprivate var isLess: Bool { self == .before || self == .through }
        fileprivate var includesEqual: Bool { self == .from || self == .through }
    }

    /// - Parameter shared: How many of the first columns are equal, and left out.
    func compares(
        _ names: [String],
        _ comparison: Comparison,
        _ operands: [String],
        sharing shared: Int = 0
    ) -> String {
        let (names, operands) = (Array(names.dropFirst(shared)), Array(operands.dropFirst(shared)))
        let descends = Array(self.descends.dropFirst(shared).prefix(names.count))
        guard Set(descends).count > 1 else {
            let isLess = comparison.isLess != descends.contains(true)
            return
                "\(Self.tuple(names)) \(isLess ? "<" : ">")\(comparison.includesEqual ? "=" : "") \(Self.tuple(operands))"
        }
        // A row value cannot express that only some of the columns descend. The first term lets SQLite seek by an index.
        func symbol(_ position: Int) -> String { descends[position] == comparison.isLess ? ">" : "<" }
        var alternatives = names.indices.map { position in
            let equal = (0..<position).map { "\(names[$0]) = \(operands[$0])" }
            return (equal + ["\(names[position]) \(symbol(position)) \(operands[position])"]).joined(separator: " AND ")
        }
        if comparison.includesEqual { alternatives.append(equals(names, operands)) }
        return "(\(names[0]) \(symbol(0))= \(operands[0]) AND (\(alternatives.joined(separator: " OR "))))"
    }

    // MARK: Ranges

    /// The conditions that a range's keys meet, beginning with the columns that both ends of the range have in common.
    func terms(_ names: [String], _ range: KeyRange) -> [String] {
        let (first, second) = (parameters(from: 1), parameters(from: 1 + count))
        return (0..<range.shared).map { "\(names[$0]) = \(first[$0])" }
            + (range.first.map { [compares(names, $0, first, sharing: range.shared)] } ?? [])
            + (range.second.map { [compares(names, $0, second, sharing: range.shared)] } ?? [])
    }

    /// `terms` as one condition.
    func condition(_ names: [String], _ range: KeyRange) -> String {
        let terms = terms(names, range)
        return terms.isEmpty ? "1" : terms.joined(separator: " AND ")
    }

    /// The range of the keys after `lower`, if given, up to and including `upper`, if given.
    func range(after lower: RowKey?, through upper: RowKey?) -> KeyRange {
        range((.after, lower), (.through, upper))
    }

    func range(_ first: (comparison: Comparison, key: RowKey?), _ second: (comparison: Comparison, key: RowKey?))
        -> KeyRange
    {
        KeyRange(
            first: first.key.map { _ in first.comparison },
            second: second.key.map { _ in second.comparison },
            shared: shared(first.key, second.key)
        )
    }

    /// How many of the first columns are equal in both keys, as far as SQLite is to seek by them.
    private func shared(_ key: RowKey?, _ other: RowKey?) -> Int {
        guard isSoughtByFirst, let key, let other else { return 0 }
        // The last column is always compared.
        return zip(key.values, other.values).dropLast().prefix { $0 == $1 }.count
    }

    /// Looks for a key next to another. It looks first among the keys that share the most columns with that key, then among those
    /// that share fewer: a seek that shares fewer columns also finds what lies beyond.
    func nearest(_ key: RowKey?, _ find: (_ shared: Int) throws -> RowKey?) rethrows -> RowKey? {
        if isSoughtByFirst, key != nil {
            for shared in (1..<count).reversed() {
                if let found = try find(shared) { return found }
            }
        }
        return try find(0)
    }

    /// How a key compares with those before it in an index whose columns have these directions. `nil` if the index is in neither
    /// the key's order nor its reverse.
    func following(_ descending: [Bool]) -> Comparison? {
        if descending == descends { return .after }
        return descending == descends.map { !$0 } ? .before : nil
    }

    func order(_ names: [String], isReversed: Bool = false) -> String {
        zip(names, descends).map { $1 != isReversed ? $0 + " DESC" : $0 }.joined(separator: ", ")
    }

    /// The values with the target's collations, whatever the source's collations are.
    func collated(_ values: [String]) -> [String] {
        isRowID ? values : zip(values, names).map { "\($0) COLLATE \(SQLIdentifier.quoted($1.collation))" }
    }

    /// The ORDER BY of a query whose columns are the key.
    var orderOfColumns: String { order((1...count).map { "\($0)" }) }

    // MARK: Keys of rows

    /// The key with these values.
    func key(_ values: [ExactValue]) -> RowKey {
        if isRowID, case .integer(let rowID)? = values.first { return .rowID(rowID) }
        return .columns(values)
    }

    func read(_ row: RowReader, from first: Int = 0) -> RowKey {
        isRowID
            ? .rowID(row.int64(at: first))
            : .columns((0..<count).map { row.exactValue(at: first + $0) })
    }

    /// - Throws: `SQLiteError` if the values are not a key that a row of the target can have.
    func read(_ statement: Statement) throws(SQLiteError) -> RowKey {
        let isWhole =
            isRowID ? statement.storageClass(at: 0) == .integer : (0..<count).allSatisfy { !statement.isNull(at: $0) }
        guard isWhole else {
            throw SQLiteError(code: .mismatch, message: "the key of a moving row is NULL or not an integer")
        }
        return read(RowReader(statement))
    }

    /// The key in a normal form: all keys that are equal by the columns' collations have the same.
    func folded(_ key: RowKey) -> RowKey {
        guard case .columns(let values) = key else { return key }
        return .columns(zip(values, collations).map { $0.folded($1) })
    }
}

/// A range of keys, without its values: all that a statement's text depends on.
struct KeyRange: Hashable {
    /// How the range's keys compare with the key in the parameters from ?1 on, and with the key in the parameters after that.
    var first: KeySQL.Comparison?
    var second: KeySQL.Comparison?
    /// How many of the first columns are equal in all of the range's keys.
    var shared = 0
}
