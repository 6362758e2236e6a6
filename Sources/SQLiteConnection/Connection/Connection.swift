internal import SQLiteC

/// How a database file is opened.
public struct OpenOptions: Sendable {
    /// Whether the file may be read or also written.
    public enum Access: Sendable {
        /// Reads and writes; the file must exist.
        case readWrite
        /// Reads and writes; the file is created if it does not exist.
        case readWriteCreate
        /// Reads only.
        case readOnly
    }

    /// Whether the file may be read or also written.
    public var access: Access
    /// Whether SQLite may take for granted that nobody writes the file: see
    /// ``Connection/attach(_:as:access:isImmutable:key:)``. Such a file is opened only to be read, whatever ``access``
    /// says.
    public var isImmutable = false
    /// The VFS with which the file is opened; `nil` for SQLite's default.
    public var vfs: String?

    /// The key of an encrypted file; `nil` for a file that is not encrypted.
    public var key: EncryptionKey?

    /// Makes options.
    public init(access: Access = .readWriteCreate, vfs: String? = nil, key: EncryptionKey? = nil) {
        self.access = access
        self.vfs = vfs
        self.key = key
    }
}

/// A connection to a database file.
///
///     let connection = try Connection(path: "app.db")
///     try connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT)")
///     try connection.execute("INSERT INTO t(name) VALUES (?)", ["Ann"])
///     connection.lastInsertRowID      // 1
///
/// A connection is confined: it is not `Sendable`, and code that shares one must bring the lock.
public final class Connection {
    let db: OpaquePointer
    /// The path with which the connection was opened.
    public let path: String
    /// Interrupts the connection's running statements, from any thread.
    public let interruptHandle: InterruptHandle

    var cache = StatementCache(capacity: 128)
    var authorizer: ((AuthorizerEvent) -> AuthorizerDecision)?
    var busyHandler: ((Int) -> Bool)?
    var commitHandler: ((String, Int) -> Void)?
    /// The keys of files that were opened with a key, by schema.
    var heldKeys: [String: HeldKey] = [:]

    /// Opens a file. Paths that begin with `file:` are URIs.
    ///
    /// - Throws: ``SQLiteError``, with ``ResultCode/cannotOpen`` if there is no such file or folder. With a key, it has
    ///   ``ResultCode/misuse`` if the linked library does not encrypt: then no file is created. Whether the key fits
    ///   shows only in the first read: see ``checkReadable(schema:)``.
    public init(path: String, options: OpenOptions = OpenOptions()) throws(SQLiteError) {
        guard !path.utf8.contains(0) else {
            throw SQLiteError(code: .cannotOpen, message: "the path has a NUL character")
        }
        // A cache that connections share would have locks of its own, for tables.
        var flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI | SQLITE_OPEN_PRIVATECACHE
        switch options.access {
        case .readWrite: flags |= SQLITE_OPEN_READWRITE
        case .readWriteCreate: flags |= SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
        case .readOnly: flags |= SQLITE_OPEN_READONLY
        }
        try Self.checkLibrary()
        if let key = options.key { try Self.check(key) }
        var handle: OpaquePointer?
        let name = options.isImmutable ? Self.uri(Self.resolved(path)) + "?mode=ro&immutable=1" : path
        let code = sqlite3_open_v2(name, &handle, flags, options.vfs)
        guard code == SQLITE_OK, let handle else {
            var error = SQLiteError(lastOf: handle, fallback: code)
            error.message += ": \(path)"
            sqlite3_close_v2(handle)
            throw error
        }
        db = handle
        isBorrowed = false
        self.path = path
        interruptHandle = InterruptHandle(handle)
        sqlite3_extended_result_codes(handle, 1)
        if let key = options.key { try unlock(schema: "main", with: key) }
    }

    /// Uses a connection that other code has opened and will close: see `Connection+Borrowing`.
    init(borrowed handle: OpaquePointer) {
        db = handle
        path = sqlite3_db_filename(handle, "main").map { String(cString: $0) } ?? ""
        interruptHandle = InterruptHandle(handle)
        isBorrowed = true
    }

    deinit {
        close()
    }

    /// Whether other code closes the connection. Then its busy handler, its authorizer and its other settings are not
    /// touched.
    public let isBorrowed: Bool

    /// Whether something was left half done and could not be undone, so that the transaction must be rolled back: see
    /// ``undoSavepoint(_:isOutermost:)``.
    public internal(set) var isHalfUndone = false

    /// What is known of the files' schemas, kept by code that looks at them again and again. The connection forgets it
    /// with everything that may take a change of a schema back without a new schema version: a rollback, or another
    /// file in the place of one.
    package var schemaKnowledge: AnyObject?
    /// Whether ``schemaKnowledge`` is kept at all. On a connection on which the application runs its own statements,
    /// the application may roll back without Midstream's noticing.
    package var remembersSchemas = false

    /// Whether the connection has been closed, so that it cannot be used any more.
    public private(set) var isClosed = false

    /// Closes the connection. Statements that are still held keep the file open until they are released. They can run
    /// until then, without busy handler and authorizer. Any other use of the connection fails.
    public func close() {
        guard !isClosed else { return }
        if isBorrowed { return release() }
        // The handlers refer to this object, which statements that are still held may outlive.
        setBusyHandler(nil)
        setCommitHandler(nil)
        // In older versions of SQLite, removing the authorizer also expires every statement, and a statement that has
        // not begun could not run any more. So this is done only if there is an authorizer.
        if authorizer != nil { setAuthorizer(nil) }
        interruptHandle.invalidate()
        sparePath(of: "main")
        // While the connection is interrupted, the query fails.
        for row in (try? fetchAll("PRAGMA database_list")) ?? [] {
            if let schema = try? row.get(1, as: String.self) { sparePath(of: schema) }
        }
        isClosed = true
        schemaKnowledge = nil
        clearStatementCache()
        sqlite3_close_v2(db)
        heldKeys.removeAll()
    }

    /// Lets go of a borrowed connection.
    func release() {
        interruptHandle.invalidate()
        schemaKnowledge = nil
        clearStatementCache()
        isClosed = true
    }

    func checkOpen() throws(SQLiteError) {
        if isClosed { throw SQLiteError(code: .misuse, message: "the connection is closed") }
    }
}
