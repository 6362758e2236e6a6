/// Insertions, replacements and removals in a text, by byte offsets; every other byte stays.
///
///     var edits = SQLEdits()
///     edits.replace(12..<13, with: #""shadow""#)
///     try edits.apply(to: "INSERT INTO T VALUES (1)")  // INSERT INTO "shadow" VALUES (1)
///
/// Insertions at one offset keep the order in which they were collected, and go before a replacement that
/// starts there.
public struct SQLEdits: Sendable {
    private struct Edit {
        let range: Range<Int>
        let replacement: String
    }

    private var edits: [Edit] = []

    /// Creates an empty collection.
    public init() {}

    /// Whether nothing would change.
    public var isEmpty: Bool {
        edits.isEmpty
    }

    /// Puts text before the byte at `offset`.
    public mutating func insert(_ text: String, at offset: Int) {
        edits.append(Edit(range: offset..<offset, replacement: text))
    }

    /// Puts text in the place of a range.
    public mutating func replace(_ range: Range<Int>, with text: String) {
        edits.append(Edit(range: range, replacement: text))
    }

    /// Takes a range out.
    public mutating func remove(_ range: Range<Int>) {
        edits.append(Edit(range: range, replacement: ""))
    }

    /// Whether an edit lies in a range, or at one of its ends.
    public func change(_ range: Range<Int>) -> Bool {
        edits.contains { range.lowerBound <= $0.range.lowerBound && $0.range.upperBound <= range.upperBound }
    }

    /// Forgets the edits that lie in a range, or at one of its ends.
    public mutating func discard(in range: Range<Int>) {
        edits.removeAll { range.lowerBound <= $0.range.lowerBound && $0.range.upperBound <= range.upperBound }
    }

    /// The text with all edits made.
    ///
    /// - Complexity: O(n + e log e) for n bytes and e edits.
    public func apply(to text: String) throws(SQLEditError) -> String {
        try extract(0..<text.utf8.count, from: text)
    }

    /// A range of the text with the edits in it made, including insertions at either end. Edits elsewhere do not count.
    ///
    /// An edit that is partly in the range is an error.
    ///
    /// - Complexity: as `apply(to:)`.
    public func extract(_ range: Range<Int>, from text: String) throws(SQLEditError) -> String {
        let bytes = Array(text.utf8)
        try Self.check(range, in: bytes)
        // Insertions first: an empty range sorts before a longer one at its start. The offset in the
        // collection decides among equals, since `sort` promises no stability.
        let order = edits.indices.sorted { a, b in
            let left = edits[a].range
            let right = edits[b].range
            return (left.lowerBound, left.upperBound, a) < (right.lowerBound, right.upperBound, b)
        }
        var result: [UInt8] = []
        result.reserveCapacity(range.count)
        var copied = range.lowerBound
        var previous = 0..<0
        for edit in order.lazy.map({ edits[$0] }) {
            try Self.check(edit.range, in: bytes)
            guard edit.range.lowerBound >= previous.upperBound else {
                throw .overlap(previous, edit.range)
            }
            previous = edit.range
            let isBefore = edit.range.upperBound <= range.lowerBound && !edit.range.isEmpty
            if isBefore || edit.range.upperBound < range.lowerBound { continue }
            let isAfter = edit.range.lowerBound >= range.upperBound && !edit.range.isEmpty
            if isAfter || edit.range.lowerBound > range.upperBound { continue }
            guard range.lowerBound <= edit.range.lowerBound, edit.range.upperBound <= range.upperBound else {
                throw .overlap(range, edit.range)
            }
            result.append(contentsOf: bytes[copied..<edit.range.lowerBound])
            result.append(contentsOf: edit.replacement.utf8)
            copied = edit.range.upperBound
        }
        result.append(contentsOf: bytes[copied..<range.upperBound])
        return String(decoding: result, as: UTF8.self)
    }

    private static func check(_ range: Range<Int>, in bytes: [UInt8]) throws(SQLEditError) {
        guard range.lowerBound >= 0, range.upperBound <= bytes.count else {
            throw .outOfBounds(range, length: bytes.count)
        }
        for offset in [range.lowerBound, range.upperBound] where offset < bytes.count {
            guard bytes[offset] & 0xC0 != 0x80 else { throw .splitsCharacter(offset) }
        }
    }
}
