internal import SQLText
internal import SQLiteConnection

/// The claims on tables of source files that cannot be written. They are stored in the target alone. There they say what for other
/// tables a claim in the source says, even after all rows have moved.
///
/// `Docs/FileFormat.md` describes the table. It exists as long as it has rows.
struct UnfencedClaims {
    static let table = OwnNames.unfencedClaims
    let connection: Connection
    /// The schema under which the target is attached.
    var schema = "main"

    private var name: String { "\(schema).\(Self.table)" }

    /// Claims a table. Call it in the transaction that stores that the table is about to move.
    func stake(_ record: TableRecord, of migration: MigrationRecord, _ stamp: SourceStamp) throws {
        try connection.execute(
            """
            CREATE TABLE IF NOT EXISTS \(name)(
                id INTEGER PRIMARY KEY, migration INTEGER NOT NULL, source TEXT NOT NULL, source_table TEXT NOT NULL,
                target_table TEXT NOT NULL, condition TEXT, moved INTEGER, stamp TEXT NOT NULL)
            """
        )
        try connection.execute(
            """
            INSERT INTO \(name)(id, migration, source, source_table, target_table, condition, stamp)
            VALUES (?, ?, ?, ?, ?, ?, ?)
            """,
            [
                record.id, migration.id, migration.sourcePath, record.source, record.target, record.condition,
                stamp.text,
            ]
        )
    }

    /// The claims on a source's tables.
    ///
    /// - Parameters:
    ///   - targetFile: The target's path as claims store it.
    ///   - path: The source's present path. A file that was moved is recognised by its stamp.
    func all(of migration: MigrationRecord, targetFile: String, at path: String?) throws -> [Claims.Claim] {
        let claims = try rows(
            "SELECT id, source_table, target_table, condition, moved, stamp, source, migration FROM \(name) ORDER BY id"
        )
        guard !claims.isEmpty else { return [] }
        let stamp = path.flatMap(SourceStamp.init(of:))
        return try claims.compactMap { row in
            let claimed = SourceStamp(text: try row.get(5))
            let isMeant = try migration.hasSource(row.get(6)) || row.get(7) == migration.id || claimed == stamp
            guard isMeant else { return nil }
            return Claims.Claim(
                id: try row.get(0),
                sourceTable: try row.get(1),
                targetFile: targetFile,
                targetTable: try row.get(2),
                condition: try row.get(3),
                moved: try row.get(4),
                stamp: claimed
            )
        }
    }

    /// The stamp that a move's source had when the move began; `nil` if the source itself has the claim.
    func stamp(of id: Int64) throws -> SourceStamp? {
        try rows("SELECT stamp FROM \(name) WHERE id = \(id)").first.map { SourceStamp(text: try $0.get(0)) }
    }

    /// Whether the claim of a move is in the target alone.
    func has(_ id: Int64) throws -> Bool { try stamp(of: id) != nil }

    /// The moves whose claims are in the target alone.
    func ids() throws -> Set<Int64> { Set(try rows("SELECT id FROM \(name)").map { try $0.get(0) }) }

    private func rows(_ sql: String) throws -> [Row] {
        if let known = try connection.knownSchema(SQLIdentifier.unquoted(schema)), known.table(Self.table) == nil {
            return []
        }
        // SQLite finds this by the name; a query of `sqlite_master` would read all of it.
        let column = try connection.fetchOne("PRAGMA \(schema).table_info(\(Self.table))")
        return column == nil ? [] : try connection.fetchAll(sql)
    }

    // The following methods write in the open transaction.

    /// Notes that all rows of a claim have moved.
    func noteMoved(_ id: Int64, rows: Int64) throws {
        try connection.execute("UPDATE \(name) SET moved = ?1 WHERE id = ?2", [rows, id])
    }

    /// Takes a claim back, if there is one.
    func remove(_ id: Int64) throws {
        guard try has(id) else { return }
        try connection.execute("DELETE FROM \(name) WHERE id = ?", [id])
        let isLast = try connection.fetchOne("SELECT 1 FROM \(name) LIMIT 1") == nil
        if isLast { try connection.execute("DROP TABLE \(name)") }
    }

    /// Updates the path of the source in the claims of a migration.
    func relocate(_ migration: MigrationRecord) throws {
        guard try StateStore(connection: connection, schema: schema).exists(Self.table) else { return }
        try connection.execute(
            "UPDATE \(name) SET source = ?1 WHERE migration = ?2",
            [migration.sourcePath, migration.id]
        )
    }
}
