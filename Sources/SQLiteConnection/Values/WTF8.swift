/// UTF-8 that can also hold halves of surrogate pairs, which stand alone in text that is not quite UTF-16.
///
/// Source: <https://wtf-8.codeberg.page>.
enum WTF8 {
    /// The bytes of a text in UTF-16.
    static func encode(_ text: some Collection<UInt16>) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count)
        var lead: UInt32?
        for unit in text {
            var point = UInt32(unit)
            if let half = lead, point & 0xfc00 == 0xdc00 {
                bytes.removeLast(3)
                point = 0x10000 + (half & 0x3ff) << 10 + point & 0x3ff
            }
            lead = point & 0xfc00 == 0xd800 ? point : nil
            let following: UInt32 = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3
            let prefix: UInt32 = [0, 0xc0, 0xe0, 0xf0][Int(following)]
            bytes.append(UInt8(prefix | point >> (6 * following)))
            for rest in (0..<following).reversed() { bytes.append(UInt8(0x80 | point >> (6 * rest) & 0x3f)) }
        }
        return bytes
    }

    /// The UTF-16 of bytes that ``encode(_:)`` has made.
    static func decode(_ bytes: [UInt8]) -> [UInt16] {
        var text: [UInt16] = []
        text.reserveCapacity(bytes.count)
        var index = 0
        while index < bytes.count {
            let first = bytes[index]
            let following = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3
            let end = min(index + following + 1, bytes.count)
            var point = UInt32(first) & [0x7f, 0x1f, 0x0f, 0x07][following]
            for byte in bytes[(index + 1)..<end] { point = point << 6 | UInt32(byte & 0x3f) }
            index = end
            if point < 0x10000 {
                text.append(UInt16(point))
            } else {
                text.append(UInt16(0xd800 | (point - 0x10000) >> 10 & 0x3ff))
                text.append(UInt16(0xdc00 | point & 0x3ff))
            }
        }
        return text
    }
}
