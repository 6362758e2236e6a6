internal import SQLText
internal import SQLiteConnection

/// Moves that have ended, or returned, while their source's file was not there, and beginnings that were given up while it was not
/// there, was another one, or may have been claimed by a commit that failed: by them the next `addMigration` retires it, or takes
/// the claim back, where the claim alone would say that the target was replaced.
///
/// `Docs/FileFormat.md` describes the table. It is there as long as it has rows.
struct Unreleased {
    static let table = OwnNames.unreleased
    /// What stands in the place of a number of rows for a move that had not begun.
    static let nothing: Int64 = -1
    let connection: Connection

    /// One move that is noted.
    struct Note {
        var id: Int64
        /// The rows that have moved, or ``nothing``.
        var moved: Int64
        /// The path of the source, as the target stores it.
        var source: String?
        /// Which file was to be claimed; `nil` where that is not known, or was.
        var file: String?
        /// How often the source had been written by a move that has returned; `nil` for others.
        var writes: Int64?
        /// What was to become of the source's table when its rows had moved; `nil` where that is not known.
        var retirement: SourceRetirement?

        /// Whether a claim is from before the move's rows had returned: its file lacks some.
        func isAfter(_ claim: Claims.Claim) -> Bool { writes ?? 0 > claim.undoWrites ?? 0 }
    }

    /// In the transaction that ends the move.
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

    /// What was cancelled before it had begun, or has returned, and may be claimed yet.
    func claimed() throws -> [Note] {
        try all().filter { $0.moved == Self.nothing && $0.source != nil }
    }

    func note(of id: Int64) throws -> Note? { try all().first { $0.id == id } }

    private func exists() throws -> Bool { try Self.exists(in: "main", connection) }

    private static func exists(in schema: String, _ connection: Connection) throws -> Bool {
        try StateStore(connection: connection, schema: SQLIdentifier.quoted(schema)).exists(table)
    }

    /// Whether a file is needed by sources that it may have claimed, of which no row has come. Where all have moved, or returned,
    /// nothing hangs by the claim but a table that was kept.
    static func isNeeded(in schema: String, _ connection: Connection) throws -> Bool {
        guard try exists(in: schema, connection) else { return false }
        return try connection.fetchOne(
            "SELECT 1 FROM \(SQLIdentifier.quoted(schema)).\(table) WHERE moved = \(nothing) AND writes IS NULL LIMIT 1"
        ) != nil
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
