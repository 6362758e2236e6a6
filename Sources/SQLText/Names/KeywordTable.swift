/// Finds out which keyword a bare word is.
struct KeywordTable: Sendable {
    static let shared = KeywordTable()

    /// The longest keyword is `autoincrement`.
    private static let longest = 13
    private static let slotCount = 1024

    private struct Slot {
        var low: UInt64 = 0
        var high: UInt64 = 0
        var keyword = Keyword.none
    }

    /// A hash table with open addressing. Most slots are empty, so most words that are no keyword are found out by one
    /// look.
    private let slots: [Slot]

    private init() {
        var slots = [Slot](repeating: Slot(), count: Self.slotCount)
        for (spelling, keyword) in Keyword.bySpelling {
            let (low, high) = Self.pack(Array(spelling.utf8), 0..<spelling.utf8.count)
            var index = Self.slot(low, high)
            while slots[index].keyword != .none { index = (index + 1) & (Self.slotCount - 1) }
            slots[index] = Slot(low: low, high: high, keyword: keyword)
        }
        self.slots = slots
    }

    func keyword(_ bytes: [UInt8], _ range: Range<Int>) -> Keyword {
        guard range.count >= 2, range.count <= Self.longest else { return .none }
        let (low, high) = Self.pack(bytes, range)
        var index = Self.slot(low, high)
        while slots[index].keyword != .none {
            if slots[index].low == low, slots[index].high == high { return slots[index].keyword }
            index = (index + 1) & (Self.slotCount - 1)
        }
        return .none
    }

    /// The word in lower case, as a number of up to sixteen bytes.
    @inline(__always)
    private static func pack(_ bytes: [UInt8], _ range: Range<Int>) -> (UInt64, UInt64) {
        var low: UInt64 = 0
        var high: UInt64 = 0
        for offset in range {
            high = high &<< 8 | low &>> 56
            low = low &<< 8 | UInt64(ByteClass.lowercased(bytes[offset]))
        }
        return (low, high)
    }

    @inline(__always)
    private static func slot(_ low: UInt64, _ high: UInt64) -> Int {
        Int(truncatingIfNeeded: ((low ^ high &* 31) &* 0x9E37_79B9_7F4A_7C15) &>> 54)
    }
}
