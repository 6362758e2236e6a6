/// A column named with its table and schema: `main.T.c` or `main.T.*`.
public struct QualifiedReference: Hashable, Sendable {
    /// The schema without quotes.
    public let schema: String
    /// The table without quotes.
    public let table: String
    /// The column without quotes, or `*`.
    public let column: String
    /// Where the schema is.
    public let schemaRange: Range<Int>
    /// Where the table is.
    public let tableRange: Range<Int>
    /// Where the column is.
    public let columnRange: Range<Int>
    /// The scope that the reference is in: an index into `StatementOutline.scopes`.
    public let scope: Int
}
