internal import SQLText
internal import SQLiteConnection

/// Keeps VACUUM out of a file while tables move whose rowids are no column's.
///
/// VACUUM gives the rows of such a table other rowids, by which the engine would take rows that have moved for pending ones. It
/// makes each table of the file anew by the table's CREATE TABLE, and fails where one names a collation that the connection
/// does not have. No other statement needs the collation: the table has no index, and nothing compares the column. Where a
/// connection has such a collation all the same, or the file was made anew from a dump, the rowids of this very table tell.
///
/// Source: <https://www.sqlite.org/lang_vacuum.html>.
struct KeptRowIDs {
    static let table = OwnNames.keptRowIDs
    /// The same in the file of a source that is another file, by claim.
    static let claimed = OwnNames.claimedRowIDs
    /// It stands in SQLite's message: `no such collation sequence: …`.
    private static let collation = "midstream_moves_rows_of_this_file_and_VACUUM_must_wait"

    let connection: Connection
    /// The schema that the file is attached under.
    var schema = "main"
    var table = Self.table

    private var name: String { "\(schema).\(table)" }

    private func exists() throws -> Bool { try StateStore(connection: connection, schema: schema).exists(table) }

    /// Notes a move, in the transaction that is open.
    func keep(_ id: Int64) throws {
        if try !exists() {
            try connection.createExactCollation(Self.collation)
            try connection.create(
                in: SQLIdentifier.unquoted(schema),
                ["CREATE TABLE \(name)(moving INTEGER NOT NULL, vacuum TEXT COLLATE \(Self.collation))"]
            )
        }
        try connection.execute("INSERT OR REPLACE INTO \(name)(rowid, moving) VALUES (?1, ?1)", [id])
    }

    /// Forgets a move, in the transaction that is open. Statements of the connection may be running.
    func forget(_ id: Int64) throws {
        guard try exists() else { return }
        try connection.execute("DELETE FROM \(name) WHERE moving = ?", [id])
    }

    /// Drops the table once no move needs it, in the transaction that is open.
    func dropUnneeded() throws {
        guard try exists(), try connection.fetchOne("SELECT 1 FROM \(name) LIMIT 1") == nil else { return }
        try connection.dropTable(table, in: SQLIdentifier.unquoted(schema))
    }

    /// Lets the connection run a VACUUM, when no table moves any more that it would harm. Another process may have one begin while the
    /// VACUUM waits for its lock: then the watch denies it.
    func allowVacuum() {
        // Where it is there already, it cannot be replaced while statements run, nor need be.
        try? connection.createExactCollation(Self.collation)
    }

    /// The moves whose rows have the rowids that they had when they were noted.
    func kept() throws -> Set<Int64> {
        guard try exists() else { return [] }
        return Set(try connection.fetchAll("SELECT moving FROM \(name) WHERE rowid = moving").map { try $0.get(0) })
    }

    /// Makes sure that the rows of a table that moves have the rowids that they had.
    func check(_ sql: MoveSQL) throws {
        guard sql.keepsRowIDs else { return }
        let isKept =
            try exists()
            && connection.fetchOne("SELECT 1 FROM \(name) WHERE rowid = ?1 AND moving = ?1", [sql.id]) != nil
        if !isKept { throw Self.isLost(sql.targetName) }
    }

    static func isLost(_ table: String) -> MigrationError {
        MigrationError(
            .foreignState,
            "the rows of table \(table) may have other rowids than they had, and have not all moved: a program without "
                + "Midstream has made the file anew, by VACUUM or from a dump. Restore the file as it was before, together with "
                + "its sources",
            table: table
        )
    }
}
