/// One `column = value` of an UPDATE's SET.
public struct Assignment: Hashable, Sendable {
    /// The columns without quotes. There may be several if they are in parentheses.
    public let columns: [String]
    /// Where the columns are, including the parentheses.
    public let columnsRange: Range<Int>
    /// Where the value is.
    public let value: Range<Int>

    /// Where the whole assignment is.
    public var range: Range<Int> {
        columnsRange.lowerBound..<value.upperBound
    }
}
