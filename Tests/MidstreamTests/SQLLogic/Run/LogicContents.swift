import SQLText
import SQLiteConnection

/// All that a file holds, as lines to compare: its schema, and each table's rows with their rowids.
enum LogicContents {
    static func read(_ connection: Connection) throws -> [String] {
        let objects = try connection.fetchAll(
            "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'midstream\\_%' ESCAPE '\\' "
                + "AND name NOT LIKE 'sqlite\\_stat%' ESCAPE '\\' ORDER BY type, name"
        )
        var lines = texts(objects)
        for object in objects where object[0] == .text("table") {
            let name: String = try object.get(1)
            lines += try rows(of: name, connection).map { "\(name): \($0)" }
        }
        return lines
    }

    private static func rows(of table: String, _ connection: Connection) throws -> [String] {
        let name = SQLIdentifier.quoted(table)
        let columns = try connection.fetchAll("PRAGMA main.table_info(\(name))").map { row -> String in
            try row.get("name")
        }
        let values = columns.map { "quote(\(SQLIdentifier.quoted($0)))" }.joined(separator: " || '|' || ")
        guard let key = try rowID(of: table, connection) else {
            return texts(try connection.fetchAll("SELECT \(values) FROM main.\(name)")).sorted()
        }
        return texts(try connection.fetchAll("SELECT \(key) || '|' || \(values) FROM main.\(name) ORDER BY \(key)"))
    }

    /// A name of the rowid that no column has; `nil` for a table without one, or a virtual table.
    static func rowID(of table: String, schema: String = "main", _ connection: Connection) throws -> String? {
        let name = SQLIdentifier.quoted(table)
        let columns = Set(
            try connection.fetchAll("PRAGMA \(schema).table_info(\(name))").map { row -> String in
                SQLIdentifier.lowercased(try row.get("name"))
            }
        )
        guard let key = ["rowid", "_rowid_", "oid"].first(where: { !columns.contains($0) }) else { return nil }
        return (try? connection.prepare("SELECT \(key) FROM \(schema).\(name)")) == nil ? nil : key
    }
}
