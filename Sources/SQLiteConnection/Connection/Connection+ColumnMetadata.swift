internal import SQLiteC

/// What SQLite knows of a column.
public struct ColumnMetadata: Hashable, Sendable {
    /// The type as declared; `nil` if none is.
    public var declaredType: String?
    /// The name of the column's default collation.
    public var collation: String
    /// Whether the column is AUTOINCREMENT.
    public var isAutoIncrement: Bool
}

extension Connection {
    /// What SQLite knows of a table's column.
    ///
    /// Source: <https://www.sqlite.org/c3ref/table_column_metadata.html>.
    public func metadata(
        ofColumn column: String,
        table: String,
        schema: String
    ) throws(SQLiteError) -> ColumnMetadata {
        var type: UnsafePointer<CChar>?
        var collation: UnsafePointer<CChar>?
        var autoIncrement: Int32 = 0
        let code = sqlite3_table_column_metadata(
            db,
            schema,
            table,
            column,
            &type,
            &collation,
            nil,
            nil,
            &autoIncrement
        )
        guard code == SQLITE_OK else { throw SQLiteError(lastOf: db, fallback: code) }
        return ColumnMetadata(
            declaredType: type.map { String(cString: $0) },
            collation: collation.map { String(cString: $0) } ?? "BINARY",
            isAutoIncrement: autoIncrement != 0
        )
    }
}
