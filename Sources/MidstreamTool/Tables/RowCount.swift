internal import Midstream
internal import SQLText
internal import SQLiteConnection

extension MigrationProgress.Table {
    /// The rows that belong: as a step has counted them, or as the source tells now; `nil` when it cannot be read.
    ///
    /// - Complexity: O(rows) before a step has counted, then O(1).
    func countedRows(target: String, keys: FileKeys) -> Int64? {
        if let totalRows { return totalRows }
        let options = OpenOptions(access: .readOnly, key: sourcePath == nil ? keys.target : keys.source)
        guard let connection = try? Connection(path: sourcePath ?? target, options: options) else { return nil }
        defer { connection.close() }
        connection.setBusyTimeout(milliseconds: 5000)
        // The condition on a line of its own, so that no comment in it reaches what follows.
        let condition = condition.map { " WHERE (\($0)\n)" } ?? ""
        return try? connection.fetchValue("SELECT count(*) FROM main.\(SQLIdentifier.quoted(sourceTable))\(condition)")
    }
}
