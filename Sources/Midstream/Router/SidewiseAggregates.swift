internal import SQLText

/// `SELECT a, count(*), max(b) FROM T WHERE … GROUP BY a` and the like. Their rows need not be brought together one by one:
/// SQLite evaluates the query on each side, and then on the two results.
///
/// A statement is taken apart only if this gives the very same values. `sum()` and its like could add up in another order. A
/// column whose collation takes different values for equal could show another of these values.
struct SidewiseAggregates {
    private enum Item {
        /// A column of GROUP BY, by its place in GROUP BY.
        case group(Int)
        /// An aggregate, by its place among the aggregates.
        case aggregate(Int)
    }

    private struct Aggregate {
        /// The text of the call: `count(*)`, `max("b")`.
        var text: String
        /// The aggregate function that combines the two sides' results.
        var union: String
        /// The column that the aggregate takes; `nil` for `count(*)`.
        var column: Int?
    }

    private let table: MovingTable
    private let alias: String
    private var items: [(item: Item, name: String)] = []
    /// The columns among the items, by the items' places, as the statement spells them.
    private var columnsOfItems: [Int: String] = [:]
    /// The columns of GROUP BY, by their indexes in the table.
    private var groups: [Int] = []
    private var aggregates: [Aggregate] = []
    private var condition = ""
    private var conditionColumns: [Int] = []
    private var ending = ""
    /// The places in GROUP BY of the columns that ORDER BY has.
    private var orderedGroups: Set<Int> = []

    // MARK: Reading the statement

    /// How many words and operators a condition may have, lists of values aside. The rewritten condition nests a little deeper,
    /// and SQLite allows 1000 levels.
    private static let largestCondition = 900

    private static let groupWords = SQLNameSet(["group"])

    /// A statement with one of these words anywhere is not taken apart.
    private static let otherWords = SQLNameSet([
        "having", "over", "filter", "distinct", "union", "except", "intersect", "values", "window", "exists", "indexed",
        "rowid",
        "_rowid_", "oid", "join", "match", "collate", "raise", "nulls",
    ])

    /// - Returns: `nil` for any other statement, and for a table whose columns are not the source's columns as they are.
    init?(_ outline: StatementOutline, _ table: MovingTable) {
        guard outline.kind == .select, outline.isComplete, outline.with == nil, outline.scopes.count <= 2,
            outline.tableReferences.count == 1, let reference = outline.tableReferences.first,
            reference.indexedBy == nil, !reference.isTableFunction, outline.qualifiedReferences.isEmpty,
            !outline.functionCalls.isEmpty || outline.mentions(Self.groupWords),
            !outline.mentions(Self.otherWords), !VolatileTerms(outline: outline, views: []).isFound,
            Self.canCompare(table)
        else { return nil }
        self.table = table
        alias = SQLIdentifier.quoted(reference.alias ?? reference.name.name)
        guard var words = Words(outline), words.skip("select"), readItems(&words), readTable(&words, reference) else {
            return nil
        }
        if words.skip("where") {
            guard let text = words.expression(until: ["group", "order", "limit"], of: table.target) else { return nil }
            if words.names.contains(where: isNameOfResult) { return nil }
            let parts = SQLTokenizer(text).filter { [.identifier, .operator, .leftParen].contains($0.kind) }
            if parts.count > Self.largestCondition { return nil }
            condition = " WHERE (\(text))"
            conditionColumns = words.names.compactMap { table.target.columnIndex($0) }
        }
        if words.skip("group") {
            guard words.skip("by"), readGroups(&words) else { return nil }
        }
        guard resolveItems(), !items.isEmpty, !aggregates.isEmpty, readOrder(&words) else { return nil }
        if words.skip("limit") {
            guard let text = words.expression(until: [], of: table.target) else { return nil }
            ending += " LIMIT \(text)"
        }
        guard words.isAtEnd, hasOneOrder, !isSought else { return nil }
    }

