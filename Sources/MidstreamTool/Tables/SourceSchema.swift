internal import Midstream
internal import SQLText
internal import SQLiteConnection

/// The source's schema, read before anything is done.
struct SourceSchema {
    struct Table {
        var name: String
        /// The CREATE TABLE as the source stores it.
        var sql: String
        /// The indexes that have their own CREATE INDEX.
        var indexes: [Object]
        var triggers: [Object]
    }

    /// An object of the schema other than a table that can move.
    struct Object {
        /// `index`, `view`, `trigger`, or `virtual table`.
        var kind: String
        var name: String
        /// The table or view that the object is on; the object's own name if it is on none.
        var owner: String
        var sql: String
    }

    /// The tables, in the order of their creation.
    private(set) var tables: [Table] = []
    /// Views, triggers and virtual tables, in the order of their creation.
    private(set) var others: [Object] = []

    /// - Throws: ``CommandFailure`` if the file is missing or is no database.
    init(path: String, key: EncryptionKey?) throws {
        guard Files.exists(path) else { throw CommandFailure("there is no source file \(path)") }
        try CommandFailure.naming(path) {
            let connection = try SourceFile.open(path, key)
            defer { connection.close() }
            try connection.transaction { try read(connection) }
        }
    }

    func table(named name: String) -> Table? {
        tables.first { SQLIdentifier.equal($0.name, name) }
    }

    /// The names that no object of the source has. An object that was dropped with its table no longer exists.
    func unknown(among names: Set<String>) -> [String] {
        let known = SQLNameSet(
            tables.map(\.name) + others.map(\.name) + ["user_version", "application_id"]
        )
        return names.filter { !known.contains($0) }.sorted()
    }

    /// Tells the user about names of `--give-up` that may be misspelt.
    static func tellUnknown(among names: Set<String>, of path: String, key: EncryptionKey?, _ output: Output) throws {
        guard !names.isEmpty, Files.exists(path) else { return }
        for name in try SourceSchema(path: path, key: key).unknown(among: names) {
            output.error("midstream: --give-up \(name): there is nothing of that name in \(path)")
        }
    }

    private mutating func read(_ connection: Connection) throws {
        let objects = try connection.fetchAll(
            "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"
        ).map { row in
            let (type, sql): (String, String) = (try row.get(0), try row.get(3))
            // SQLite itself writes these two words, so they are always spelt like this.
            let isVirtual = type == "table" && sql.hasPrefix("CREATE VIRTUAL")
            return Object(
                kind: isVirtual ? "virtual table" : type,
                name: try row.get(1),
                owner: try row.get(2),
                sql: sql
            )
        }.filter { !$0.name.hasPrefix("sqlite_") && !OwnNames.isTable($0.owner) && !OwnNames.isTrigger($0.name) }
        tables = objects.filter { $0.kind == "table" }.map { table in
            let own = objects.filter { SQLIdentifier.equal($0.owner, table.name) }
            return Table(
                name: table.name,
                sql: table.sql,
                indexes: own.filter { $0.kind == "index" },
                triggers: own.filter { $0.kind == "trigger" }
            )
        }
        others = objects.filter { !["table", "index"].contains($0.kind) }
    }

    /// The views, virtual tables and triggers that mention a table, including the triggers on the table, and the
    /// virtual tables that these triggers fill.
    func objects(about table: String) -> [Object] {
        func mentions(_ object: Object, _ name: String) -> Bool {
            SQLScript(object.sql).outline().mentions([SQLIdentifier.lowercased(name)])
        }
        let triggers = self.table(named: table)?.triggers ?? []
        return others.filter { object in
            SQLIdentifier.equal(object.owner, table) || mentions(object, table)
                || object.kind == "virtual table" && triggers.contains { mentions($0, object.name) }
        }
    }
}
