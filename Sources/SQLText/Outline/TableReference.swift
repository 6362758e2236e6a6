/// A place where a statement names a table.
public struct TableReference: Hashable, Sendable {
    /// The kinds of places.
    public enum Context: Hashable, Sendable {
        /// In a FROM.
        case from
        /// `x IN T`.
        case inOperator
        /// The table that INSERT, UPDATE or DELETE writes to.
        case target
    }

    /// The name as written.
    public let name: ObjectName
    /// The alias without quotes.
    public let alias: String?
    /// `INDEXED BY i` or `NOT INDEXED`.
    public let indexedBy: Range<Int>?
    /// The scope that the name is in: an index into `StatementOutline.scopes`.
    public let scope: Int
    /// The kind of place.
    public let context: Context
    /// Whether arguments follow the name, as in `json_each(x)`.
    public let isTableFunction: Bool
}
