internal import SQLText
internal import SQLiteConnection

/// Keeps VACUUM out of a file while tables move whose rowids are not a column of theirs.
///
/// VACUUM gives the rows of such a table other rowids. Midstream would then take rows that have moved for pending ones. VACUUM
/// creates each table of the file again by the table's CREATE TABLE, and fails if this names a collation that the connection does
/// not have. So Midstream creates a table with such a collation. No other statement needs the collation: the table has no index,
/// and nothing compares the column. If a connection has such a collation nevertheless, or the file was made from a dump, the rowids
/// of this table show it.
///
/// Source: <https://www.sqlite.org/lang_vacuum.html>.
struct KeptRowIDs {
    static let table = OwnNames.keptRowIDs
    /// The table's name in a source's file that is not the target's; it has the ids of claims.
    static let claimed = OwnNames.claimedRowIDs
    /// The name appears in SQLite's message: `no such collation sequence: …`.
    private static let collation = "midstream_moves_rows_of_this_file_and_VACUUM_must_wait"

    let connection: Connection
    /// The schema under which the file is attached.
    var schema = "main"
    var table = Self.table

    private var name: String { "\(schema).\(table)" }

    private func exists() throws -> Bool { try StateStore(connection: connection, schema: schema).exists(table) }

    /// Notes a move, in the open transaction.
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

    /// Removes the note of a move, in the open transaction. Statements of the connection may be running.
    func forget(_ id: Int64) throws {
        guard try exists() else { return }
        try connection.execute("DELETE FROM \(name) WHERE moving = ?", [id])
    }

    /// Drops the table once no move needs it, in the open transaction.
    func dropUnneeded() throws {
        guard try exists(), try connection.fetchOne("SELECT 1 FROM \(name) LIMIT 1") == nil else { return }
        try connection.dropTable(table, in: SQLIdentifier.unquoted(schema))
    }

    /// Lets the connection run VACUUM. Call it when no table moves that VACUUM would harm. Another process may begin such a move
    /// while VACUUM waits for its lock; the watch denies the VACUUM then.
    func allowVacuum() {
        // If the collation is defined already, SQLite cannot replace it while statements run; nor need it be replaced.
        try? connection.createExactCollation(Self.collation)
    }

    /// The moves whose notes still have their rowids: their rows have kept theirs as well.
    func kept() throws -> Set<Int64> {
        guard try exists() else { return [] }
        return Set(try connection.fetchAll("SELECT moving FROM \(name) WHERE rowid = moving").map { try $0.get(0) })
    }

    /// Checks that the rows of a moving table still have their rowids.
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
            "the rowids of table \(table) may have changed while its rows were moving: a program without Midstream "
                + "rebuilt the file, by VACUUM or from a dump. Restore the file as it was before, together with its "
                + "sources",
            table: table
        )
    }
}
