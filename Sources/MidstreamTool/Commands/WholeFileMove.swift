internal import Midstream

/// Moves all of a file into another one, with other keys: what `encrypt` and `decrypt` do.
struct WholeFileMove {
    let source: String
    let target: String
    let keys: KeyArguments
    let run: RunArguments
    let wipesSource: Bool

    static let positionals = [
        PositionalSpec(name: "source", isRequired: true, help: "The database file that moves."),
        PositionalSpec(name: "target", isRequired: true, help: "The new file, which gets all of it."),
    ]

    static let options =
        RunArguments.options + [
            .flag("wipe", "When all has moved, overwrite the source with zeros and delete it.")
        ]

    init(_ arguments: ParsedArguments, command: String) throws(UsageError) {
        source = arguments.positionals.first ?? ""
        target = arguments.positionals.dropFirst().first ?? ""
        for (name, path) in [("source", source), ("target", target)] where path.isEmpty {
            throw UsageError("the file <\(name)> has an empty name", command: command)
        }
        keys = try KeyArguments(arguments, command: command)
        run = try RunArguments(arguments, command: command)
        wipesSource = arguments.has("wipe")
    }

    func run(_ output: Output) throws -> ExitCode {
        guard !Files.areSame(source, target) else {
            throw CommandFailure("source and target are one file: a whole file moves into a new one")
        }
        let keys = try keys.read(targetPath: target)
        let signals = SignalWatch()
        defer { signals.stop() }
        var configuration = DatabaseConfiguration()
        configuration.synchronous = .full
        let database = try CommandFailure.naming(Files.exists(target) ? target : source) {
            try Database(
                path: target,
                key: keys.target,
                movingAllOf: .file(source, key: keys.source),
                configuration: configuration
            )
        }
        defer { database.close() }
        let run = MigrationRun(arguments: run, signals: signals, output: output)
        var summary = try run.move(database, target: target, keys: keys)
        guard summary.tally.isFinished, Files.exists(source) else { return run.show(summary) }
        if !summary.isInterrupted {
            let unmoved = try CommandFailure.naming(source) {
                try Database.unmovedTables(ofSourceAtPath: source, key: keys.source)
            }
            guard unmoved.isEmpty else {
                _ = run.show(summary)
                throw CommandFailure(
                    "\(source) has rows that are not in \(target), in \(unmoved.joined(separator: ", ")): keep it. Either \(target) was "
                        + "not made of it, these tables have come since, or the migration was cancelled"
                )
            }
        }
        summary.source = (source, isWiped: false)
        if wipesSource, !summary.isInterrupted {
            // It is wiped when nobody has it open.
            database.close()
            do {
                try CommandFailure.naming(source) { try Database.wipeSource(atPath: source, key: keys.source) }
            } catch {
                _ = run.show(summary)
                throw error
            }
            summary.source?.isWiped = true
        }
        return run.show(summary)
    }
}
