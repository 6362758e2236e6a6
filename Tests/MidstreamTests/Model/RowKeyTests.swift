import SQLiteConnection
import Testing

@testable import Midstream

@Suite struct RowKeyTests {
    @Test func aKeyReadsAsAPersonWouldWriteIt() {
        #expect(RowKey.rowID(-17).words == "with rowid -17")
        #expect(RowKey.text([.integer(3), .text("it's"), .null]) == "(3, 'it''s', NULL)")
        #expect(RowKey.text([.text(String(repeating: "x", count: 200))]).count == 103)
    }

    @Test(
        arguments: [
            (nil, .min), (.min, .min + 1), (-1, 0), (.max - 1, .max), (.max, nil),
        ] as [(Int64?, Int64?)]
    )
    func theSmallestPendingKeyIsAboveTheWatermark(_ watermark: Int64?, _ key: Int64?) {
        #expect(LowerBound.after(watermark) == key)
    }
}
