internal import SQLText
internal import SQLiteConnection

/// A database's schema, as SQLite understands it.
struct SchemaImage {
    /// The ordinary tables, in the order of their creation.
    var tables: [TableImage] = []
    var views: [SchemaObject] = []
    /// The triggers of all views.
    var triggersOfViews: [SchemaObject] = []
    private(set) var virtualTables: [SchemaObject] = []
    /// The tables in which the virtual tables keep their rows.
    private var shadows = ShadowTables()
    /// The tables whose definitions Midstream cannot understand.
    private(set) var unreadable: [SchemaObject] = []

    init(_ connection: Connection) throws {
        let objects = try Self.objects(connection)
        let owned = Dictionary(grouping: objects) { SQLIdentifier.lowercased($0.owner) }
        for object in objects where object.type == .table {
            if object.isVirtual {
                virtualTables.append(object)
            } else if let table = try TableImage(object, owned, connection) {
                tables.append(table)
            } else {
                unreadable.append(object)
            }
        }
        shadows = try ShadowTables(
            of: virtualTables.map { ($0.name, $0.sql) },
            besides: objects.filter { $0.type == .table && !$0.isVirtual }.map { ($0.name, $0.sql) }
        )
        views = objects.filter { $0.type == .view }
        triggersOfViews = views.flatMap { view in
            (owned[SQLIdentifier.lowercased(view.name)] ?? []).filter { $0.type == .trigger }
        }
    }

    /// The application's objects, in the order of their creation.
    static func objects(_ connection: Connection, of owner: String? = nil) throws -> [SchemaObject] {
        try connection.fetchAll(
            "SELECT type, name, tbl_name, sql FROM main.sqlite_master WHERE sql IS NOT NULL "
                + "AND (?1 IS NULL OR tbl_name = ?1 COLLATE NOCASE) ORDER BY rowid",
            [owner]
        ).compactMap { row in
            guard let type = SchemaObject.Kind(rawValue: try row.get(0)) else { return nil }
            return SchemaObject(type: type, name: try row.get(1), owner: try row.get(2), sql: try row.get(3))
        }.filter { object in
            !OwnNames.has(object.type, object.name, on: object.owner)
                && ![object.name, object.owner].contains { $0.hasPrefix("sqlite_") }
        }
    }

    func table(_ name: String) -> TableImage? {
        tables.first { SQLIdentifier.equal($0.schema.name, name) }
    }

    /// One table, as the connection sees it; `nil` if there is none, or its definition cannot be understood.
    static func table(_ name: String, _ connection: Connection) throws -> TableImage? {
        let objects = try objects(connection, of: name)
        guard let table = objects.first(where: { $0.type == .table && !$0.isVirtual }) else { return nil }
        return try TableImage(table, [SQLIdentifier.lowercased(name): objects], connection)
    }

    /// Takes from `other` which tables are virtual, and which are unreadable. This image is of a copy, which has ordinary tables
    /// for the virtual ones.
    mutating func takeKinds(of other: SchemaImage) {
        virtualTables = other.virtualTables
        shadows = other.shadows
        unreadable = other.unreadable
        tables.removeAll { virtualTables.named($0.name) != nil }
    }

    /// The triggers of tables and views.
    var allTriggers: [SchemaObject] { tables.flatMap(\.triggers) + triggersOfViews }

    /// Whether a table may be one in which a virtual table keeps its rows.
    func isShadow(_ name: String) -> Bool { shadows.mayBeMade(name) }
}

/// A table with its indexes and triggers.
struct TableImage {
    var schema: TableSchema
    var definition: CreateTable
    var indexes: [SchemaObject]
    var triggers: [SchemaObject]
    var shape: TableShape

    var name: String { schema.name }

    /// - Parameter owned: The objects of each table, by its name in lower case.
    /// - Returns: `nil` if the table's definition cannot be understood.
    fileprivate init?(_ object: SchemaObject, _ owned: [String: [SchemaObject]], _ connection: Connection) throws {
        guard let schema = try SchemaReader(connection: connection, schema: "main").table(object.name),
            let definition = CreateTable(schema.sql)
        else { return nil }
        let own = owned[SQLIdentifier.lowercased(object.name)] ?? []
        self.schema = schema
        self.definition = definition
        indexes = own.filter { $0.type == .index }
        triggers = own.filter { $0.type == .trigger }
        shape = try TableShape(schema, definition)
    }
}

/// A table, an index, a view or a trigger. Two objects are the same if their names are equal and their words have the same bytes.
struct SchemaObject {
    enum Kind: String {
        case table, index, view, trigger
    }

    var type: Kind
    var name: String
    /// The table or view that the object is on; for a table or view, its own name.
    var owner: String
    var sql: String
    /// The object's words, without the object's name and its owner's, since either may be quoted or not.
    private var words: String

    init(type: Kind, name: String, owner: String, sql: String) {
        self.type = type
        self.name = name
        self.owner = owner
        self.sql = sql
        // Tables are compared by their shapes instead.
        words = type == .table && !Self.isVirtual(sql) ? "" : Self.words(sql)
    }

    private static func words(_ sql: String) -> String {
        let outline = SQLScript(sql).outline()
        var edits = SQLEdits()
        for name in [outline.target, outline.onTable] {
            if let name { edits.replace(name.range, with: " midstream_name ") }
        }
        return CreateTable.words((try? edits.apply(to: sql)) ?? sql)
    }

    var isVirtual: Bool { type == .table && Self.isVirtual(sql) }

    /// SQLite itself writes these two words, whatever the application wrote.
    private static func isVirtual(_ sql: String) -> Bool { sql.hasPrefix("CREATE VIRTUAL") }

    func isSame(as other: SchemaObject) -> Bool {
        SQLIdentifier.equal(name, other.name) && SQLIdentifier.equal(owner, other.owner) && hasSameWords(as: other)
    }

    /// Whether the two objects differ at most in the names of the object and its owner.
    func hasSameWords(as other: SchemaObject) -> Bool { words.hasSameBytes(as: other.words) }
}

extension [SchemaObject] {
    func named(_ name: String) -> SchemaObject? { first { SQLIdentifier.equal($0.name, name) } }

    /// The objects that are not in `others`: those that are new or have changed.
    func missing(in others: [SchemaObject]) -> [SchemaObject] {
        filter { object in !others.contains(where: object.isSame) }
    }
}

extension OwnNames {
    /// Whether an object of a file is one of the engine's own.
    ///
    /// - Parameter table: The table that the object is on; for a table, its own name.
    static func has(_ type: SchemaObject.Kind, _ name: String, on table: String) -> Bool {
        switch type {
        case .table, .view: isTable(name)
        case .index: isTable(table)
        case .trigger: isTrigger(name) || isTable(table)
        }
    }
}
