internal import Midstream
internal import SQLiteConnection

/// How much longer it takes to open a database whose tables move, and each connection that its pool opens later.
func openingBenchmark(_ options: Options, _ report: Report) throws {
    let folder = try WorkFolder(below: options.folder)
    var rows: [[String]] = []
    var still: OpeningTimes?
    for tables in [0, 1, 10, 100] {
        Report.note("opening: \(tables) moving tables")
        let times = try openingTimes(folder, moving: tables)
        guard let still else {
            still = times
            rows.append(["0", times.database.asTime, times.reader.asTime, "–", "–"])
            continue
        }
        let added = times.reader - still.reader
        rows.append([
            "\(tables)", times.database.asTime, times.reader.asTime, added.asTime,
            tables == 10 ? "2.00 ms \(added <= 2e-3 ? "kept" : "EXCEEDED")" : "–",
        ])
    }
    report.section(
        "opening",
        "a file with 100 tables, of which some are half moved; medians of 41. Database: Database(path:) and a write. Reader: "
            + "the first read beside another, for which the pool opens a connection"
    )
    report.table(["moving tables", "database", "reader", "more for a reader", "limit"], rows)
}

private struct OpeningTimes {
    var database: Double
    var reader: Double
}

private func openingTimes(_ folder: WorkFolder, moving: Int) throws -> OpeningTimes {
    let (source, target) = (folder.file("source.db"), folder.file("target.db"))
    defer { for name in ["source.db", "target.db"] { folder.remove(name) } }
    for (path, isFilled) in [(source, true), (target, false)] {
        let connection = try Connection(path: path)
        try connection.execute("PRAGMA journal_mode = WAL")
        try connection.transaction {
            for number in 0..<100 {
                try connection.execute("CREATE TABLE t\(number)(id INTEGER PRIMARY KEY, a TEXT UNIQUE, b)")
                try connection.execute("CREATE INDEX i\(number) ON t\(number)(b)")
                guard isFilled else { continue }
                try connection.execute(
                    """
                    WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100)
                    INSERT INTO t\(number) SELECT i, 'text ' || i, i % 7 FROM n
                    """
                )
            }
        }
        connection.close()
    }
    if moving > 0 {
        let database = try Database(path: target)
        let names = Set((0..<moving).map { "t\($0)" })
        try database.addMigration(source: .file(source)) { table in
            if names.contains(table.name) { table.sourceTable = table.name }
        }
        try database.stepMigration(rows: 50)
        database.close()
    }
    var opening: [Double] = []
    var reading: [Double] = []
    for _ in 0..<41 {
        let clock = ContinuousClock()
        var database: Database?
        opening.append(
            try clock.measure {
                database = try Database(path: target)
                try database?.execute("UPDATE t99 SET b = 0 WHERE id = 1000")
            }.inSeconds
        )
        try database?.read { _ in
            reading.append(
                try clock.measure { _ = try database?.fetchAll("SELECT * FROM t0 WHERE id = 77") }.inSeconds
            )
        }
        database?.close()
    }
    return OpeningTimes(database: opening.median, reader: reading.median)
}
