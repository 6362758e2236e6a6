/// What looks like the call of a function: a name that an opening parenthesis follows.
public struct FunctionCall: Hashable, Sendable {
    /// The name without quotes, in ASCII lower case.
    public let name: String
    /// Where the name is.
    public let nameRange: Range<Int>
    /// The scope it is in: an index into `StatementOutline.scopes`.
    public let scope: Int
}
