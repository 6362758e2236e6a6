internal import SQLText
internal import SQLiteConnection

/// What a database's schema has, as SQLite understands it.
struct SchemaImage {
    /// In the order of their creation.
    var tables: [TableImage] = []
    var views: [SchemaObject] = []
    /// Triggers of views, by the view that they are on.
    var triggersOfViews: [SchemaObject] = []

    init(_ connection: Connection) throws {
        let reader = SchemaReader(connection: connection, schema: "main")
        let objects = try connection.fetchAll(
            "SELECT type, name, tbl_name, sql FROM main.sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"
        ).map { row in
            (
                type: try row.get(0, as: String.self),
                object: SchemaObject(name: try row.get(1), owner: try row.get(2), sql: try row.get(3))
            )
        }.filter { !$0.object.name.hasPrefix(StateStore.prefix) }
        func all(_ type: String) -> [SchemaObject] { objects.filter { $0.type == type }.map(\.object) }
        views = all("view")
        triggersOfViews = all("trigger").filter { trigger in
            views.contains { SQLIdentifier.equal($0.name, trigger.owner) }
        }
        for name in try reader.tableNames() {
            // What a virtual table has for itself may be anything.
            guard let schema = try reader.table(name), let definition = CreateTable(schema.sql) else { continue }
            func own(_ type: String) -> [SchemaObject] { all(type).filter { SQLIdentifier.equal($0.owner, name) } }
            tables.append(
                TableImage(
                    schema: schema,
                    definition: definition,
                    indexes: own("index"),
                    triggers: own("trigger"),
                    shape: try TableShape(schema, definition)
                )
            )
        }
    }

    func table(_ name: String) -> TableImage? {
        tables.first { SQLIdentifier.equal($0.schema.name, name) }
    }
}

/// A table with what belongs to it.
struct TableImage {
    var schema: TableSchema
    var definition: CreateTable
    var indexes: [SchemaObject]
    var triggers: [SchemaObject]
    var shape: TableShape

    var name: String { schema.name }
}

/// An index, a view or a trigger. Two with the same name and words are the same.
struct SchemaObject {
    var name: String
    /// The table or view that it is on; a view's is its own name.
    var owner: String
    var sql: String

    func isSame(as other: SchemaObject) -> Bool {
        SQLIdentifier.equal(name, other.name) && CreateTable.words(sql) == CreateTable.words(other.sql)
    }
}

extension [SchemaObject] {
    func named(_ name: String) -> SchemaObject? { first { SQLIdentifier.equal($0.name, name) } }

    /// Those that are not among others: new, or changed.
    func missing(in others: [SchemaObject]) -> [SchemaObject] {
        filter { object in !others.contains(where: object.isSame) }
    }
}
