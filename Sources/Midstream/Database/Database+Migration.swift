public import SQLiteConnection

extension Database {
    /// Moves tables of another file, or of this one, into tables of this database, online.
    ///
    ///     try database.addMigration(source: .file("old.db")) { table in
    ///         guard table.name == "messages" else { return }
    ///         table.sourceTable = "old_messages"
    ///         table.condition = "archived = 0"
    ///     }
    ///
    /// When it returns, the tables are read and written as if every row were there. Rows move with
    /// ``stepMigration(budget:of:)`` or ``startAutoMigration(pace:throttle:)``. The migration is stored in the file: calling
    /// this again with the same source, at each launch, changes nothing, also when all has moved.
    ///
    /// - Parameters:
    ///   - source: Where the rows are.
    ///   - retirement: What becomes of a source table whose rows have moved. It is stored with each of the chosen tables: a later call
    ///     that says another of one that is moving is an error.
    ///   - names: What of the source may be lost with it although the target does not have it: tables, views, triggers, virtual tables,
    ///     `user_version` and `application_id`, by their names. What is not named keeps the source, of which
    ///     ``MigrationEvent/sourceKept(table:path:reason:)`` and ``MigrationEvent/sourceFileKept(path:reason:)`` tell. What a later call
    ///     says counts; a table that was kept for want of it before goes with that call, if its rows are in the target still:
    ///     ``MigrationEvent/sourceDropped(table:path:)``.
    ///   - allowsNoTables: Whether the filter may choose no table at all, as where the tables are created later, or where this is the
    ///     first call of a chain within the file, whose table is dropped in the end. Otherwise that is an error: a name in the
    ///     filter may be wrong.
    ///   - filter: Called for each table of the target, also for those that this object creates later. Sets
    ///     ``TableMigration/sourceTable`` for those that move. Where one that is created later cannot begin, handlers of
    ///     ``onMigrated(_:)`` are told, and the next step tries again.
    /// - Returns: The chosen tables that have rows to come: those that have just begun to move, and those that were moving. None
    ///   when all have moved.
    /// - Throws: ``MigrationError`` when something does not fit; nothing has been changed then.
    @discardableResult
    public func addMigration(
        source: MigrationSource,
        retirement: SourceRetirement = .drop,
        givingUp names: Set<String> = [],
        allowsNoTables: Bool = false,
        filter: @escaping @Sendable (inout TableMigration) throws -> Void
    ) throws -> [String] {
        guard !isOnWriter else {
            throw MigrationError(.misuse, "a migration cannot be added in a block that writes: add it before or after")
        }
        return try engine.add(source, retirement, givingUp: names, allowsNoTables: allowsNoTables, filter)
    }

    /// Moves rows for about that long, in one transaction.
    ///
    ///     while try !database.stepMigration().isFinished {}
    ///
    /// - Parameters:
    ///   - budget: The time that the step may take, its commit included. What it waits for others comes to it: 10 ms at
    ///     most; or a tenth of the time for which they have kept steps out, up to 250 ms. Where tables have yet to begin, since
    ///     their beginning was cut short, and nothing else is left to do, a step each second tries that again, and waits for its
    ///     locks for 5 s.
    ///   - table: The target's table whose rows move; `nil` for all.
    /// - Returns: How far the migration is. A step does nothing while a transaction writes (``MigrationProgress/outcome``).
    /// - Throws: ``MigrationError`` when a row cannot be moved, the source is not what it was, or a table cannot begin. Nothing is
    ///   lost; a later step tries again.
    @discardableResult
    public func stepMigration(
        budget: Duration = .milliseconds(10),
        of table: String? = nil
    ) throws -> MigrationProgress {
        try step(.time(budget, table: table))
    }

    /// Moves so many pending rows of each table, or all that are left.
    ///
    /// - Parameters:
    ///   - rows: The rows; 0 counts what there is to move, and moves nothing.
    ///   - table: The target's table whose rows move; `nil` for all.
    /// - Complexity: O(rows · log n), in one transaction for each table.
    @discardableResult
    public func stepMigration(rows: Int64, of table: String? = nil) throws -> MigrationProgress {
        try step(.rows(rows, table: table))
    }

    private func step(_ limit: Stepper.Limit) throws -> MigrationProgress {
        guard !isOnWriter else {
            throw MigrationError(.misuse, "a step cannot be made in a block that writes: make it before or after")
        }
        return try engine.step(limit)
    }

    /// Has the rows of tables return to their sources, with all that was changed since.
    ///
    ///     try database.cancelMigration(of: ["messages"])
    ///     while try !database.stepMigration().isFinished {}
    ///
    /// The rows come back as they went, in steps, while the tables are read and written as before; also after a crash, and
    /// when ``addMigration(source:retirement:givingUp:allowsNoTables:filter:)`` is called again meanwhile. In the end a table is empty here, and its
    /// source may be written again: ``MigrationEvent/tableReturned(_:)``. Rows that were in the table before go to the source
    /// as well. While a table returns, statements that need its rows in one place are refused
    /// (``MigrationError/Code/refusedStatement``).
    ///
    /// - Parameter tables: The tables of this database; `nil` for all whose rows have not all moved.
    /// - Throws: ``MigrationError`` when a table cannot return, and then none does: all of its rows have moved, or it has
    ///   columns that are mapped by expressions, have another type affinity than in the source, or are on one side alone, or
    ///   rows of several sources, or it has been rebuilt, or rows were set aside, or have moved from the source's table before.
    public func cancelMigration(of tables: [String]? = nil) throws {
        guard !isOnWriter else {
            throw MigrationError(
                .misuse,
                "a migration cannot be cancelled in a block that writes: do so before or after"
            )
        }
        try engine.cancel(tables)
    }

