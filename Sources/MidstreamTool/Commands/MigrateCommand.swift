internal import Midstream

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
        positionals: [
            PositionalSpec(
                name: "target",
                isRequired: true,
                help: "The database file that the rows move into. It is created when it does not exist."
            )
        ],
        options: MoveArguments.options + [
            .flag("keep-source", "Keep the source's tables when their rows have moved. They refuse writes.")
        ] + RunArguments.options + KeyArguments.options(.source, .target)
    )

    let target: String
    let move: MoveArguments
    let run: RunArguments
    let keys: KeyArguments

    init(_ arguments: ParsedArguments) throws(UsageError) {
        let name = Self.spec.name
        move = try MoveArguments(arguments, command: name)
        target = arguments.positionals.first ?? ""
        if target.isEmpty { throw UsageError("the file <target> has an empty name", command: name) }
        run = try RunArguments(arguments, command: name)
        keys = try KeyArguments(arguments, command: name)
    }

    func run(_ output: Output) throws -> ExitCode {
        let keys = try keys.read(targetPath: target)
        let signals = SignalWatch()
        defer { signals.stop() }
        let database = try TargetDatabase.open(target, move, keys, createsFile: false, command: Self.spec.name)
        defer { database.close() }
        if move.source == nil, try database.readMigrationProgress().tables.isEmpty {
            throw CommandFailure("\(target) has no migration to go on with: give --source and the tables")
        }
        let run = MigrationRun(arguments: run, signals: signals, output: output)
        return run.show(try run.move(database, target: target, keys: keys))
    }
}
