internal import SQLiteC

/// A string that equals another string if their bytes are equal, as in SQLite. Swift's strings are equal if they are
/// canonically equivalent.
package struct ExactString: Hashable {
    package let string: String

    package init(string: String) {
        self.string = string
    }

    package static func == (left: ExactString, right: ExactString) -> Bool {
        left.string.hasSameBytes(as: right.string)
    }

    package func hash(into hasher: inout Hasher) {
        string.hashBytes(into: &hasher)
    }
}

extension String {
    /// Whether both strings have the same UTF-8.
    package func hasSameBytes(as other: String) -> Bool {
        let (left, right) = (utf8, other.utf8)
        guard left.count == right.count else { return false }
        let isEqual = left.withContiguousStorageIfAvailable { a in
            right.withContiguousStorageIfAvailable { b in
                guard let startA = a.baseAddress, let startB = b.baseAddress else { return true }
                return memcmp(startA, startB, a.count) == 0
            }
        }
        return (isEqual ?? nil) ?? left.elementsEqual(right)
    }

    func hashBytes(into hasher: inout Hasher) {
        let isDone: Void? = utf8.withContiguousStorageIfAvailable { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        if isDone == nil {
            for byte in utf8 { hasher.combine(byte) }
        }
        // A string and its prefix must hash differently even if two strings are hashed one after another.
        hasher.combine(0xff as UInt8)
    }

    /// The text as an SQL identifier: in double quotes, with the quotes inside doubled.
    ///
    /// This works on bytes: to Swift, a quote with a combining mark after it is another character than a quote.
    var quotedIdentifier: String {
        var bytes: [UInt8] = [0x22]
        for byte in utf8 {
            if byte == 0x22 { bytes.append(0x22) }
            bytes.append(byte)
        }
        bytes.append(0x22)
        return String(decoding: bytes, as: UTF8.self)
    }
}
