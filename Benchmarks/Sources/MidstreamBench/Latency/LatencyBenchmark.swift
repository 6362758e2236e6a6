internal import Midstream
internal import SQLiteConnection

/// How long an application's reads and writes take while auto migration runs, compared with a native table.
struct LatencyBenchmark {
    private let options: Options
    private let messages: Messages
    private let folder: WorkFolder

    /// How the rows move beside the application.
    private enum Pace: CaseIterable {
        case native, still, gentle, fastest

        var name: String {
            switch self {
            case .native: "native, nothing moves"
            case .still: "moving, no steps"
            case .gentle: "default pace: 10 ms each 2 s"
            case .fastest: "fastest: 10 ms each 15 ms"
            }
        }

        /// How many times as long as on a native table the 99th percentile may be.
        var limit: Double? {
            switch self {
            case .native, .still: nil
            case .gentle: 1.1
            case .fastest: 2
            }
        }
    }

    /// How long operations took, in seconds.
    private struct Samples {
        var reads: [Double] = []
        var writes: [Double] = []
    }

    static func run(_ options: Options, _ report: Report) throws {
        let folder = try WorkFolder(below: options.folder)
        let benchmark = LatencyBenchmark(options: options, messages: Messages(rows: options.rows), folder: folder)
        Report.note("latency: making \(options.rows.grouped) rows")
        try benchmark.messages.make(folder.file("rows.db"))
        try benchmark.compare(report)
        if let charts = options.charts { try benchmark.draw(charts + "/latency.svg") }
    }

    /// Measures a whole migration at the default pace, beside an application that reads or writes 50 times a second.
    ///
    /// - Returns: Whether the migration was over in eight minutes.
    static func runWhole(_ options: Options, _ report: Report) throws -> Bool {
        let folder = try WorkFolder(below: options.folder)
        let benchmark = LatencyBenchmark(options: options, messages: Messages(rows: options.rows), folder: folder)
        Report.note("pace: making \(options.rows.grouped) rows")
        try benchmark.messages.make(folder.file("rows.db"))
        return try benchmark.moveAtLeisure(report)
    }

    private func moveAtLeisure(_ report: Report) throws -> Bool {
        let limit = 480.0
        let moving = try openMoving()
        var random = Random(seed: 23)
        var samples = Samples()
        let start = Machine.time
        try with(.gentle, moving) {
            try work(moving, &random, for: .seconds(2 * limit), resting: 0.02, until: { moving.isMigrated }) {
                isRead,
                _,
                time in
                if isRead { samples.reads.append(time) } else { samples.writes.append(time) }
            }
        }
        let time = Machine.time - start
        let isKept = moving.isMigrated && time <= limit
        close(moving, "target.db")
        report.section(
            "pace",
            "\(options.rows.grouped) messages at the default pace, beside 50 reads and writes a second"
        )
        report.table(
            ["pace", "minutes", "limit", "reads p50", "p99", "writes p50", "p99"],
            [
                [Pace.gentle.name, (time / 60).fixed(1), (limit / 60).fixed(0) + (isKept ? " kept" : " EXCEEDED")]
                    + [samples.reads, samples.writes].flatMap { [$0.median.asTime, $0.percentile(0.99).asTime] }
            ]
        )
        return isKept
    }

    /// How long each pace is measured in a round, in seconds.
    private static let slice = 2.0

    // MARK: The table

    /// The paces take turns, so that other work of the machine affects them alike.
    private func compare(_ report: Report) throws {
        try folder.copy("rows.db", to: "native.db")
        let native = try Database(path: folder.file("native.db"))
        var moving = try openMoving()
        var samples = Dictionary(uniqueKeysWithValues: Pace.allCases.map { ($0, Samples()) })
        var random = Random(seed: 21)
        let rounds = 8
        for round in 1...rounds {
            Report.note("latency: round \(round) of \(rounds)")
            for pace in Pace.allCases {
                if pace != .native, moving.isMigrated {
                    close(moving, "target.db")
                    moving = try openMoving()
                }
                let database = pace == .native ? native : moving
                try with(pace, database) {
                    try work(database, &random, for: .seconds(Self.slice)) { isRead, _, time in
                        if isRead { samples[pace]?.reads.append(time) } else { samples[pace]?.writes.append(time) }
                    }
                }
            }
        }
        close(native, "native.db")
        close(moving, "target.db")
        report.section(
            "latency",
            "single reads (a row by its key; 20 by the index) and writes (UPDATE by key, insert) by one thread that rests 0.5 ms after "
                + "each, while \(options.rows.grouped) messages move"
        )
        guard let base = samples[.native] else { return }
        report.table(
            [
                "pace", "reads p50", "p99", "longest", "writes p50", "p99", "longest", "p99 of reads", "of writes",
                "limit",
            ],
            Pace.allCases.map { pace in
                let own = samples[pace] ?? Samples()
                let ratios = [
                    own.reads.percentile(0.99) / base.reads.percentile(0.99),
                    own.writes.percentile(0.99) / base.writes.percentile(0.99),
                ]
                return [pace.name]
                    + [own.reads, own.writes].flatMap {
                        [$0.median.asTime, $0.percentile(0.99).asTime, ($0.max() ?? 0).asTime]
                    }
                    + ratios.map { pace == .native ? "–" : $0.short }
                    + [
                        pace.limit.map { limit in
                            limit.short + (ratios.allSatisfy { $0 <= limit } ? " kept" : " EXCEEDED")
                        } ?? "–"
                    ]
            }
        )
    }

