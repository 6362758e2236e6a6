import SQLiteConnection
import SQLiteFeatures

extension StatementGenerator {
    // MARK: Columns

    /// A column of one of the sources.
    func column(_ scope: [Source]) -> String {
        guard let source = scope.isEmpty ? nil : dice.pick(scope) else { return anyValue() }
        if dice.percent(15) { return rowID(source) ?? reference(source, dice.pick(source.columns), scope) }
        return reference(source, dice.pick(source.columns), scope)
    }

    private func rowID(_ source: Source) -> String? {
        guard source.rowID != nil else { return nil }
        return "\(source.qualifier).\(dice.percent(30) ? dice.pick(rowIDNames(of: source)) : source.rowID ?? "")"
    }

    private func reference(_ source: Source, _ column: String, _ scope: [Source]) -> String {
        if dice.percent(scope.count == 1 ? 60 : 4) { return column }
        let schema = source.isMain && dice.percent(15) ? "main." : ""
        return "\(schema)\(source.qualifier).\(column)"
    }

    // MARK: Values

    func expression(_ scope: [Source], _ depth: Int = 2) -> String {
        if depth <= 0 { return dice.percent(70) ? column(scope) : anyValue() }
        switch dice.below(100) {
        case ..<48: return column(scope)
        case ..<66: return anyValue()
        case ..<72:
            return
                "(\(expression(scope, depth - 1)) \(dice.pick(["+", "-", "*", "/", "%", "||", "&", "|"])) \(expression(scope, depth - 1)))"
        case ..<84: return function(scope, depth - 1)
        case ..<87:
            return
                "CASE WHEN \(condition(scope, depth - 1)) THEN \(expression(scope, depth - 1)) ELSE \(anyValue()) END"
        case ..<90:
            return
                "CAST(\(expression(scope, depth - 1)) AS \(dice.pick(["TEXT", "INTEGER", "REAL", "BLOB", "NUMERIC"])))"
        case ..<97: return scalarSubquery(scope, depth - 1)
        default: return "(\(expression(scope, depth - 1)) COLLATE \(dice.pick(["NOCASE", "BINARY"])))"
        }
    }

    private func function(_ scope: [Source], _ depth: Int) -> String {
        let argument = expression(scope, depth)
        return switch dice.below(14) {
        case 0: "length(\(argument))"
        case 1: "upper(\(argument))"
        case 2: "typeof(\(argument))"
        case 3: "coalesce(\(argument), \(expression(scope, depth)))"
        case 4: "ifnull(\(argument), \(anyValue()))"
        case 5: "nullif(\(argument), \(anyValue()))"
        case 6: "hex(\(argument))"
        case 7: "substr(\(argument), 1, 2)"
        case 8: "max(\(argument), \(anyValue()))"
        case 9: "instr(\(argument), \(anyValue()))"
        case 10: "trim(\(argument))"
        case 11 where SQLiteFeature.iif.isAvailable: "iif(\(condition(scope, depth)), \(argument), \(anyValue()))"
        // SQLite evaluates this anew each time, with the same result.
        case 12: "((random() & 0) + \(dice.below(20)))"
        default: "quote(\(argument))"
        }
    }

    /// A subquery whose value does not depend on the order of rows.
    func scalarSubquery(_ scope: [Source], _ depth: Int) -> String {
        let (from, source) = tableSource(mayBeBare: scope.isEmpty)
        if !scope.isEmpty { noteRead(from) }
        let filter = dice.percent(75) ? " WHERE \(condition(inner(source, scope), depth))" : ""
        // If several texts equal a number, SQLite takes any of them for the first, unless it does not know the column.
        let sign = source.primaryKey.isEmpty ? "" : "+"
        let key = source.rowID.map { "\(sign)\(source.qualifier).\($0)" } ?? "1"
        switch dice.below(6) {
        case 0: return "(SELECT count(*) FROM \(from)\(filter))"
        // See `aggregateTerm`.
        case 1: return "(SELECT max(\(key)\(writtenTable == nil ? "" : " COLLATE BINARY")) FROM \(from)\(filter))"
        case 2: return "(SELECT min(quote(\(source.qualifier).\(dice.pick(source.columns)))) FROM \(from)\(filter))"
        case 3: return "(SELECT total(length(\(source.qualifier).\(dice.pick(source.columns)))) FROM \(from)\(filter))"
        default:
            let direction = dice.pick(["", " DESC"])
            let offset = dice.percent(20) ? " OFFSET \(dice.below(3))" : ""
            return
                "(SELECT \(expression([source], 0)) FROM \(from)\(filter) ORDER BY \(source.totalOrder.map { sign + $0 + direction }.joined(separator: ", ")) LIMIT 1\(offset))"
        }
    }

