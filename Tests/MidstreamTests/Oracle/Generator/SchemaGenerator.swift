import SQLiteConnection
import SQLiteFeatures

/// Makes random tables, views and rows.
struct SchemaGenerator {
    let dice: Dice
    let pool: ValuePool

    private static let tableNames = [
        "t", "Messages", "order", "my table", "täble", "a\"b", "select", "u", "items", "values", "x.y",
    ]
    private static let columnNames = [
        "a", "b", "c", "Body", "group", "two words", "é", "key", "value", "d'e", "kind", "_x",
        "k0", "midstream_key0", "midstream_source",
    ]

    func tables() -> [TablePlan] {
        let names = dice.shuffled(Self.tableNames)
        let moving = dice.between(1, 3)
        let native = dice.between(1, 2)
        return (0..<(moving + native)).map { table(names[$0], isMoving: $0 < moving, number: $0) }
    }

    // MARK: One table

    private func table(_ name: String, isMoving: Bool, number: Int) -> TablePlan {
        var plan = TablePlan(
            name: name,
            sourceName: nil,
            columns: [],
            rowIDColumn: nil,
            rowIDName: "rowid",
            isAutoIncrement: false,
            isStrict: SQLiteFeature.strict.isAvailable && dice.percent(8),
            mayReplace: false,
            mayRollBack: false,
            constraints: [],
            uniqueKeys: [],
            indexes: [],
            condition: nil,
            isPermuted: dice.percent(20),
            rows: []
        )
        if isMoving { plan.sourceName = dice.percent(50) ? name : "old " + name }
        if isMoving, dice.percent(20) { plan.secondSourceName = "old 2 " + name }
        var names = dice.shuffled(Self.columnNames)
        if dice.percent(4) { names.insert(dice.pick(["rowid", "oid", "_rowid_"]), at: 0) }
        plan.columns = names.prefix(dice.between(2, 6)).map { column($0, in: &plan) }
        addGeneratedColumn(&plan)
        plan.rowIDName = ["rowid", "_rowid_", "oid"].first { name in !plan.columns.contains { $0.name == name } } ?? ""
        addKey(&plan, Array(names.dropFirst(6)))
        if !plan.primaryKey.isEmpty { plan.isPermuted = false }
        addUniqueKeys(&plan)
        addIndexes(&plan, number)
        addChecks(&plan)
        if isMoving, dice.percent(25) { mapColumns(&plan) }
        if isMoving, dice.percent(20) { plan.condition = condition(plan) }
        addRows(&plan)
        return plan
    }

    /// Makes some columns of something other than the source's column of the same name.
    private func mapColumns(_ plan: inout TablePlan) {
        plan.leavesColumn = dice.percent(30)
        let free = freeColumns(plan)
        let others = plan.columns.filter { column in
            !column.isGenerated && !free.contains { plan.columns[$0].name == column.name }
        }
        for index in free where dice.percent(60) {
            plan.columns[index].origin = origin(of: plan.columns[index], others, plan)
        }
        // A table must have at least one column.
        let isEmpty = plan.columns.allSatisfy { column in
            switch column.origin {
            case .expression, .value, .absent: true
            case nil: column.isGenerated
            case .column: false
            }
        }
        if isEmpty { plan.leavesColumn = true }
    }

    /// The indices of the columns by which no row is known: they are in no key, no unique index and no generated
    /// column.
    private func freeColumns(_ plan: TablePlan) -> [Int] {
        let generated = plan.columns.filter(\.isGenerated).map(\.constraints).joined()
        let keys = Set(plan.uniqueKeys.joined() + plan.primaryKey + [plan.rowIDColumn].compactMap(\.self))
        let hidden = plan.indexes.filter(\.isUnique).map(\.terms).joined()
        return plan.columns.indices.filter { index in
            let column = plan.columns[index]
            return !column.isGenerated && !keys.contains(column.name) && !generated.contains(quoted(column.name))
                && !hidden.contains(quoted(column.name))
        }
    }

