/// The command line tool: finds the command, runs it, and shows what goes wrong.
enum Tool {
    static let version = "0.1.0"

    static let commands: [any Command.Type] = [
        MigrateCommand.self, CancelCommand.self, ReleaseCommand.self, EncryptCommand.self, DecryptCommand.self,
        StatusCommand.self, SQLCommand.self, UpgradeCommand.self, DemoCommand.self,
    ]

    static func run(_ arguments: [String], _ output: Output = Output()) -> ExitCode {
        let code: ExitCode
        do {
            code = try dispatch(arguments, output)
        } catch let error as UsageError {
            output.error("midstream: error: \(error.message)")
            for line in hint(for: error) { output.error(line) }
            code = .usage
        } catch {
            output.error("midstream: error: \(message(of: error))")
            code = .failure
        }
        output.flush()
        return output.failure.map { lost(output, $0, code) } ?? code
    }

    /// The exit code of a command whose output could not be written. If the reader has stopped reading, no message is
    /// shown.
    private static func lost(_ output: Output, _ error: Int32, _ code: ExitCode) -> ExitCode {
        guard error != SystemCalls.brokenPipe.error else {
            return code == .success ? .signal(SystemCalls.brokenPipe.signal) : code
        }
        output.error("midstream: error: cannot write the output: \(SystemCalls.message(ofError: error))")
        return code == .success ? .failure : code
    }

    private static func dispatch(_ arguments: [String], _ output: Output) throws -> ExitCode {
        guard let first = arguments.first else { return showHelp(output) }
        switch first {
        case "--version":
            output.line(version)
            return .success
        case "-h", "--help": return showHelp(output)
        case "help":
            guard arguments.count > 1 else { return showHelp(output) }
            output.write(HelpText.text(of: try command(arguments[1]).spec))
            return .success
        default: break
        }
        let command = try command(first)
        let parsed = try ParsedArguments(Array(arguments.dropFirst()), for: command.spec)
        if parsed.has("help") {
            output.write(HelpText.text(of: command.spec))
            return .success
        }
        return try command.init(parsed).run(output)
    }

    private static func showHelp(_ output: Output) -> ExitCode {
        output.write(HelpText.text(of: commands.map { $0.spec }))
        return .success
    }

    private static func command(_ name: String) throws -> any Command.Type {
        if let command = commands.first(where: { $0.spec.name == name }) { return command }
        throw UsageError(
            name.hasPrefix("-") ? "unknown option \(name.prefix { $0 != "=" })" : "unknown command \(name)"
        )
    }

    private static func hint(for error: UsageError) -> [String] {
        guard let command = commands.first(where: { $0.spec.name == error.command }) else {
            let names = commands.map { $0.spec.name }.joined(separator: ", ")
            return [
                "Usage: midstream <subcommand>, one of \(names)",
                "  See 'midstream --help' for more information.",
            ]
        }
        return [
            "Usage: \(HelpText.usage(of: command.spec))",
            "  See 'midstream \(command.spec.name) --help' for more information.",
        ]
    }
}
