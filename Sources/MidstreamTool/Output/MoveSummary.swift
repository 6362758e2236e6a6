internal import Midstream

/// The summary that is shown at the end of a migration.
struct MoveSummary {
    var tally: MoveTally
    var elapsed: Duration
    /// The signal that ended the migration before all rows had moved.
    var signal: Int32?
    /// The file that has moved as a whole, and whether it has been wiped.
    var source: (path: String, isWiped: Bool)?
    /// The tables that were named, and that had already moved before.
    var movedBefore: [TableChoice] = []
    /// The objects that stay in the source although they are about tables that have moved, and the source.
    var left: [LeftObject] = []
    var leftIn: String?

    var isInterrupted: Bool { signal != nil }

    var text: String {
        before + (tally.tables.isEmpty ? "There is nothing to move.\n" : moved) + stays + (source.map(Self.fate) ?? "")
    }

    private var before: String {
        movedBefore.map { table in
            "\(table.target): table \(table.source) of \(leftIn ?? "the source") has moved already\n"
        }.joined()
    }

    private var stays: String {
        if left.isEmpty { return "" }
        return "Not moved, and still in \(leftIn ?? "the source"): \(left.map(\.text).joined(separator: ", ")).\n"
    }

    private static func fate(_ source: (path: String, isWiped: Bool)) -> String {
        source.isWiped
            ? "\(source.path) has been overwritten and deleted.\n"
            : "\(source.path) still has all rows: delete it, or run the command again with --wipe.\n"
    }

    private var moved: String {
        var text = ""
        for table in tally.tables { text += line(table) + "\n" }
        let seconds = NumberText.seconds(in: elapsed)
        let rate = seconds > 0 ? Int64((Double(tally.moved) / seconds).rounded()) : 0
        text +=
            "Moved \(NumberText.count(tally.moved, "row")) of \(NumberText.count(Int64(tally.tables.count), "table"))"
        text += " in \(NumberText.seconds(elapsed)), \(NumberText.grouped(rate)) rows/s.\n"
        if isInterrupted { text += "Interrupted; nothing is lost. Run the command again to go on.\n" }
        return text
    }

    private func line(_ table: MoveTally.Table) -> String {
        let progress = table.progress
        guard table.isDone else {
            let pending = progress.pendingRows.map { ", \(NumberText.grouped($0)) pending" } ?? ""
            return "\(progress.name): \(NumberText.grouped(progress.movedRows)) rows moved\(pending)"
        }
        var text = "\(progress.name): all \(NumberText.count(progress.totalRows ?? progress.movedRows, "row")) moved"
        if let reason = table.keptBecause { text += "; source table \(progress.sourceTable) stays: \(reason)" }
        return text
    }

    var json: JSON {
        var members = [
            ("finished", JSON(tally.isFinished)),
            ("interrupted", JSON(isInterrupted)),
            ("rows", JSON(tally.moved)),
            ("seconds", JSON(NumberText.seconds(in: elapsed))),
            ("tables", JSON(array: tally.tables.map(Self.json))),
        ]
        if leftIn != nil {
            members.append(("movedBefore", JSON(array: movedBefore.map { JSON($0.target) })))
            members.append(("left", JSON(array: left.map(\.json))))
        }
        if let source { members.append(("sourceWiped", JSON(source.isWiped))) }
        return JSON(members: members)
    }

    private static func json(_ table: MoveTally.Table) -> JSON {
        let progress = table.progress
        let moved = table.isDone ? progress.totalRows ?? progress.movedRows : progress.movedRows
        return JSON(object: [
            "table": JSON(progress.name),
            "sourceTable": JSON(progress.sourceTable),
            "source": JSON(progress.sourcePath),
            "phase": JSON(table.isDone ? "done" : progress.phase.name),
            "moved": JSON(moved),
            "pending": table.isDone ? JSON(0) : JSON(progress.pendingRows),
            "total": JSON(progress.totalRows),
            "sourceKept": JSON(table.keptBecause),
        ])
    }
}
