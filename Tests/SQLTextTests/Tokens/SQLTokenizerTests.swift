import SQLCorpus
import SQLText
import Testing

@Suite("Tokenizer")
struct SQLTokenizerTests {
    struct Case: CustomTestStringConvertible, Sendable {
        let text: String
        let kinds: [TokenKind]
        let testDescription: String

        init(_ label: String, _ text: String, _ kinds: TokenKind...) {
            testDescription = label
            self.text = text
            self.kinds = kinds
        }
    }

    static let cases = [
        Case("nothing", ""),
        Case("spaces of all sorts", " \t\n\r\u{0C}\u{0B}", .space),
        Case("a vertical tab that starts a token", "\u{0B}", .illegal),
        Case("a line comment up to the line's end", "--a\n", .comment, .space),
        Case("a line comment up to the text's end", "--", .comment),
        Case("a block comment", "/*a*/", .comment),
        Case("the shortest block comment", "/**/", .comment),
        Case("a star and slash that share no star", "/*/", .comment),
        Case("an unterminated block comment", "/* a", .comment),
        Case("a block comment's start at the end", "/*", .operator, .operator),
        Case("words", "a_1$ é", .identifier, .space, .identifier),
        Case("quoted names", #""a""b"`a``b`[a]"#, .quotedIdentifier, .quotedIdentifier, .quotedIdentifier),
        Case("a string with quotes", "'a''b'", .string),
        Case("an unterminated string", "'a''", .illegal),
        Case("an unterminated quoted name", "\"a", .illegal),
        Case("an unterminated bracket", "[a", .illegal),
        Case("a blob", "x'0fA0'", .blob),
        Case("an empty blob", "X''", .blob),
        Case("a blob of odd length", "x'0'", .illegal),
        Case("a blob of no hex", "x'0g'a", .illegal, .identifier),
        Case("an unterminated blob", "x'0f", .illegal),
        Case("a word of x", "x xy", .identifier, .space, .identifier),
        Case(
            "integers",
            "1 0 00 0x1F 0XaB",
            .integer,
            .space,
            .integer,
            .space,
            .integer,
            .space,
            .integer,
            .space,
            .integer
        ),
        Case(
            "floats",
            "1. .5 1.5 1e5 1E-5 1.e+5",
            .float,
            .space,
            .float,
            .space,
            .float,
            .space,
            .float,
            .space,
            .float,
            .space,
            .float
        ),
        Case("digit separators", "1_000 0xF_F 1_0.0_1e1_0", .integer, .space, .integer, .space, .float),
        Case("a number with letters", "1a", .illegal),
        Case("a hex number without digits", "0x", .illegal),
        Case("an exponent without digits", "1e", .illegal),
        Case("an exponent's sign without digits", "1e+", .illegal, .operator),
        Case("a dot", "a.b", .identifier, .dot, .identifier),
        Case(
            "parameters",
            "? ?12 :a @a $a #a",
            .variable,
            .space,
            .variable,
            .space,
            .variable,
            .space,
            .variable,
            .space,
            .variable,
            .space,
            .variable
        ),
        Case("Tcl's parameters", "$a::b(c) $::a :a::b", .variable, .space, .variable, .space, .variable),
        Case("a Tcl array without its end", "$a(b c", .illegal, .space, .identifier),
        Case("a parameter without a name", ": $", .illegal, .space, .illegal),
        Case("arrows", "-> ->> - ", .operator, .space, .operator, .space, .operator, .space),
        Case(
            "pairs",
            "<=<><<>=>>==!=||",
            .operator,
            .operator,
            .operator,
            .operator,
            .operator,
            .operator,
            .operator,
            .operator
        ),
        Case(
            "single operators",
            "<>+*%&~|/=",
            .operator,
            .operator,
            .operator,
            .operator,
            .operator,
            .operator,
            .operator,
            .operator,
            .operator
        ),
        Case("punctuation", "(),;", .leftParen, .rightParen, .comma, .semicolon),
        Case("what starts no token", "!^\\{", .illegal, .illegal, .illegal, .illegal),
        Case("a byte order mark", "\u{FEFF}a", .space, .identifier),
        Case("a byte order mark inside a word", "a\u{FEFF}", .identifier),
        Case("a NUL and all behind it", "a\0b c", .identifier, .illegal),
        Case("a NUL in a string", "'a\0b'", .illegal, .illegal),
    ]

    @Test("Token kinds are those of SQLite", arguments: cases)
    func kinds(_ example: Case) {
        #expect(SQLTokenizer(example.text).map(\.kind) == example.kinds)
    }

    @Test("Tokens tile the text", arguments: cases.map(\.text) + Corpus.all)
    func tiles(_ text: String) {
        expectTiles(text)
    }
}

/// Expects that each token starts where the one before ends, that no token is empty, and that the last one ends with
/// the text.
func expectTiles(_ text: String) {
    var offset = 0
    for token in SQLTokenizer(text) {
        guard token.range.lowerBound == offset, !token.range.isEmpty else {
            Issue.record("\(token) after \(offset) in \(text.debugDescription)")
            return
        }
        offset = token.range.upperBound
    }
    #expect(offset == text.utf8.count, "\(text.debugDescription)")
}
