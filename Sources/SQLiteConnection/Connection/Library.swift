internal import SQLiteC

/// Differences between SQLite libraries that a program can find out by trying, besides their versions.
enum Library {
    /// Whether an expression is true in the linked library; `nil` if that cannot be found out.
    static func answer(to expression: String) -> Bool? {
        var db: OpaquePointer?
        var statement: OpaquePointer?
        defer {
            sqlite3_finalize(statement)
            sqlite3_close(db)
        }
        guard sqlite3_open(":memory:", &db) == SQLITE_OK,
            sqlite3_prepare_v2(db, "SELECT " + expression, -1, &statement, nil) == SQLITE_OK,
            sqlite3_step(statement) == SQLITE_ROW
        else { return nil }
        return sqlite3_column_int(statement, 0) != 0
    }
}
