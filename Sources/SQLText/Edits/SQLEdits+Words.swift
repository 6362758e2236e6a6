extension SQLEdits {
    /// Inserts a word before the byte at `offset` of a statement, with a space if a word ends there.
    ///
    /// Quoted names need no space before them, so in `UPDATE[T]` an inserted `main.` must not become a part of the
    /// keyword.
    public mutating func insertWord(_ word: String, at offset: Int, of outline: StatementOutline) {
        replace(offset..<offset, withWord: word, of: outline)
    }

    /// Replaces a range of a statement by a word, with a space if a word ends where the range starts, and if a word
    /// starts where the range ends.
    public mutating func replace(_ range: Range<Int>, withWord word: String, of outline: StatementOutline) {
        let (start, end) = (range.lowerBound, range.upperBound)
        let joinsBefore = start > 0 && start <= outline.bytes.count && ByteClass.joinsWord(outline.bytes[start - 1])
        let joinsAfter = !range.isEmpty && end < outline.bytes.count && ByteClass.isIdentifier(outline.bytes[end])
        replace(range, with: (joinsBefore ? " " : "") + word + (joinsAfter ? " " : ""))
    }
}

extension ByteClass {
    /// Whether a letter right after the byte belongs to the same token, as after a letter, or after the `1.` of a
    /// number.
    fileprivate static func joinsWord(_ byte: UInt8) -> Bool {
        isIdentifier(byte) || byte == UInt8(ascii: ".")
    }
}
