/// The same work, measured in each of the ways in turn.
struct Cell {
    /// For each slice, the time that each way took.
    private var times: [[Double]] = []
    private let ways: Int
    private let countsProcessorTime: Bool

    /// - Parameter countsProcessorTime: Whether only processor time is measured, which leaves out the time that other
    ///   programs and the disk take.
    init(ways: Int, countsProcessorTime: Bool) {
        self.ways = ways
        self.countsProcessorTime = countsProcessorTime
    }

    var slices: Int { times.count }

    /// The time spent on the cell, in all slices and ways.
    private(set) var total = 0.0

    /// Measures one slice in each way. Another way begins each time.
    mutating func measure(_ run: (Int) throws -> Void) throws {
        var slice = [Double](repeating: 0, count: ways)
        for turn in 0..<ways {
            let way = (turn + slices) % ways
            let start = now
            try run(way)
            slice[way] = now - start
        }
        times.append(slice)
        total += slice.reduce(0, +)
    }

    private var now: Double { countsProcessorTime ? Machine.processorTime : Machine.time }

    func median(of way: Int) -> Double { times.map { $0[way] }.median }

    /// The median over the slices of how many times as long one way took as another one, measured side by side.
    func ratio(of way: Int, to other: Int) -> Double { times.map { $0[way] / $0[other] }.median }
}
