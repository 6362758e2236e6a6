import Midstream
import MidstreamTesting
import SQLiteConnection
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Lets each operation on files, and each allocation, of a migration's life fail in turn, until a run comes to its end
/// without a fault.
///
/// `MIDSTREAM_FAULTS_FULL=1`, as `make faults` sets it, tries all of them, with two exceptions: 2,000 allocations of
/// each scenario; and in a scenario that differs from another only by its syncs, the operations that depend on syncs.
/// Otherwise the sweep tries a few, spread over the whole life, so that each kind also lasts, and also strikes the
/// source alone, in one scenario or another.
/// `MIDSTREAM_FAULTS` names the scenarios and kinds that alone are tried, and `MIDSTREAM_FAULTS_AT` a single number.
@Suite struct FaultSweepTests {
    static let isFull = Files.environment("MIDSTREAM_FAULTS_FULL") == "1"
    static let chosen = Files.environment("MIDSTREAM_FAULTS")?.split(separator: ",").map(String.init)
    static let number = Files.environment("MIDSTREAM_FAULTS_AT").flatMap { Int($0) }

    /// How many runs of a scenario a short sweep makes for each kind.
    static let shortCount = Sample.size(2)
    /// A short sweep tries one of so many kinds in a scenario; the next scenario tries the next kinds.
    static let shortShare = 3
    /// How many allocations of a scenario a full sweep lets fail. There are too many to try all.
    static let mostAllocations = 2000
    /// A run that takes longer is said to hang.
    static let secondsPerRun: UInt32 = 60

