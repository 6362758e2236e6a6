import SQLiteConnection

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// A folder that is removed with the object.
final class TestFolder {
    let path: String

    init() {
        var template = Array("/tmp/midstream-tool-XXXXXX".utf8CString)
        path = String(cString: mkdtemp(&template))
    }

    deinit {
        _ = try? Subprocess.run("/bin/rm", ["-rf", path])
    }

    func file(_ name: String) -> String { path + "/" + name }

    /// Makes a database.
    @discardableResult
    func database(_ name: String, _ sql: String) throws -> String {
        let connection = try Connection(path: file(name))
        defer { connection.close() }
        try connection.execute(script: sql)
        return file(name)
    }

    /// The first column of a query's first row, or the one of that name, read by plain SQLite.
    func value(_ name: String, _ sql: String, column: String? = nil) throws -> SQLiteValue? {
        let connection = try Connection(path: file(name), options: OpenOptions(access: .readWrite))
        defer { connection.close() }
        return try connection.fetchOne(sql).flatMap { row in column.map { row[$0] } ?? row[0] }
    }
}

/// A table of so many messages.
func messages(_ count: Int, table: String = "messages") -> String {
    """
    CREATE TABLE \(table)(id INTEGER PRIMARY KEY, sender TEXT, body TEXT UNIQUE);
    CREATE INDEX \(table)_by_sender ON \(table)(sender);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(count))
    INSERT INTO \(table) SELECT i, 'user' || (i % 7), 'body ' || i FROM n;
    """
}
