internal import Midstream
internal import SQLText
internal import SQLiteConnection

/// What the source has in tables, read before anything is done.
struct SourceSchema {
    struct Table {
        var name: String
        /// CREATE TABLE as the source stores it.
        var sql: String
        /// CREATE INDEX of each index that has one of its own.
        var indexes: [Index]
    }

    struct Index {
        var name: String
        var sql: String
    }

    /// The tables that can move, in the order of their creation.
    private(set) var tables: [Table] = []

    /// - Throws: ``CommandFailure`` when the file is missing or is no database.
    init(path: String, key: EncryptionKey?) throws {
        guard Files.exists(path) else { throw CommandFailure("there is no source file \(path)") }
        tables = try CommandFailure.naming(path) {
            let connection = try Connection(path: path, options: OpenOptions(access: .readWrite, key: key))
            defer { connection.close() }
            connection.setBusyTimeout(milliseconds: 5000)
            try connection.checkReadable()
            return try connection.transaction { try Self.read(connection) }
        }
    }

    func table(named name: String) -> Table? {
        tables.first { SQLIdentifier.equal($0.name, name) }
    }

    private static func read(_ connection: Connection) throws -> [Table] {
        let tables = try connection.fetchAll("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY rowid")
        let indexes = try connection.fetchAll(
            "SELECT tbl_name, name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL ORDER BY rowid"
        )
        let virtual = try tables.filter { try isVirtual($0.get(1)) }.map { try $0.get(0, as: String.self) }
        let shadows = try shadowTables(of: virtual, among: tables.map { try $0.get(0) }, connection)
        return try tables.compactMap { row in
            let name: String = try row.get(0)
            let lowercased = SQLIdentifier.lowercased(name)
            if lowercased.hasPrefix("sqlite_") || OwnNames.isTable(name) { return nil }
            if virtual.contains(name) || shadows.contains(name) { return nil }
            let own = try indexes.filter { SQLIdentifier.equal(try $0.get(0), name) }
            return Table(
                name: name,
                sql: try row.get(1),
                indexes: try own.map { Index(name: try $0.get(1), sql: try $0.get(2)) }
            )
        }
    }

    private static func isVirtual(_ sql: String) -> Bool {
        SQLScript(sql).outline().kind == .createVirtualTable
    }

    /// The tables in which virtual tables keep their content.
    private static func shadowTables(
        of virtual: [String],
        among names: [String],
        _ connection: Connection
    ) throws -> Set<String> {
        if virtual.isEmpty { return [] }
        // Since SQLite 3.37; before, the name tells. Source: <https://www.sqlite.org/pragma.html#pragma_table_list>.
        let list = try connection.fetchAll("PRAGMA main.table_list")
        if !list.isEmpty {
            return Set(try list.filter { $0["type"] == .text("shadow") }.map { try $0.get("name", as: String.self) })
        }
        return Set(names.filter { name in virtual.contains { name.hasPrefix($0 + "_") } })
    }
}
