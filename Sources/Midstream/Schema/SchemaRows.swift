internal import SQLText
internal import SQLiteConnection

/// What is created by a text alone, without a page of its own: a trigger, or a virtual table whose module keeps nothing in the file.
struct SchemaRow {
    enum Kind: String {
        case table
        case trigger
    }

    var kind: Kind
    /// As SQL writes it without quotes.
    var name: String
    /// The table or view that a trigger is on; of a table its own name.
    var table: String
    /// What stands before the name and behind it in the statement that creates it.
    var words: (before: String, after: String)

    /// A trigger.
    ///
    /// - Parameter rest: What follows its name in CREATE TRIGGER.
    static func trigger(_ name: String, on table: String, _ rest: String) -> SchemaRow {
        SchemaRow(kind: .trigger, name: name, table: table, words: ("CREATE TRIGGER", rest))
    }

    /// The statement that creates it.
    func create(in schema: String) -> String {
        "\(words.before) \(SQLIdentifier.quoted(schema)).\(SQLIdentifier.quoted(name)) \(words.after)"
    }

    /// What `sqlite_master` has of it: no name of a schema.
    fileprivate var sql: String { "\(words.before) \(SQLIdentifier.quoted(name)) \(words.after)" }
}

extension Connection {
    /// From how many rows on they are written into `sqlite_master`. For less, to read the schema again costs more.
    private static let manyRows = 48

    /// Creates triggers, or virtual tables, of a schema.
    ///
    /// CREATE reads all of `sqlite_master`, so that those of a thousand tables would read it thousands of times. Many are written
    /// there at once instead, and the connection reads the schema again.
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

    /// - Returns: `false` where this SQLite does not let its schema's table be written: nothing is then.
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

    /// Writes virtual tables into `main` as they are, of modules that may be unknown. It is not read again.
    ///
    /// - Throws: `SQLiteError` where this SQLite does not let its schema's table be written.
    func write(virtualTables tables: [SchemaObject]) throws {
        let isWritten = try writingSchema {
            try insert(tables.map { ("table", $0.name, $0.name, $0.sql) }, into: "main")
        }
        guard isWritten else { throw Self.isDefended }
    }

    /// Exchanges the b-trees of tables, and of indexes, of `main`, in the transaction that is open. No statement of the connection is
    /// running.
    ///
    /// - Throws: `SQLiteError` where this SQLite does not let its schema's table be written.
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
        guard changes == 1 else { throw SQLiteError(code: .corrupt, message: "\(name) is described twice") }
    }

    private static let isDefended = SQLiteError(
        code: .readOnly,
        message: "this SQLite does not let sqlite_master be written"
    )

    /// Whether the schema's table can be written.
    var canWriteSchema: Bool {
        get throws { try writingSchema {} }
    }

    /// Runs `body`, which may write the tables of schemas.
    ///
    /// - Returns: `false` where this SQLite does not let them be written: then `body` has not run.
    private func writingSchema(_ body: () throws -> Void) throws -> Bool {
        // It is on in Apple's library.
        let isDefensive = isConfigured(.defensive) ?? false
        if isDefensive { try configure(.defensive, false) }
        defer { if isDefensive { try? configure(.defensive, true) } }
        try execute("PRAGMA writable_schema = ON")
        defer { try? execute("PRAGMA writable_schema = OFF") }
        guard try fetchValue(Int64.self, "PRAGMA writable_schema") == 1 else { return false }
        try body()
        return true
    }

    /// Writes rows into a schema's table, and raises its number, by which other connections read the schema again.
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

    /// - Throws: `SQLiteError` where SQLite leaves it as it is, without a word.
    private func raiseSchemaVersion(of schema: String) throws {
        let number = try schemaVersion(of: schema) + 1
        try execute("PRAGMA \(SQLIdentifier.quoted(schema)).schema_version = \(number)")
        guard try schemaVersion(of: schema) == number else { throw Self.isDefended }
    }

    /// Has the connection itself read the schema again. Call it in a savepoint.
    private func readAnew(_ master: String) throws {
        // Newer versions of SQLite find by the number that they have to read the schema again. For others the schema is known. A
        // rollback has them read it, which takes back a change of it as far as they know.
        if Connection.libraryVersionNumber < 3_036_000 { try savepoint(isKept: false) {} }
        // A text that SQLite cannot read fails here, and not in the next program that opens the file.
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
