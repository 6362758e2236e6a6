/// The statements of a text.
///
///     for outline in SQLScript("INSERT INTO a VALUES (1); DELETE FROM b") {
///         print(outline.kind, outline.target?.name)
///     }
///     // insert a
///     // delete b
///
/// The statements are those that consecutive calls of `sqlite3_prepare_v2` would take: a statement takes the semicolons
/// before it, and spaces or comments at the end are an empty statement. Nothing from the first NUL on is read.
///
/// Iterating takes time linear in the text. Only statements that are iterated over are outlined.
public struct SQLScript: Sequence, Sendable {
    let bytes: SQLBytes

    /// Creates a script of a text.
    public init(_ text: String) {
        bytes = SQLBytes(text)
    }

    /// The length of the text in bytes.
    public var utf8Count: Int {
        bytes.count
    }

    /// The outlines of the statements, in order. Each is made when it is asked for.
    public func makeIterator() -> Iterator {
        Iterator(bytes: bytes)
    }

    /// The outline of the statement that starts at an offset. At the end of the text, the outline is empty.
    public func outline(at offset: Int = 0) -> StatementOutline {
        let start = Swift.min(Swift.max(offset, 0), bytes.count)
        let statement = StatementTokens(bytes, at: start)
        return Outliner.outline(statement, of: bytes)
    }

    /// The line and the column, both from 1, of a byte of the text. A column is a character.
    ///
    /// - Complexity: O(offset).
    public func position(of offset: Int) -> (line: Int, column: Int) {
        let before = bytes.text(0..<Swift.max(offset, 0)).utf8
        let start = before.lastIndex(of: UInt8(ascii: "\n")).map(before.index(after:)) ?? before.startIndex
        return (before.count { $0 == UInt8(ascii: "\n") } + 1, String(Substring(before[start...])).count + 1)
    }

    /// The text of a range.
    public func text(_ range: Range<Int>) -> String {
        bytes.text(range)
    }

    /// Whether any name, quoted name or string in the text is in a set of names.
    ///
    /// If this is false, no statement of the text names such an object, except through a view or a trigger.
    public func mentionsAny(_ names: SQLNameSet) -> Bool {
        if names.isEmpty { return false }
        var tokenizer = SQLTokenizer(bytes, at: 0)
        while let token = tokenizer.next() {
            if names.contains(token, of: bytes) { return true }
        }
        return false
    }

    /// Whether any name, quoted name or string in the text is one of the given names.
    ///
    /// To look up the same names in many texts, make an `SQLNameSet` once.
    public func mentionsAny(_ lowercasedNames: Set<String>) -> Bool {
        mentionsAny(SQLNameSet(lowercasedNames))
    }

    /// Outlines one statement after the other.
    public struct Iterator: IteratorProtocol, Sendable {
        private let bytes: SQLBytes
        private var offset = 0

        init(bytes: SQLBytes) {
            self.bytes = bytes
        }

        /// The outline of the next statement, or nil at the end of the text.
        public mutating func next() -> StatementOutline? {
            guard offset < bytes.count, bytes[offset] != 0 else { return nil }
            let statement = StatementTokens(bytes, at: offset)
            offset = statement.endOffset
            return Outliner.outline(statement, of: bytes)
        }
    }
}
