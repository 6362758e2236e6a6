import SQLiteConnection
import SQLiteFeatures

extension StatementGenerator {
    func write() -> Command {
        if !views.isEmpty, dice.percent(viewWrites) { return finish(viewWrite()) }
        let text: String =
            switch dice.below(100) {
            case ..<34: insert()
            case ..<44: insertFromSelect()
            case ..<76: update()
            default: delete()
            }
        return finish(text)
    }

    /// A write of a view, which its INSTEAD OF triggers carry out, if it has any.
    private func viewWrite() -> String {
        let view = dice.pick(views)
        let target = (dice.percent(25) ? "main." : "") + name(view.name)
        let source = Source(qualifier: name(view.name), columns: view.columns)
        let filter = dice.percent(80) ? " WHERE \(condition([source], 1))" : ""
        switch dice.below(4) {
        case 0:
            let rows = (0..<dice.between(1, 2)).map { _ in
                "(\(view.columns.map { _ in anyValue() }.joined(separator: ", ")))"
            }
            return "INSERT\(conflictWord()) INTO \(target) VALUES \(rows.joined(separator: ", "))"
        case 1:
            let (from, other) = tableSource(mayBeBare: false)
            let list = view.columns.map { _ in expression([other], 1) }.joined(separator: ", ")
            return "INSERT INTO \(target) SELECT \(list) FROM \(from) ORDER BY "
                + "\(other.totalOrder.joined(separator: ", ")) LIMIT 3"
        case 2: return "UPDATE\(conflictWord()) \(target) SET \(dice.pick(view.columns)) = \(anyValue())\(filter)"
        default: return "DELETE FROM \(target)\(filter)"
        }
    }

    private func conflictWord(mayReplace: Bool = true) -> String {
        let words = ["IGNORE", "FAIL", "ABORT", "ROLLBACK", "IGNORE"]
        return dice.percent(35) ? " OR " + dice.pick(mayReplace ? words + ["REPLACE", "REPLACE"] : words) : ""
    }

    /// If several rows go into a STRICT table, none may replace another: see `TablePlan.keepsRowsOfFailures`.
    private func insertion(mayReplace: Bool) -> String {
        mayReplace && dice.percent(12) ? "REPLACE" : "INSERT\(conflictWord(mayReplace: mayReplace))"
    }

    private func returning(_ sources: [Source]) -> String {
        guard SQLiteFeature.returning.isAvailable, dice.percent(18) else { return "" }
        isReturning = true
        defer { isReturning = false }
        return " RETURNING " + (dice.percent(40) ? "*" : "\(expression(sources, 1)), \(column(sources))")
    }

    private func commonTable() -> String {
        // A limited write takes a common table with its target's name for its target.
        dice.percent(8) ? with().text : ""
    }

    // MARK: Insert

    private func wholeColumns(_ table: TablePlan) -> (columns: [String], rowID: Int?) {
        let columns = table.columns.filter { !$0.isGenerated }.map(\.name)
        return (columns, columns.firstIndex { $0 == table.rowIDColumn })
    }

    /// Columns to insert into, and whether one of them is the rowid.
    private func insertColumns(_ table: TablePlan) -> (columns: [String], rowID: Int?) {
        var columns = table.columns.filter { !$0.isGenerated }.map(\.name)
        var rowID = columns.firstIndex { $0 == table.rowIDColumn }
        if dice.percent(25) { columns = dice.shuffled(columns) }
        if dice.percent(25) { columns = Array(columns.prefix(dice.between(1, columns.count))) }
        if let key = table.rowIDColumn {
            if dice.percent(30) { columns.removeAll { $0 == key } }
            rowID = columns.firstIndex { $0 == key }
        } else if dice.percent(30), table.primaryKey.isEmpty, !table.columns.contains(where: { $0.name == "rowid" }) {
            columns.append("rowid")
            rowID = columns.count - 1
        }
        if columns.isEmpty { columns = table.columns.filter { !$0.isGenerated }.map(\.name) }
        return (columns, columns.isEmpty ? nil : rowID ?? columns.firstIndex { $0 == table.rowIDColumn })
    }

