internal import SQLiteC

/// Which lock a connection holds on a schema's file.
public enum TransactionState: Int32, Sendable {
    /// Nothing.
    case none = 0
    /// A snapshot, or a shared lock.
    case read = 1
    /// The write lock.
    case write = 2
}

/// How much of a WAL a checkpoint copies, and for whom it waits.
public enum CheckpointMode: Int32, Sendable {
    /// Copies as much as possible without waiting for anybody.
    case passive = 0
    /// Copies everything, and waits for writers.
    case full = 1
    /// Does what `full` does, and then waits for readers, so that the WAL starts anew.
    case restart = 2
    /// Does what `restart` does, and then cuts the WAL's file.
    case truncate = 3
}

extension Connection {
    /// The version of the linked SQLite, as `3040001` for 3.40.1.
    public static var libraryVersionNumber: Int { Int(sqlite3_libversion_number()) }

    /// The rows that the last INSERT, UPDATE or DELETE changed, without those of its triggers.
    public var changes: Int64 { isClosed ? 0 : midstream_changes(db) }

    /// The rows changed since the connection was opened.
    public var totalChanges: Int64 { isClosed ? 0 : midstream_total_changes(db) }

    /// The rowid of the last row inserted.
    public var lastInsertRowID: Int64 {
        get { isClosed ? 0 : sqlite3_last_insert_rowid(db) }
        set { if !isClosed { midstream_set_last_insert_rowid(db, newValue) } }
    }

    /// Whether an explicit transaction is open.
    public var isInTransaction: Bool { !isClosed && sqlite3_get_autocommit(db) == 0 }

    /// Whether the open transaction has begun to write any file, or TEMP; `nil` before SQLite 3.34, which cannot tell.
    public var isWriting: Bool? {
        let isWriting = isClosed ? 0 : midstream_is_writing(db)
        return isWriting < 0 ? nil : isWriting > 0
    }

    /// Whether a statement, or the handle of a value, writes outside transactions. A transaction that was begun now
    /// would take in its writes: it could not be committed before the writing ends, and a rollback would undo the
    /// writes. Before SQLite 3.34, handles are not seen.
    package var isAmidWrite: Bool {
        guard !isClosed, !isInTransaction else { return false }
        return isWriting ?? hasBusyStatement { sqlite3_stmt_readonly($0) == 0 }
    }

    /// Whether a statement is running.
    public var hasBusyStatement: Bool { hasBusyStatement { _ in true } }

    private func hasBusyStatement(where isMeant: (OpaquePointer) -> Bool) -> Bool {
        if isClosed { return false }
        var statement = sqlite3_next_stmt(db, nil)
        while let current = statement {
            if sqlite3_stmt_busy(current) != 0, isMeant(current) { return true }
            statement = sqlite3_next_stmt(db, current)
        }
        return false
    }

    /// Whether the open transaction has violated deferred foreign keys, so that it cannot be committed yet.
    ///
    /// Source: <https://www.sqlite.org/c3ref/c_dbstatus_options.html>, `SQLITE_DBSTATUS_DEFERRED_FKS`.
    public var hasDeferredViolations: Bool {
        guard !isClosed else { return false }
        var current: Int32 = 0
        var highest: Int32 = 0
        sqlite3_db_status(db, SQLITE_DBSTATUS_DEFERRED_FKS, &current, &highest, 0)
        return current != 0
    }

    /// Whether the schema's file cannot be written on this connection; `nil` if there is no such schema.
    public func isReadOnly(schema: String) -> Bool? {
        if isClosed { return nil }
        switch sqlite3_db_readonly(db, schema) {
        case 0: return false
        case 1: return true
        default: return nil
        }
    }

    /// The full path of the schema's file; empty for a temporary or in-memory file, `nil` if there is no such schema.
    public func fileName(schema: String) -> String? {
        isClosed ? nil : sqlite3_db_filename(db, schema).map { String(cString: $0) }
    }

    /// Sets how long a statement waits for a lock that another connection holds, in milliseconds.
    public func setBusyTimeout(milliseconds: Int32) {
        guard !isClosed else { return }
        busyHandler = nil
        sqlite3_busy_timeout(db, milliseconds)
    }

    /// Has `handler` called each time a lock cannot be had, with the number of calls before. If it returns `true`,
    /// SQLite tries again.
    public func setBusyHandler(_ handler: ((Int) -> Bool)?) {
        guard !isClosed else { return }
        busyHandler = handler
        guard handler != nil else {
            sqlite3_busy_handler(db, nil, nil)
            return
        }
        sqlite3_busy_handler(
            db,
            { context, count in
                guard let context else { return 0 }
                let connection = Unmanaged<Connection>.fromOpaque(context).takeUnretainedValue()
                return connection.busyHandler?(Int(count)) == true ? 1 : 0
            },
            Unmanaged.passUnretained(self).toOpaque()
        )
    }

