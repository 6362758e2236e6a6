/// Shows a migration's progress: a bar on a terminal, otherwise a line of text or of JSON now and then.
struct ProgressDisplay {
    enum Style {
        case bar
        case lines
        case json
    }

    private let style: Style
    private let output: Output
    private let clock = ContinuousClock()
    private let start: ContinuousClock.Instant
    private var lastShown: ContinuousClock.Instant
    private var isBarShown = false
    private var rate = RateMeter()

    init(_ style: Style, _ output: Output) {
        self.style = style
        self.output = output
        start = clock.now
        lastShown = start
    }

    static func style(isJSON: Bool) -> Style {
        if isJSON { return .json }
        return SystemCalls.isTerminal(SystemCalls.standardOutput) ? .bar : .lines
    }

    /// The time since the display was made.
    var elapsed: Duration { clock.now - start }

    /// Shows the progress, if it is time to do so.
    mutating func show(_ tally: MoveTally) {
        let now = clock.now
        rate.add(rows: tally.moved, at: NumberText.seconds(in: now - start))
        let interval: Duration = style == .bar ? .milliseconds(100) : .seconds(1)
        guard now - lastShown >= interval else { return }
        lastShown = now
        switch style {
        case .bar:
            output.write("\r\u{1b}[K" + ProgressText.bar(tally, rate.rowsPerSecond, SystemCalls.terminalWidth()))
            isBarShown = true
        case .lines: output.line(ProgressText.line(tally, rate.rowsPerSecond))
        case .json: output.line(JSON(object: ["progress": ProgressText.json(tally, rate.rowsPerSecond)]).text)
        }
        output.flush()
    }

    /// Removes the bar.
    mutating func end() {
        if isBarShown { output.write("\r\u{1b}[K") }
        isBarShown = false
    }
}

/// The speed in the last seconds.
struct RateMeter {
    private var marks: [(seconds: Double, rows: Int64)] = [(0, 0)]
    private static let window = 3.0

    mutating func add(rows: Int64, at seconds: Double) {
        marks.append((seconds, rows))
        while marks.count > 2, marks[1].seconds < seconds - Self.window { marks.removeFirst() }
    }

    /// The rows per second; 0 until some time has passed.
    var rowsPerSecond: Double {
        guard let first = marks.first, let last = marks.last, last.seconds > first.seconds else { return 0 }
        return Double(last.rows - first.rows) / (last.seconds - first.seconds)
    }
}
