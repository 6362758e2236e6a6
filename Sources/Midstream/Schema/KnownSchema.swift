internal import SQLText
internal import SQLiteConnection

/// What `sqlite_master` has of one file. SQLite finds an object by its name only by a look at all objects, so that asking for
/// each of a thousand tables would take a million looks.
final class KnownSchema {
    /// One row of `sqlite_master`.
    struct Object {
        var type: String
        var name: String
        var table: String
        var sql: String?
        fileprivate var rowID: Int64
    }

    /// The number of the schema that it was read with.
    fileprivate var version: Int64
    private var objects: [Int64: Object] = [:]
    private var rowIDsOfTables: [ExactString: [Int64]] = [:]
    private var rowIDsOfNames: [ExactString: [Int64]] = [:]
    private var lastRowID: Int64 = 0
    /// The descriptions of tables that were read.
    private var descriptions: [ExactString: TableSchema] = [:]
    /// Whether a name or a text is, as far as a Swift string tells, what the file has.
    private(set) var isLegible = true

    fileprivate init(_ schema: String, version: Int64, _ connection: Connection) throws {
        self.version = version
        try readNew(schema, connection)
    }

    private static func key(_ name: String) -> ExactString { ExactString(string: SQLIdentifier.lowercased(name)) }

    /// Reads what has been created since.
    fileprivate func readNew(_ schema: String, _ connection: Connection) throws {
        let statement = try connection.cachedStatement(
            "SELECT rowid, type, name, tbl_name, sql FROM \(SQLIdentifier.quoted(schema)).sqlite_master WHERE rowid > ? "
                + "ORDER BY rowid"
        )
        defer { statement.reset() }
        try statement.bind(lastRowID, at: 1)
        while try statement.step() {
            let object = Object(
                type: try statement.read(at: 1),
                name: try statement.read(at: 2),
                table: try statement.read(at: 3),
                sql: try statement.read(at: 4),
                rowID: statement.int64(at: 0)
            )
            lastRowID = max(lastRowID, object.rowID)
            objects[object.rowID] = object
            rowIDsOfTables[Self.key(object.table), default: []].append(object.rowID)
            rowIDsOfNames[Self.key(object.name), default: []].append(object.rowID)
            // A trigger says nothing of its table.
            if object.type != "trigger" { descriptions[Self.key(object.table)] = nil }
            if [object.name, object.table, object.sql ?? ""].contains(where: LegibleSchema.mayBeRepaired) {
                isLegible = false
            }
        }
        try statement.checkValuesRead()
    }

    /// Forgets objects that were dropped.
    fileprivate func remove(_ isDropped: (Object) -> Bool, ofTable table: String) {
        let dropped = objects(of: table).filter(isDropped).sorted { $0.rowID > $1.rowID }
        for object in dropped {
            objects[object.rowID] = nil
            rowIDsOfTables[Self.key(object.table)]?.removeAll { $0 == object.rowID }
            rowIDsOfNames[Self.key(object.name)]?.removeAll { $0 == object.rowID }
        }
        // SQLite gives the next one the largest number that there is then, and one.
        while lastRowID > 0, objects[lastRowID] == nil { lastRowID -= 1 }
        descriptions[Self.key(table)] = nil
    }

    /// A table or view with its indexes and triggers, in the order of their creation.
    func objects(of table: String) -> [Object] {
        (rowIDsOfTables[Self.key(table)] ?? []).compactMap { objects[$0] }
    }

    /// What has that name, in any case.
    func objects(named name: String) -> [Object] {
        (rowIDsOfNames[Self.key(name)] ?? []).compactMap { objects[$0] }
    }

    func table(_ name: String) -> Object? { objects(named: name).first { $0.type == "table" } }

    /// The table's description, read once.
    func description(of table: String, _ read: () throws -> TableSchema?) rethrows -> TableSchema? {
        if let known = descriptions[Self.key(table)] { return known }
        let made = try read()
        descriptions[Self.key(table)] = made
        return made
    }
}

