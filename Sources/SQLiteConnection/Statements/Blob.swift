internal import SQLiteC

/// A handle on one value of one row, which reads and writes parts of the value without holding all of it in memory.
///
///     try connection.withBlob(table: "files", column: "content", rowID: 7) { blob in
///         let head = try blob.read(count: 100, at: 0)
///     }
///
/// The value is a BLOB or TEXT; the handle gives its bytes. Its size cannot be changed: make the value with
/// `zeroblob(n)` first. If a statement changes the row, the handle expires, and everything fails with
/// ``ResultCode/abort``.
///
/// Source: <https://www.sqlite.org/c3ref/blob_open.html>.
public final class Blob {
    private let connection: Connection
    private let isWritable: Bool
    /// Decides where the value of a row is. It is asked for each row.
    private let locate: (Int64, Blob) throws -> BlobPlace
    /// `nil` before the first row, and after the handle has expired or its block has ended.
    private var handle: OpaquePointer?
    private var place: BlobPlace?
    private var size = 0
    private var error = closed
    /// The row's rowid.
    package private(set) var rowID: Int64 = 0

    /// Whether the handle is open at this place, on this row.
    package func isAt(_ place: BlobPlace, _ rowID: Int64) -> Bool {
        handle != nil && self.rowID == rowID && self.place == place
    }

    fileprivate init(
        _ connection: Connection,
        isWritable: Bool,
        locate: @escaping (Int64, Blob) throws -> BlobPlace
    ) {
        self.connection = connection
        self.isWritable = isWritable
        self.locate = locate
    }

    /// The value's size in bytes.
    public var count: Int { handle.map { Int(sqlite3_blob_bytes($0)) } ?? 0 }

    /// Reads `count` bytes from `offset` on.
    ///
    /// - Throws: ``SQLiteError`` if the range is not within the value, or the handle has expired.
    public func read(count: Int, at offset: Int) throws -> [UInt8] {
        let handle = try current()
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
    /// - Throws: ``SQLiteError`` if the range is not within the value, the handle has expired, or it was opened only to
    ///   read.
    public func write(_ bytes: [UInt8], at offset: Int) throws {
        let handle = try current()
        try check(bytes.count, offset)
        guard !bytes.isEmpty else { return }
        try check(
            bytes.withUnsafeBytes { sqlite3_blob_write(handle, $0.baseAddress, Int32($0.count), Int32(offset)) }
        )
    }

    /// Goes on to another row of the same table and column, which is faster than a new handle.
    ///
    /// - Throws: ``SQLiteError`` if there is no such row, its value is a number or NULL, or the handle has expired; and
    ///   whatever `withBlob` throws, if a library on top of this one has opened the handle.
    public func reopen(rowID: Int64) throws {
        guard let handle else { throw error }
        guard count == size else { throw Self.expired }
        let place = try locate(rowID, self)
        if place == self.place {
            self.rowID = rowID
            try check(sqlite3_blob_reopen(handle, rowID))
            size = count
        } else {
            do {
                try open(rowID, place)
            } catch {
                expire()
                throw error
            }
        }
    }

    fileprivate func open(rowID: Int64) throws { try open(rowID, locate(rowID, self)) }

    /// The handle at the place where the row is now. If the row has moved, that may have been undone meanwhile.
    private func current() throws -> OpaquePointer {
        guard let handle else { throw error }
        let place = try locate(rowID, self)
        // A handle that has expired stays expired. If its row is gone with a savepoint, SQLite would go on with the
        // next row.
        if place != self.place, sqlite3_blob_read(handle, nil, 0, 0) & 0xff != SQLITE_ABORT { move(to: place) }
        guard let handle = self.handle else { throw error }
        return handle
    }

    private func open(_ rowID: Int64, _ place: BlobPlace) throws(SQLiteError) {
        var new: OpaquePointer?
        let code = sqlite3_blob_open(
            connection.db,
            place.schema,
            place.table,
            place.column,
            rowID,
            isWritable ? 1 : 0,
            &new
        )
        try check(code)
        _ = close()
        (handle, self.rowID, self.place) = (new, rowID, place)
        size = count
    }

    /// Goes on with the same row at another place. If the row is not there, the handle expires.
    package func move(to place: BlobPlace) {
        guard handle != nil else { return }
        do { try open(rowID, place) } catch { expire() }
    }

    /// Makes the handle expire, because the row is no longer what it was.
    package func expire() {
        guard handle != nil else { return }
        _ = close()
        error = Self.expired
    }

    private static let expired = SQLiteError(code: .abort)
    private static let closed = SQLiteError(code: .misuse, message: "the blob's block has ended")

    private func check(_ count: Int, _ offset: Int) throws(SQLiteError) {
        // SQLite forgets the size of a value when its handle expires.
        guard self.count == size else { throw Self.expired }
        guard count >= 0, offset >= 0, offset <= self.count, count <= self.count - offset else {
            throw SQLiteError(
                code: .range,
                message: "bytes \(offset) to \(offset &+ count) are not within a value of \(self.count) bytes"
            )
        }
    }

    private func check(_ code: Int32) throws(SQLiteError) {
        guard code == SQLITE_OK else { throw SQLiteError(lastOf: connection.db, fallback: code) }
    }

    fileprivate func close() -> Int32 {
        guard let handle else { return SQLITE_OK }
        self.handle = nil
        return sqlite3_blob_close(handle)
    }
}

/// A column of a table, in which handles are opened.
package struct BlobPlace: Equatable {
    var schema: String
    var table: String
    var column: String

    package init(schema: String = "main", table: String, column: String) {
        self.schema = schema
        self.table = table
        self.column = column
    }
}

extension Connection {
    /// Runs `body` with a handle on one value.
    ///
    /// - Parameters:
    ///   - schema: `main`, `temp`, or the schema of an attached file.
    ///   - table: A table with rowids; not a view, and not a virtual table.
    ///   - column: The table's column. If it is to be written, it must not be indexed, and not be part of a foreign
    ///     key.
    ///   - rowID: The rowid of the row.
    ///   - isWritable: Whether the value may be written. Outside a transaction, what is written is committed at the
    ///     end.
    ///   - body: Gets the handle, and must not keep it.
    /// - Throws: ``SQLiteError`` if there is no such row, or its value is a number or NULL.
    public func withBlob<Result>(
        schema: String = "main",
        table: String,
        column: String,
        rowID: Int64,
        isWritable: Bool = false,
        _ body: (Blob) throws -> Result
    ) throws -> Result {
        let place = BlobPlace(schema: schema, table: table, column: column)
        return try withBlob(rowID: rowID, isWritable: isWritable, locatedBy: { _, _ in place }, body)
    }

    /// Runs `body` with a handle on one value. The value's place is decided anew for each row.
    package func withBlob<Result>(
        rowID: Int64,
        isWritable: Bool,
        locatedBy locate: @escaping (Int64, Blob) throws -> BlobPlace,
        _ body: (Blob) throws -> Result
    ) throws -> Result {
        try checkOpen()
        let blob = Blob(self, isWritable: isWritable, locate: locate)
        try blob.open(rowID: rowID)
        do {
            let result = try body(blob)
            let code = blob.close()
            // SQLite repeats the last error here, which the block has already got. What matters is whether a write was
            // committed.
            guard code == SQLITE_OK || !isWritable else { throw SQLiteError(lastOf: db, fallback: code) }
            return result
        } catch {
            _ = blob.close()
            throw error
        }
    }
}
