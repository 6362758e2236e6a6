internal import Midstream

/// A migration's progress in one line.
enum ProgressText {
    /// `[#####-----]  50.0 %  100,000 of 200,000 rows  61,000 rows/s  1.6 s left`, cut to the width.
    static func bar(_ tally: MoveTally, _ rate: Double, _ width: Int) -> String {
        let text = "  " + parts(tally, rate).joined(separator: "  ")
        let cells = min(30, width - text.count - 3)
        guard cells >= 5, let fraction = tally.fraction else {
            return String(text.dropFirst(2).prefix(max(0, width - 1)))
        }
        let full = min(cells, Int((Double(cells) * fraction).rounded(.down)))
        return "[" + String(repeating: "#", count: full) + String(repeating: "-", count: cells - full) + "]" + text
    }

    static func line(_ tally: MoveTally, _ rate: Double) -> String {
        parts(tally, rate).joined(separator: ", ")
    }

    private static func parts(_ tally: MoveTally, _ rate: Double) -> [String] {
        guard let fraction = tally.fraction, let total = tally.totalRows else { return ["counting rows"] }
        if total == tally.settledRows, tally.outcome == .waitingForReaders {
            return [NumberText.percent(fraction), "waiting for connections that still read from before"]
        }
        var parts = [
            NumberText.percent(fraction),
            "\(NumberText.grouped(tally.settledRows)) of \(NumberText.grouped(total)) rows",
            "\(NumberText.grouped(Int64(rate.rounded()))) rows/s",
        ]
        if let left = secondsLeft(tally, rate) { parts.append("\(NumberText.seconds(.seconds(left))) left") }
        return parts
    }

    private static func secondsLeft(_ tally: MoveTally, _ rate: Double) -> Double? {
        guard let total = tally.totalRows, rate > 0 else { return nil }
        let seconds = Double(total - tally.settledRows) / rate
        return seconds >= 0 && seconds < 1e8 ? seconds : nil
    }

    static func json(_ tally: MoveTally, _ rate: Double) -> JSON {
        JSON(object: [
            "rows": JSON(tally.settledRows),
            "total": JSON(tally.totalRows),
            "fraction": tally.fraction.map { JSON($0) } ?? .null,
            "rowsPerSecond": JSON(rate.rounded()),
            "secondsLeft": secondsLeft(tally, rate).map { JSON($0) } ?? .null,
        ])
    }
}
