import SQLiteConnection
import SQLiteFeatures
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Random statements give what native SQLite gives, at every moment of a migration.
@Suite struct OracleFuzzTests {
    static func setting(_ name: String) -> UInt64? {
        getenv("MIDSTREAM_FUZZ_" + name).flatMap { UInt64(String(cString: $0)) }
    }

    @Test func randomStatementsGiveWhatNativeSQLiteGives() {
        let seconds = Self.setting("SECONDS").map { Int64(clamping: $0) }
        let seed = Self.setting("SEED") ?? (seconds == nil ? 1 : UInt64(time(nil)))
        let wanted = seconds == nil ? Self.setting("STATEMENTS").map { Int($0) } ?? Sample.size(20_000) : Int.max
        let first = Int(Self.setting("CASE") ?? 0)
        let failuresWanted = Int(Self.setting("FAILURES") ?? 1)
        let clock = ContinuousClock()
        let end = clock.now + .seconds(seconds ?? 100_000_000)
        var statements = 0
        var number = first
        var failures = 0
        var chains = 0
        while statements < wanted, clock.now < end {
            if Self.setting("VERBOSE") != nil { Self.say("case \(number)") }
            var generator = CaseGenerator(seed: seed, number: number)
            let oracleCase = generator.generate(statements: 80)
            if Self.setting("VERBOSE") == 2 { Self.say("\(oracleCase)") }
            let (difference, count, hasMovedOn) = CaseRunner(oracleCase: oracleCase).run()
            statements += count
            if hasMovedOn { chains += 1 }
            if let difference {
                failures += 1
                Issue.record(Comment(rawValue: Self.report(oracleCase, difference, seed, number)))
                if failures >= failuresWanted { break }
            }
            number += 1
        }
        let missing = SQLiteFeature.missing.map(\.rawValue).joined(separator: ", ")
        if !missing.isEmpty { print("oracle: without \(missing), which SQLite lacks") }
        print(
            "oracle: seed \(seed), cases \(first) to \(number), \(statements) statements, \(chains) tables that moved on, "
                + "\(failures) differences"
        )
    }

    /// Says at once which case runs, in case it does not end.
    private static func say(_ text: String) {
        var line = text + "\n"
        line.withUTF8 { _ = write(2, $0.baseAddress, $0.count) }
    }

    private static func report(
        _ oracleCase: OracleCase,
        _ difference: CaseRunner.Difference,
        _ seed: UInt64,
        _ number: Int
    ) -> String {
        var shrinker = Shrinker(oracleCase, difference)
        let smaller = shrinker.shrink()
        return """
            Replay with MIDSTREAM_FUZZ_SEED=\(seed) MIDSTREAM_FUZZ_CASE=\(number)
            First: \(difference)
            Shrunk:
            \(smaller)
            -- differs: \(shrinker.difference)
            """
    }
}
