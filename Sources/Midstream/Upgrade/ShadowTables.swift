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
    ///   - others: What creates ordinary tables, of which a virtual one may have the columns.
    init(of virtual: [(name: String, sql: String)], besides others: [String] = []) throws {
        if virtual.isEmpty { return }
        let connection = try Connection(path: ":memory:")
        defer { connection.close() }
        func tables() throws -> Set<String> {
            Set(try SchemaReader(connection: connection, schema: "main").tableNames().map(SQLIdentifier.lowercased))
        }
        // What does not compile is told of later.
        for sql in others { try? connection.execute(sql) }
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

    func contains(_ name: String) -> Bool {
        let name = SQLIdentifier.lowercased(name)
        return names.contains(name) || prefixes.contains(where: name.hasPrefix)
    }

    /// Whether one of them could be called so.
    static func may(_ name: String, beOneOf virtual: [String]) -> Bool {
        let name = SQLIdentifier.lowercased(name)
        return virtual.contains { name.hasPrefix(prefix(of: $0)) }
    }

    private static func prefix(of virtual: String) -> String { SQLIdentifier.lowercased(virtual) + "_" }
}
