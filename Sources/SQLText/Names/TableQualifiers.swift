/// Finds a table's name where it stands before a column.
public enum TableQualifiers {
    /// Where `T.` and `schema.T.` are in an expression, from an offset on. The ranges include the dots.
    ///
    /// - Complexity: O(n) in the bytes of the text.
    public static func ranges(of table: String, in text: String, from offset: Int = 0) -> [Range<Int>] {
        let bytes = Array(text.utf8)
        let tokens = SQLTokenizer(text).filter { !$0.isTrivia && $0.range.lowerBound >= offset }
        return tokens.indices.compactMap { index in
            guard index + 1 < tokens.count, tokens[index + 1].kind == .dot,
                [.identifier, .quotedIdentifier].contains(tokens[index].kind),
                SQLIdentifier.equal(
                    SQLIdentifier.unquoted(String(decoding: bytes[tokens[index].range], as: UTF8.self)),
                    table
                )
            else { return nil }
            let hasSchema = index > 1 && tokens[index - 1].kind == .dot
            return tokens[hasSchema ? index - 2 : index].range.lowerBound..<tokens[index + 1].range.upperBound
        }
    }
}