    /// The table to which a moving table moves on. It has the same keys, and other types or values in some other
    /// columns.
    func table(after plan: TablePlan) -> TablePlan {
        var next = plan
        next.name = "next " + plan.name
        (next.sourceName, next.secondSourceName, next.condition) = (nil, nil, nil)
        (next.leavesColumn, next.rows) = (false, [])
        for index in next.indexes.indices { next.indexes[index].name = "next " + next.indexes[index].name }
        for index in next.columns.indices { next.columns[index].origin = nil }
        let free = freeColumns(next)
        for index in free where dice.percent(40) {
            let other = quoted(dice.pick(plan.columns).name)
            switch dice.below(4) {
            case 0: next.columns[index].origin = .value(dice.pick(pool.values))
            case 1: next.columns[index].origin = .expression(dice.pick([other, "\(other) || '/'", "typeof(\(other))"]))
            default:
                if !plan.isStrict { next.columns[index].type = dice.pick(["INTEGER", "TEXT", "NUMERIC", "", "BLOB"]) }
            }
        }
        return next
    }

    private func origin(of column: ColumnPlan, _ others: [ColumnPlan], _ plan: TablePlan) -> ColumnPlan.Origin {
        let types =
            plan.isStrict ? ["INTEGER", "TEXT", "REAL", "ANY"] : ["INTEGER", "TEXT", "REAL", "NUMERIC", "", "BLOB"]
        switch dice.below(others.isEmpty ? 4 : 6) {
        case 0: return .column("was " + column.name, type: column.type)
        case 1: return .column(column.name, type: dice.pick(types))
        case 2: return .value(dice.pick(pool.values))
        case 3: return .absent
        default:
            let (a, b) = (quoted(dice.pick(others).name), quoted(dice.pick(others).name))
            return .expression(
                dice.pick([
                    a, "\(a) || \(b)", "lower(\(a))", "\(a) + 1", "ifnull(\(a), 'none')", "\(a) || '1' -- text",
                    "CASE WHEN \(a) > \(b) THEN \(a) END", "CAST(\(a) AS TEXT)", "\(a) COLLATE NOCASE", "typeof(\(a))",
                ])
            )
        }
    }

    /// There is no REAL if there are rowids as small as can be: in some ways SQLite finds such a rowid equal to the
    /// number that a REAL column makes of it, in other ways not.
    private func column(_ name: String, in plan: inout TablePlan) -> ColumnPlan {
        var type =
            plan.isStrict
            ? dice.pick(["INT", "INTEGER", "REAL", "TEXT", "TEXT", "BLOB", "ANY"])
            : dice.weighted([
                (20, "INTEGER"), (25, "TEXT"), (8, "VARCHAR(10)"), (8, "REAL"), (8, "NUMERIC"), (4, "DECIMAL(5,2)"),
                (8, "BLOB"), (14, ""), (3, "BOOLEAN"), (2, "DOUBLE PRECISION"), (2, "CHARINT"),
            ])
        if pool.rowIDs.contains(.min), type == "REAL" || type == "DOUBLE PRECISION" { type = "INTEGER" }
        var parts: [String] = []
        // RTRIM is left out: the Bloom filters of SQLite 3.40 take texts of different length for different texts.
        if dice.percent(15) { parts.append("COLLATE " + dice.pick(["NOCASE", "NOCASE", "BINARY"])) }
        if dice.percent(12) {
            // FAIL is left out: what an UPDATE has done when it fails depends on the order of its rows, which with
            // triggers is the order of the rowids.
            let clause = dice.percent(20) ? " ON CONFLICT " + dice.pick(["REPLACE", "IGNORE", "ABORT"]) : ""
            parts.append("NOT NULL" + clause)
        }
        if dice.percent(20) {
            parts.append("DEFAULT " + dice.pick([literal(dice.pick(pool.values)), "(1 + 2)", "'x'", "(lower('ABC'))"]))
        }
        return ColumnPlan(name: name, type: type, constraints: parts.joined(separator: " "))
    }

    /// If the same key is there already, its conflict clause may only be the first one's.
    private func conflictClause(_ plan: inout TablePlan, for key: [String] = []) -> String {
        guard dice.percent(12), !plan.uniqueKeys.contains(key) else { return "" }
        let word = dice.pick(["REPLACE", "IGNORE", "FAIL", "ABORT", "ROLLBACK"])
        if word == "REPLACE" { plan.mayReplace = true }
        if word == "ROLLBACK" { plan.mayRollBack = true }
        return " ON CONFLICT \(word)"
    }

