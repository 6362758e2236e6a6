internal import SQLText

/// The generated columns of a table, as its CREATE TABLE defines them: SQLite itself tells no more than which they are.
struct GeneratedColumns {
    /// By the columns' names in lower case: the expression and whether it is stored, in tokens one space apart.
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
                if let name = definition.first, let start = Self.expression(in: definition, word) {
                    found[SQLIdentifier.lowercased(SQLIdentifier.unquoted(word(name)))] =
                        definition[start...].map {
                            $0.kind == .identifier ? SQLIdentifier.lowercased(word($0)) : word($0)
                        }
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

    /// Where the AS of `AS (…)` stands among a column definition's tokens.
    private static func expression(in definition: [Token], _ word: (Token) -> String) -> Int? {
        var depth = 0
        for (position, token) in definition.enumerated() {
            if depth == 0, position > 0, position + 1 < definition.count, token.kind == .identifier,
                SQLIdentifier.equal(word(token), "as"), definition[position + 1].kind == .leftParen
            {
                return position
            }
            if token.kind == .leftParen { depth += 1 }
            if token.kind == .rightParen { depth -= 1 }
        }
        return nil
    }
}
