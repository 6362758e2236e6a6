/// `midstream encrypt`: moves a whole file into an encrypted one.
struct EncryptCommand: Command {
    static let spec = CommandSpec(
        name: "encrypt",
        overview: "Move all of a database file into an encrypted one.",
        discussion: """
            A source that is encrypted itself gets another key that way. Applications may use the target meanwhile,
            through Midstream. Ctrl-C stops after the step that runs; the same command goes on later.
            """,
        positionals: WholeFileMove.positionals,
        options: KeyArguments.options(.target, .source) + WholeFileMove.options
    )

    let move: WholeFileMove

    init(_ arguments: ParsedArguments) throws(UsageError) {
        move = try WholeFileMove(arguments, command: Self.spec.name)
        guard move.keys.target != nil else {
            throw UsageError(
                "missing key of the target: --target-key-file, --target-key-env or --target-key-ask",
                command: Self.spec.name
            )
        }
    }

    func run(_ output: Output) throws -> ExitCode { try move.run(output) }
}
