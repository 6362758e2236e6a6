internal import Midstream
internal import SQLiteConnection

/// One whole migration. It runs in a process of its own, so that the memory that it takes can be measured.
struct MigrationRun {
    /// The time from the first call to the end, in seconds.
    var time = 0.0
    /// The processor time of the migration, in seconds. It says more than ``time`` if the machine has other work, too.
    var processorTime = 0.0
    /// The number of steps; and the times that the steps took, in seconds.
    var steps = 0.0
    var median = 0.0
    var percentile99 = 0.0
    /// The longest step that moved rows; and the longest of the steps that counted, retired and cleaned up.
    var longestMove = 0.0
    var longestOther = 0.0
    /// The largest size of the target's WAL, in bytes.
    var peakWAL = 0.0
    var peakMemory = 0.0
    /// The rows that were moved, and the pages that the target has in the end.
    var rows = 0.0
    var pages = 0.0

    private static var figures: [WritableKeyPath<Self, Double>] {
        [
            \.time, \.processorTime, \.steps, \.median, \.percentile99, \.longestMove, \.longestOther, \.peakWAL,
            \.peakMemory, \.rows, \.pages,
        ]
    }

    /// The first argument of a process that makes a migration.
    static let argument = "--run-migration"

    /// Makes a migration in a new process.
    ///
    /// - Parameters:
    ///   - budget: The budget of each step, in milliseconds. 0 stands for one `INSERT … SELECT` and a `DROP` by plain
    ///     SQLite, -1 for a tenth of the rows, moved one by one behind a UNION ALL view.
    ///   - isCompared: Whether each batch is compared with the source, as it is by default.
    ///   - isSourceEncrypted: Whether the source has the benchmark's key.
    ///   - isTargetEncrypted: Whether the target gets the benchmark's key.
    ///   - schema: The statements that create the target's table.
    ///   - written: The rows that the application updates before the first step, as a condition.
    static func make(
        source: String,
        target: String,
        budget: Int,
        isCompared: Bool = true,
        isSourceEncrypted: Bool = false,
        isTargetEncrypted: Bool = false,
        schema: [String] = [Messages.schema, Messages.index],
        written: String = ""
    ) throws -> MigrationRun {
        let output = try ChildProcess.run(
            [
                argument, source, target, "\(budget)", "\(isCompared)", "\(isSourceEncrypted)", "\(isTargetEncrypted)",
                written,
            ] + schema
        )
        let numbers = output.split { $0.isWhitespace }.compactMap { Double(String($0)) }
        guard numbers.count == figures.count else {
            throw SQLiteError(code: .error, message: "a process of the benchmark printed: \(output)")
        }
        var run = MigrationRun()
        for (figure, number) in zip(figures, numbers) { run[keyPath: figure] = number }
        return run
    }

    /// The work of the new process.
    static func perform(_ arguments: [String]) throws {
        guard arguments.count > 7, let budget = Int(arguments[2]) else {
            throw UsageError(
                message:
                    "\(argument) takes a source, a target, a budget, whether batches are compared, which is encrypted, which rows "
                    + "the application updates, and what the target's table is created by"
            )
        }
        let schema = Array(arguments[7...])
        let keys = arguments[4..<6].map { $0 == "true" ? Messages.key : nil }
        var run = MigrationRun()
        if budget > 0 {
            try run.migrate(
                source: .file(arguments[0], key: keys[0]),
                target: arguments[1],
                key: keys[1],
                budget: .milliseconds(budget),
                verification: arguments[3] == "true" ? .batches : .count,
                schema: schema,
                written: arguments[6]
            )
        } else if budget < 0 {
            try run.moveSingly(source: arguments[0], target: arguments[1])
        } else {
            try run.copy(
                source: arguments[0],
                sourceKey: keys[0],
                target: arguments[1],
                targetKey: keys[1],
                schema: schema,
                written: arguments[6]
            )
        }
        run.peakMemory = Double(Machine.peakMemory)
        print(figures.map { "\(run[keyPath: $0])" }.joined(separator: " "))
    }

