import Testing

/// The answers of sqllogictest scripts stay the same while the tables move.
@Suite struct SQLLogicTests {
    /// Samples of the scripts: as many modes as there must be, and of each script as much as a short test allows.
    private static let runner =
        LogicFiles.isFull
        ? LogicRunner(modes: LogicFiles.modes, onLine: LogicFiles.say)
        : LogicRunner(
            modes: [0, 1, 50, 99, 100].map { LogicMode(.frozen(percent: $0)) } + [LogicMode(.stepping(rows: 1))],
            sampleSize: Sample.size(25),
            seed: LogicFiles.seed
        )

    @Test(
        .enabled(if: !LogicFiles.all.isEmpty, "neither MIDSTREAM_SQLLOGIC nor MIDSTREAM_SHARED names scripts"),
        arguments: LogicFiles.chosen != nil || LogicFiles.isFull ? LogicFiles.all : Sample.part(of: LogicFiles.all)
    )
    func answersStayTheSameWhileTablesMove(_ path: String) throws {
        let report = Self.runner.run(try LogicFiles.script(path))
        Self.judge(report)
        if !LogicFiles.isFull {
            print("sqllogic: \(report.script.name), seed \(LogicFiles.seed): \(report.recordCount) records")
        }
    }

    @Test(.enabled(if: LogicFiles.chosen == nil), arguments: LogicFiles.own)
    func answersOfOwnScriptsStayTheSameInAllModes(_ path: String) throws {
        let report = LogicRunner().run(try LogicFiles.script(path))
        #expect(report.native.isEmpty, "\(report.native.map { "\($0)" }.joined(separator: "\n"))")
        Self.judge(report)
        #expect(report.modeCount >= 7)
        #expect(report.recordCount > 0)
    }

    private static func judge(_ report: LogicRunner.Report) {
        if !report.native.isEmpty {
            print(
                "sqllogic: \(report.script.name): natively \(report.native.count) records are not answered as expected:"
            )
            for failure in report.native.prefix(5) { print(failure) }
        }
        for difference in report.differences.prefix(20) { Issue.record("\(difference)") }
        if report.differences.count > 20 { Issue.record("and \(report.differences.count - 20) more") }
    }
}
