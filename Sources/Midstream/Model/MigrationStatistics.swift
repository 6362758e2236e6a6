/// Counts of the statements that could not be run on a moving table. Such a statement either had all pending rows of the table
/// moved first, or failed.
///
/// All other statements read both sides, or promoted the rows that they affect. A ``Database`` counts from the moment it was
/// opened.
public struct MigrationStatistics: Sendable, Hashable {
    /// What in a statement needs all rows of a table in one place.
    public enum Reason: String, Sendable, Hashable, CaseIterable {
        /// An enforced foreign key connects what the statement writes to the table, and the table's rows cannot be promoted one by
        /// one.
        case foreignKey
        /// `PRAGMA foreign_key_check`.
        case foreignKeyCheck
        /// The program of a trigger or a view, or a virtual table of the application, reads or writes the table.
        case program
        /// The connection has a TEMP trigger on the table, or on a view of it.
        case temporaryTrigger
        /// The connection has a TEMP table or view with the name of the table, or of a view that reads the table.
        case temporaryTable
        /// The definition of the table, its indexes or its triggers changes.
        case schemaChange
        /// A table-valued function such as `pragma_table_info` may describe the table, and its argument is not an expression of its
        /// own.
        case tableDescription
        /// VACUUM.
        case vacuum
        /// The rows of an UPDATE or DELETE can be chosen only once, as with LIMIT or `random()`; and the statement has a FROM, or
        /// the table has triggers that may show the order of the rows.
        case chosenRows
        /// An INSERT of several rows asks for `changes()` or `last_insert_rowid()`; or it is an upsert or REPLACE, and reads a table that
        /// an enforced foreign key connects with its own.
        case earlierRows
        /// The table has a unique index with which a new row could collide, and which is partial, or has an expression or a
        /// generated column.
        case otherKeys
        /// A subquery of RETURNING reads a moving table.
        case returning
        /// A value does not fit the column's type.
        case valueType
        /// Midstream could not read the statement's text completely.
        case unreadText

        /// The construct, for an error's text.
        var construct: String {
            switch self {
            case .foreignKey: "an enforced foreign key"
            case .foreignKeyCheck: "PRAGMA foreign_key_check"
            case .program: "a trigger, view or virtual table in use"
            case .temporaryTrigger: "a TEMP trigger"
            case .temporaryTable: "a TEMP table or view of the same name"
            case .schemaChange: "a change of the schema"
            case .tableDescription: "a function that describes a table"
            case .vacuum: "VACUUM"
            case .chosenRows: "LIMIT, ORDER BY or a function whose value may change, beside FROM or triggers"
            case .earlierRows:
                "changes() or last_insert_rowid() in an INSERT of several rows, or an upsert or REPLACE of several rows that reads what its foreign keys change,"
            case .otherKeys: "a unique index that is partial, or of an expression or a generated column"
            case .returning: "a subquery in RETURNING"
            case .valueType: "a value that does not fit the column's type"
            case .unreadText: "a text that cannot be read completely"
            }
        }
    }

    /// How many statements had all pending rows of a table moved at once, by the table's name and by the reason.
    public internal(set) var drained: [String: [Reason: Int]] = [:]
    /// How many statements failed with ``MigrationError/Code/refusedStatement``, by the reason.
    public internal(set) var refused: [Reason: Int] = [:]

    /// How many statements had all pending rows of `table` moved at once.
    public func drains(of table: String) -> Int {
        drained[table]?.values.reduce(0, +) ?? 0
    }

    /// How many statements failed because they could not be run exactly.
    public var refusals: Int { refused.values.reduce(0, +) }
}
