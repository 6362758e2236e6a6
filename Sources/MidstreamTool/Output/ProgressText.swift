internal import Midstream

/// A migration's progress in one line.
enum ProgressText {
    /// `[#####-----]  50.0 %  100,000 of 200,000 rows  61,000 rows/s  1.6 s left`, as wide as the terminal.
    ///
    /// If there is no room for all of it, the speed is left out first, then the number of rows, then the bar.
    static func bar(_ tally: MoveTally, _ rate: Double, _ width: Int) -> String {
        bar(parts(tally, rate), tally.fraction, width)
    }

    /// - Parameter parts: The percentage, the rows, the speed and the time that is left, if they are known.
    static func bar(_ parts: [String], _ fraction: Double?, _ width: Int) -> String {
        // The last column stays free, since some terminals would begin another line.
        let columns = max(0, width - 1)
        guard let fraction else { return String(parts.joined(separator: "  ").prefix(columns)) }
        var shown = parts
        var droppable = [2, 1].filter { parts.indices.contains($0) }
        while true {
            let text = shown.map { "  " + $0 }.joined()
            let cells = min(mostCells, columns - text.count - 2)
            if cells >= fewestCells {
                let full = min(cells, Int((Double(cells) * fraction).rounded(.down)))
                return "[" + String(repeating: "#", count: full) + String(repeating: "-", count: cells - full) + "]"
                    + text
            }
            guard !droppable.isEmpty else { return String(text.dropFirst(2).prefix(columns)) }
            shown.remove(at: droppable.removeFirst())
        }
    }

    private static let fewestCells = 5
    private static let mostCells = 60

    static func line(_ tally: MoveTally, _ rate: Double) -> String {
        parts(tally, rate).joined(separator: ", ")
    }

    private static func parts(_ tally: MoveTally, _ rate: Double) -> [String] {
        guard let fraction = tally.fraction, let total = tally.totalRows else { return ["counting rows"] }
        if total == tally.settledRows, tally.outcome == .waitingForReaders {
            return [NumberText.percent(fraction), "waiting for connections that still read an earlier state"]
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
