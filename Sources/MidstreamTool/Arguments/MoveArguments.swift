/// The options that say what moves: those of `migrate` and of `sql`.
struct MoveArguments: Equatable {
    /// The file whose tables move; `nil` to go on with what the target knows of.
    var source: String?
    var tables: [TableChoice] = []
    var movesAllTables = false
    var condition: String?
    var columns: [ColumnChoice] = []
    var ignoresUnmatchedColumns = false
    var firesTriggers = false
    var keepsSource = false

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
        .flag("all-tables", "All tables of the source, but virtual ones."),
        .option("where", "sql", "Which rows of the source's tables belong: a condition on their columns."),
        .option(
            "map",
            "table.column=sql",
            "What a column of the target is made of, where it is not the source's column of its name.",
            isRepeatable: true
        ),
        .flag("ignore-unmatched", "Leave columns that the target lacks behind, and give new ones their default."),
        .flag("fire-triggers", "Have each row that comes fire the target's triggers for INSERT."),
    ]

    init(_ parsed: ParsedArguments, command: String) throws(UsageError) {
        source = parsed.value("source")
        movesAllTables = parsed.has("all-tables")
        condition = parsed.value("where")
        keepsSource = parsed.has("keep-source")
        ignoresUnmatchedColumns = parsed.has("ignore-unmatched")
        firesTriggers = parsed.has("fire-triggers")
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
        if source == "" { throw UsageError("the file of --source has an empty name", command: command) }
        guard source == nil else { return }
        let needing = [
            tables.isEmpty ? nil : "--table", movesAllTables ? "--all-tables" : nil,
            condition == nil ? nil : "--where", columns.isEmpty ? nil : "--map",
            ignoresUnmatchedColumns ? "--ignore-unmatched" : nil, firesTriggers ? "--fire-triggers" : nil,
            keepsSource ? "--keep-source" : nil,
        ]
        if let option = needing.compactMap(\.self).first {
            throw UsageError("\(option) says what moves from a source: give --source too", command: command)
        }
    }

    /// Whether it says which tables.
    var namesTables: Bool { movesAllTables || !tables.isEmpty }
}
