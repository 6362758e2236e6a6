import GRDB

extension PersistableRecord {
    /// Inserts the record, or updates the row that has the record's primary key, also while its table moves.
    ///
    ///     try player.upsertOnMovingTable(db)
    ///
    /// - Parameter key: The columns of a unique key of the table; the primary key if not said.
    /// - Throws: The errors of ``GRDB/Database/executeOnMovingTables(sql:arguments:)``.
    public func upsertOnMovingTable(_ db: GRDB.Database, onConflict key: [String]? = nil) throws {
        let table = Self.databaseTableName
        let values = try databaseDictionary
        let columns = values.keys.sorted()
        let key = try key ?? db.primaryKey(table).columns
        func quoted(_ name: String) -> String {
            "\"" + name.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"") + "\""
        }
        func list(_ names: [String]) -> String { names.map(quoted).joined(separator: ", ") }
        let updated = columns.filter { column in !key.contains { $0.lowercased() == column.lowercased() } }
        let action =
            updated.isEmpty
            ? "NOTHING"
            : "UPDATE SET " + updated.map { "\(quoted($0)) = excluded.\(quoted($0))" }.joined(separator: ", ")
        try db.executeOnMovingTables(
            sql: "INSERT INTO \(quoted(table))(\(list(columns))) "
                + "VALUES (\(columns.map { _ in "?" }.joined(separator: ", "))) ON CONFLICT(\(list(key))) DO \(action)",
            arguments: columns.map { values[$0] }
        )
    }
}
