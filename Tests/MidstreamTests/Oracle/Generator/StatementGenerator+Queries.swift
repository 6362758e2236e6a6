import SQLiteConnection
import SQLiteFeatures

extension StatementGenerator {
    func query() -> Command {
        let query: Query =
            switch dice.below(100) {
            case ..<34: plainQuery()
            case ..<42: lookup()
            case ..<52: aggregate()
            case ..<64: grouped()
            case ..<72: compound()
            case ..<80 where SQLiteFeature.windows.isAvailable: window()
            case ..<90: common()
            case ..<94: distinct()
            case ..<97: Query(text: "SELECT count(*) FROM \(tableSource().text)", columnCount: 1)
            default: extreme()
            }
        return finish(query.text, order: query.order, isLoose: query.isLoose)
    }

    // MARK: Rows

    func plainQuery() -> Query {
        let (text, sources) = from()
        return select(text, sources)
    }

    /// A query with the given FROM clause.
    func select(_ from: String, _ sources: [Source], prefix: String = "") -> Query {
        let count = dice.between(1, 4)
        var list = (0..<count).map { _ in expression(sources) }.joined(separator: ", ")
        var columnCount = count
        if dice.percent(25) {
            list = "*"
            columnCount = sources.reduce(0) { $0 + $1.columns.count }
        } else if dice.percent(10), let source = sources.first {
            list = "\(source.qualifier).*"
            columnCount = source.columns.count
        }
        var query = Query(text: "\(prefix)SELECT \(list) FROM \(from)", columnCount: columnCount, order: .scan)
        if dice.percent(70) { query.text += " WHERE \(condition(sources))" }
        guard dice.percent(45) else { return query }
        let direction = dice.pick(["", " DESC", " ASC"])
        var terms: [String] = []
        // If a join makes a column equal another one, SQLite does not sort by it, although text may equal a number.
        let sign = sources.count > 1 ? "+" : ""
        for _ in 0..<dice.below(3) {
            terms.append(
                (dice.percent(80) ? sign + column(sources) : expression(sources, 1))
                    + (dice.percent(15) ? " COLLATE " + dice.pick(["NOCASE", "BINARY"]) : "")
                    + (dice.percent(70) ? direction : dice.pick(["", " DESC"]))
                    + (SQLiteFeature.nullsOrder.isAvailable && dice.percent(8)
                        ? dice.pick([" NULLS FIRST", " NULLS LAST"]) : "")
            )
        }
        terms += sources.flatMap { source in
            source.totalOrder.map { (source.primaryKey.isEmpty ? "" : sign) + $0 + direction }
        }
        query.text += " ORDER BY \(terms.joined(separator: ", "))"
        query.order = .total
        if dice.percent(50) { query.text += limit() }
        return query
    }

    func limit() -> String {
        let count = value(.integer(Int64(dice.between(dice.percent(5) ? -1 : 0, 12))))
        switch dice.below(4) {
        case 0: return " LIMIT \(count) OFFSET \(value(.integer(Int64(dice.below(6)))))"
        case 1: return " LIMIT \(dice.below(5)), \(count)"
        default: return " LIMIT \(count)"
        }
    }

    /// The most common query of applications: a row by its key.
    private func lookup() -> Query {
        let table = table()
        let source = source(table, name(table.name), isMain: false)
        var terms = [rowIDCondition([source])]
        if !table.uniqueKeys.isEmpty, dice.percent(70) {
            terms = dice.pick(table.uniqueKeys).map { "\(name($0)) \(dice.pick(["=", "=", "=", "IS"])) \(anyValue())" }
        }
        if dice.percent(20) { terms.append(condition([source], 1)) }
        return Query(
            text:
                "SELECT \(dice.pick(["*", "rowid, *", expression([source]), "count(*)"])) FROM \(name(table.name)) WHERE \(terms.joined(separator: " AND "))",
            columnCount: 1,
            order: .scan
        )
    }

    // MARK: Aggregates

