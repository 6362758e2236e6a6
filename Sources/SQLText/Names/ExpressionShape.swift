/// What the text of an expression tells of its values, without knowledge of the tables.
public enum ExpressionShape {
    private static let textFunctions: Set<String> = [
        "lower", "upper", "trim", "ltrim", "rtrim", "hex", "quote", "printf", "format", "typeof", "char",
    ]

    /// Operators and words that bind less tightly than `||`, or that make the whole expression something else.
    private static let otherWords: Set<String> = [
        "and", "or", "not", "is", "isnull", "notnull", "in", "like", "glob", "match", "regexp", "between", "case",
        "collate", "cast", "exists", "raise", "over", "filter", "select", "null", "distinct", "escape",
    ]

    /// The names that an expression uses, in ASCII lower case: names of columns, functions and anything else.
    public static func names(in expression: String) -> Set<String> {
        Set(writtenNames(in: expression).map(\.name))
    }

    /// The names that may be names of columns, in ASCII lower case. Names of functions, tables, types and collations
    /// are left out, and so are words that cannot be names without quotes.
    public static func columnNames(in expression: String) -> Set<String> {
        let bytes = Array(expression.utf8)
        let tokens = SQLTokenizer(expression).filter { !$0.isTrivia }
        var found: Set<String> = []
        var depth = 0
        // The depth of parentheses at which the type of a CAST stands.
        var typeDepth: Int?
        var openCases = 0
        for (index, token) in tokens.enumerated() {
            switch token.kind {
            case .leftParen: depth += 1
            case .rightParen:
                depth -= 1
                if let type = typeDepth, depth < type { typeDepth = nil }
            case .identifier, .quotedIdentifier:
                let name = name(token, bytes)
                let isWord = token.kind == .identifier
                if isWord, name == "as", typeDepth == nil { typeDepth = depth }
                if isWord, name == "case" { openCases += 1 }
                if isWord, name == "end", openCases > 0 {
                    openCases -= 1
                    continue
                }
                let isOther = index + 1 < tokens.count && [.leftParen, .dot].contains(tokens[index + 1].kind)
                let isCollation = index > 0 && SQLIdentifier.equal(text(tokens[index - 1], bytes), "collate")
                if typeDepth != nil || isOther || isCollation || isWord && reservedWords.contains(name) { continue }
                found.insert(name)
            default: break
            }
        }
        return found
    }

    private static let reservedWords: Set<String> = [
        "and", "as", "between", "case", "collate", "distinct", "else", "escape", "exists", "from", "in", "is", "isnull",
        "not", "notnull", "null", "or", "select", "then", "values", "when", "where",
    ]

    private static func text(_ token: Token, _ bytes: [UInt8]) -> String {
        String(decoding: bytes[token.range], as: UTF8.self)
    }

    private static func name(_ token: Token, _ bytes: [UInt8]) -> String {
        SQLIdentifier.lowercased(SQLIdentifier.unquoted(text(token, bytes)))
    }

    /// The names in an expression, in ASCII lower case, and whether each is in double quotes.
    public static func writtenNames(in expression: String) -> [(name: String, isDoubleQuoted: Bool)] {
        let bytes = Array(expression.utf8)
        return SQLTokenizer(expression).filter { [.identifier, .quotedIdentifier].contains($0.kind) }.map {
            (name($0, bytes), bytes[$0.range.lowerBound] == UInt8(ascii: "\""))
        }
    }

    /// The names in double quotes that can only mean columns: if there is no such column, SQLite takes them for text.
    /// Empty if the expression has a subquery, which may give names of its own.
    ///
    /// Source: <https://www.sqlite.org/quirks.html#double_quoted_string_literals_are_accepted>.
    public static func doubleQuotedNames(in expression: String) -> [String] {
        let bytes = Array(expression.utf8)
        let tokens = SQLTokenizer(expression).filter { !$0.isTrivia }
        func word(_ index: Int) -> String {
            SQLIdentifier.lowercased(String(decoding: bytes[tokens[index].range], as: UTF8.self))
        }
        if tokens.indices.contains(where: { tokens[$0].kind == .identifier && word($0) == "select" }) { return [] }
        return tokens.indices.compactMap { index in
            guard tokens[index].kind == .quotedIdentifier, bytes[tokens[index].range.lowerBound] == UInt8(ascii: "\"")
            else { return nil }
            if index > 0 {
                let before = word(index - 1)
                if before == "." || before == "collate" || before == "as" { return nil }
            }
            if index + 1 < tokens.count, [.dot, .leftParen].contains(tokens[index + 1].kind) { return nil }
            return SQLIdentifier.unquoted(String(decoding: bytes[tokens[index].range], as: UTF8.self))
        }
    }

    /// Whether the expression is NULL and nothing else.
    public static func isNull(_ expression: String) -> Bool {
        let bytes = Array(expression.utf8)
        let words = SQLTokenizer(expression).filter { !$0.isTrivia && ![.leftParen, .rightParen].contains($0.kind) }
        guard words.count == 1, words[0].kind == .identifier else { return false }
        return SQLIdentifier.lowercased(String(decoding: bytes[words[0].range], as: UTF8.self)) == "null"
    }

    /// Whether all values of the expression are text or NULL, as those of `a || b` or `lower(a)`. `false` if that
    /// cannot be told.
    public static func givesText(_ expression: String) -> Bool {
        let bytes = Array(expression.utf8)
        let tokens = SQLTokenizer(expression).filter { !$0.isTrivia }
        func word(_ token: Token) -> String {
            SQLIdentifier.lowercased(String(decoding: bytes[token.range], as: UTF8.self))
        }
        var depth = 0
        var outer: [Token] = []
        for token in tokens {
            if token.kind == .rightParen { depth -= 1 }
            if depth == 0 { outer.append(token) }
            if token.kind == .leftParen { depth += 1 }
        }
        guard depth == 0, let first = outer.first else { return false }
        if outer.count == 3, first.kind == .identifier, outer[1].kind == .leftParen, outer[2].kind == .rightParen {
            return textFunctions.contains(word(first))
        }
        var concatenates = false
        for token in outer {
            switch token.kind {
            case .operator:
                guard word(token) == "||" else { return false }
                concatenates = true
            case .identifier: if otherWords.contains(word(token)) { return false }
            case .quotedIdentifier, .string, .integer, .float, .blob, .leftParen, .rightParen, .dot: break
            default: return false
            }
        }
        return concatenates
    }
}
