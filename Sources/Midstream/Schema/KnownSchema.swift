internal import SQLText
internal import SQLiteConnection

/// A copy of one file's `sqlite_master`. SQLite finds an object by its name only by looking at all objects, so asking for each of a
/// thousand tables would take a million looks.
final class KnownSchema {
    /// One row of `sqlite_master`.
    struct Object {
        var type: String
        var name: String
        var table: String
        var sql: String?
        fileprivate var rowID: Int64
    }

    /// The schema's version when the copy was made.
    fileprivate var version: Int64
    private var objects: [Int64: Object] = [:]
    private var rowIDsOfTables: [ExactString: [Int64]] = [:]
    private var rowIDsOfNames: [ExactString: [Int64]] = [:]
    private var lastRowID: Int64 = 0
    /// The descriptions of tables that have been read.
    private var descriptions: [ExactString: TableSchema] = [:]
    /// Whether Swift's strings show every name and text as the file has it, as far as a string can tell.
    private(set) var isLegible = true

    fileprivate init(_ schema: String, version: Int64, _ connection: Connection) throws {
        self.version = version
        try readNew(schema, connection)
    }

    private static func key(_ name: String) -> ExactString { ExactString(string: SQLIdentifier.lowercased(name)) }

    /// Reads the objects that were created since the last reading.
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
            // A trigger changes nothing in its table's description.
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
        // SQLite gives the next object the largest rowid that is then left, plus one.
        while lastRowID > 0, objects[lastRowID] == nil { lastRowID -= 1 }
        descriptions[Self.key(table)] = nil
    }

    /// A table or view together with its indexes and triggers, in the order of their creation.
    func objects(of table: String) -> [Object] {
        (rowIDsOfTables[Self.key(table)] ?? []).compactMap { objects[$0] }
    }

    /// The objects with that name, in any case.
    func objects(named name: String) -> [Object] {
        (rowIDsOfNames[Self.key(name)] ?? []).compactMap { objects[$0] }
    }

    func table(_ name: String) -> Object? { objects(named: name).first { $0.type == "table" } }

    /// The table's description. `read` is called only the first time.
    func description(of table: String, _ read: () throws -> TableSchema?) rethrows -> TableSchema? {
        if let known = descriptions[Self.key(table)] { return known }
        let made = try read()
        descriptions[Self.key(table)] = made
        return made
    }
}

/// The known schemas of a connection's files. A schema is known under its version in the connection's snapshot. A rollback, which
/// takes the version back, makes the connection forget the schema.
final class KnownSchemas {
    private var known: [String: KnownSchema] = [:]
    /// The version of each schema at the last request. A schema whose version changes with each request is not worth reading.
    private var lastVersions: [String: Int64] = [:]

    /// The statements that ask for the versions. They are kept, since each table asks several times.
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

    /// - Returns: `nil` if the caller has to ask the file itself.
    fileprivate func schema(_ name: String, _ connection: Connection) throws -> KnownSchema? {
        let version = try version(name, connection)
        if let schema = known[name], schema.version == version { return schema.isLegible ? schema : nil }
        guard lastVersions.updateValue(version, forKey: name) == version else { return nil }
        let schema = try KnownSchema(name, version: version, connection)
        known[name] = schema
        return schema.isLegible ? schema : nil
    }

    /// Runs `body`, which changes a schema. If the schema was known before, runs `note` after it.
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

    /// The known schema of a file; `nil` if the caller has to ask the file itself.
    func knownSchema(_ name: String) throws -> KnownSchema? { try knownSchemas?.schema(name, self) }

    /// Runs statements that create objects.
    func create(in schema: String, _ statements: [String]) throws {
        try changingSchema(schema) { for sql in statements { try execute(sql) } }
    }

    /// Runs `body`, which creates objects.
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

    /// Runs `body`, which drops large tables. Debian's SQLite overwrites deleted content by default; dropping a table would then
    /// take as long as copying it.
    ///
    /// Source: <https://www.sqlite.org/pragma.html#pragma_secure_delete>.
    func withoutOverwriting(_ schema: String, _ body: () throws -> Void) throws {
        let mode: Int64 = try fetchValue("PRAGMA \(schema).secure_delete") ?? 0
        try execute("PRAGMA \(schema).secure_delete = FAST")
        defer { try? execute("PRAGMA \(schema).secure_delete = \(mode == 2 ? "FAST" : "\(mode)")") }
        try body()
    }

    /// Drops a table, if it exists, together with its indexes and triggers.
    func dropTable(_ name: String, in schema: String) throws {
        func run() throws {
            try execute("DROP TABLE IF EXISTS \(SQLIdentifier.quoted(schema)).\(SQLIdentifier.quoted(name))")
        }
        guard let knownSchemas else { return try run() }
        try knownSchemas.changing(schema, self, run) { $0.remove({ _ in true }, ofTable: name) }
    }
}
