internal import SQLiteC

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#elseif canImport(Musl)
    internal import Musl
#endif

extension Connection {
    /// Attaches a file, which must exist. If a file already has the schema's name, the new one replaces it. For use
    /// outside transactions.
    ///
    ///     try connection.attach("old.db", as: "old", access: .readOnly, key: .passphrase("…"))
    ///     try connection.fetchValue(Int64.self, "SELECT count(*) FROM old.messages")
    ///
    /// - Parameters:
    ///   - path: The file's path.
    ///   - schema: The name by which the file's tables are reached.
    ///   - access: Whether the file may be read or also written. The file is not created.
    ///   - isImmutable: Whether SQLite may take for granted that nobody writes the file. Then SQLite takes no locks,
    ///     looks at no journal, and makes no file beside it, so a file in WAL mode can be read in a folder that cannot
    ///     be written. Source: `immutable` in <https://www.sqlite.org/uri.html>.
    ///   - key: The file's key; `nil` for a file that is not encrypted, whatever key this connection's own file has.
    /// - Throws: ``SQLiteError``. A file that cannot be read with the key, or without one, is not attached.
    public func attach(
        _ path: String,
        as schema: String,
        access: OpenOptions.Access = .readWrite,
        isImmutable: Bool = false,
        key: EncryptionKey? = nil
    ) throws(SQLiteError) {
        schemaKnowledge = nil
        // A file that could not be detached before, for instance because there was no memory, is of no use.
        if isReadOnly(schema: schema) != nil { try detach(schema) }
        let path = Self.resolved(path)
        let uri =
            Self.uri(path) + "?mode=" + (access == .readOnly || isImmutable ? "ro" : "rw")
            + (isImmutable ? "&immutable=1" : "")
        if isBorrowed, !acceptsURIs {
            guard !isImmutable else {
                throw SQLiteError(
                    code: .misuse,
                    message:
                        "a file that cannot be written is attached by a URI: open the connection with SQLITE_OPEN_URI"
                )
            }
            try attachByPath(path, as: schema, isEncrypted: key != nil)
        } else if let key {
            try attachHidden(path, uri, schema, key)
        } else {
            try attach(uri, schema)
        }
        do {
            try checkReadable(schema: schema)
        } catch {
            detachUnread(schema)
            throw error
        }
    }

    /// Attaches a file that is not encrypted. Without KEY, SQLCipher would take the key of `main`.
    private func attach(_ uri: String, _ schema: String) throws(SQLiteError) {
        let statement = try prepare("ATTACH ?1 AS \(schema.quotedIdentifier)" + (Self.canEncrypt ? " KEY ''" : ""))
        try statement.bind(uri, at: 1)
        do {
            try statement.run()
        } catch {
            // ATTACH reads the schema at once, and its error says only that it cannot.
            guard error.code == .notADatabase else { throw error }
            throw Self.missingKey
        }
    }

    private func attachHidden(
        _ path: String,
        _ uri: String,
        _ schema: String,
        _ key: EncryptionKey
    ) throws(SQLiteError) {
        try Self.check(key)
        var base: UnsafeMutablePointer<sqlite3_vfs>?
        sqlite3_file_control(db, "main", SQLITE_FCNTL_VFS_POINTER, &base)
        guard let base = base ?? sqlite3_vfs_find(nil) else { throw SQLiteError(code: .error) }
        try HidingVFS.hiding(path, over: base) { vfs throws(SQLiteError) in
            try attach(uri + "&vfs=" + vfs, schema)
            do throws(SQLiteError) {
                // The salt can be read while the rest of the file is hidden.
                try unlock(schema: schema, with: key)
            } catch {
                detachUnread(schema)
                throw error
            }
        }
    }

    /// Attaches a file on a connection that takes no URIs. ATTACH would create a file that does not exist, so that is
    /// checked first.
    private func attachByPath(_ path: String, as schema: String, isEncrypted: Bool) throws(SQLiteError) {
        guard !isEncrypted else {
            throw SQLiteError(
                code: .misuse,
                message: "an encrypted file is attached by a URI: open the connection with SQLITE_OPEN_URI"
            )
        }
        guard access(path, R_OK) == 0 else { throw SQLiteError(code: .cannotOpen) }
        try attach(path, schema)
    }

    private func detachUnread(_ schema: String) { try? detach(schema) }

    /// Detaches a file, and forgets its key.
    ///
    /// - Throws: ``SQLiteError`` if a statement or a transaction uses the file.
    public func detach(_ schema: String) throws(SQLiteError) {
        schemaKnowledge = nil
        sparePath(of: schema)
        try execute("DETACH \(schema.quotedIdentifier)")
        heldKeys[schema] = nil
    }

    /// Keeps the WAL of another file from being deleted. If a file is no longer at its path when it is closed, older
    /// versions of SQLite delete the WAL at that path, which now belongs to the file that has taken its place.
    ///
    /// Source: `SQLITE_FCNTL_PERSIST_WAL` in <https://www.sqlite.org/c3ref/c_fcntl_begin_atomic_write.html>.
    func sparePath(of schema: String) {
        guard hasMoved(schema: schema) else { return }
        var isKept: Int32 = 1
        sqlite3_file_control(db, schema, SQLITE_FCNTL_PERSIST_WAL, &isKept)
    }

    /// The path without links, as SQLite spells it.
    static func resolved(_ path: String) -> String {
        guard let real = realpath(path, nil) else { return path }
        defer { free(real) }
        return String(cString: real)
    }

    /// The `file:` URI of a path. Source: <https://www.sqlite.org/uri.html>.
    static func uri(_ path: String) -> String {
        var text = "file:"
        for byte in path.utf8 {
            switch byte {
            case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, 0x2f, 0x2d, 0x2e, 0x5f, 0x7e:
                text.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                let hex = String(byte, radix: 16, uppercase: true)
                text += "%" + (hex.utf8.count == 1 ? "0" + hex : hex)
            }
        }
        return text
    }
}
