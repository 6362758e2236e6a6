internal import SQLText

/// The tokens of a statement, without comments, for questions that its outline does not answer.
struct StatementWords {
    let tokens: [Token]
    private let bytes: [UInt8]

    init(_ outline: StatementOutline) {
        let text = outline.text(outline.range)
        bytes = Array(text.utf8)
        tokens = SQLTokenizer(text).filter { !$0.isTrivia }
    }

    /// A token in lower case; empty after the last one.
    subscript(_ index: Int) -> String {
        tokens.indices.contains(index) ? SQLIdentifier.lowercased(text(index...index)) : ""
    }

    /// A token without quotes, as the name is spelled; empty after the last one.
    func name(_ index: Int) -> String {
        tokens.indices.contains(index) ? SQLIdentifier.unquoted(text(index...index)) : ""
    }

    /// Whether anything other than spaces is between two successive tokens.
    func hasComment(between first: Int, and second: Int) -> Bool {
        let between = bytes[tokens[first].range.upperBound..<tokens[second].range.lowerBound]
        return between.contains { ![0x20, 0x09, 0x0a, 0x0c, 0x0d].contains($0) }
    }

    /// The text from one token to another, as it is written.
    func text(_ range: ClosedRange<Int>) -> String {
        String(
            decoding: bytes[tokens[range.lowerBound].range.lowerBound..<tokens[range.upperBound].range.upperBound],
            as: UTF8.self
        )
    }
}
