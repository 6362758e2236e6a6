internal import SQLText
internal import SQLiteConnection

/// A table of the target that reports rows which did not move like the others. It is created with the first such row, and stays
/// when all other rows have moved.
struct ReportTable {
    /// What the table reports, as in its name.
    let kind: String
    /// The column of `midstream_tables` that stores the name of the report table.
    let nameColumn: String
    /// The definitions of the report table's columns. They have no types and constraints, so that the table takes any values.
    let columns: [String]

    /// - Returns: The report table's name. If another table has the usual name, the move's id is appended, and if need be a number.
    func make(for record: TableRecord, _ connection: Connection) throws -> String {
        let stored = "SELECT \(nameColumn) FROM main.midstream_tables WHERE id = ?"
        if let known: String = try connection.fetchValue(stored, [record.id]), try takes(known, connection) {
            return known
        }
        func exists(_ name: String) throws -> Bool {
            let sql = "SELECT 1 FROM main.sqlite_master WHERE name = ? COLLATE NOCASE"
            return try connection.fetchOne(sql, [name]) != nil
        }
        let wanted = "\(OwnNames.prefix)\(kind)_\(record.target)"
        var name = wanted
        var number = 0
        while try exists(name) {
            name = wanted + "_\(record.id)" + (number == 0 ? "" : "_\(number)")
            number += 1
        }
        let list = KeySQL.list(columns)
        try connection.execute("CREATE TABLE main.\(SQLIdentifier.quoted(name))(\(list))")
        try TableUpdate.setReport(record, nameColumn, name, connection)
        return name
    }

    /// The report table of a move that the target has forgotten; `nil` if there is none.
    static func left(_ kind: String, of target: String, _ id: Int64, _ connection: Connection) throws -> String? {
        let wanted = "\(OwnNames.prefix)\(kind)_\(target)"
        return try connection.fetchValue(
            "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name COLLATE NOCASE IN (?, ?)",
            [wanted, "\(wanted)_\(id)"]
        )
    }

    /// Whether a report table still exists with its columns: the application may do with it what it likes.
    private func takes(_ name: String, _ connection: Connection) throws -> Bool {
        let list = KeySQL.list(columns.map { "midstream_report.\($0)" })
        let query = "SELECT \(list) FROM main.\(SQLIdentifier.quoted(name)) AS midstream_report LIMIT 0"
        do {
            _ = try connection.fetchAll(query)
            return true
        } catch {
            guard error.code == .error else { throw error }
            return false
        }
    }
}
