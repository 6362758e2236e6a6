internal import SQLText
internal import SQLiteConnection

extension SchemaPlanner {
    /// Creates the virtual tables that are missing. A virtual table that exists stays as it is, since only its module
    /// could change the shape of what it keeps.
    mutating func createVirtualTables() throws {
        for table in wanted.virtualTables {
            guard let there = present.virtualTables.named(table.name) else {
                try run(table.name, "create", [table.sql])
                if try isUnfilled(table) { plan.unfilledTables.append(table.name) }
                continue
            }
            if there.isSame(as: table) { continue }
            throw MigrationError(
                .unsupported,
                "the declaration of virtual table \(table.name) differs from the one in the file: drop the table by a "
                    + "statement of your own, so that it is created anew, and then fill it. The file has \(there.sql)",
                table: table.name
            )
        }
        plan.undeclared += present.virtualTables.map(\.name).filter { wanted.virtualTables.named($0) == nil }
    }

    /// Whether a new full-text table has none of the rows of its content in its index, because its content is a table
    /// that already has rows.
    ///
    /// Source: <https://www.sqlite.org/fts5.html#external_content_tables>.
    private func isUnfilled(_ table: SchemaObject) throws -> Bool {
        guard let content = ExternalContent.fullText(of: table), let old = present.table(content) else { return false }
        return try !hasAtMost(0, old)
    }

    /// Makes sure that the tables and columns which virtual tables read by name are still there in the end. Views among
    /// them may have got other columns.
    func checkContents(_ contents: [ExternalContent], on copy: SchemaScratch) throws {
        for content in contents where !copy.lacks(content.table) {
            // Content that is already broken is lost anyway.
            let before = (try? file.columns(content.table)) ?? []
            if before.isEmpty { continue }
            let after = try SchemaReader(connection: copy.connection, schema: "main").columnNames(of: content.table)
            if after.isEmpty { throw Self.lost(content, content.table) }
            let lost = before.first { name in
                content.reads(name) && !after.contains { SQLIdentifier.equal($0, name) }
            }
            if let lost { throw Self.lost(content, "column \(lost) of \(content.table)") }
        }
    }

    static func lost(_ content: ExternalContent, _ what: String) -> MigrationError {
        MigrationError(
            .unsupported,
            "virtual table \(content.reader) reads \(what), which it would no longer find: first drop the virtual "
                + "table by a statement of your own, declare it as it is to be, so that it is created anew, and then "
                + "fill it",
            table: content.reader
        )
    }
}
