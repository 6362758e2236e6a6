internal import Midstream

/// `midstream release`: lets a source be written again after its target was lost.
struct ReleaseCommand: Command {
    static let spec = CommandSpec(
        name: "release",
        overview: "Let a source be written again after the file that its rows moved into was lost.",
        discussion: """
            Until all rows have moved, the source has each row as it was when the migration began. What was
            written since was in the lost file alone. If that file comes back, it cannot go on with the migration.
            """,
        positionals: [PositionalSpec(name: "source", isRequired: true, help: "The file that rows moved from.")],
        options: [.flag("json", "Print one JSON object.")] + KeyArguments.options(.source)
    )

    let source: String
    let isJSON: Bool
    let keys: KeyArguments

    init(_ arguments: ParsedArguments) throws(UsageError) {
        source = arguments.positionals.first ?? ""
        isJSON = arguments.has("json")
        keys = try KeyArguments(arguments, command: Self.spec.name)
    }

    func run(_ output: Output) throws -> ExitCode {
        guard Files.exists(source) else { throw CommandFailure("there is no file \(source)") }
        let keys = try keys.read(targetPath: source)
        let tables = try CommandFailure.naming(source) { try Database.releaseSource(source, key: keys.source) }
        if isJSON {
            output.write(JSON(object: ["released": JSON(array: tables.map { JSON($0) })]).text + "\n")
        } else if tables.isEmpty {
            output.line("There is nothing to release.")
        } else {
            for table in tables { output.line("\(table): may be written again") }
        }
        return .success
    }
}
