import Midstream
import MidstreamTesting
import SQLiteConnection
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Each operation on files, and each allocation, of a migration's life fails in turn, until a run comes to its end
/// untouched.
///
/// `MIDSTREAM_FAULTS_FULL=1`, as `make faults` sets it, tries all of them, but of allocations 2,000 in each scenario; otherwise every so-many-th is tried.
/// `MIDSTREAM_FAULTS` names scenarios and kinds to try alone, and `MIDSTREAM_FAULTS_AT` one number.
@Suite struct FaultSweepTests {
    static let isFull = Files.environment("MIDSTREAM_FAULTS_FULL") == "1"
    static let chosen = Files.environment("MIDSTREAM_FAULTS")?.split(separator: ",").map(String.init)
    static let number = Files.environment("MIDSTREAM_FAULTS_AT").flatMap { Int($0) }

    /// Runs that a kind gets of a scenario in a short sweep.
    static let shortCount = Sample.size(2)
    /// One of how many kinds a short sweep of a scenario has; the next scenario has the next ones.
    static let shortShare = 3
    /// Allocations that fail in a full sweep of a scenario; there are too many to try all.
    static let mostAllocations = 2000
    /// A run that takes longer hangs.
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

    /// Tries the points of a scenario, and writes what came of them to a file.
    private static func sweep(_ scenario: CrashScenario, _ path: String) throws {
        try FailingMemory.register()
        try FailingVFS.register()
        let workload = CrashWorkload(scenario: scenario, folder: path)
        try workload.prepare()
        for file in [workload.target, workload.middle, workload.source] where Files.exists(file) {
            Files.copyDatabase(file, to: file + "-kept")
        }
        let expected = try workload.expectations()
        let kinds = kinds(for: scenario)
        for kind in kinds {
            let count = try operations(workload, expected, kind)
            let wanted = isFull ? (kind == .memory ? mostAllocations : count) : shortCount
            let step = max(1, count / max(1, wanted))
            var (tried, struck, errors, problems) = (0, 0, 0, 0)
            // Another one with each change of the code.
            let first = 1 + (count * 617 >> 4) % step
            for (index, number) in stride(from: first, through: count + 1, by: step).enumerated() {
                if let only = Self.number, only != number { continue }
                let all = kind.courses
                let courses = Self.number != nil ? all : Array(Set([all[index % all.count]] + (isFull ? [.once] : [])))
                for course in courses {
                    note(path, "at \(kind) \(number), \(course)")
                    alarm(secondsPerRun)
                    restore(workload)
                    let run = FaultRun(workload, expected, kind, course)
                    tried += 1
                    if run.run(number) { struck += 1 }
                    errors += run.errors
                    if let problem = run.problems.first {
                        problems += 1
                        note(path, "problem: \(kind) \(number) of \(count), \(course): \(problem)")
                        if problems >= 10 { break }
                    }
                }
                if problems >= 10 { break }
            }
            alarm(0)
            note(
                path,
                "tried \(kind): \(tried) runs for \(count) operations, struck in \(struck), \(errors) errors, \(problems) problems"
            )
        }
    }

    private static func kinds(for scenario: CrashScenario) -> [FaultKind] {
        let all = FaultKind.allCases
        if let names = chosen?.filter({ !isScenario($0) }), !names.isEmpty {
            return all.filter { names.contains("\($0)") }
        }
        if isFull || number != nil { return all }
        let first = CrashScenario.allCases.firstIndex(of: scenario) ?? 0
        return all.enumerated().filter { ($0.offset + first) % shortShare == 0 }.map(\.element)
    }

    /// How many operations of a kind there are in a run that is not touched.
    private static func operations(
        _ workload: CrashWorkload,
        _ expected: [[String]],
        _ kind: FaultKind
    ) throws -> Int {
        restore(workload)
        let run = FaultRun(workload, expected, kind, .once)
        let isTouched = run.run(.max)
        guard !isTouched, run.problems.isEmpty else { throw Untouched(problems: run.problems) }
        return kind.operations
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
