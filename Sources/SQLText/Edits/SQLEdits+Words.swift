extension SQLEdits {
    /// Puts a word before the byte at `offset` of a statement, apart from a word that ends there.
    ///
    /// Quoted names need no space before them: in `UPDATE[T]`, `main.` must not become a part of the keyword.
    public mutating func insertWord(_ word: String, at offset: Int, of outline: StatementOutline) {
        replace(offset..<offset, withWord: word, of: outline)
    }

    /// Puts a word in the place of a range of a statement, apart from a word that ends where the range starts, and from one that
    /// starts where the range ends.
    public mutating func replace(_ range: Range<Int>, withWord word: String, of outline: StatementOutline) {
        let (start, end) = (range.lowerBound, range.upperBound)
        let joinsBefore = start > 0 && start <= outline.bytes.count && ByteClass.joinsWord(outline.bytes[start - 1])
        let joinsAfter = !range.isEmpty && end < outline.bytes.count && ByteClass.isIdentifier(outline.bytes[end])
        replace(range, with: (joinsBefore ? " " : "") + word + (joinsAfter ? " " : ""))
    }
}

extension ByteClass {
    /// Whether a letter right behind the byte belongs to the same token, as behind a letter, or behind the `1.` of a number.
    fileprivate static func joinsWord(_ byte: UInt8) -> Bool {
        isIdentifier(byte) || byte == UInt8(ascii: ".")
    }
}
