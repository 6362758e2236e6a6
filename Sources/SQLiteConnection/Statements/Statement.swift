internal import SQLiteC

/// A prepared statement.
///
///     let statement = try connection.prepare("SELECT name FROM users WHERE id = ?")
///     try statement.bind([1])
///     while try statement.step() { print(statement.text(at: 0)) }
///
/// Every parameter needs a value before the statement runs; NULL has to be bound, too. Values stay from one run to the
/// next.
///
/// The statement belongs to the ``Connection`` that prepared it, and to the thread or queue that the connection is
/// confined to.
public final class Statement {
    @usableFromInline let handle: OpaquePointer
    let db: OpaquePointer
    /// The text from which the statement was prepared, as the caller gave it.
    public let sql: String
    /// The number of columns of the result; 0 for a statement that returns none.
    ///
    /// A change of the schema may change this number. The first step of the statement's next run finds out.
    public private(set) var columnCount: Int
    private var cachedNames: ColumnNames?
    /// Decodes rows. It is kept with the statement because of what it has learned of the columns.
    private var rowDecoder: RowDecoder?
    /// Whether the next step begins a run. Only then does SQLite prepare the statement again.
    private var isAtStart = true
    /// Whether a transaction was open when the run began.
    private var beganInTransaction = false
    private var knownPreparations: Int32 = 0
    private var isPreparedAnew = false
    // Each bound value and each run uses the next two properties. Nothing else runs while they are changed, and a check
    // of that would cost more than the change.
    /// The parameters that need a value. Numbers that the text leaves out are removed when they are first found without
    /// a value.
    @exclusivity(unchecked) var needed: ParameterSet
    /// The parameters of `needed` that have no value.
    @exclusivity(unchecked) var unbound: ParameterSet

    init(handle: OpaquePointer, db: OpaquePointer, sql: String) {
        self.handle = handle
        self.db = db
        self.sql = sql
        columnCount = Int(sqlite3_column_count(handle))
        needed = ParameterSet(upTo: Int(sqlite3_bind_parameter_count(handle)))
        unbound = needed
    }

    deinit {
        sqlite3_finalize(handle)
    }

    /// Runs to the next row.
    ///
    /// - Returns: `true` if there is a row, `false` if the statement has ended.
    /// - Throws: ``SQLiteError``, with ``ResultCode/range`` if a parameter has no value. The statement is reset then.
    public func step() throws(SQLiteError) -> Bool {
        if isAtStart {
            try checkBound()
            beganInTransaction = sqlite3_get_autocommit(db) == 0
        }
        var code = sqlite3_step(handle)
        if isAtStart {
            if code & 0xff == SQLITE_SCHEMA { stepAgain(&code) }
            noticePreparation()
        }
        if code == SQLITE_ROW { return true }
        isAtStart = true
        if code == SQLITE_DONE {
            if beganInTransaction { try checkTransaction() }
            return false
        }
        let error = SQLiteError(lastOf: db, fallback: code, sql: sql)
        sqlite3_reset(handle)
        throw error
    }

    /// Makes sure that the transaction in which the statement began is still open. SQLite prepares a statement again if the schema has
    /// changed. If SQLite lacks the memory to take back what little the statement has done by then, it rolls back the whole transaction,
    /// runs the statement outside of it, and reports no error.
    private func checkTransaction() throws(SQLiteError) {
        // COMMIT, ROLLBACK and RELEASE write nothing by themselves.
        guard sqlite3_get_autocommit(db) != 0, sqlite3_stmt_readonly(handle) == 0 else { return }
        throw SQLiteError(
            code: .outOfMemory,
            message: "SQLite lacked memory, and has rolled back the transaction in which the statement began",
            sql: sql
        )
    }

    /// Steps again if preparing the statement again has failed because others have changed the schema once more
    /// meanwhile. SQLite itself tries twice, and then has the message of what did not compile.
    private func stepAgain(_ code: inout Int32) {
        for _ in 0..<Connection.mostSchemaChanges {
            guard code & 0xff == SQLITE_SCHEMA, let message = sqlite3_errmsg(db),
                strcmp(message, sqlite3_errstr(SQLITE_SCHEMA)) != 0
            else { return }
            sqlite3_reset(handle)
            code = sqlite3_step(handle)
        }
    }

    /// Whether SQLite has prepared the statement again since this was last called, as SQLite does when the schema has
    /// changed. If SQLite does not count that (before 3.20), this is `true` after every step.
    public func takePreparedAnew() -> Bool {
        defer { isPreparedAnew = false }
        return isPreparedAnew
    }

    private func noticePreparation() {
        isAtStart = false
        let preparations = midstream_preparations(handle)
        guard preparations != knownPreparations else { return }
        // An SQLite that does not count preparations says -1. The columns are then looked at in each run.
        knownPreparations = preparations < 0 ? 0 : preparations
        isPreparedAnew = true
        refreshColumns()
    }

    /// Makes sure that the values that were read of the current row are the row's own. If there is no memory for a
    /// conversion, SQLite gives NULL.
    ///
    /// If a next step follows, it fails by itself. Call this if no step follows.
    ///
    /// Source: <https://www.sqlite.org/c3ref/column_blob.html>.
    public func checkValuesRead() throws(SQLiteError) {
        guard sqlite3_errcode(db) == SQLITE_NOMEM else { return }
        throw SQLiteError(lastOf: db, fallback: SQLITE_NOMEM, sql: sql)
    }

    /// Ends the statement's run, so that it can be bound and run again. Parameters keep their values.
    public func reset() {
        sqlite3_reset(handle)
        isAtStart = true
    }

    /// Ends the statement's run before its last row, like ``reset()``. A write is then committed, unless a transaction
    /// is open.
    ///
    /// - Throws: ``SQLiteError`` if the commit fails. Nothing has been written then.
    ///
    /// Source: <https://www.sqlite.org/c3ref/reset.html>.
    public func end() throws(SQLiteError) {
        let code = sqlite3_reset(handle)
        isAtStart = true
        guard code == SQLITE_OK else { throw SQLiteError(lastOf: db, fallback: code, sql: sql) }
    }

    /// Runs to the end, and resets the statement.
    public func run() throws(SQLiteError) {
        while try step() {}
        reset()
    }

    /// Whether the statement has been stepped, and has neither ended nor been reset.
    public var isBusy: Bool { sqlite3_stmt_busy(handle) != 0 }

    /// Whether the statement writes nothing to the database files.
    ///
    /// Source: <https://www.sqlite.org/c3ref/stmt_readonly.html>.
    public var isReadOnly: Bool { sqlite3_stmt_readonly(handle) != 0 }

    /// The names of the result's columns.
    public var columnNames: ColumnNames {
        if let cachedNames { return cachedNames }
        let names = ColumnNames(
            (0..<columnCount).map { sqlite3_column_name(handle, Int32($0)).map { String(cString: $0) } ?? "" }
        )
        cachedNames = names
        return names
    }

    /// Looks at the result's columns again, after SQLite may have prepared the statement again.
    public func refreshColumns() {
        columnCount = Int(sqlite3_column_count(handle))
        cachedNames = nil
        rowDecoder = nil
    }

    /// The statement's decoder. While it is decoding a type that itself decodes from the statement, a new decoder.
    func idleRowDecoder() -> RowDecoder {
        if let rowDecoder, rowDecoder.source.handle == nil { return rowDecoder }
        let made = RowDecoder(self)
        if rowDecoder == nil { rowDecoder = made }
        return made
    }

    /// How the database stores text. This is found out when it is first needed, since few statements need it.
    lazy var textEncoding = TextEncoding(of: db)
}
