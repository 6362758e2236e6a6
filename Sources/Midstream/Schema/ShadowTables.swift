internal import SQLText
internal import SQLiteConnection

/// The tables that virtual ones make for themselves to keep their rows in.
///
/// Source: <https://www.sqlite.org/vtab.html#the_xshadowname_method>.
struct ShadowTables {
    private var names: Set<String> = []
    /// What the names begin with where a module cannot be asked.
    private var prefixes: [String] = []

    /// None.
    init() {}

    /// Makes the virtual tables in a database that has nothing else, and looks what comes.
    ///
    /// - Parameters:
    ///   - virtual: Virtual tables by their names, and what creates them.
    ///   - ordinary: Other tables, likewise: a virtual one may have the columns of one of these.
    init(of virtual: [(name: String, sql: String)], besides ordinary: [(name: String, sql: String)]) throws {
        if virtual.isEmpty { return }
        let connection = try Connection(path: ":memory:")
        defer { connection.close() }
        func tables() throws -> Set<String> {
            Set(try SchemaReader(connection: connection, schema: "main").tableNames().map(SQLIdentifier.lowercased))
        }
        // What does not compile is told of later.
        for table in ordinary {
            let name = SQLIdentifier.lowercased(table.name)
            // One that a virtual table names is not its own, whatever it is called: it may be its content.
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

    /// The same of a file that a connection has.
    ///
    /// - Parameters:
    ///   - objects: The file's tables, among others.
    ///   - schema: The schema that it is attached as.
    init(of objects: [SchemaObject], _ connection: Connection, _ schema: String) throws {
        let tables = objects.filter { $0.type == .table }
        let virtual = tables.filter(\.isVirtual)
        try self.init(
            of: virtual.map { ($0.name, $0.sql) },
            besides: tables.filter { !$0.isVirtual }.map { ($0.name, $0.sql) }
        )
        if virtual.isEmpty { return }
        // Some come later. Before SQLite 3.37 this tells nothing.
        // Source: <https://www.sqlite.org/pragma.html#pragma_table_list>.
        let list = try connection.fetchAll("PRAGMA \(SQLIdentifier.quoted(schema)).table_list")
        for row in list where row["type"] == .text("shadow") {
            names.insert(SQLIdentifier.lowercased(try row.get("name", as: String.self)))
        }
    }

    /// Whether a module is known to make a table of the name.
    func isMade(_ name: String) -> Bool { names.contains(SQLIdentifier.lowercased(name)) }

    /// The same, or whether one that cannot be asked may.
    func mayBeMade(_ name: String) -> Bool {
        isMade(name) || prefixes.contains(where: SQLIdentifier.lowercased(name).hasPrefix)
    }

    private static func prefix(of virtual: String) -> String { SQLIdentifier.lowercased(virtual) + "_" }
}
