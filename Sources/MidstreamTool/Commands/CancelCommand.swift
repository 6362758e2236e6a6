internal import Midstream
internal import SQLText

/// `midstream cancel`: brings the rows of tables that have not moved completely back to their sources.
struct CancelCommand: Command {
    static let spec = CommandSpec(
        name: "cancel",
        overview: "Bring the rows of tables that move back to where they came from.",
        discussion: """
            Rows come back with all that was changed since, while applications use the target through Midstream. Ctrl-C stops
            after the step that runs; the same command goes on later. A table whose rows have all moved cannot return.
            """,
        positionals: [
            PositionalSpec(name: "target", isRequired: true, help: "The database file that rows moved into.")
        ],
        options: [
            .option("table", "table", "A table of the target that returns. Default: all that can.", isRepeatable: true)
        ] + RunArguments.options + KeyArguments.options(.source, .target)
    )

    let target: String
    let tables: [String]
    let run: RunArguments
    let keys: KeyArguments

    init(_ arguments: ParsedArguments) throws(UsageError) {
        target = arguments.positionals.first ?? ""
        tables = arguments.all("table")
        run = try RunArguments(arguments, command: Self.spec.name)
        keys = try KeyArguments(arguments, command: Self.spec.name)
    }

    func run(_ output: Output) throws -> ExitCode {
        let keys = try keys.read(targetPath: target)
        let signals = SignalWatch()
        defer { signals.stop() }
        let database = try TargetDatabase.openStored(target, keys)
        defer { database.close() }
        try database.cancelMigration(of: tables.isEmpty ? nil : tables)
        let returning = try database.readMigrationProgress().tables.filter { $0.isReturning && isChosen($0) }
        if returning.isEmpty {
            output.write(run.isJSON ? json([], rows: 0, isFinished: true) : "There is nothing to bring back.\n")
            return .success
        }
        let loop = StepLoop(
            database: database,
            signals: signals,
            budget: run.budget,
            interval: run.pace?.interval ?? .zero,
            tables: returning.map(\.name)
        )
        var rows: Int64 = 0
        // Another process may begin the return of other tables meanwhile.
        let isOver = { (progress: MigrationProgress) in
            !progress.tables.contains { table in
                table.isReturning && returning.contains { SQLIdentifier.equal($0.name, table.name) }
            }
        }
        let signal = try loop.run(until: isOver) { progress in
            rows += progress.rowsMovedByStep
        }
        output.write(
            run.isJSON
                ? json(returning, rows: rows, isFinished: signal == nil)
                : text(returning, rows: rows, isFinished: signal == nil)
        )
        return signal.map { .signal($0) } ?? .success
    }

    /// Whether the command is to bring a table back. Other tables that are returning are left alone.
    private func isChosen(_ table: MigrationProgress.Table) -> Bool {
        tables.isEmpty || tables.contains { SQLIdentifier.equal($0, table.name) }
    }

    private func text(_ tables: [MigrationProgress.Table], rows: Int64, isFinished: Bool) -> String {
        var text = ""
        for table in tables where isFinished {
            text +=
                "\(table.name): all rows are back in table \(table.sourceTable) of \(table.sourcePath ?? "this file")\n"
        }
        text += "Brought \(NumberText.count(rows, "row")) back.\n"
        if !isFinished { text += "Interrupted; nothing is lost. Run the command again to go on.\n" }
        return text
    }

    private func json(_ tables: [MigrationProgress.Table], rows: Int64, isFinished: Bool) -> String {
        let members = [
            ("finished", JSON(isFinished)), ("interrupted", JSON(!isFinished)), ("rows", JSON(rows)),
            ("tables", JSON(array: tables.map { JSON($0.name) })),
        ]
        return JSON(object: ["summary": JSON(members: members)]).text + "\n"
    }
}
