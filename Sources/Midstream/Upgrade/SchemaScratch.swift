internal import SQLText
internal import SQLiteConnection

/// An empty copy of a file's schema, on which changes are tried.
///
/// The copy leaves out what it cannot take: objects that use the application's functions or collations, or that name
/// missing objects.
final class SchemaScratch {
    let connection: Connection
    /// The objects that are left out, and why.
    private(set) var missing: [(object: SchemaObject, error: any Error)] = []
    private var programs: [SchemaObject] = []

    /// - Parameter columns: Gives the columns of a virtual table. A plain table with these columns stands for the
    ///   virtual table.
    init(_ image: SchemaImage, columns: (String) throws -> [String]) throws {
        connection = try Connection(path: ":memory:")
        // The setting may be on by default.
        try connection.execute("PRAGMA legacy_alter_table = 0")
        for name in image.virtualTables.map(\.name) {
            guard let names = try? columns(name), !names.isEmpty else { continue }
            let list = names.map(SQLIdentifier.quoted).joined(separator: ", ")
            try connection.execute("CREATE TABLE \(SQLIdentifier.quoted(name))(\(list))")
        }
        programs = image.views + image.allTriggers
        let tables = image.tables.map { table in
            SchemaObject(type: .table, name: table.name, owner: table.name, sql: table.schema.sql)
        }
        for object in tables + image.tables.flatMap(\.indexes) + programs {
            do {
                try connection.execute(object.sql)
            } catch {
                missing.append((object, error))
            }
        }
        for (object, error) in try broken(among: programs) { missing.append((object, error)) }
    }

    func close() { connection.close() }

    /// Drops an index, a view or a trigger. The copy may lack it.
    func drop(_ object: SchemaObject) throws {
        let name = SQLIdentifier.quoted(object.name)
        try connection.execute("DROP \(object.type.rawValue.uppercased()) IF EXISTS \(name)")
        missing.removeAll { $0.object.type == object.type && SQLIdentifier.equal($0.object.name, object.name) }
    }

    /// Whether a table or view is left out.
    func lacks(_ name: String) -> Bool {
        missing.contains { [.table, .view].contains($0.object.type) && SQLIdentifier.equal($0.object.name, name) }
    }

    /// Whether views or triggers name missing objects. While there are any, SQLite neither renames nor drops columns.
    var hasBrokenPrograms: Bool { !brokenPrograms.isEmpty }

    /// The views and triggers that name missing objects, and why they do not compile.
    var brokenPrograms: [(object: SchemaObject, error: any Error)] {
        missing.filter { object, error in
            let message = (error as? SQLiteError)?.message ?? ""
            return [.view, .trigger].contains(object.type)
                && (message.contains("no such table") || message.contains("no such column"))
        }
    }

    /// Drops the views and triggers that do not compile, and returns them.
    ///
    /// SQLite reads all views and triggers when it renames a table; before version 3.26 it does not.
    ///
    /// Source: <https://www.sqlite.org/lang_altertable.html#compatibility_note>.
    func broken(among programs: [SchemaObject]) throws -> [(object: SchemaObject, error: any Error)] {
        var broken: [(object: SchemaObject, error: any Error)] = []
        while let error = failure() {
            let found = programs.first { program in
                let name = "error in \(program.type.rawValue) \(program.name)"
                return error.message.hasPrefix(name + ": ") || error.message.hasPrefix(name + " after ")
            }
            guard let found, !broken.contains(where: { $0.object.name == found.name }) else { break }
            broken.append((found, error))
            let name = SQLIdentifier.quoted(found.name)
            try connection.execute("DROP \(found.type == .view ? "VIEW" : "TRIGGER") \(name)")
        }
        return broken
    }

    private func failure() -> SQLiteError? {
        do {
            try connection.savepoint("midstream_probe") {
                try connection.execute("CREATE TABLE midstream_probe(a)")
                try connection.execute("ALTER TABLE midstream_probe RENAME TO midstream_probed")
                try connection.execute("DROP TABLE midstream_probed")
            }
            return nil
        } catch {
            return error as? SQLiteError
        }
    }

    /// Runs `body`, and undoes what it has changed.
    func trying<Result>(_ body: () throws -> Result) throws -> Result {
        try connection.execute("SAVEPOINT midstream_trial")
        defer {
            try? connection.execute("ROLLBACK TO midstream_trial")
            try? connection.execute("RELEASE midstream_trial")
        }
        return try body()
    }
}
