internal import SQLiteConnection

// The end of a source that has moved as a whole, and what prevents that end.
extension WholeFile {
    /// The name of a file while it is being overwritten. Under its own name others would find the file, and it would be
    /// no database.
    private static func wipedName(_ path: String) -> String { FilePath.resolved(path) + "-midstream_wiped" }

    /// Overwrites and deletes what is left of a file when the process that was wiping it has ended half way.
    ///
    /// - Returns: Whether there was such a file.
    @discardableResult
    static func finishWiping(_ path: String) throws -> Bool {
        let wiped = wipedName(path)
        guard FilePath.exists(wiped) else { return false }
        // The files that now stand beside the former name belong to another file.
        try overwriteAndRemove(wiped)
        if FilePath.isLink(path), FilePath.isGone(path) { _ = FilePath.remove(path) }
        return true
    }

    private static func overwriteAndRemove(_ path: String) throws {
        guard FilePath.exists(path) else { return }
        // Another process may have removed the file first.
        guard FilePath.overwrite(path) || FilePath.isGone(path) else {
            throw SQLiteError(code: .ioError, message: "\(path) cannot be overwritten")
        }
        guard FilePath.remove(path) || FilePath.isGone(path) else {
            throw SQLiteError(code: .ioError, message: "\(path) has been overwritten, but cannot be deleted")
        }
    }

    /// Overwrites and deletes a source.
    ///
    /// - Parameter target: The file that all of it has moved into.
    static func wipe(
        _ path: String,
        _ key: EncryptionKey?,
        movedTo target: (path: String, key: EncryptionKey?),
        givingUp names: Set<String>
    ) throws {
        if try finishWiping(path), !FilePath.exists(path) { return }
        let connection = try Connection(path: path, options: OpenOptions(access: .readWrite, key: key))
        defer { connection.close() }
        connection.setBusyTimeout(milliseconds: 1000)
        try connection.checkReadable()
        // Empties the WAL, and shows whether anybody else has the file open.
        try connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        try connection.execute("PRAGMA journal_mode = DELETE")
        try connection.execute("BEGIN EXCLUSIVE")
        let isMoving =
            try StateStore(connection: connection).exists()
            || Claims.all(in: "main", connection).contains { $0.moved == nil }
        guard !isMoving else {
            throw MigrationError(
                .misuse,
                "\(path) has tables that are moving: it stays as it is until they have moved"
            )
        }
        let left = try remainder(connection, movedTo: target, givingUp: names)
        guard left.isEmpty else {
            throw MigrationError(
                .misuse,
                "\(path) stays as it is, because \(target.path) lacks some of its content: \(Remainder.words(left)). "
                    + "Create that there, or name it in givingUp"
            )
        }
        let file = FilePath.resolved(path)
        // A journal of `journal_mode = PERSIST` holds pages of the file. Nobody can begin a journal while the file is
        // locked.
        try overwriteAndRemove(file + "-journal")
        guard FilePath.isWritable(file), FilePath.rename(file, to: wipedName(file)) else {
            throw SQLiteError(code: .ioError, message: "\(path) cannot be overwritten")
        }
        try finishWiping(path)
    }

    /// What a source has and the file into which it has moved lacks. Runs in the open transaction.
    static func remainder(
        _ source: Connection,
        movedTo file: (path: String, key: EncryptionKey?),
        givingUp names: Set<String>
    ) throws -> [UnmovedObject] {
        guard FilePath.exists(file.path) else {
            throw MigrationError(
                .misuse,
                "there is no file \(file.path), into which \(source.fileName(schema: "main") ?? "the source") has moved: check the path"
            )
        }
        let target = try open(file.path, file.key)
        defer { target.close() }
        return try target.readingTransaction {
            try WholeFileNote.checkFinished(target)
            return try Remainder(
                source: .init(connection: source, schema: "main"),
                target: .init(connection: target, schema: "main"),
                givingUp: names
            ).objects()
        }
    }

    /// Makes sure that all of a file can move into another file: one that is new or empty, or that was made of the
    /// first.
    ///
    /// - Parameter names: What of the source may be lost, if the other file was made of it.
    /// - Returns: Whether the other file has what was made of the source, or is equal to it.
    /// - Throws: ``MigrationError`` that names what the other file would not get.
    @discardableResult
    static func checkTarget(
        _ path: String,
        _ key: EncryptionKey?,
        movingAllOf source: String,
        _ sourceKey: EncryptionKey?,
        givingUp names: Set<String>
    ) throws -> Bool {
        guard FilePath.hasContent(path), FilePath.exists(source) else { return false }
        let target = try open(path, key)
        defer { target.close() }
        let isFree = try target.readingTransaction { try isEmpty(target) || WholeFileNote.isUnfinished(target) }
        if isFree { return false }
        let connection = try open(source, sourceKey)
        defer { connection.close() }
        let (left, isTied) = try target.readingTransaction {
            try connection.readingTransaction {
                try Remainder(
                    source: .init(connection: connection, schema: "main"),
                    target: .init(connection: target, schema: "main"),
                    givingUp: names
                ).objectsWithoutPlace()
            }
        }
        if left.isEmpty { return true }
        throw MigrationError(
            .misuse,
            "a whole file moves into a new or an empty file, but \(path) already has tables, and lacks some of the "
                + "content of \(source): "
                + "\(Remainder.words(left))" + (isTied ? ". Create that there, or name it in givingUp" : "")
        )
    }
}
