extension Outliner {
    /// The kind of the token at an index. After the last token, it is a space, which no token here is.
    @inline(__always)
    func kind(at index: Int) -> TokenKind {
        index < tokens.count ? tokens[index].kind : .space
    }

    @inline(__always)
    func word(at index: Int) -> Keyword {
        index < words.count ? words[index] : .none
    }

    var kind: TokenKind { kind(at: position) }
    var word: Keyword { word(at: position) }
    var isAtEnd: Bool { position >= tokens.count }

    /// Whether the token at an index is an operator of this one byte.
    func isOperator(_ byte: Unicode.Scalar, at index: Int) -> Bool {
        kind(at: index) == .operator && bytes[tokens[index].range.lowerBound] == UInt8(ascii: byte)
    }

    /// Takes the token if it is the expected word.
    func take(_ expected: Keyword) -> Bool {
        guard word == expected else { return false }
        position += 1
        return true
    }

    func take(_ expected: TokenKind) -> Bool {
        guard kind == expected else { return false }
        position += 1
        return true
    }

    func expect(_ expected: Keyword) throws(Unknown) {
        guard take(expected) else { throw Unknown() }
    }

    func expect(_ expected: TokenKind) throws(Unknown) {
        guard take(expected) else { throw Unknown() }
    }

    /// The range from the token at `start` through the last token taken.
    func range(from start: Int) -> Range<Int>? {
        start < position ? tokens[start].range.lowerBound..<tokens[position - 1].range.upperBound : nil
    }

    /// The range as of `range(from:)`; an empty range is an error.
    func someRange(from start: Int) throws(Unknown) -> Range<Int> {
        guard let range = range(from: start) else { throw Unknown() }
        return range
    }

    func newScope(in parent: Int) -> Int {
        scopes.append(Scope(parent: parent))
        return scopes.count - 1
    }
}
