/// What a SELECT gives.
public struct ResultList: Hashable, Sendable {
    /// What follows SELECT, DISTINCT or ALL.
    public let range: Range<Int>
    /// The scope of that SELECT: an index into `StatementOutline.scopes`.
    public let scope: Int
    /// What follows its FROM; nil without one.
    public let from: Range<Int>?
}
