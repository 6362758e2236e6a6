#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#elseif canImport(Musl)
    internal import Musl
#endif
internal import Synchronization

/// Numbers that are almost never used twice: the time in milliseconds, followed by a count. They ascend in the order in which they
/// were made, except within a millisecond. Two processes may make the same number in the same millisecond; the claims on a source
/// then show that it is taken: see ``Claims/isTaken(_:among:)``.
enum Identifiers {
    private static let bits: Int64 = 20
    private static let mask: Int64 = 1 << bits - 1
    private static let count = Atomic<Int64>(Int64.random(in: 0...mask))

    static func next() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        let milliseconds = Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
        return milliseconds << bits | (count.wrappingAdd(1, ordering: .relaxed).newValue & mask)
    }
}
