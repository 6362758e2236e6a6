internal import SQLiteC

/// An error of SQLite: what failed, in SQLite's own words, and the SQL that it failed in.
///
/// Bound values and keys never appear in the error.
public struct SQLiteError: Error, Hashable, Sendable {
    /// The extended result code.
    public var code: ResultCode
    /// SQLite's message, such as `UNIQUE constraint failed: messages.id`.
    public var message: String
    /// The statement's text as the caller gave it; `nil` if no statement was involved.
    public var sql: String?
    /// The byte of ``sql`` at which the error is, such as that of a word that is no SQL; `nil` if SQLite does not tell.
    /// Two errors may differ in their offsets and still be equal.
    ///
    /// Source: <https://www.sqlite.org/c3ref/errcode.html>, `sqlite3_error_offset` (3.38).
    public var offset: Int?

    /// Makes an error; `message` defaults to SQLite's words for `code`.
    public init(code: ResultCode, message: String? = nil, sql: String? = nil) {
        self.code = code
        self.message = message ?? String(cString: sqlite3_errstr(code.rawValue))
        self.sql = sql
    }

    /// The last error of a connection.
    init(lastOf db: OpaquePointer?, fallback: Int32, sql: String? = nil) {
        guard let db else {
            self.init(code: ResultCode(rawValue: fallback), sql: sql)
            return
        }
        let code = sqlite3_extended_errcode(db)
        // A misuse, or an error that was not recorded on the handle, leaves an older code on it.
        guard code & 0xff == fallback & 0xff else {
            self.init(code: ResultCode(rawValue: fallback), sql: sql)
            return
        }
        self.init(code: ResultCode(rawValue: code), message: String(cString: sqlite3_errmsg(db)), sql: sql)
        let offset = Int(midstream_error_offset(db))
        if offset >= 0, offset <= sql?.utf8.count ?? 0 { self.offset = offset }
    }

    /// Whether code, message and SQL are equal.
    public static func == (first: SQLiteError, second: SQLiteError) -> Bool {
        first.code == second.code && first.message == second.message && first.sql == second.sql
    }

    /// Hashes what `==` compares.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(code)
        hasher.combine(message)
        hasher.combine(sql)
    }
}

extension SQLiteError: CustomStringConvertible {
    /// One line with code, message and SQL. The code is left out if it says no more than that a call or a type does not
    /// fit.
    public var description: String {
        let prefix =
            switch code {
            case .misuse, .mismatch, .range: ""
            default: "SQLite error \(code): "
            }
        return prefix + message + (sql.map { ", in: \($0)" } ?? "")
    }
}
