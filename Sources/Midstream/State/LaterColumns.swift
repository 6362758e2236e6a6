internal import SQLText
internal import SQLiteConnection

// Columns that the engine's own tables have not had from the first release on.
extension SchemaReader {
    /// Gives a table that an earlier release has made the columns that it lacks.
    ///
    /// - Parameter columns: Their definitions: a name, and a type.
    func add(_ columns: [String], to table: String) throws {
        let known = try columnNames(of: table)
        for column in columns where !known.contains(where: { column.hasPrefix("\($0) ") }) {
            let name = "\(SQLIdentifier.quoted(schema)).\(SQLIdentifier.quoted(table))"
            try connection.execute("ALTER TABLE \(name) ADD COLUMN \(column)")
        }
    }

    /// Whether a table has a column that an earlier release has made it without.
    func hasColumn(_ name: String, of table: String) throws -> Bool { try columnNames(of: table).contains(name) }
}
