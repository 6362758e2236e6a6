internal import SQLiteConnection
internal import Synchronization

/// The descriptions of tables that connections have read before, so that the next one need not ask SQLite for each.
///
/// A description depends on nothing but the texts that `sqlite_master` has of the table and its indexes: it is looked up
/// by those.
final class KnownTables: Sendable {
    /// What `sqlite_master` has of a table.
    struct Texts: Hashable, Sendable {
        var name: ExactString
        var sql: ExactString?
        var indexes: [Index] = []

        struct Index: Hashable, Sendable {
            var name: ExactString
            /// `nil` for one that SQLite has made for a constraint.
            var sql: ExactString?
        }
    }

    /// Schemas change seldom; this bounds what their former states take. Of a thousand tables that move there are two thousand.
    private static let capacity = 5_000

    private let tables = Mutex<[Texts: TableSchema]>([:])

    subscript(_ texts: Texts) -> TableSchema? { tables.withLock { $0[texts] } }

    func note(_ table: TableSchema, _ texts: Texts) {
        tables.withLock { tables in
            if tables.count >= Self.capacity { tables.removeAll() }
            tables[texts] = table
        }
    }
}