/// What is known of the schemas of a connection's files. A schema is known by its number in the connection's snapshot, and
/// forgotten with a rollback, which takes that back.
final class KnownSchemas {
    private var known: [String: KnownSchema] = [:]
    /// The number that a schema had when it was asked for last. One that changes with each look is not worth reading.
    private var lastVersions: [String: Int64] = [:]

    /// What asks for the numbers: it is asked for each table several times.
    private var versions: [String: Statement] = [:]

    private func version(_ schema: String, _ connection: Connection) throws -> Int64 {
        let statement: Statement
        if let made = versions[schema] {
            statement = made
        } else {
            statement = try connection.prepare(
                "PRAGMA \(SQLIdentifier.quoted(schema)).schema_version",
                persistent: true
            )
            versions[schema] = statement
        }
        defer { statement.reset() }
        return try statement.step() ? statement.int64(at: 0) : 0
    }

    /// - Returns: `nil` where the file itself is to be asked.
    fileprivate func schema(_ name: String, _ connection: Connection) throws -> KnownSchema? {
        let version = try version(name, connection)
        if let schema = known[name], schema.version == version { return schema.isLegible ? schema : nil }
        guard lastVersions.updateValue(version, forKey: name) == version else { return nil }
        let schema = try KnownSchema(name, version: version, connection)
        known[name] = schema
        return schema.isLegible ? schema : nil
    }

    /// Runs `body`, which changes a schema, and then `note`, if the schema was known before that.
    fileprivate func changing(
        _ name: String,
        _ connection: Connection,
        _ body: () throws -> Void,
        _ note: (KnownSchema) throws -> Void
    ) throws {
        let before = try version(name, connection)
        guard let schema = known[name], schema.version == before else { return try body() }
        known[name] = nil
        try body()
        try note(schema)
        schema.version = try version(name, connection)
        known[name] = schema
        lastVersions[name] = schema.version
    }
}

extension Connection {
    private var knownSchemas: KnownSchemas? {
        guard remembersSchemas else { return nil }
        if let known = schemaKnowledge as? KnownSchemas { return known }
        let made = KnownSchemas()
        schemaKnowledge = made
        return made
    }

    /// What is known of a file's schema; `nil` where the file itself is to be asked.
    func knownSchema(_ name: String) throws -> KnownSchema? { try knownSchemas?.schema(name, self) }

    /// Runs statements that create something.
    func create(in schema: String, _ statements: [String]) throws {
        try changingSchema(schema) { for sql in statements { try execute(sql) } }
    }

    /// Runs `body`, which creates something.
    func changingSchema<Result>(_ schema: String, _ body: () throws -> Result) throws -> Result {
        guard let knownSchemas else { return try body() }
        var result: Result!
        try knownSchemas.changing(schema, self, { result = try body() }) { try $0.readNew(schema, self) }
        return result
    }

    /// Runs `drop`, which drops triggers of a table.
    func dropTriggers(_ names: [String], of table: String, in schema: String, _ drop: () throws -> Void) throws {
        guard let knownSchemas else { return try drop() }
        try knownSchemas.changing(schema, self, drop) {
            $0.remove({ $0.type == "trigger" && names.contains($0.name) }, ofTable: table)
        }
    }

    /// Runs `body`, which drops large tables. Debian's SQLite overwrites what is deleted, which would make that as long as a copy.
    ///
    /// Source: <https://www.sqlite.org/pragma.html#pragma_secure_delete>.
    func withoutOverwriting(_ schema: String, _ body: () throws -> Void) throws {
        let mode: Int64 = try fetchValue("PRAGMA \(schema).secure_delete") ?? 0
        try execute("PRAGMA \(schema).secure_delete = FAST")
        defer { try? execute("PRAGMA \(schema).secure_delete = \(mode == 2 ? "FAST" : "\(mode)")") }
        try body()
    }

    /// Drops a table, if it is there, with all that is on it.
    func dropTable(_ name: String, in schema: String) throws {
        func run() throws {
            try execute("DROP TABLE IF EXISTS \(SQLIdentifier.quoted(schema)).\(SQLIdentifier.quoted(name))")
        }
        guard let knownSchemas else { return try run() }
        try knownSchemas.changing(schema, self, run) { $0.remove({ _ in true }, ofTable: name) }
    }
}
