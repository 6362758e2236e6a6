internal import SQLText
internal import SQLiteConnection

/// The files that the application itself has attached to a connection.
///
/// The overlay covers only the main file. If another file had a moving table, the connection would read a part of the table's
/// rows, and the table's guard triggers would find the functions that they call. So Midstream does not let the application attach
/// a file with a migration. If a migration begins in a file that is attached already, nothing more runs until the file is
/// detached.
struct AttachedFiles {
    private let statements: InternalStatements
    private var files: [File] = []

    private struct File {
        let schema: String
        /// The schema version that was checked last; `nil` before the first check.
        var version: Int64?
    }

    init(statements: InternalStatements) {
        self.statements = statements
    }

    private var connection: Connection { statements.connection }

    /// The schemas under which the files are attached.
    var schemas: [String] { files.map(\.schema) }

    /// Notes which files have been attached and detached since the last call, without looking into them.
    ///
    /// - Returns: The schemas that are new.
    @discardableResult
    mutating func note() throws -> [String] {
        let schemas = try connection.ownSchemas().filter { $0 != "main" }
        files.removeAll { file in !schemas.contains { SQLIdentifier.equal($0, file.schema) } }
        let new = schemas.filter { schema in !files.contains { SQLIdentifier.equal($0.schema, schema) } }
        files += new.map { File(schema: $0) }
        return new
    }

    /// Notes the files after an ATTACH or DETACH of the application, and detaches a new file that has a migration.
    ///
    /// - Throws: ``MigrationError`` for such a file.
    mutating func admit() throws {
        for schema in try note() {
            // A read would take a snapshot, and within a transaction the file could then no longer be detached.
            let state = try? connection.metadata(ofColumn: "format", table: "midstream_state", schema: schema)
            let copy = try? connection.metadata(ofColumn: "source", table: WholeFileNote.table, schema: schema)
            guard state != nil || copy != nil else { continue }
            if copy == nil, !connection.isInTransaction, (try? Self.isWhole(schema, connection)) ?? false { continue }
            let path = connection.fileName(schema: schema)
            try connection.execute("DETACH \(SQLIdentifier.quoted(schema))")
            try note()
            throw Self.refusal(schema, path, "The file was not attached: open it")
        }
    }

    /// Checks the files whose schema has changed. Call it outside transactions.
    ///
    /// - Throws: ``MigrationError`` when tables of a file have begun to move.
    mutating func check() throws {
        for index in files.indices {
            let schema = SQLIdentifier.quoted(files[index].schema)
            let version = try statements.statement("PRAGMA \(schema).schema_version")
            defer { version.reset() }
            guard try version.step() else { continue }
            let current = version.int64(at: 0)
            if current == files[index].version { continue }
            version.reset()
            let store = StateStore(connection: connection, schema: schema)
            if try store.exists() && !store.isWhole() || store.exists(WholeFileNote.table) {
                let path = connection.fileName(schema: files[index].schema)
                throw Self.refusal(files[index].schema, path, "Detach the file, and open it")
            }
            files[index].version = current
        }
    }

    /// Whether all rows of a file's moving tables have arrived, as in a file that VACUUM INTO makes.
    private static func isWhole(_ schema: String, _ connection: Connection) throws -> Bool {
        try StateStore(connection: connection, schema: SQLIdentifier.quoted(schema)).isWhole()
    }

    private static func refusal(_ schema: String, _ path: String?, _ remedy: String) -> MigrationError {
        MigrationError(
            .unsupported,
            "some tables of \(path ?? "the file") (schema \(schema)) are moving, and this connection would read and "
                + "write only a part of their rows. \(remedy) as a Database of its own until they have moved"
        )
    }
}
