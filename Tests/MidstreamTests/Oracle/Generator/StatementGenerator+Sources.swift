import SQLiteFeatures

extension StatementGenerator {
    /// A table, or rarely a view, for a FROM clause.
    func tableSource(mayBeBare: Bool = true) -> (text: String, source: Source) {
        if !views.isEmpty, dice.percent(12) {
            let view = dice.pick(views)
            let alias = alias()
            return (
                "\(dice.percent(20) ? "main." : "")\(name(view.name)) AS \(alias)",
                Source(qualifier: alias, columns: view.columns.map(name))
            )
        }
        let table = table()
        var text = tableName(table)
        let isBare = mayBeBare && dice.percent(40)
        let alias = isBare ? name(table.name) : alias()
        if !isBare { text += dice.percent(70) ? " AS \(alias)" : " \(alias)" }
        if dice.percent(3) { text += " NOT INDEXED" }
        return (text, source(table, alias, isMain: isBare))
    }

    /// The names by which a table's rowid may be called, quoted ones among them.
    func rowIDNames(of source: Source) -> [String] {
        guard let rowID = source.rowID else { return [] }
        let taken = Set(source.columns.map { $0.lowercased().filter { !"\"[]`".contains($0) } })
        let others = ["rowid", "oid", "_rowid_"].filter { !taken.contains($0) }
        // If one of the names is a column's, natively the other names mean that column as well.
        return [rowID] + (others.count == 3 ? others + ["\"rowid\"", "[OID]", "`_rowid_`"] : [])
    }

    func source(_ table: TablePlan, _ qualifier: String, isMain: Bool) -> Source {
        let others = ["rowid", "oid", "_rowid_", "ROWID"].filter { name in
            !table.columns.contains { $0.name == name.lowercased() }
        }
        return Source(
            qualifier: qualifier,
            columns: table.columns.map { name($0.name) },
            rowID: dice.percent(30) && !others.isEmpty && table.primaryKey.isEmpty
                ? dice.pick(others) : table.rowIDName,
            isMain: isMain,
            primaryKey: table.primaryKey.map(name)
        )
    }

    /// One source, or several joined.
    func from() -> (text: String, sources: [Source]) {
        switch dice.below(100) {
        case ..<58:
            let (text, source) = tableSource()
            return (text, [source])
        case ..<66:
            let alias = alias()
            let query = derivedTable()
            return ("(\(query.text)) AS \(alias)", [Source(qualifier: alias, columns: query.columns)])
        default: return joined(dice.percent(90) ? 2 : 3)
        }
    }

    private func joined(_ count: Int) -> (text: String, sources: [Source]) {
        let words = (1..<count).map { _ in
            dice.weighted(
                [
                    (30, "JOIN"), (20, "LEFT JOIN"), (8, ","), (6, "CROSS JOIN"), (6, "INNER JOIN"),
                    (4, "LEFT OUTER JOIN"),
                ] + SQLiteFeature.rightJoin.ifAvailable([(8, "RIGHT JOIN"), (8, "FULL JOIN")])
            )
        }
        let isRight = words.contains { $0 == "RIGHT JOIN" || $0 == "FULL JOIN" }
        var (text, first) = tableSource(mayBeBare: false)
        first.isInRightJoin = isRight
        var sources = [first]
        for word in words {
            var (other, source) = tableSource(mayBeBare: false)
            source.isInRightJoin = isRight
            text += " \(word) \(other)"
            if word != "," {
                let previous = dice.pick(sources)
                let left =
                    "\(previous.qualifier).\(dice.percent(30) ? previous.rowID ?? dice.pick(previous.columns) : dice.pick(previous.columns))"
                let right =
                    "\(source.qualifier).\(dice.percent(30) ? source.rowID ?? dice.pick(source.columns) : dice.pick(source.columns))"
                text += " ON \(comparison(left, dice.pick(["=", "=", "=", "IS", "<"]), right, isInJoin: true))"
                if dice.percent(25) { text += " AND \(condition(sources + [source], 1))" }
            }
            sources.append(source)
        }
        return (text, sources)
    }

    /// If a subquery is in the list of a derived table on the right of a LEFT JOIN, SQLite 3.40 evaluates it once, and
    /// gives NULL for it if it first met no row. In a derived table that SQLite stores to search it, `CAST(1.0 AS
    /// NUMERIC)` gives 1, and elsewhere 1.0.
    private func valueWithoutQuery(_ source: Source) -> String {
        while true {
            let text = expression([source], 1)
            if !text.contains("(SELECT "), !text.contains(" AS NUMERIC)") { return text }
        }
    }

    /// The value without affinity and collation: a compound's column may have those of any of its queries.
    private func plain(_ value: String) -> String {
        "ifnull(\(value), NULL)"
    }

    /// A subquery for a FROM clause, with its columns' names.
    func derivedTable() -> (text: String, columns: [String]) {
        let outer = isDerived
        isDerived = true
        defer { isDerived = outer }
        let (from, source) = tableSource()
        let names = ["p", "q", "r"].prefix(dice.between(1, 3))
        let kind = dice.below(100)
        let isCompound = (15..<32).contains(kind)
        let list = names.map { "\(isCompound ? plain(valueWithoutQuery(source)) : valueWithoutQuery(source)) AS \($0)" }
        var text = "SELECT \(list.joined(separator: ", ")) FROM \(from)"
        if dice.percent(60) { text += " WHERE \(condition([source], 1))" }
        if kind < 15 {
            text += " ORDER BY \(source.totalOrder.joined(separator: ", ")) LIMIT \(dice.between(1, 8))"
        } else if isCompound {
            let (other, otherSource) = tableSource()
            let list = names.map { _ in plain(expression([otherSource], 1)) }.joined(separator: ", ")
            text += " UNION ALL SELECT \(list) FROM \(other)"
        }
        return (text, Array(names))
    }
}