    /// Whether the statement asks only for the largest value, and SQLite finds that at the end of an index or of the rowids of
    /// the union table. A query for the smallest value is taken apart: SQLite would go through the rows that have moved.
    private var isSought: Bool {
        guard groups.isEmpty, aggregates.count == 1, aggregates[0].union == "max", let column = aggregates[0].column
        else { return false }
        let known = Set(conditionColumns)
        return column == table.target.rowIDColumn
            || table.target.indexes.filter(\.isPlain).contains { index in
                let columns = index.terms.compactMap(\.column)
                return known.isEmpty ? columns.first == column : known.contains(columns[0]) && columns.contains(column)
            }
    }

    /// Whether the groups come in the order that SQLite gives them in a whole table: ascending, unless an index has another
    /// order.
    private var hasOneOrder: Bool {
        if groups.count < 2 {
            return !table.target.indexes.contains { index in
                index.terms.contains { $0.isDescending && $0.column == groups.first }
            }
        }
        return Set(groups.indices).isSubset(of: orderedGroups)
    }

    /// Whether each column means the same on both sides, and the rowid of a row of the source tells whether the row is pending.
    private static func canCompare(_ table: MovingTable) -> Bool {
        let (target, source) = (table.target, table.source)
        return table.inner == nil && !table.isHidden && !table.isReturning && table.destination == nil
            && table.key.isRowID && target.rowIDColumn != nil && source.rowIDColumn != nil
            && target.columns.count == source.columns.count
            && target.columns.indices.allSatisfy { index in
                !MappedColumns.isTruthName(target.columns[index].name)
                    && table.sql.columns[index].plain.map {
                        SQLIdentifier.equal(source.columns[$0].name, target.columns[index].name)
                    } ?? false
            }
    }

    private mutating func readItems(_ words: inout Words) -> Bool {
        repeat {
            let start = words.place
            guard let name = words.name() else { return false }
            if words.skip("(") {
                guard let aggregate = readAggregate(name, &words) else { return false }
                let text = words.written(from: start)
                aggregates.append(aggregate)
                items.append((.aggregate(aggregates.count - 1), readAlias(&words) ?? text))
            } else {
                guard let column = table.target.columnIndex(name) else { return false }
                columnsOfItems[items.count] = name
                items.append((.group(column), readAlias(&words) ?? table.target.columns[column].name))
            }
        } while words.skip(",")
        return true
    }

    private func readAggregate(_ function: String, _ words: inout Words) -> Aggregate? {
        let function = SQLIdentifier.lowercased(function)
        guard ["count", "min", "max"].contains(function) else { return nil }
        if function == "count", words.skip("*") {
            return words.skip(")") ? Aggregate(text: "count(*)", union: "sum") : nil
        }
        guard let name = words.name(), let column = table.target.columnIndex(name), words.skip(")"),
            function == "count" || table.target.columns[column].isUnmistakable
        else { return nil }
        let text = "\(function)(\(SQLIdentifier.quoted(table.target.columns[column].name)))"
        return Aggregate(text: text, union: function == "count" ? "sum" : function, column: column)
    }

    private func readAlias(_ words: inout Words) -> String? {
        if words.skip("as") { return words.name() }
        return words.isAny(of: ["from"]) ? nil : words.name()
    }

    private func readTable(_ words: inout Words, _ reference: TableReference) -> Bool {
        guard words.skip("from"), words.name() != nil else { return false }
        if words.skip(".") { guard words.name() != nil else { return false } }
        guard reference.alias != nil else { return true }
        _ = words.skip("as")
        return words.name() != nil
    }

    /// Whether a name is that of an item, and not that of a column.
    private func isNameOfResult(_ name: String) -> Bool {
        table.target.columnIndex(name) == nil && items.contains { SQLIdentifier.equal($0.name, name) }
    }

    /// Reads the terms of GROUP BY: a name, or the number of an item of the result. Each must be a column whose equal values
    /// cannot be told apart.
    ///
    /// - Returns: `false` if a term is anything else.
    private mutating func readGroups(_ words: inout Words) -> Bool {
        repeat {
            if let number = words.integer() {
                guard items.indices.contains(number - 1), case .group(let column) = items[number - 1].item else {
                    return false
                }
                groups.append(column)
            } else {
                guard let name = words.name(), let column = table.target.columnIndex(name), !isOtherName(name) else {
                    return false
                }
                groups.append(column)
            }
        } while words.skip(",")
        return groups.allSatisfy { table.target.columns[$0].isUnmistakable }
    }

