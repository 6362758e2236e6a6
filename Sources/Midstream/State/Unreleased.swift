internal import SQLiteConnection

/// Moves that have ended while their source's file was not there: by them the next `addMigration` retires it, where the claim alone
/// would say that the target was replaced.
///
/// `Docs/FileFormat.md` describes the table. It is there as long as it has rows.
struct Unreleased {
    static let table = "midstream_unreleased"
    let connection: Connection

    /// In the transaction that ends the move.
    func note(_ record: TableRecord) throws {
        try connection.execute(
            "CREATE TABLE IF NOT EXISTS main.\(Self.table)(id INTEGER PRIMARY KEY, moved INTEGER NOT NULL)"
        )
        try connection.execute(
            "INSERT OR REPLACE INTO main.\(Self.table)(id, moved) VALUES (?, ?)",
            [record.id, record.copied + record.settled]
        )
    }

    /// The rows that have moved, of a move that is noted.
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
