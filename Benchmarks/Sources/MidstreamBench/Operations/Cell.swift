/// The same work measured in each of the ways, in turns.
struct Cell {
    /// For each slice, the time that each way took.
    private var times: [[Double]] = []
    private let ways: Int

    init(ways: Int) { self.ways = ways }

    var slices: Int { times.count }

    /// All that has been spent on it.
    private(set) var total = 0.0

    /// Measures one slice in each way. Another way begins each time.
    mutating func measure(_ run: (Int) throws -> Void) throws {
        var slice = [Double](repeating: 0, count: ways)
        for turn in 0..<ways {
            let way = (turn + slices) % ways
            slice[way] = try ContinuousClock().measure { try run(way) }.inSeconds
        }
        times.append(slice)
        total += slice.reduce(0, +)
    }

    func median(of way: Int) -> Double { times.map { $0[way] }.median }

    /// The median over the slices of how many times as long one way took as another, side by side.
    func ratio(of way: Int, to other: Int) -> Double { times.map { $0[way] / $0[other] }.median }
}
