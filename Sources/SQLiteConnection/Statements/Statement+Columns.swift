public import SQLiteC

// The columns of the current row. An index out of range reads as NULL, as in SQLite.
extension Statement {
    /// The column's storage class, before any conversion.
    @inlinable
    public func storageClass(at index: Int) -> StorageClass {
        StorageClass(rawValue: sqlite3_column_type(handle, Int32(clamping: index))).unsafelyUnwrapped
    }

    /// Whether the column is NULL.
    @inlinable
    public func isNull(at index: Int) -> Bool {
        sqlite3_column_type(handle, Int32(clamping: index)) == SQLITE_NULL
    }

    /// The column as an integer, converted as CAST does.
    @inlinable
    public func int64(at index: Int) -> Int64 {
        sqlite3_column_int64(handle, Int32(clamping: index))
    }

    /// The column as a double, converted as CAST does.
    @inlinable
    public func double(at index: Int) -> Double {
        sqlite3_column_double(handle, Int32(clamping: index))
    }

    /// How many bytes the column has; for a number, how many bytes its text has.
    public func byteCount(at index: Int) -> Int {
        Int(sqlite3_column_bytes(handle, Int32(clamping: index)))
    }

    /// The column as text, converted as CAST does; empty for NULL. Bytes that are not UTF-8 are repaired.
    @inlinable
    public func text(at index: Int) -> String {
        let column = Int32(clamping: index)
        guard let text = sqlite3_column_text(handle, column) else { return "" }
        let count = Int(sqlite3_column_bytes(handle, column))
        return String(decoding: UnsafeBufferPointer(start: text, count: count), as: UTF8.self)
    }

    /// The column's bytes, without a copy, valid during `body`. The bytes of text are in UTF-8.
    @inlinable
    public func withBytes<Result>(at index: Int, _ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        let column = Int32(clamping: index)
        if sqlite3_column_type(handle, column) == SQLITE_TEXT {
            // If this asked for its blob, a text would count as both from then on. Newer versions of SQLite may miss
            // such a value in a Bloom filter if it is passed on.
            let text = sqlite3_column_text(handle, column)
            let count = Int(sqlite3_column_bytes(handle, column))
            return try body(UnsafeRawBufferPointer(start: text, count: text == nil ? 0 : count))
        }
        // The count comes first: asking for it converts a number, and would free a pointer taken before.
        // Source: <https://www.sqlite.org/c3ref/column_blob.html>.
        let count = Int(sqlite3_column_bytes(handle, column))
        let start = sqlite3_column_blob(handle, column)
        return try body(UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : count))
    }

    /// The column's bytes. The bytes of text are in UTF-8.
    @inlinable
    public func blob(at index: Int) -> [UInt8] {
        withBytes(at: index) { [UInt8]($0) }
    }

    /// The column as a value of its own storage class.
    public func value(at index: Int) -> SQLiteValue {
        switch storageClass(at: index) {
        case .integer: .integer(int64(at: index))
        case .real: .real(double(at: index))
        case .text: .text(text(at: index))
        case .blob: .blob(blob(at: index))
        case .null: .null
        }
    }

    /// The column as `Wanted`.
    ///
    /// - Throws: ``SQLiteError`` with code ``ResultCode/mismatch`` that names column and type, if the column is
    ///   something else.
    @inlinable
    public func read<Wanted: ValueConvertible>(_: Wanted.Type = Wanted.self, at index: Int) throws(SQLiteError)
        -> Wanted
    {
        if let value = Wanted.read(from: self, at: index) { return value }
        throw mismatch(at: index, wanted: "\(Wanted.self)")
    }

    @usableFromInline
    func mismatch(at index: Int, wanted: String) -> SQLiteError {
        let name = columnNames.names.indices.contains(index) ? columnNames.names[index] : "\(index)"
        return SQLiteError(
            code: .mismatch,
            message: "column \(name) holds \(storageClass(at: index)), which cannot be read as \(wanted)",
            sql: sql
        )
    }
}
