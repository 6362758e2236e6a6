internal import SQLText
internal import SQLiteConnection

/// The tables that an application wants, with their indexes, views and triggers, as statements of SQL.
///
///     let schema = DatabaseSchema(
///         sql: """
///             CREATE TABLE messages(id INTEGER PRIMARY KEY, body TEXT NOT NULL, sent REAL);
///             CREATE INDEX messages_by_time ON messages(sent);
///             """
///     )
///     print(try database.plan(for: schema))
///     try database.upgrade(to: schema)
public struct DatabaseSchema: Sendable, Hashable {
    /// A CREATE statement each.
    public var statements: [String]

    /// The statements of a script.
    public init(sql: String) {
        statements = SQLScript(sql).filter { $0.kind != .empty }.map { $0.text($0.range) }
    }

    /// The statements as SQLite understands them.
    ///
    /// - Throws: ``MigrationError`` for what is no CREATE statement; ``/SQLiteConnection/SQLiteError`` for one that does not
    ///   compile.
    func image() throws -> SchemaImage {
        let connection = try Connection(path: ":memory:")
        defer { connection.close() }
        for statement in statements {
            let outline = SQLScript(statement).outline()
            switch outline.kind {
            case .createTable, .createIndex, .createView, .createTrigger:
                guard !outline.isTemporary, let name = outline.target,
                    outline.query == nil || outline.kind == .createView
                else { throw Self.unexpected(statement) }
                // What the sqlite3 shell prints of a schema has them.
                if name.name.hasPrefix("sqlite_") { continue }
                if outline.kind == .createTable || outline.kind == .createView,
                    OwnNames.isTable(name.name)
                {
                    throw MigrationError(
                        .misuse,
                        "\(name.name) is the name of a table of Midstream's own: give it another name, or leave it out of the schema",
                        table: name.name
                    )
                }
            default: throw Self.unexpected(statement)
            }
            try connection.execute(statement)
        }
        return try SchemaImage(connection)
    }

    private static func unexpected(_ statement: String) -> MigrationError {
        MigrationError(
            .misuse,
            "a schema is made of CREATE TABLE, CREATE INDEX, CREATE VIEW and CREATE TRIGGER, and this is none: "
                + statement.prefix(80)
        )
    }
}

/// How a file is brought to a declared schema.
public struct SchemaOptions: Sendable {
    /// Whether tables, columns, indexes, views and triggers that are not declared are dropped. They stay otherwise.
    public var allowsDrops = false
    /// New names of tables, by those that they have. They may stay when the tables have got them; one that cannot be given is
    /// an error.
    public var renamedTables: [String: String] = [:]
    /// New names of columns by those that they have, by the table's new name.
    public var renamedColumns: [String: [String: String]] = [:]
    /// What columns are made of that come, get another name, or change their type, their collation or NOT NULL: by the table's
    /// and the column's new name. What names a column that the file has not belongs to an earlier change, and is left out.
    public var columns: [String: [String: ColumnMapping]] = [:]
    /// What becomes of rows that do not fit a table's new shape: see ``TableRebuild/refusedRows``.
    public var refusedRows = RefusedRowPolicy.stop
    /// In a table of at most so many rows, what takes a time that grows with them is done at once.
    public var rowsChangedAtOnce = 1000

    /// Drops nothing, renames nothing.
    public init() {}

    /// The value for a table, whatever the case of its name.
    static func value<Value>(of name: String, in values: [String: Value]) -> Value? {
        values.first { SQLIdentifier.equal($0.key, name) }?.value
    }
}
