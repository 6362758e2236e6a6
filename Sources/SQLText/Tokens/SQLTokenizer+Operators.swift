extension SQLTokenizer {
    /// Scans operators, the comments that start like an operator, and bytes with which no token starts.
    static func scanOperator(_ bytes: borrowing SQLBytes, at start: Int) -> (TokenKind, Int) {
        let second = bytes[start + 1]
        switch bytes[start] {
        case UInt8(ascii: "-"):
            if second == UInt8(ascii: "-") { return (.comment, endOfLine(bytes, from: start + 2)) }
            guard second == UInt8(ascii: ">") else { return (.operator, start + 1) }
            return (.operator, bytes[start + 2] == UInt8(ascii: ">") ? start + 3 : start + 2)
        case UInt8(ascii: "/"):
            // A `/*` right before the end of the text is two operators, not a comment.
            guard second == UInt8(ascii: "*"), bytes[start + 2] != 0 else { return (.operator, start + 1) }
            return (.comment, endOfComment(bytes, from: start + 2))
        case UInt8(ascii: "<"):
            let isPair = second == UInt8(ascii: "=") || second == UInt8(ascii: ">") || second == UInt8(ascii: "<")
            return (.operator, isPair ? start + 2 : start + 1)
        case UInt8(ascii: ">"):
            let isPair = second == UInt8(ascii: "=") || second == UInt8(ascii: ">")
            return (.operator, isPair ? start + 2 : start + 1)
        case UInt8(ascii: "="):
            return (.operator, second == UInt8(ascii: "=") ? start + 2 : start + 1)
        case UInt8(ascii: "|"):
            return (.operator, second == UInt8(ascii: "|") ? start + 2 : start + 1)
        case UInt8(ascii: "!"):
            return second == UInt8(ascii: "=") ? (.operator, start + 2) : (.illegal, start + 1)
        case UInt8(ascii: "+"), UInt8(ascii: "*"), UInt8(ascii: "%"), UInt8(ascii: "&"), UInt8(ascii: "~"):
            return (.operator, start + 1)
        default:
            return (.illegal, start + 1)
        }
    }

    private static func endOfLine(_ bytes: borrowing SQLBytes, from start: Int) -> Int {
        var end = start
        while bytes[end] != 0, bytes[end] != 0x0A { end += 1 }
        return end
    }

    private static func endOfComment(_ bytes: borrowing SQLBytes, from start: Int) -> Int {
        var end = start
        while bytes[end] != 0 {
            if bytes[end] == UInt8(ascii: "*"), bytes[end + 1] == UInt8(ascii: "/") { return end + 2 }
            end += 1
        }
        return end
    }
}
