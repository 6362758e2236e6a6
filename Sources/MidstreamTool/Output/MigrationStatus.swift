internal import Midstream

/// How far the migrations of a file are, for people and for machines.
struct MigrationStatus {
    struct Table {
        var progress: MigrationProgress.Table
        /// The number of rows that belong to the move; `nil` if they are not counted yet and the source cannot be read.
        var total: Int64?

        var moved: Int64 { progress.movedRows }
        var pending: Int64? { total.map { max(0, $0 - moved) } }
    }

    let target: String
    let tables: [Table]

    var isFinished: Bool { tables.allSatisfy { $0.progress.phase == .done } }

    /// Counts the rows of those tables for which no step has counted them yet.
    ///
    /// - Complexity: O(rows) for these tables, O(1) for others.
    init(_ progress: MigrationProgress, target: String, keys: FileKeys) {
        self.target = target
        var count = RowCount(target: target, keys: keys)
        tables = progress.tables.map { table in Table(progress: table, total: count.rows(of: table)) }
    }

    // MARK: Text

    var text: String {
        if tables.isEmpty { return "\(target) has no migrations\n" }
        let moving = tables.count { $0.progress.phase != .done }
        var text = "\(target): \(NumberText.count(Int64(moving), "table")) moving\n"
        for table in tables {
            text += "  " + line(table) + "\n"
            if let stop = table.progress.stop { text += "    stopped: \(CommandWords.message(stop.message))\n" }
        }
        return text
    }

    private func line(_ table: Table) -> String {
        let progress = table.progress
        var rows = "\(NumberText.grouped(table.moved)) rows moved"
        if let pending = table.pending { rows += ", \(NumberText.grouped(pending)) pending" }
        if let total = table.total, total > 0 {
            rows += " (\(NumberText.percent(min(1, Double(table.moved) / Double(total)))))"
        }
        var source = "from \(progress.sourcePath ?? "this file")"
        if OwnNames.isBackup(progress.sourceTable) {
            source += ", table \(progress.name) as it was before its upgrade"
        } else if progress.sourceTable != progress.name || progress.sourcePath == nil {
            source += ", table \(progress.sourceTable)"
        }
        if let condition = progress.condition { source += ", where \(condition)" }
        if let destination = progress.movesOnTo { source += ", moving on to \(destination)" }
        if let unreadable = progress.unreadableRowsTable {
            source += ", without unreadable rows: see table \(unreadable)"
        }
        let phase = progress.isReturning ? "returning" : progress.phase.name
        return "\(progress.name): \(phase), \(rows), \(source)"
    }

    // MARK: JSON

    var json: JSON {
        JSON(object: [
            "target": JSON(target),
            "finished": JSON(isFinished),
            "tables": tablesJSON,
        ])
    }

    var tablesJSON: JSON { JSON(array: tables.map(Self.json)) }

    private static func json(_ table: Table) -> JSON {
        JSON(object: [
            "table": JSON(table.progress.name),
            "sourceTable": JSON(table.progress.sourceTable),
            "source": JSON(table.progress.sourcePath),
            "where": JSON(table.progress.condition),
            "phase": JSON(table.progress.phase.name),
            "returning": JSON(table.progress.isReturning),
            "movesOnTo": JSON(table.progress.movesOnTo),
            "unreadableRowsTable": JSON(table.progress.unreadableRowsTable),
            "moved": JSON(table.moved),
            "pending": JSON(table.pending),
            "total": JSON(table.total),
            "stop": table.progress.stop.map(json) ?? JSON(String?.none),
        ])
    }

    private static func json(_ stop: MigrationStop) -> JSON {
        JSON(object: [
            "code": JSON(stop.code.rawValue),
            "message": JSON(CommandWords.message(stop.message)),
            "row": JSON(stop.row),
        ])
    }
}
