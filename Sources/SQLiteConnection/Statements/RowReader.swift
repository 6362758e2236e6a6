internal import SQLiteC

/// A statement that is used through its handle alone, for loops that step two statements for each row that they give.
///
/// The reader does not keep the statement alive: whoever makes the reader must hold the statement for as long.
package struct RowReader {
    let handle: OpaquePointer
    unowned(unsafe) let statement: Statement

    /// Reads the rows of a statement.
    package init(_ statement: Statement) {
        handle = statement.handle
        self.statement = statement
    }

    /// Whether the reader reads the rows of a statement.
    package func reads(_ statement: Statement) -> Bool { self.statement === statement }

    /// Runs to the first row, and notices if SQLite prepares the statement again.
    package func begin() throws(SQLiteError) -> Bool { try statement.step() }

    /// Runs to the next row, as ``Statement/step()`` does, but does not check whether parameters have values.
    package func step() throws(SQLiteError) -> Bool {
        switch sqlite3_step(handle) {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        case let code:
            let error = SQLiteError(lastOf: sqlite3_db_handle(handle), fallback: code, sql: statement.sql)
            sqlite3_reset(handle)
            throw error
        }
    }

    /// The column as an integer, converted as CAST does.
    package func int64(at index: Int) -> Int64 {
        sqlite3_column_int64(handle, Int32(truncatingIfNeeded: index))
    }

    /// Compares a column with a column of another statement's row; see
    /// ``Statement/compare(column:with:column:collation:)``.
    package func compare(
        column: Int,
        with other: RowReader,
        column otherColumn: Int,
        collation: BuiltInCollation
    ) -> Int {
        let index = Int32(truncatingIfNeeded: column)
        let otherIndex = Int32(truncatingIfNeeded: otherColumn)
        guard sqlite3_column_type(handle, index) == SQLITE_INTEGER,
            sqlite3_column_type(other.handle, otherIndex) == SQLITE_INTEGER
        else {
            return statement.compare(
                column: column,
                with: other.statement,
                column: otherColumn,
                collation: collation
            )
        }
        let a = sqlite3_column_int64(handle, index)
        let b = sqlite3_column_int64(other.handle, otherIndex)
        return a < b ? -1 : (a > b ? 1 : 0)
    }
}

extension ResultContext {
    /// Returns a column of a statement's current row, as if it were stored. SQLite copies it.
    package func set(column: Int, of row: RowReader) {
        let index = Int32(truncatingIfNeeded: column)
        // An integer needs no value object of its own.
        if sqlite3_column_type(row.handle, index) == SQLITE_INTEGER {
            sqlite3_result_int64(pointer, sqlite3_column_int64(row.handle, index))
        } else if let value = sqlite3_column_value(row.handle, index) {
            set(stored: value)
        }
    }
}
