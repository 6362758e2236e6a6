/// The tokens of a text, by exactly the rules of SQLite's own tokenizer.
///
/// The tokens cover the text without gaps: each token starts where the token before it ends, and the last token ends
/// where the text does.
///
///     for token in SQLTokenizer("SELECT a->>'$' -- b") { … }
///     // SELECT, space, a, ->>, '$', space, -- b
///
/// SQLite reads no further than a NUL: the first NUL that no other token can hold is one illegal token, together with
/// all text after it. Numbers may have digit separators, which SQLite knows since 3.46.
///
/// Iterating takes time linear in the text. See `sqlite3GetToken` in SQLite's tokenize.c.
public struct SQLTokenizer: Sequence, IteratorProtocol, Sendable {
    let bytes: SQLBytes
    private var offset: Int

    /// Starts at the beginning of a text.
    public init(_ text: String) {
        self.init(SQLBytes(text), at: 0)
    }

    init(_ bytes: SQLBytes, at offset: Int) {
        self.bytes = bytes
        self.offset = offset
    }

    /// The next token, or nil at the end of the text.
    public mutating func next() -> Token? {
        guard offset < bytes.count else { return nil }
        let start = offset
        let kind: TokenKind
        (kind, offset) = Self.scan(bytes, at: start)
        return Token(kind: kind, range: start..<offset)
    }

    /// The kind and the end of the token at `start`. `start` must be before the end of the text.
    static func scan(_ bytes: borrowing SQLBytes, at start: Int) -> (TokenKind, Int) {
        let first = bytes[start]
        switch first {
        case 0x20, 0x09, 0x0A, 0x0C, 0x0D:
            var end = start + 1
            while ByteClass.isSpace(bytes[end]) { end += 1 }
            return (.space, end)
        case UInt8(ascii: "x"), UInt8(ascii: "X"):
            return bytes[start + 1] == UInt8(ascii: "'")
                ? scanBlob(bytes, at: start) : (.identifier, endOfWord(bytes, from: start + 1))
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "_"):
            return (.identifier, endOfWord(bytes, from: start + 1))
        case 0xEF where bytes[start + 1] == 0xBB && bytes[start + 2] == 0xBF:
            return (.space, start + 3)
        case 0x80...0xFF:
            return (.identifier, endOfWord(bytes, from: start + 1))
        case UInt8(ascii: "0")...UInt8(ascii: "9"):
            return scanNumber(bytes, at: start)
        case UInt8(ascii: "."):
            return ByteClass.isDigit(bytes[start + 1]) ? scanNumber(bytes, at: start) : (.dot, start + 1)
        case UInt8(ascii: ","): return (.comma, start + 1)
        case UInt8(ascii: "("): return (.leftParen, start + 1)
        case UInt8(ascii: ")"): return (.rightParen, start + 1)
        case UInt8(ascii: ";"): return (.semicolon, start + 1)
        case UInt8(ascii: "'"), UInt8(ascii: "\""), UInt8(ascii: "`"):
            return scanQuoted(bytes, at: start)
        case UInt8(ascii: "["):
            return scanBracketed(bytes, at: start)
        case UInt8(ascii: "?"):
            var end = start + 1
            while ByteClass.isDigit(bytes[end]) { end += 1 }
            return (.variable, end)
        case UInt8(ascii: ":"), UInt8(ascii: "@"), UInt8(ascii: "$"), UInt8(ascii: "#"):
            return scanVariable(bytes, at: start)
        case 0:
            return (.illegal, bytes.count)
        default:
            return scanOperator(bytes, at: start)
        }
    }

    @inline(__always)
    static func endOfWord(_ bytes: borrowing SQLBytes, from start: Int) -> Int {
        var end = start
        while ByteClass.isIdentifier(bytes[end]) { end += 1 }
        return end
    }
}
