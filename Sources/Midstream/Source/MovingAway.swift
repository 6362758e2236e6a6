internal import SQLText
internal import SQLiteConnection

/// The tables of a file whose rows move to other tables: of the same file, as the file's state says, or of another file, as that
/// file's claims say. Triggers refuse writes of these tables; only this type refuses changes of their schema.
struct MovingAway {
    let connection: Connection
    /// The schema under which the file is attached.
    var schema = "main"

    private var store: StateStore { StateStore(connection: connection, schema: SQLIdentifier.quoted(schema)) }

    /// The table to which a table's rows are still moving, in words; `nil` if they are not.
    func destination(of table: String) throws -> String? {
        let (migrations, tables) = try store.load()
        let here = Set(migrations.filter { $0.sourcePath == nil }.map(\.id))
        if let record = tables.first(where: {
            here.contains($0.migration) && $0.phase != .done && SQLIdentifier.equal($0.source, table)
        }) {
            return "table \(record.target)"
        }
        return try store.destination(of: table)
    }

    /// The names, in lower case, of the views that replace tables whose rows have moved to another file.
    func views() throws -> Set<String> {
        let fenced = Set(try Claims.fences(in: SQLIdentifier.quoted(schema), connection).map(\.table))
        return Set(
            try fenced.filter {
                let sql = "SELECT 1 FROM \(SQLIdentifier.quoted(schema)).sqlite_master WHERE type = 'view' AND name = ?"
                return try connection.fetchOne(sql, [$0]) != nil
            }.map(SQLIdentifier.lowercased)
        )
    }

    /// - Throws: ``MigrationError`` if a table's rows are moving, and a change of the table would lose them.
    func checkChange(of table: String) throws {
        guard let destination = try destination(of: table) else { return }
        throw MigrationError(
            .refusedStatement,
            "the rows of table \(table) are moving to \(destination), so the table can be neither changed nor dropped: "
                + "wait until they have arrived, or bring them back if they can return",
            table: table,
            reason: .schemaChange
        )
    }

    /// Like `checkChange(of:)`, for a table as a statement names it. The table may be in a file that the application has attached.
    static func checkChange(of table: ObjectName, on connection: Connection) throws {
        for schema in try connection.ownSchemas() {
            if let wanted = table.schema, !SQLIdentifier.equal(wanted, schema) { continue }
            let file = MovingAway(connection: connection, schema: schema)
            try file.checkChange(of: table.name)
            // SQLite takes the first table that it finds.
            let sql = "SELECT 1 FROM \(SQLIdentifier.quoted(schema)).sqlite_master WHERE name = ? COLLATE NOCASE"
            if try connection.fetchOne(sql, [table.name]) != nil { return }
        }
    }

    /// - Throws: ``MigrationError`` if a VACUUM of the file may change rowids that identify rows which have yet to move to another
    ///   file.
    func checkVacuum() throws {
        let claims = try Claims.all(in: SQLIdentifier.quoted(schema), connection)
        for claim in claims where claim.moved == nil && claim.firstRowID != nil {
            let source = try SchemaReader(connection: connection, schema: schema).table(claim.sourceTable)
            guard let source else { continue }
            throw MigrationError(
                .refusedStatement,
                "the rows of table \(source.name) are moving to \(claim.destination) by their rowids, which VACUUM may "
                    + "change, since the table has no INTEGER PRIMARY KEY: wait until they have arrived",
                table: source.name,
                reason: .vacuum
            )
        }
    }
}

extension Connection {
    /// The schemas other than TEMP and Midstream's own sources, in the order in which SQLite looks for names.
    func ownSchemas() throws -> [String] {
        try fetchAll("PRAGMA database_list").map { try $0.get(1, as: String.self) }
            .filter { $0 != "temp" && !$0.hasPrefix(MigrationRecord.schemaPrefix) }
    }
}
