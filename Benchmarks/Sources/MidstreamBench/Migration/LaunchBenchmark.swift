internal import Midstream
internal import SQLiteConnection

/// The launch of an application whose new version rebuilds two large tables, compared with the same rebuild done
/// offline.
struct LaunchBenchmark {
    private let options: Options
    private let folder: WorkFolder

    private static let runs = 5
    /// How long the launch may take, in seconds.
    private static let limit = 0.050
    private static let tables = ["messages", "archive"]

    /// - Returns: Whether the launch is as short as it should be.
    static func run(_ options: Options, _ report: Report) throws -> Bool {
        try LaunchBenchmark(options: options, folder: WorkFolder(below: options.folder)).run(report)
    }

    private func run(_ report: Report) throws -> Bool {
        Report.note("launch: making \(options.launchRows.grouped) rows")
        try make()
        let size = WorkFolder.size(of: folder.file("old.db"))
        var launches: [Launch] = []
        for number in 1...Self.runs {
            Report.note("launch: \(number) of \(Self.runs)")
            try folder.copy("old.db", to: "app.db")
            launches.append(try launch(moves: number == Self.runs))
            folder.remove("app.db")
        }
        Report.note("launch: offline")
        let offline = try upgradeOffline()
        let usable = launches.map(\.usable).median
        let isShort = usable < Self.limit
        report.section(
            "launch",
            "\(options.launchRows.grouped) rows in two tables that are rebuilt, \(size.asMegabytes) with their indexes"
        )
        let move = launches.last
        report.table(
            ["way", "usable", "limit", "longest", "open", "upgrade", "read and write", "then moving", "longest step"],
            [
                [
                    "SchemaUpgrades", usable.asTime, Self.limit.asTime + (isShort ? " kept" : " EXCEEDED"),
                    (launches.map(\.usable).max() ?? 0).asTime,
                    launches.map(\.open).median.asTime, launches.map(\.upgrade).median.asTime,
                    launches.map(\.use).median.asTime, (move?.moving ?? 0).asTime, (move?.longestStep ?? 0).asTime,
                ],
                ["create, copy, drop, rename", offline.asTime, "", "", "", "", "", "", ""],
            ]
        )
        return isShort
    }

    private func make() throws {
        let path = folder.file("old.db")
        try Messages(rows: options.launchRows / 2).make(path)
        let connection = try Connection(path: path)
        defer { connection.close() }
        try connection.execute("PRAGMA synchronous = OFF")
        try connection.execute(Messages.schema.replacing("messages(", with: "archive("))
        try connection.execute("INSERT INTO archive SELECT * FROM messages")
        try connection.execute("CREATE INDEX archive_by_chat ON archive(chat_id, created_at)")
        try connection.execute("PRAGMA user_version = 1")
        try connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    }

    // MARK: Online

    private struct Launch {
        var open = 0.0
        var upgrade = 0.0
        var use = 0.0
        var moving = 0.0
        var longestStep = 0.0
        var usable: Double { open + upgrade + use }
    }

    private static func newShape(of table: String) -> String {
        """
        CREATE TABLE \(table)(
            id INTEGER PRIMARY KEY, chat_id INTEGER NOT NULL, sender TEXT NOT NULL COLLATE NOCASE, text TEXT NOT NULL,
            created_at INTEGER NOT NULL, flags INTEGER NOT NULL, edited_at INTEGER)
        """
    }

    private static let upgrades: SchemaUpgrades = {
        var upgrades = SchemaUpgrades()
        upgrades.add("first", version: 1) { _ in }
        for (number, table) in tables.enumerated() {
            upgrades.add("\(table) can be edited", version: Int64(number + 2)) { access in
                try access.rebuild(table) { rebuild in
                    rebuild.schema = newShape(of: table)
                    rebuild.columns["text"] = .column("body")
                    rebuild.columns["edited_at"] = .defaultValue
                }
            }
        }
        return upgrades
    }()

    private func launch(moves: Bool) throws -> Launch {
        let clock = ContinuousClock()
        var launch = Launch()
        let start = clock.now
        let database = try Database(path: folder.file("app.db"))
        let opened = clock.now
        try database.upgrade(Self.upgrades)
        let upgraded = clock.now
        let rows = try database.fetchAll(
            "SELECT text, edited_at FROM messages WHERE chat_id = 3 ORDER BY created_at LIMIT 50"
        )
        try database.execute("UPDATE archive SET edited_at = 1 WHERE id = 7")
        let used = clock.now
        guard rows.count == 50 else { throw SQLiteError(code: .error, message: "the rebuilt table lacks rows") }
        launch.open = (opened - start).inSeconds
        launch.upgrade = (upgraded - opened).inSeconds
        launch.use = (used - upgraded).inSeconds
        if moves {
            Report.note("launch: moving")
            var isFinished = false
            while !isFinished {
                let before = clock.now
                isFinished = try database.stepMigration().isFinished
                launch.longestStep = max(launch.longestStep, (clock.now - before).inSeconds)
            }
            launch.moving = (clock.now - used).inSeconds
        }
        database.close()
        return launch
    }

    // MARK: Offline

    private func upgradeOffline() throws -> Double {
        let connection = try Connection(path: folder.file("old.db"))
        defer { connection.close() }
        try connection.execute("PRAGMA synchronous = NORMAL")
        let start = ContinuousClock.now
        for table in Self.tables {
            try connection.transaction(.immediate) {
                try connection.execute(Self.newShape(of: table).replacing("\(table)(", with: "new_\(table)("))
                try connection.execute(
                    "INSERT INTO new_\(table) SELECT id, chat_id, sender, body, created_at, flags, NULL FROM \(table)"
                )
                try connection.execute("DROP TABLE \(table)")
                try connection.execute("ALTER TABLE new_\(table) RENAME TO \(table)")
                try connection.execute("CREATE INDEX \(table)_by_chat ON \(table)(chat_id, created_at)")
            }
        }
        return (ContinuousClock.now - start).inSeconds
    }
}
