/// A common table expression.
public struct CommonTable: Hashable, Sendable {
    /// The name without quotes.
    public let name: String
    /// Where the name is.
    public let nameRange: Range<Int>
}
