internal import SQLText
internal import SQLiteConnection

/// Turns a table into its own former shape, the backup. The table gets a name that nobody looks for. Its indexes get
/// such names too, since the table that takes its place has indexes of their names.
///
/// Nothing that is stored in pages changes: SQLite renames the table, and the texts of the schema are edited for
/// indexes and constraints, as SQLite's manual describes. Everything else that names the table goes on naming it:
/// views, triggers of other tables, and foreign keys then mean the table that takes its place.
///
/// Source: <https://www.sqlite.org/lang_altertable.html>.
struct TableBackup {
    let connection: Connection
    let table: TableSchema
    let name: String

    /// Makes the backup in the open transaction, without overlay, foreign keys and running statements. The table's
    /// triggers have been dropped before.
    ///
    /// - Complexity: O(1) in rows.
    func make() throws -> TableSchema {
        let isDefensive = connection.isConfigured(.defensive) ?? false
        if isDefensive { try connection.configure(.defensive, false) }
        defer { if isDefensive { try? connection.configure(.defensive, true) } }
        try connection.setting("writable_schema", to: 1, editTexts)
        // SQLite now reads all of these texts anew.
        try connection.setting("legacy_alter_table", to: 1) {
            try connection.execute(
                "ALTER TABLE main.\(SQLIdentifier.quoted(table.name)) RENAME TO \(SQLIdentifier.quoted(name))"
            )
        }
        guard let backup = try SchemaReader(connection: connection, schema: "main").table(name),
            backup.indexes.allSatisfy({ index in !table.indexes.contains { $0.name == index.name } })
        else { throw unreadable }
        return backup
    }

    private func editTexts() throws {
        // The backup is not written any more, so it needs no CHECK. What its foreign keys demand of other tables' rows
        // is checked for the new table.
        guard let createTable = CreateTable(table.sql) else { throw unreadable }
        try connection.execute(
            "UPDATE main.sqlite_master SET sql = ?1 WHERE type = 'table' AND name = ?2",
            [createTable.removing([.foreignKey, .check]), table.name]
        )
        let indexes = try connection.fetchAll(
            "SELECT rowid, sql FROM main.sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL",
            [table.name]
        )
        for (number, index) in indexes.enumerated() {
            let sql: String = try index.get(1)
            guard let target = SQLScript(sql).outline().target else { throw unreadable }
            let name = "\(name)_\(number + 1)"
            var edits = SQLEdits()
            edits.replace(target.range, with: SQLIdentifier.quoted(name))
            // SQLite's older way of renaming leaves these qualifiers as they are.
            for range in TableQualifiers.ranges(of: table.name, in: sql, from: target.range.upperBound) {
                edits.remove(range)
            }
            try connection.execute(
                "UPDATE main.sqlite_master SET name = ?1, sql = ?2 WHERE rowid = ?3",
                [name, edits.apply(to: sql), index.get(0, as: Int64.self)]
            )
        }
    }

    private var unreadable: MigrationError {
        MigrationError(
            .unsupported,
            "the definition of table \(table.name), or of one of its indexes, cannot be read: make the table anew by "
                + "statements of your own",
            table: table.name
        )
    }
}

extension Connection {
    /// Runs `body` with a pragma set, if SQLite has the pragma.
    func setting<Result>(_ pragma: String, to value: Int64, _ body: () throws -> Result) throws -> Result {
        let before = try fetchValue(Int64.self, "PRAGMA \(pragma)")
        try execute("PRAGMA \(pragma) = \(value)")
        defer { try? execute("PRAGMA \(pragma) = \(before ?? 0)") }
        return try body()
    }
}
