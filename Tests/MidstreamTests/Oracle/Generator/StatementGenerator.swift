import SQLiteConnection

/// What all generators of statements share: names, values, parameters.
///
/// The generators ask nothing that SQLite leaves open. Rows are limited, and copied into tables, only in a total order.
/// Aggregates do not depend on the order of rows, and do not overflow. No function that may fail is called.
final class StatementGenerator {
    let dice: Dice
    let pool: ValuePool
    private(set) var tables: [TablePlan]
    var views: [ViewPlan] = []
    /// How many writes in a hundred are writes of a view.
    var viewWrites = 1
    /// Whether `recursive_triggers` may be on.
    var mayRecurse = false
    /// The table that the UPDATE or DELETE in the making changes, and whether the statement's condition reads that
    /// table again. Without LIMIT, SQLite 3.40 may read the table in the middle of the changes.
    var writtenTable: String?
    var readsWrittenTable = false
    /// Whether the UPDATE in the making changes a column that must be unique. SQLite then chooses which of several rows
    /// comes first, except in statements by rowid or with LIMIT.
    var changesKey = false
    /// Whether a query for a FROM clause, or for a view, is in the making.
    var isDerived = false
    /// Whether a RETURNING clause is in the making.
    var isReturning = false
    /// The names, in lower case, of columns that compare by BINARY in every table.
    private(set) var binaryColumns: Set<String>
    private var values: [SQLiteValue] = []
    private var aliasCount = 0

    init(dice: Dice, pool: ValuePool, tables: [TablePlan]) {
        self.dice = dice
        self.pool = pool
        self.tables = tables
        let columns = tables.flatMap(\.columns)
        let collated = columns.filter { $0.constraints.contains("COLLATE NOCASE") }.map { $0.name.lowercased() }
        binaryColumns = Set(columns.map { $0.name.lowercased() } + ["rowid", "oid", "_rowid_"]).subtracting(collated)
    }

    /// Makes statements name another table in place of a given one.
    func replace(_ name: String, with table: TablePlan) {
        tables = tables.map { $0.name == name ? table : $0 }
        // Statements know no types but this.
        binaryColumns.subtract(
            table.columns.filter { $0.constraints.contains("COLLATE NOCASE") }.map { $0.name.lowercased() }
        )
    }

    /// A table, most often a moving one.
    func table() -> TablePlan {
        let moving = tables.filter { $0.sourceName != nil }
        return dice.percent(75) ? dice.pick(moving) : dice.pick(tables)
    }

    func alias() -> String {
        aliasCount += 1
        return dice.pick(["x", "y", "s", "n"]) + "\(aliasCount)"
    }

    // MARK: Names

    private static let plain = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
    private static let keywords: Set<String> = ["order", "group", "select", "values", "key"]

    /// The name, quoted in one of the ways that SQLite knows.
    func name(_ name: String) -> String {
        if name.allSatisfy(Self.plain.contains), !Self.keywords.contains(name.lowercased()), dice.percent(75) {
            return dice.percent(10) ? name.uppercased() : name
        }
        switch dice.below(6) {
        case 0 where !name.contains("]"): return "[\(name)]"
        case 1 where !name.contains("`"): return "`\(name)`"
        default: return quoted(name)
        }
    }

    func tableName(_ table: TablePlan) -> String {
        (dice.percent(12) ? dice.pick(["main.", "MAIN.", "\"main\"."]) : "") + name(table.name)
    }

    // MARK: Values

    private static let open: Character = "\u{1}"
    private static let close: Character = "\u{2}"

    /// A value of the statement, which becomes a literal or a parameter.
    func value(_ value: SQLiteValue) -> String {
        values.append(value)
        return "\(Self.open)\(values.count - 1)\(Self.close)"
    }

    func anyValue() -> String {
        value(dice.pick(pool.values))
    }

    func anyRowID() -> String {
        value(.integer(dice.pick(pool.rowIDs)))
    }

    private enum Style {
        case literals, plain, numbered, named, mixed
    }

    /// Puts literals and parameters in place of the values.
    func finish(_ text: String, order: Command.Order = .none, isLoose: Bool = false, literalsOnly: Bool = false)
        -> Command
    {
        let style: Style =
            literalsOnly
            ? .literals
            : dice.weighted([(35, .literals), (25, .plain), (12, .numbered), (12, .named), (16, .mixed)])
        var writer = ParameterWriter(dice: dice)
        var sql = ""
        var digits: String?
        for character in text {
            if character == Self.open {
                digits = ""
            } else if character == Self.close {
                sql += writer.write(values[Int(digits ?? "") ?? 0], kind(style))
                digits = nil
            } else if digits != nil {
                digits?.append(character)
            } else {
                sql.append(character)
            }
        }
        values = []
        aliasCount = 0
        let names = style == .named && dice.percent(60) ? writer.givenNames : []
        return Command(sql: sql, values: writer.values, names: names, order: order, isLoose: isLoose)
    }

    private func kind(_ style: Style) -> ParameterWriter.Kind {
        switch style {
        case .literals: .literal
        case .plain: .plain
        case .numbered: .numbered
        case .named: .named
        case .mixed: dice.pick([.literal, .plain, .plain, .numbered, .named])
        }
    }
}

/// Writes parameters and keeps their values, by the rules of SQLite: `?` is one more than the largest number so far.
///
/// Source: <https://www.sqlite.org/lang_expr.html#varparam>.
private struct ParameterWriter {
    enum Kind {
        case literal, plain, numbered, named
    }

    let dice: Dice
    private(set) var values: [SQLiteValue] = []
    private var names: [Int: String] = [:]

    init(dice: Dice) {
        self.dice = dice
    }

    /// The names, when every value has one.
    var givenNames: [String] {
        let all = values.indices.compactMap { names[$0] }
        guard all.count == values.count else { return [] }
        return all
    }

    mutating func write(_ value: SQLiteValue, _ kind: Kind) -> String {
        switch kind {
        case .literal: return literal(value)
        case .plain:
            values.append(value)
            return "?"
        case .numbered:
            if let same = values.firstIndex(of: value), dice.percent(50) { return "?\(same + 1)" }
            if dice.percent(10) { values.append(.null) }
            values.append(value)
            return "?\(values.count)"
        case .named:
            if let same = names.keys.sorted().first(where: { values[$0] == value }), dice.percent(50) {
                return names[same] ?? "NULL"
            }
            values.append(value)
            let name = dice.pick([":", "@", "$"]) + dice.pick(["p", "name", "v_"]) + "\(values.count)"
            names[values.count - 1] = name
            return name
        }
    }
}
