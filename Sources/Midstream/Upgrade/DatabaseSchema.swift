internal import SQLText
internal import SQLiteConnection

/// The tables that an application wants, virtual ones among them, with their indexes, views and triggers, as statements of SQL.
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
    ///
    /// An error of one of them begins with its line and column, as `line 3, column 7: near ",": syntax error`.
    public init(sql: String) {
        let script = SQLScript(sql)
        let outlines = script.filter { $0.kind != .empty }
        statements = outlines.map { $0.text($0.range) }
        origin = sql
        starts = Dictionary(zip(statements, outlines.map(\.range.lowerBound))) { first, _ in first }
    }

    /// The script that the statements were given in, and at which byte of it each begins.
    private var origin = ""
    private var starts: [String: Int] = [:]

    /// Where a statement of the script begins, or the byte of it that an error is at, in words; nothing where it is of no script.
    private func place(of statement: String, offset: Int?) -> String {
        guard let start = starts[statement] else { return "" }
        let (line, column) = SQLScript(origin).position(of: start + (offset ?? 0))
        return "line \(line), column \(column): "
    }

    /// The statements as SQLite understands them.
    ///
    /// - Throws: ``MigrationError`` where there is no statement, or one that is no CREATE statement; ``/SQLiteConnection/SQLiteError`` for one that does not
    ///   compile.
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
                "the schema declares nothing, as the output of a program that has failed: give it the CREATE statements of all that the "
                    + "file is to have. Tables are dropped by DROP TABLE"
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

    /// The tables that the virtual ones make for themselves. What prints a schema prints them like others, before the virtual ones
    /// if the file has been vacuumed.
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

        /// - Returns: `nil` for a table of SQLite's own, which what prints a schema prints as well.
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
    /// New names of tables, by those that they have. They may stay when the tables have got them; one that cannot be given is
    /// an error.
    public var renamedTables: [String: String] = [:]
    /// New names of columns by those that they have, by the table's new name.
    public var renamedColumns: [String: [String: String]] = [:]
    /// What columns are made of that come, get another name, or change their type, their collation or NOT NULL: by the table's
    /// and the column's new name. What names a column that the file has not belongs to an earlier change, and is left out: see
    /// ``SchemaPlan/unusedMappings``.
    public var columns: [String: [String: ColumnMapping]] = [:]
    /// What becomes of rows that do not fit a table's new shape: see ``TableRebuild/refusedRows``.
    public var refusedRows = RefusedRowPolicy.stop
    /// Whether all that ``columns`` says must be applied; of a table that is being rebuilt, that it is what its rebuild began with, also
    /// where that is nothing.
    package var refusesUnusedColumns = false
    /// In a table of at most so many rows, what takes a time that grows with them is done at once.
    public var rowsChangedAtOnce = 1000

    /// Drops nothing, renames nothing.
    public init() {}

    /// The value for a table, whatever the case of its name.
    static func value<Value>(of name: String, in values: [String: Value]) -> Value? {
        values.first { SQLIdentifier.equal($0.key, name) }?.value
    }
}
