import SQLiteFeatures

/// Makes random triggers on tables and views.
///
/// The program of every trigger that writes tables notes in `log` that it fires. It fires only while `log` is short, so
/// that recursion ends.
struct TriggerGenerator {
    let generator: StatementGenerator
    private var dice: Dice { generator.dice }

    static let log = TablePlan(
        name: "log",
        sourceName: nil,
        columns: [
            ColumnPlan(name: "n", type: "INTEGER", constraints: "PRIMARY KEY"),
            ColumnPlan(name: "what", type: "", constraints: ""),
        ],
        rowIDColumn: "n",
        rowIDName: "\"n\"",
        isAutoIncrement: false,
        isStrict: false,
        mayReplace: false,
        mayRollBack: false,
        constraints: [],
        uniqueKeys: [],
        indexes: [],
        condition: nil,
        isPermuted: false,
        rows: []
    )

    init(_ generator: StatementGenerator) {
        self.generator = generator
    }

    /// A trigger of a table, or of a view if there is one.
    func trigger(_ number: Int, isTemporary: Bool = false) -> TriggerPlan {
        let name = "trigger \(number)"
        let text =
            !generator.views.isEmpty && dice.percent(30)
            ? ofView(dice.pick(generator.views)) : ofTable(generator.table())
        let sql = "CREATE \(isTemporary ? "TEMP " : "")TRIGGER \(quoted(name)) \(text)"
        return TriggerPlan(name: name, sql: generator.finish(sql, literalsOnly: true).sql)
    }

    // MARK: What fires it

    /// Before an UPDATE, SQLite 3.40 computes a generated column of NEW only from the columns that some trigger names.
    private func ofTable(_ table: TablePlan) -> String {
        let event = event(table.columns.map(\.name))
        let time = dice.pick(["BEFORE ", "AFTER ", "AFTER ", ""])
        let isComputed = time == "AFTER " || !event.hasPrefix("UPDATE")
        let columns = table.columns.filter { isComputed || !$0.isGenerated }.map { quoted($0.name) }
        return "\(time)\(event) ON \(quoted(table.name))" + program(rows(event, columns, rowID: table.rowIDName))
    }

    private func ofView(_ view: ViewPlan) -> String {
        let event = event(view.columns)
        return "INSTEAD OF \(event) ON \(quoted(view.name))" + program(rows(event, view.columns, rowID: nil))
    }

    private func event(_ columns: [String]) -> String {
        switch dice.below(4) {
        case 0: "INSERT"
        case 1: "DELETE"
        case 2: "UPDATE"
        default: "UPDATE OF \(dice.some(columns, atMost: 2).map(quoted).joined(separator: ", "))"
        }
    }

    /// NEW and OLD, as far as the event has them. One of them is listed twice, since the columns of a single source are
    /// named without it.
    private func rows(_ event: String, _ columns: [String], rowID: String?) -> [Source] {
        let names = event == "INSERT" ? ["NEW"] : event == "DELETE" ? ["OLD"] : ["NEW", "OLD"]
        let sources = names.map { Source(qualifier: $0, columns: columns, rowID: rowID) }
        return sources + sources.prefix(1)
    }

    // MARK: What it does

    private func program(_ rows: [Source]) -> String {
        var steps: [String] = []
        // Half of the triggers only take notes.
        let writes = dice.percent(50)
        if writes || dice.percent(80) {
            steps.append("INSERT INTO \"log\"(what) VALUES (\(note(rows)))")
        }
        if writes { for _ in 0..<dice.between(1, 2) { steps.append(write(rows)) } }
        if dice.percent(15) { steps.append(raise(rows)) }
        if dice.percent(15) { steps.append("INSERT INTO \"log\"(what) VALUES (\(counter()))") }
        if steps.isEmpty { steps.append("SELECT 1") }
        var condition = dice.percent(20) ? generator.condition(rows, 1) : ""
        if writes {
            let isShort = "(SELECT count(*) FROM \"log\") < 25"
            condition = condition.isEmpty ? isShort : "\(isShort) AND (\(condition))"
        }
        let when = condition.isEmpty ? "" : " WHEN \(condition)"
        return
            "\(dice.percent(20) ? " FOR EACH ROW" : "")\(when) BEGIN \(dice.shuffled(steps).joined(separator: "; ")); END"
    }

