internal import SQLText
internal import SQLiteConnection

/// A pending row that a DELETE means and that the target does not take: it goes without having been there.
struct RefusedDelete {
    let table: MovingTable
    let key: RowKey
}

extension Overlay {
    /// Whether rows of a table may go without having been in the target: no trigger fires for them, and no foreign key asks
    /// for them.
    ///
    /// It is read from the schema, which the open transaction may have changed.
    func deletesUnseen(from table: MovingTable) throws -> Bool {
        let triggers = try connection.fetchAll(
            "SELECT name, sql FROM main.sqlite_master WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE",
            [table.name]
        )
        for row in triggers {
            let (name, sql): (String, String) = (try row.get(0), try row.get(1))
            if name.hasPrefix(StateStore.prefix) { continue }
            if TriggerTexts.fires(SQLScript(sql).outline(), sql, for: "delete") { return false }
        }
        guard connection.isOn(.foreignKeys) else { return true }
        let reader = SchemaReader(connection: connection, schema: "main")
        return try !reader.tableNames().contains { child in
            try reader.parents(of: child).contains { SQLIdentifier.equal($0, table.name) }
        }
    }
}
