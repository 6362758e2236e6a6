internal import SQLiteConnection

/// Moves that have ended, or were cancelled before they had begun, while their source's file was not there: by them the next
/// `addMigration` retires it, or takes the claim back, where the claim alone would say that the target was replaced.
///
/// `Docs/FileFormat.md` describes the table. It is there as long as it has rows.
struct Unreleased {
    static let table = "midstream_unreleased"
    /// What stands in the place of a number of rows for a move that had not begun.
    static let nothing: Int64 = -1
    let connection: Connection

    /// In the transaction that ends the move.
    func note(_ id: Int64, moved: Int64) throws {
        try connection.execute(
            "CREATE TABLE IF NOT EXISTS main.\(Self.table)(id INTEGER PRIMARY KEY, moved INTEGER NOT NULL)"
        )
        try connection.execute(
            "INSERT OR REPLACE INTO main.\(Self.table)(id, moved) VALUES (?, ?)",
            [id, moved]
        )
    }

    /// The rows that have moved, of a move that is noted, or ``nothing``.
    func moved(_ id: Int64) throws -> Int64? {
        do {
            return try connection.fetchValue("SELECT moved FROM main.\(Self.table) WHERE id = ?", [id])
        } catch {
            guard error.isMissingTable else { throw error }
            return nil
        }
    }

    func forget(_ id: Int64) throws {
        try connection.execute("DELETE FROM main.\(Self.table) WHERE id = ?", [id])
        let isLast = try connection.fetchOne("SELECT 1 FROM main.\(Self.table) LIMIT 1") == nil
        if isLast { try connection.execute("DROP TABLE main.\(Self.table)") }
    }
}
