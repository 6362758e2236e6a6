/// A name in a statement, perhaps with a schema before it: `T`, `main.T`, `"main" . [T]`.
public struct ObjectName: Hashable, Sendable {
    /// The schema without quotes; `nil` if none is written.
    public let schema: String?
    /// The name without quotes.
    public let name: String
    /// Where the schema is, including its quotes.
    public let schemaRange: Range<Int>?
    /// Where the name is, including its quotes.
    public let nameRange: Range<Int>

    /// Where the whole is, from the schema to the name.
    public var range: Range<Int> {
        (schemaRange ?? nameRange).lowerBound..<nameRange.upperBound
    }
}
