internal import SQLiteC

/// How a database stores text. An attached database always stores text as `main` does.
///
/// Source: <https://www.sqlite.org/pragma.html#pragma_encoding>.
enum TextEncoding {
    case utf8
    case utf16LittleEndian
    case utf16BigEndian

    /// Asks SQLite for the encoding. If SQLite does not answer, it is UTF-8.
    init(of db: OpaquePointer) {
        self = .utf8
        var statement: OpaquePointer?
        defer { sqlite3_finalize(statement) }
        guard sqlite3_prepare_v2(db, "PRAGMA encoding", -1, &statement, nil) == SQLITE_OK,
            sqlite3_step(statement) == SQLITE_ROW, let name = sqlite3_column_text(statement, 0)
        else { return }
        switch String(cString: name) {
        case "UTF-16le": self = .utf16LittleEndian
        case "UTF-16be": self = .utf16BigEndian
        default: break
        }
    }
}