    /// A rowid for one of several rows, or for a single row.
    ///
    /// If REPLACE meets a rowid that is no integer, SQLite keeps the rows before it, against its documentation. So with
    /// REPLACE there is no such rowid.
    private func rowIDValue(isAlone: Bool = true, replaces: Bool = false) -> String {
        let mayBeNull = isAlone || SQLiteFeature.rowIDsChosenBetweenOthers.isAvailable
        switch dice.below(20) {
        case let kind where !mayBeNull && [0, 1, 2, 7].contains(kind): return anyRowID()
        case 4 where !isAlone && replaces: return anyRowID()
        case 0, 1, 2: return "NULL"
        case 3: return value(.text("\(dice.pick(pool.rowIDs))"))
        case 4: return value(.text("abc"))
        case 5: return value(.real(Double(dice.below(40))))
        case 6: return "((random() & 0) + \(dice.below(40)))"
        case 7:
            let other = table()
            if !isAlone, replaces, !other.primaryKey.isEmpty { return anyRowID() }
            return "(SELECT max(\(other.rowIDName)) FROM \(tableName(other)))"
        default: return anyRowID()
        }
    }

    private func rowValues(_ count: Int, _ rowID: Int?, isAlone: Bool, replaces: Bool) -> String {
        (0..<count).map { index in
            if index == rowID { return rowIDValue(isAlone: isAlone, replaces: replaces) }
            if dice.percent(90) { return anyValue() }
            return dice.percent(50) ? expression([], 1) : dice.pick(["changes()", "last_insert_rowid()"])
        }
        .joined(separator: ", ")
    }

    private func insert() -> String {
        let table = table()
        let number = dice.weighted([(70, 1), (15, 2), (10, 3), (5, 5)])
        let count = table.keepsRowsOfFailures ? 1 : number
        let verb = insertion(mayReplace: count == 1 || !table.isStrict)
        let prefix = commonTable()
        var text = "\(prefix)\(verb) INTO \(tableName(table))"
        let alias = SQLiteFeature.targetAlias.isAvailable && dice.percent(15) ? alias() : nil
        if let alias { text += " AS \(alias)" }
        let source = source(table, alias ?? name(table.name), isMain: false)
        if dice.percent(4) { return text + " DEFAULT VALUES" + returning([source]) }
        let isWhole = dice.percent(30)
        let (columns, rowID) =
            isWhole
            ? wholeColumns(table)
            : insertColumns(table)
        if !isWhole { text += "(\(columns.map(name).joined(separator: ", ")))" }
        let replaces = verb.contains("REPLACE")
        let rows = (0..<count).map { _ in
            "(\(rowValues(columns.count, rowID, isAlone: count == 1, replaces: replaces)))"
        }
        text += " VALUES \(rows.joined(separator: ", "))"
        if verb.hasPrefix("INSERT") { text += upsert(table, source, isAlone: count == 1) }
        return text + returning([source])
    }

    /// With several rows, SQLite chooses whether a later row's subquery reads what earlier rows have written: it may
    /// evaluate the subquery for each row, or once.
    private func upsert(_ table: TablePlan, _ source: Source, isAlone: Bool) -> String {
        guard SQLiteFeature.upsert.isAvailable, dice.percent(35) else { return "" }
        while true {
            let text = upsert(table, source)
            if isAlone || !text.contains("(SELECT ") { return text }
        }
    }

