/// The alias of a table.
public struct TableAlias: Hashable, Sendable {
    /// The alias without quotes.
    public let name: String
    /// Where the alias is, without AS.
    public let range: Range<Int>
}
