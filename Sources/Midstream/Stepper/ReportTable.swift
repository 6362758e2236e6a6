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

    /// - Returns: Its name. Where another table has the usual one, the table's id stands behind it.
    func make(for record: TableRecord, _ connection: Connection) throws -> String {
        let stored = "SELECT \(nameColumn) FROM main.midstream_tables WHERE id = ?"
        if let known: String = try connection.fetchValue(stored, [record.id]) { return known }
        func exists(_ name: String) throws -> Bool {
            let sql = "SELECT 1 FROM main.sqlite_master WHERE name = ? COLLATE NOCASE"
            return try connection.fetchOne(sql, [name]) != nil
        }
        let wanted = StateStore.prefix + kind + "_" + record.target
        let name = try exists(wanted) ? wanted + "_\(record.id)" : wanted
        guard try !exists(name) else { return name }
        let list = KeySQL.list(columns)
        try connection.execute("CREATE TABLE main.\(SQLIdentifier.quoted(name))(\(list))")
        try connection.execute("UPDATE main.midstream_tables SET \(nameColumn) = ? WHERE id = ?", [name, record.id])
        return name
    }
}
