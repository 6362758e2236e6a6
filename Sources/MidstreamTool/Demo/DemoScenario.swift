internal import SQLiteConnection

/// A database, and an application that uses it.
protocol DemoScenario: Sendable {
    /// The tables that move.
    var tables: [String] { get }
    /// The tables' contents, in words.
    var summary: String { get }

    /// One read, as the application makes it.
    func read(_ random: inout RandomNumbers) -> DemoStatement
    /// The statements of one transaction that writes.
    func write(_ random: inout RandomNumbers) -> [DemoStatement]
    /// The statements that a long transaction reads with, again and again.
    var report: [DemoStatement] { get }
    /// A query on several tables that gives 0 at every moment.
    var invariant: DemoStatement { get }
}

/// The table that counts the application's transactions. From it, a read knows which transactions it has seen. The
/// table moves too.
enum DemoClock {
    static let table = "clock"
    static let create = "CREATE TABLE clock(id INTEGER PRIMARY KEY, turn INTEGER NOT NULL)"
    static let start = "INSERT INTO clock(id, turn) VALUES (1, 0)"
    static let advance = "UPDATE clock SET turn = turn + 1 WHERE id = 1"
    static let read = "SELECT turn FROM clock WHERE id = 1"
}

/// Random numbers that are the same in each run: SplitMix64.
///
/// Source: <https://prng.di.unimi.it/splitmix64.c>.
struct RandomNumbers: RandomNumberGenerator, Sendable {
    private var state: UInt64

    init(seed: UInt64) {
        state = seed
    }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var z = state
        z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
        z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
        return z ^ (z >> 31)
    }

    /// A number from 1 to `count`.
    mutating func id(_ count: Int64) -> SQLiteValue { .integer(Int64.random(in: 1...max(1, count), using: &self)) }

    /// A number from 0 to 99.
    mutating func percent() -> Int { Int.random(in: 0..<100, using: &self) }
}