    /// Copies the WAL of a schema into its file.
    ///
    /// - Returns: The number of frames in the WAL, and how many of them are now in the file; -1 and -1 if the schema is
    ///   not in WAL mode, or if the connection has not read it yet.
    /// - Throws: ``SQLiteError``; ``ResultCode/busy`` if a mode that waits could not finish.
    public func checkpoint(schema: String = "main", mode: CheckpointMode) throws(SQLiteError) -> (log: Int, copied: Int)
    {
        try checkOpen()
        var log: Int32 = -1
        var copied: Int32 = -1
        let code = sqlite3_wal_checkpoint_v2(db, schema, mode.rawValue, &log, &copied)
        guard code == SQLITE_OK else { throw SQLiteError(lastOf: db, fallback: code) }
        return (Int(log), Int(copied))
    }

    /// Has SQLite checkpoint after a commit that leaves `frames` frames or more in the WAL; 0 switches that off.
    public func setAutomaticCheckpoint(frames: Int32) {
        guard !isClosed else { return }
        sqlite3_wal_autocheckpoint(db, frames)
    }

    /// Has `handler` called after each commit in WAL mode, with the schema that was written and the number of frames
    /// that its WAL then has; `nil` ends that. The handler replaces automatic checkpoints.
    ///
    /// Source: <https://www.sqlite.org/c3ref/wal_hook.html>.
    public func setCommitHandler(_ handler: ((_ schema: String, _ frames: Int) -> Void)?) {
        guard !isClosed, handler != nil || commitHandler != nil else { return }
        commitHandler = handler
        guard handler != nil else {
            sqlite3_wal_hook(db, nil, nil)
            return
        }
        sqlite3_wal_hook(
            db,
            { context, _, schema, frames in
                guard let context, let schema else { return SQLITE_OK }
                let connection = Unmanaged<Connection>.fromOpaque(context).takeUnretainedValue()
                connection.commitHandler?(String(cString: schema), Int(frames))
                return SQLITE_OK
            },
            Unmanaged.passUnretained(self).toOpaque()
        )
    }

    /// Syncs the schema's WAL or journal, then its database file, to the disk.
    public func sync(schema: String) throws(SQLiteError) {
        try checkOpen()
        for journal: Int32 in [1, 0] {
            let code = midstream_sync(db, schema, journal)
            guard code == SQLITE_OK else {
                throw SQLiteError(code: ResultCode(rawValue: code), message: "cannot sync \(schema)")
            }
        }
    }

    /// Whether a schema's file has been deleted, or has got another path, since it was opened. Also `false` if that
    /// cannot be found out.
    ///
    /// Source: `SQLITE_FCNTL_HAS_MOVED` in <https://www.sqlite.org/c3ref/c_fcntl_begin_atomic_write.html>.
    public func hasMoved(schema: String) -> Bool {
        var hasMoved: Int32 = 0
        return !isClosed && sqlite3_file_control(db, schema, SQLITE_FCNTL_HAS_MOVED, &hasMoved) == SQLITE_OK
            && hasMoved != 0
    }

    /// Switches a setting of the connection on or off.
    ///
    /// Source: <https://www.sqlite.org/c3ref/c_dbconfig_defensive.html>.
    public func configure(_ setting: Setting, _ isOn: Bool) throws(SQLiteError) {
        try checkOpen()
        let code = midstream_db_config(db, setting.rawValue, isOn ? 1 : 0, nil)
        guard code == SQLITE_OK else { throw SQLiteError(lastOf: db, fallback: code) }
    }

    /// Makes the next CREATE TABLE describe an existing b-tree, or ends that: see `midstream_imposter`.
    package func setImposter(schema: String, isOn: Bool, root: Int64) throws(SQLiteError) {
        try checkOpen()
        let code = midstream_imposter(db, schema, isOn ? 1 : 0, Int32(truncatingIfNeeded: root))
        guard code == SQLITE_OK else { throw SQLiteError(lastOf: db, fallback: code) }
    }

    /// Whether a setting is on; `nil` if this version of SQLite does not know the setting.
    public func isConfigured(_ setting: Setting) -> Bool? {
        var isOn: Int32 = 0
        guard !isClosed, midstream_db_config(db, setting.rawValue, -1, &isOn) == SQLITE_OK else { return nil }
        return isOn != 0
    }

    /// A setting of a connection.
    public struct Setting: Sendable {
        let rawValue: Int32
        /// Whether foreign keys are enforced.
        public static let foreignKeys = Setting(rawValue: SQLITE_DBCONFIG_ENABLE_FKEY)
        /// Whether statements are kept from what could corrupt a file, such as writing the schema's table (3.26).
        public static let defensive = Setting(rawValue: 1010)
        /// Whether triggers fire.
        public static let triggers = Setting(rawValue: SQLITE_DBCONFIG_ENABLE_TRIGGER)
    }
}

extension Connection {
    /// The number of pages that the connection has written to its files since ``takePagesWritten()`` was last called.
    ///
    /// Source: <https://www.sqlite.org/c3ref/c_dbstatus_options.html>.
    public var pagesWritten: Int64 { pagesWritten(forgetting: false) }

    /// The number of pages that the connection has written to its files since this was last called.
    public func takePagesWritten() -> Int64 { pagesWritten(forgetting: true) }

    private func pagesWritten(forgetting: Bool) -> Int64 {
        guard !isClosed else { return 0 }
        var current: Int32 = 0
        var highest: Int32 = 0
        sqlite3_db_status(db, SQLITE_DBSTATUS_CACHE_WRITE, &current, &highest, forgetting ? 1 : 0)
        return Int64(current)
    }
}
