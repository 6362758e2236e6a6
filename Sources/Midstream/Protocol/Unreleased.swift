internal import SQLText
internal import SQLiteConnection

/// Moves whose sources still have something to be told. Either the move ended or returned while the source's file was not there. Or
/// its beginning was given up while the file was not there, was another one, or may have been claimed by a commit that failed. With
/// this note, the next `addMigration` retires the source or takes the claim back; the claim alone would say that the target was
/// replaced.
///
/// `Docs/FileFormat.md` describes the table. It exists as long as it has rows.
struct Unreleased {
    static let table = OwnNames.unreleased
    /// Stored in place of the number of moved rows for a move that had not begun.
    static let nothing: Int64 = -1
    let connection: Connection

    /// The note of one move.
    struct Note {
        var id: Int64
        /// How many rows have moved, or ``nothing``.
        var moved: Int64
        /// The path of the source, as the target stores it.
        var source: String?
        /// The file that was to be claimed; `nil` if that is not known, or if the file was claimed.
        var file: String?
        /// For a move that has returned: how often it had written the source. `nil` for other moves.
        var writes: Int64?
        /// What was to become of the source's table once its rows had moved; `nil` if that is not known.
        var retirement: SourceRetirement?

        /// Whether a claim is from before all of the move's rows had returned. The claim's file then lacks some of them.
        func isAfter(_ claim: Claims.Claim) -> Bool { writes ?? 0 > claim.undoWrites ?? 0 }
    }

    /// Stores a note. Call it in the transaction that ends the move.
    func note(_ note: Note) throws {
        try connection.execute(
            """
            CREATE TABLE IF NOT EXISTS main.\(Self.table)(
                id INTEGER PRIMARY KEY, moved INTEGER NOT NULL, source TEXT, file TEXT, writes INTEGER, retirement TEXT)
            """
        )
        try connection.execute(
            "INSERT OR REPLACE INTO main.\(Self.table)(id, moved, source, file, writes, retirement) VALUES (?, ?, ?, ?, ?, ?)",
            [note.id, note.moved, note.source, note.file, note.writes, note.retirement?.rawValue]
        )
    }

    func all() throws -> [Note] {
        try connection.readingTransaction {
            guard try exists() else { return [] }
            return try connection.fetchAll(
                "SELECT id, moved, source, file, writes, retirement FROM main.\(Self.table)"
            ).map {
                Note(
                    id: try $0.get(0),
                    moved: try $0.get(1),
                    source: try $0.get(2),
                    file: try $0.get(3),
                    writes: try $0.get(4),
                    retirement: try $0.get(5, as: String?.self).flatMap(SourceRetirement.init)
                )
            }
        }
    }

    /// The notes of moves that were cancelled before they had begun, or have returned, and whose sources may still have a claim.
    func claimed() throws -> [Note] {
        try all().filter { $0.moved == Self.nothing && $0.source != nil }
    }

    func note(of id: Int64) throws -> Note? { try all().first { $0.id == id } }

    private func exists() throws -> Bool { try Self.exists(in: "main", connection) }

    private static func exists(in schema: String, _ connection: Connection) throws -> Bool {
        try StateStore(connection: connection, schema: SQLIdentifier.quoted(schema)).exists(table)
    }

    /// Whether a file must stay because it may have claimed sources of which no row has come. If all rows have moved, or returned,
    /// only a table that was kept depends on the claim.
    static func isNeeded(in schema: String, _ connection: Connection) throws -> Bool {
        guard try exists(in: schema, connection) else { return false }
        return try connection.fetchOne(
            "SELECT 1 FROM \(SQLIdentifier.quoted(schema)).\(table) WHERE moved = \(nothing) AND writes IS NULL LIMIT 1"
        ) != nil
    }

    /// Removes a note, in the open transaction.
    func forget(_ id: Int64) throws {
        // Another process may have removed the table.
        guard try exists() else { return }
        try connection.execute("DELETE FROM main.\(Self.table) WHERE id = ?", [id])
        let isLast = try connection.fetchOne("SELECT 1 FROM main.\(Self.table) LIMIT 1") == nil
        if isLast { try connection.execute("DROP TABLE main.\(Self.table)") }
    }
}
