internal import SQLText
internal import SQLiteConnection

/// The tables that an application wants, including virtual tables, with their indexes, views and triggers, as
/// statements of SQL.
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
    /// One CREATE statement for each object.
    public var statements: [String]

    /// The statements of a script.
    ///
    /// An error in one of them begins with its line and column, as `line 3, column 7: near ",": syntax error`.
    public init(sql: String) {
        let script = SQLScript(sql)
        let outlines = script.filter { $0.kind != .empty }
        statements = outlines.map { $0.text($0.range) }
        origin = sql
        starts = Dictionary(zip(statements, outlines.map(\.range.lowerBound))) { first, _ in first }
    }

    /// The script that gave the statements, and the byte of it at which each statement begins.
    private var origin = ""
    private var starts: [String: Int] = [:]

    /// In words, where a statement of the script begins, or where in it an error is; empty if the statement comes from
    /// no script.
    private func place(of statement: String, offset: Int?) -> String {
        guard let start = starts[statement] else { return "" }
        let (line, column) = SQLScript(origin).position(of: start + (offset ?? 0))
        return "line \(line), column \(column): "
    }

    /// The statements as SQLite understands them.
    ///
    /// - Throws: ``MigrationError`` if there is no statement, or one that is no CREATE statement;
    ///   ``/SQLiteConnection/SQLiteError`` if a statement does not compile.
    func image() throws -> SchemaImage {
        let connection = try Connection(path: ":memory:")
        defer { connection.close() }
        let creations = try statements.compactMap { statement in
            do {
                return try Creation(statement)
            } catch var error as MigrationError {
                error.message = place(of: statement, offset: nil) + error.message
                throw error
            }
        }
        guard !creations.isEmpty else {
            throw MigrationError(
                .misuse,
                "the schema declares nothing (perhaps the program that printed it failed): give it the CREATE "
                    + "statements of everything that the file is to have. To drop tables, use DROP TABLE"
            )
        }
        let shadows = try Self.shadowTables(creations)
        for creation in creations where !(creation.kind == .createTable && shadows.isMade(creation.name)) {
            do {
                try connection.execute(creation.sql)
            } catch {
                guard creation.kind == .createVirtualTable else {
                    var error = error
                    error.message = place(of: creation.sql, offset: error.offset) + error.message
                    throw error
                }
                throw MigrationError(
                    .unsupported,
                    place(of: creation.sql, offset: error.offset)
                        + "virtual table \(creation.name) cannot be declared: leave it out of the schema, with the tables that it makes for "
                        + "itself, and create it by a statement of your own",
                    table: creation.name,
                    cause: error
                )
            }
        }
        var image = try SchemaImage(connection)
        image.tables.removeAll { shadows.isMade($0.name) }
        return image
    }

    /// The tables that the virtual tables make for themselves. A program that prints a schema prints them like other
    /// tables, and before the virtual tables if the file has been vacuumed.
    private static func shadowTables(_ creations: [Creation]) throws -> ShadowTables {
        func tables(_ kind: StatementKind) -> [(name: String, sql: String)] {
            creations.filter { $0.kind == kind }.map { ($0.name, $0.sql) }
        }
        return try ShadowTables(of: tables(.createVirtualTable), besides: tables(.createTable))
    }

    /// A statement of a schema.
    private struct Creation {
        let sql: String
        let kind: StatementKind
        let name: String

        /// - Returns: `nil` for a table of SQLite's own. A program that prints a schema prints these as well.
        init?(_ sql: String) throws {
            let outline = SQLScript(sql).outline()
            self.sql = sql
            kind = outline.kind
            switch kind {
            case .createTable, .createVirtualTable, .createIndex, .createView, .createTrigger:
                guard let target = outline.target, !outline.isTemporary,
                    SQLIdentifier.equal(target.schema ?? "main", "main"), outline.query == nil || kind == .createView
                else { throw DatabaseSchema.unexpected(sql) }
                name = target.name
                if name.hasPrefix("sqlite_") { return nil }
                if [.createTable, .createVirtualTable, .createView].contains(kind), OwnNames.isTable(name) {
                    throw MigrationError(
                        .misuse,
                        "\(name) is the name of a table of Midstream's own: give it another name, or leave it out of the schema",
                        table: name
                    )
                }
            default: throw DatabaseSchema.unexpected(sql)
            }
        }
    }

    fileprivate static func unexpected(_ statement: String) -> MigrationError {
        MigrationError(
            .misuse,
            "a schema is made of CREATE TABLE, CREATE VIRTUAL TABLE, CREATE INDEX, CREATE VIEW and CREATE TRIGGER statements for objects "
                + "that are not temporary, and this is no such statement: \(statement.prefix(80))"
        )
    }
}

/// How a file is brought to a declared schema.
public struct SchemaOptions: Sendable {
    /// Whether tables, columns, indexes, views and triggers that are not declared are dropped. They stay otherwise.
    public var allowsDrops = false
    /// New names of tables, by their present names. A renaming may stay here after the table has its new name. A new
    /// name that cannot be given is an error.
    public var renamedTables: [String: String] = [:]
    /// New names of columns by their present names, by the table's new name.
    public var renamedColumns: [String: [String: String]] = [:]
    /// What columns are made of that are new, get another name, or change their type, their collation or NOT NULL: by
    /// the table's and the column's new name. A mapping that names a column which the file lacks belongs to an earlier
    /// change, and is left out: see ``SchemaPlan/unusedMappings``.
    public var columns: [String: [String: ColumnMapping]] = [:]
    /// What becomes of rows that do not fit a table's new shape: see ``TableRebuild/refusedRows``.
    public var refusedRows = RefusedRowPolicy.stop
    /// Whether every mapping of ``columns`` must be applied. For a table that is being rebuilt, each mapping must then
    /// be what the rebuild began with, and there must be none for a column for which it began with none.
    package var refusesUnusedColumns = false
    /// In a table of at most this many rows, changes whose time grows with the rows are made at once.
    public var rowsChangedAtOnce = 1000

    /// Options that drop nothing and rename nothing.
    public init() {}

    /// The value for a table, by its name without regard to case.
    static func value<Value>(of name: String, in values: [String: Value]) -> Value? {
        values.first { SQLIdentifier.equal($0.key, name) }?.value
    }
}
