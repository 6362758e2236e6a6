internal import SQLText

/// The generated columns of a table, as its CREATE TABLE defines them: SQLite itself tells no more than which they are.
struct GeneratedColumns {
    /// The expressions by the columns' names in lower case, in tokens one space apart.
    let expressions: [String: String]

    init(createTable sql: String) {
        let bytes = Array(sql.utf8)
        let tokens = SQLTokenizer(sql).filter { !$0.isTrivia }
        var found: [String: String] = [:]
        guard let open = tokens.firstIndex(where: { $0.kind == .leftParen }) else {
            expressions = [:]
            return
        }
        func word(_ token: Token) -> String { String(decoding: bytes[token.range], as: UTF8.self) }
        var depth = 0
        var definition: [Token] = []
        for token in tokens[(open + 1)...] {
            let isEnd = depth == 0 && (token.kind == .comma || token.kind == .rightParen)
            if isEnd {
                if let name = definition.first, let expression = Self.expression(in: definition, word) {
                    found[SQLIdentifier.lowercased(SQLIdentifier.unquoted(word(name)))] =
                        expression.map { $0.kind == .identifier ? SQLIdentifier.lowercased(word($0)) : word($0) }
                        .joined(separator: " ")
                }
                definition = []
                if token.kind == .rightParen { break }
                continue
            }
            if token.kind == .leftParen { depth += 1 }
            if token.kind == .rightParen { depth -= 1 }
            definition.append(token)
        }
        expressions = found
    }

    /// The tokens of the parentheses of `AS (…)` in a column's definition.
    private static func expression(in definition: [Token], _ word: (Token) -> String) -> ArraySlice<Token>? {
        var depth = 0
        var start: Int?
        for (position, token) in definition.enumerated() {
            if depth == 0, start == nil, position > 0, token.kind == .identifier, SQLIdentifier.equal(word(token), "as")
            {
                start = position + 1
            }
            if token.kind == .leftParen { depth += 1 }
            if token.kind == .rightParen { depth -= 1 }
            if depth == 0, token.kind == .rightParen, let start, position > start {
                return definition[start...position]
            }
        }
        return nil
    }
}
