internal import Midstream
internal import Synchronization

/// Moves all rows that are left, and shows progress and summary.
struct MigrationRun {
    let arguments: RunArguments
    let signals: SignalWatch
    let output: Output

    /// Makes steps until all rows have moved, or until a signal comes.
    func move(_ database: Database, target: String, keys: FileKeys) throws -> MoveSummary {
        let kept = Mutex<[(table: String, path: String?, reason: String)]>([])
        let keptFiles = Mutex<[String]>([])
        let moved = Mutex<Set<String>>([])
        database.onMigrated { event in
            switch event {
            case .tableMoved(let table): moved.withLock { _ = $0.insert(table) }
            case .sourceKept(let table, let path, let reason):
                kept.withLock { $0.append((table, path, CommandWords.message(reason))) }
            case .sourceFileKept(let path, let reason):
                keptFiles.withLock { $0.append("\(path) stays: \(CommandWords.message(reason))") }
            default: break
            }
        }
        let start = try database.readMigrationProgress()
        try Self.checkReturning(start)
        var tally = MoveTally(start, target: target, keys: keys)
        var display = ProgressDisplay(ProgressDisplay.style(isJSON: arguments.isJSON), output)
        let loop = StepLoop(
            database: database,
            signals: signals,
            budget: arguments.budget,
            interval: arguments.pace?.interval ?? .zero
        )
        defer { display.end() }
        var last = start
        // Another process may cancel the migration.
        let signal = try loop.run(until: { $0.isFinished || $0.tables.contains(where: \.isReturning) }) { progress in
            tally.add(progress)
            display.show(tally)
            last = progress
        }
        try Self.checkReturning(last)
        let own = moved.withLock(\.self)
        for table in tally.tables where table.isGone && !own.contains(table.progress.name) {
            try CommandFailure.naming(table.progress.sourcePath ?? target) {
                guard try !table.progress.hasMoved(target: target, keys: keys) else { return }
                throw CommandFailure(
                    "table \(table.progress.name) has not moved: its migration was cancelled meanwhile, and its rows "
                        + "are in table \(table.progress.sourceTable) of \(table.progress.sourcePath ?? "this file"). "
                        + "The same command moves the table again"
                )
            }
        }
        for (table, path, reason) in kept.withLock(\.self) {
            tally.noteKept(sourceTable: table, of: path, because: reason)
        }
        for line in keptFiles.withLock(\.self) { output.error(line) }
        return MoveSummary(tally: tally, elapsed: display.elapsed, signal: signal)
    }

    /// - Throws: An error if a table's rows are returning: in the end the target has none of them.
    private static func checkReturning(_ progress: MigrationProgress) throws {
        guard let table = progress.tables.first(where: \.isReturning) else { return }
        throw CommandFailure(
            "table \(table.name) is being moved back to table \(table.sourceTable) of "
                + "\(table.sourcePath ?? "this file"), since its migration was cancelled: finish that with midstream "
                + "cancel. After that, the same command moves the table again"
        )
    }

    func show(_ summary: MoveSummary) -> ExitCode {
        output.write(arguments.isJSON ? JSON(object: ["summary": summary.json]).text + "\n" : summary.text)
        return summary.signal.map { .signal($0) } ?? .success
    }
}
