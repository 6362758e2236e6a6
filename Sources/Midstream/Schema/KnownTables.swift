internal import SQLiteConnection
internal import Synchronization

/// The descriptions of tables that connections have read, so that the next connection need not ask SQLite for each table.
///
/// A description depends only on the texts that `sqlite_master` has of the table and its indexes. So it is looked up by those
/// texts.
final class KnownTables: Sendable {
    /// The texts that `sqlite_master` has of a table and its indexes.
    struct Texts: Hashable, Sendable {
        var name: ExactString
        var sql: ExactString?
        var indexes: [Index] = []

        struct Index: Hashable, Sendable {
            var name: ExactString
            /// `nil` if SQLite has made the index for a constraint.
            var sql: ExactString?
        }
    }

    /// Limits the memory that descriptions of former schemas take; schemas seldom change. A thousand moving tables have two
    /// thousand descriptions.
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
