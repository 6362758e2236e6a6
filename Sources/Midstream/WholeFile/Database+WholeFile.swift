internal import SQLText
public import SQLiteConnection

extension Database {
    /// Opens a file into which all of another file moves, to give a database another key, its first key, or none, while
    /// the application uses it.
    ///
    ///     // At each launch. The first launch makes new.db. From then on the application uses it, as if all had moved.
    ///     let database = try Database(path: "new.db", key: .passphrase("…"), movingAllOf: .file("old.db"))
    ///     database.startAutoMigration()
    ///
    /// If the file does not exist, it is made in one transaction with all tables, indexes, views, triggers, statistics,
    /// sequences of AUTOINCREMENT, `user_version`, `application_id`, encoding, page size and auto-vacuum of the source.
    /// Then a migration of every table begins. Virtual tables, such as full-text tables, do not move in steps: all that
    /// they have is copied before this initializer returns, and the source's virtual tables refuse writes from then on.
    /// So rows that come fire no triggers.
    ///
    /// Later calls go on with the migration. When it has ended, they open the file, and the source need not exist any
    /// more. A table that has returned (``cancelMigration(of:)``) moves again with a later call. So does a table that
    /// the source has got since, if the new file has a table of that name. If all tables have returned, a later call
    /// opens the file without its source, too, and the file has no rows.
    ///
    /// - Parameters:
    ///   - path: The new file's path.
    ///   - key: The new file's key; `nil` for a file that is not encrypted.
    ///   - source: The file that moves.
    ///   - retirement: What becomes of the source's tables. See ``wipeSource(atPath:key:movedTo:targetKey:givingUp:)``
    ///     for what a plain file leaves on the disk.
    ///   - givenUp: See ``addMigration(source:retirement:givingUp:allowsNoTables:filter:)``.
    ///   - configuration: How the file is used.
    /// - Throws: ``/SQLiteConnection/SQLiteError`` and ``MigrationError``, as the other initializer and
    ///   ``addMigration(source:retirement:givingUp:allowsNoTables:filter:)`` do. ``MigrationError/Code/unsupported`` if
    ///   the source has a table that cannot move; no file has been made then. ``MigrationError/Code/sourceChanged`` if
    ///   a program without Midstream has changed the source meanwhile. After that error and others, there may be a file
    ///   without rows, which the next call makes anew or goes on with.
    public convenience init(
        path: String,
        key: EncryptionKey? = nil,
        movingAllOf source: MigrationSource,
        retirement: SourceRetirement = .keep,
        givingUp givenUp: Set<String> = [],
        configuration: DatabaseConfiguration = DatabaseConfiguration()
    ) throws {
        guard case .file(let sourcePath) = source.location else {
            throw MigrationError(.misuse, "a whole file moves into another file: the source must be a file")
        }
        // If an earlier wiping cannot be finished, nothing else depends on it.
        _ = try? WholeFile.finishWiping(sourcePath)
        let made = try WholeFile.create(path, key, from: sourcePath, source.key)
        try self.init(path: path, key: key, configuration: configuration.movingAll(ofFile: sourcePath, source.key))
        let note = try engine.withStepper { stepper in
            if made == nil, FilePath.exists(sourcePath) { try WholeFile.checkSource(sourcePath, source.key, stepper) }
            return try WholeFileNote.read(stepper.connection)
        }
        if made == nil, FilePath.isGone(sourcePath) {
            // Without a note, the move may have ended. With a note, the move has not begun, and the source has all rows.
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
                try addMigration(ofAll: source, sourcePath, retirement, givingUp: givenUp)
                let isFinished = try engine.withStepper { stepper in
                    // Another process may have emptied the file to make it anew.
                    try WholeFile.compare(sourcePath, source.key, finishing: true, stepper)
                        && (made != nil || !WholeFile.isEmpty(stepper.connection))
                }
                if isFinished { return }
            }
        } catch {
            guard made == nil else {
                takeBack(key, made, note)
                throw error
            }
            // An old build may have changed the source since another process made the file. Then the file can be made
            // anew.
            let isSame = try? engine.withStepper {
                try WholeFile.compare(sourcePath, source.key, finishing: false, $0)
            }
            guard isSame == false else { throw error }
            cause = error
        }
        withdraw(key, from: sourcePath, source.key)
        throw WholeFile.changed(sourcePath, path, cause: cause as? SQLiteError)
    }

    /// Lets the source's tables move, and leaves out tables that the application has made in the new file.
    ///
    /// - Parameter sourcePath: The source's path as the application gave it.
    private func addMigration(
        ofAll source: MigrationSource,
        _ sourcePath: String,
        _ retirement: SourceRetirement,
        givingUp names: Set<String>
    ) throws {
        // At an earlier launch, the application may have made tables of its own in the new file.
        let tables = try WholeFile.tableNames(sourcePath, source.key, movingTo: self.path)
        try addMigration(source: source, retirement: retirement, givingUp: names, allowsNoTables: true) { table in
            table.movesWithFile = true
            guard tables.contains(table.name) else { return }
            table.sourceTable = table.name
            // What triggers have written moves from the source as well.
            table.firesTriggers = false
        }
    }

    /// Takes the file back, since the source has changed after the file was made.
    private func withdraw(_ key: EncryptionKey?, from source: String, _ sourceKey: EncryptionKey?) {
        // Nobody has used the file yet. If it cannot be taken back, the next launch tries again.
        try? engine.withStepper { try Setup(stepper: $0).takeBackWithdrawn(from: source) }
        try? WholeFile.unfenceVirtualTables(source, sourceKey, of: self.path)
        // As another one's cancellation has left it.
        let isWithdrawn = (try? engine.withStepper { try WholeFileNote.read($0.connection) }) == .withdrawn
        let deadline = ContinuousClock.now + Stepper.patience
        while isWithdrawn, (try? stepMigration().isFinished) == false, ContinuousClock.now < deadline {}
        takeBack(key, nil, .withdrawn)
    }

    private func takeBack(_ key: EncryptionKey?, _ made: Set<String>?, _ note: WholeFileNote) {
        close()
        WholeFile.takeBack(path, key, made: made, noted: note)
    }

    /// What a source file has and the target lacks. As long as there is anything, deleting the source would lose it.
    ///
    ///     for object in try Database.unmovedObjects(ofSourceAtPath: "old.db", movedTo: "new.db") { print(object) }
    ///
    /// Tables must have moved with all rows, or be empty and in the target. Views, triggers and virtual tables must be
    /// in the target by their names, and so must `user_version` and `application_id`. If nothing has moved from the
    /// source into the target, everything must be equal. Indexes and statistics do not count.
    ///
    /// - Parameters:
    ///   - path: The source's file.
    ///   - key: The source's key.
    ///   - target: The file into which the source's tables have moved.
    ///   - targetKey: The target's key.
    ///   - names: The names of what may be lost.
    /// - Throws: ``/SQLiteConnection/SQLiteError`` if a file cannot be read; ``MigrationError`` if there is no target.
    /// - Complexity: O(n) in the rows of the tables that have moved and stay.
    public static func unmovedObjects(
        ofSourceAtPath path: String,
        key: EncryptionKey? = nil,
        movedTo target: String,
        targetKey: EncryptionKey? = nil,
        givingUp names: Set<String> = []
    ) throws -> [UnmovedObject] {
        let connection = try WholeFile.open(path, key)
        defer { connection.close() }
        return try connection.readingTransaction {
            try WholeFile.remainder(connection, movedTo: (target, targetKey), givingUp: names)
        }
    }

    /// Makes sure that all of a file can move into another file: one that is new or empty, or that was made of the
    /// first.
    ///
    /// - Returns: Whether the other file already has tables.
    @discardableResult
    package static func checkTarget(
        _ path: String,
        key: EncryptionKey?,
        movingAllOf source: String,
        sourceKey: EncryptionKey?,
        givingUp names: Set<String>
    ) throws -> Bool {
        try WholeFile.checkTarget(path, key, movingAllOf: source, sourceKey, givingUp: names)
    }

    /// Makes an empty copy of a file's tables, indexes, views and triggers, to try on the copy what is to be done to
    /// the file.
    ///
    /// - Parameter path: The path of the copy, which does not exist yet.
    package static func copySchema(
        ofFile original: String,
        key originalKey: EncryptionKey?,
        to path: String,
        key: EncryptionKey?
    ) throws {
        _ = try WholeFile.create(path, key, from: original, originalKey)
        let copy = try WholeFile.open(path, key)
        defer { copy.close() }
        try copy.execute("DROP TABLE main.\(WholeFileNote.table)")
    }

    /// Checks all that ``addMigration(source:retirement:givingUp:allowsNoTables:filter:)`` checks, and begins nothing.
    @discardableResult
    package func rehearseMigration(
        source: MigrationSource,
        retirement: SourceRetirement,
        filter: (inout TableMigration) throws -> Void
    ) throws -> MigrationRehearsal {
        try engine.rehearse(source, retirement, filter)
    }

    /// Checks all that moving a whole file checks, and begins nothing. The database is the target, or a copy of its
    /// schema.
    package func rehearseMovingAll(
        ofFile path: String,
        key: EncryptionKey?,
        retirement: SourceRetirement
    ) throws -> MigrationRehearsal {
        let names = try WholeFile.tableNames(path, key, movingTo: self.path)
        return try rehearseMigration(source: .file(path, key: key), retirement: retirement) { table in
            guard names.contains(table.name) else { return }
            table.sourceTable = table.name
            table.firesTriggers = false
        }
    }

    /// Overwrites a source file of which everything has moved, and deletes it with its journals.
    ///
    ///     try Database.wipeSource(atPath: "old.db", movedTo: "new.db", targetKey: key)
    ///
    /// A plain file that was moved into an encrypted one still has all its rows, and so have backups and copies of it.
    /// On disks with flash memory, and on file systems that never write in place, overwriting reaches a copy of the
    /// blocks at best: there, full disk encryption or discarding the whole disk is what helps.
    ///
    /// While the file is overwritten, its name has `-midstream_wiped` at the end. If the process ends meanwhile, the
    /// next call overwrites and deletes what is left, and so does the next `Database(path:key:movingAllOf:)` of the
    /// file.
    ///
    /// - Parameters:
    ///   - path: The source's file.
    ///   - key: The source's key.
    ///   - target: The file into which the source's tables have moved.
    ///   - targetKey: The target's key.
    ///   - names: The names of what may be lost although the target does not have it: see
    ///     ``unmovedObjects(ofSourceAtPath:key:movedTo:targetKey:givingUp:)``.
    /// - Throws: ``MigrationError`` if the source has what the target lacks; ``/SQLiteConnection/SQLiteError`` if the
    ///   source is in use, or cannot be read.
    /// - Complexity: O(size of the file).
    public static func wipeSource(
        atPath path: String,
        key: EncryptionKey? = nil,
        movedTo target: String,
        targetKey: EncryptionKey? = nil,
        givingUp names: Set<String> = []
    ) throws {
        try WholeFile.wipe(path, key, movedTo: (target, targetKey), givingUp: names)
    }
}

extension DatabaseConfiguration {
    /// This configuration, for a file into which all of another file moves.
    fileprivate func movingAll(ofFile source: String, _ key: EncryptionKey?) -> DatabaseConfiguration {
        var configuration = self
        configuration.createsFile = false
        configuration.movesWholeFile = true
        let resolved = FilePath.resolved(source)
        configuration.sourceKey = { [sourceKey] in $0 == resolved ? key : sourceKey?($0) }
        return configuration
    }
}

extension DatabaseAccess {
    /// The tables into which rows can move: neither virtual tables nor the tables in which these keep their content.
    package func movableTableNames() throws -> [String] { try WholeFile.tableNames(of: connection) }
}
