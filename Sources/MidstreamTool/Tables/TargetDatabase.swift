internal import Midstream
internal import SQLiteConnection

/// Opens the target of a command.
enum TargetDatabase {
    /// A target whose migration has begun.
    struct Opened {
        let database: Database
        /// What was found out about the named tables.
        var begun = MoveRequest.Begun()
    }

    /// Opens the target, and begins the migration that the arguments name, or goes on with the migrations that are
    /// stored in the target.
    ///
    /// - Parameter createsFile: Whether a target that does not exist is created even if nothing moves into it.
    /// - Throws: ``UsageError`` for the command if a source is given, but no tables that move.
    static func open(
        _ path: String,
        _ arguments: MoveArguments,
        _ keys: FileKeys,
        createsFile: Bool,
        command: String
    ) throws -> Opened {
        guard let source = arguments.source else {
            return Opened(
                database: try createsFile ? open(path, keys, journalMode: .unchanged) : openStored(path, keys)
            )
        }
        if !arguments.namesTables, try !hasMigrations(path, keys) {
            throw UsageError("name the tables that move: --table, or --all-tables", command: command)
        }
        if arguments.movesAllTables {
            guard !Files.areSame(source, path) else {
                throw CommandFailure(
                    "source and target are one file, where no table can keep its name: give --table TARGET=SOURCE"
                )
            }
            guard Files.exists(source) else { throw CommandFailure("there is no source file \(source)") }
            let retirement: SourceRetirement = arguments.keepsSource ? .keep : .drop
            return Opened(
                database: try openMovingAll(of: source, into: path, keys, retirement, givingUp: arguments.givenUp)
            )
        }
        let request = try MoveRequest(arguments, source: source, target: path, keys: keys)
        let isNew = !Files.exists(path)
        do {
            let database = try open(path, keys, journalMode: .wal)
            do {
                return Opened(
                    database: database,
                    begun: try CommandFailure.naming(path) { try request.begin(in: database) }
                )
            } catch {
                database.close()
                throw error
            }
        } catch {
            if isNew { removeIfEmpty(path, keys) }
            throw error
        }
    }

    /// Finds out whether a migration could begin, and changes nothing.
    ///
    /// - Returns: The tables that would move, and the objects of the source that are about them and would stay.
    static func rehearse(
        _ path: String,
        _ arguments: MoveArguments,
        _ keys: FileKeys,
        command: String
    ) throws -> Rehearsal {
        guard let source = arguments.source, arguments.namesTables else {
            throw UsageError("--dry-run needs --source, and the tables: --table, or --all-tables", command: command)
        }
        return try Files.withTemporaryFolder { folder in
            if arguments.movesAllTables {
                let found = try rehearseMovingAll(of: source, into: path, arguments, keys, folder)
                let names = found.beginning.union(found.moving).union(found.moved).sorted()
                return Rehearsal(
                    source: source,
                    tables: names.map { (TableChoice(target: $0, source: $0), Rehearsal.State(of: $0, in: found)) }
                )
            }
            let request = try MoveRequest(arguments, source: source, target: path, keys: keys)
            return try CommandFailure.naming(path) { try request.rehearse(in: folder) }
        }
    }

    private static func rehearseMovingAll(
        of source: String,
        into path: String,
        _ arguments: MoveArguments,
        _ keys: FileKeys,
        _ folder: String
    ) throws -> MigrationRehearsal {
        guard Files.exists(source) else { throw CommandFailure("there is no source file \(source)") }
        return try CommandFailure.naming(source) {
            let isMade = try Database.checkTarget(
                path,
                key: keys.target,
                movingAllOf: source,
                sourceKey: keys.source,
                givingUp: arguments.givenUp
            )
            let scratch = folder + "/scratch"
            if !isMade { try Database.copySchema(ofFile: source, key: keys.source, to: scratch, key: keys.target) }
            let database = try isMade ? openStored(path, keys) : Database(path: scratch, key: keys.target)
            defer { database.close() }
            return try database.rehearseMovingAll(
                ofFile: source,
                key: keys.source,
                retirement: arguments.keepsSource ? .keep : .drop
            )
        }
    }

    /// Opens a new file, or one that was made of the source, and lets all of the source move into it.
    static func openMovingAll(
        of source: String,
        into path: String,
        _ keys: FileKeys,
        _ retirement: SourceRetirement,
        givingUp names: Set<String>
    ) throws -> Database {
        // This makes sure that an error names the file that it is about.
        if Files.exists(source) { _ = try SourceSchema(path: source, key: keys.source) }
        return try CommandFailure.naming(path, or: source) {
            try Database.checkTarget(
                path,
                key: keys.target,
                movingAllOf: source,
                sourceKey: keys.source,
                givingUp: names
            )
            var configuration = DatabaseConfiguration()
            configuration.synchronous = .full
            configuration.sourceKey = { _ in keys.source }
            return try Database(
                path: path,
                key: keys.target,
                movingAllOf: .file(source, key: keys.source),
                retirement: retirement,
                givingUp: names,
                configuration: configuration
            )
        }
    }

    /// Removes a file that this process has created in vain, for instance for a migration that was refused. The file
    /// stays if another process uses it.
    static func removeIfEmpty(_ path: String, _ keys: FileKeys) {
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
            // Another process uses the file, so it stays.
        }
    }

    /// Opens a file that exists.
    ///
    /// - Parameter begins: Whether rows may begin to move while others read. Otherwise the file keeps its journal mode.
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
