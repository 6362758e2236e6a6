internal import SQLText
internal import SQLiteConnection

/// An object that its text alone creates, without a page of its own: a trigger, or a virtual table whose module stores nothing in
/// the file.
struct SchemaRow {
    enum Kind: String {
        case table
        case trigger
    }

    var kind: Kind
    /// The name without quotes.
    var name: String
    /// The table or view that a trigger is on; for a table, its own name.
    var table: String
    /// The parts of the CREATE statement before and after the name.
    var words: (before: String, after: String)

    /// Makes a trigger.
    ///
    /// - Parameter rest: What follows the trigger's name in CREATE TRIGGER.
    static func trigger(_ name: String, on table: String, _ rest: String) -> SchemaRow {
        SchemaRow(kind: .trigger, name: name, table: table, words: ("CREATE TRIGGER", rest))
    }

    /// The statement that creates the object.
    func create(in schema: String) -> String {
        "\(words.before) \(SQLIdentifier.quoted(schema)).\(SQLIdentifier.quoted(name)) \(words.after)"
    }

    /// The text that `sqlite_master` stores for the object: it has no name of a schema.
    fileprivate var sql: String { "\(words.before) \(SQLIdentifier.quoted(name)) \(words.after)" }
}

extension Connection {
    /// From this many rows on, Midstream writes them into `sqlite_master`. With fewer, reading the schema again costs more.
    private static let manyRows = 48

    /// Creates triggers or virtual tables in a schema.
    ///
    /// Each CREATE reads all of `sqlite_master`, so creating those of a thousand tables would read it thousands of times. If there
    /// are many, this method writes them into `sqlite_master` at once instead, and the connection reads the schema again.
    ///
    /// - Parameter run: Runs a statement.
    /// - Complexity: O(n) in the rows and the objects of the schema.
    func create(_ rows: [SchemaRow], in schema: String, _ run: ((String) throws -> Void)? = nil) throws {
        let run = run ?? { try self.execute($0) }
        try changingSchema(schema) {
            if rows.count >= Self.manyRows, try write(rows, in: schema) { return }
            for row in rows { try run(row.create(in: schema)) }
        }
    }

    /// - Returns: `false` if this SQLite does not allow writing `sqlite_master`; nothing has been written then.
    ///
    /// Source: <https://www.sqlite.org/pragma.html#pragma_writable_schema>.
    private func write(_ rows: [SchemaRow], in schema: String) throws -> Bool {
        let master = SchemaReader.master(of: schema)
        return try writingSchema {
            try savepoint {
                try insert(rows.map { ($0.kind.rawValue, $0.name, $0.table, $0.sql) }, into: schema)
                try readAnew(master)
            }
        }
    }

    /// Writes the definitions of virtual tables into `main` as they are. Their modules may be unknown. The connection does not read
    /// the schema again.
    ///
    /// - Throws: `SQLiteError` if this SQLite does not allow writing `sqlite_master`.
    func write(virtualTables tables: [SchemaObject]) throws {
        let isWritten = try writingSchema {
            try insert(tables.map { ("table", $0.name, $0.name, $0.sql) }, into: "main")
        }
        guard isWritten else { throw Self.isDefended }
    }

    /// Exchanges the b-trees of pairs of tables or indexes of `main`, in the open transaction. No statement of the connection may
    /// be running.
    ///
    /// - Throws: `SQLiteError` if this SQLite does not allow writing `sqlite_master`.
    func exchangeRoots(_ pairs: [(String, String)]) throws {
        let roots = try pairs.map { (try rootPage(of: $0.0), try rootPage(of: $0.1)) }
        let isWritten = try changingSchema("main") {
            try writingSchema {
                try savepoint {
                    for (pair, root) in zip(pairs, roots) {
                        try setRoot(of: pair.0, root.1)
                        try setRoot(of: pair.1, root.0)
                    }
                    try raiseSchemaVersion(of: "main")
                    try readAnew(SchemaReader.master(of: "main"))
                }
            }
        }
        guard isWritten else { throw Self.isDefended }
    }

    private func setRoot(of name: String, _ page: Int64) throws {
        try execute(
            "UPDATE main.sqlite_master SET rootpage = ?2 WHERE name = ?1 COLLATE NOCASE AND type IN ('table', 'index')",
            [name, page]
        )
        guard changes == 1 else {
            throw SQLiteError(
                code: .corrupt,
                message: "\(name) is not described exactly once in sqlite_master"
            )
        }
    }

    private static let isDefended = SQLiteError(
        code: .readOnly,
        message: "this SQLite does not allow writing sqlite_master"
    )

    /// Whether this SQLite allows writing `sqlite_master`.
    var canWriteSchema: Bool {
        get throws { try writingSchema {} }
    }

    /// Runs `body`, which may write `sqlite_master`.
    ///
    /// - Returns: `false` if this SQLite does not allow writing `sqlite_master`; `body` has not run then.
    private func writingSchema(_ body: () throws -> Void) throws -> Bool {
        // Apple's library has the defensive mode on.
        let isDefensive = isConfigured(.defensive) ?? false
        if isDefensive { try configure(.defensive, false) }
        defer { if isDefensive { try? configure(.defensive, true) } }
        try execute("PRAGMA writable_schema = ON")
        defer { try? execute("PRAGMA writable_schema = OFF") }
        guard try fetchValue(Int64.self, "PRAGMA writable_schema") == 1 else { return false }
        try body()
        return true
    }

    /// Inserts rows into `sqlite_master` and raises the schema's version, so that other connections read the schema again.
    private func insert(
        _ rows: [(kind: String, name: String, table: String, sql: String)],
        into schema: String
    ) throws {
        let insert = try prepare(
            "INSERT INTO \(SchemaReader.master(of: schema))(type, name, tbl_name, rootpage, sql) VALUES (?, ?, ?, 0, ?)"
        )
        for row in rows {
            try insert.bind([row.kind, row.name, row.table, row.sql])
            try insert.run()
        }
        try raiseSchemaVersion(of: schema)
    }

    /// - Throws: `SQLiteError` if SQLite silently leaves the version as it is.
    private func raiseSchemaVersion(of schema: String) throws {
        let number = try schemaVersion(of: schema) + 1
        try execute("PRAGMA \(SQLIdentifier.quoted(schema)).schema_version = \(number)")
        guard try schemaVersion(of: schema) == number else { throw Self.isDefended }
    }

    /// Makes this connection read the schema again. Call it in a savepoint.
    private func readAnew(_ master: String) throws {
        // From 3.36 on, SQLite notices by the schema's version that it must read the schema again. An older SQLite takes the schema
        // for known; a rollback makes it read the schema, since for all that it knows the rollback took a change of the schema
        // back.
        if Connection.libraryVersionNumber < 3_036_000 { try savepoint(isKept: false) {} }
        // If SQLite cannot read one of the texts, the error comes here, and not in the next program that opens the file.
        _ = try fetchOne("SELECT 1 FROM \(master) LIMIT 1")
    }

    /// Runs `body` in a savepoint.
    private func savepoint(isKept: Bool = true, _ body: () throws -> Void) throws {
        try execute("SAVEPOINT midstream_schema")
        do {
            try body()
        } catch {
            try? execute("ROLLBACK TO midstream_schema")
            try? execute("RELEASE midstream_schema")
            throw error
        }
        if !isKept { try execute("ROLLBACK TO midstream_schema") }
        try execute("RELEASE midstream_schema")
    }
}
