internal import SQLiteConnection

extension SQLiteError {
    /// Whether a table that the statement names does not exist.
    var isMissingTable: Bool {
        code == .error && message.hasPrefix("no such table")
    }

    /// Whether a table does not take a row: for a constraint, or a key that is to be an integer and is none.
    var isRefusal: Bool { ResultCode.constraint ~= code || code == .mismatch }

    /// Whether it was interrupted. Where SQLite was reading a schema, its code is another.
    var isInterruption: Bool { code.primary == .interrupt || code == .error && message == "interrupted" }
}
