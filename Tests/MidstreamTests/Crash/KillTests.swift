import Midstream
import MidstreamTesting
import SQLiteConnection
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Processes that die at every write, sync, truncation and deletion of a migration's life.
///
/// `MIDSTREAM_CRASH_FULL=1`, as `make crash` sets it, tries all of these points. Otherwise the tests try some, spread
/// over the whole life; which ones depends on the scenario, the manner and `MIDSTREAM_CRASH_SEED`.
/// `MIDSTREAM_CRASH_STRIDE` sets the distance from one point to the next. `MIDSTREAM_CRASH` names the scenarios and
/// manners that alone are tried.
@Suite struct KillTests {
    static let isFull = Files.environment("MIDSTREAM_CRASH_FULL") == "1"

    static let manners = CrashScenario.chosen(of: KillingVFS.Manner.allCases)

    /// The seed. Each run prints it.
    static let seed = Files.environment("MIDSTREAM_CRASH_SEED").flatMap { Int($0) } ?? 1

    /// The points at which the scenario and manner of that name are to die.
    static func points(_ count: Int, about wanted: Int, of name: String) -> [Int] {
        let chosen = Files.environment("MIDSTREAM_CRASH_STRIDE").flatMap { Int($0) }
        guard let step = chosen ?? (isFull ? 1 : nil) else {
            return Sample.points(count, about: wanted, chosenBy: "\(name), \(seed)")
        }
        return Array(stride(from: 1 + seed % max(1, step), through: count, by: max(1, step)))
    }

    /// How many operations the whole life of a scenario has, as a process tells that lives through it.
    static func operations(_ scenario: CrashScenario, _ folder: String) async throws -> Int {
        try CrashWorkload(scenario: scenario, folder: folder).prepare()
        await #expect(processExitsWith: .success) { [folder, scenario] in
            try KillingVFS.register()
            KillingVFS.disarm()
            let workload = CrashWorkload(scenario: scenario, folder: folder)
            try workload.run()
            for _ in 0..<KillingVFS.operations { Files.mark(folder + "/count") }
        }
        let count = Files.size(folder + "/count")
        unlink(folder + "/count")
        unlink(folder + "/committed")
        return count
    }

    /// Runs a scenario in a process that dies at a given point.
    static func die(
        _ scenario: CrashScenario,
        _ folder: String,
        at point: Int,
        _ manner: KillingVFS.Manner,
        after done: Int = 0
    ) async {
        await #expect(processExitsWith: .signal(SIGKILL)) { [folder, scenario, point, manner, done] in
            do {
                try KillingVFS.register()
                KillingVFS.kill(at: point, manner: manner, seed: UInt64(point))
                try CrashWorkload(scenario: scenario, folder: folder).run(after: done)
                KillingVFS.killNow()
            } catch {
                print("\(scenario) \(manner) point \(point): \(error)")
                throw error
            }
        }
    }

    @Test(arguments: CrashScenario.tried)
    func everyCommittedTransactionIsWholeAndNoOtherLeavesATrace(_ scenario: CrashScenario) async throws {
        let folder = TemporaryFolder()
        let workload = CrashWorkload(scenario: scenario, folder: folder.path)
        let expected = try workload.expectations()
        let count = try await Self.operations(scenario, folder.path)
        for manner in Self.manners {
            var tried = 0
            for point in Self.points(count, about: Sample.size(2), of: "\(scenario), \(manner)") {
                try workload.prepare()
                unlink(workload.committed)
                await Self.die(scenario, folder.path, at: point, manner)
                let comment: Comment = "\(scenario), \(manner), point \(point) of \(count)"
                do {
                    try workload.check(expected, mostLost: scenario.mostLost(manner), comment)
                } catch {
                    Issue.record("\(comment): \(error)")
                }
                tried += 1
            }
            print("crash: \(scenario), \(manner): \(tried) of \(count) points, MIDSTREAM_CRASH_SEED=\(Self.seed)")
        }
    }

    /// Opens what a dead process has left and moves everything, in a process that dies as well.
    static func dieAgain(
        _ scenario: CrashScenario,
        _ folder: String,
        at point: Int,
        _ manner: KillingVFS.Manner
    ) async {
        await #expect(processExitsWith: .signal(SIGKILL)) { [folder, scenario, point, manner] in
            try KillingVFS.register()
            KillingVFS.kill(at: point, manner: manner, seed: UInt64(point))
            let workload = CrashWorkload(scenario: scenario, folder: folder)
            try workload.finish(workload.open())
            KillingVFS.killNow()
        }
    }

    @Test(arguments: CrashScenario.tried)
    func aProcessThatDiesWhileItRecoversLeavesEverythingWholeToo(_ scenario: CrashScenario) async throws {
        let folder = TemporaryFolder()
        let workload = CrashWorkload(scenario: scenario, folder: folder.path)
        let expected = try workload.expectations()
        let count = try await Self.operations(scenario, folder.path)
        var random = SeededGenerator(seed: Sample.hash("\(scenario), \(Self.seed)"))
        var tried = 0
        for point in Self.points(count, about: 1, of: "\(scenario), again") {
            let manner = Self.manners.randomElement(using: &random) ?? .before
            let others = [Int.random(in: 1...12, using: &random), Int.random(in: 12...150, using: &random)]
            try workload.prepare()
            unlink(workload.committed)
            await Self.die(scenario, folder.path, at: point, manner)
            for other in others { await Self.dieAgain(scenario, folder.path, at: other, manner) }
            let comment: Comment = "\(scenario), \(manner), points \(point) of \(count) and \(others)"
            do {
                try workload.check(expected, mostLost: scenario.mostLost(manner), comment)
            } catch {
                Issue.record("\(comment): \(error)")
            }
            tried += 1
        }
        print("crash again: \(scenario): \(tried) points, three deaths each, MIDSTREAM_CRASH_SEED=\(Self.seed)")
    }
}
