internal import SQLText

/// The tokens of a text, and the lists of expressions in it, such as a result's columns or the terms of an ORDER BY.
struct SQLTerms {
    typealias Term = ArraySlice<Token>

    private let bytes: [UInt8]
    private let tokens: [Token]

    init(_ text: String) {
        bytes = Array(text.utf8)
        tokens = SQLTokenizer(text).filter { !$0.isTrivia }
    }

    /// The expressions in a range, split at the commas.
    func list(in range: Range<Int>) -> [Term] {
        var depth = 0
        return tokens.filter { range.contains($0.range.lowerBound) }[...]
            .split(omittingEmptySubsequences: false) { token in
                if token.kind == .leftParen { depth += 1 }
                if token.kind == .rightParen { depth -= 1 }
                return token.kind == .comma && depth == 0
            }
    }

    /// A token as it is written, in lower case.
    func word(_ token: Token) -> String { SQLIdentifier.lowercased(text(token.range)) }

    /// A token without quotes, in lower case.
    func name(_ token: Token) -> String { SQLIdentifier.lowercased(SQLIdentifier.unquoted(text(token.range))) }

    func text(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }

    /// The text of an expression by which SQLite names its column. It ends before the next token, without the spaces before that
    /// token.
    func span(of term: Term) -> String {
        guard let first = term.first, let last = term.last else { return "" }
        let next = tokens.first { $0.range.lowerBound >= last.range.upperBound }
        var span = bytes[first.range.lowerBound..<(next?.range.lowerBound ?? last.range.upperBound)]
        while let byte = span.last, [0x20, 0x09, 0x0a, 0x0c, 0x0d].contains(byte) { span.removeLast() }
        return String(decoding: span, as: UTF8.self)
    }

    /// A term of ORDER BY without its direction, its NULLS FIRST or LAST, and its COLLATE.
    func withoutDirection(_ term: Term) -> Term {
        var term = term
        if term.count > 2, word(term[term.endIndex - 2]) == "nulls" { term.removeLast(2) }
        if term.count > 1, let last = term.last, ["asc", "desc"].contains(word(last)),
            term[term.endIndex - 2].kind != .dot
        {
            term.removeLast()
        }
        return withoutCollation(term)
    }

    func withoutCollation(_ term: Term) -> Term {
        var term = term
        while term.count > 2, word(term[term.endIndex - 2]) == "collate" { term.removeLast(2) }
        return term
    }

    static func withoutParentheses(_ term: Term) -> Term {
        var term = term
        while term.count > 2, term.first?.kind == .leftParen, term.last?.kind == .rightParen, isWhole(term.dropFirst())
        {
            term = term.dropFirst().dropLast()
        }
        return term
    }

    /// Whether the last of the tokens closes the parenthesis that stands before the first.
    private static func isWhole(_ term: Term) -> Bool {
        var depth = 1
        for token in term.dropLast() {
            if token.kind == .leftParen { depth += 1 }
            if token.kind == .rightParen { depth -= 1 }
            if depth == 0 { return false }
        }
        return true
    }

    /// The name that a result's column is given: after AS, or directly after the expression.
    func alias(of term: Term) -> Token? {
        guard term.count > 1, let last = term.last, Self.names.contains(last.kind) else { return nil }
        let before = term[term.endIndex - 2]
        if word(before) == "as" { return last }
        // No other operand can follow a token that ends an expression.
        let endsExpression =
            [.rightParen, .string, .integer, .float, .blob, .variable, .quotedIdentifier].contains(before.kind)
            || before.kind == .identifier && (!Self.operators.contains(word(before)))
        if last.kind == .identifier, Self.endings.contains(word(last)) { return nil }
        return endsExpression ? last : nil
    }

    func withoutAlias(_ term: Term) -> Term {
        guard let alias = alias(of: term) else { return term }
        let term = term.prefix { $0 != alias }
        return term.last.map(word) == "as" ? term.dropLast() : term
    }

    private static let names: Set<TokenKind> = [.identifier, .quotedIdentifier, .string]
    /// Words that an operand follows.
    private static let operators: Set = [
        "and", "or", "not", "is", "in", "like", "glob", "match", "regexp", "between", "collate", "escape", "case",
        "when",
        "then", "else", "from", "distinct", "over", "exists", "cast",
    ]
    /// Words that end an expression and are not names.
    private static let endings: Set = ["end", "null", "isnull", "notnull"]

    /// The names of a term that is only a column, such as `main.t.b`; `nil` for any other term.
    func column(_ term: Term) -> [Token]? {
        let term = Self.withoutParentheses(term)
        guard [1, 3, 5].contains(term.count) else { return nil }
        var names: [Token] = []
        for (place, token) in term.enumerated() {
            if place % 2 == 1 {
                guard token.kind == .dot else { return nil }
            } else {
                // After a dot, a string is a name as well.
                guard [.identifier, .quotedIdentifier].contains(token.kind) || token.kind == .string && place > 0 else {
                    return nil
                }
                names.append(token)
            }
        }
        return names
    }
}
