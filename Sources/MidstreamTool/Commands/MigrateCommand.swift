internal import Midstream
internal import Synchronization

/// `midstream migrate`: moves tables from one file to another until nothing is left.
struct MigrateCommand: Command {
    static let spec = CommandSpec(
        name: "migrate",
        overview: "Move tables of one database file into another.",
        discussion: """
            Tables that the target lacks are created as they are in the source, with their indexes. Applications may use
            the target meanwhile, through Midstream. Ctrl-C stops after the step that runs; the same command, or one
            without --source, goes on later.
            """,
        options: [.option("target", "file", "The database file that the rows move into.")] + MoveArguments.options + [
            .option("budget", "duration", "The time that one step may take, such as 10ms, which is the default."),
            .option(
                "pace",
                "pace",
                "fast or gentle: pause between steps, so that others have their turn. Default: no pause."
            ),
            .flag("keep-source", "Keep the source's tables when their rows have moved. They refuse writes."),
            .flag("json", "Print JSON objects, one to a line; the last is the summary."),
        ]
    )

    let target: String
    let move: MoveArguments
    let budget: Duration
    let pace: MigrationPace?
    let isJSON: Bool

    init(_ arguments: ParsedArguments) throws(UsageError) {
        let name = Self.spec.name
        move = try MoveArguments(arguments, command: name)
        guard let target = arguments.value("target"), !target.isEmpty else {
            throw UsageError("missing option --target", command: name)
        }
        self.target = target
        switch arguments.value("pace") {
        case nil: pace = nil
        case "fast": pace = .fast
        case "gentle": pace = .gentle
        default: throw UsageError("--pace is fast or gentle", command: name)
        }
        guard let budget = DurationText.parse(arguments.value("budget") ?? "10ms") else {
            throw UsageError("--budget takes a duration such as 500us, 10ms or 1s", command: name)
        }
        self.budget = budget
        isJSON = arguments.has("json")
    }

    func run(_ output: Output) throws -> ExitCode {
        let signals = SignalWatch()
        defer { signals.stop() }
        let database = try TargetDatabase.open(target, move, createsFile: false, command: Self.spec.name)
        defer { database.close() }
        let kept = Mutex<[(table: String, reason: String)]>([])
        database.onMigrated { event in
            if case .sourceKept(let table, let reason) = event { kept.withLock { $0.append((table, reason)) } }
        }
        var tally = MoveTally(try database.readMigrationProgress(), target: target)
        if tally.tables.isEmpty, move.source == nil {
            throw CommandFailure("\(target) has no migration to go on with: give --source and the tables")
        }
        var display = ProgressDisplay(ProgressDisplay.style(isJSON: isJSON), output)
        let loop = StepLoop(
            database: database,
            signals: signals,
            budget: budget,
            interval: pace?.interval ?? .zero
        )
        defer { display.end() }
        let signal = try loop.run { progress in
            tally.add(progress)
            display.show(tally)
        }
        for (table, reason) in kept.withLock(\.self) { tally.noteKept(sourceTable: table, because: reason) }
        display.end()
        let summary = MoveSummary(tally: tally, elapsed: display.elapsed, isInterrupted: signal != nil)
        output.write(isJSON ? JSON(object: ["summary": summary.json]).text + "\n" : summary.text)
        return signal.map { .signal($0) } ?? .success
    }
}
