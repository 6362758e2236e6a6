internal import SQLText

/// `SELECT a, count(*), max(b) FROM T WHERE … GROUP BY a` and the like, whose rows need not be brought together one by one:
/// SQLite counts each side by itself, and what it finds is put together.
///
/// Only where that gives the very same values: `sum()` and its like could add up in another order, a column of several
/// collations could show another of the values that it takes for equal.
struct SidewiseAggregates {
    private enum Item {
        /// A column of GROUP BY, by its place there.
        case group(Int)
        /// An aggregate, by its place among them.
        case aggregate(Int)
    }

    private struct Aggregate {
        /// `count(*)`, `max("b")`.
        var text: String
        /// What puts the two sides' results together.
        var union: String
        /// The column that it is asked of.
        var column: Int?
    }

    private let table: MovingTable
    private let alias: String
    private var items: [(item: Item, name: String)] = []
    /// The columns among the items, as they are written.
    private var columnsOfItems: [Int: String] = [:]
    /// The columns of GROUP BY, by their places in the table.
    private var groups: [Int] = []
    private var aggregates: [Aggregate] = []
    private var condition = ""
    private var conditionColumns: [Int] = []
    private var ending = ""
    /// The columns of GROUP BY, by their places there, that ORDER BY has.
    private var orderedGroups: Set<Int> = []

    // MARK: Reading the statement

    /// How many words and operators a condition may have, lists of values aside. What is written anew is a little deeper, and SQLite
    /// takes 1000 levels.
    private static let largestCondition = 900

    private static let groupWords = SQLNameSet(["group"])

    /// What may stand nowhere in it.
    private static let otherWords = SQLNameSet([
        "having", "over", "filter", "distinct", "union", "except", "intersect", "values", "window", "exists", "indexed",
        "rowid",
        "_rowid_", "oid", "join", "match", "collate", "raise", "nulls",
    ])

    /// - Returns: `nil` for any other statement, and for tables whose columns are not the source's as they are.
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

    /// Whether SQLite finds the largest value, which is all that is asked for, at the end of an index of the union, or of its
    /// rowids. For the smallest one it goes through the rows that have moved.
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

    /// Whether groups come in the order that SQLite gives them in a whole table: ascending, unless an index has them otherwise.
    private var hasOneOrder: Bool {
        if groups.count < 2 {
            return !table.target.indexes.contains { index in
                index.terms.contains { $0.isDescending && $0.column == groups.first }
            }
        }
        return Set(groups.indices).isSubset(of: orderedGroups)
    }

    /// Whether a column means the same on both sides, and a row of the source can be told by its rowid to be pending.
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

    /// Whether a name is that of an item, and of no column.
    private func isNameOfResult(_ name: String) -> Bool {
        table.target.columnIndex(name) == nil && items.contains { SQLIdentifier.equal($0.name, name) }
    }

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

    /// Whether the name is that of an item which is another column, or an aggregate.
    private func isOtherName(_ name: String) -> Bool {
        items.enumerated().contains { index, item in
            SQLIdentifier.equal(item.name, name)
                && !(columnsOfItems[index].map { SQLIdentifier.equal($0, name) } ?? false)
        }
    }

    /// Has columns mean those of GROUP BY. There may be no others.
    private mutating func resolveItems() -> Bool {
        for index in items.indices {
            guard case .group(let column) = items[index].item else { continue }
            guard let place = groups.firstIndex(of: column) else { return false }
            items[index].item = .group(place)
        }
        return true
    }

    /// Whether a whole table has an index, or its rowids, along which the groups of one column come.
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
        // Where both have one term, SQLite sorts groups in the direction of ORDER BY, but those that come along an index.
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

    /// By its own name, which the condition may use.
    private var sourceName: String { SQLIdentifier.quoted(table.source.name) }

    /// Whether a row of the source is pending. An index that serves the statement is worth more than the bound.
    private var isPending: String {
        let (sql, key) = (table.sql, table.key.source[0])
        return "\(isServedByIndex ? "+" : "")\(sourceName).\(key) >= (SELECT ifnull(watermark + 1, \(Int64.min)) "
            + "FROM main.midstream_tables WHERE id = \(table.id) AND phase = \(MigrationPhase.copying.rawValue)) "
            // Asked once, where the ledger is empty.
            + "AND ((SELECT 1 FROM \(sql.ledger) LIMIT 1) IS NULL OR NOT \(sql.isSettled))\(sql.condition)"
    }

    /// Whether SQLite would read an index of the source rather than the table: one that begins with a column by which rows
    /// are grouped or chosen, or has all columns that are asked for.
    private var isServedByIndex: Bool {
        let used = groups + aggregates.compactMap(\.column) + conditionColumns
        let wanted = Set(used.compactMap { table.sql.columns[$0].plain }).subtracting([table.source.rowIDColumn ?? -1])
        let first = Set((groups + conditionColumns).compactMap { table.sql.columns[$0].plain })
        // The rowid alone is sought by the bound.
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
    /// The names in the last expression.
    private(set) var names: [String] = []

    /// - Returns: `nil` where there are comments, which show in the names of columns.
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

    /// A name, without its quotes.
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

    /// What has been read since a place, as it is written.
    func written(from start: Int) -> String { words.text(start...place - 1) }

    /// An expression up to one of those words, or the end, in which parameters have their numbers.
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
            // A name that is no column would be a text.
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
