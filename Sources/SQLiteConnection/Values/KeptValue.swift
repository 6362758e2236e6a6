internal import SQLiteC

/// A copy of a value as SQLite has it, byte for byte and in its encoding.
package final class KeptValue {
    fileprivate let pointer: OpaquePointer

    /// - Returns: `nil` when there is no memory.
    package init?(_ value: ValueReference) {
        guard let copy = sqlite3_value_dup(value.pointer) else { return nil }
        pointer = copy
    }

    deinit { sqlite3_value_free(pointer) }
}

extension Statement {
    /// Binds a copy of a value to the parameter at `index`, from 1.
    package func bind(_ value: KeptValue, at index: Int) throws(SQLiteError) {
        let code = sqlite3_bind_value(handle, Int32(clamping: index), value.pointer)
        guard code == SQLITE_OK else { throw SQLiteError(lastOf: sqlite3_db_handle(handle), fallback: code, sql: sql) }
    }
}
