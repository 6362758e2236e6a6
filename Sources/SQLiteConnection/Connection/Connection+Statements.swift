internal import SQLiteC

extension Connection {
    /// Prepares the first statement of `sql`.
    ///
    /// - Parameters:
    ///   - sql: The text of one statement.
    ///   - persistent: Whether the statement will be kept, so that SQLite takes its memory from elsewhere.
    /// - Throws: ``SQLiteError`` if the statement does not compile, or if there is more than one statement.
    public func prepare(_ sql: String, persistent: Bool = false) throws(SQLiteError) -> Statement {
        let (statement, rest) = try prepareFirst(sql, persistent: persistent)
        guard let statement else {
            throw SQLiteError(code: .misuse, message: "there is no statement in the text", sql: sql)
        }
        // A comment may follow the statement.
        if let rest, try hasStatement(rest) {
            throw SQLiteError(
                code: .misuse,
                message: "the text has more than one statement; use execute(script:)",
                sql: sql
            )
        }
        return statement
    }

    private func hasStatement(_ text: Substring) throws(SQLiteError) -> Bool {
        do throws(SQLiteError) {
            let (statement, rest) = try prepareFirst(String(text))
            if statement != nil { return true }
            return try rest.map { more throws(SQLiteError) in try hasStatement(more) } ?? false
        } catch {
            // A rest that does not compile is more than a comment.
            return true
        }
    }

    /// Prepares the first statement of `sql`.
    ///
    /// - Returns: The statement, `nil` if there are only spaces and comments; and the text after it, `nil` if only
    ///   spaces follow.
    public func prepareFirst(_ sql: String, persistent: Bool = false) throws(SQLiteError) -> (Statement?, Substring?) {
        try checkText(sql)
        let (handle, tail, code) = sql.withCString { text in
            prepareFirst(text, persistent: persistent)
        }
        guard code == SQLITE_OK else { throw SQLiteError(lastOf: db, fallback: code, sql: sql) }
        let rest = sql.utf8.dropFirst(tail)
        return (handle.map { Statement(handle: $0, db: db, sql: sql) }, rest.hasStatement ? Substring(rest) : nil)
    }

    /// How often at most a statement is prepared again because the schema was changed meanwhile.
    static let mostSchemaChanges = 50

    /// Prepares the first statement of a text that ends with a NUL. SQLite then needs no copy of the text.
    private func prepareFirst(
        _ text: UnsafePointer<CChar>,
        persistent: Bool
    ) -> (handle: OpaquePointer?, tail: Int, code: Int32) {
        var handle: OpaquePointer?
        var rest: UnsafePointer<CChar>?
        var code = midstream_prepare(db, text, -1, persistent ? 1 : 0, &handle, &rest)
        // If others have changed the schema meanwhile, SQLite itself tries once more, and then says that a table which
        // exists does not.
        for _ in 0..<Self.mostSchemaChanges where ResultCode(rawValue: code).primary == .schema {
            code = midstream_prepare(db, text, -1, persistent ? 1 : 0, &handle, &rest)
        }
        return (handle, rest.map { $0 - text } ?? 0, code)
    }

    /// Refuses a text with a NUL, since SQLite would silently end the text there.
    private func checkText(_ sql: String) throws(SQLiteError) {
        try checkOpen()
        guard !sql.utf8.contains(0) else {
            throw SQLiteError(
                code: .misuse,
                message: "the text has a NUL character, where SQLite would end it",
                sql: sql
            )
        }
    }

    /// A statement from the connection's cache. If it is not in the cache, it is prepared.
    ///
    /// The statement's parameters have no values, whoever used it before. While the cached statement is busy, the same
    /// text gives another statement. Reset the statement after use.
    public func cachedStatement(_ sql: String) throws(SQLiteError) -> Statement {
        try checkOpen()
        if let cached = cache.statement(sql), !cached.isBusy {
            cached.forgetBindings()
            return cached
        }
        let statement = try prepare(sql, persistent: true)
        let dropped = cache.insert(statement)
        withExtendedLifetime(dropped) {}
        return statement
    }

    /// Forgets all cached statements.
    public func clearStatementCache() {
        let dropped = cache.removeAll()
        withExtendedLifetime(dropped) {}
    }

    /// Runs one statement.
    ///
    ///     try connection.execute("UPDATE users SET name = :name WHERE id = :id", ["name": nil, "id": 1])
    ///
    /// - Throws: ``SQLiteError``, with ``ResultCode/range`` if a parameter is given no value. For NULL, give `nil`.
    public func execute(_ sql: String, _ arguments: Arguments = Arguments()) throws(SQLiteError) {
        let statement = try cachedStatement(sql)
        defer { statement.reset() }
        try statement.bind(arguments)
        try statement.run()
    }

    /// Runs all statements of a text. They must have no parameters.
    ///
    /// - Throws: ``SQLiteError``, with ``ResultCode/range`` if a statement has a parameter, since no value can be given
    ///   here.
    public func execute(script: String) throws(SQLiteError) {
        try checkText(script)
        let failure: SQLiteError? = script.withCString { start in
            var text = start
            while text.pointee != 0 {
                let (handle, tail, code) = prepareFirst(text, persistent: false)
                guard code == SQLITE_OK else {
                    return SQLiteError(lastOf: db, fallback: code, sql: String(cString: text))
                }
                if let handle {
                    let sql = String(decoding: UnsafeRawBufferPointer(start: text, count: tail), as: UTF8.self)
                    do throws(SQLiteError) {
                        try Statement(handle: handle, db: db, sql: sql).run()
                    } catch {
                        return error
                    }
                }
                text += tail
            }
            return nil
        }
        if let failure { throw failure }
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
        guard try statement.step() else { return nil }
        let row = Row(copying: statement)
        try statement.checkValuesRead()
        try statement.end()
        return row
    }

    /// The first column of the first row of one statement's result.
    public func fetchValue<Wanted: ValueConvertible>(
        _: Wanted.Type,
        _ sql: String,
        _ arguments: Arguments = Arguments()
    ) throws(SQLiteError) -> Wanted? {
        try fetchValue(sql, arguments)
    }

    /// The first column of the first row of one statement's result, as the type that the caller wants.
    public func fetchValue<Wanted: ValueConvertible>(
        _ sql: String,
        _ arguments: Arguments = Arguments()
    ) throws(SQLiteError) -> Wanted? {
        let statement = try cachedStatement(sql)
        defer { statement.reset() }
        try statement.bind(arguments)
        guard try statement.step() else { return nil }
        let value: Wanted? = statement.isNull(at: 0) ? nil : try statement.read(at: 0)
        try statement.checkValuesRead()
        try statement.end()
        return value
    }
}

extension Substring.UTF8View {
    /// Whether the text has more than spaces and semicolons.
    fileprivate var hasStatement: Bool {
        contains { !($0 == 0x20 || $0 >= 0x09 && $0 <= 0x0d && $0 != 0x0b || $0 == 0x3b) }
    }
}
