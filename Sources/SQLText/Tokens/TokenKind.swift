/// The kinds of tokens of SQL that SQLite's tokenizer distinguishes.
public enum TokenKind: UInt8, Hashable, Sendable {
    /// White space, or a byte order mark.
    case space
    /// `-- …` or `/* … */`; also a `/* …` that never ends.
    case comment
    /// A bare word, which may be a keyword.
    case identifier
    /// `"x"`, `` `x` `` or `[x]`.
    case quotedIdentifier
    /// `'x'`.
    case string
    /// `x'0f'`.
    case blob
    /// Decimal or hexadecimal digits, perhaps with `_` between them.
    case integer
    /// A number with a point, an exponent or both.
    case float
    /// `?`, `?1`, `:a`, `@a`, `#a`, `$a` or `$a::b(c)`.
    case variable
    /// `+`, `->>`, `<=`, `||`, `*` and the others.
    case `operator`
    /// `(`.
    case leftParen
    /// `)`.
    case rightParen
    /// `,`.
    case comma
    /// A `.` that is not part of a number.
    case dot
    /// `;`.
    case semicolon
    /// What SQLite calls an unrecognized token, or the first NUL and all text after it.
    case illegal
}
