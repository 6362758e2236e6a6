internal import Synchronization

/// How long the application's transactions took.
struct Latencies: Sendable {
    private(set) var reads: [Int64] = []
    private(set) var writes: [Int64] = []

    mutating func addRead(_ duration: Duration) { reads.append(Self.nanoseconds(duration)) }
    mutating func addWrite(_ duration: Duration) { writes.append(Self.nanoseconds(duration)) }

    mutating func add(_ other: Latencies) {
        reads += other.reads
        writes += other.writes
    }

    private static func nanoseconds(_ duration: Duration) -> Int64 {
        let (seconds, attoseconds) = duration.components
        return seconds * 1_000_000_000 + attoseconds / 1_000_000_000
    }

    /// The value, in milliseconds, that this fraction of the values does not exceed.
    static func percentile(_ fraction: Double, of values: [Int64]) -> Double {
        guard !values.isEmpty else { return 0 }
        let sorted = values.sorted()
        let rank = Int((Double(sorted.count) * fraction).rounded(.up)) - 1
        return Double(sorted[max(0, min(rank, sorted.count - 1))]) / 1e6
    }
}
