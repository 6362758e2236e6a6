internal import SQLiteC

extension Connection {
    /// Defines a collation that compares texts by their bytes.
    ///
    /// Source: <https://www.sqlite.org/c3ref/create_collation.html>.
    package func createExactCollation(_ name: String) throws(SQLiteError) {
        try checkOpen()
        let code = sqlite3_create_collation_v2(
            db,
            name,
            SQLITE_UTF8,
            nil,
            { _, leftCount, left, rightCount, right in
                let common = Int(min(leftCount, rightCount))
                guard common > 0, let left, let right else { return leftCount - rightCount }
                let order = memcmp(left, right, common)
                return order != 0 ? order : leftCount - rightCount
            },
            nil
        )
        guard code == SQLITE_OK else { throw SQLiteError(lastOf: db, fallback: code) }
    }
}
