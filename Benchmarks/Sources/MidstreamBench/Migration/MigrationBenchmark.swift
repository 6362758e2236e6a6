/// Whole migrations, compared with the copy that SQLite makes in one go.
func migrationBenchmark(_ options: Options, _ report: Report) throws {
    let folder = try WorkFolder(below: options.folder)
    let messages = Messages(rows: options.rows)
    Report.note("migration: making \(options.rows.grouped) rows")
    try messages.make(folder.file("rows.db"))
    let size = WorkFolder.size(of: folder.file("rows.db"))

    let ways: [(name: String, budget: Int, isCompared: Bool)] = [
        ("INSERT … SELECT, DROP", 0, true), ("steps of 10 ms", 10, true), ("the same, not compared", 10, false),
        ("steps of 1 s", 1000, true), ("the same, not compared", 1000, false), ("UNION ALL view, row by row", -1, true),
    ]
    var runs: [MigrationRun] = []
    for way in ways {
        Report.note("migration: \(way.name)")
        try folder.copy("rows.db", to: "source.db")
        runs.append(
            try MigrationRun.make(
                source: folder.file("source.db"),
                target: folder.file("target.db"),
                budget: way.budget,
                isCompared: way.isCompared
            )
        )
        folder.remove("source.db")
        folder.remove("target.db")
    }
    report.section(
        "migration",
        "\(options.rows.grouped) messages, \(size.asMegabytes) with their index, from one file to another, synchronous NORMAL"
    )
    report.table(
        [
            "way", "time", "CPU", "rows/s", "times one go", "times CPU", "steps", "p50", "p99", "longest move",
            "longest other", "peak WAL", "peak RSS", "pages, times one go",
        ],
        zip(ways, runs).map { way, run in
            [
                way.name, run.time.asTime, run.processorTime.asTime,
                Int64(run.rows / run.time).grouped, (run.time / run.rows / (runs[0].time / runs[0].rows)).short,
                (run.processorTime / run.rows / (runs[0].processorTime / runs[0].rows)).short,
                Int64(run.steps).grouped, run.median.asTime, run.percentile99.asTime, run.longestMove.asTime,
                run.longestOther.asTime, Int64(run.peakWAL).asMegabytes, Int64(run.peakMemory).asMegabytes,
                run.pages > 0 ? (run.pages / runs[0].pages).short : "–",
            ]
        }
    )
}

/// The memory that a large migration takes, compared with the same copy made in one go.
///
/// - Returns: Whether the migration takes as little memory as it should.
func memoryBenchmark(_ options: Options, _ report: Report) throws -> Bool {
    let limit = 32_000_000.0
    let folder = try WorkFolder(below: options.folder)
    Report.note("memory: making \(options.memoryRows.grouped) rows")
    try Messages(rows: options.memoryRows).make(folder.file("rows.db"))
    let size = WorkFolder.size(of: folder.file("rows.db"))
    var runs: [MigrationRun] = []
    for budget in [0, 10] {
        Report.note(budget == 0 ? "memory: one go" : "memory: steps")
        try folder.copy("rows.db", to: "source.db")
        runs.append(
            try MigrationRun.make(source: folder.file("source.db"), target: folder.file("target.db"), budget: budget)
        )
        folder.remove("source.db")
        folder.remove("target.db")
    }
    let isWithin = runs[1].peakMemory - runs[0].peakMemory < limit
    report.section("memory", "a process that moves \(options.memoryRows.grouped) messages, \(size.asMegabytes)")
    report.table(
        ["way", "time", "CPU", "rows/s", "times one go", "p99", "longest move", "peak WAL", "peak RSS", "limit"],
        zip(["INSERT … SELECT, DROP", "steps of 10 ms"], runs).enumerated().map { index, way in
            let (name, run) = way
            return [
                name, run.time.asTime, run.processorTime.asTime, Int64(run.rows / run.time).grouped,
                (run.time / runs[0].time).short, run.percentile99.asTime, run.longestMove.asTime,
                Int64(run.peakWAL).asMegabytes, Int64(run.peakMemory).asMegabytes,
                index == 0 ? "–" : "\(Int64(limit).asMegabytes) more: \(isWithin ? "kept" : "EXCEEDED")",
            ]
        }
    )
    return isWithin
}
