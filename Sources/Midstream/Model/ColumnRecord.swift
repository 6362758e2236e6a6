/// A column of the target that does not simply take the source's column of its name, as stored in the target's file; or the name
/// of one of the source's that no column of the target has.
struct ColumnRecord: Hashable, Sendable {
    /// The target's column.
    var name: String
    /// The source's column, or else the expression on the source's columns.
    var origin: Origin

    enum Origin: Hashable, Sendable {
        case column(String)
        case expression(String)
        /// The source alone has it: were the target to get one, rows that have moved would not have what the others have.
        case left
    }

    /// Marks the columns of two moves that have become one: what each of them was asked for is not known any more. No column of the
    /// target has that name.
    static let joined = ColumnRecord(name: "", origin: .left)
}
