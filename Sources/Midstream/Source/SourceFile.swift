package import SQLiteConnection

/// The file that a migration's rows come from.
package enum SourceFile {
    /// Opens an existing file from which rows are to move, in order to look at it. The connection can write if the file can be
    /// written; otherwise it only reads.
    ///
    /// - Throws: ``SQLiteError`` if the file cannot be read.
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

    /// Attaches the source of a migration. Call it outside transactions.
    ///
    /// - Throws: ``MigrationError`` if the file is missing, is no database, or cannot be read with its key. An error with code
    ///   `busy` if another connection has the file locked for longer than this connection waits.
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
                    "\(path) stores texts in another encoding than this database, and SQLite cannot attach such a "
                        + "file: create this database anew, and set the source's PRAGMA encoding before its first "
                        + "table. Nothing has been changed",
                    cause: error
                )
            }
            // A view or trigger may name its own file as `main`; SQLite does not accept that name for an attached file.
            if error.message.contains("cannot reference objects in database") {
                throw MigrationError(
                    .unsupported,
                    "\(path) has a view or trigger that names tables with a schema, such as main.t, and SQLite cannot "
                        + "attach such a file. Open the file by itself, and create that view or trigger anew without "
                        + "the schema's name. Nothing has been changed",
                    cause: error
                )
            }
            var reason = error.message
            if isUnwritable(path, error), hasJournal(path) {
                reason =
                    "it has a WAL or a journal, and to read that, SQLite must write in the folder: make the folder and "
                    + "the file writable, or copy the whole folder to a place where they are, and use the copy"
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

    /// Attaches a file from which rows move. If SQLite would have to write in order to read the file, and cannot, attaches it as
    /// immutable.
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

    /// Whether an error says that a file cannot be written.
    static func cannotWrite(_ error: SQLiteError) -> Bool {
        [.readOnly, .cannotOpen, .permission].contains { (code: ResultCode) in code ~= error.code }
    }

    /// Whether SQLite could not open a file because it would have had to write: in WAL mode, for instance, it needs a file beside
    /// the database.
    static func isUnwritable(_ path: String, _ error: SQLiteError) -> Bool {
        guard ResultCode.cannotOpen ~= error.code || ResultCode.readOnly ~= error.code else { return false }
        return FilePath.isReadable(path)
            && !(FilePath.isWritable(path) && FilePath.isWritable(FilePath.split(path).folder))
    }

    /// Whether the file has a WAL or a journal with content that the file itself lacks.
    private static func hasJournal(_ path: String) -> Bool {
        ["-wal", "-journal"].contains { FilePath.hasContent(path + $0) }
    }

    /// Whether another file now has the path of an attached source; that file itself says whether it is the source. `false` if the
    /// target has been replaced too: both new files belong to another pair, which knows no more than it did then.
    static func isReplaced(_ migration: MigrationRecord, on connection: Connection) -> Bool {
        guard migration.sourcePath != nil, connection.hasMoved(schema: migration.schema),
            !connection.hasMoved(schema: "main"),
            let path = migration.path(fromFolderOf: connection.fileName(schema: "main") ?? "")
        else { return false }
        return FilePath.exists(path)
    }

    /// Rolls back the journals that other connections have left beside attached sources.
    ///
    /// - Throws: The last error, if none of the sources can be opened. One alone may have another path by now.
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

    /// Deletes an attached file, unless another connection may have it open and would go on writing what nobody finds.
    ///
    /// A WAL can be given up only if no other connection has read the file and still has it open. Without a WAL, SQLite itself
    /// refuses later writes of a connection that has the file open: it checks whether the file is still where it was.
    ///
    /// - Parameters:
    ///   - table: A table of the file, by which to take the file's lock.
    ///   - isUnused: Checked when no other connection can write the file any more.
    /// - Returns: `true` if nothing is left to do: the file is gone, or stays because `isUnused` has found it in use. `false` if the
    ///   caller may try again: another connection has it open, or it cannot be removed.
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
        // Another process has deleted the file first. A file that has appeared there since is another one.
        if connection.hasMoved(schema: schema) { return true }
        // The file may have got a WAL again before it was locked. A connection that writes a WAL does not notice that the file is
        // gone.
        guard try connection.fetchValue(String.self, "PRAGMA \(schema).journal_mode") == "delete" else { return false }
        guard try isUnused() else { return true }
        // SQLite says nothing if it cannot delete the WAL.
        for suffix in ["-wal", "-shm"] { _ = FilePath.remove(path + suffix) }
        return FilePath.remove(path)
    }
}
