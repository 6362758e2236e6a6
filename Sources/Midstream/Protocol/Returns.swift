internal import SQLiteConnection

/// For each returning table: how often its source had been written when the target last forgot rows that the source has.
///
/// `Docs/FileFormat.md` describes the table.
struct Returns {
    static let table = OwnNames.returns
    let connection: Connection

    func create() throws {
        try connection.execute(
            "CREATE TABLE IF NOT EXISTS main.\(Self.table)("
                + "id INTEGER PRIMARY KEY, writes INTEGER NOT NULL DEFAULT 0, file TEXT)"
        )
    }

    /// The number of writes that is stored; 0 while the target has forgotten no row.
    func writes(of record: TableRecord) throws -> Int64 {
        guard record.isReturning else { return 0 }
        do {
            return try connection.fetchValue("SELECT writes FROM main.\(Self.table) WHERE id = ?", [record.id]) ?? 0
        } catch {
            guard error.isMissingTable else { throw error }
            return 0
        }
    }

    /// Notes the source's file once all rows have returned to it.
    func note(file: String?, of record: TableRecord) throws {
        try connection.execute("INSERT OR IGNORE INTO main.\(Self.table)(id) VALUES (?)", [record.id])
        try connection.execute("UPDATE main.\(Self.table) SET file = ? WHERE id = ?", [file, record.id])
    }

    /// The noted file; `nil` if none is noted.
    func file(of record: TableRecord) throws -> String? {
        try connection.holdingSnapshots(of: ["main"]) {
            guard try StateStore(connection: connection).exists(Self.table) else { return nil }
            return try connection.fetchValue("SELECT file FROM main.\(Self.table) WHERE id = ?", [record.id])
        }
    }

    func note(_ writes: Int64, of record: TableRecord) throws {
        try connection.execute(
            "INSERT OR REPLACE INTO main.\(Self.table)(id, writes) VALUES (?, ?)",
            [record.id, writes]
        )
    }
}