    @Test(arguments: CrashScenario.allCases)
    func whateverFailsNothingIsLostAndTheMigrationGoesOn(_ scenario: CrashScenario) async throws {
        if let chosen = Self.chosen, !chosen.contains(scenario.rawValue), chosen.contains(where: Self.isScenario) {
            return
        }
        let folder = TemporaryFolder()
        let result = await #expect(processExitsWith: .success, observing: [\.exitStatus]) {
            [scenario, path = folder.path as String] in
            do {
                try FaultSweepTests.sweep(scenario, path)
            } catch {
                FaultSweepTests.note(path, "problem: \(error)")
            }
        }
        let report = String(decoding: Files.bytes(folder.file("report")), as: UTF8.self)
        let lines = report.split(separator: "\n")
        for line in lines where line.hasPrefix("problem") { Issue.record("\(scenario): \(line)") }
        if result == nil { Issue.record("\(scenario): died at \(lines.last ?? "its beginning")") }
        let counts = lines.filter { $0.hasPrefix("tried") }
        #expect(!counts.isEmpty, "\(scenario): nothing was tried")
        for line in counts { print("faults: \(scenario): \(line)") }
    }

    private static func isScenario(_ name: String) -> Bool { CrashScenario(rawValue: name) != nil }

    /// Tries the points of a scenario, and writes the results to a file.
    private static func sweep(_ scenario: CrashScenario, _ path: String) throws {
        try FailingMemory.register()
        try FailingVFS.register()
        let workload = CrashWorkload(scenario: scenario, folder: path)
        try workload.prepare()
        for file in [workload.target, workload.middle, workload.source] where Files.exists(file) {
            Files.copyDatabase(file, to: file + "-kept")
        }
        let expected = try workload.expectations()
        var allStruck = 0
        for kind in kinds(for: scenario) {
            let counts = try operations(workload, expected, kind)
            let count = counts[.once] ?? 0
            var (tried, struck, errors, problems) = (0, 0, 0, 0)
            for (number, course) in runs(scenario, kind, counts) where problems < 10 {
                let isInReach = number <= counts[course] ?? 0
                var (point, run, hasStruck) = (number, FaultRun(workload, expected, kind, course), false)
                // If a run waits less, it has fewer operations than were counted. Then one of the operations that it
                // has fails.
                for attempt in 0..<(isInReach ? 4 : 1) where !hasStruck && run.problems.isEmpty {
                    if attempt > 0 { point = 1 + point % max(1, kind.operations) }
                    note(path, "at \(kind) \(point), \(course)")
                    alarm(secondsPerRun)
                    restore(workload)
                    run = FaultRun(workload, expected, kind, course)
                    hasStruck = run.run(point)
                }
                tried += 1
                if hasStruck { struck += 1 }
                errors += run.errors
                let isMissed = isInReach && !hasStruck
                guard let problem = run.problems.first ?? (isMissed ? "did not strike" : nil) else { continue }
                problems += 1
                note(path, "problem: \(kind) \(point) of \(count), \(course): \(problem)")
            }
            alarm(0)
            allStruck += struck
            note(
                path,
                "tried \(kind): \(tried) runs for \(count) operations, struck in \(struck), \(errors) errors, \(problems) problems"
            )
        }
        if allStruck == 0 { note(path, "problem: nothing has failed") }
    }

    /// Which operations of a kind fail, and how.
    private static func runs(
        _ scenario: CrashScenario,
        _ kind: FaultKind,
        _ counts: [FaultKind.Course: Int]
    ) -> [(number: Int, course: FaultKind.Course)] {
        let courses = kind.courses.filter { counts[$0] ?? 0 > 0 }
        let count = counts[.once] ?? 0
        if let number { return courses.map { (number, $0) } }
        guard isFull else {
            // Over all scenarios, each kind gets each course.
            let turn = index(of: scenario) / shortShare + 2 * (FaultKind.allCases.firstIndex(of: kind) ?? 0)
            return (0..<(courses.isEmpty ? 0 : shortCount)).compactMap { part in
                let course = courses[(turn + part) % courses.count]
                let name = "\(scenario), \(kind), \(course)"
                let points = Sample.points(counts[course] ?? 0, about: shortCount, chosenBy: name)
                return part < points.count ? (points[part], course) : nil
            }
        }
        let step = max(1, kind == .memory ? count / mostAllocations : 1)
        // With each change of the code, the sweep begins with another one.
        let first = 1 + count * 617 % step
        return stride(from: first, through: count + 1, by: step).enumerated().flatMap { index, number in
            let other = kind.courses[index % kind.courses.count]
            let chosen = other == .once ? [.once] : [other, .once]
            return chosen.filter { kind.courses.contains($0) && ($0 == .once || number <= counts[$0] ?? 0) }.map {
                (number, $0)
            }
        }
    }

    private static func index(of scenario: CrashScenario) -> Int {
        CrashScenario.allCases.firstIndex(of: scenario) ?? 0
    }

    private static func kinds(for scenario: CrashScenario) -> [FaultKind] {
        let all = FaultKind.allCases
        if let names = chosen?.filter({ !isScenario($0) }), !names.isEmpty {
            return all.filter { names.contains("\($0)") }
        }
        // The other kinds would fail at the same operations as in the scenario without syncs.
        if isFull, scenario.isFull { return all.filter(\.dependsOnSyncs) }
        if isFull || number != nil { return all }
        return all.enumerated().filter { ($0.offset + index(of: scenario)) % shortShare == 0 }.map(\.element)
    }

    /// How many operations of a kind each course could strike, in a run in which none fails.
    private static func operations(
        _ workload: CrashWorkload,
        _ expected: [[String]],
        _ kind: FaultKind
    ) throws -> [FaultKind.Course: Int] {
        func count(_ course: FaultKind.Course) throws -> Int {
            restore(workload)
            let run = FaultRun(workload, expected, kind, course)
            let isTouched = run.run(.max)
            guard !isTouched, run.problems.isEmpty else { throw Untouched(problems: run.problems) }
            return kind.operations
        }
        var counts: [FaultKind.Course: Int] = [:]
        let all = try count(.once)
        for course in kind.courses {
            counts[course] = try course == .lastingInSource ? (workload.scenario.isSameFile ? 0 : count(course)) : all
        }
        return counts
    }

    struct Untouched: Error {
        let problems: [String]
    }

    private static func restore(_ workload: CrashWorkload) {
        for file in [workload.target, workload.middle, workload.source] {
            Files.removeDatabase(file)
            if Files.exists(file + "-kept") { Files.copyDatabase(file + "-kept", to: file) }
        }
    }

    private static func note(_ path: String, _ line: String) {
        let file = open(path + "/report", O_WRONLY | O_CREAT | O_APPEND, 0o644)
        let bytes = Array((line + "\n").utf8)
        _ = write(file, bytes, bytes.count)
        close(file)
    }
}
