import Testing

@testable import Midstream

@Suite struct BatchSizeTests {
    @Test(arguments: [(0, 32), (249, 32), (250, 21), (999, 21), (1000, 16), (2000, 16), (2001, 8)])
    func aBatchGrowsWhereItIsShortAndShrinksWhereItIsLong(_ microseconds: Int, _ rows: Int64) {
        var size = BatchSize()
        #expect(size.rows == 16)
        size.adapt(took: .microseconds(microseconds))
        #expect(size.rows == rows)
    }

    @Test func aBatchHasBounds() {
        var size = BatchSize()
        for _ in 0..<100 { size.adapt(took: .zero) }
        #expect(size.rows == 100_000)
        size.least = 3
        for _ in 0..<100 { size.adapt(took: .seconds(1)) }
        #expect(size.rows == 3)
    }
}
