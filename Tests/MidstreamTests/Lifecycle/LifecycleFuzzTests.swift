import MidstreamTesting
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Random lives of files, in which migrations, rebuilds, cancellations and other operations meet. After each operation,
/// every table must have the rows that plain SQLite has.
///
/// `MIDSTREAM_LIFECYCLE_SEED` and `MIDSTREAM_LIFECYCLE_LIFE` replay a failure; the failure prints their values. The
/// test tries `MIDSTREAM_LIFECYCLE_COUNT` lives, or as many as `MIDSTREAM_LIFECYCLE_SECONDS` allow.
@Suite struct LifecycleFuzzTests {
    private static func setting(_ name: String) -> UInt64? {
        Files.environment("MIDSTREAM_LIFECYCLE_" + name).flatMap { UInt64($0) }
    }

    @Test func whateverHappensEveryRowIsThereOnce() throws {
        try FailingVFS.register()
        let seconds = Self.setting("SECONDS").map { Int64(clamping: $0) }
        let seed = Self.setting("SEED") ?? (seconds == nil ? 1 : UInt64(time(nil)))
        let first = Int(Self.setting("LIFE") ?? 0)
        let count = seconds == nil ? Self.setting("COUNT").map { Int($0) } ?? Sample.size(24) : Int.max
        let wanted = Int(Self.setting("FAILURES") ?? 1)
        let isVerbose = Self.setting("VERBOSE") != nil
        let end = ContinuousClock.now + .seconds(seconds ?? 100_000_000)
        var (lives, operations, failures) = (0, 0, 0)
        var counts = Life.Counts()
        while lives < count, ContinuousClock.now < end, failures < wanted {
            let life = Life(seed: seed, number: first + lives)
            lives += 1
            operations += life.operations.count
            guard let failure = life.run(&counts, isVerbose: isVerbose) else { continue }
            failures += 1
            let (shrunk, least) = isVerbose ? (life, failure) : life.shrunk(failure)
            Issue.record(
                """
                MIDSTREAM_LIFECYCLE_SEED=\(seed) MIDSTREAM_LIFECYCLE_LIFE=\(life.number): \(failure.problem)
                shrunk: \(least.problem)
                \(shrunk.operations)
                \(least.log.joined(separator: "\n"))
                """
            )
        }
        // One fault in a few strikes the operation for which it was meant.
        if counts.faults >= 30 { #expect(counts.struck > 0, "no fault has struck") }
        if Self.setting("REFUSALS") != nil {
            for (refusal, count) in counts.refusals.sorted(by: { $0.value > $1.value }) {
                print("\(count) × \(refusal)")
            }
        }
        print(
            "lifecycle: seed \(seed), \(lives) lives, \(operations) operations, \(counts.refusals.values.reduce(0, +)) refusals, "
                + "\(counts.struck) of \(counts.faults) faults struck"
        )
    }
}