    private mutating func migrate(
        source: MigrationSource,
        target: String,
        key: EncryptionKey?,
        budget: Duration,
        verification: MigrationVerification,
        schema: [String],
        written: String
    ) throws {
        let clock = ContinuousClock()
        let database = try Database(path: target, key: key)
        for text in schema { try database.execute(text) }
        try database.addMigration(source: source) { table in
            guard table.name == "messages" else { return }
            table.sourceTable = "messages"
            table.verification = verification
        }
        if !written.isEmpty {
            try database.execute("UPDATE messages SET created_at = created_at + 1 WHERE \(written)")
        }
        var times: [Double] = []
        let start = clock.now
        let processorStart = Machine.processorTime
        var isFinished = false
        while !isFinished {
            let before = clock.now
            let progress = try database.stepMigration(budget: budget)
            let time = (clock.now - before).inSeconds
            isFinished = progress.isFinished
            times.append(time)
            if progress.rowsMovedByStep > 0 {
                longestMove = max(longestMove, time)
            } else {
                longestOther = max(longestOther, time)
            }
            peakWAL = max(peakWAL, Double(WorkFolder.size(of: target + "-wal")))
        }
        time = (clock.now - start).inSeconds
        processorTime = Machine.processorTime - processorStart
        database.close()
        try countPages(target, key)
        steps = Double(times.count)
        median = times.median
        percentile99 = times.percentile(0.99)
    }

    private mutating func countPages(_ target: String, _ key: EncryptionKey?) throws {
        let connection = try Connection(path: target, options: OpenOptions(key: key))
        defer { connection.close() }
        rows = try connection.fetchValue("SELECT count(*) FROM messages") ?? 0
        pages = try connection.fetchValue("PRAGMA page_count") ?? 0
        pages -= try connection.fetchValue("PRAGMA freelist_count") ?? 0
    }

    private mutating func moveSingly(source: String, target: String) throws {
        let view = try UnionView(target: target, source: source)
        let last = try view.connection.fetchValue(Int64.self, "SELECT max(id) / 10 FROM messages") ?? 1
        let start = ContinuousClock.now
        let processorStart = Machine.processorTime
        try view.moveSingly(1...last)
        time = (ContinuousClock.now - start).inSeconds
        processorTime = Machine.processorTime - processorStart
        peakWAL = Double(WorkFolder.size(of: target + "-wal"))
        view.connection.close()
        steps = Double(last)
        rows = Double(last)
        (median, percentile99, longestMove) = (time / rows, 0, 0)
    }

    private mutating func copy(
        source: String,
        sourceKey: EncryptionKey?,
        target: String,
        targetKey: EncryptionKey?,
        schema: [String],
        written: String
    ) throws {
        let connection = try Connection(path: target, options: OpenOptions(key: targetKey))
        try connection.execute("PRAGMA journal_mode = WAL")
        try connection.execute("PRAGMA synchronous = NORMAL")
        for text in schema { try connection.execute(text) }
        try connection.attach(source, as: "source", key: sourceKey)
        try connection.execute("PRAGMA source.synchronous = NORMAL")
        if !written.isEmpty {
            for text in schema {
                try connection.execute(
                    text.replacing("messages(", with: "written(").replacing("INDEX by", with: "INDEX written_by")
                )
            }
            try connection.execute("INSERT INTO written SELECT * FROM source.messages WHERE \(written)")
            try connection.execute("UPDATE written SET created_at = created_at + 1")
        }
        let start = ContinuousClock.now
        let processorStart = Machine.processorTime
        try connection.execute("INSERT INTO messages SELECT * FROM source.messages")
        if !written.isEmpty {
            try connection.execute("INSERT OR REPLACE INTO messages SELECT * FROM written")
            try connection.execute("DROP TABLE written")
        }
        peakWAL = Double(WorkFolder.size(of: target + "-wal"))
        try connection.execute("DROP TABLE source.messages")
        time = (ContinuousClock.now - start).inSeconds
        processorTime = Machine.processorTime - processorStart
        connection.close()
        try countPages(target, targetKey)
        steps = 1
        (median, percentile99, longestMove) = (time, time, time)
    }
}
