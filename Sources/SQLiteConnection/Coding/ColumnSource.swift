internal import SQLiteC

/// The row that is being decoded, and the reading of its columns.
final class ColumnSource {
    /// The statement's handle; `nil` while no row is decoded, so that a decoder that is kept for later reads NULL.
    var handle: OpaquePointer?
    var userInfo: [CodingUserInfoKey: Any] = [:]
    let names: ColumnNames
    let sql: String

    init(_ statement: Statement) {
        names = statement.columnNames
        sql = statement.sql
    }

    /// The column of that name; -1 if there is none.
    func column(named name: String) -> Int32 {
        names.index(of: name).map { Int32($0) } ?? -1
    }

    @inline(__always)
    func isNull(_ column: Int32) -> Bool {
        sqlite3_column_type(handle, column) == SQLITE_NULL
    }

    @inline(__always)
    func integer<Wanted: FixedWidthInteger>(_ column: Int32, as _: Wanted.Type) throws -> Wanted {
        if sqlite3_column_type(handle, column) == SQLITE_INTEGER {
            if let exact = Wanted(exactly: sqlite3_column_int64(handle, column)) { return exact }
        } else if let exact = wholeDouble(column, as: Wanted.self) {
            return exact
        }
        throw mismatch(column, Wanted.self)
    }

    private func wholeDouble<Wanted: FixedWidthInteger>(_ column: Int32, as _: Wanted.Type) -> Wanted? {
        guard sqlite3_column_type(handle, column) == SQLITE_FLOAT else { return nil }
        return Wanted(exactly: sqlite3_column_double(handle, column))
    }

    @inline(__always)
    func double(_ column: Int32, as wanted: Any.Type) throws -> Double {
        switch sqlite3_column_type(handle, column) {
        case SQLITE_FLOAT, SQLITE_INTEGER: return sqlite3_column_double(handle, column)
        default: throw mismatch(column, wanted)
        }
    }

    @inline(__always)
    func bool(_ column: Int32) throws -> Bool {
        switch sqlite3_column_type(handle, column) {
        case SQLITE_INTEGER: return sqlite3_column_int64(handle, column) != 0
        case SQLITE_FLOAT: return sqlite3_column_double(handle, column) != 0
        default: throw mismatch(column, Bool.self)
        }
    }

    @inline(__always)
    func string(_ column: Int32) throws -> String {
        guard sqlite3_column_type(handle, column) == SQLITE_TEXT,
            let text = sqlite3_column_text(handle, column)
        else { throw mismatch(column, String.self) }
        let count = Int(sqlite3_column_bytes(handle, column))
        return String(decoding: UnsafeBufferPointer(start: text, count: count), as: UTF8.self)
    }

    @inline(__always)
    func bytes(_ column: Int32) throws -> [UInt8] {
        let type = sqlite3_column_type(handle, column)
        guard type == SQLITE_BLOB || type == SQLITE_TEXT else { throw mismatch(column, [UInt8].self) }
        let count = Int(sqlite3_column_bytes(handle, column))
        guard let start = sqlite3_column_blob(handle, column) else { return [] }
        return [UInt8](UnsafeRawBufferPointer(start: start, count: count))
    }

    // MARK: Errors

    func name(_ column: Int32) -> String {
        names.names.indices.contains(Int(column)) ? names.names[Int(column)] : "\(column)"
    }

    /// The error if the column holds something that `wanted` cannot be read from. The error does not show what the
    /// column holds.
    func mismatch(_ column: Int32, _ wanted: Any.Type) -> SQLiteError {
        let held = StorageClass(rawValue: sqlite3_column_type(handle, column)) ?? .null
        return SQLiteError(
            code: .mismatch,
            message: "column \(name(column)) holds \(held), which cannot be read as \(wanted)",
            sql: sql
        )
    }

    func missing(_ name: String) -> SQLiteError {
        SQLiteError(code: .range, message: names.missing(name), sql: sql)
    }

    func unsupported(_ what: String) -> SQLiteError {
        SQLiteError(code: .misuse, message: what, sql: sql)
    }
}
