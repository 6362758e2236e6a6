/// A parameter in a statement.
public struct Parameter: Hashable, Sendable {
    /// Where it is.
    public let range: Range<Int>
    /// The index at which the parameter is bound, from 1, as SQLite numbers it.
    public let index: Int
    /// The parameter as written, such as `:a` or `?7`; nil for a plain `?`.
    public let name: String?
}
