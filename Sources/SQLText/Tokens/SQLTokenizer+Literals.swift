extension SQLTokenizer {
    /// Scans `'x'`, `"x"` or `` `x` ``, in which the quote is doubled.
    static func scanQuoted(_ bytes: borrowing SQLBytes, at start: Int) -> (TokenKind, Int) {
        let quote = bytes[start]
        var end = start + 1
        while true {
            let byte = bytes[end]
            if byte == quote {
                guard bytes[end + 1] == quote else {
                    return (quote == UInt8(ascii: "'") ? .string : .quotedIdentifier, end + 1)
                }
                end += 1
            } else if byte == 0 {
                return (.illegal, end)
            }
            end += 1
        }
    }

    /// Scans `[x]`. A `]` cannot be written inside.
    static func scanBracketed(_ bytes: borrowing SQLBytes, at start: Int) -> (TokenKind, Int) {
        var end = start + 1
        while bytes[end] != UInt8(ascii: "]") {
            if bytes[end] == 0 { return (.illegal, end) }
            end += 1
        }
        return (.quotedIdentifier, end + 1)
    }

    /// Scans `x'0f'`. The caller knows that the quote follows.
    static func scanBlob(_ bytes: borrowing SQLBytes, at start: Int) -> (TokenKind, Int) {
        var end = start + 2
        while ByteClass.isHexDigit(bytes[end]) { end += 1 }
        if bytes[end] == UInt8(ascii: "'"), (end - start) % 2 == 0 { return (.blob, end + 1) }
        while bytes[end] != 0, bytes[end] != UInt8(ascii: "'") { end += 1 }
        return (.illegal, bytes[end] == 0 ? end : end + 1)
    }

    /// Scans a number. Letters right after it make it illegal. As in SQLite's tokenizer, there is no check of where a
    /// `_` may stand.
    static func scanNumber(_ bytes: borrowing SQLBytes, at start: Int) -> (TokenKind, Int) {
        var kind = TokenKind.integer
        var end = start
        if bytes[start] == UInt8(ascii: "0"), bytes[start + 1] | 0x20 == UInt8(ascii: "x"),
            ByteClass.isHexDigit(bytes[start + 2])
        {
            end = start + 3
            while ByteClass.isHexDigit(bytes[end]) || bytes[end] == UInt8(ascii: "_") { end += 1 }
        } else {
            end = endOfDigits(bytes, from: start)
            if bytes[end] == UInt8(ascii: ".") {
                kind = .float
                end = endOfDigits(bytes, from: end + 1)
            }
            if bytes[end] | 0x20 == UInt8(ascii: "e") {
                let sign = bytes[end + 1]
                let isSigned = sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-")
                if ByteClass.isDigit(sign) || isSigned && ByteClass.isDigit(bytes[end + 2]) {
                    kind = .float
                    end = endOfDigits(bytes, from: end + 2)
                }
            }
        }
        let wordEnd = endOfWord(bytes, from: end)
        return (wordEnd == end ? kind : .illegal, wordEnd)
    }

    private static func endOfDigits(_ bytes: borrowing SQLBytes, from start: Int) -> Int {
        var end = start
        while ByteClass.isDigit(bytes[end]) || bytes[end] == UInt8(ascii: "_") { end += 1 }
        return end
    }

    /// Scans `:a`, `@a`, `#a` or `$a`, with Tcl's `::` and `(…)`.
    static func scanVariable(_ bytes: borrowing SQLBytes, at start: Int) -> (TokenKind, Int) {
        var end = start + 1
        var hasName = false
        while true {
            let byte = bytes[end]
            if ByteClass.isIdentifier(byte) {
                hasName = true
                end += 1
            } else if byte == UInt8(ascii: "("), hasName {
                repeat {
                    end += 1
                } while bytes[end] != 0 && !ByteClass.isSpace(bytes[end])
                    && bytes[end] != UInt8(ascii: ")")
                return bytes[end] == UInt8(ascii: ")") ? (.variable, end + 1) : (.illegal, end)
            } else if byte == UInt8(ascii: ":"), bytes[end + 1] == UInt8(ascii: ":") {
                end += 2
            } else {
                return (hasName ? .variable : .illegal, end)
            }
        }
    }
}
