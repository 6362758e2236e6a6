internal import Midstream

/// `midstream sql`: runs a script on a database whose tables may be moving.
struct SQLCommand: Command {
    static let spec = CommandSpec(
        name: "sql",
        overview: "Run SQL on a database, also while its tables are moving.",
        discussion: """
            Statements see and change every row of tables that are moving. No row moves unless the script says so, with a
            line that begins with a dot: .step, .step rows N or .drain; .help lists them all; or by a statement that needs
            all rows in one place.
            """,
        positionals: [
            PositionalSpec(name: "target", isRequired: true, help: "The database file."),
            PositionalSpec(
                name: "sql",
                isRequired: false,
                help: "SQL in quotes, or the file of a script. Without it, or as -, standard input."
            ),
        ],
        options: MoveArguments.options + [
            .flag("json", "Print one JSON object for each statement, on a line of its own."),
            .flag("bail", "Stop after the first error."),
        ] + KeyArguments.options(.source, .target)
    )

    let target: String
    let script: String?
    let move: MoveArguments
    let isJSON: Bool
    let bails: Bool
    let keys: KeyArguments

    init(_ arguments: ParsedArguments) throws(UsageError) {
        target = arguments.positionals.first ?? ""
        script = arguments.positionals.dropFirst().first
        move = try MoveArguments(arguments, command: Self.spec.name)
        isJSON = arguments.has("json")
        bails = arguments.has("bail")
        keys = try KeyArguments(arguments, command: Self.spec.name)
    }

    func run(_ output: Output) throws -> ExitCode {
        // This comes before anything begins: if the script cannot be read, no migration must have begun.
        let keys = try keys.read(targetPath: target)
        let reader = try ScriptSource.reader(of: script, output)
        let isNew = !Files.exists(target)
        // The target's name may be misspelt, so a new file that stayed empty is removed.
        defer { if isNew, Files.isEmpty(target) { TargetDatabase.removeIfEmpty(target, keys) } }
        let opened = try TargetDatabase.open(target, move, keys, createsFile: true, command: Self.spec.name)
        let database = opened.database
        defer { database.close() }
        for note in opened.begun.notes { output.error(note) }
        let printer: any ScriptPrinter = isJSON ? JSONPrinter(output) : ListPrinter(output)
        let runner = ScriptRunner(database, reader, printer, keys: keys, bails: bails)
        try runner.run()
        return runner.hasFailed ? .failure : .success
    }
}
