#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#elseif canImport(Musl)
    internal import Musl
#endif
internal import Synchronization

/// Numbers that are never used twice, in the order in which they were made: the time, then a count.
enum Identifiers {
    private static let count = Atomic<Int64>(Int64.random(in: 0..<4096))

    static func next() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        let milliseconds = Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
        // The count may wrap within a millisecond only after 4,096 numbers.
        return milliseconds << 12 | (count.wrappingAdd(1, ordering: .relaxed).newValue & 0xfff)
    }
}