    private func counter() -> String {
        dice.pick(["changes()", "last_insert_rowid()", "total_changes()", "changes() || ' ' || last_insert_rowid()"])
    }

    private func note(_ rows: [Source]) -> String {
        let row = dice.pick(rows)
        switch dice.below(8) {
        case 0: return counter()
        case 1: return generator.scalarSubquery(rows, 1)
        case 2: return generator.expression(rows, 1)
        case 3: return row.rowID.map { "\(row.qualifier).\($0)" } ?? "1"
        default: return rows.map { "\($0.qualifier).\(dice.pick($0.columns))" }.joined(separator: " || '/' || ")
        }
    }

    /// A value for a column of another row.
    private func value(_ rows: [Source]) -> String {
        let row = dice.pick(rows)
        return dice.percent(60) ? "\(row.qualifier).\(dice.pick(row.columns))" : generator.anyValue()
    }

    private func conflictWord() -> String {
        dice.percent(25) ? " OR \(dice.pick(["IGNORE", "REPLACE", "ABORT", "FAIL", "ROLLBACK"]))" : ""
    }

    /// A write of some table. The table's name has no schema, since SQLite refuses that here. No rowid is given: after
    /// the largest integer, SQLite chooses at random.
    private func write(_ rows: [Source]) -> String {
        let table = generator.table()
        let name = quoted(table.name)
        let row = dice.pick(rows)
        // Generated columns are left out: SQLite cannot compile a trigger that writes one.
        let columns = table.columns.filter { $0.name != table.rowIDColumn && !$0.isGenerated }.map { quoted($0.name) }
        let key = row.rowID.map { "\(row.qualifier).\($0)" } ?? "\(row.qualifier).\(row.columns[0])"
        let other = Source(qualifier: name, columns: columns, rowID: table.rowIDName)
        let condition =
            dice.percent(60)
            ? "\(table.rowIDName) \(dice.pick(["= \(key)", "= \(key) + 1", "> \(key)", "<> \(key)"]))"
            : generator.condition([other] + rows, 1)
        switch dice.below(7) {
        case 0, 1:
            let some = dice.some(columns, atMost: 3)
            return "INSERT\(conflictWord()) INTO \(name)(\(some.joined(separator: ", "))) VALUES "
                + "(\(some.map { _ in value(rows) }.joined(separator: ", ")))" + upsert()
        case 2:
            let some = dice.some(columns, atMost: 2)
            let (from, source) = generator.tableSource(mayBeBare: false)
            let list = some.map { _ in generator.expression([source] + rows, 1) }.joined(separator: ", ")
            return "INSERT\(conflictWord()) INTO \(name)(\(some.joined(separator: ", "))) SELECT \(list) FROM \(from) "
                + "WHERE 1 ORDER BY \(source.totalOrder.joined(separator: ", ")) LIMIT 2"
        case 3, 4, 5:
            return "UPDATE\(conflictWord()) \(name) SET \(dice.pick(columns)) = \(value(rows)) WHERE \(condition)"
        default: return "DELETE FROM \(name) WHERE \(condition)"
        }
    }

    private func upsert() -> String {
        SQLiteFeature.upsert.isAvailable && dice.percent(15) ? " ON CONFLICT DO NOTHING" : ""
    }

    private func raise(_ rows: [Source]) -> String {
        let what = dice.pick(["IGNORE", "IGNORE", "ABORT, 'no'", "FAIL, 'failed'", "ROLLBACK, 'back'"])
        return "SELECT RAISE(\(what)) WHERE \(generator.condition(rows, 1))"
    }
}
