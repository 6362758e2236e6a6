/// `midstream decrypt`: moves a whole encrypted file into a plain one.
struct DecryptCommand: Command {
    static let spec = CommandSpec(
        name: "decrypt",
        overview: "Move all of an encrypted database file into a plain one.",
        discussion: """
            Applications may use the target meanwhile, through Midstream. Ctrl-C stops after the step that runs; the same
            command goes on later.
            """,
        positionals: WholeFileMove.positionals,
        options: KeyArguments.options(.source) + WholeFileMove.options
    )

    let move: WholeFileMove

    init(_ arguments: ParsedArguments) throws(UsageError) {
        move = try WholeFileMove(arguments, command: Self.spec.name)
        guard move.keys.source != nil else {
            throw UsageError(
                "missing key of the source: --source-key-file, --source-key-env or --source-key-ask",
                command: Self.spec.name
            )
        }
    }

    func run(_ output: Output) throws -> ExitCode { try move.run(output) }
}
