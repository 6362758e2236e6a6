internal import Midstream
internal import SQLiteConnection

/// How the cost of a migration grows: with the rows, their size, the indexes, the tables, and the ledger.
struct GrowthBenchmark {
    /// A file whose tables move.
    private struct Shape {
        var name: String
        /// The rows of all tables together.
        var rows: Int64
        var tables: Int64 = 1
        var indexes = 1
        var bytes: Int64 = 100
        /// Rows that are promoted before the first step.
        var ledger: Int64 = 0
        /// Whether the tables have a key of two columns, and no rowids.
        var isKeyed = false

        var rowsOfTable: Int64 { rows / tables }
    }

    private static let shapes: [(title: String, shapes: [Shape])] = [
        (
            "rows",
            [10_000, 100_000, 1_000_000, 10_000_000].map { Shape(name: Int64($0).grouped, rows: $0) }
        ),
        ("tables, of 1,000,000 rows together", [1, 10, 100].map { Shape(name: "\($0)", rows: 1_000_000, tables: $0) }),
        ("secondary indexes, 1,000,000 rows", [1, 5].map { Shape(name: "\($0)", rows: 1_000_000, indexes: $0) }),
        (
            "promoted rows, of 2,000,000",
            [0, 1000, 1_000_000].map { Shape(name: Int64($0).grouped, rows: 2_000_000, ledger: $0) }
        ),
        (
            "promoted rows, of 1,000,000 with a key of two columns",
            [0, 1000, 100_000].map { Shape(name: Int64($0).grouped, rows: 1_000_000, ledger: $0, isKeyed: true) }
        ),
        (
            "bytes of a row",
            [(50, 1_000_000), (1000, 200_000), (10_000, 20_000), (100_000, 2000)].map {
                Shape(name: Int64($0.0).grouped, rows: $0.1, bytes: $0.0)
            }
        ),
    ]

    private let folder: WorkFolder
    private let options: Options

    static func run(_ options: Options, _ report: Report) throws {
        let benchmark = GrowthBenchmark(folder: try WorkFolder(below: options.folder), options: options)
        for (title, shapes) in shapes {
            // `--rows` limits the size of the files.
            let lines = try shapes.filter { $0.rows <= max(options.rows, 2_000_000) }.map(benchmark.measure)
            report.section("growth with \(title)", options.processorTime ? "processor time" : "")
            report.table(
                [
                    title.prefix { $0 != "," } + "", "one go, a row", "steps, a row", "times one go", "longest step",
                    "step p99",
                    "select by key", "times native", "by index", "times native", "update pending", "times native",
                ],
                lines
            )
        }
    }

    private func now() -> Double { options.processorTime ? Machine.processorTime : Machine.time }

    // MARK: The files

    private func schema(_ shape: Shape, _ table: Int64) -> [String] {
        let key = shape.isKeyed ? "PRIMARY KEY (c, id)) WITHOUT ROWID" : "PRIMARY KEY (id))"
        return [
            "CREATE TABLE t\(table)(id INTEGER, a INTEGER, b INTEGER, c INTEGER, d INTEGER, e INTEGER, body TEXT, \(key)"
        ]
            + ["a", "b", "c", "d", "e"].prefix(shape.indexes).map { "CREATE INDEX t\(table)_\($0) ON t\(table)(\($0))" }
    }

    private func make(_ shape: Shape) throws {
        let connection = try Connection(path: folder.file("rows.db"))
        defer { connection.close() }
        try connection.execute("PRAGMA journal_mode = OFF")
        try connection.execute("PRAGMA synchronous = OFF")
        for table in 0..<shape.tables {
            let schema = schema(shape, table)
            try connection.execute(schema[0])
            try connection.transaction {
                try connection.execute(
                    """
                    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                    INSERT INTO t\(table) SELECT i, i * 7919 % (?1 / 10 + 1), i * 104729 % ?1, i * 1299709 % ?1, i * 15485863 % ?1,
                        i % 100, substr(?3, 1 + i % 50, ?2)
                    FROM n
                    """,
                    [
                        shape.rowsOfTable, max(1, shape.bytes - 30),
                        String(repeating: "The quick brown fox. ", count: Int(shape.bytes) / 21 + 4),
                    ]
                )
            }
            for index in schema.dropFirst() { try connection.execute(index) }
        }
        try connection.execute("PRAGMA journal_mode = WAL")
    }

    // MARK: The figures

