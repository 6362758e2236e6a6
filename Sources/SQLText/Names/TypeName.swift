/// The type that a column is declared with, as SQLite tells it: without the quotes that it may have been written with.
public enum TypeName {
    /// Whether a type means the same where it is written without quotes: words that are names, and perhaps one or two numbers
    /// in parentheses after them.
    public static func isPlain(_ type: String) -> Bool {
        let bytes = SQLBytes(type)
        let tokens = SQLTokenizer(type).filter { $0.kind != .space }
        let words = tokens.prefix { $0.kind == .identifier }
        let rest = tokens.dropFirst(words.count).map(\.kind)
        return words.allSatisfy { KeywordTable.shared.keyword(bytes.storage, $0.range).isAlwaysName }
            && (rest.isEmpty || !words.isEmpty && sizes.contains(rest))
    }

    private static let sizes: [[TokenKind]] = [
        [.leftParen, .integer, .rightParen], [.leftParen, .integer, .comma, .integer, .rightParen],
    ]

    /// The words of a type, in lower case.
    public static func words(_ type: String) -> [String] {
        let bytes = SQLBytes(type)
        return SQLTokenizer(type).filter { $0.kind == .identifier }.map {
            SQLIdentifier.lowercased(bytes.text($0.range))
        }
    }
}