    private func upsert(_ table: TablePlan, _ source: Source) -> String {
        var keys = table.uniqueKeys
        if let key = table.rowIDColumn { keys.append([key]) }
        if keys.isEmpty || dice.percent(15) { return " ON CONFLICT DO NOTHING" }
        var text = ""
        for _ in 0..<(dice.percent(12) ? 2 : 1) where !keys.isEmpty {
            let key = dice.pick(keys)
            // If there are two clauses for one key, SQLite 3.40 makes a corrupt index.
            keys.removeAll { Set($0) == Set(key) }
            text += " ON CONFLICT(\(key.map(name).joined(separator: ", ")))"
            if dice.percent(20) {
                text += " DO NOTHING"
                continue
            }
            let column = dice.pick(source.columns.filter { $0 != table.rowIDName } + source.columns)
            let new = dice.pick(["excluded.\(dice.pick(source.columns))", anyValue(), expression([source], 1)])
            let isKey = table.rowIDColumn.map { column.lowercased().contains($0.lowercased()) } ?? false
            text += " DO UPDATE SET \(column) = \(isKey ? anyRowID() : new)"
            if dice.percent(25) { text += " WHERE \(condition([source], 1))" }
        }
        return text
    }

    /// The rows of a query, in a total order, since the order decides on rowids and conflicts.
    private func insertFromSelect() -> String {
        let table = table()
        let (columns, rowID) = insertColumns(table)
        let (from, source) = tableSource(mayBeBare: false)
        let verb = insertion(mayReplace: !table.isStrict)
        // A sum that is too large is no integer: see `rowIDValue`.
        let offsets = verb.contains("REPLACE") ? [""] : ["", "+ 1", "+ 3", "- 2", "+ 40"]
        let list = columns.indices.map { index in
            if index == rowID {
                // Nor need the columns of a PRIMARY KEY be integers.
                let isInteger = source.primaryKey.isEmpty || !verb.contains("REPLACE")
                let key = isInteger ? source.rowID : nil
                return key.map { "\(source.qualifier).\($0) \(dice.pick(offsets))" } ?? "NULL"
            }
            return expression([source], 1)
        }
        let prefix = commonTable()
        var text = "\(prefix)\(verb) INTO \(tableName(table))"
        text += "(\(columns.map(name).joined(separator: ", "))) SELECT \(list.joined(separator: ", ")) FROM \(from)"
        text += " WHERE \(dice.percent(70) ? condition([source], 1) : "1")"
        text +=
            " ORDER BY \(source.totalOrder.joined(separator: ", ")) LIMIT \(table.keepsRowsOfFailures ? 1 : dice.between(1, 10))"
        if SQLiteFeature.upsert.isAvailable, dice.percent(15), !text.hasPrefix("REPLACE") {
            text += " ON CONFLICT DO NOTHING"
        }
        return text
    }

    // MARK: Update

    private func target() -> (text: String, source: Source, table: TablePlan) {
        let table = table()
        let alias = SQLiteFeature.targetAlias.isAvailable && dice.percent(20) ? alias() : nil
        var text = tableName(table)
        if let alias { text += " AS \(alias)" }
        return (text, source(table, alias ?? name(table.name), isMain: alias == nil), table)
    }

    private func assignment(_ table: TablePlan, _ scope: [Source], replaces: Bool) -> String {
        if dice.percent(12) {
            let key = table.rowIDColumn.map(name) ?? table.rowIDName
            if !table.primaryKey.isEmpty { changesKey = true }
            // A sum that is too large is no integer: see `rowIDValue`.
            let sums = replaces ? [] : ["\(key) + 1", "\(key) - 1", "60 - \(key)", "\(key) + 100"]
            return "\(key) = \(dice.pick([anyRowID(), rowIDValue()] + sums))"
        }
        let plain = table.columns.filter { !$0.isGenerated }.map(\.name).filter { $0 != table.rowIDColumn }
        let keys = Set(table.uniqueKeys.joined())
        if table.hasHiddenKeys { changesKey = true }
        if plain.count > 1, dice.percent(8) {
            let columns = dice.shuffled(plain).prefix(2)
            if !keys.isDisjoint(with: columns) { changesKey = true }
            let pair = columns.map(name)
            return dice.percent(50)
                ? "(\(pair[0]), \(pair[1])) = (\(pair[1]), \(pair[0]))"
                : "(\(pair[0]), \(pair[1])) = (\(expression(scope, 1)), \(anyValue()))"
        }
        let column = dice.pick(plain)
        if keys.contains(column) { changesKey = true }
        return "\(name(column)) = \(dice.percent(60) ? anyValue() : expression(scope))"
    }

