import SQLiteConnection
import SQLiteFeatures

/// Makes random changes of the schema, and questions about it.
struct SchemaChangeGenerator {
    let generator: StatementGenerator
    let triggers: [TriggerPlan]
    private var dice: Dice { generator.dice }

    // MARK: Changes

    /// A statement that changes a schema in any way. Most such statements drain a moving table.
    func change() -> Command {
        let table = generator.table()
        switch dice.below(20) {
        case 0, 1, 2: return index(table)
        case 3, 4, 5, 6: return alter(table)
        case 7: return Command(sql: dice.pick(["DROP TABLE \(name(table))", "DROP TABLE IF EXISTS \(name(table))"]))
        case 8, 9, 10: return view()
        case 11, 12, 13: return trigger()
        case 14, 15: return maintenance(table)
        case 16: return creation(table)
        default: return common(table)
        }
    }

    /// Statements that applications run at any time, or at each launch.
    func common(_ table: TablePlan) -> Command {
        let name = quoted(table.name)
        let column = quoted(dice.pick(table.columns).name)
        return Command(
            sql: dice.pick(
                [
                    "CREATE INDEX late ON \(name)(\(column))", "CREATE UNIQUE INDEX late_unique ON \(name)(\(column))",
                    "DROP INDEX late", "ALTER TABLE \(name) ADD COLUMN added DEFAULT 7", "VACUUM",
                    "CREATE TABLE copy AS SELECT * FROM \(name) ORDER BY \(table.key.joined(separator: ", "))",
                    "DROP TABLE copy",
                    "CREATE TEMP TABLE scratch AS SELECT count(*) FROM \(name)", "DROP TABLE temp.scratch",
                    "EXPLAIN QUERY PLAN SELECT 1", "REINDEX \(name)",
                ]
                    + SQLiteFeature.renameColumn.ifAvailable([
                        "ALTER TABLE \(name) RENAME COLUMN \(renamable(table)) TO renamed"
                    ])
            )
        )
    }

    private func name(_ table: TablePlan) -> String { generator.tableName(table) }

    private func index(_ table: TablePlan) -> Command {
        let indexes = table.indexes.map(\.name) + ["late", "late_unique", "missing"]
        let columns = dice.some(table.columns.map { quoted($0.name) }, atMost: 2).joined(separator: ", ")
        let condition = dice.percent(20) ? " WHERE \(quoted(dice.pick(table.columns).name)) NOT NULL" : ""
        let prefix = dice.percent(20) ? "main." : ""
        return Command(
            sql: dice.pick([
                "CREATE INDEX \(prefix)late ON \(quoted(table.name))(\(columns))\(condition)",
                "CREATE UNIQUE INDEX \(prefix)late_unique ON \(quoted(table.name))(\(columns))",
                "CREATE INDEX IF NOT EXISTS \(quoted(dice.pick(indexes))) ON \(quoted(table.name))(\(columns))",
                "DROP INDEX \(prefix)\(quoted(dice.pick(indexes)))",
                "DROP INDEX IF EXISTS \(quoted(dice.pick(indexes)))",
            ])
        )
    }

    private func alter(_ table: TablePlan) -> Command {
        let column = quoted(dice.pick(table.columns).name)
        let other = generator.table()
        let key = other.rowIDColumn.map { "(\(quoted($0)))" } ?? ""
        let changes =
            [
                "ADD COLUMN added", "ADD added TEXT DEFAULT 'x'", "ADD COLUMN added NOT NULL DEFAULT 1",
                "ADD COLUMN added NOT NULL", "ADD COLUMN added REFERENCES \(quoted(other.name))\(key)",
                "ADD COLUMN added DEFAULT (1 + 2)", "RENAME TO \"renamed table\"", "RENAME TO \(quoted(other.name))",
            ]
            + SQLiteFeature.renameColumn.ifAvailable([
                "RENAME COLUMN \(renamable(table)) TO renamed", "RENAME \(renamable(table)) TO \"re named\"",
            ]) + SQLiteFeature.dropColumn.ifAvailable(["DROP COLUMN \(column)", "DROP COLUMN added"])
        return Command(sql: "ALTER TABLE \(name(table)) \(dice.pick(changes))")
    }

    private func view() -> Command {
        if !generator.views.isEmpty, dice.percent(40) {
            let view = quoted(dice.pick(generator.views).name)
            return Command(
                sql: dice.pick(["DROP VIEW \(view)", "DROP VIEW IF EXISTS \(view)", "DROP VIEW main.\(view)"])
            )
        }
        let label = dice.pick(["late view", "view 0"])
        let (query, _) = generator.derivedTable()
        let text = query.replacing(" NOT INDEXED", with: "")
        return generator.finish(
            "CREATE VIEW \(dice.percent(20) ? "IF NOT EXISTS " : "")\(quoted(label)) AS \(text)",
            literalsOnly: true
        )
    }

    private func trigger() -> Command {
        if dice.percent(35) {
            let name = quoted(dice.pick(triggers.map(\.name) + ["trigger 90", "missing"]))
            return Command(sql: "DROP TRIGGER \(dice.percent(40) ? "IF EXISTS " : "")\(name)")
        }
        return Command(sql: TriggerGenerator(generator).trigger(90 + dice.below(3)).sql)
    }

