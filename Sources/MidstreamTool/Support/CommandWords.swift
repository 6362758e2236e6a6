/// Translates the library's messages into the words of the command.
///
/// The library says what to do in terms of its API, which nobody can call from a shell. So each such term is replaced
/// by an option or a command. A test makes sure that no term of the API is left in anything that the command can print.
enum CommandWords {
    /// Phrases of the library's messages, and what the command says instead. Longer phrases come first.
    static let terms: [(api: String, command: String)] = [
        (
            "by the source of addMigration or by DatabaseConfiguration.sourceKey",
            "by --source-key-file, --source-key-env or --source-key-ask"
        ),
        (", or say by DatabaseConfiguration.sourcePath where it is", ""),
        (", giving the file's path by DatabaseConfiguration.sourcePath if it is in another folder", ""),
        ("call cancelMigration", "run midstream cancel"),
        ("Call addMigration again", "Run midstream migrate again"),
        ("or cancelMigration to give", "or midstream cancel to give"),
        (" If its migration has ended, leave addMigration out", " If its migration has ended, leave --source out"),
        ("leave addMigration out", "leave the command out"),
        ("the next addMigration of this source", "the next midstream migrate of this source"),
        ("The next addMigration of this source", "The next midstream migrate of this source"),
        ("Database(path:movingAllOf:)", "midstream encrypt or decrypt"),
        ("SchemaOptions.columns", "--map"),
        ("TableMigration.columns", "--map"),
        (
            "by unmatchedColumns that these columns are to be ignored",
            "by --ignore-unmatched that these columns are to be ignored"
        ),
        (
            "the filter has set sourceTable for no table. It was asked about ",
            "--table names no table that exists. There are "
        ),
        (
            ": check the names that it compares, or add the migration with allowsNoTables: true where its tables are created later.",
            ": check the names."
        ),
        ("name it in givingUp", "name it by --give-up NAME"),
        ("unmatchedColumns = .ignored", "--ignore-unmatched"),
        ("unmatchedColumns = .refused", "no --ignore-unmatched"),
        (
            "and the filter has not said whether rows that move fire them",
            "and it was not said whether rows that move fire them"
        ),
        ("Set firesTriggers = true", "Give --fire-triggers"),
        ("Set firesTriggers = false", "Give --no-fire-triggers"),
        ("set firesTriggers = false", "give --no-fire-triggers"),
        ("firesTriggers = true", "--fire-triggers"),
        ("firesTriggers = false", "--no-fire-triggers"),
        ("with retirement: .keep", "with midstream migrate --keep-source"),
        ("call Database.releaseSource(_:key:)", "run midstream release"),
        ("bring the rows back with cancelMigration", "bring the rows back with midstream cancel"),
        (", or leave these rows out with unreadableRows = .skip", ""),
        (": say refusedRows = .stop", ""),
        (", or have such rows set aside: refusedRows = .setAside", ""),
        ("in waivedForeignKeys", "with --waive-key"),
        (" retirement .keep", " --keep-source"),
        (" retirement .drop", " no --keep-source"),
        (" retirement .deleteFileWhenEmpty", " the source's file to be deleted"),
    ]

    static func message(_ text: String) -> String {
        terms.reduce(text) { $0.replacing($1.api, with: $1.command) }
    }
}
