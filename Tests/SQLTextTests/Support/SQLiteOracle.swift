import SQLiteC

/// Native SQLite, with which tests compare outlines.
final class SQLiteOracle {
    /// What `sqlite3_prepare_v2` makes of one statement.
    struct Statement {
        /// The offset just after what was prepared.
        let endOffset: Int
        /// Whether there was no statement, only spaces, comments and semicolons.
        let isEmpty: Bool
        /// The name of each parameter from index 1 on.
        let parameters: [String?]
        let isReadOnly: Bool
    }

    private let db: OpaquePointer
    /// The tables that the authorizer saw read or written since the last `prepare`.
    private(set) var tables: Set<String> = []
    private(set) var message = ""

    init(schema: String = "") throws {
        var db: OpaquePointer?
        guard sqlite3_open(":memory:", &db) == SQLITE_OK, let db else { throw OracleError() }
        self.db = db
        guard sqlite3_exec(db, schema, nil, nil, nil) == SQLITE_OK else {
            throw OracleError(message: String(cString: sqlite3_errmsg(db)))
        }
    }

    deinit {
        sqlite3_close_v2(db)
    }

    func execute(_ sql: String) -> Bool {
        sqlite3_exec(db, sql, nil, nil, nil) == SQLITE_OK
    }

    /// Prepares the statement at an offset; `nil` if SQLite reports an error.
    func prepare(_ sql: String, at offset: Int = 0) -> Statement? {
        tables = []
        let context = Unmanaged.passUnretained(self).toOpaque()
        sqlite3_set_authorizer(db, authorize, context)
        defer { sqlite3_set_authorizer(db, nil, nil) }
        var bytes = sql.utf8.map { CChar(bitPattern: $0) }
        bytes.append(0)
        return bytes.withUnsafeBufferPointer { buffer in
            guard let base = buffer.baseAddress else { return nil }
            var statement: OpaquePointer?
            var tail: UnsafePointer<CChar>?
            let code = sqlite3_prepare_v2(db, base + offset, -1, &statement, &tail)
            defer { sqlite3_finalize(statement) }
            guard code == SQLITE_OK, let tail else {
                message = String(cString: sqlite3_errmsg(db))
                return nil
            }
            let count = sqlite3_bind_parameter_count(statement)
            return Statement(
                endOffset: tail - base,
                isEmpty: statement == nil,
                parameters: (0..<count).map { index in
                    sqlite3_bind_parameter_name(statement, index + 1).map { String(cString: $0) }
                },
                isReadOnly: sqlite3_stmt_readonly(statement) != 0
            )
        }
    }

    fileprivate func note(_ table: String) {
        tables.insert(table.lowercased())
    }
}

struct OracleError: Error {
    var message = ""
}

private func authorize(
    _ context: UnsafeMutableRawPointer?,
    _ action: Int32,
    _ first: UnsafePointer<CChar>?,
    _ second: UnsafePointer<CChar>?,
    _ schema: UnsafePointer<CChar>?,
    _ trigger: UnsafePointer<CChar>?
) -> Int32 {
    guard let context, let first, schema != nil else { return SQLITE_OK }
    switch action {
    case SQLITE_READ, SQLITE_INSERT, SQLITE_UPDATE, SQLITE_DELETE:
        Unmanaged<SQLiteOracle>.fromOpaque(context).takeUnretainedValue().note(String(cString: first))
    default:
        break
    }
    return SQLITE_OK
}
