internal import SQLiteConnection

/// Writes rows as the list mode of the sqlite3 shell does.
///
/// Source: <https://www.sqlite.org/cli.html#changing_output_formats>.
enum ListFormat {
    /// The statement's current row, with a line feed at its end.
    ///
    /// Each value is the text that SQLite itself makes of it. As in the shell, the text ends at its first NUL.
    static func row(of statement: Statement) -> [UInt8] {
        var bytes: [UInt8] = []
        for column in 0..<statement.columnCount {
            if column > 0 { bytes.append(UInt8(ascii: "|")) }
            if statement.isNull(at: column) { continue }
            statement.withBytes(at: column) { bytes += $0.prefix { $0 != 0 } }
        }
        bytes.append(UInt8(ascii: "\n"))
        return bytes
    }
}
