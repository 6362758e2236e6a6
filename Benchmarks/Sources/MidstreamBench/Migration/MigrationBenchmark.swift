/// Whole migrations, beside the copy that SQLite makes in one go.
func migrationBenchmark(_ options: Options, _ report: Report) throws {
    let folder = try WorkFolder(below: options.folder)
    let messages = Messages(rows: options.rows)
    Report.note("migration: making \(options.rows.grouped) rows")
    try messages.make(folder.file("rows.db"))
    let size = WorkFolder.size(of: folder.file("rows.db"))

    let ways: [(name: String, budget: Int, isCompared: Bool)] = [
        ("INSERT … SELECT, DROP", 0, true), ("steps of 10 ms", 10, true), ("the same, not compared", 10, false),
        ("steps of 1 s", 1000, true), ("the same, not compared", 1000, false),
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
            "longest other", "peak WAL",
            "peak RSS",
        ],
        zip(ways, runs).map { way, run in
            [
                way.name, run.time.asTime, run.processorTime.asTime,
                Int64(Double(options.rows) / run.time).grouped, (run.time / runs[0].time).short,
                (run.processorTime / runs[0].processorTime).short,
                Int64(run.steps).grouped, run.median.asTime, run.percentile99.asTime, run.longestMove.asTime,
                run.longestOther.asTime, Int64(run.peakWAL).asMegabytes, Int64(run.peakMemory).asMegabytes,
            ]
        }
    )
}

/// The memory that a large migration takes.
///
/// - Returns: Whether it is as little as it should be.
func memoryBenchmark(_ options: Options, _ report: Report) throws -> Bool {
    let limit: Int64 = 64_000_000
    let folder = try WorkFolder(below: options.folder)
    Report.note("memory: making \(options.memoryRows.grouped) rows")
    try Messages(rows: options.memoryRows).make(folder.file("source.db"))
    let size = WorkFolder.size(of: folder.file("source.db"))
    Report.note("memory: moving them")
    let run = try MigrationRun.make(source: folder.file("source.db"), target: folder.file("target.db"), budget: 10)
    let isWithin = Int64(run.peakMemory) < limit
    report.section("memory", "a process that moves \(options.memoryRows.grouped) messages in steps of 10 ms")
    report.table(
        ["rows", "file", "time", "CPU", "rows/s", "p99", "longest move", "peak WAL", "peak RSS", "limit"],
        [
            [
                options.memoryRows.grouped, size.asMegabytes, run.time.asTime, run.processorTime.asTime,
                Int64(Double(options.memoryRows) / run.time).grouped, run.percentile99.asTime, run.longestMove.asTime,
                Int64(run.peakWAL).asMegabytes, Int64(run.peakMemory).asMegabytes,
                limit.asMegabytes + (isWithin ? " kept" : " EXCEEDED"),
            ]
        ]
    )
    return isWithin
}
