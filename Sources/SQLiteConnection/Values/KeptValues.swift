internal import SQLiteC

/// Copies of values as SQLite has them, byte for byte and in their encoding.
package final class KeptValues {
    private let pointers: UnsafeMutablePointer<OpaquePointer?>
    private let count: Int

    /// - Throws: ``SQLiteError`` with the code ``ResultCode/outOfMemory``.
    package init(_ values: ValueReferences) throws(SQLiteError) {
        count = values.count
        pointers = .allocate(capacity: count)
        pointers.initialize(repeating: nil, count: count)
        for index in 0..<count {
            guard let copy = sqlite3_value_dup(values[index].pointer) else {
                throw SQLiteError(code: .outOfMemory, message: "out of memory")
            }
            pointers[index] = copy
        }
    }

    deinit {
        for index in 0..<count { sqlite3_value_free(pointers[index]) }
        pointers.deallocate()
    }

    /// The values, valid for as long as this object exists.
    package var references: ValueReferences { ValueReferences(pointer: pointers, count: count) }
}
