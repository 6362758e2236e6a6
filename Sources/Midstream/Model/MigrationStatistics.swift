/// The statements that could not see through to a moving table, and so had all that was left of it moved first or failed.
///
/// All others read both sides, or promoted the rows that they meant. The counts are of one ``Database`` since it was
/// opened.
public struct MigrationStatistics: Sendable, Hashable {
    /// What of a statement needs all rows of a table in one place.
    public enum Reason: String, Sendable, Hashable, CaseIterable {
        /// A foreign key that is enforced ties what is written to the table, and its rows cannot be promoted one by one.
        case foreignKey
        /// `PRAGMA foreign_key_check`.
        case foreignKeyCheck
        /// The program of a trigger or a view, or a virtual table of the application, reads or writes the table.
        case program
        /// The connection has a TEMP trigger on the table, or on a view of it.
        case temporaryTrigger
        /// The connection has a TEMP table or view of the table's name, or of that of a view of it.
        case temporaryTable
        /// The definition of the table, its indexes or its triggers changes.
        case schemaChange
        /// A table-valued function such as `pragma_table_info` may describe the table, by an argument that is no expression
        /// of its own.
        case tableDescription
        /// VACUUM.
        case vacuum
        /// The rows that an UPDATE or DELETE means can be found but once, as with LIMIT or `random()`, and it has a FROM,
        /// or the table has triggers that may tell in which order they come.
        case chosenRows
        /// An INSERT of several rows asks for `changes()` or `last_insert_rowid()`.
        case earlierRows
        /// The table has a unique index of an expression, of generated columns or of a part of its rows, which a new row
        /// could collide by.
        case otherKeys
        /// A subquery of RETURNING reads a moving table.
        case returning
        /// A value does not fit the column's type.
        case valueType
        /// The text could not be read completely.
        case unreadText

        /// The construct, for an error's text.
        var construct: String {
            switch self {
            case .foreignKey: "an enforced foreign key"
            case .foreignKeyCheck: "PRAGMA foreign_key_check"
            case .program: "a trigger, view or virtual table that it uses"
            case .temporaryTrigger: "a TEMP trigger"
            case .temporaryTable: "a TEMP table or view that has its name"
            case .schemaChange: "a change of the schema"
            case .tableDescription: "a function that describes a table"
            case .vacuum: "VACUUM"
            case .chosenRows: "LIMIT, ORDER BY or a function whose value may change, beside FROM or triggers"
            case .earlierRows: "changes() or last_insert_rowid() in an INSERT of several rows"
            case .otherKeys: "a unique index that is partial, or of an expression or a generated column"
            case .returning: "a subquery in RETURNING"
            case .valueType: "a value that does not fit the column's type"
            case .unreadText: "a text that cannot be read completely"
            }
        }
    }

    /// How many statements had the rest of a table moved at once, by the table's name and by reason.
    public internal(set) var drained: [String: [Reason: Int]] = [:]
    /// How many statements failed with ``MigrationError/Code/refusedStatement``, by reason.
    public internal(set) var refused: [Reason: Int] = [:]

    /// How many statements had the rest of that table moved at once.
    public func drains(of table: String) -> Int {
        drained[table]?.values.reduce(0, +) ?? 0
    }

    /// How many statements failed since they could not be run exactly.
    public var refusals: Int { refused.values.reduce(0, +) }
}
