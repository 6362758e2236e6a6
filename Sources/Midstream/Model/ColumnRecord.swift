/// A stored exception to the rule that a column of the target takes the source's column of its name. Or the name of a column of the
/// source that no column of the target has.
struct ColumnRecord: Hashable, Sendable {
    /// The target's column.
    var name: String
    /// The source's column, or else the expression on the source's columns.
    var origin: Origin

    enum Origin: Hashable, Sendable {
        case column(String)
        case expression(String)
        /// Only the source has the column. If the target were to get a column of that name, rows that have moved would lack the
        /// values that the other rows have.
        case left
    }

    /// Marks a move that was joined from two: the columns that each of the two moves was asked for are no longer known. No column
    /// of the target has this name.
    static let joined = ColumnRecord(name: "", origin: .left)
}
