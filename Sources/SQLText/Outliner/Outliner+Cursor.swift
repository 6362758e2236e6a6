extension Outliner {
    /// The kind of the token at an index; behind the last one, a space, which no token here is.
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

    /// Whether the token is the one-byte operator.
    func isOperator(_ byte: Unicode.Scalar, at index: Int) -> Bool {
        kind(at: index) == .operator && bytes[tokens[index].range.lowerBound] == UInt8(ascii: byte)
    }

    /// Takes the token if it is the word.
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

    /// From the token at `start` through the last one taken.
    func range(from start: Int) -> Range<Int>? {
        start < position ? tokens[start].range.lowerBound..<tokens[position - 1].range.upperBound : nil
    }

    /// As `range(from:)`, where there must be something.
    func someRange(from start: Int) throws(Unknown) -> Range<Int> {
        guard let range = range(from: start) else { throw Unknown() }
        return range
    }

    func newScope(in parent: Int) -> Int {
        scopes.append(Scope(parent: parent))
        return scopes.count - 1
    }
}