    /// A value that a column of numbers gives without having converted it, as a compound's column does.
    private func unconvertedValue() -> String {
        let type = dice.pick(["INTEGER", "REAL", "NUMERIC"])
        let word = dice.pick(["UNION", "UNION ALL"])
        return "(SELECT v FROM (SELECT CAST(1 AS \(type)) AS v WHERE 0 \(word) SELECT \(anyValue())))"
    }

    /// Notes that a subquery of a condition reads the table which the statement changes, maybe by a view.
    private func noteRead(_ from: String) {
        guard let writtenTable else { return }
        let text = from.lowercased().replacing("\"\"", with: "\"")
        if text.contains(writtenTable.lowercased()) || text.contains("view ") { readsWrittenTable = true }
    }

    /// The subquery's own table, and often the tables around it.
    ///
    /// In a subquery of RETURNING, SQLite 3.40 takes the row's columns for numbers without a collation. So of these
    /// columns, only the rowid is there.
    private func inner(_ source: Source, _ scope: [Source]) -> [Source] {
        guard dice.percent(60) else { return [source] }
        if !isReturning { return [source] + scope }
        let others = scope.compactMap { outer -> Source? in
            guard outer.primaryKey.isEmpty, let rowID = outer.rowID else { return nil }
            var outer = outer
            outer.columns = [rowID]
            return outer
        }
        return [source] + others
    }

    // MARK: Conditions

    private static let comparisons = ["=", "=", "=", "==", "<>", "!=", "<", "<=", ">", ">=", "IS", "IS NOT"]

    /// Two sides compared. SQLite 3.15 finds no rowid to be less than a text when it reads rowids in descending order,
    /// so the expression keeps it from searching for the rowid.
    ///
    /// Suppose that in a join a BINARY column equals a NOCASE one, and the NOCASE one equals a value. SQLite 3.40 then
    /// concludes that the first column equals the value as well, by its own collation: rows are lost, or not, depending
    /// on which table comes first. So the expression keeps SQLite from seeing that two columns are equal. RETURNING is
    /// an exception: there, such a `+id` beside a text makes a text of the `id` that is returned.
    func comparison(_ left: String, _ word: String, _ right: String, isInJoin: Bool = false) -> String {
        if isInJoin, !isReturning, ["=", "==", "IS"].contains(word), mayIgnoreCase(left) || mayIgnoreCase(right) {
            return "\(left) \(word) +\(right)"
        }
        let isKept = SQLiteFeature.rowIDsBelowText.isAvailable || !["<", "<=", ">", ">="].contains(word)
        return isKept ? "\(left) \(word) \(right)" : "+\(left) \(word) +\(right)"
    }

    /// Whether the expression may ignore case: only a column that compares by BINARY in all tables certainly does not.
    private func mayIgnoreCase(_ text: String) -> Bool {
        let column = text.split(separator: ".").last ?? ""
        return !binaryColumns.contains(column.filter { !"[]`\"".contains($0) }.lowercased())
    }