    /// Lets a source be written again, and move into another file, after the file that its rows moved into was lost.
    ///
    ///     try Database.releaseSource("old.db")    // ["messages"]
    ///
    /// Until all rows have moved, the source has each row as it was when the migration began. What was written since was in the lost
    /// file alone, and is lost with it. If that file comes back, it is refused to go on
    /// (``MigrationError/Code/foreignState``), and the source is not touched. A table that was dropped from the source does not come
    /// back. Of one that was about to return, the rows that are back have what was written.
    ///
    /// - Parameters:
    ///   - path: The source's file.
    ///   - key: The key of an encrypted file.
    /// - Returns: The source's tables that belonged to lost files; none where no target has claims on the file.
    /// - Throws: ``MigrationError`` with code ``MigrationError/Code/misuse`` when the file that the rows move into is there:
    ///   ``cancelMigration(of:)`` brings them back. ``MigrationError`` when the source's file is missing, or cannot be read with the key;
    ///   ``/SQLiteConnection/SQLiteError`` when it cannot be written.
    /// - Complexity: O(n) in the source's tables.
    @discardableResult
    public static func releaseSource(_ path: String, key: EncryptionKey? = nil) throws -> [String] {
        let connection = try Connection(path: ":memory:")
        defer { connection.close() }
        connection.setBusyTimeout(milliseconds: 5000)
        let source = MigrationRecord(id: 0, sourcePath: FilePath.resolved(path))
        try SourceFile.attach(source, to: connection, access: .readWrite, keys: Keyring { _ in key })
        return try Claims(connection: connection, migration: source).releaseLost()
    }

    /// How far the migrations are.
    public func readMigrationProgress() throws -> MigrationProgress {
        // Others who ask the engine may wait for the block that runs here.
        if let access = isOnWriter ? writer : readers.current {
            try WholeFileNote.checkFinished(access.connection)
            return try StateStore(connection: access.connection).progress()
        }
        return try engine.readProgress()
    }

    /// How far the migrations that are stored in a file are, without opening it as a database that goes on with them.
    ///
    ///     try Database.readMigrationProgress(ofFile: "new.db").isFinished
    ///
    /// The file is only read, and the sources need not be there.
    ///
    /// - Throws: ``/SQLiteConnection/SQLiteError`` when the file cannot be read; ``MigrationError`` when another version
    ///   of Midstream wrote the state in another format, or the file is being made of a whole other one.
    public static func readMigrationProgress(
        ofFile path: String,
        key: EncryptionKey? = nil
    ) throws -> MigrationProgress {
        let connection = try openForReading(path, key)
        defer { connection.close() }
        return try connection.transaction {
            try WholeFileNote.checkFinished(connection)
            return try StateStore(connection: connection).progress()
        }
    }

    private static func openForReading(_ path: String, _ key: EncryptionKey?) throws -> Connection {
        let connection = try Connection(path: path, options: OpenOptions(access: .readOnly, key: key))
        connection.setBusyTimeout(milliseconds: 5000)
        do {
            try HotJournal.rollingBack(of: path, key) { try connection.checkReadable() }
            return connection
        } catch {
            connection.close()
            // A WAL needs files beside it, which may not be made in each folder.
            guard let error = error as? SQLiteError, SourceFile.isUnwritable(path, error) else { throw error }
            return try SourceFile.open(path, key)
        }
    }

    /// Whether nothing moves: every table has all of its rows, and all sources are retired.
    public var isMigrated: Bool {
        (try? readMigrationProgress().isFinished) ?? false
    }

    /// Which statements had a table's rest moved at once, and which were refused, since the database was opened.
    ///
    ///     database.migrationStatistics.drained["messages"]?[.foreignKey]
    ///
    /// It may be read on any thread.
    public var migrationStatistics: MigrationStatistics {
        counters.statistics
    }

    /// Makes steps on a timer of its own until everything has moved. Takes the place of a timer that runs.
    ///
    /// It ends at once when nothing moves, so call it after ``addMigration(source:retirement:givingUp:allowsNoTables:filter:)``. After a step that
    /// failed it goes on trying.
    ///
    /// - Parameters:
    ///   - pace: How much time steps may take, and how often.
    ///   - throttle: Asked before each step; `false` leaves it out.
    public func startAutoMigration(
        pace: MigrationPace = .gentle,
        throttle: (@Sendable () -> Bool)? = nil
    ) {
        engine.start(pace, throttle)
    }

    /// Ends auto migration. A step that runs goes on to its end.
    public func stopAutoMigration() {
        engine.stop()
    }

    /// Has `handler` called with what happens: each table that has moved, then the whole database.
    ///
    /// It is called on the thread that made the step, or that ran the statement which drained a table.
    public func onMigrated(_ handler: @escaping @Sendable (MigrationEvent) -> Void) {
        engine.addHandler(handler)
    }

    /// Has `handler` called after each step.
    public func onMigrationProgress(_ handler: @escaping @Sendable (MigrationProgress) -> Void) {
        engine.addProgressHandler(handler)
    }

    /// The progress after each step, until everything has moved. A slow reader gets the newest.
    public var migrationProgress: AsyncStream<MigrationProgress> {
        engine.progressStream { try? readMigrationProgress() }
    }
}
