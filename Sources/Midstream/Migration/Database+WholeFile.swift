internal import SQLText
public import SQLiteConnection

extension Database {
    /// Opens a file into which all of another one moves: to give a database another key, or none, or its first one, while
    /// the application uses it.
    ///
    ///     // At each launch. The first one makes new.db; from then on the application uses it, as if all had moved.
    ///     let database = try Database(path: "new.db", key: .passphrase("…"), movingAllOf: .file("old.db"))
    ///     database.startAutoMigration()
    ///
    /// When the file does not exist, it is made with all tables, indexes, views, triggers, statistics, sequences of
    /// AUTOINCREMENT, `user_version`, `application_id`, encoding and auto-vacuum of the source, in one transaction. Then
    /// a migration of every table begins. Later calls go on with it; when it has ended they open the file, and the source
    /// need not be there any more. A table that returned (``cancelMigration(of:)``) moves again then; so does one that the source has
    /// got since, if the new file has a table of its name. A file of which all tables have returned is opened without its source, too,
    /// and has no rows.
    ///
    /// - Parameters:
    ///   - path: The new file's path.
    ///   - key: Its key; `nil` for a file that is not encrypted.
    ///   - source: The file that moves.
    ///   - retirement: What becomes of the source's tables. See ``wipeSource(atPath:key:)`` for what a plain file leaves on the
    ///     disk.
    ///   - configuration: How the file is used.
    /// - Throws: ``/SQLiteConnection/SQLiteError`` and ``MigrationError`` as the other initializer and
    ///   ``addMigration(source:retirement:filter:)`` do; as ``MigrationError/Code/unsupported`` when the source has a
    ///   table that cannot move, virtual ones among them. No file has been made then; as ``MigrationError/Code/sourceChanged`` when a
    ///   program without Midstream has changed the source meanwhile. After that and other errors there may be a file without rows,
    ///   which the next call makes anew or goes on with.
    public convenience init(
        path: String,
        key: EncryptionKey? = nil,
        movingAllOf source: MigrationSource,
        retirement: SourceRetirement = .keep,
        configuration: DatabaseConfiguration = DatabaseConfiguration()
    ) throws {
        guard case .file(let sourcePath) = source.location else {
            throw MigrationError(.misuse, "a whole file moves into another one: the source is a file")
        }
        // Where it cannot be done, nothing else depends on it.
        _ = try? WholeFile.finishWiping(sourcePath)
        let made = try WholeFile.create(path, key, from: sourcePath, source.key)
        var configuration = configuration
        configuration.createsFile = false
        configuration.movesWholeFile = true
        let others = configuration.sourceKey
        let resolved = FilePath.resolved(sourcePath)
        let sourceKey = source.key
        configuration.sourceKey = { $0 == resolved ? sourceKey : others?($0) }
        try self.init(path: path, key: key, configuration: configuration)
        let note = try engine.withStepper { stepper in
            if made == nil, FilePath.exists(sourcePath) { try WholeFile.checkSource(sourcePath, sourceKey, stepper) }
            return try WholeFile.note(stepper.connection)
        }
        if made == nil, FilePath.isGone(sourcePath) {
            // It may have ended. Before it has begun, all rows are there.
            guard note == .none else {
                close()
                throw WholeFile.missing(sourcePath, path)
            }
            let isMissed = try engine.withStepper { try $0.load().tables.contains { $0.phase == .starting } }
            if !isMissed { return }
        }
        var cause: (any Error)?
        do {
            if note != .withdrawn {
                // The application may have made tables of its own since, at an earlier launch.
                let names = try WholeFile.tableNames(sourcePath, sourceKey, movingTo: path)
                try addMigration(source: source, retirement: retirement) { table in
                    if names.contains(table.name) { table.sourceTable = table.name }
                }
                let isFinished = try engine.withStepper { stepper in
                    // Another process may have emptied it to make it anew.
                    try WholeFile.compare(sourcePath, sourceKey, finishing: true, stepper)
                        && (made != nil || !WholeFile.isEmpty(stepper.connection))
                }
                if isFinished { return }
            }
        } catch {
            guard made == nil else {
                takeBack(key, made, note)
                throw error
            }
            // An old build may have had its turn since another process made the file, which can be made anew then.
            let isSame = try? engine.withStepper {
                try WholeFile.compare(sourcePath, sourceKey, finishing: false, $0)
            }
            guard isSame == false else { throw error }
            cause = error
        }
        // Nobody has used it yet. Where it cannot be taken back, the next launch tries that again.
        try? engine.withStepper { try Setup(stepper: $0).takeBackWithdrawn(from: sourcePath) }
        // As another one's cancellation has left it.
        let isWithdrawn = (try? engine.withStepper { try WholeFile.note($0.connection) }) == .withdrawn
        let deadline = ContinuousClock.now + Stepper.patience
        while isWithdrawn, (try? stepMigration().isFinished) == false, ContinuousClock.now < deadline {}
        takeBack(key, nil, .withdrawn)
        throw WholeFile.changed(sourcePath, path, cause: cause as? SQLiteError)
    }

    private func takeBack(_ key: EncryptionKey?, _ made: Set<String>?, _ note: WholeFile.Note) {
        close()
        WholeFile.takeBack(path, key, made: made, noted: note)
    }

    /// The tables of a source file that have rows which have not moved, or returned: while there are any, the file may not be
    /// deleted.
    ///
    /// - Parameters:
    ///   - path: The file.
    ///   - key: Its key.
    /// - Throws: ``/SQLiteConnection/SQLiteError`` when the file cannot be read.
    /// - Complexity: O(n) in the rows of the tables that have moved and stay.
    public static func unmovedTables(ofSourceAtPath path: String, key: EncryptionKey? = nil) throws -> [String] {
        let connection = try WholeFile.open(path, key)
        defer { connection.close() }
        return try connection.readingTransaction { try WholeFile.unmovedTables(connection) }
    }

    /// Overwrites a source file whose rows have all moved, and deletes it with its journals.
    ///
    /// A plain file that was moved into an encrypted one still has all its rows, and so have backups and copies of it. On
    /// disks with flash memory, and file systems that never write in place, overwriting reaches a copy of the blocks at
    /// best: there, full disk encryption or discarding the whole disk is what helps.
    ///
    /// While it is overwritten the file is called as before with `-midstream_wiped` at the end. What a process leaves of it that
    /// ends then is overwritten and deleted by the next call, or by the next `Database(path:key:movingAllOf:)` of the file.
    ///
    /// - Parameters:
    ///   - path: The file.
    ///   - key: Its key.
    /// - Throws: ``MigrationError`` when it holds rows that have not moved; ``/SQLiteConnection/SQLiteError`` when it is
    ///   in use, or cannot be read.
    /// - Complexity: O(size of the file).
    public static func wipeSource(atPath path: String, key: EncryptionKey? = nil) throws {
        try WholeFile.wipe(path, key)
    }
}
