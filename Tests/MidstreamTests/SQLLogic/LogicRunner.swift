/// Runs scripts natively and in all modes.
struct LogicRunner: Sendable {
    /// What came of one script.
    struct Report {
        var script: LogicScript
        /// Records that the library itself does not answer as the script expects. In the other modes their answers must
        /// be the library's.
        var native: [LogicFailure] = []
        /// Where an answer changes because tables move.
        var differences: [LogicFailure] = []
        /// How many modes it ran in, and how many records in all of them.
        var modeCount = 0
        var recordCount = 0
        /// The modes in which no table was moved out again although it might have been.
        var movedOnce: Set<String> = []
    }

    var modes = LogicMode.all
    /// The longest part of a script that is run in one mode, from its first query on; `nil` for all.
    var sampleSize: Int?
    var seed: UInt64 = 1
    /// Gets a line about each mode as soon as it has run.
    var onLine: @Sendable (String) -> Void = { _ in }

    func run(_ script: LogicScript) -> Report {
        var report = Report(script: script)
        do {
            guard let sampleSize else {
                let native = try NativeRun(script)
                report.native = native.failures
                for (turn, mode) in modes.enumerated() { try run(script, native, mode, turn, &report) }
                return report
            }
            for (turn, mode) in modes.enumerated() {
                let sample = script.sample(sampleSize, seed: seed &* 1000 &+ UInt64(turn))
                let native = try NativeRun(sample)
                report.native += native.failures
                try run(sample, native, mode, turn, &report)
            }
        } catch {
            report.differences.append(
                LogicFailure(script: script.name, line: 0, mode: "native", sql: "", expected: "a run", got: "\(error)")
            )
        }
        return report
    }

    private func run(
        _ script: LogicScript,
        _ native: NativeRun,
        _ mode: LogicMode,
        _ turn: Int,
        _ report: inout Report
    ) throws {
        if isRepeated(script, native, mode, report) {
            onLine("\(script.name), \(mode): as before")
            return
        }
        let start = CPUTime.now
        do {
            let run = try MovingRun(script, native, mode, turn: turn)
            do {
                try run.run()
            } catch {
                report.differences.append(failure(script, mode, "\(error)", line: run.line))
            }
            report.differences += run.failures
            report.recordCount += run.recordCount
            if mode.movesAgain, run.roundCount == 0 { report.movedOnce.insert("\(mode)") }
            report.modeCount += 1
            onLine(line(script, mode, run, CPUTime.now - start))
        } catch {
            report.differences.append(failure(script, mode, "\(error)", line: 0))
        }
    }

    /// Whether a mode would do once more what another has done with a script.
    private func isRepeated(
        _ script: LogicScript,
        _ native: NativeRun,
        _ mode: LogicMode,
        _ report: Report
    ) -> Bool {
        if mode.startsEarly {
            let positions = [true, false].map { LogicStart.position(in: script, native, isEarly: $0) }
            return positions[0] == positions[1]
        }
        return !mode.movesAgain && report.movedOnce.contains("\(LogicMode(mode.movement))")
    }

    private func failure(_ script: LogicScript, _ mode: LogicMode, _ text: String, line: Int) -> LogicFailure {
        LogicFailure(
            script: script.name,
            line: line,
            mode: "\(mode)",
            sql: "outside a record",
            expected: "no error",
            got: text
        )
    }

    private func line(_ script: LogicScript, _ mode: LogicMode, _ run: MovingRun, _ seconds: Double) -> String {
        var text =
            "\(script.name), \(mode): \(run.recordCount) records, \(run.failures.count) differences, "
            + "\(run.tableCount) tables in \(run.roundCount + 1) moves, \(run.drainCount) drains, \(seconds.rounded3) s, "
            + "records \(run.seconds.rounded3) s, natively \(run.nativeSeconds.rounded3) s"
        if run.roundsLeftOut > 0 { text += ", \(run.roundsLeftOut) moves left out: too many sources" }
        for slow in run.slow.sorted(by: { $0.seconds > $1.seconds }).prefix(5) {
            text += "\n  slow: line \(slow.line): \(slow.seconds.rounded3) s, natively \(slow.native.rounded3) s"
        }
        return text
    }
}

extension Double {
    fileprivate var rounded3: String { LogicValue.real(self) }
}
