internal import Midstream

/// Moves all of a file into another one, with other keys, for `encrypt` and `decrypt`.
struct WholeFileMove {
    let source: String
    let target: String
    let keys: KeyArguments
    let run: RunArguments
    let wipesSource: Bool
    let givenUp: Set<String>

    static let positionals = [
        PositionalSpec(name: "source", isRequired: true, help: "The database file that moves."),
        PositionalSpec(name: "target", isRequired: true, help: "The new file, which gets all of it."),
    ]

    static let options =
        RunArguments.options + [
            .flag("wipe", "When all has moved, overwrite the source with zeros and delete it."), MoveArguments.giveUp,
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
        givenUp = Set(arguments.all("give-up"))
    }

    func run(_ output: Output) throws -> ExitCode {
        guard !Files.areSame(source, target) else {
            throw CommandFailure("source and target are one file: a whole file moves into a new one")
        }
        let keys = try keys.read(targetPath: target)
        try SourceSchema.tellUnknown(among: givenUp, of: source, key: keys.source, output)
        let signals = SignalWatch()
        defer { signals.stop() }
        let database = try TargetDatabase.openMovingAll(of: source, into: target, keys, .keep, givingUp: givenUp)
        defer { database.close() }
        let run = MigrationRun(arguments: run, signals: signals, output: output)
        var summary = try run.move(database, target: target, keys: keys)
        guard summary.tally.isFinished, Files.exists(source) else { return run.show(summary) }
        if !summary.isInterrupted {
            let unmoved = try CommandFailure.naming(source) {
                try Database.unmovedObjects(
                    ofSourceAtPath: source,
                    key: keys.source,
                    movedTo: target,
                    targetKey: keys.target,
                    givingUp: givenUp
                )
            }
            guard unmoved.isEmpty else {
                _ = run.show(summary)
                throw CommandFailure(
                    "\(source) stays, because \(target) lacks some of its content: "
                        + "\(unmoved.map(\.description).joined(separator: ", ")). Create that in \(target), or name "
                        + "what may be lost by --give-up NAME"
                )
            }
        }
        summary.source = (source, isWiped: false)
        if wipesSource, !summary.isInterrupted {
            // The source can be wiped only while nobody has it open.
            database.close()
            do {
                try CommandFailure.naming(source) {
                    try Database.wipeSource(
                        atPath: source,
                        key: keys.source,
                        movedTo: target,
                        targetKey: keys.target,
                        givingUp: givenUp
                    )
                }
            } catch {
                _ = run.show(summary)
                throw error
            }
            summary.source?.isWiped = true
        }
        return run.show(summary)
    }
}
