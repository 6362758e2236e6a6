/// One token of a text.
public struct Token: Hashable, Sendable {
    /// What the token is.
    public let kind: TokenKind
    /// Where the token is: offsets into the UTF-8 of the whole text.
    public let range: Range<Int>

    /// Creates a token.
    public init(kind: TokenKind, range: Range<Int>) {
        self.kind = kind
        self.range = range
    }

    /// Whether SQLite's parser never sees the token.
    @inlinable
    public var isTrivia: Bool {
        kind == .space || kind == .comment
    }
}