    private func addKey(_ plan: inout TablePlan, _ names: [String]) {
        let withoutRowIDs = SQLiteFeature.writesOfKeyedTables.ifAvailable([(18, 5)])
        switch dice.weighted([(45, 0), (15, 1), (20, 2), (10, 3), (10, 4)] + withoutRowIDs) {
        case 0, 1:
            plan.isAutoIncrement = dice.percent(30)
            let name = dice.pick(["id", "ID", names.first ?? "id"])
            let descending = !plan.isAutoIncrement && dice.percent(5) ? " DESC" : ""
            let conflict = conflictClause(&plan)
            // INTEGER PRIMARY KEY DESC is an ordinary column with an index.
            let key = ColumnPlan(
                name: name,
                type: "INTEGER",
                constraints: "PRIMARY KEY\(descending)\(conflict)" + (plan.isAutoIncrement ? " AUTOINCREMENT" : "")
                    + (descending.isEmpty ? "" : " NOT NULL")
            )
            plan.columns.insert(key, at: dice.percent(70) ? 0 : plan.columns.count)
            if descending.isEmpty {
                plan.rowIDColumn = name
                plan.rowIDName = quoted(name)
            } else {
                plan.uniqueKeys.append([name])
            }
        case 2: break
        case 3:
            plan.columns[0].type = plan.isStrict ? "TEXT" : dice.pick(["TEXT", "INT", ""])
            plan.columns[0].constraints += " PRIMARY KEY" + conflictClause(&plan)
            plan.uniqueKeys.append([plan.columns[0].name])
        case 5:
            plan.primaryKey = dice.some(plainColumns(plan), atMost: 3)
            plan.rowIDName = quoted(plan.primaryKey[0])
            // If the key does not come first, SQLite 3.40's integrity_check finds a NULL where there is none.
            let key = plan.primaryKey
            let others = plan.columns.filter { !key.contains($0.name) }
            plan.columns = key.compactMap { name in plan.columns.first { $0.name == name } } + others
            let terms = plan.primaryKey.map { quoted($0) + (dice.percent(20) ? " DESC" : "") }
            plan.constraints.append("PRIMARY KEY (\(terms.joined(separator: ", ")))" + conflictClause(&plan))
            plan.uniqueKeys.append(plan.primaryKey)
        default:
            let key = dice.some(plainColumns(plan), atMost: 3)
            plan.constraints.append("PRIMARY KEY (\(key.map(quoted).joined(separator: ", ")))" + conflictClause(&plan))
            // A single INTEGER column is the rowid here, too.
            if key.count == 1, plan.columns.contains(where: { $0.name == key[0] && $0.type == "INTEGER" }) {
                plan.rowIDColumn = key[0]
                plan.rowIDName = quoted(key[0])
            } else {
                plan.uniqueKeys.append(key)
            }
        }
    }

    private var plainColumns: (TablePlan) -> [String] {
        { plan in plan.columns.filter { !$0.isGenerated }.map(\.name).filter { $0 != plan.rowIDColumn } }
    }

    private func addGeneratedColumn(_ plan: inout TablePlan) {
        guard SQLiteFeature.generatedColumns.isAvailable, dice.percent(12) else { return }
        let (a, b) = (quoted(dice.pick(plan.columns).name), quoted(dice.pick(plan.columns).name))
        let expression = dice.pick(["lower(\(a))", "\(a) || \(b)", "length(\(a))", "\(a) + 1", "ifnull(\(a), \(b))"])
        plan.columns.append(
            ColumnPlan(
                name: "made",
                type: plan.isStrict ? "ANY" : dice.pick(["TEXT", "INTEGER", "", "NUMERIC"]),
                constraints: "AS (\(expression))" + dice.pick(["", " STORED", " VIRTUAL"]),
                isGenerated: true
            )
        )
    }

