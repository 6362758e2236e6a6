internal import SQLText
internal import SQLiteConnection

/// The virtual tables of a file that moves as a whole.
///
/// A virtual table keeps its content in ordinary tables, its shadow tables. Its module reads and writes them with statements of its
/// own. So shadow tables do not move in steps: all of them are copied at once, when the file's other tables have begun to move.
/// From then on, fences on the shadow tables keep programs without Midstream from writing the source's virtual tables.
///
/// As with VACUUM, the modules are not asked; this connection may not even know them.
struct VirtualTables {
    private let connection: Connection
    private let schema: String
    /// The virtual tables, in the order of their creation.
    let tables: [SchemaObject]
    private let shadows: ShadowTables
    /// The names of all ordinary tables.
    private let ordinary: [String]

    /// - Parameter schema: The schema under which the file is attached.
    init(_ connection: Connection, _ schema: String) throws {
        self.connection = connection
        self.schema = SQLIdentifier.quoted(schema)
        let rows = try connection.fetchAll(
            "SELECT name, sql FROM \(self.schema).sqlite_master WHERE type = 'table' AND sql IS NOT NULL ORDER BY rowid"
        )
        let objects = try rows.map { row in
            let name: String = try row.get(0)
            return SchemaObject(type: .table, name: name, owner: name, sql: try row.get(1))
        }
        tables = objects.filter(\.isVirtual)
        ordinary = objects.filter { !$0.isVirtual }.map(\.name)
        shadows = try ShadowTables(of: objects, connection, schema)
    }

    /// Whether an ordinary table is a shadow table of a virtual one.
    func isShadow(_ table: String) -> Bool { shadows.mayBeMade(table) }

    /// The virtual table to which a shadow table belongs; `nil` if the table is no shadow table.
    func owner(of shadow: String) -> String? {
        guard isShadow(shadow) else { return nil }
        let name = SQLIdentifier.lowercased(shadow)
        return tables.map(\.name).filter { name.hasPrefix(SQLIdentifier.lowercased($0) + "_") }
            .max { $0.utf8.count < $1.utf8.count }
    }

    private var shadowNames: [String] { ordinary.filter(isShadow) }

    private func fences(of table: String) throws -> [Claims.Fence] {
        try Claims.fences(of: table, in: schema, connection)
    }

    // MARK: In the source

    /// Whether all of a virtual table has moved with its file. A virtual table without shadow tables has nothing to move.
    func hasMoved(_ table: String) throws -> Bool {
        let own = shadowNames.filter { owner(of: $0).map { SQLIdentifier.equal($0, table) } ?? false }
        return try own.allSatisfy { try !fences(of: $0).isEmpty }
    }

    /// The first virtual table that has moved with its file; `nil` if none has.
    func firstMoved() throws -> String? {
        for shadow in shadowNames where try !fences(of: shadow).isEmpty { return owner(of: shadow) }
        return nil
    }

    /// For FTS5, the WHEN clause of a fence. It calls a function that no connection has, so that a write cannot be prepared: FTS5
    /// crashes if a trigger of its shadow tables raises an error. Other modules prepare their writes with the first read, and are
    /// fenced like ordinary tables.
    private func condition(ofFenceFor table: String) -> String {
        let sql = tables.first { SQLIdentifier.equal($0.name, table) }?.sql ?? ""
        let isFTS5 = SQLScript(sql).outline().mentions(["fts5"])
        return isFTS5 ? "WHEN midstream_virtual_table_has_moved() " : ""
    }

    /// Makes the shadow tables refuse writes, in the open transaction.
    ///
    /// - Parameter file: The target's file, by the path that the source stores for it.
    func fence(for file: String) throws {
        for shadow in shadowNames where try fences(of: shadow).isEmpty {
            let table = owner(of: shadow) ?? shadow
            let message = SQLLiteral.quoted("virtual table \(table) has moved to \(file): write it there")
            let id = Identifiers.next()
            for event in MoveSQL.guards {
                try connection.execute(
                    "CREATE TRIGGER \(schema).midstream_fence_\(event)_\(id) BEFORE \(event.uppercased()) ON "
                        + "\(SQLIdentifier.quoted(shadow)) \(condition(ofFenceFor: table))BEGIN SELECT RAISE(ABORT, \(message)); END"
                )
            }
        }
    }

    /// Removes the fences for a target, in the open transaction.
    func unfence(for file: String) throws {
        let end = " has moved to \(file): write it there"
        for shadow in shadowNames {
            for fence in try fences(of: shadow) where fence.strings.contains(where: { $0.hasSuffix(end) }) {
                try connection.execute("DROP TRIGGER \(schema).\(SQLIdentifier.quoted(fence.name))")
            }
        }
    }

    // MARK: In the target

    /// Copies the virtual tables into `main`, which has their empty shadow tables already. Call it in an open transaction whose
    /// last change of the schema is another one: after this call, the connection may not know of the virtual tables.
    ///
    /// - Complexity: O(size of the virtual tables).
    func copy() throws {
        if tables.isEmpty { return }
        for shadow in shadowNames {
            guard let table = try SchemaReader(connection: connection, schema: "main").table(shadow) else { continue }
            let name = SQLIdentifier.quoted(shadow)
            var columns = table.columns.filter { $0.generation == nil }.map { SQLIdentifier.quoted($0.name) }
            // The modules may identify rows by the rowid.
            if table.hasRowID, table.rowIDColumn == nil, let rowID = table.rowIDName { columns.insert(rowID, at: 0) }
            let list = columns.joined(separator: ", ")
            try connection.execute("INSERT INTO main.\(name)(\(list)) SELECT \(list) FROM \(schema).\(name)")
        }
        // As in VACUUM: the statement that creates a virtual table would also create and fill its shadow tables.
        // Source: <https://www.sqlite.org/pragma.html#pragma_writable_schema>.
        try connection.write(virtualTables: tables)
    }
}
