internal import SQLText

/// The tokens of a statement, without comments: for what its outline does not tell.
struct StatementWords {
    let tokens: [Token]
    private let bytes: [UInt8]

    init(_ outline: StatementOutline) {
        let text = outline.text(outline.range)
        bytes = Array(text.utf8)
        tokens = SQLTokenizer(text).filter { !$0.isTrivia }
    }

    /// A token in lower case; nothing behind the last one.
    subscript(_ index: Int) -> String {
        tokens.indices.contains(index) ? SQLIdentifier.lowercased(text(index...index)) : ""
    }

    /// The text from one token to another, as it is written.
    func text(_ range: ClosedRange<Int>) -> String {
        String(
            decoding: bytes[tokens[range.lowerBound].range.lowerBound..<tokens[range.upperBound].range.upperBound],
            as: UTF8.self
        )
    }
}
