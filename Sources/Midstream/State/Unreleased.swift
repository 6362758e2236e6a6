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
    ///
    /// - Parameter source: The path of the source, as the target stores it.
    func note(_ id: Int64, moved: Int64, of source: String?) throws {
        try connection.execute(
            "CREATE TABLE IF NOT EXISTS main.\(Self.table)(id INTEGER PRIMARY KEY, moved INTEGER NOT NULL, source TEXT)"
        )
        try connection.execute(
            "INSERT OR REPLACE INTO main.\(Self.table)(id, moved, source) VALUES (?, ?, ?)",
            [id, moved, source]
        )
    }

    /// One move that is noted.
    struct Note {
        var id: Int64
        /// The rows that have moved, or ``nothing``.
        var moved: Int64
        /// The path of the source, as the target stores it.
        var source: String?
    }

    func all() throws -> [Note] {
        try connection.readingTransaction {
            guard try exists() else { return [] }
            return try connection.fetchAll("SELECT id, moved, source FROM main.\(Self.table)")
                .map { Note(id: try $0.get(0), moved: try $0.get(1), source: try $0.get(2)) }
        }
    }

    /// What was cancelled before it had begun, and the paths of the sources.
    func unbegun() throws -> [(id: Int64, source: String)] {
        try all().compactMap { note in
            note.moved == Self.nothing ? note.source.map { (note.id, $0) } : nil
        }
    }

    /// The rows that have moved, of a move that is noted, or ``nothing``.
    func moved(_ id: Int64) throws -> Int64? {
        try connection.readingTransaction {
            guard try exists() else { return nil }
            return try connection.fetchValue("SELECT moved FROM main.\(Self.table) WHERE id = ?", [id])
        }
    }

    private func exists() throws -> Bool {
        try connection.fetchOne("SELECT 1 FROM main.sqlite_master WHERE name = ?", [Self.table]) != nil
    }

    /// In the transaction that is open.
    func forget(_ id: Int64) throws {
        // Another process may have done so.
        guard try exists() else { return }
        try connection.execute("DELETE FROM main.\(Self.table) WHERE id = ?", [id])
        let isLast = try connection.fetchOne("SELECT 1 FROM main.\(Self.table) LIMIT 1") == nil
        if isLast { try connection.execute("DROP TABLE main.\(Self.table)") }
    }
}
