/// The options of `migrate` and `sql` that say what moves.
struct MoveArguments: Equatable {
    /// The file whose tables move; `nil` to go on with the migrations that are stored in the target.
    var source: String?
    var tables: [TableChoice] = []
    var movesAllTables = false
    var condition: String?
    var columns: [ColumnChoice] = []
    var ignoresUnmatchedColumns = false
    /// Whether rows that move fire the target's triggers for INSERT; `nil` if no option says so.
    var firesTriggers: Bool?
    var keepsSource = false
    /// The names of what may be lost with the source.
    var givenUp: Set<String> = []

    static let giveUp = OptionSpec.option(
        "give-up",
        "name",
        "A table, view or trigger of the source, user_version or application_id, that may be lost with it.",
        isRepeatable: true
    )
    /// The tables that foreign keys may refer to although the target does not have them.
    var waivedForeignKeys: [String] = []

    static let options: [OptionSpec] = [
        .option(
            "source",
            "file",
            "The database file whose tables move. Without it, the migration that the target has stored goes on."
        ),
        .option(
            "table",
            "table[=source-table]",
            "A table of the target, and the source's table whose rows it gets when that has another name.",
            isRepeatable: true
        ),
        .flag(
            "all-tables",
            "All of the source: tables, indexes, views, triggers, full-text and other virtual tables. The target is a new file."
        ),
        .option("where", "sql", "Which rows of the source's tables belong: a condition on their columns."),
        .option(
            "map",
            "table.column=sql",
            "What a column of the target is made of, where it is not the source's column of its name.",
            isRepeatable: true
        ),
        .flag("ignore-unmatched", "Leave columns that the target lacks behind, and give new ones their default."),
        .flag(
            "fire-triggers",
            "Have each row that comes fire the target's triggers for INSERT, so that the tables which they keep get the rows."
        ),
        .flag("no-fire-triggers", "Fire none of them: the tables which they keep have the rows already."),
        .option(
            "waive-key",
            "table",
            "A table that foreign keys of the moving tables may refer to although the target does not have it.",
            isRepeatable: true
        ),
    ]

    init(_ parsed: ParsedArguments, command: String) throws(UsageError) {
        source = parsed.value("source")
        movesAllTables = parsed.has("all-tables")
        condition = parsed.value("where")
        keepsSource = parsed.has("keep-source")
        ignoresUnmatchedColumns = parsed.has("ignore-unmatched")
        switch (parsed.has("fire-triggers"), parsed.has("no-fire-triggers")) {
        case (true, true):
            throw UsageError("--fire-triggers and --no-fire-triggers exclude each other", command: command)
        case (let fires, let firesNone): firesTriggers = fires ? true : firesNone ? false : nil
        }
        givenUp = Set(parsed.all("give-up"))
        waivedForeignKeys = parsed.all("waive-key")
        for text in parsed.all("map") {
            guard let choice = ColumnChoice(text) else {
                throw UsageError("--map takes TABLE.COLUMN=SQL", command: command)
            }
            columns.append(choice)
        }
        for text in parsed.all("table") {
            guard let choice = TableChoice(text) else {
                throw UsageError("--table takes a table's name, or TARGET=SOURCE with two of them", command: command)
            }
            tables.append(choice)
        }
        if movesAllTables, !tables.isEmpty {
            throw UsageError("--all-tables and --table exclude each other: give one of the two", command: command)
        }
        if movesAllTables, let option = optionOfTables {
            throw UsageError(
                "\(option) is for single tables, and --all-tables moves the file as it is: name the tables by --table",
                command: command
            )
        }
        if source == "" { throw UsageError("the file of --source has an empty name", command: command) }
        guard source == nil else { return }
        let needing = [
            tables.isEmpty ? nil : "--table", movesAllTables ? "--all-tables" : nil, optionOfTables,
            keepsSource ? "--keep-source" : nil, givenUp.isEmpty ? nil : "--give-up",
        ]
        if let option = needing.compactMap(\.self).first {
            throw UsageError("\(option) says what moves from a source: give --source too", command: command)
        }
    }

    /// The first option that says how the rows of single tables move; `nil` if there is none.
    private var optionOfTables: String? {
        let options = [
            condition == nil ? nil : "--where", columns.isEmpty ? nil : "--map",
            ignoresUnmatchedColumns ? "--ignore-unmatched" : nil,
            firesTriggers.map { $0 ? "--fire-triggers" : "--no-fire-triggers" },
            waivedForeignKeys.isEmpty ? nil : "--waive-key",
        ]
        return options.compactMap(\.self).first
    }

    /// Whether the options say which tables move.
    var namesTables: Bool { movesAllTables || !tables.isEmpty }
}
