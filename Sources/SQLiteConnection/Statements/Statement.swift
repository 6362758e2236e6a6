internal import SQLiteC

/// A prepared statement.
///
///     let statement = try connection.prepare("SELECT name FROM users WHERE id = ?")
///     try statement.bind([1])
///     while try statement.step() { print(statement.text(at: 0)) }
///
/// Every parameter needs a value before the statement runs: NULL has to be bound, too. Values stay from one run to the next.
///
/// It belongs to the ``Connection`` that prepared it, and to the thread or queue that the connection is confined to.
public final class Statement {
    @usableFromInline let handle: OpaquePointer
    let db: OpaquePointer
    /// The text that it was prepared from, as the caller gave it.
    public let sql: String
    /// The number of columns of its result; 0 for a statement that returns none.
    ///
    /// A schema change may alter it: the first step of the statement's next run finds out.
    public private(set) var columnCount: Int
    private var cachedNames: ColumnNames?
    /// Decodes rows; kept with the statement for what it has learned of the columns.
    private var rowDecoder: RowDecoder?
    /// Whether the next step begins a run. Only then does SQLite prepare the statement anew.
    private var isAtStart = true
    private var knownPreparations: Int32 = 0
    private var isPreparedAnew = false
    // Each bound value and each run looks at these two. Nothing else runs while they are changed, and the check that nothing does
    // would cost more than the change.
    /// The parameters that need a value. Numbers that the text leaves out go when they are first found without one.
    @exclusivity(unchecked) var needed: ParameterSet
    /// Those of them that have none.
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
    /// - Returns: `true` when there is a row, `false` when the statement has ended.
    /// - Throws: ``SQLiteError``, as ``ResultCode/range`` when a parameter has no value; the statement is reset then.
    public func step() throws(SQLiteError) -> Bool {
        if isAtStart { try checkBound() }
        var code = sqlite3_step(handle)
        if isAtStart {
            if code & 0xff == SQLITE_SCHEMA { stepAgain(&code) }
            noticePreparation()
        }
        if code == SQLITE_ROW { return true }
        isAtStart = true
        if code == SQLITE_DONE { return false }
        let error = SQLiteError(lastOf: db, fallback: code, sql: sql)
        sqlite3_reset(handle)
        throw error
    }

    /// Steps again where preparing the statement anew has failed since others have changed the schema once more meanwhile: SQLite
    /// itself tries twice, and then has the message of what did not compile.
    private func stepAgain(_ code: inout Int32) {
        for _ in 0..<Connection.mostSchemaChanges {
            guard code & 0xff == SQLITE_SCHEMA, let message = sqlite3_errmsg(db),
                strcmp(message, sqlite3_errstr(SQLITE_SCHEMA)) != 0
            else { return }
            sqlite3_reset(handle)
            code = sqlite3_step(handle)
        }
    }

    /// Whether SQLite has prepared the statement anew since this was asked last, as it does when the schema has changed.
    /// Always, after a step, where SQLite does not count that (before 3.20).
    public func takePreparedAnew() -> Bool {
        defer { isPreparedAnew = false }
        return isPreparedAnew
    }

    private func noticePreparation() {
        isAtStart = false
        let preparations = midstream_preparations(handle)
        guard preparations != knownPreparations else { return }
        // An SQLite that does not count them says -1: the columns are then looked at in each run.
        knownPreparations = preparations < 0 ? 0 : preparations
        isPreparedAnew = true
        refreshColumns()
    }

    /// Makes sure that what was read of the current row is what it has: without memory for a conversion, SQLite gives NULL.
    ///
    /// The next step fails of itself then; ask where there is none.
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

    /// Ends the statement's run before its last row, like ``reset()``. A write commits then, unless a transaction is open.
    ///
    /// - Throws: ``SQLiteError`` when that fails: nothing has been written.
    ///
    /// Source: <https://www.sqlite.org/c3ref/reset.html>.
    public func end() throws(SQLiteError) {
        let code = sqlite3_reset(handle)
        isAtStart = true
        guard code == SQLITE_OK else { throw SQLiteError(lastOf: db, fallback: code, sql: sql) }
    }

    /// Runs to the end and resets.
    public func run() throws(SQLiteError) {
        while try step() {}
        reset()
    }

    /// Whether the statement has been stepped and neither ended nor been reset.
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

    /// Looks at the result's columns again, after SQLite may have prepared the statement anew.
    public func refreshColumns() {
        columnCount = Int(sqlite3_column_count(handle))
        cachedNames = nil
        rowDecoder = nil
    }

    /// The statement's decoder, or a new one while that decodes a type that decodes from the statement.
    func idleRowDecoder() -> RowDecoder {
        if let rowDecoder, rowDecoder.source.handle == nil { return rowDecoder }
        let made = RowDecoder(self)
        if rowDecoder == nil { rowDecoder = made }
        return made
    }

    /// How the database stores text. Found out when it is asked for first, since few statements need it.
    lazy var textEncoding = TextEncoding(of: db)
}
