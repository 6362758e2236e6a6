internal import SQLText

/// What an expression on a row has that may give another value at another time, or on another connection, although SQLite
/// would have it in an index.
struct ConnectionTerms {
    /// Whether it may ask for the time or its zone. In an index SQLite refuses that only when a row comes to it.
    let hasTime: Bool
    /// Whether it has LIKE, which `PRAGMA case_sensitive_like` changes on its connection alone.
    let hasLike: Bool

    static let timeFunctions: Set = ["date", "time", "datetime", "julianday", "unixepoch", "strftime", "timediff"]
    private static let presentTime: Set = ["current_date", "current_time", "current_timestamp"]
    /// What functions of dates take for the present, and for what depends on the zone.
    private static let presentWords: Set = ["now", "localtime", "utc", "subsec", "subsecond"]

    init(_ text: String, of source: TableSchema) {
        let words = Words(text, source)
        hasLike = words.tokens.indices.contains { words.isKeyword("like", at: $0) }
        hasTime = words.tokens.indices.contains { index in
            if words.tokens[index].kind == .identifier, Self.presentTime.contains(words.name(at: index)) { return true }
            return words.isCall(at: index) && Self.timeFunctions.contains(words.name(at: index))
                && !words.hasFixedTime(at: index)
        }
    }

    private struct Words {
        let tokens: [Token]
        private let bytes: [UInt8]
        private let source: TableSchema

        init(_ text: String, _ source: TableSchema) {
            tokens = SQLTokenizer(text).filter { !$0.isTrivia }
            bytes = Array(text.utf8)
            self.source = source
        }

        private func text(at index: Int) -> String { String(decoding: bytes[tokens[index].range], as: UTF8.self) }

        private func kind(at index: Int) -> TokenKind? { tokens.indices.contains(index) ? tokens[index].kind : nil }

        /// The name or text that a token stands for, in lower case.
        func name(at index: Int) -> String { SQLIdentifier.lowercased(SQLIdentifier.unquoted(text(at: index))) }

        func isCall(at index: Int) -> Bool {
            (tokens[index].kind == .identifier || tokens[index].kind == .quotedIdentifier)
                && kind(at: index + 1) == .leftParen
        }

        /// Whether a word is that operator or function, and no column.
        func isKeyword(_ word: String, at index: Int) -> Bool {
            let isWord = tokens[index].kind == .identifier || tokens[index].kind == .quotedIdentifier
            guard isWord, name(at: index) == word, index == 0 || tokens[index - 1].kind != .dot else { return false }
            return tokens[index].kind == .identifier || isCall(at: index)
        }

        /// Whether what a function of dates is given cannot be the present: columns and numbers, what is computed of these,
        /// and texts that say another time. Of what is put together nobody knows what it says.
        func hasFixedTime(at function: Int) -> Bool {
            var depth = 0
            var arguments = 0
            for index in (function + 1)..<tokens.count {
                switch tokens[index].kind {
                case .leftParen: depth += 1
                case .rightParen:
                    depth -= 1
                    if depth == 0 { return arguments >= (name(at: function) == "strftime" ? 2 : 1) }
                case .comma:
                    if depth == 1 { arguments += 1 }
                case .integer, .float, .dot: break
                case .operator:
                    guard ["+", "-", "*", "/", "%"].contains(text(at: index)) else { return false }
                case .string:
                    if ConnectionTerms.presentWords.contains(name(at: index)) { return false }
                case .identifier, .quotedIdentifier:
                    if isCall(at: index) { return false }
                    let isColumn = source.columnIndex(name(at: index)) != nil
                    if !isColumn, ConnectionTerms.presentWords.contains(name(at: index)) { return false }
                default: return false
                }
                if depth >= 1, arguments == 0, tokens[index].kind != .leftParen { arguments = 1 }
            }
            return false
        }
    }
}