    private func rest(_ source: Source, of table: TablePlan) -> String {
        writtenTable = table.name
        defer { writtenTable = nil }
        readsWrittenTable = false
        let isByRowID = dice.percent(30)
        var text = dice.percent(88) ? " WHERE \(isByRowID ? rowIDCondition([source]) : condition([source]))" : ""
        text += returning([source])
        if dice.percent(8) {
            let direction = dice.pick(["", " DESC"])
            text += " ORDER BY \(source.totalOrder.map { $0 + direction }.joined(separator: ", "))" + limit()
        } else if readsWrittenTable || changesKey && !isByRowID || dice.percent(2) {
            text += " LIMIT -1"
        }
        return text
    }

    /// The conflict word of an UPDATE. If a table has a trigger for DELETE, as each moving table has, SQLite with
    /// `recursive_triggers` may find, by a second unique index, that a row which has replaced another is a duplicate of
    /// itself.
    func updateConflictWord(_ table: TablePlan) -> String {
        guard mayRecurse, table.uniqueKeys.count > 1 else { return conflictWord() }
        return table.mayReplace ? " OR ABORT" : conflictWord(mayReplace: false)
    }

    private func update() -> String {
        let prefix = commonTable()
        let (text, source, table) = target()
        let verb = "\(prefix)UPDATE\(updateConflictWord(table)) \(text) SET "
        let replaces = verb.contains("OR REPLACE")
        if SQLiteFeature.updateFrom.isAvailable, uniqueTable() != nil, dice.percent(12) {
            return verb + updateFrom(table, source, replaces: replaces)
        }
        changesKey = false
        let assignments = (0..<(dice.percent(75) ? 1 : 2)).map { _ in assignment(table, [source], replaces: replaces) }
        let list = assignments.joined(separator: ", ")
        // If the order of the rows shows, it is SQLite's choice.
        if list.contains("(SELECT ") || changesKey && !table.primaryKey.isEmpty {
            return verb + list + " WHERE " + oneRow(table) + returning([source])
        }
        return verb + list + rest(source, of: table)
    }

    /// A condition that at most one row meets.
    private func oneRow(_ table: TablePlan) -> String {
        if table.primaryKey.isEmpty { return "\(table.rowIDName) = \(anyRowID())" }
        return table.primaryKey.map { "\(name($0)) = \(anyValue())" }.joined(separator: " AND ")
    }

    /// A table whose rows one value tells apart.
    private func uniqueTable() -> TablePlan? {
        let table = table()
        return table.primaryKey.isEmpty ? table : tables.first(where: \.primaryKey.isEmpty)
    }

    /// An UPDATE … FROM in which each row of the target meets at most one row of the other table.
    private func updateFrom(_ table: TablePlan, _ source: Source, replaces: Bool) -> String {
        let other = uniqueTable() ?? table
        let alias = alias()
        let joined = self.source(other, alias, isMain: false)
        let left = source.rowID.map { "\(source.qualifier).\($0)" } ?? "1"
        let key = dice.percent(60) ? left : "\(source.qualifier).\(dice.pick(source.columns))"
        var text = assignment(table, [source, joined], replaces: replaces)
        text += " FROM \(tableName(other)) AS \(alias)"
        // However many more rows of that table are joined, the values are those of the first one.
        if dice.percent(30) {
            let (second, column) = (self.alias(), dice.pick(joined.columns))
            text +=
                dice.percent(50)
                ? " NATURAL JOIN \(tableName(other)) AS \(second)"
                : " LEFT JOIN \(tableName(other)) AS \(second) USING (\(column))"
        }
        text += " WHERE \(alias).\(other.rowIDName) = \(key)"
        if dice.percent(50) { text += " AND \(condition([source, joined], 1))" }
        return text
    }

    private func delete() -> String {
        let prefix = commonTable()
        let (text, source, table) = target()
        changesKey = false
        if dice.percent(4) { return "\(prefix)DELETE FROM \(text)" }
        return "\(prefix)DELETE FROM \(text)" + rest(source, of: table)
    }
}
