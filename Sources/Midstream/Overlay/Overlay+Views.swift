internal import SQLText
internal import SQLiteConnection

// The twins of views that read moving tables.
extension Overlay {
    func removeTwins() throws {
        for view in try twinsInPlace() { try execute("DROP VIEW temp.\(SQLIdentifier.quoted(view))") }
        twins.removeAll()
    }

    /// The twins that exist, including those that a rollback has brought back. The application may have made TEMP views with the
    /// names of other twins.
    func twinsInPlace() throws -> [String] {
        let views: [(name: String, sql: String)] = try connection.fetchAll(
            "SELECT name, sql FROM sqlite_temp_master WHERE type = 'view'"
        ).map { (try $0.get(0), try $0.get(1)) }
        return views.filter { $0.sql.contains(ViewTwin.mark) }.map(\.name)
    }

    /// Gives every view of `main` that mentions a moving table, directly or through other views, a TEMP twin of the same
    /// text, whose names resolve to the union tables.
    func installTwins() throws {
        definitionsBeforeTwins = statements.definitions
        guard !byName.isEmpty else { return }
        var views: [(name: String, sql: String)] = try connection.fetchAll(
            "SELECT name, sql FROM main.sqlite_master WHERE type = 'view' ORDER BY rowid"
        ).map { (try $0.get(0), try $0.get(1)) }
        if views.isEmpty { return }
        // First the views that need twins, then the twins: a twin may name a view that is found after it.
        var mentioned = Set(byName.keys)
        let described = try byName.keys + strayNames()
        var affected: [(name: String, sql: String)] = []
        while let position = try views.firstIndex(where: {
            try ViewTwin(sql: $0.sql, mentioning: mentioned, described: described, tables: byName) != nil
        }) {
            let view = views.remove(at: position)
            // A program without Midstream may have made the view since rows began to move.
            if LegibleSchema.mayBeRepaired(view.sql) {
                try LegibleSchema.checkTexts(connection, in: "main", where: "type = 'view' AND name = ?1", [view.name])
            }
            mentioned.insert(SQLIdentifier.lowercased(view.name))
            affected.append(view)
        }
        let others = try mainNames().subtracting(mentioned)
        for view in affected {
            let twin = try ViewTwin(
                sql: view.sql,
                mentioning: mentioned,
                others: others,
                described: described,
                tables: byName,
                rowIDColumn: rowIDColumn
            )
            guard let twin else { continue }
            if try hasTemporary(view.name) {
                hiddenByTemporaryTables.formUnion(byName.values.map(\.id))
                continue
            }
            try execute(twin.sql)
            twins.insert(view.name)
        }
    }

    /// The views that a statement names, and the views that these name.
    func viewsNamed(by outline: StatementOutline) throws -> [StatementOutline] {
        try viewTexts.update(statements, schemaVersion, attached: attachedFiles.schemas)
        return viewTexts.named(by: outline)
    }

    /// Whether one of the views reads moving tables, or views of them, past the overlay. This is a view of `main` that was made
    /// in the open transaction and has no twin, or a TEMP view that names `main`. If the view asks for no column, SQLite does not
    /// report the read.
    ///
    /// - Parameter views: The views that a statement names, and the views that these name.
    func isPassed(by views: [StatementOutline]) -> Bool {
        views.contains { view in
            guard let name = view.target?.name, !twins.contains(where: { SQLIdentifier.equal($0, name) }) else {
                return false
            }
            // A view that was there when the twins were made has a twin if it needs one.
            if viewTexts.isOfMain(name) {
                return statements.definitions != definitionsBeforeTwins && view.mentions(names)
            }
            return view.tableReferences.contains { reference in
                guard let schema = reference.name.schema, SQLIdentifier.equal(schema, "main") else { return false }
                return table(named: reference.name.name) != nil
                    || twins.contains { SQLIdentifier.equal($0, reference.name.name) }
            }
        }
    }

    /// The tables and views of `main`, in lower case.
    private func mainNames() throws -> Set<String> {
        let rows = try connection.fetchAll("SELECT name FROM main.sqlite_master WHERE type IN ('table', 'view')")
        return Set(try rows.map { SQLIdentifier.lowercased(try $0.get(0)) })
    }

    /// The moving tables that a foreign key ties to the named table.
    func tablesTied(to name: String) -> Set<Int64> {
        let tied = foreignKeys.tables(of: name)
        return tied.isEmpty ? [] : tied.intersection(byName.values.map(\.id))
    }
}
