/// A clause of a statement.
public struct Clause: Hashable, Sendable {
    /// The clause with the keyword that starts it.
    public let range: Range<Int>
    /// The clause without the keyword.
    public let body: Range<Int>
}
