package import SQLiteConnection

/// The file that a migration's rows come from.
package enum SourceFile {
    /// Opens a file from which rows are to move, and which is there, to look at it: to be written where that can be, and else to be
    /// read.
    ///
    /// - Throws: ``SQLiteError`` when the file cannot be read.
    package static func open(_ path: String, _ key: EncryptionKey?) throws -> Connection {
        func open(isImmutable: Bool) throws(SQLiteError) -> Connection {
            var options = OpenOptions(access: .readWrite, key: key)
            options.isImmutable = isImmutable
            let connection = try Connection(path: path, options: options)
            connection.setBusyTimeout(milliseconds: 5000)
            do throws(SQLiteError) {
                try connection.checkReadable()
            } catch {
                connection.close()
                throw error
            }
            return connection
        }
        do throws(SQLiteError) {
            return try open(isImmutable: false)
        } catch {
            guard isUnwritable(path, error), !hasJournal(path) else { throw error }
            return try open(isImmutable: true)
        }
    }

    /// Attaches the source of a migration. Outside transactions.
    ///
    /// - Throws: ``MigrationError`` when the file is missing, is no database, or cannot be read with its key; an error with
    ///   code `busy` when somebody has it locked longer than the connection waits.
    static func attach(
        _ migration: MigrationRecord,
        to connection: Connection,
        access: OpenOptions.Access,
        keys: Keyring
    ) throws {
        guard let stored = migration.sourcePath else { return }
        let path = FilePath.absolute(stored, fromFolderOf: connection.fileName(schema: "main") ?? "")
        let key = keys.key(ofSource: FilePath.resolved(path))
        do {
            try HotJournal.rollingBack(of: path, key) {
                try attach(path, as: migration.schema, to: connection, access: access, key)
            }
        } catch let error as SQLiteError where ResultCode.busy ~= error.code {
            throw SQLiteError(code: error.code, message: "\(error.message): the source \(path)", sql: error.sql)
        } catch let error as SQLiteError {
            if error.message.contains("must use the same text encoding") {
                throw MigrationError(
                    .unsupported,
                    "\(path) stores texts in another encoding than this database, and SQLite cannot attach such a file: make this "
                        + "one anew with the source's PRAGMA encoding, before its first table. Nothing has been changed",
                    cause: error
                )
            }
            // A view or trigger may name its own file `main`, as which SQLite does not know an attached file.
            if error.message.contains("cannot reference objects in database") {
                throw MigrationError(
                    .unsupported,
                    "\(path) has a view or trigger that names tables with a schema, as main.t, and SQLite cannot attach such a file. "
                        + "Open it by itself, and create that view or trigger anew without the schema's name. Nothing "
                        + "has been changed",
                    cause: error
                )
            }
            var reason = error.message
            if isUnwritable(path, error), hasJournal(path) {
                reason =
                    "it has a WAL or a journal that must be read, for which SQLite has to write in its folder: make the folder and the "
                    + "file writable, or copy both to where they are, and use the copy"
            }
            if FilePath.isGone(path) {
                reason =
                    "there is no such file; restore it, or say by "
                    + "DatabaseConfiguration.sourcePath where it is"
            }
            if error.code == .notADatabase {
                reason = error.message
                if key == nil { reason += ", by the source of addMigration or by DatabaseConfiguration.sourceKey" }
            }
            throw MigrationError(
                .sourceUnavailable,
                "cannot open \(path), which still holds rows of tables that are moving: \(reason)",
                cause: error
            )
        }
    }

    /// Attaches a file from which rows move: where SQLite would have to write to read it, and cannot, as one that nobody writes.
    static func attach(
        _ path: String,
        as schema: String,
        to connection: Connection,
        access: OpenOptions.Access,
        _ key: EncryptionKey?
    ) throws(SQLiteError) {
        do throws(SQLiteError) {
            try connection.attach(path, as: schema, access: access, key: key)
        } catch {
            guard isUnwritable(path, error), !hasJournal(path) else { throw error }
            try connection.attach(path, as: schema, access: .readOnly, isImmutable: true, key: key)
        }
    }

    /// Whether an error says that a file may not be written.
    static func cannotWrite(_ error: SQLiteError) -> Bool {
        [.readOnly, .cannotOpen, .permission].contains { (code: ResultCode) in code ~= error.code }
    }

    /// Whether SQLite could not open a file since it would have had to write, as in WAL mode, which needs a file beside it.
    static func isUnwritable(_ path: String, _ error: SQLiteError) -> Bool {
        guard ResultCode.cannotOpen ~= error.code || ResultCode.readOnly ~= error.code else { return false }
        return FilePath.isReadable(path)
            && !(FilePath.isWritable(path) && FilePath.isWritable(FilePath.split(path).folder))
    }

    /// Whether there is more of a file's content than the file has.
    private static func hasJournal(_ path: String) -> Bool {
        ["-wal", "-journal"].contains { FilePath.hasContent(path + $0) }
    }

    /// Whether there is another file by now where a source was attached from, which says itself whether it is the same. Where the
    /// target has been replaced as well, both are another pair's, which knows of no more than it did then.
    static func isReplaced(_ migration: MigrationRecord, on connection: Connection) -> Bool {
        guard migration.sourcePath != nil, connection.hasMoved(schema: migration.schema),
            !connection.hasMoved(schema: "main"),
            let path = migration.path(fromFolderOf: connection.fileName(schema: "main") ?? "")
        else { return false }
        return FilePath.exists(path)
    }

    /// Rolls back the journals that others have left beside attached sources.
    ///
    /// - Throws: When none of them can be opened: one may have got another path.
    static func rollBackJournals(of schemas: some Sequence<String>, _ connection: Connection, _ keys: Keyring) throws {
        var failure: (any Error)?
        var isAnyOpened = false
        for schema in schemas {
            guard let path = connection.fileName(schema: schema) else { continue }
            do {
                try HotJournal.rollBack(path, keys.key(ofSource: FilePath.resolved(path)))
                isAnyOpened = true
            } catch {
                failure = error
            }
        }
        if let failure, !isAnyOpened { throw failure }
    }

    /// Deletes a file that is attached, unless somebody may have it open who would go on writing what nobody finds.
    ///
    /// A WAL can only be given up when nobody else has read the file and still has it open. Without one, SQLite itself
    /// refuses who has it open and writes it after that: it looks whether the file is still where it was.
    ///
    /// - Parameters:
    ///   - table: A table of it to take its lock by.
    ///   - isUnused: Looked at when nobody else writes it any more.
    /// - Returns: Whether it is gone, or is used: `false` where somebody has it open, or it cannot be removed.
    static func delete(
        _ path: String,
        attachedTo connection: Connection,
        as schema: String,
        lockingBy table: String,
        if isUnused: () throws -> Bool
    ) throws -> Bool {
        let mode: String? = try connection.fetchValue("PRAGMA \(schema).journal_mode = DELETE")
        guard mode == "delete" else { return false }
        try connection.execute("BEGIN")
        defer { try? connection.rollBack() }
        try WriteLock.take(connection, by: table, in: schema)
        // Somebody else was faster, and a file that has come to be there since is another one.
        if connection.hasMoved(schema: schema) { return true }
        // It may have got a WAL again before it was locked: who writes one takes no notice that the file is gone.
        guard try connection.fetchValue(String.self, "PRAGMA \(schema).journal_mode") == "delete" else { return false }
        guard try isUnused() else { return true }
        // SQLite takes no notice when it cannot delete the WAL.
        for suffix in ["-wal", "-shm"] { _ = FilePath.remove(path + suffix) }
        return FilePath.remove(path)
    }
}
