internal import Midstream
internal import SQLText
internal import SQLiteConnection

/// Counts the rows of sources. Each file is opened only once, since SQLite reads all of its schema, which may have
/// thousands of tables.
struct RowCount {
    private let target: String
    private let keys: FileKeys
    private var connections: [String?: Connection?] = [:]

    init(target: String, keys: FileKeys) {
        self.target = target
        self.keys = keys
    }

    /// The number of rows that belong to the move, as a step has counted them, or as the source tells now; `nil` if the
    /// source cannot be read.
    ///
    /// - Complexity: O(rows) before a step has counted, then O(1).
    mutating func rows(of table: MigrationProgress.Table) -> Int64? {
        if let totalRows = table.totalRows { return totalRows }
        guard let connection = connection(to: table.sourcePath) else { return nil }
        // The condition is on a line of its own, so that no comment in it reaches what follows.
        let condition = table.condition.map { " WHERE (\($0)\n)" } ?? ""
        let name = SQLIdentifier.quoted(table.sourceTable)
        return try? connection.fetchValue("SELECT count(*) FROM main.\(name)\(condition)")
    }

    private mutating func connection(to source: String?) -> Connection? {
        if let known = connections[source] { return known }
        let options = OpenOptions(access: .readOnly, key: source == nil ? keys.target : keys.source)
        let connection = try? Connection(path: source ?? target, options: options)
        connection?.setBusyTimeout(milliseconds: 5000)
        connections[source] = .some(connection)
        return connection
    }
}
