internal import Midstream
internal import SQLiteConnection

/// The cost of a migration of many small tables, compared with what plain SQLite takes to create and fill them.
struct TablesBenchmark {
    private let folder: WorkFolder
    private let report: Report

    /// How many times as long the beginning may take as plain SQLite takes to create and fill the tables.
    private static let limit = 3.0
    /// How long opening may take, in seconds.
    private static let limitOfOpening = 0.050
    private static let counts = [100, 300, 1000]

    /// - Returns: Whether beginning and opening keep their limits with the largest number of tables.
    static func run(_ options: Options, _ report: Report) throws -> Bool {
        try TablesBenchmark(folder: WorkFolder(below: options.folder), report: report).run()
    }

    private func run() throws -> Bool {
        var lines: [[String]] = []
        var isGood = true
        for count in Self.counts {
            Report.note("tables: \(count)")
            let times = try measure(count)
            let isLast = count == Self.counts.last
            let (isShort, isOpen) = (times.begin <= Self.limit * times.native, times.open <= Self.limitOfOpening)
            if isLast { isGood = isShort && isOpen }
            lines.append([
                "\(count)", times.native.asTime, times.begin.asTime,
                (times.begin / times.native).short + (isLast ? isShort ? " kept" : " EXCEEDED" : ""),
                times.open.asTime + (isLast ? isOpen ? " kept" : " EXCEEDED" : ""), times.schemas.asTime,
                times.first.asTime,
                times.all.asTime, times.status.asTime,
                times.move.asTime, times.definitions.asTime, times.longestStep.asTime,
            ])
        }
        report.section(
            "tables",
            "tables of 4 rows with one UNIQUE column and one index. Limits with \(Self.counts.last ?? 0): a beginning of "
                + "\(Self.limit.short) times the native creation, an opening of \(Self.limitOfOpening.asTime)"
        )
        report.table(
            [
                "tables", "native", "begin", "times native", "open", "of which schemas", "first read", "read all",
                "status", "move", "of which definitions", "longest step",
            ],
            lines
        )
        return isGood
    }

    private struct Times {
        var native = 0.0
        var begin = 0.0
        var open = 0.0
        /// How long plain SQLite takes to read the schemas of the two files. Opening cannot do without that.
        var schemas = 0.0
        var first = 0.0
        var all = 0.0
        var status = 0.0
        var move = 0.0
        /// How long plain SQLite takes to drop and create what moving drops and creates in the two files.
        var definitions = 0.0
        var longestStep = 0.0
    }

    private func measure(_ count: Int) throws -> Times {
        let (source, target) = (folder.file("source.db"), folder.file("target.db"))
        defer { for name in ["source.db", "target.db"] { folder.remove(name) } }
        var times = Times()
        times.native = try fill(source, count)
        try create(target, count)
        let clock = ContinuousClock()
        do {
            let database = try Database(path: target)
            defer { database.close() }
            times.begin = try clock.measure {
                try database.addMigration(source: .file(source)) { $0.sourceTable = $0.name }
            }.inSeconds
        }
        times.status = try clock.measure { _ = try Database.readMigrationProgress(ofFile: target) }.inSeconds
        times.schemas = try (0..<5).map { _ in try readSchemas(target, source) }.median
        times.definitions = try changeDefinitions(target, source, count)
        let openings = try (0..<5).map { _ in try open(target, count) }
        (times.open, times.first) = (openings.map(\.open).median, openings.map(\.first).median)
        let database = try Database(path: target)
        defer { database.close() }
        times.all = try clock.measure {
            for number in 0..<count { _ = try database.fetchAll("SELECT * FROM t\(number)") }
        }.inSeconds
        var isFinished = false
        while !isFinished {
            let step = try clock.measure { isFinished = try database.stepMigration().isFinished }.inSeconds
            times.longestStep = max(times.longestStep, step)
            times.move += step
        }
        for number in [0, count / 2, count - 1] {
            let rows = try database.fetchValue(Int64.self, "SELECT count(*) FROM t\(number)")
            guard rows == 4 else { throw SQLiteError(code: .error, message: "rows are lost") }
        }
        return times
    }

    /// How long it takes to open a database, and then to run its first statement, for which the pool opens a reader.
    private func open(_ path: String, _ count: Int) throws -> (open: Double, first: Double) {
        var database: Database?
        defer { database?.close() }
        let clock = ContinuousClock()
        let open = try clock.measure { database = try Database(path: path) }
        let first = try clock.measure { _ = try database?.fetchAll("SELECT * FROM t\(count / 2)") }
        return (open.inSeconds, first.inSeconds)
    }

