internal import SQLiteConnection

/// How SQLite evaluates a subquery of RETURNING that reads the table which is written.
///
/// Newer versions evaluate it for each row, and older ones once. They know it by the table, and so not in a redirected
/// statement, whose subqueries read the union table.
enum ReturningQueries {
    /// Whether the linked SQLite evaluates it for each row.
    static let areEvaluatedForEachRow: Bool = {
        guard let connection = try? Connection(path: ":memory:") else { return true }
        defer { connection.close() }
        do {
            try connection.execute("CREATE TABLE t(a)")
            try connection.execute("INSERT INTO t VALUES (1), (2)")
            let rows = try connection.fetchAll("DELETE FROM t RETURNING (SELECT count(*) FROM t)")
            return Set(rows.map { $0[0] }).count > 1
        } catch {
            // It has no RETURNING.
            return false
        }
    }()
}
