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
    /// ``stepMigration(budget:of:)`` or ``startAutoMigration(pace:throttle:)``. The migration is stored in the file:
    /// calling this again with the same source, at each launch, changes nothing, even after all rows have moved.
    ///
    /// - Parameters:
    ///   - source: Where the rows are.
    ///   - retirement: What becomes of a source table whose rows have moved. It is stored with each of the chosen
    ///     tables: a later call that gives another retirement for a table that is moving is an error.
    ///   - names: The names of what may be lost with the source although the target lacks it: tables, views, triggers,
    ///     virtual tables, `user_version` and `application_id`. Whatever the target lacks and is not named here keeps
    ///     the source; ``MigrationEvent/sourceKept(table:path:reason:)`` and
    ///     ``MigrationEvent/sourceFileKept(path:reason:)`` report it. The names of the latest call count. If a table
    ///     was kept only because a name was missing, a call that gives the name drops the table, provided that its rows
    ///     are still in the target: ``MigrationEvent/sourceDropped(table:path:)``.
    ///   - allowsNoTables: Whether the filter may choose no table at all: for instance because the tables are created
    ///     later, or because this is the first call of a chain within the file, whose table is dropped in the end.
    ///     Otherwise choosing none is an error, since a name in the filter may be wrong.
    ///   - filter: Called for each table of the target, also for those that this object creates later. It sets
    ///     ``TableMigration/sourceTable`` for the tables that move. If a table that is created later cannot begin,
    ///     handlers of ``onMigrated(_:)`` are told, and the next step tries again.
    /// - Returns: The chosen tables that have rows to come: those that have just begun to move, and those that were
    ///   already moving. The list is empty once all have moved.
    /// - Throws: ``MigrationError`` if something does not fit. Nothing has been changed then.
    @discardableResult
    public func addMigration(
        source: MigrationSource,
        retirement: SourceRetirement = .drop,
        givingUp names: Set<String> = [],
        allowsNoTables: Bool = false,
        filter: @escaping @Sendable (inout TableMigration) throws -> Void
    ) throws -> [String] {
        guard !isOnWriter else {
            throw MigrationError(
                .misuse,
                "a migration cannot be added in a block that writes: add it before or after the block"
            )
        }
        return try engine.add(source, retirement, givingUp: names, allowsNoTables: allowsNoTables, filter)
    }

    /// Moves rows for about as long as the budget says, in one transaction.
    ///
    ///     while try !database.stepMigration().isFinished {}
    ///
    /// - Parameters:
    ///   - budget: The time that the step may take, its commit included. Waiting for others comes on top: 10 ms at
    ///     most, or a tenth of the time for which others have kept steps out, up to 250 ms. If nothing is left to do
    ///     but tables whose beginning was cut short, one step each second tries again to begin them, and waits 5 s at
    ///     most for the locks.
    ///   - table: The target's table whose rows move; `nil` for all.
    /// - Returns: How far the migration is. While a transaction writes, a step does nothing
    ///   (``MigrationProgress/outcome``).
    /// - Throws: ``MigrationError`` if a row cannot be moved, the source is not what it was, or a table cannot begin.
    ///   Nothing is lost; a later step tries again.
    @discardableResult
    public func stepMigration(
        budget: Duration = .milliseconds(10),
        of table: String? = nil
    ) throws -> MigrationProgress {
        try step(.time(budget, table: table))
    }

    /// Moves a number of pending rows of each table, or all rows that are left if there are fewer.
    ///
    /// - Parameters:
    ///   - rows: How many rows to move; 0 counts the rows that are left, and moves none.
    ///   - table: The target's table whose rows move; `nil` for all.
    /// - Complexity: O(rows · log n), in one transaction for each table.
    @discardableResult
    public func stepMigration(rows: Int64, of table: String? = nil) throws -> MigrationProgress {
        try step(.rows(rows, table: table))
    }

    private func step(_ limit: Stepper.Limit) throws -> MigrationProgress {
        guard !isOnWriter else {
            throw MigrationError(
                .misuse,
                "a step cannot be made in a block that writes: make it before or after the block"
            )
        }
        return try engine.step(limit)
    }

    /// Brings the rows of tables back to their sources, with all that was changed since.
    ///
    ///     try database.cancelMigration(of: ["messages"])
    ///     while try !database.stepMigration().isFinished {}
    ///
    /// The rows come back as they went, in steps, while the tables are read and written as before. They go on coming
    /// back after a crash, and if ``addMigration(source:retirement:givingUp:allowsNoTables:filter:)`` is called again
    /// meanwhile. In the end a table is empty here, and its source may be written again:
    /// ``MigrationEvent/tableReturned(_:)``. Rows that were in the table before the migration go to the source as well.
    /// While a table returns, statements that need its rows in one place are refused
    /// (``MigrationError/Code/refusedStatement``).
    ///
    /// - Parameter tables: The tables of this database; `nil` for all tables that still have rows to move.
    /// - Throws: ``MigrationError`` if a table cannot return; then no table does. A table cannot return if all of its
    ///   rows have moved, or have moved from the source's table before; if it has columns that are mapped by
    ///   expressions, that have another type affinity than in the source, or that are on one side alone; if it has rows
    ///   of several sources; if it has been rebuilt; or if rows were set aside.
    public func cancelMigration(of tables: [String]? = nil) throws {
        guard !isOnWriter else {
            throw MigrationError(
                .misuse,
                "a migration cannot be cancelled in a block that writes: cancel it before or after the block"
            )
        }
        try engine.cancel(tables)
    }

    /// Lets a source be written again, and be moved into another file, after the file that its rows moved into was
    /// lost.
    ///
    ///     try Database.releaseSource("old.db")    // ["messages"]
    ///
    /// Until all rows have moved, the source has each row as it was when the migration began. What was written since
    /// was in the lost file alone, and is lost with it. If the lost file comes back, it cannot go on
    /// (``MigrationError/Code/foreignState``), and the source is not touched. A table that was dropped from the source
    /// does not come back. If a table was returning, the rows that are already back have what was written since.
    ///
    /// - Parameters:
    ///   - path: The source's file.
    ///   - key: The key of an encrypted file.
    /// - Returns: The source's tables that belonged to lost files; none if no target has claims on the file.
    /// - Throws: ``MigrationError`` with code ``MigrationError/Code/misuse`` if the file that the rows move into is
    ///   there: ``cancelMigration(of:)`` brings the rows back. ``MigrationError`` if the source's file is missing, or
    ///   cannot be read with the key; ``/SQLiteConnection/SQLiteError`` if it cannot be written.
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
        // Another thread that uses the engine may be waiting for the block that runs here, so this must not wait for
        // the engine.
        if let access = isOnWriter ? writer : readers.current {
            try WholeFileNote.checkFinished(access.connection)
            return try StateStore(connection: access.connection).progress()
        }
        return try engine.readProgress()
    }

    /// How far the migrations that are stored in a file are. The file is not opened as a database that goes on with
    /// them.
    ///
    ///     try Database.readMigrationProgress(ofFile: "new.db").isFinished
    ///
    /// The file is only read, and the sources need not be there.
    ///
    /// - Throws: ``/SQLiteConnection/SQLiteError`` if the file cannot be read; ``MigrationError`` if another version of
    ///   Midstream wrote the state in another format, or if the file is still being made of another whole file.
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
            // A WAL needs files beside the database, and not every folder allows them to be made.
            guard let error = error as? SQLiteError, SourceFile.isUnwritable(path, error) else { throw error }
            return try SourceFile.open(path, key)
        }
    }

    /// Whether nothing is left to move: every table has all of its rows, and all sources are retired.
    public var isMigrated: Bool {
        (try? readMigrationProgress().isFinished) ?? false
    }

    /// How often statements made Midstream drain a table, by table and reason, and how many were refused, by reason,
    /// since the database was opened.
    ///
    ///     database.migrationStatistics.drained["messages"]?[.foreignKey]
    ///
    /// This may be read on any thread.
    public var migrationStatistics: MigrationStatistics {
        counters.statistics
    }

    /// Makes steps on a timer until everything has moved. A timer that was started before is replaced.
    ///
    /// The timer ends at once if nothing moves, so call this after
    /// ``addMigration(source:retirement:givingUp:allowsNoTables:filter:)``. After a step that failed, the timer goes on
    /// trying.
    ///
    /// - Parameters:
    ///   - pace: How much time steps may take, and how often.
    ///   - throttle: Asked before each step; `false` leaves that step out.
    public func startAutoMigration(
        pace: MigrationPace = .gentle,
        throttle: (@Sendable () -> Bool)? = nil
    ) {
        engine.start(pace, throttle)
    }

    /// Ends auto migration. A step that is running goes on to its end.
    public func stopAutoMigration() {
        engine.stop()
    }

    /// Has `handler` called with each event: one for each table that has moved, then one for the whole database.
    ///
    /// The handler is called on the thread that made the step, or on the thread that ran the statement which drained a
    /// table.
    public func onMigrated(_ handler: @escaping @Sendable (MigrationEvent) -> Void) {
        engine.addHandler(handler)
    }

    /// Has `handler` called after each step.
    public func onMigrationProgress(_ handler: @escaping @Sendable (MigrationProgress) -> Void) {
        engine.addProgressHandler(handler)
    }

    /// The progress after each step, until everything has moved. A slow reader gets only the newest.
    public var migrationProgress: AsyncStream<MigrationProgress> {
        engine.progressStream { try? readMigrationProgress() }
    }
}
