internal import SQLiteC

private let transient = unsafeBitCast(-1, to: sqlite3_destructor_type.self)

/// Takes the result of a function, or of a virtual table's column.
public struct ResultContext {
    let pointer: OpaquePointer

    /// Returns an integer.
    public func set(_ integer: Int64) { sqlite3_result_int64(pointer, integer) }

    /// Returns NULL.
    public func setNull() { sqlite3_result_null(pointer) }

    /// Returns a value.
    public func set(_ value: SQLiteValue) {
        switch value {
        case .null: sqlite3_result_null(pointer)
        case .integer(let integer): sqlite3_result_int64(pointer, integer)
        case .real(let double): sqlite3_result_double(pointer, double)
        case .text(var text):
            text.withUTF8 { bytes in
                bytes.withMemoryRebound(to: CChar.self) { characters in
                    guard let start = characters.baseAddress else {
                        return sqlite3_result_text(pointer, "", 0, transient)
                    }
                    sqlite3_result_text64(
                        pointer,
                        start,
                        UInt64(characters.count),
                        transient,
                        UInt8(SQLITE_UTF8)
                    )
                }
            }
        case .blob(let bytes):
            bytes.withUnsafeBytes { buffer in
                if let start = buffer.baseAddress, !buffer.isEmpty {
                    sqlite3_result_blob64(pointer, start, UInt64(buffer.count), transient)
                } else {
                    sqlite3_result_zeroblob(pointer, 0)
                }
            }
        }
    }

    /// Returns a value as it is.
    public func set(_ value: ValueReference) { sqlite3_result_value(pointer, value.pointer) }

    /// Returns a value as it would be once it has been stored: without the subtype that functions for JSON give it.
    public func set(stored value: ValueReference) { set(stored: value.pointer) }

    func set(stored value: OpaquePointer) {
        sqlite3_result_value(pointer, value)
        if sqlite3_value_subtype(value) != 0 { sqlite3_result_subtype(pointer, 0) }
    }

    /// Returns a column of a statement's current row, as if it were stored. SQLite copies it.
    public func set(column: Int, of statement: Statement) {
        guard let value = sqlite3_column_value(statement.handle, Int32(clamping: column)) else { return }
        set(stored: value)
    }

    /// Fails the statement that called the function.
    public func set(_ error: SQLiteError) {
        // The message comes first: setting the code afterwards keeps it.
        sqlite3_result_error(pointer, error.message, -1)
        sqlite3_result_error_code(pointer, error.code.failure)
    }

    func set(any error: any Error) {
        set(error as? SQLiteError ?? SQLiteError(code: .error, message: "\(error)"))
    }
}
