/// The results of a SELECT.
public struct ResultList: Hashable, Sendable {
    /// The text after SELECT, SELECT DISTINCT or SELECT ALL.
    public let range: Range<Int>
    /// The scope of the SELECT: an index into `StatementOutline.scopes`.
    public let scope: Int
    /// The text after the SELECT's FROM; nil without one.
    public let from: Range<Int>?
}
