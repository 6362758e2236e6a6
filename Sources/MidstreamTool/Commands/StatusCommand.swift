internal import Midstream

/// `midstream status`: shows how far a file's migrations are. It only reads, and makes no step.
struct StatusCommand: Command {
    static let spec = CommandSpec(
        name: "status",
        overview: "Show how far the migrations of a database are.",
        positionals: [PositionalSpec(name: "target", isRequired: true, help: "The database file that rows move into.")],
        options: [.flag("json", "Print one JSON object.")] + KeyArguments.options(.target)
    )

    let target: String
    let isJSON: Bool
    let keys: KeyArguments

    init(_ arguments: ParsedArguments) throws(UsageError) {
        target = arguments.positionals.first ?? ""
        isJSON = arguments.has("json")
        keys = try KeyArguments(arguments, command: Self.spec.name)
    }

    func run(_ output: Output) throws -> ExitCode {
        guard Files.exists(target) else { throw CommandFailure("there is no file \(target)") }
        let keys = try keys.read(targetPath: target)
        let progress = try CommandFailure.naming(target) {
            try Database.readMigrationProgress(ofFile: target, key: keys.target)
        }
        let status = MigrationStatus(progress, target: target, keys: keys)
        output.write(isJSON ? status.json.text + "\n" : status.text)
        return .success
    }
}