    /// Whether an item has this name as its alias, and is not the column of this name.
    private func isOtherName(_ name: String) -> Bool {
        items.enumerated().contains { index, item in
            SQLIdentifier.equal(item.name, name)
                && !(columnsOfItems[index].map { SQLIdentifier.equal($0, name) } ?? false)
        }
    }

    /// Makes the columns among the items refer to the columns of GROUP BY.
    ///
    /// - Returns: `false` if an item is a column that GROUP BY does not have.
    private mutating func resolveItems() -> Bool {
        for index in items.indices {
            guard case .group(let column) = items[index].item else { continue }
            guard let place = groups.firstIndex(of: column) else { return false }
            items[index].item = .group(place)
        }
        return true
    }

    /// Whether the groups of one column come in order in a whole table: along an index, or along the rowids.
    private var comeInOrder: Bool {
        groups[0] == table.target.rowIDColumn
            || table.target.indexes.contains { $0.isPlain && $0.terms.first?.column == groups[0] }
    }

    private mutating func readOrder(_ words: inout Words) -> Bool {
        guard words.skip("order") else { return true }
        guard words.skip("by") else { return false }
        var terms: [String] = []
        var isDescending = false
        repeat {
            let number: Int
            if let written = words.integer() {
                number = written
            } else {
                guard let name = words.name(), !words.isAny(of: ["("]) else { return false }
                let places = items.indices.filter { SQLIdentifier.equal(items[$0].name, name) }
                guard places.count == 1 else { return false }
                number = places[0] + 1
            }
            guard items.indices.contains(number - 1) else { return false }
            if case .group(let place) = items[number - 1].item { orderedGroups.insert(place) }
            isDescending = words.skip("desc")
            if !isDescending { _ = words.skip("asc") }
            terms.append("\(number)" + (isDescending ? " DESC" : ""))
        } while words.skip(",")
        // If GROUP BY and ORDER BY have one term each, SQLite sorts the groups in the direction of ORDER BY, unless they come
        // along an index.
        if isDescending, terms.count == 1, groups.count == 1, orderedGroups.isEmpty, condition.isEmpty, comeInOrder {
            terms.append("midstream_group0")
        }
        ending = " ORDER BY \(terms.joined(separator: ", "))"
        return true
    }

    // MARK: Writing it anew

    var sql: String {
        let columns = table.target.columns
        let names = groups.map { SQLIdentifier.quoted(columns[$0].name) }
        let found =
            names.enumerated().map { "\($1) AS midstream_group\($0)" }
            + aggregates.enumerated().map { "\($1.text) AS midstream_aggregate\($0)" }
        let source = columns.indices.compactMap { index in
            table.sql.columns[index].plain.map {
                "\(sourceName).\(SQLIdentifier.quoted(table.source.columns[$0].name)) AS \(SQLIdentifier.quoted(columns[index].name))"
            }
        }
        let grouping = names.isEmpty ? "" : " GROUP BY \(KeySQL.list(names))"
        let sides = [
            table.sql.target,
            "(SELECT \(KeySQL.list(source)) FROM \(table.sql.source) WHERE \(isPending))",
        ].map { "SELECT \(KeySQL.list(found)) FROM \($0) AS \(alias)\(condition)\(grouping)" }
        let results = items.map { item, name in
            let text =
                switch item {
                case .group(let place): "midstream_group\(place)"
                case .aggregate(let place): "\(aggregates[place].union)(midstream_aggregate\(place))"
                }
            return "\(text) AS \(SQLIdentifier.quoted(name))"
        }
        let groups = names.indices.map { "midstream_group\($0)" }
        return "SELECT \(KeySQL.list(results)) FROM (\(sides.joined(separator: " UNION ALL ")))"
            + (groups.isEmpty ? "" : " GROUP BY \(KeySQL.list(groups))") + ending
    }

    /// The source's table by its own name, which the condition may use.
    private var sourceName: String { SQLIdentifier.quoted(table.source.name) }