    func condition(_ scope: [Source], _ depth: Int = 2) -> String {
        if depth > 0 {
            switch dice.below(100) {
            case ..<10: return "(\(condition(scope, depth - 1)) AND \(condition(scope, depth - 1)))"
            case ..<17: return "(\(condition(scope, depth - 1)) OR \(condition(scope, depth - 1)))"
            case ..<20: return "NOT (\(condition(scope, depth - 1)))"
            case ..<28: return membership(scope, depth - 1)
            case ..<33: return exists(scope, depth - 1)
            default: break
            }
        }
        switch dice.below(100) {
        case ..<33: return comparison(column(scope), dice.pick(Self.comparisons), anyValue())
        case ..<35: return comparison(column(scope), dice.pick(Self.comparisons), unconvertedValue())
        case ..<45: return rowIDCondition(scope)
        case ..<55:
            return comparison(column(scope), dice.pick(Self.comparisons), column(scope), isInJoin: scope.count > 1)
        case ..<61: return "\(column(scope)) \(dice.pick(["IS NULL", "IS NOT NULL", "NOTNULL", "ISNULL"]))"
        case ..<68:
            let sign = SQLiteFeature.rowIDsBelowText.isAvailable ? "" : "+"
            return
                "\(sign)\(column(scope)) \(dice.pick(["BETWEEN", "NOT BETWEEN"])) \(anyValue()) AND \(anyValue())"
        case ..<76: return "\(column(scope)) \(dice.pick(["IN", "IN", "NOT IN"])) (\(list()))"
        case ..<81:
            // If an outer join compares an INTEGER PRIMARY KEY with a pattern, even in a view, SQLite 3.40 joins
            // nothing.
            return
                "\(column(scope))\(scope.count > 1 || !views.isEmpty || isDerived ? " || ''" : "") \(dice.pick(["LIKE", "NOT LIKE", "GLOB"])) \(dice.pick(["'a%'", "'%b'", "'A*'", "'_'", anyValue()]))"
        case ..<87:
            // RTRIM is left out: see `SchemaGenerator.column`.
            return comparison(
                "\(column(scope)) COLLATE \(dice.pick(["NOCASE", "BINARY"]))",
                dice.pick(Self.comparisons),
                anyValue()
            )
        case ..<92:
            return
                "(\(column(scope)), \(column(scope))) \(dice.pick(["=", "<", ">=", "<>", "IS"])) (\(anyValue()), \(anyValue()))"
        case ..<96:
            let (left, right) = (expression(scope, depth), expression(scope, depth))
            return comparison(left, dice.pick(Self.comparisons), right, isInJoin: scope.count > 1)
        default: return expression(scope, 0)
        }
    }

    func list() -> String {
        (0..<dice.between(1, 4)).map { _ in anyValue() }.joined(separator: ", ")
    }

    func rowIDCondition(_ scope: [Source]) -> String {
        guard let source = scope.first(where: { $0.rowID != nil }), let key = source.rowID else {
            return condition(scope, 0)
        }
        let name = dice.percent(60) && scope.count == 1 ? key : "\(source.qualifier).\(key)"
        switch dice.below(6) {
        case 0, 1: return "\(name) = \(anyRowID())"
        case 2: return "\(name) \(dice.pick(["<", "<=", ">", ">="])) \(anyRowID())"
        case 3: return "\(name) BETWEEN \(anyRowID()) AND \(anyRowID())"
        case 4: return "\(name) IN (\((0..<dice.between(1, 4)).map { _ in anyRowID() }.joined(separator: ", ")))"
        default: return comparison(name, dice.pick(["=", ">", "<="]), anyValue())
        }
    }

    private func membership(_ scope: [Source], _ depth: Int) -> String {
        let (from, source) = tableSource(mayBeBare: false)
        noteRead(from)
        var filter = dice.percent(60) ? " WHERE \(condition(inner(source, scope), depth))" : ""
        let word = dice.pick(["IN", "IN", "NOT IN"])
        let first = dice.percent(25) ? source.rowID.map { "\(source.qualifier).\($0)" } : nil
        let column = first ?? "\(source.qualifier).\(dice.pick(source.columns))"
        // Under a RIGHT or FULL JOIN, SQLite 3.40 does not find any row value to be in a list.
        let isInRightJoin = scope.contains(where: \.isInRightJoin)
        if SQLiteFeature.rowValuesInQueries.isAvailable, !isInRightJoin, dice.percent(20) {
            let second = "\(source.qualifier).\(dice.pick(source.columns))"
            // By an index, SQLite 3.40 finds a NULL of a row value to be in a list that has a NULL there, and does not
            // find text that is in a list of numbers. So the list's columns are not NULL, and have no affinity.
            filter += (filter.isEmpty ? " WHERE " : " AND ") + "\(column) NOT NULL AND \(second) NOT NULL"
            return
                "(\(self.column(scope)), \(self.column(scope))) \(word) (SELECT +\(column), +\(second) FROM \(from)\(filter))"
        }
        return "\(self.column(scope)) \(word) (SELECT \(column) FROM \(from)\(filter))"
    }

    private func exists(_ scope: [Source], _ depth: Int) -> String {
        let (from, source) = tableSource(mayBeBare: false)
        noteRead(from)
        return
            "\(dice.pick(["EXISTS", "NOT EXISTS"])) (SELECT \(dice.pick(["1", "*", source.rowID ?? "1"])) FROM \(from) WHERE \(comparison("\(source.qualifier).\(dice.pick(source.columns))", dice.pick(["=", "IS", "<", "="]), column(scope))) AND \(condition(inner(source, scope), depth)))"
    }
}
