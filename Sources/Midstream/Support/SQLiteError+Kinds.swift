internal import SQLiteConnection

extension SQLiteError {
    /// Whether a table that the statement names does not exist.
    var isMissingTable: Bool {
        code == .error && message.hasPrefix("no such table")
    }

    /// Whether a table refused a row: because of a constraint, or because a value for an integer key is no integer.
    var isRefusal: Bool { ResultCode.constraint ~= code || code == .mismatch }

    /// Whether the statement was interrupted. If it was interrupted while SQLite read a schema, the error has another code.
    var isInterruption: Bool { code.primary == .interrupt || code == .error && message == "interrupted" }
}
