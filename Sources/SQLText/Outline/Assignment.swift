/// One `column = value` of an UPDATE's SET.
public struct Assignment: Hashable, Sendable {
    /// The columns without quotes: several where they are in parentheses.
    public let columns: [String]
    /// Where the columns are, with the parentheses.
    public let columnsRange: Range<Int>
    /// Where the value is.
    public let value: Range<Int>

    /// The whole.
    public var range: Range<Int> {
        columnsRange.lowerBound..<value.upperBound
    }
}
