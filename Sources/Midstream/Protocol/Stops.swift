internal import SQLiteConnection

/// The reasons for which tables are stopped, as stored in the target.
///
/// `Docs/FileFormat.md` describes the table.
struct Stops {
    static let table = OwnNames.stops
    let connection: Connection
    /// The schema under which the target is attached.
    var schema = "main"

    /// The reasons, by the tables' ids. The table `midstream_stops` must exist.
    func all() throws -> [Int64: MigrationStop] {
        let rows = try connection.fetchAll("SELECT id, code, message, row FROM \(schema).\(Self.table)")
        return try Dictionary(
            rows.map { row in
                let code = MigrationError.Code(rawValue: try row.get(1)) ?? .sqliteError
                return (try row.get(0), MigrationStop(code: code, message: try row.get(2), row: try row.get(3)))
            }
        ) { $1 }
    }

    /// Notes why a table is stopped, in the open transaction.
    func note(_ stop: MigrationStop, of id: Int64) throws {
        try connection.execute(
            """
            CREATE TABLE IF NOT EXISTS \(schema).\(Self.table)(
                id INTEGER PRIMARY KEY, code TEXT NOT NULL, message TEXT NOT NULL, row TEXT)
            """
        )
        try connection.execute(
            "INSERT OR REPLACE INTO \(schema).\(Self.table)(id, code, message, row) VALUES (?, ?, ?, ?)",
            [id, stop.code.rawValue, stop.message, stop.row]
        )
    }

    /// Removes the reason, in the open transaction.
    func forget(_ id: Int64) throws {
        do {
            try connection.execute("DELETE FROM \(schema).\(Self.table) WHERE id = ?", [id])
        } catch {
            guard error.isMissingTable else { throw error }
        }
    }
}
