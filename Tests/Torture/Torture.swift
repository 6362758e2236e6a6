import Dispatch
import Midstream
import SQLiteConnection

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Runs rounds one after the other, each with a fresh pair of files.
struct Torture {
    let seed: UInt64
    let round: Int

    /// The longest time that a round may take: twice what the longest took under the thread sanitizer, beside other
    /// work.
    private static let patience: Duration = .seconds(600)
    /// The torture stops after so many failed rounds.
    private static let failuresWanted = 5
    /// Within so many rounds, somebody must have been killed, or must have cancelled while there was something to bring
    /// back. A single round may be over before that.
    private static let roundsThatTell = 8

    /// - Returns: Whether nothing went wrong.
    func run(for time: Duration) -> Bool {
        let start = ContinuousClock.now
        var round = round
        var counts: [Plan.Count: Int] = [:]
        var (failures, cancelled) = (0, 0)
        repeat {
            let plan = Plan(seed: seed, round: round, folder: Files.makeFolder())
            do {
                try run(plan)
            } catch {
                plan.note("\(error)")
            }
            for count in Plan.Count.allCases { counts[count, default: 0] += plan.count(of: count) }
            if plan.isCancelled { cancelled += 1 }
            let problems = plan.problems
            if problems.isEmpty {
                Files.removeFolder(plan.folder)
            } else {
                failures += 1
                say("torture: FAILED: --seed \(seed) --round \(round), \(plan)\n" + problems)
            }
            round += 1
        } while .now - start < time && failures < Self.failuresWanted
        let told = Plan.Count.allCases.map { "\(counts[$0] ?? 0) \($0.rawValue)" }.joined(separator: ", ")
        say("torture: --seed \(seed), rounds \(self.round) to \(round - 1): \(told), \(failures) rounds failed")
        let rounds: [(Plan.Count, Int)] = [
            (.steps, .max), (.kills, round - self.round), (.cancellations, cancelled),
        ]
        let missing = rounds.filter { counts[$0] ?? 0 == 0 && $1 >= Self.roundsThatTell }
        for (count, _) in missing { say("torture: FAILED: there were no \(count.rawValue)") }
        return failures == 0 && missing.isEmpty
    }

    private func say(_ text: String) { Files.append(text + "\n", to: "/dev/stdout") }

    private func run(_ plan: Plan) throws {
        try plan.createFiles()
        if plan.course != .isBegunAnew, !plan.isBegunByAll {
            let database = try plan.open()
            try plan.addMigration(database)
            database.close()
        }
        let start = ContinuousClock.now
        let group = DispatchGroup()
        for lane in 0..<Plan.lanes {
            DispatchQueue(label: "lane").async(group: group) { @Sendable in keepAlive(plan, lane) }
        }
        while group.wait(timeout: .now() + .milliseconds(100)) == .timedOut {
            if .now - start > Self.patience, !plan.isOver {
                plan.note("the migration does not come to its end")
                plan.end()
            }
        }
        try plan.checkEnd()
    }

    /// Keeps a process running in a lane until the round is over: when one has been killed, starts the next one.
    private func keepAlive(_ plan: Plan, _ lane: Int) {
        var generation = 0
        repeat {
            let before = plan.count(of: .kills, lane) + plan.count(of: .ends, lane)
            let status = runProcess(plan, lane, generation)
            let isOwn = plan.count(of: .kills, lane) + plan.count(of: .ends, lane) == before + 1
            if status & 0x7f != SIGKILL || !isOwn { plan.note("process \(lane).\(generation) ended with \(status)") }
            generation += 1
        } while !plan.isOver
    }

    /// - Returns: What `waitpid` says of the process.
    private func runProcess(_ plan: Plan, _ lane: Int, _ generation: Int) -> Int32 {
        let program = CommandLine.arguments[0]
        let arguments = [
            program, "--seed", "\(seed)", "--round", "\(plan.round)", "--lane", "\(lane)", "--generation",
            "\(generation)", plan.folder,
        ]
        var argv = arguments.map { strdup($0) } + [nil]
        defer { for argument in argv { free(argument) } }
        var pid = pid_t()
        let code = posix_spawnp(&pid, program, nil, nil, &argv, environ)
        precondition(code == 0, "cannot run \(program): \(String(cString: strerror(code)))")
        var status: Int32 = 0
        while waitpid(pid, &status, 0) < 0, errno == EINTR {}
        return status
    }
}
