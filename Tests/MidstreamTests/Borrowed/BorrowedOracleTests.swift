import SQLiteFeatures
import Testing

/// Random statements on connections that other code opened give what native SQLite gives, or are refused.
@Suite struct BorrowedOracleTests {
    @Test func randomStatementsGiveWhatNativeSQLiteGivesOrAreRefused() {
        let seed = OracleFuzzTests.setting("SEED") ?? 1
        let wanted = OracleFuzzTests.setting("STATEMENTS").map { Int($0) } ?? Sample.size(20_000)
        let failuresWanted = Int(OracleFuzzTests.setting("FAILURES") ?? 1)
        let seconds = OracleFuzzTests.setting("SECONDS").map { Int64(clamping: $0) } ?? 100_000_000
        let end = ContinuousClock().now + .seconds(seconds)
        var count = BorrowedCaseRunner.Count()
        var number = Int(OracleFuzzTests.setting("CASE") ?? 0)
        var failures = 0
        let libraries: [ForeignConnection.Library] = [.plain, .grdb, .sqliteSwift]
        while count.run < wanted, ContinuousClock().now < end {
            // These keys do not encrypt: plain calls open the file.
            var generator = CaseGenerator(seed: seed, number: number)
            var oracleCase = generator.generate(statements: 80)
            guard oracleCase.isAdmitted else {
                number += 1
                continue
            }
            oracleCase.targetKey = 0
            oracleCase.sourceKey = 0
            let library = libraries[number % libraries.count]
            let (difference, run) = BorrowedCaseRunner.run(oracleCase, library)
            count += run
            if let difference {
                failures += 1
                Issue.record(Comment(rawValue: Self.report(oracleCase, difference, library, seed, number)))
                if failures >= failuresWanted { break }
            }
            number += 1
        }
        if count.run > 2000, OracleFuzzTests.setting("CASE") == nil { #expect(count.enforced > count.run / 20) }
        let refused = count.refused.values.reduce(0, +)
        print("borrowed oracle: seed \(seed), \(number) cases, \(count.run) statements, \(failures) differences")
        print("  with enforced keys \(count.enforced)")
        print(
            "  refused \(refused), not for such connections \(count.leftOut), cases given up \(count.abandoned), run again \(count.repeated)"
        )
        for (reason, times) in count.refused.sorted(by: { $0.value > $1.value }) { print("  \(times): \(reason)") }
    }

    private static func report(
        _ oracleCase: OracleCase,
        _ difference: CaseRunner.Difference,
        _ library: ForeignConnection.Library,
        _ seed: UInt64,
        _ number: Int
    ) -> String {
        var shrinker = Shrinker(oracleCase, difference) {
            BorrowedCaseRunner.run($0, library, isThorough: true).difference
        }
        let smaller = shrinker.shrink()
        return """
            Replay with MIDSTREAM_FUZZ_SEED=\(seed) MIDSTREAM_FUZZ_CASE=\(number), as \(library)
            First: \(difference)
            Shrunk:
            \(smaller)
            -- differs: \(shrinker.difference)
            """
    }
}

extension OracleCase {
    /// Whether a borrowed connection may have the overlay.
    fileprivate var isAdmitted: Bool {
        triggers.isEmpty && settings.isEmpty && chain == nil
            && tables.allSatisfy { table in
                table.sourceName == nil
                    || table.primaryKey.isEmpty && !table.hasHiddenKeys && table.secondSourceName == nil
                        && !table.columns.contains(where: \.isGenerated)
            }
    }
}
