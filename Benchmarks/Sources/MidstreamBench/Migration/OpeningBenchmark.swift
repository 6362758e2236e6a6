internal import Midstream
internal import SQLiteConnection

/// What moving tables add to the opening of a database: its writer and a reader are made ready for each.
func openingBenchmark(_ options: Options, _ report: Report) throws {
    let folder = try WorkFolder(below: options.folder)
    var rows: [[String]] = []
    var still = 0.0
    for tables in [0, 1, 10, 100] {
        Report.note("opening: \(tables) moving tables")
        let time = try openingTime(folder, moving: tables)
        if tables == 0 { still = time }
        // Two connections are opened.
        let added = max(0, time - still) / 2
        rows.append([
            "\(tables)", time.asTime, tables == 0 ? "–" : added.asTime,
            tables == 10 ? "2.00 ms \(added <= 2e-3 ? "kept" : "EXCEEDED")" : "–",
        ])
    }
    report.section(
        "opening",
        "Database(path:), a read and a write of a file with 100 tables, of which some are half moved; medians of 41"
    )
    report.table(["moving tables", "time", "more for each connection", "limit"], rows)
}

private func openingTime(_ folder: WorkFolder, moving: Int) throws -> Double {
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
    var times: [Double] = []
    for _ in 0..<41 {
        let start = ContinuousClock.now
        let database = try Database(path: target)
        _ = try database.fetchAll("SELECT * FROM t0 WHERE id = 77")
        try database.execute("UPDATE t99 SET b = 0 WHERE id = 1000")
        times.append((ContinuousClock.now - start).inSeconds)
        database.close()
    }
    return times.median
}
