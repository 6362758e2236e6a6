internal import SQLText
internal import SQLiteConnection

/// Pending rows that a DELETE deletes, without their having been in the target.
enum UnseenDelete {
    /// A row that the target refuses.
    case row(MovingTable, RowKey)
    /// All pending rows of a table, and their number.
    case all(MovingTable, Int64)

    /// The number of rows.
    var rows: Int64 {
        switch self {
        case .row: 1
        case .all(_, let rows): rows
        }
    }

    func perform() throws {
        switch self {
        case .row(let table, let key): try table.discard(key)
        case .all(let table, let rows): try table.discardAll(rows)
        }
    }
}

extension MovingTable {
    /// Whether the table's rows may be deleted without having been in the target: no trigger fires for them, and no foreign key
    /// depends on them.
    ///
    /// This is read from the schema, which the open transaction may have changed.
    func deletesUnseen() throws -> Bool {
        let connection = statements.connection
        let triggers = try connection.fetchAll(
            """
            SELECT name, sql FROM main.sqlite_master WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE
            UNION ALL SELECT name, sql FROM sqlite_temp_master WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE
            """,
            [name]
        )
        for row in triggers {
            let (trigger, sql): (String, String) = (try row.get(0), try row.get(1))
            if OwnNames.isFence(trigger) { return false }
            if OwnNames.isTrigger(trigger) { continue }
            if SQLScript(sql).outline().fires(sql, for: "delete") { return false }
        }
        guard connection.isOn(.foreignKeys) else { return true }
        // Each deleted row may end a violation.
        if connection.hasDeferredViolations { return false }
        let reader = SchemaReader(connection: connection, schema: "main")
        return try !reader.tableNames().contains { child in
            try reader.parents(of: child).contains { SQLIdentifier.equal($0, name) }
        }
    }
}