    private func addUniqueKeys(_ plan: inout TablePlan) {
        if SQLiteFeature.indexesOnExpressions.isAvailable, SQLiteFeature.partialIndexes.isAvailable, dice.percent(5) {
            let (a, b) = (quoted(dice.pick(plan.columns).name), quoted(dice.pick(plan.columns).name))
            plan.indexes.append(
                IndexPlan(
                    name: "\(plan.name) hidden key",
                    isUnique: true,
                    terms: dice.pick(["(lower(\(a)))", "(\(a)) WHERE \(b) IS NOT NULL", "(\(a), \(b) || 'x')"]),
                    isInSource: true
                )
            )
            plan.hasHiddenKeys = true
        }
        for _ in 0..<dice.weighted([(45, 0), (35, 1), (15, 2), (5, 3)]) {
            let key = dice.some(plainColumns(plan), atMost: 3)
            // In a table without rowids whose PRIMARY KEY is declared UNIQUE as well, SQLite 3.15 forgets a page.
            if Set(key) == Set(plan.primaryKey) { continue }
            defer { plan.uniqueKeys.append(key) }
            if dice.percent(60) {
                plan.constraints.append(
                    "UNIQUE (\(key.map(quoted).joined(separator: ", ")))" + conflictClause(&plan, for: key)
                )
            } else {
                plan.indexes.append(
                    IndexPlan(
                        name: "\(plan.name) unique \(plan.indexes.count)",
                        isUnique: true,
                        terms: "(\(self.terms(key, of: plan)))",
                        isInSource: true
                    )
                )
            }
        }
    }

    /// The terms of an index. If the index's first column descends, SQLite 3.40 misses the NULLs at its end, and takes
    /// `x NOT IN (SELECT column …)` to be true; so such a column is NOT NULL.
    private func terms(_ columns: [String], of plan: TablePlan) -> String {
        columns.enumerated().map { position, name in
            let isNotNull = plan.columns.contains { $0.name == name && $0.constraints.contains("NOT NULL") }
            return term(name, mayDescend: position > 0 || isNotNull)
        }
        .joined(separator: ", ")
    }

    private func term(_ column: String, mayDescend: Bool) -> String {
        var text = quoted(column)
        if dice.percent(20) { text += " COLLATE " + dice.pick(["NOCASE", "RTRIM", "BINARY"]) }
        if dice.percent(25), mayDescend { text += " DESC" }
        return text
    }

    private func addIndexes(_ plan: inout TablePlan, _ number: Int) {
        for _ in 0..<dice.weighted([(25, 0), (35, 1), (25, 2), (15, 3)]) {
            var terms = "(" + self.terms(dice.some(plainColumns(plan), atMost: 3), of: plan) + ")"
            if SQLiteFeature.indexesOnExpressions.isAvailable, dice.percent(6) {
                terms = "(lower(\(quoted(plan.columns[0].name))))"
            }
            if SQLiteFeature.partialIndexes.isAvailable, dice.percent(6) {
                terms += " WHERE \(quoted(dice.pick(plan.columns).name)) IS NOT NULL"
            }
            plan.indexes.append(
                IndexPlan(
                    name: "\(plan.name) index \(plan.indexes.count)",
                    isUnique: false,
                    terms: terms,
                    isInSource: dice.percent(80)
                )
            )
        }
    }

    private func addChecks(_ plan: inout TablePlan) {
        guard SQLiteFeature.checksOfStoredValues.isAvailable, dice.percent(12) else { return }
        let column = quoted(dice.pick(plan.columns).name)
        plan.constraints.append(
            "CHECK (\(dice.pick(["\(column) IS NULL OR length(\(column)) < 4", "\(column) IS NOT 'b'", "\(column) < 1000"])))"
        )
    }

    private func condition(_ plan: TablePlan) -> String {
        let kept = plan.columns.filter { $0.origin == nil }
        guard !kept.isEmpty else { return "1" }
        let column = quoted(dice.pick(kept).name)
        return dice.pick([
            "\(column) IS NOT NULL", "\(column) > 2", "length(\(column)) = 1", "NOT (\(column) = 5)",
            "\(column) = \(literal(dice.pick(pool.values)))",
        ])
    }

    // MARK: Rows

    private func addRows(_ plan: inout TablePlan) {
        let count = dice.weighted([(8, 0), (20, 4), (40, 16), (28, 30), (4, 80)])
        let inTarget = dice.weighted([(55, 0), (30, 20), (15, 60)])
        for _ in 0..<count {
            let rowID = dice.percent(70) ? Int64(dice.between(1, max(10, count * 2))) : dice.pick(pool.rowIDs)
            plan.rows.append(
                RowPlan(
                    rowID: rowID,
                    values: plan.columns.map { _ in
                        dice.percent(15) ? .integer(Int64(dice.below(50))) : dice.pick(pool.values)
                    },
                    isInTarget: dice.percent(inTarget)
                )
            )
        }
    }
}
