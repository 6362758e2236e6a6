internal import SQLText
internal import SQLiteConnection

/// Pending rows that a DELETE means, and that go without having been in the target.
enum UnseenDelete {
    /// One that the target does not take.
    case row(MovingTable, RowKey)
    /// All of a table, which are so many.
    case all(MovingTable, Int64)

    /// How many they are.
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
    /// Whether its rows may go without having been in the target: no trigger fires for them, and no foreign key asks
    /// for them.
    ///
    /// It is read from the schema, which the open transaction may have changed.
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
        // Each row that goes may end one.
        if connection.hasDeferredViolations { return false }
        let reader = SchemaReader(connection: connection, schema: "main")
        return try !reader.tableNames().contains { child in
            try reader.parents(of: child).contains { SQLIdentifier.equal($0, name) }
        }
    }
}
