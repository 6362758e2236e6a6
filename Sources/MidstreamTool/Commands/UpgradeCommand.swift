internal import Midstream

/// `midstream upgrade`: brings a file to the schema that a script declares.
struct UpgradeCommand: Command {
    static let spec = CommandSpec(
        name: "upgrade",
        overview: "Bring a database file to the schema in a script.",
        discussion: """
            The script has CREATE TABLE, CREATE INDEX, CREATE VIEW and CREATE TRIGGER statements. What is missing is created,
            what ALTER TABLE can change at once is changed, and other tables are rebuilt: their rows move in steps, while
            applications use the new shape through Midstream. What is not declared stays, unless --allow-drop is given. Ctrl-C
            stops after the step that runs; midstream migrate goes on later.
            """,
        positionals: [PositionalSpec(name: "target", isRequired: true, help: "The database file.")],
        options: [
            .option("schema", "file", "The script; - for standard input."),
            .flag("plan", "Print what would be done, and do nothing."),
            .flag("allow-drop", "Drop tables, columns, indexes, views and triggers that the script does not have."),
            .option(
                "rename",
                "names",
                "OLD=NEW for a table, TABLE.OLD=NEW for a column of the table's new name.",
                isRepeatable: true
            ),
            .option(
                "map",
                "table.column=sql",
                "What a column is made of that comes, gets another name, or changes its type, its collation or NOT NULL.",
                isRepeatable: true
            ),
        ] + RunArguments.options + KeyArguments.options(.target)
    )

    let target: String
    let schema: String
    let isPlan: Bool
    let options: SchemaOptions
    let run: RunArguments
    let keys: KeyArguments

    init(_ arguments: ParsedArguments) throws(UsageError) {
        let name = Self.spec.name
        target = arguments.positionals.first ?? ""
        guard let schema = arguments.value("schema"), !schema.isEmpty else {
            throw UsageError("missing option --schema", command: name)
        }
        self.schema = schema
        isPlan = arguments.has("plan")
        var options = SchemaOptions()
        options.allowsDrops = arguments.has("allow-drop")
        for text in arguments.all("rename") {
            let parts = text.split(separator: "=", omittingEmptySubsequences: false).map(String.init)
            guard parts.count == 2, !parts.contains("") else {
                throw UsageError("--rename takes OLD=NEW, or TABLE.OLD=NEW", command: name)
            }
            if let dot = parts[0].firstIndex(of: ".") {
                let (table, column) = (String(parts[0][..<dot]), String(parts[0][parts[0].index(after: dot)...]))
                options.renamedColumns[table, default: [:]][column] = parts[1]
            } else {
                options.renamedTables[parts[0]] = parts[1]
            }
        }
        for text in arguments.all("map") {
            guard let choice = ColumnChoice(text) else {
                throw UsageError("--map takes TABLE.COLUMN=SQL", command: name)
            }
            options.columns[choice.table, default: [:]][choice.column] = .expression(choice.expression)
        }
        options.refusesUnusedColumns = true
        self.options = options
        run = try RunArguments(arguments, command: name)
        keys = try KeyArguments(arguments, command: name)
    }

    func run(_ output: Output) throws -> ExitCode {
        let keys = try keys.read(targetPath: target)
        let wanted = DatabaseSchema(sql: try ScriptSource.text(path: schema, output))
        let signals = SignalWatch()
        defer { signals.stop() }
        let database = try TargetDatabase.openStored(target, keys, begins: !isPlan)
        defer { database.close() }
        let plan = try plan(wanted, database)
        output.write(run.isJSON ? Self.json(plan).text + "\n" : CommandWords.message("\(plan)") + "\n")
        // If the database is not migrated, there are rows to move now, of this upgrade or of an earlier one.
        if isPlan || database.isMigrated { return .success }
        let run = MigrationRun(arguments: run, signals: signals, output: output)
        return run.show(try run.move(database, target: target, keys: keys))
    }

    /// - Throws: The error; if it is one of the script, with the place in the script.
    private func plan(_ wanted: DatabaseSchema, _ database: Database) throws -> SchemaPlan {
        do {
            return try isPlan
                ? database.plan(for: wanted, options: options) : database.upgrade(to: wanted, options: options)
        } catch {
            let said = message(of: error)
            let placed = ScriptText.placed(said, in: schema)
            if placed != said { throw CommandFailure(placed) }
            return try CommandFailure.naming(target) { throw error }
        }
    }

    private static func json(_ plan: SchemaPlan) -> JSON {
        let changes = plan.changes.map { change in
            JSON(members: [
                ("name", JSON(change.name)),
                ("way", JSON(change.way == .rebuild ? "rebuild" : "statements")),
                ("summary", JSON(change.summary)),
                ("sql", JSON(array: change.sql.map { JSON($0) })),
            ])
        }
        let rebuilt = plan.rebuilt.map { table in
            JSON(
                members: [("name", JSON(table.name)), ("way", JSON(table.way == .online ? "online" : "atOnce"))]
                    + (table.reason.map { [("reason", JSON(CommandWords.message($0)))] } ?? [])
            )
        }
        let members = [
            ("changes", JSON(array: changes)), ("undeclared", JSON(array: plan.undeclared.map { JSON($0) })),
            ("movedAway", JSON(array: plan.movedAway.map { JSON($0) })), ("rebuilt", JSON(array: rebuilt)),
            ("unfilled", JSON(array: plan.unfilledTables.map { JSON($0) })),
        ]
        return JSON(object: ["plan": JSON(members: members)])
    }
}
