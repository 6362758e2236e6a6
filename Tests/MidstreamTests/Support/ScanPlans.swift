import SQLiteConnection

@testable import Midstream

/// How SQLite carries out a query of a moving table.
struct ScanPlans {
    /// The query's own plan: what SQLite does with the rows that the union table gives.
    let query: String
    /// How each side is read: the plans of the statements that run while the query gives its first row.
    let sides: [String]

    init(of sql: String, _ arguments: Arguments = [], in database: Database) throws {
        (query, sides) = try database.withoutTransaction { access in
            var running: [String] = []
            try access.forEachRow(sql, arguments) { _ in
                running = access.connection.runningStatements().compactMap(\.sql)
                return false
            }
            let sides = try running.filter { $0 != sql && $0.hasPrefix("SELECT ") }.map { side in
                let statement = try access.overlay.statements.prepare("EXPLAIN QUERY PLAN " + side)
                var details: [String] = []
                while try statement.step() { details.append(statement.text(at: 3)) }
                return details.joined(separator: "; ")
            }
            let details = try access.fetchAll("EXPLAIN QUERY PLAN " + sql).map { try $0.get(3, as: String.self) }
            return (details.joined(separator: "; "), sides)
        }
    }
}