    /// An aggregate whose value does not depend on the order of rows.
    private func aggregateTerm(_ sources: [Source]) -> String {
        let column = column(sources)
        let filter =
            SQLiteFeature.aggregateFilter.isAvailable && dice.percent(12)
            ? " FILTER (WHERE \(condition(sources, 1)))" : ""
        switch dice.below(8) {
        case 0: return "count(*)\(filter)"
        case 1: return "count(\(column))\(filter)"
        case 2: return "count(DISTINCT \(column))\(filter)"
        case 3: return "sum(length(\(column)))\(filter)"
        case 4: return "avg(length(\(column)))\(filter)"
        case 5: return "max(quote(\(column)))\(filter)"
        case 6: return "total(typeof(\(column)) = 'text')\(filter)"
        // Of values that are equal by a collation, the order of the scan determines which one comes out. In a query,
        // that does not matter.
        default:
            return "\(dice.pick(["min", "max"]))(\(column)\(writtenTable == nil ? "" : " COLLATE BINARY"))\(filter)"
        }
    }

    private func aggregate() -> Query {
        let (text, sources) = from()
        let count = dice.between(1, 3)
        let list = (0..<count).map { _ in aggregateTerm(sources) }.joined(separator: ", ")
        let filter = dice.percent(55) ? " WHERE \(condition(sources))" : ""
        return Query(text: "SELECT \(list) FROM \(text)\(filter)", columnCount: count, isLoose: true)
    }

    private func grouped() -> Query {
        let (text, sources) = from()
        let keys = (0..<dice.between(1, 2)).map { _ in dice.percent(75) ? column(sources) : expression(sources, 1) }
        let list = keys + (0..<dice.between(1, 2)).map { _ in aggregateTerm(sources) }
        var query = "SELECT \(list.joined(separator: ", ")) FROM \(text)"
        if dice.percent(45) { query += " WHERE \(condition(sources))" }
        // Grouped by the columns' numbers, since a parameter that is written twice is another one.
        query += " GROUP BY \((1...keys.count).map(String.init).joined(separator: ", "))"
        if dice.percent(25) {
            query += " HAVING \(aggregateTerm(sources)) \(dice.pick([">", "<", "=", "<>"])) \(dice.below(5))"
        }
        if dice.percent(40) { query += " ORDER BY 1\(dice.pick(["", " DESC"]))" }
        return Query(text: query, columnCount: list.count, isLoose: true)
    }

    private func distinct() -> Query {
        let (text, sources) = from()
        let count = dice.between(1, 2)
        let list = (0..<count).map { _ in column(sources) }.joined(separator: ", ")
        let filter = dice.percent(45) ? " WHERE \(condition(sources))" : ""
        return Query(text: "SELECT DISTINCT \(list) FROM \(text)\(filter)", columnCount: count, isLoose: true)
    }

    /// `min` and `max`, which SQLite finds at one end of an index.
    private func extreme() -> Query {
        let (text, source) = tableSource()
        let filter = dice.percent(50) ? " WHERE \(condition([source], 1))" : ""
        return Query(
            text: "SELECT \(dice.pick(["min", "max"]))(\(column([source]))) FROM \(text)\(filter)",
            columnCount: 1,
            isLoose: true
        )
    }

    // MARK: Compounds, windows and common tables

    /// A compound whose first column is a rowid, sorted by another name of it.
    private func compoundByRowID() -> Query? {
        let (from, source) = tableSource()
        let names = rowIDNames(of: source)
        guard !names.isEmpty else { return nil }
        let (other, otherSource) = tableSource()
        let schema = source.isMain && dice.percent(25) ? "main." : ""
        func written() -> String { (dice.percent(50) ? "\(schema)\(source.qualifier)." : "") + dice.pick(names) }
        let key = dice.percent(80) ? ("", "") : dice.pick([("-", ""), ("", " + 1"), ("(", ")")])
        let arms = [
            "SELECT \(key.0)\(written())\(key.1) FROM \(from)", "SELECT \(expression([otherSource], 1)) FROM \(other)",
        ]
        let word = dice.pick([" UNION ", " UNION ALL ", " EXCEPT "])
        let order = "\(key.0)\(written())\(key.1)\(dice.pick(["", " DESC", " ASC"]))"
        return Query(text: "\(arms.joined(separator: word)) ORDER BY \(order)", columnCount: 1, isLoose: true)
    }

