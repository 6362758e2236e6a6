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
    func database(_ name: String, _ sql: String, key: EncryptionKey? = nil) throws -> String {
        let connection = try Connection(path: file(name), options: OpenOptions(key: key))
        defer { connection.close() }
        try connection.execute(script: sql)
        return file(name)
    }

    /// The first column of a query's first row, or the column with the given name, read by plain SQLite.
    func value(
        _ name: String,
        _ sql: String,
        column: String? = nil,
        key: EncryptionKey? = nil
    ) throws -> SQLiteValue? {
        let connection = try Connection(path: file(name), options: OpenOptions(access: .readWrite, key: key))
        defer { connection.close() }
        return try connection.fetchOne(sql).flatMap { row in column.map { row[$0] } ?? row[0] }
    }

    /// Everything that a database contains, as text.
    func dump(_ name: String, key: EncryptionKey? = nil) throws -> String {
        let connection = try Connection(path: file(name), options: OpenOptions(access: .readWrite, key: key))
        defer { connection.close() }
        let objects = try connection.fetchAll(
            "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite%' ORDER BY name"
        )
        var lines = objects.map { "\($0.values)" }
        for object in objects where object[0] == .text("table") {
            let table: String = try object.get(1)
            lines += try connection.fetchAll("SELECT rowid, * FROM \"\(table)\" ORDER BY rowid").map { "\($0.values)" }
        }
        lines.append("\(try connection.fetchAll("PRAGMA user_version").map(\.values))")
        return lines.joined(separator: "\n")
    }

    /// The names of the folder's files.
    var names: [String] {
        guard let folder = opendir(path) else { return [] }
        defer { closedir(folder) }
        var names: [String] = []
        while let entry = readdir(folder) {
            withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { names.append(String(cString: $0)) }
            }
        }
        return names.filter { !$0.hasPrefix(".") }.sorted()
    }

    func exists(_ name: String) -> Bool { access(file(name), F_OK) == 0 }

    /// A file's bytes as characters.
    static func text(ofFile path: String) -> String {
        guard let file = fopen(path, "r") else { return "" }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        while case let byte = fgetc(file), byte != EOF { bytes.append(UInt8(truncatingIfNeeded: byte)) }
        return String(decoding: bytes, as: Unicode.ASCII.self)
    }
}

/// A table with the given number of messages.
func messages(_ count: Int, table: String = "messages") -> String {
    """
    CREATE TABLE \(table)(id INTEGER PRIMARY KEY, sender TEXT, body TEXT UNIQUE);
    CREATE INDEX \(table)_by_sender ON \(table)(sender);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(count))
    INSERT INTO \(table) SELECT i, 'user' || (i % 7), 'body ' || i FROM n;
    """
}
