import Midstream
import SQLiteConnection
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Processes that step, write, read, come and go, checkpoint, cancel, and are killed, all at the same time.
///
/// `MIDSTREAM_TORTURE_SECONDS` says for how long, `MIDSTREAM_TORTURE_SEED` with which numbers, and
/// `MIDSTREAM_TORTURE_ROUND` from which round on. What the processes draw is given by the seed, what the system makes of
/// it is not.
@Suite struct TortureTests {
    private static func setting(_ name: String) -> UInt64? {
        Files.environment("MIDSTREAM_TORTURE_" + name).flatMap { UInt64($0) }
    }

    /// The longest that a round may take.
    private static let patience: Duration = .seconds(300)

    @Test func processesThatAreKilledLoseNothingAndReadEachRowOnce() async throws {
        let seed = Self.setting("SEED") ?? UInt64(time(nil))
        let end = ContinuousClock.now + .seconds(Int64(clamping: Self.setting("SECONDS") ?? 10))
        var round = Int(clamping: Self.setting("ROUND") ?? 0)
        var counts: [TorturePlan.Count: Int] = [:]
        var failures = 0
        repeat {
            let folder = TemporaryFolder()
            let plan = TorturePlan(seed: seed, round: round, folder: folder.path)
            let problems = try await Self.run(plan)
            for count in TorturePlan.Count.allCases { counts[count, default: 0] += plan.count(of: count) }
            if !problems.isEmpty {
                failures += 1
                Issue.record("MIDSTREAM_TORTURE_SEED=\(seed) MIDSTREAM_TORTURE_ROUND=\(round), \(plan): \(problems)")
            }
            round += 1
        } while .now < end && failures < 5
        let told = TorturePlan.Count.allCases.map { "\(counts[$0] ?? 0) \($0.rawValue)" }.joined(separator: ", ")
        print("torture: MIDSTREAM_TORTURE_SEED=\(seed), up to round \(round): \(told), \(failures) rounds failed")
    }

    /// - Returns: What went wrong.
    private static func run(_ plan: TorturePlan) async throws -> [String] {
        try plan.createFiles()
        if plan.course != .isBegunAnew {
            let database = try plan.open()
            try plan.addMigration(database)
            database.close()
        }
        let start = ContinuousClock.now
        let deaths = await withTaskGroup(of: Int.self) { group in
            for lane in 0..<TorturePlan.lanes { group.addTask { await keepAlive(plan, lane) } }
            group.addTask {
                while !plan.isOver {
                    try? await Task.sleep(for: .milliseconds(100))
                    if .now - start > patience {
                        plan.note("the migration does not come to its end")
                        plan.end()
                    }
                }
                return 0
            }
            return await group.reduce(0, +)
        }
        if deaths != plan.count(of: .kills) + plan.count(of: .ends) {
            plan.note("\(deaths) processes were killed, and not all by themselves")
        }
        do {
            try plan.checkEnd()
        } catch {
            plan.note("at the end: \(error)")
        }
        return plan.problems
    }

    /// Has a process in a lane until the round is over; the next one when one has been killed.
    ///
    /// - Returns: How many there were.
    private static func keepAlive(_ plan: TorturePlan, _ lane: Int) async -> Int {
        var generation = 0
        repeat {
            if await !isKilled(plan, lane, generation) {
                plan.note("process \(lane).\(generation) did not end by SIGKILL")
            }
            generation += 1
        } while !plan.isOver
        return generation
    }

    private static func isKilled(_ plan: TorturePlan, _ lane: Int, _ generation: Int) async -> Bool {
        await #expect(processExitsWith: .signal(SIGKILL)) { [plan, lane, generation] in
            await TortureProcess(plan: plan, lane: lane, generation: generation).run()
        } != nil
    }
}
