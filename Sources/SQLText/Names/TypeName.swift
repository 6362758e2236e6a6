/// The type that a column is declared with, as SQLite tells it: without the quotes that it may have been written with.
public enum TypeName {
    /// Whether a type means the same where it is written without quotes: words that are names, and perhaps numbers in
    /// parentheses after them.
    public static func isPlain(_ type: String) -> Bool {
        let bytes = SQLBytes(type)
        let tokens = SQLTokenizer(type).filter { !$0.isTrivia }
        let words = tokens.prefix { $0.kind == .identifier }
        let numbers = tokens.dropFirst(words.count)
        guard words.allSatisfy({ KeywordTable.shared.keyword(bytes.storage, $0.range).isAlwaysName }) else {
            return false
        }
        if numbers.isEmpty { return true }
        guard !words.isEmpty, numbers.count > 2, numbers.first?.kind == .leftParen, numbers.last?.kind == .rightParen
        else { return false }
        return numbers.dropFirst().dropLast().enumerated().allSatisfy { offset, token in
            offset.isMultiple(of: 2) ? token.kind == .integer : token.kind == .comma
        } && numbers.count.isMultiple(of: 2) == false
    }

    /// The words of a type, in lower case.
    public static func words(_ type: String) -> [String] {
        let bytes = SQLBytes(type)
        return SQLTokenizer(type).filter { $0.kind == .identifier }.map {
            SQLIdentifier.lowercased(bytes.text($0.range))
        }
    }
}
