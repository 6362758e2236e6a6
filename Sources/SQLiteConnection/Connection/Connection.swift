internal import SQLiteC

/// How a database file is opened.
public struct OpenOptions: Sendable {
    /// Who may do what with the file.
    public enum Access: Sendable {
        /// Reads and writes; the file must exist.
        case readWrite
        /// Reads and writes; the file is created when it does not exist.
        case readWriteCreate
        /// Reads only.
        case readOnly
    }

    /// Who may do what with the file.
    public var access: Access
    /// The VFS to open it with; `nil` for SQLite's default.
    public var vfs: String?

    /// Makes options.
    public init(access: Access = .readWriteCreate, vfs: String? = nil) {
        self.access = access
        self.vfs = vfs
    }
}

/// A connection to a database file.
///
///     let connection = try Connection(path: "app.db")
///     try connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT)")
///     try connection.execute("INSERT INTO t(name) VALUES (?)", ["Ann"])
///     connection.lastInsertRowID      // 1
///
/// A connection is confined: it is not `Sendable`, and whoever shares one brings the lock.
public final class Connection {
    let db: OpaquePointer
    /// The path that it was opened with.
    public let path: String
    /// Interrupts the connection's running statements, from any thread.
    public let interruptHandle: InterruptHandle

    var cache = StatementCache(capacity: 128)
    var authorizer: ((AuthorizerEvent) -> AuthorizerDecision)?
    var busyHandler: ((Int) -> Bool)?

    /// Opens a file. Paths that begin with `file:` are URIs.
    ///
    /// - Throws: ``SQLiteError``, as ``ResultCode/cannotOpen`` when there is no such file or folder.
    public init(path: String, options: OpenOptions = OpenOptions()) throws(SQLiteError) {
        var flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI
        switch options.access {
        case .readWrite: flags |= SQLITE_OPEN_READWRITE
        case .readWriteCreate: flags |= SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
        case .readOnly: flags |= SQLITE_OPEN_READONLY
        }
        var handle: OpaquePointer?
        let code = sqlite3_open_v2(path, &handle, flags, options.vfs)
        guard code == SQLITE_OK, let handle else {
            var error = SQLiteError(lastOf: handle, fallback: code)
            error.message += ": \(path)"
            sqlite3_close_v2(handle)
            throw error
        }
        db = handle
        self.path = path
        interruptHandle = InterruptHandle(handle)
        sqlite3_extended_result_codes(handle, 1)
    }

    deinit {
        close()
    }

    private var isClosed = false

    /// Closes the connection. Statements that are still held keep the file open until they are released.
    public func close() {
        guard !isClosed else { return }
        isClosed = true
        interruptHandle.invalidate()
        cache.removeAll()
        sqlite3_close_v2(db)
    }

    // MARK: Statements

    /// Prepares the first statement of `sql`.
    ///
    /// - Parameter persistent: Says that the statement will be kept, so that SQLite takes its memory elsewhere.
    /// - Throws: ``SQLiteError`` when it does not compile, or when there is more than one statement.
    public func prepare(_ sql: String, persistent: Bool = false) throws(SQLiteError) -> Statement {
        let (statement, rest) = try prepareFirst(sql, persistent: persistent)
        guard let statement else {
            throw SQLiteError(code: .misuse, message: "there is no statement in the text", sql: sql)
        }
        guard rest == nil else {
            throw SQLiteError(
                code: .misuse, message: "the text has more than one statement; use execute(script:)", sql: sql)
        }
        return statement
    }

    /// Prepares the first statement of `sql`.
    ///
    /// - Returns: The statement, `nil` when there are only spaces and comments, and what follows it, `nil` when
    ///   nothing but spaces does.
    public func prepareFirst(_ sql: String, persistent: Bool = false) throws(SQLiteError) -> (Statement?, Substring?) {
        var sql = sql
        var handle: OpaquePointer?
        var tail = 0
        var count = 0
        let code = sql.withUTF8 { utf8 -> Int32 in
            count = utf8.count
            return utf8.withMemoryRebound(to: CChar.self) { text in
                guard let start = text.baseAddress else { return SQLITE_OK }
                var rest: UnsafePointer<CChar>?
                let code = midstream_prepare(
                    db, start, Int32(clamping: text.count), persistent ? 1 : 0, &handle, &rest)
                tail = rest.map { $0 - start } ?? text.count
                return code
            }
        }
        guard code == SQLITE_OK else { throw SQLiteError(lastOf: db, fallback: code, sql: sql) }
        let rest = sql.utf8.dropFirst(tail)
        let hasMore = tail < count && rest.contains { !($0 == 0x20 || $0 == 0x0a || $0 == 0x0d || $0 == 0x09 || $0 == 0x3b) }
        return (handle.map { Statement(handle: $0, db: db, sql: sql) }, hasMore ? Substring(rest) : nil)
    }

    /// A statement of the connection's cache, prepared when it is not there yet.
    ///
    /// While it is busy, the same text gives another statement. Reset it after use.
    public func cachedStatement(_ sql: String) throws(SQLiteError) -> Statement {
        if let cached = cache[sql], !cached.isBusy { return cached }
        let statement = try prepare(sql, persistent: true)
        cache[sql] = statement
        return statement
    }

    /// Forgets all cached statements.
    public func clearStatementCache() {
        cache.removeAll()
    }

    /// Runs one statement.
    public func execute(_ sql: String, _ arguments: Arguments = Arguments()) throws(SQLiteError) {
        let statement = try cachedStatement(sql)
        defer { statement.reset() }
        try statement.bind(arguments)
        try statement.run()
    }

    /// Runs all statements of a text, which take no parameters.
    public func execute(script: String) throws(SQLiteError) {
        var rest: Substring? = Substring(script)
        while let text = rest {
            let (statement, tail) = try prepareFirst(String(text))
            try statement?.run()
            rest = tail
        }
    }

    /// All rows of one statement's result.
    public func fetchAll(_ sql: String, _ arguments: Arguments = Arguments()) throws(SQLiteError) -> [Row] {
        let statement = try cachedStatement(sql)
        defer { statement.reset() }
        try statement.bind(arguments)
        var rows: [Row] = []
        while try statement.step() { rows.append(Row(copying: statement)) }
        return rows
    }

    /// The first row of one statement's result.
    public func fetchOne(_ sql: String, _ arguments: Arguments = Arguments()) throws(SQLiteError) -> Row? {
        let statement = try cachedStatement(sql)
        defer { statement.reset() }
        try statement.bind(arguments)
        return try statement.step() ? Row(copying: statement) : nil
    }

    /// The first column of the first row of one statement's result.
    public func fetchValue<Wanted: ValueConvertible>(
        _: Wanted.Type = Wanted.self, _ sql: String, _ arguments: Arguments = Arguments()
    ) throws(SQLiteError) -> Wanted? {
        let statement = try cachedStatement(sql)
        defer { statement.reset() }
        try statement.bind(arguments)
        guard try statement.step(), !statement.isNull(at: 0) else { return nil }
        return try statement.read(at: 0)
    }
}
