internal import SQLText
internal import SQLiteConnection

/// The tables that virtual tables create to keep their rows in.
///
/// Source: <https://www.sqlite.org/vtab.html#the_xshadowname_method>.
struct ShadowTables {
    private var names: Set<String> = []
    /// How the names of shadow tables begin, for virtual tables whose module cannot be asked.
    private var prefixes: [String] = []

    /// Makes an empty set of tables.
    init() {}

    /// Creates the virtual tables in an empty database in memory, and looks which tables appear.
    ///
    /// - Parameters:
    ///   - virtual: The names of virtual tables, and the statements that create them.
    ///   - ordinary: Other tables, and the statements that create them. A virtual table may take its columns from one of these.
    init(of virtual: [(name: String, sql: String)], besides ordinary: [(name: String, sql: String)]) throws {
        if virtual.isEmpty { return }
        let connection = try Connection(path: ":memory:")
        defer { connection.close() }
        func tables() throws -> Set<String> {
            Set(try SchemaReader(connection: connection, schema: "main").tableNames().map(SQLIdentifier.lowercased))
        }
        // A definition that does not compile is reported later.
        for table in ordinary {
            let name = SQLIdentifier.lowercased(table.name)
            // A table that a virtual table names is no shadow table of it, whatever its name: it may be the virtual table's
            // content.
            let isNamed = virtual.contains { SQLIdentifier.lowercased($0.sql).contains(name) }
            let mayBeOwn = virtual.contains { name.hasPrefix(Self.prefix(of: $0.name)) }
            if isNamed || !mayBeOwn { try? connection.execute(table.sql) }
        }
        let before = try tables()
        for table in virtual {
            do {
                try connection.execute(table.sql)
            } catch {
                prefixes.append(Self.prefix(of: table.name))
            }
        }
        names = try tables().subtracting(before)
    }

    /// Finds the shadow tables of a file that is open on a connection.
    ///
    /// - Parameters:
    ///   - objects: The file's tables, among others.
    ///   - schema: The schema under which the file is attached.
    init(of objects: [SchemaObject], _ connection: Connection, _ schema: String) throws {
        let tables = objects.filter { $0.type == .table }
        let virtual = tables.filter(\.isVirtual)
        try self.init(
            of: virtual.map { ($0.name, $0.sql) },
            besides: tables.filter { !$0.isVirtual }.map { ($0.name, $0.sql) }
        )
        if virtual.isEmpty { return }
        // Some modules create shadow tables later. Before SQLite 3.37, this pragma tells nothing.
        // Source: <https://www.sqlite.org/pragma.html#pragma_table_list>.
        let list = try connection.fetchAll("PRAGMA \(SQLIdentifier.quoted(schema)).table_list")
        for row in list where row["type"] == .text("shadow") {
            names.insert(SQLIdentifier.lowercased(try row.get("name", as: String.self)))
        }
    }

    /// Whether a module is known to create a table of that name.
    func isMade(_ name: String) -> Bool { names.contains(SQLIdentifier.lowercased(name)) }

    /// Whether a module is known to create a table of that name, or one that cannot be asked may do so.
    func mayBeMade(_ name: String) -> Bool {
        isMade(name) || prefixes.contains(where: SQLIdentifier.lowercased(name).hasPrefix)
    }

    private static func prefix(of virtual: String) -> String { SQLIdentifier.lowercased(virtual) + "_" }
}
