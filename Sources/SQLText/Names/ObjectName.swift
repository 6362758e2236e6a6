/// A name in a statement, perhaps with a schema before it: `T`, `main.T`, `"main" . [T]`.
public struct ObjectName: Hashable, Sendable {
    /// The schema without quotes, where one is written.
    public let schema: String?
    /// The name without quotes.
    public let name: String
    /// Where the schema is, quotes included.
    public let schemaRange: Range<Int>?
    /// Where the name is, quotes included.
    public let nameRange: Range<Int>

    /// Where the whole is, schema through name.
    public var range: Range<Int> {
        (schemaRange ?? nameRange).lowerBound..<nameRange.upperBound
    }
}
