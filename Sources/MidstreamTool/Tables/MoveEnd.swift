internal import Midstream
internal import SQLiteConnection

extension MigrationProgress.Table {
    /// Whether a move that the target no longer knows has come to its end, and was not cancelled. The source tells.
    ///
    /// - Throws: ``/SQLiteConnection/SQLiteError`` if the source cannot be read.
    func hasMoved(target: String, keys: FileKeys) throws -> Bool {
        // Another file has taken the move over.
        if movesOnTo != nil { return true }
        // A source's file may be deleted when all of it has moved.
        if let sourcePath, !Files.exists(sourcePath) { return true }
        let options = OpenOptions(access: .readOnly, key: sourcePath == nil ? keys.target : keys.source)
        let connection = try Connection(path: sourcePath ?? target, options: options)
        defer { connection.close() }
        connection.setBusyTimeout(milliseconds: 5000)
        return try sourcePath == nil ? isGoneOrFenced(connection) : isReleased(connection)
    }

    /// Whether the source has a claim of the move which says that the rows have moved.
    private func isReleased(_ source: Connection) throws -> Bool {
        let hasClaims = try source.fetchOne(
            "SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = 'midstream_claims'"
        )
        guard hasClaims != nil else { return false }
        let claim = try source.fetchOne(
            "SELECT 1 FROM main.midstream_claims WHERE source_table = ?1 COLLATE NOCASE AND condition IS ?2 AND moved IS NOT NULL",
            [sourceTable, condition]
        )
        return claim != nil
    }

    /// Whether a source table in the target's own file is gone or fenced. It is dropped when all its rows have moved,
    /// or it keeps a fence that names the target's table.
    private func isGoneOrFenced(_ connection: Connection) throws -> Bool {
        let objects = try connection.fetchAll(
            "SELECT type, sql FROM main.sqlite_master WHERE type = 'table' AND name = ?1 COLLATE NOCASE OR type = 'trigger' "
                + "AND tbl_name = ?1 COLLATE NOCASE AND name LIKE 'midstream\\_fence\\_insert\\_%' ESCAPE '\\'",
            [sourceTable]
        )
        let fences = try objects.filter { $0[0] == .text("trigger") }.map { try $0.get(1, as: String.self) }
        let isThere = objects.contains { $0[0] == .text("table") }
        let literal = "'" + name.replacing("'", with: "''") + "'"
        return !isThere || fences.contains { $0.contains(literal) }
    }
}
