internal import SQLiteConnection

/// How SQLite evaluates a subquery of RETURNING that reads the table being written.
///
/// Newer versions evaluate such a subquery for each row, older ones once. SQLite recognises the subquery by the table that it
/// reads. In a redirected statement SQLite does not, since there the subqueries read the union table.
enum ReturningQueries {
    /// Whether the linked SQLite evaluates such a subquery for each row.
    static let areEvaluatedForEachRow: Bool = {
        guard let connection = try? Connection(path: ":memory:") else { return true }
        defer { connection.close() }
        do {
            try connection.execute("CREATE TABLE t(a)")
            try connection.execute("INSERT INTO t VALUES (1), (2)")
            let rows = try connection.fetchAll("DELETE FROM t RETURNING (SELECT count(*) FROM t)")
            return Set(rows.map { $0[0] }).count > 1
        } catch {
            // This SQLite has no RETURNING.
            return false
        }
    }()
}
