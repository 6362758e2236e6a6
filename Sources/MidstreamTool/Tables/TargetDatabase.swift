internal import Midstream

/// Opens the target of a command.
enum TargetDatabase {
    /// Opens it, and begins the migration that the arguments name, or goes on with the one that is stored in it.
    ///
    /// - Parameter createsFile: Whether a target that does not exist is created although nothing moves into it.
    /// - Throws: ``UsageError`` for the command when a source is given, but nothing that moves.
    static func open(
        _ path: String,
        _ arguments: MoveArguments,
        _ keys: FileKeys,
        createsFile: Bool,
        command: String
    ) throws -> Database {
        guard let source = arguments.source else {
            return try createsFile ? open(path, keys, journalMode: .unchanged) : openStored(path, keys)
        }
        if !arguments.namesTables, try !hasMigrations(path, keys) {
            throw UsageError("name the tables that move: --table, or --all-tables", command: command)
        }
        let request = try MoveRequest(arguments, source: source, target: path, keys: keys)
        let database = try open(path, keys, journalMode: .wal)
        try CommandFailure.naming(path) { try request.begin(in: database) }
        return database
    }

    /// Opens a file that exists.
    ///
    /// - Parameter begins: Whether rows may begin to move, beside readers. Else the file keeps the journal that it has.
    static func openStored(_ path: String, _ keys: FileKeys, begins: Bool = false) throws -> Database {
        if !Files.exists(path) { throw CommandFailure("there is no file \(path)") }
        return try open(path, keys, journalMode: begins ? .wal : .unchanged)
    }

    private static func hasMigrations(_ path: String, _ keys: FileKeys) throws -> Bool {
        guard Files.exists(path) else { return false }
        return try CommandFailure.naming(path) {
            try !Database.readMigrationProgress(ofFile: path, key: keys.target).tables.isEmpty
        }
    }

    private static func open(
        _ path: String,
        _ keys: FileKeys,
        journalMode: DatabaseConfiguration.JournalMode
    ) throws -> Database {
        var configuration = DatabaseConfiguration()
        configuration.journalMode = journalMode
        configuration.synchronous = .full
        configuration.sourceKey = { _ in keys.source }
        return try CommandFailure.naming(path) {
            try Database(path: path, key: keys.target, configuration: configuration)
        }
    }
}
