internal import SQLiteC

/// A value as SQLite stores it, byte for byte. Text that is not Unicode stays what it is.
package enum ExactValue: Hashable, Sendable {
    case null
    case integer(Int64)
    case real(UInt64)
    /// The bytes are UTF-8, as far as the text is Unicode; ``WTF8`` if the database has UTF-16.
    case text([UInt8])
    case blob([UInt8])

    /// The value for output, without what ``SQLiteValue`` cannot hold.
    package var value: SQLiteValue {
        switch self {
        case .null: .null
        case .integer(let integer): .integer(integer)
        case .real(let bits): .real(Double(bitPattern: bits))
        case .text(let bytes): .text(String(decoding: bytes, as: UTF8.self))
        case .blob(let bytes): .blob(bytes)
        }
    }

    /// One value for all values that are equal by the collation.
    package func folded(_ collation: BuiltInCollation) -> ExactValue {
        if case .real(let bits) = self {
            return Int64(exactly: Double(bitPattern: bits)).map(ExactValue.integer) ?? self
        }
        guard case .text(var bytes) = self else { return self }
        switch collation {
        case .binary: return self
        case .nocase:
            // SQLite compares the text before a NUL, and then the lengths of the texts.
            let end = bytes.firstIndex(of: 0) ?? bytes.count
            for index in bytes.indices {
                if index >= end {
                    bytes[index] = 0
                } else if (0x41...0x5a).contains(bytes[index]) {
                    bytes[index] |= 0x20
                }
            }
            return .text(bytes)
        case .rtrim:
            while bytes.last == 0x20 { bytes.removeLast() }
            return .text(bytes)
        }
    }
}

extension RowReader {
    /// A column of the current row.
    package func exactValue(at index: Int) -> ExactValue {
        let index = Int32(truncatingIfNeeded: index)
        switch sqlite3_column_type(handle, index) {
        case SQLITE_INTEGER: return .integer(sqlite3_column_int64(handle, index))
        case SQLITE_FLOAT: return .real(sqlite3_column_double(handle, index).bitPattern)
        case SQLITE_TEXT:
            if statement.textEncoding != .utf8 { return .text(statement.withUTF16(at: Int(index), WTF8.encode)) }
            guard let text = sqlite3_column_text(handle, index) else { return .text([]) }
            let count = Int(sqlite3_column_bytes(handle, index))
            return .text([UInt8](UnsafeBufferPointer(start: text, count: count)))
        case SQLITE_BLOB:
            guard let blob = sqlite3_column_blob(handle, index) else { return .blob([]) }
            let count = Int(sqlite3_column_bytes(handle, index))
            return .blob([UInt8](UnsafeRawBufferPointer(start: blob, count: count)))
        default: return .null
        }
    }
}
