internal import SQLText

/// The parts of a CREATE INDEX that say what is indexed.
struct IndexTerms {
    var isUnique = false
    /// The indexed terms, without ASC and DESC.
    var terms: [String] = []
    var condition: String?
    /// All from the parenthesis on, as words.
    var text = ""

    init(_ createIndex: String) {
        let bytes = Array(createIndex.utf8)
        let tokens = SQLTokenizer(createIndex).filter { !$0.isTrivia && $0.kind != .semicolon }
        func word(_ token: Token) -> String { String(decoding: bytes[token.range], as: UTF8.self) }
        func lowered(_ token: Token) -> String { SQLIdentifier.lowercased(word(token)) }
        isUnique = tokens.count > 1 && lowered(tokens[1]) == "unique"
        guard let start = tokens.firstIndex(where: { $0.kind == .leftParen }) else { return }
        var depth = 0
        var term: [Token] = []
        func finish() {
            if let last = term.last, last.kind == .identifier, ["asc", "desc"].contains(lowered(last)) {
                term.removeLast()
            }
            // A string alone is the name of a column in CREATE INDEX; elsewhere it is a value.
            let isName = term.count == 1 && term[0].kind == .string
            terms.append(
                isName
                    ? SQLIdentifier.quoted(SQLIdentifier.unquoted(word(term[0])))
                    : term.map(word).joined(separator: " ")
            )
            term = []
        }
        for index in start..<tokens.count {
            let token = tokens[index]
            if token.kind == .leftParen { depth += 1 }
            if token.kind == .rightParen { depth -= 1 }
            if depth == 0 {
                finish()
                let rest = tokens[(index + 1)...].dropFirst()
                if let first = rest.first, let last = rest.last {
                    condition = String(decoding: bytes[first.range.lowerBound..<last.range.upperBound], as: UTF8.self)
                }
                break
            }
            if depth == 1, token.kind == .comma {
                finish()
            } else if index > start {
                term.append(token)
            }
        }
        text = CreateTable.words(String(decoding: bytes[tokens[start].range.lowerBound...], as: UTF8.self))
    }
}