    private func compound() -> Query {
        if dice.percent(30), let query = compoundByRowID() { return query }
        let count = dice.between(1, 2)
        var parts: [String] = []
        for _ in 0..<dice.between(2, 3) {
            let (text, source) = tableSource()
            // Natively, an INTEGER PRIMARY KEY has no collation, and leaves the choice to the queries that follow.
            // RTRIM is left out: if an index has RTRIM, SQLite 3.40's INTERSECT loses rows.
            let collation = parts.isEmpty ? " COLLATE " + dice.pick(["BINARY", "BINARY", "NOCASE", "NOCASE"]) : ""
            let list = (0..<count).map { _ in expression([source], 1) + collation }.joined(separator: ", ")
            let filter = dice.percent(55) ? " WHERE \(condition([source], 1))" : ""
            parts.append("SELECT \(list) FROM \(text)\(filter)")
            parts.append(dice.pick(["UNION", "UNION ALL", "UNION ALL", "INTERSECT", "EXCEPT"]))
        }
        parts.removeLast()
        var text = parts.joined(separator: " ")
        if dice.percent(40) { text += " ORDER BY \((1...count).map(String.init).joined(separator: ", "))" }
        return Query(text: text, columnCount: count, isLoose: true)
    }

    private func window() -> Query {
        let (text, source) = tableSource()
        let total = source.totalOrder.joined(separator: ", ")
        let partition = dice.percent(50) ? "PARTITION BY \(column([source])) " : ""
        let frame = dice.pick(["", "", " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING", " ROWS UNBOUNDED PRECEDING"])
        let function = dice.pick([
            "row_number()", "count(*)", "lag(\(column([source])))", "lead(\(column([source])), 2)",
            "first_value(\(column([source])))", "max(quote(\(column([source]))))", "sum(length(\(column([source]))))",
            "group_concat(quote(\(column([source]))))", "ntile(3)",
        ])
        let ranking = dice.pick(["rank()", "dense_rank()"])
        let isRank = dice.percent(25)
        let over =
            isRank
            ? "\(ranking) OVER (\(partition)ORDER BY \(column([source])))"
            : "\(function) OVER (\(partition)ORDER BY \(total)\(frame))"
        let filter = dice.percent(40) ? " WHERE \(condition([source], 1))" : ""
        return Query(
            text: "SELECT \(total), \(over) FROM \(text)\(filter) ORDER BY \(total)",
            columnCount: 2,
            order: .total
        )
    }

    /// The text of a WITH clause, to stand before a statement, and the sources that the clause makes.
    func with() -> (text: String, from: String, source: Source) {
        let derived = derivedTable()
        // Often, the common table has the name of a moving table, which it then hides. In a compound, that would be
        // endless recursion.
        let mayHide = views.isEmpty || SQLiteFeature.viewsApartFromCommonTables.isAvailable
        let label =
            mayHide && !derived.text.contains(" UNION ALL ") && dice.percent(40)
            ? name(table().name) : "cte"
        let columns = dice.percent(30) ? derived.columns.map { $0 + "1" } : derived.columns
        let list = columns == derived.columns ? "" : "(\(columns.joined(separator: ", ")))"
        let hint =
            SQLiteFeature.materialized.isAvailable && dice.percent(15)
            ? dice.pick([" MATERIALIZED", " NOT MATERIALIZED"]) : ""
        return (
            "WITH \(label)\(list) AS\(hint) (\(derived.text)) ", "\(label) AS w",
            Source(qualifier: "w", columns: columns)
        )
    }

    private func common() -> Query {
        if dice.percent(25) { return recursive() }
        let (prefix, text, source) = with()
        if dice.percent(40) {
            let (other, otherSource) = tableSource(mayBeBare: false)
            let join = dice.pick(["JOIN", "LEFT JOIN"])
            let on = comparison(
                "\(source.qualifier).\(source.columns[0])",
                "=",
                "\(otherSource.qualifier).\(dice.pick(otherSource.columns))",
                isInJoin: true
            )
            return select(
                "\(text) \(join) \(other) ON \(on)",
                [source, otherSource],
                prefix: prefix
            )
        }
        return select(text, [source], prefix: prefix)
    }

    private func recursive() -> Query {
        let (text, source) = tableSource(mayBeBare: false)
        guard let key = source.rowID else {
            return Query(
                text:
                    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 8) SELECT i, (SELECT count(*) FROM \(text) WHERE \(condition([source], 1)) AND n.i > 2) FROM n",
                columnCount: 2
            )
        }
        let rowID = "\(source.qualifier).\(key)"
        return Query(
            text:
                "WITH RECURSIVE chain(k, level) AS (SELECT \(anyRowID()), 0 UNION SELECT \(rowID), level + 1 FROM chain JOIN \(text) ON \(rowID) \(dice.pick(["= k + 1", "> k", "= k + 2"])) WHERE level < 3) SELECT k, level FROM chain",
            columnCount: 2,
            isLoose: true
        )
    }
}
