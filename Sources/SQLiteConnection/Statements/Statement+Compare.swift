internal import SQLiteC

/// The collations that are built into SQLite, and that can be computed outside it.
///
/// Source: <https://www.sqlite.org/datatype3.html#collating_sequences>.
public enum BuiltInCollation: Sendable {
    /// Compares bytes.
    case binary
    /// Compares bytes, without regard to the case of ASCII letters.
    case nocase
    /// Compares bytes, without regard to trailing spaces.
    case rtrim

    /// The built-in collation of that name, in any letter case.
    public init?(name: String) {
        // SQLite, too, ignores only the case of ASCII letters.
        if sqlite3_stricmp(name, "BINARY") == 0 {
            self = .binary
        } else if sqlite3_stricmp(name, "NOCASE") == 0 {
            self = .nocase
        } else if sqlite3_stricmp(name, "RTRIM") == 0 {
            self = .rtrim
        } else {
            return nil
        }
    }
}

extension Statement {
    /// Compares a column of the current row with a column of another statement's row, in the order of ORDER BY: NULL,
    /// numbers, text by `collation`, blobs.
    ///
    /// - Returns: A number below, equal to or above 0.
    public func compare(
        column: Int,
        with other: Statement,
        column otherColumn: Int,
        collation: BuiltInCollation
    ) -> Int {
        let left = storageClass(at: column)
        let right = other.storageClass(at: otherColumn)
        switch (left, right) {
        case (.integer, .integer):
            let (a, b) = (int64(at: column), other.int64(at: otherColumn))
            return a < b ? -1 : (a > b ? 1 : 0)
        case (.real, .real):
            let (a, b) = (double(at: column), other.double(at: otherColumn))
            return a < b ? -1 : (a > b ? 1 : 0)
        case (.integer, .real): return compareNumbers(int64(at: column), other.double(at: otherColumn))
        case (.real, .integer): return -compareNumbers(other.int64(at: otherColumn), double(at: column))
        case (.text, .text) where collation == .binary && textEncoding != .utf8:
            return compareUTF16(column: column, with: other, column: otherColumn)
        case (.text, .text) where textEncoding != .utf8:
            // A column that is read as UTF-8 would stay in UTF-8, and would lose what is not Unicode when SQLite
            // converts it back.
            let (a, b) = (withUTF16(at: column, WTF8.encode), other.withUTF16(at: otherColumn, WTF8.encode))
            return a.withUnsafeBytes { a in b.withUnsafeBytes { compareBytes(a, $0, collation: collation) } }
        case (.text, .text), (.blob, .blob):
            return withBytes(at: column) { a in
                other.withBytes(at: otherColumn) { b in
                    compareBytes(a, b, collation: left == .text ? collation : .binary)
                }
            }
        default: return left.order - right.order
        }
    }

    /// Compares text by its bytes in the database, as BINARY does. NOCASE and RTRIM compare the UTF-8 in every
    /// database.
    private func compareUTF16(column: Int, with other: Statement, column otherColumn: Int) -> Int {
        withUTF16(at: column) { a in
            other.withUTF16(at: otherColumn) { b in
                for (x, y) in zip(a, b) where x != y {
                    if textEncoding == .utf16BigEndian { return x < y ? -1 : 1 }
                    return x.byteSwapped < y.byteSwapped ? -1 : 1
                }
                return a.count - b.count
            }
        }
    }

    /// Runs `body` with the text of a column of the current row. The text is valid only during `body`.
    func withUTF16<Result>(at column: Int, _ body: (UnsafeBufferPointer<UInt16>) -> Result) -> Result {
        let index = Int32(clamping: column)
        // The text comes first, then its count: both are in the machine's byte order, so the count causes no other
        // conversion.
        let start = sqlite3_column_text16(handle, index)?.assumingMemoryBound(to: UInt16.self)
        return body(UnsafeBufferPointer(start: start, count: Int(sqlite3_column_bytes16(handle, index)) / 2))
    }
}

extension StorageClass {
    fileprivate var order: Int {
        switch self {
        case .null: 0
        case .integer, .real: 1
        case .text: 2
        case .blob: 3
        }
    }
}

/// Compares without the loss of precision that converting the integer to a double could cause.
private func compareNumbers(_ integer: Int64, _ double: Double) -> Int {
    if double >= 9_223_372_036_854_775_808.0 { return -1 }
    if double < -9_223_372_036_854_775_808.0 { return 1 }
    let whole = Int64(double)
    if integer != whole { return integer < whole ? -1 : 1 }
    let fraction = double - Double(whole)
    return fraction > 0 ? -1 : (fraction < 0 ? 1 : 0)
}

/// Whether RTRIM cuts trailing spaces before it compares. Older versions compare the spaces with what the other text
/// has in their place, so they differ for characters below a space.
private let rtrimCutsFirst = Library.answer(to: "'a ' < 'a' || char(1) COLLATE RTRIM") ?? true

private func compareBytes(_ a: UnsafeRawBufferPointer, _ b: UnsafeRawBufferPointer, collation: BuiltInCollation) -> Int
{
    var (countA, countB) = (a.count, b.count)
    switch collation {
    case .binary: break
    case .rtrim where !rtrimCutsFirst:
        let common = min(a.count, b.count)
        if common > 0, let startA = a.baseAddress, let startB = b.baseAddress {
            let order = Int(memcmp(startA, startB, common))
            if order != 0 { return order }
        }
        let rest = a.count > b.count ? a[common...] : b[common...]
        return rest.allSatisfy { $0 == 0x20 } ? 0 : a.count - b.count
    case .rtrim:
        while countA > 0, a[countA - 1] == 0x20 { countA -= 1 }
        while countB > 0, b[countB - 1] == 0x20 { countB -= 1 }
    case .nocase:
        for index in 0..<min(countA, countB) {
            let (x, y) = (lowered(a[index]), lowered(b[index]))
            if x != y { return Int(x) - Int(y) }
            // This stops at a NUL, as sqlite3StrNICmp does.
            if x == 0 { break }
        }
        return countA - countB
    }
    let common = min(countA, countB)
    if common > 0, let startA = a.baseAddress, let startB = b.baseAddress {
        let order = Int(memcmp(startA, startB, common))
        if order != 0 { return order }
    }
    return countA - countB
}

private func lowered(_ byte: UInt8) -> UInt8 {
    byte &- 0x41 < 26 ? byte | 0x20 : byte
}