    private func openMoving() throws -> Database {
        try folder.copy("rows.db", to: "source.db")
        let database = try Database(path: folder.file("target.db"))
        try database.execute(Messages.schema)
        try database.execute(Messages.index)
        try database.addMigration(source: .file(folder.file("source.db"))) { table in
            if table.name == "messages" { table.sourceTable = "messages" }
        }
        return database
    }

    private func close(_ database: Database, _ name: String) {
        database.close()
        folder.remove(name)
        if name == "target.db" { folder.remove("source.db") }
    }

    /// Runs `body` while rows move at a pace.
    private func with(_ pace: Pace, _ database: Database, _ body: () throws -> Void) throws {
        switch pace {
        case .native, .still: break
        case .gentle: database.startAutoMigration()
        case .fastest: database.startAutoMigration(pace: .fast)
        }
        defer { database.stopAutoMigration() }
        try body()
    }

    /// Reads and writes like an application that is in use.
    ///
    /// - Parameters:
    ///   - rest: How long the application rests after each operation, in seconds.
    ///   - note: Gets whether an operation was a read, when it ended, and how long it took.
    private func work(
        _ database: Database,
        _ random: inout Random,
        for duration: Duration,
        resting rest: Double = 0.0005,
        until isOver: () -> Bool = { false },
        _ note: (Bool, Double, Double) -> Void
    ) throws {
        let start = Machine.time
        var count = 0
        while Machine.time - start < duration.inSeconds, !isOver() {
            let key = random.next(1...messages.rows)
            let before = Machine.time
            switch count % 4 {
            case 0: _ = try database.fetchOne("SELECT * FROM messages WHERE id = ?", [key])
            case 1: try database.execute("UPDATE messages SET flags = flags + 1 WHERE id = ?", [key])
            case 2:
                _ = try database.fetchAll(
                    "SELECT * FROM messages WHERE chat_id = ? ORDER BY created_at DESC LIMIT 20",
                    [key % messages.chats]
                )
            default:
                try database.execute(Messages.insert, Arguments(values: messages.newMessage(key)))
            }
            let now = Machine.time
            note(count.isMultiple(of: 2), now - start, now - before)
            count += 1
            Machine.rest(rest)
        }
    }

    // MARK: The chart

    /// Latency over the course of a whole migration, whose steps follow each other without a pause.
    private func draw(_ path: String) throws {
        Report.note("latency: the chart")
        let seconds = 2.0
        try folder.copy("rows.db", to: "native.db")
        let native = try Database(path: folder.file("native.db"))
        var random = Random(seed: 22)
        var base = Samples()
        try work(native, &random, for: .seconds(2 * seconds)) { isRead, _, time in
            if isRead { base.reads.append(time) } else { base.writes.append(time) }
        }
        close(native, "native.db")

        var samples: [(isRead: Bool, at: Double, time: Double)] = []
        let moving = try openMoving()
        var begun = 0.0
        func sample(for duration: Duration, until isOver: () -> Bool) throws {
            try work(moving, &random, for: duration, until: isOver) {
                samples.append(($0, begun + $1, $2))
            }
            begun = samples.last?.at ?? begun
        }
        try sample(for: .seconds(seconds)) { false }
        let start = begun
        try with(.fastest, moving) { try sample(for: .seconds(600)) { moving.isMigrated } }
        let end = begun
        try sample(for: .seconds(seconds)) { false }
        close(moving, "target.db")

        let buckets = 40
        let width = begun / Double(buckets)
        func line(_ name: String, _ isRead: Bool, _ part: Double) -> Chart.Line {
            let points = (0..<buckets).compactMap { bucket -> (x: Double, y: Double)? in
                let range = (Double(bucket) * width)..<(Double(bucket + 1) * width)
                let times = samples.filter { $0.isRead == isRead && range.contains($0.at) }.map(\.time)
                return times.isEmpty ? nil : (range.lowerBound + width / 2 - start, times.percentile(part))
            }
            return Chart.Line(name: name, points: points)
        }
        func level(_ name: String, _ times: [Double], _ part: Double) -> Chart.Line {
            let value = times.percentile(part)
            return Chart.Line(name: name, points: [(-start, value), (begun - start, value)], isReference: true)
        }
        let chart = Chart(
            title:
                "An application's reads and writes while \(messages.rows.grouped) messages move in \((end - start).short) s",
            xTitle: "seconds since the first step; steps of 10 ms begin each 15 ms",
            yTitle: "time of one, logarithmic",
            lines: [
                line("reads, median", true, 0.5), line("reads, 99 % below", true, 0.99),
                line("writes, median", false, 0.5), line("writes, 99 % below", false, 0.99),
                level("native reads, 99 % below", base.reads, 0.99),
                level("native writes, 99 % below", base.writes, 0.99),
            ],
            marks: [(0, "begins"), (end - start, "has moved")],
            isLogarithmic: true,
            xLabel: { $0.fixed(0) },
            yLabel: \.asTime
        )
        try chart.write(to: path)
    }
}
