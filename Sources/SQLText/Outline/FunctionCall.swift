/// What looks like the call of a function: a name with an opening parenthesis after it.
public struct FunctionCall: Hashable, Sendable {
    /// The name without quotes, in ASCII lower case.
    public let name: String
    /// Where the name is.
    public let nameRange: Range<Int>
    /// The scope that the call is in: an index into `StatementOutline.scopes`.
    public let scope: Int
}
