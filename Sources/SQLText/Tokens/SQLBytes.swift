/// The UTF-8 of a text, followed by NULs, so that looking a few bytes ahead needs no test for the end.
struct SQLBytes: Sendable {
    /// How many bytes the longest look ahead needs.
    private static let padding = 4

    let storage: [UInt8]
    /// The length of the text in bytes.
    let count: Int

    init(_ text: String) {
        var text = text
        storage = text.withUTF8 { utf8 in
            [UInt8](unsafeUninitializedCapacity: utf8.count + Self.padding) { buffer, initialized in
                _ = buffer.initialize(from: utf8)
                for index in utf8.count..<utf8.count + Self.padding { buffer[index] = 0 }
                initialized = utf8.count + Self.padding
            }
        }
        count = storage.count - Self.padding
    }

    @inline(__always)
    subscript(_ offset: Int) -> UInt8 {
        storage[offset]
    }

    /// The text of a range. Whatever part of the range is outside the text is left out.
    func text(_ range: Range<Int>) -> String {
        String(decoding: storage[range.clamped(to: 0..<count)], as: UTF8.self)
    }
}
