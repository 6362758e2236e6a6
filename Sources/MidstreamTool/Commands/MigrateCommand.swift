internal import Midstream

/// `midstream migrate`: moves tables from one file to another until nothing is left to do.
struct MigrateCommand: Command {
    static let spec = CommandSpec(
        name: "migrate",
        overview: "Move tables of one database file into another.",
        discussion: """
            Tables that the target lacks are created as they are in the source, with their indexes and triggers. Applications
            may use the target meanwhile, through Midstream. Ctrl-C stops after the step that runs; the same command, or one
            without --source, goes on later.
            """,
        positionals: [
            PositionalSpec(
                name: "target",
                isRequired: true,
                help: "The database file that the rows move into. It is created when it does not exist."
            )
        ],
        options: MoveArguments.options + [
            .flag("keep-source", "Keep the source's tables when their rows have moved. They refuse writes."),
            MoveArguments.giveUp,
            .flag("dry-run", "Check whether it could begin, and change nothing."),
        ] + RunArguments.options + KeyArguments.options(.source, .target)
    )

    let target: String
    let move: MoveArguments
    let run: RunArguments
    let keys: KeyArguments
    let isDryRun: Bool

    init(_ arguments: ParsedArguments) throws(UsageError) {
        let name = Self.spec.name
        move = try MoveArguments(arguments, command: name)
        target = arguments.positionals.first ?? ""
        if target.isEmpty { throw UsageError("the file <target> has an empty name", command: name) }
        isDryRun = arguments.has("dry-run")
        run = try RunArguments(arguments, command: name)
        keys = try KeyArguments(arguments, command: name)
    }

    func run(_ output: Output) throws -> ExitCode {
        let keys = try keys.read(targetPath: target)
        if let source = move.source {
            let key = Files.areSame(source, target) ? keys.target : keys.source
            try SourceSchema.tellUnknown(among: move.givenUp, of: source, key: key, output)
        }
        if isDryRun {
            let rehearsal = try TargetDatabase.rehearse(target, move, keys, command: Self.spec.name)
            output.write(run.isJSON ? rehearsal.json.text + "\n" : rehearsal.text)
            return .success
        }
        let signals = SignalWatch()
        defer { signals.stop() }
        let opened = try TargetDatabase.open(target, move, keys, createsFile: false, command: Self.spec.name)
        let database = opened.database
        defer { database.close() }
        for note in opened.begun.notes { output.error(note) }
        if move.source == nil, try database.readMigrationProgress().tables.isEmpty {
            throw CommandFailure("\(target) has no migration to go on with: give --source and the tables")
        }
        let run = MigrationRun(arguments: run, signals: signals, output: output)
        var summary = try run.move(database, target: target, keys: keys)
        summary.movedBefore = opened.begun.movedBefore
        summary.left = try stillThere(opened.begun.left, keys) + leftOfAll(summary, keys)
        summary.leftIn = move.source
        return run.show(summary)
    }

    /// Those of the source's objects that were not dropped with their tables.
    private func stillThere(_ objects: [LeftObject], _ keys: FileKeys) throws -> [LeftObject] {
        guard !objects.isEmpty, let source = move.source, Files.exists(source) else { return [] }
        let key = Files.areSame(source, target) ? keys.target : keys.source
        let schema = try SourceSchema(path: source, key: key)
        return objects.filter { object in schema.others.contains { $0.kind == object.kind && $0.name == object.name } }
    }

    /// With `--all-tables`, the objects of the source that have not come into the target.
    private func leftOfAll(_ summary: MoveSummary, _ keys: FileKeys) throws -> [LeftObject] {
        guard move.movesAllTables, !summary.isInterrupted, let source = move.source, Files.exists(source) else {
            return []
        }
        return try CommandFailure.naming(source) {
            try Database.unmovedObjects(
                ofSourceAtPath: source,
                key: keys.source,
                movedTo: target,
                targetKey: keys.target,
                givingUp: move.givenUp
            ).map { LeftObject(kind: $0.kind.rawValue, name: $0.name) }
        }
    }
}