    private func measure(_ shape: Shape) throws -> [String] {
        Report.note("growth: \(shape.name)")
        try make(shape)
        defer { for name in ["rows.db", "source.db", "native.db", "target.db"] { folder.remove(name) } }
        let oneGo = try copyInOneGo(shape) / Double(shape.rows)
        try folder.copy("rows.db", to: "source.db")
        try folder.copy("rows.db", to: "native.db")
        let native = try Database(path: folder.file("native.db"))
        let moving = try Database(path: folder.file("target.db"))
        for table in 0..<shape.tables { for text in schema(shape, table) { try moving.execute(text) } }
        try moving.addMigration(source: .file(folder.file("source.db"))) { $0.sourceTable = $0.name }
        if shape.ledger > 0 {
            // These rows are spread over the table, as when an application writes.
            let stride = shape.rows / shape.ledger
            for database in [native, moving] {
                try database.execute("UPDATE t0 SET e = e + 1 WHERE id % ? = 0", [stride])
            }
        }
        var steps = try move(moving, whileBelow: shape.rows / 2)
        let operations = try Operation.allCases.map { try compare($0, shape, [native, moving]) }
        steps.append(contentsOf: try move(moving, whileBelow: .max))
        native.close()
        moving.close()
        let time = steps.reduce(0) { $0 + $1.counted } / Double(shape.rows)
        let lengths = steps.map(\.time)
        return [shape.name, oneGo.asTime, time.asTime, (time / oneGo).short]
            + [(lengths.max() ?? 0).asTime, lengths.percentile(0.99).asTime]
            + operations.flatMap { [$0.time.asTime, $0.ratio.short] }
    }

    private func copyInOneGo(_ shape: Shape) throws -> Double {
        try folder.copy("rows.db", to: "source.db")
        defer { for name in ["source.db", "target.db"] { folder.remove(name) } }
        let connection = try Connection(path: folder.file("target.db"))
        defer { connection.close() }
        try connection.execute("PRAGMA journal_mode = WAL")
        try connection.execute("PRAGMA synchronous = NORMAL")
        for table in 0..<shape.tables { for text in schema(shape, table) { try connection.execute(text) } }
        try connection.attach(folder.file("source.db"), as: "source")
        let start = now()
        for table in 0..<shape.tables {
            try connection.execute("INSERT INTO t\(table) SELECT * FROM source.t\(table)")
            try connection.execute("DROP TABLE source.t\(table)")
        }
        return now() - start
    }

    /// - Returns: The time of each step, and how much of it counts for the migration as a whole.
    private func move(_ database: Database, whileBelow rows: Int64) throws -> [(time: Double, counted: Double)] {
        var steps: [(time: Double, counted: Double)] = []
        var moved: Int64 = 0
        while moved < rows {
            let (start, before) = (now(), Machine.time)
            let progress = try database.stepMigration(budget: .milliseconds(10))
            steps.append((Machine.time - before, now() - start))
            moved += progress.rowsMovedByStep
            if progress.isFinished { break }
        }
        return steps
    }

    private enum Operation: CaseIterable { case byKey, byIndex, updatePending }

    /// A condition that one row meets.
    private func isRow(_ shape: Shape, _ id: Int64) -> (sql: String, arguments: Arguments) {
        shape.isKeyed ? ("c = ? AND id = ?", [id * 1_299_709 % shape.rowsOfTable, id]) : ("id = ?", [id])
    }

    /// - Returns: The time that the moving table takes, and how many times the native table's time that is.
    private func compare(_ operation: Operation, _ shape: Shape, _ ways: [Database]) throws -> (
        time: Double, ratio: Double
    ) {
        var random = Random(seed: 41)
        var cell = Cell(ways: 2, countsProcessorTime: options.processorTime)
        let count = 50
        for _ in 0..<15 {
            let table = random.next(0...shape.tables - 1)
            let keys = (0..<count).map { _ in
                operation == .updatePending
                    ? random.next(shape.rowsOfTable / 2...shape.rowsOfTable) : random.next(1...shape.rowsOfTable)
            }
            try cell.measure { way in
                switch operation {
                case .byKey:
                    try ways[way].read { access in
                        for key in keys {
                            let row = isRow(shape, key)
                            _ = try access.fetchOne("SELECT * FROM t\(table) WHERE \(row.sql)", row.arguments)
                        }
                    }
                case .byIndex:
                    try ways[way].read { access in
                        for key in keys {
                            _ = try access.fetchAll(
                                "SELECT id, a FROM t\(table) WHERE a = ? LIMIT 20",
                                [key % (shape.rowsOfTable / 10 + 1)]
                            )
                        }
                    }
                case .updatePending:
                    for key in keys {
                        let row = isRow(shape, key)
                        try ways[way].execute("UPDATE t\(table) SET e = e + 1 WHERE \(row.sql)", row.arguments)
                    }
                }
            }
        }
        return (cell.median(of: 1) / Double(count), cell.ratio(of: 1, to: 0))
    }
}