    private func readSchemas(_ target: String, _ source: String) throws -> Double {
        let connection = try Connection(path: target)
        defer { connection.close() }
        return try ContinuousClock().measure {
            _ = try connection.fetchAll("SELECT 1 FROM t0 LIMIT 1")
            try connection.execute("ATTACH ? AS source", [source])
        }.inSeconds
    }

    /// Changes the definitions in copies of the two files as moving does: the source's table becomes a view that
    /// refuses writes, and the target loses guard triggers and ledger. One transaction changes the definitions of eight
    /// tables.
    private func changeDefinitions(_ target: String, _ source: String, _ count: Int) throws -> Double {
        let names = ["target", "source"].map { "\($0)-definitions.db" }
        defer { for name in names { folder.remove(name) } }
        for (original, name) in zip([target, source], names) {
            let connection = try Connection(path: original)
            defer { connection.close() }
            try connection.execute("VACUUM INTO ?", [folder.file(name)])
        }
        let (targetCopy, sourceCopy) = (
            try Connection(path: folder.file(names[0])), try Connection(path: folder.file(names[1]))
        )
        defer { for connection in [targetCopy, sourceCopy] { connection.close() } }
        for connection in [targetCopy, sourceCopy] { try connection.execute("PRAGMA journal_mode = WAL") }
        let ledgers: [String] = try targetCopy.fetchAll(
            "SELECT name FROM sqlite_master WHERE name LIKE 'midstream\\_ledger\\_%' ESCAPE '\\' ORDER BY rowid"
        ).map { try $0.get(0) }
        var triggers: [String: [String]] = [:]
        for row in try targetCopy.fetchAll("SELECT tbl_name, name FROM sqlite_master WHERE type = 'trigger'") {
            triggers[try row.get(0), default: []].append(try row.get(1))
        }
        guard ledgers.count == count, triggers.count == count else {
            throw SQLiteError(code: .error, message: "the definitions are others than the benchmark knows")
        }
        return try ContinuousClock().measure {
            for first in stride(from: 0, to: count, by: 8) {
                let numbers = first..<min(first + 8, count)
                try sourceCopy.transaction {
                    for number in numbers {
                        try sourceCopy.execute("DROP TABLE t\(number)")
                        try sourceCopy.execute(
                            "CREATE VIEW t\(number) AS SELECT NULL AS id, NULL AS a, NULL AS b WHERE 0"
                        )
                        for event in ["INSERT", "UPDATE", "DELETE"] {
                            try sourceCopy.execute(
                                "CREATE TRIGGER \(event)\(number) INSTEAD OF \(event) ON t\(number) BEGIN "
                                    + "SELECT RAISE(ABORT, 'table t\(number) has moved'); END"
                            )
                        }
                    }
                }
                try targetCopy.transaction {
                    for number in numbers {
                        for trigger in triggers["t\(number)"] ?? [] {
                            try targetCopy.execute("DROP TRIGGER \(trigger)")
                        }
                        try targetCopy.execute("DROP TABLE \(ledgers[number])")
                    }
                }
            }
        }.inSeconds
    }

    private static func schema(_ number: Int) -> [String] {
        [
            "CREATE TABLE t\(number)(id INTEGER PRIMARY KEY, a TEXT UNIQUE, b)",
            "CREATE INDEX i\(number) ON t\(number)(b)",
        ]
    }

    /// Creates and fills the tables with plain SQLite, each statement in its own transaction.
    private func fill(_ path: String, _ count: Int) throws -> Double {
        let connection = try Connection(path: path)
        defer { connection.close() }
        try connection.execute("PRAGMA journal_mode = WAL")
        return try ContinuousClock().measure {
            for number in 0..<count {
                for sql in Self.schema(number) { try connection.execute(sql) }
                try connection.execute(
                    "INSERT INTO t\(number)(a, b) VALUES ('one', 1), ('two', 2), ('three', 3), ('four', 4)"
                )
            }
        }.inSeconds
    }

    private func create(_ path: String, _ count: Int) throws {
        let connection = try Connection(path: path)
        defer { connection.close() }
        try connection.execute("PRAGMA journal_mode = WAL")
        try connection.transaction {
            for number in 0..<count {
                for sql in Self.schema(number) { try connection.execute(sql) }
            }
        }
    }
}