    /// SQL that is true for a pending row of the source. An index that serves the statement is worth more than a search by the
    /// bound.
    private var isPending: String {
        let (sql, key) = (table.sql, table.key.source[0])
        return "\(isServedByIndex ? "+" : "")\(sourceName).\(key) >= (SELECT ifnull(watermark + 1, \(Int64.min)) "
            + "FROM main.midstream_tables WHERE id = \(table.id) AND phase = \(MigrationPhase.copying.rawValue)) "
            // If the ledger is empty, SQLite asks it only once.
            + "AND ((SELECT 1 FROM \(sql.ledger) LIMIT 1) IS NULL OR NOT \(sql.isSettled))\(sql.condition)"
    }

    /// Whether SQLite would read an index of the source rather than the table. Such an index begins with a column by which the
    /// statement groups or chooses rows, or has all columns that the statement asks for.
    private var isServedByIndex: Bool {
        let used = groups + aggregates.compactMap(\.column) + conditionColumns
        let wanted = Set(used.compactMap { table.sql.columns[$0].plain }).subtracting([table.source.rowIDColumn ?? -1])
        let first = Set((groups + conditionColumns).compactMap { table.sql.columns[$0].plain })
        // If the statement uses only the rowid, SQLite searches by the bound.
        if wanted.isEmpty { return false }
        return table.source.indexes.filter(\.isPlain).contains { index in
            let columns = index.terms.compactMap(\.column)
            return columns.first.map(first.contains) ?? false || wanted.isSubset(of: columns)
        }
    }
}

/// Goes through the tokens of a statement.
private struct Words {
    private let words: StatementWords
    private let parameters: [Int]
    private(set) var place = 0
    private var parametersRead = 0
    /// The names in the expression that was read last.
    private(set) var names: [String] = []

    /// - Returns: `nil` if the statement has comments, since these show in the names of the result's columns.
    init?(_ outline: StatementOutline) {
        let text = outline.text(outline.range)
        if SQLTokenizer(text).contains(where: { $0.kind == .comment }) { return nil }
        words = StatementWords(outline)
        parameters = outline.parameters.map(\.index)
    }

    var isAtEnd: Bool { place >= words.tokens.count }

    mutating func skip(_ word: String) -> Bool {
        guard words[place] == word, words.tokens[place].kind != .quotedIdentifier else { return false }
        place += 1
        return true
    }

    func isAny(of others: [String]) -> Bool { others.contains(words[place]) }

    /// Reads a name, and returns it without its quotes.
    mutating func name() -> String? {
        guard !isAtEnd, [.identifier, .quotedIdentifier].contains(words.tokens[place].kind) else { return nil }
        defer { place += 1 }
        return words.name(place)
    }

    mutating func integer() -> Int? {
        guard !isAtEnd, words.tokens[place].kind == .integer, let number = Int(words.text(place...place)) else {
            return nil
        }
        place += 1
        return number
    }

    /// The text that has been read since a place, as it is written.
    func written(from start: Int) -> String { words.text(start...place - 1) }

    /// Reads an expression up to one of those words, or to the end. In the result, parameters have their numbers.
    mutating func expression(until ends: [String], of table: TableSchema) -> String? {
        var parts: [String] = []
        var depth = 0
        names = []
        while !isAtEnd, depth > 0 || !isAny(of: ends) {
            let token = words.tokens[place]
            switch token.kind {
            case .leftParen: depth += 1
            case .rightParen: depth -= 1
            case .semicolon, .illegal: return nil
            case .identifier: names.append(words.text(place...place))
            // SQLite takes a quoted name that is no column for a text.
            case .quotedIdentifier:
                let name = words.name(place)
                if table.columnIndex(name) == nil { return nil }
                names.append(name)
            default: break
            }
            let text = words.text(place...place)
            if token.kind == .variable {
                guard parameters.indices.contains(parametersRead) else { return nil }
                parts.append(text == "?" ? "?\(parameters[parametersRead])" : text)
                parametersRead += 1
            } else {
                parts.append(text)
            }
            place += 1
        }
        return parts.isEmpty || depth != 0 ? nil : parts.joined(separator: " ")
    }
}
