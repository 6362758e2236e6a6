import SQLText
import SQLiteConnection

/// Brings tables from one file to another natively.
enum TableCopy {
    /// The tables that Midstream moves, of those that a schema has.
    static func movableTables(_ connection: Connection) throws -> [String] {
        try tables(connection).filter { try canMove($0, connection) }
    }

    static func tables(_ connection: Connection) throws -> [String] {
        try connection.fetchAll(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
                + "AND name NOT LIKE 'midstream\\_%' ESCAPE '\\' ORDER BY rowid"
        )
        .map { try $0.get(0) }
    }

    /// What Docs/COMPAT.md says of tables that do not move.
    private static func canMove(_ table: String, _ connection: Connection) throws -> Bool {
        let name = SQLIdentifier.quoted(table)
        guard try LogicContents.rowID(of: table, connection) != nil,
            try !connection.fetchAll("PRAGMA main.table_xinfo(\(name))").contains(where: { $0["hidden"] != .integer(0) }
            )
        else { return false }
        for index in try connection.fetchAll("PRAGMA main.index_list(\(name))") where index["unique"] == .integer(1) {
            let columns = try connection.fetchAll(
                "PRAGMA main.index_info(\(SQLIdentifier.quoted(try index.get("name"))))"
            )
            if index["partial"] == .integer(1) || columns.contains(where: { $0["name"] == .null }) { return false }
        }
        return true
    }

    /// Creates a file's objects in another: what `types` says, in an order in which each finds what it needs.
    static func copySchema(
        _ types: [String],
        of tables: Set<String>? = nil,
        from source: Connection,
        to target: Connection
    ) throws {
        for type in types {
            let objects = try source.fetchAll(
                "SELECT tbl_name, sql FROM sqlite_master WHERE type = ? AND sql IS NOT NULL "
                    + "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE 'midstream\\_%' ESCAPE '\\' "
                    + "ORDER BY rowid",
                [type]
            )
            for object in objects {
                if let tables, try !tables.contains(object.get(0)) { continue }
                try target.execute(object.get(1, as: String.self))
            }
        }
    }

    /// Copies a table's rows, with their rowids, from one schema of a connection to another.
    static func copyRows(_ table: String, from: String, to: String, _ connection: Connection) throws {
        let name = SQLIdentifier.quoted(table)
        var columns = try connection.fetchAll("PRAGMA \(from).table_info(\(name))").map { row in
            SQLIdentifier.quoted(try row.get("name"))
        }
        if let key = try LogicContents.rowID(of: table, schema: from, connection) { columns.insert(key, at: 0) }
        let list = columns.joined(separator: ", ")
        try connection.execute("INSERT INTO \(to).\(name)(\(list)) SELECT \(list) FROM \(from).\(name)")
    }
}
