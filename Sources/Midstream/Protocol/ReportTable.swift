internal import SQLText
internal import SQLiteConnection

/// A table of the target that tells of rows which did not move as others did, and stays when all have. It is made with the
/// first of them.
struct ReportTable {
    /// What is told of, as in the table's name.
    let kind: String
    /// The column of `midstream_tables` that has its name.
    let nameColumn: String
    /// The definitions of its columns, without types and constraints, so that it takes whatever there is.
    let columns: [String]

    /// - Returns: Its name. Where another table has the usual one, the table's id stands behind it, or a number besides.
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

    /// The table that tells of rows of a move which the target has forgotten; `nil` where there is none.
    static func left(_ kind: String, of target: String, _ id: Int64, _ connection: Connection) throws -> String? {
        let wanted = "\(OwnNames.prefix)\(kind)_\(target)"
        return try connection.fetchValue(
            "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name COLLATE NOCASE IN (?, ?)",
            [wanted, "\(wanted)_\(id)"]
        )
    }

    /// Whether a table is still there, with its columns: it is the application's to deal with.
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
