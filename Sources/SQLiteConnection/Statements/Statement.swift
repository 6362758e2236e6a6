internal import SQLiteC

/// A prepared statement.
///
/// It belongs to the ``Connection`` that prepared it, and to the thread or queue that the connection is confined to.
public final class Statement {
    @usableFromInline let handle: OpaquePointer
    let db: OpaquePointer
    /// The text that it was prepared from, as the caller gave it.
    public let sql: String
    /// The number of columns of its result; 0 for a statement that returns none.
    ///
    /// A schema change may alter it when the statement runs next: see ``refreshColumns()``.
    public private(set) var columnCount: Int
    private var cachedNames: ColumnNames?

    init(handle: OpaquePointer, db: OpaquePointer, sql: String) {
        self.handle = handle
        self.db = db
        self.sql = sql
        columnCount = Int(sqlite3_column_count(handle))
    }

    deinit {
        sqlite3_finalize(handle)
    }

    /// Runs to the next row.
    ///
    /// - Returns: `true` when there is a row, `false` when the statement has ended.
    /// - Throws: ``SQLiteError``; the statement is reset then.
    public func step() throws(SQLiteError) -> Bool {
        switch sqlite3_step(handle) {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        case let code:
            let error = SQLiteError(lastOf: db, fallback: code, sql: sql)
            sqlite3_reset(handle)
            throw error
        }
    }

    /// Ends the statement's run, so that it can be bound and run again. Parameters keep their values.
    public func reset() {
        sqlite3_reset(handle)
    }

    /// Runs to the end and resets.
    public func run() throws(SQLiteError) {
        while try step() {}
        sqlite3_reset(handle)
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
            (0..<columnCount).map { sqlite3_column_name(handle, Int32($0)).map { String(cString: $0) } ?? "" })
        cachedNames = names
        return names
    }

    /// Looks at the result's columns again, after SQLite may have prepared the statement anew.
    public func refreshColumns() {
        columnCount = Int(sqlite3_column_count(handle))
        cachedNames = nil
    }
}

/// The names of a result's columns, shared by its rows.
public final class ColumnNames: Sendable {
    /// The names, in order.
    public let names: [String]
    private let lookup: [String: Int]

    init(_ names: [String]) {
        self.names = names
        var lookup: [String: Int] = [:]
        for (index, name) in names.enumerated() where lookup[name] == nil { lookup[name] = index }
        self.lookup = lookup
    }

    /// The index of the first column of that name: exactly, else without regard to the case of ASCII letters.
    public func index(of name: String) -> Int? {
        if let index = lookup[name] { return index }
        return names.firstIndex { sqlite3_stricmp($0, name) == 0 }
    }
}
