/// The declared type of a column, as SQLite tells it: without the quotes that it may have been written with.
public enum TypeName {
    /// Whether a type means the same if it is written without quotes. That is so for words that are names, with one or
    /// two numbers in parentheses after them or without.
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
