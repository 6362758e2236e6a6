internal import Midstream
internal import SQLiteConnection

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
        let isNew = !Files.exists(path)
        do {
            let database = try open(path, keys, journalMode: .wal)
            do {
                try CommandFailure.naming(path) { try request.begin(in: database) }
            } catch {
                database.close()
                throw error
            }
            return database
        } catch {
            if isNew { removeIfEmpty(path, keys) }
            throw error
        }
    }

    /// Removes a file that this process has created for a migration that was refused, unless another process uses it.
    private static func removeIfEmpty(_ path: String, _ keys: FileKeys) {
        let options = OpenOptions(access: .readWrite, key: keys.target)
        guard Files.exists(path), let connection = try? Connection(path: path, options: options) else { return }
        defer { connection.close() }
        do {
            // SQLite lets only one connection leave the write-ahead log, and only if no other has the file open.
            // Source: <https://www.sqlite.org/pragma.html#pragma_journal_mode>.
            _ = try connection.execute("PRAGMA main.journal_mode = DELETE")
            try connection.execute("BEGIN EXCLUSIVE")
            guard try connection.fetchOne("SELECT 1 FROM main.sqlite_master") == nil else { return }
            Files.remove(path)
        } catch {
            // Another process uses the file, which stays.
        }
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
