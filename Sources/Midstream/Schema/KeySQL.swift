internal import SQLText
internal import SQLiteConnection

/// By what the rows of a moving table are told apart, the same on both sides, and the SQL that says so.
///
/// It is the rowid, or in a WITHOUT ROWID target the columns of its PRIMARY KEY. Rows are copied in its order.
struct KeySQL: Sendable {
    /// The target's columns; empty where it is the rowid.
    let columns: [Int]
    /// The names by which each side has it.
    let target: [String]
    let source: [String]
    /// The names by which the engine's own tables have it.
    let ledger: [String]
    /// The columns of the engine's own tables, of which it is the primary key.
    let ledgerColumns: String
    /// The columns' names, and their collations; empty where it is the rowid.
    let names: [(column: String, collation: String)]
    /// What holds for the key of each row that can belong, where the source may have rows of which it does not: those that a
    /// condition leaves out.
    let belonging: [String]
    /// The same in terms that no index is sought by.
    let belongingUnsought: [String]
    /// Whether SQLite seeks by the first column alone what comes before or after a key: where not all columns go in one direction, or
    /// the source's rowid is one behind others.
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
                // The first, for an index to seek by.
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
        // All in one direction, an index is read in the other one as well.
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
    /// How many values it has.
    var count: Int { target.count }

    /// What follows the parentheses of the engine's own tables.
    var ledgerOptions: String { isRowID ? "" : " WITHOUT ROWID" }

    // MARK: SQL

    static func list(_ names: [String]) -> String { names.joined(separator: ", ") }

    static func tuple(_ names: [String]) -> String { names.count == 1 ? names[0] : "(\(list(names)))" }

    /// The same of rows that are looked for by several keys. SQLite (3.40) looks up the index entries of a row by the values that it
    /// was found by, which by RTRIM may be others than its own, and takes the file for damaged: such rows are found by a scan.
    func tupleOfSought(_ names: [String]) -> String {
        Self.tuple(count > 1 && collations.contains(.rtrim) ? names.map { "+" + $0 } : names)
    }

    /// The parameters of a key, the first of which has that number.
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

    /// - Parameter shared: How many of the first columns are left out, which are equal.
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
        // A row value cannot say that some columns descend. The first term is for an index to seek by.
        func symbol(_ position: Int) -> String { descends[position] == comparison.isLess ? ">" : "<" }
        var alternatives = names.indices.map { position in
            let equal = (0..<position).map { "\(names[$0]) = \(operands[$0])" }
            return (equal + ["\(names[position]) \(symbol(position)) \(operands[position])"]).joined(separator: " AND ")
        }
        if comparison.includesEqual { alternatives.append(equals(names, operands)) }
        return "(\(names[0]) \(symbol(0))= \(operands[0]) AND (\(alternatives.joined(separator: " OR "))))"
    }

    // MARK: Ranges

    /// What holds for the keys of a range: first what its ends share.
    func terms(_ names: [String], _ range: KeyRange) -> [String] {
        let (first, second) = (parameters(from: 1), parameters(from: 1 + count))
        return (0..<range.shared).map { "\(names[$0]) = \(first[$0])" }
            + (range.first.map { [compares(names, $0, first, sharing: range.shared)] } ?? [])
            + (range.second.map { [compares(names, $0, second, sharing: range.shared)] } ?? [])
    }

    /// The same in one condition.
    func condition(_ names: [String], _ range: KeyRange) -> String {
        let terms = terms(names, range)
        return terms.isEmpty ? "1" : terms.joined(separator: " AND ")
    }

    /// The range after a key, if there is one, and through another one, if there is one.
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

    /// How many of the first columns two keys have alike, as far as SQLite is to seek by them.
    private func shared(_ key: RowKey?, _ other: RowKey?) -> Int {
        guard isSoughtByFirst, let key, let other else { return 0 }
        // The last one is always to be compared.
        return zip(key.values, other.values).dropLast().prefix { $0 == $1 }.count
    }

    /// Looks for a key beside another one, first among those that share most columns with that: what is behind all of them is
    /// sought by fewer columns.
    func nearest(_ key: RowKey?, _ find: (_ shared: Int) throws -> RowKey?) rethrows -> RowKey? {
        if isSoughtByFirst, key != nil {
            for shared in (1..<count).reversed() {
                if let found = try find(shared) { return found }
            }
        }
        return try find(0)
    }

    /// How keys compare with those before them, where the columns have these directions; `nil` where that is neither the key's
    /// own order nor that from its end.
    func following(_ descending: [Bool]) -> Comparison? {
        if descending == descends { return .after }
        return descending == descends.map { !$0 } ? .before : nil
    }

    func order(_ names: [String], isReversed: Bool = false) -> String {
        zip(names, descends).map { $1 != isReversed ? $0 + " DESC" : $0 }.joined(separator: ", ")
    }

    /// The same values by the target's collations, whatever those of a source are.
    func collated(_ values: [String]) -> [String] {
        isRowID ? values : zip(values, names).map { "\($0) COLLATE \(SQLIdentifier.quoted($1.collation))" }
    }

    /// The order of a query whose columns are the key.
    var orderOfColumns: String { order((1...count).map { "\($0)" }) }

    // MARK: Keys of rows

    /// The key that has those values.
    func key(_ values: [ExactValue]) -> RowKey {
        if isRowID, case .integer(let rowID)? = values.first { return .rowID(rowID) }
        return .columns(values)
    }

    func read(_ row: RowReader, from first: Int = 0) -> RowKey {
        isRowID
            ? .rowID(row.int64(at: first))
            : .columns((0..<count).map { row.exactValue(at: first + $0) })
    }

    /// - Throws: `SQLiteError` where it is no key that a row of the target can have.
    func read(_ statement: Statement) throws(SQLiteError) -> RowKey {
        let isWhole =
            isRowID ? statement.storageClass(at: 0) == .integer : (0..<count).allSatisfy { !statement.isNull(at: $0) }
        guard isWhole else {
            throw SQLiteError(code: .mismatch, message: "the key of a row that moves is NULL, or no integer")
        }
        return read(RowReader(statement))
    }

    /// The key in the form that all keys have which are equal by its columns' collations.
    func folded(_ key: RowKey) -> RowKey {
        guard case .columns(let values) = key else { return key }
        return .columns(zip(values, collations).map { $0.folded($1) })
    }
}

/// A range of keys, as far as a statement is made for it.
struct KeyRange: Hashable {
    /// How its keys compare with the one whose parameters are ?1…, and with the one whose parameters follow.
    var first: KeySQL.Comparison?
    var second: KeySQL.Comparison?
    /// How many of the first columns they have like those.
    var shared = 0
}