    /// `PRAGMA optimize` is left out: which tables it analyzes depends on how statements were planned before.
    private func maintenance(_ table: TablePlan) -> Command {
        let index = table.indexes.isEmpty ? "missing" : dice.pick(table.indexes).name
        return Command(
            sql: dice.pick([
                "REINDEX", "REINDEX NOCASE", "REINDEX \(name(table))", "REINDEX \(quoted(index))", "ANALYZE",
                "ANALYZE \(name(table))", "ANALYZE main", "VACUUM",
            ])
        )
    }

    private func creation(_ table: TablePlan) -> Command {
        let name = quoted(table.name)
        return Command(
            sql: dice.pick([
                "CREATE TABLE IF NOT EXISTS \(name)(x)", "CREATE TABLE \(name)(x)", "CREATE TABLE late(x, y UNIQUE)",
                "CREATE TABLE copy AS SELECT *, 1 AS one FROM \(self.name(table)) ORDER BY \(table.key.joined(separator: ", "))",
                "INSERT INTO copy SELECT * FROM copy", "DROP TABLE IF EXISTS copy", "CREATE VIEW \(name) AS SELECT 1",
                "DROP VIEW \(name)", "CREATE INDEX \(name) ON \(name)(rowid)",
            ])
        )
    }

    // MARK: Questions

    /// A PRAGMA or a table-valued function that describes the schema.
    func question() -> Command {
        let table = generator.table()
        let index = table.indexes.isEmpty ? "missing" : dice.pick(table.indexes).name
        let about = dice.pick([generator.name(table.name), quoted(table.name), literal(.text(table.name))])
        let ofTable = ["table_info", "table_xinfo", "index_list", "foreign_key_list"]
        let prefix = dice.percent(20) ? "main." : ""
        let sql = dice.pick(
            [
                "PRAGMA \(prefix)\(dice.pick(ofTable))(\(about))", "PRAGMA \(prefix)\(dice.pick(ofTable)) = \(about)",
                "PRAGMA \(prefix)index_info(\(quoted(index)))", "PRAGMA \(prefix)index_xinfo(\(quoted(index)))",
                "PRAGMA \(prefix)foreign_key_check", "PRAGMA \(prefix)foreign_key_check(\(about))",
                "PRAGMA \(prefix)integrity_check", "PRAGMA quick_check", "PRAGMA foreign_keys",
                "PRAGMA recursive_triggers", "PRAGMA defer_foreign_keys", "PRAGMA user_version",
            ]
                + SQLiteFeature.pragmaFunctions.ifAvailable([
                    "SELECT * FROM pragma_\(dice.pick(ofTable))(\(literal(.text(table.name))))",
                    "SELECT m.name, p.* FROM sqlite_master AS m JOIN pragma_\(dice.pick(ofTable))(m.name) AS p "
                        + "WHERE m.type = 'table' AND m.name NOT LIKE 'midstream%' AND m.name NOT LIKE 'old %'",
                    "SELECT count(*) FROM pragma_foreign_key_check",
                ])
        )
        return Command(sql: sql)
    }

    /// A setting of the connection. `temp_store` is left out: it cannot be set in a transaction while there are TEMP
    /// objects, and with the overlay there are.
    func setting() -> Command {
        let value = dice.pick(["ON", "OFF", "1", "0"])
        let recursion = generator.mayRecurse ? ["PRAGMA recursive_triggers = \(value)"] : []
        return Command(
            sql: dice.pick(
                recursion + [
                    "PRAGMA foreign_keys = \(value)", "PRAGMA defer_foreign_keys = \(value)", "PRAGMA user_version = 7",
                ]
            )
        )
    }

    // MARK: Other connections

    /// What a connection that knows nothing of the migration may do: it changes nothing of the moving tables. Nor does
    /// it query them, since it would read them without pending rows.
    func strange() -> Command {
        let natives = generator.tables.filter { $0.sourceName == nil }
        let table = dice.pick(natives)
        let name = quoted(table.name)
        let column = quoted(dice.pick(table.columns).name)
        let moving = dice.pick(generator.tables)
        return Command(
            sql: dice.pick([
                "CREATE INDEX strange ON \(name)(\(column))", "DROP INDEX strange", "CREATE TABLE strange(x)",
                "DROP TABLE strange", "ALTER TABLE \(name) ADD COLUMN strange DEFAULT 3",
                "CREATE VIEW strange AS SELECT count(*) AS n FROM \(quoted(moving.name))", "DROP VIEW strange",
                "CREATE TRIGGER strange AFTER INSERT ON \(name) BEGIN UPDATE \(quoted(moving.name)) SET "
                    + "\(quoted(dice.pick(moving.columns).name)) = 5; END",
                "CREATE TRIGGER strange AFTER UPDATE ON \(quoted(moving.name)) BEGIN DELETE FROM \(name); END",
                "DROP TRIGGER strange", "SELECT count(*) FROM \(name)", "PRAGMA user_version = 9",
            ])
        )
    }

    /// A column whose name is not one of the rowid's names. After such a column is renamed, its former name would mean
    /// the rowid.
    private func renamable(_ table: TablePlan) -> String {
        let columns = table.columns.map(\.name).filter { !["rowid", "oid", "_rowid_"].contains($0) }
        return columns.isEmpty ? "nowhere" : quoted(dice.pick(columns))
    }
}
