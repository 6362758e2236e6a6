internal import Midstream
internal import SQLiteConnection

/// How long it takes to delete all rows of a table that moves, compared with a native one.
func deletionBenchmark(_ options: Options, _ report: Report) throws {
    let folder = try WorkFolder(below: options.folder)
    let messages = Messages(rows: options.rows)
    Report.note("deletion: making \(options.rows.grouped) rows")
    try messages.make(folder.file("rows.db"))
    func time(_ database: Database) throws -> Double {
        let start = options.processorTime ? Machine.processorTime : Machine.time
        try database.execute("DELETE FROM messages")
        return (options.processorTime ? Machine.processorTime : Machine.time) - start
    }
    var lines: [[String]] = []
    for part in [0, 1, 50, 99] as [Int64] {
        var times: (native: [Double], moving: [Double]) = ([], [])
        for round in 1...5 {
            Report.note("deletion: \(part) % moved, round \(round) of 5")
            for name in ["native.db", "source.db"] { try folder.copy("rows.db", to: name) }
            defer { for name in ["native.db", "source.db", "target.db"] { folder.remove(name) } }
            let native = try Database(path: folder.file("native.db"))
            let moving = try Database(path: folder.file("target.db"))
            try moving.execute(Messages.schema)
            try moving.execute(Messages.index)
            try moving.addMigration(source: .file(folder.file("source.db"))) { table in
                if table.name == "messages" { table.sourceTable = "messages" }
            }
            if part > 0 { try moving.stepMigration(rows: options.rows * part / 100) }
            times.native.append(try time(native))
            times.moving.append(try time(moving))
            let left = try moving.fetchValue(Int64.self, "SELECT count(*) FROM messages")
            guard left == 0 else { throw SQLiteError(code: .error, message: "rows are left") }
            native.close()
            moving.close()
        }
        lines.append([
            "\(part) %", times.native.median.asTime, times.moving.median.asTime,
            (times.moving.median / times.native.median).short,
            part == 0 ? "1.00 \(times.moving.median <= times.native.median ? "kept" : "EXCEEDED")" : "–",
        ])
    }
    report.section(
        "deletion",
        "DELETE of all of \(options.rows.grouped) messages; medians of 5"
            + (options.processorTime ? "; processor time" : "")
    )
    report.table(["moved", "native", "moving", "times native", "limit"], lines)
}
