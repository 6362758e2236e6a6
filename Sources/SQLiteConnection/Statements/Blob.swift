internal import SQLiteC

/// A handle on one value of one row, to read and write parts of it without the whole being in memory.
///
///     try connection.withBlob(table: "files", column: "content", rowID: 7) { blob in
///         let head = try blob.read(count: 100, at: 0)
///     }
///
/// The value is a BLOB or TEXT, the bytes of which are handed out. Its size cannot be changed: make it with `zeroblob(n)`
/// first. A change of the row by a statement expires the handle: then everything fails with ``ResultCode/abort``.
///
/// Source: <https://www.sqlite.org/c3ref/blob_open.html>.
public final class Blob {
    private let handle: OpaquePointer
    private let connection: OpaquePointer
    private var isOpen = true

    fileprivate init(_ handle: OpaquePointer, of connection: OpaquePointer) {
        self.handle = handle
        self.connection = connection
    }

    /// Its size in bytes.
    public var count: Int { isOpen ? Int(sqlite3_blob_bytes(handle)) : 0 }

    /// Reads `count` bytes from `offset` on.
    ///
    /// - Throws: ``SQLiteError`` when the range is not within the value, or the handle has expired.
    public func read(count: Int, at offset: Int) throws(SQLiteError) -> [UInt8] {
        try check(count, offset)
        var code = SQLITE_OK
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            guard count > 0 else { return }
            code = sqlite3_blob_read(handle, buffer.baseAddress, Int32(count), Int32(offset))
            if code == SQLITE_OK { initialized = count }
        }
        try check(code)
        return bytes
    }

    /// Writes bytes from `offset` on.
    ///
    /// - Throws: ``SQLiteError`` when the range is not within the value, the handle has expired, or was opened to read.
    public func write(_ bytes: [UInt8], at offset: Int) throws(SQLiteError) {
        try check(bytes.count, offset)
        guard !bytes.isEmpty else { return }
        try check(
            bytes.withUnsafeBytes { sqlite3_blob_write(handle, $0.baseAddress, Int32($0.count), Int32(offset)) }
        )
    }

    /// Goes on to another row of the same table and column, which is faster than a new handle.
    public func reopen(rowID: Int64) throws(SQLiteError) {
        guard isOpen else { throw Self.closed }
        try check(sqlite3_blob_reopen(handle, rowID))
    }

    private static let closed = SQLiteError(code: .misuse, message: "the blob's block has ended")

    private func check(_ count: Int, _ offset: Int) throws(SQLiteError) {
        guard isOpen else { throw Self.closed }
        guard count >= 0, offset >= 0, offset <= self.count, count <= self.count - offset else {
            throw SQLiteError(
                code: .range,
                message: "bytes \(offset) to \(offset &+ count) are not within a value of \(self.count) bytes"
            )
        }
    }

    private func check(_ code: Int32) throws(SQLiteError) {
        guard code == SQLITE_OK else { throw SQLiteError(lastOf: connection, fallback: code) }
    }

    fileprivate func close() -> Int32 {
        guard isOpen else { return SQLITE_OK }
        isOpen = false
        return sqlite3_blob_close(handle)
    }
}

extension Connection {
    /// Runs `body` with a handle on one value.
    ///
    /// - Parameters:
    ///   - schema: `main`, `temp`, or the schema of an attached file.
    ///   - table: A table with rowids; no view, no virtual table.
    ///   - column: Its column. It must not be indexed, or part of a foreign key, to be written.
    ///   - rowID: The row.
    ///   - isWritable: Whether it may be written. Outside a transaction, what is written is committed at the end.
    ///   - body: Must not keep the handle.
    /// - Throws: ``SQLiteError`` when there is no such row, or its value is a number or NULL.
    public func withBlob<Result>(
        schema: String = "main",
        table: String,
        column: String,
        rowID: Int64,
        isWritable: Bool = false,
        _ body: (Blob) throws -> Result
    ) throws -> Result {
        try checkOpen()
        var handle: OpaquePointer?
        let code = sqlite3_blob_open(db, schema, table, column, rowID, isWritable ? 1 : 0, &handle)
        guard code == SQLITE_OK, let handle else { throw SQLiteError(lastOf: db, fallback: code) }
        let blob = Blob(handle, of: db)
        do {
            let result = try body(blob)
            let code = blob.close()
            // It repeats the last error, of which the block has been told; what it is to say is whether a write was committed.
            guard code == SQLITE_OK || !isWritable else { throw SQLiteError(lastOf: db, fallback: code) }
            return result
        } catch {
            _ = blob.close()
            throw error
        }
    }
}
