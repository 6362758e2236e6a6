import GRDB

extension MutablePersistableRecord {
    /// Inserts the record, or updates the row that it collides with, also while its table moves.
    ///
    ///     try player.upsertThroughOverlay(db)
    ///
    /// As GRDB's `upsert` does, this updates all columns but the primary key's and those of the conflict target. Unlike it, this calls
    /// none of the record's callbacks, such as `didInsert`, and returns no row.
    ///
    /// - Parameter conflictTarget: The columns of the unique key that may collide; any key if it is empty.
    /// - Throws: The errors of ``GRDB/Database/executeThroughOverlay(sql:arguments:)``.
    public func upsertThroughOverlay(_ db: GRDB.Database, onConflict conflictTarget: [String] = []) throws {
        let table = Self.databaseTableName
        let values = try databaseDictionary
        let columns = values.keys.sorted()
        let kept = Set(try (db.primaryKey(table).columns + conflictTarget).map { $0.lowercased() })
        let updates = columns.filter { !kept.contains($0.lowercased()) }.map {
            "\(quoted($0)) = excluded.\(quoted($0))"
        }
        let target = conflictTarget.isEmpty ? "" : "(\(conflictTarget.map(quoted).joined(separator: ", "))) "
        try db.executeThroughOverlay(
            sql: "INSERT INTO \(quoted(table))(\(columns.map(quoted).joined(separator: ", "))) "
                + "VALUES (\(columns.map { _ in "?" }.joined(separator: ", "))) ON CONFLICT \(target)"
                + (updates.isEmpty ? "DO NOTHING" : "DO UPDATE SET \(updates.joined(separator: ", "))"),
            arguments: columns.map { values[$0] }
        )
    }
}
