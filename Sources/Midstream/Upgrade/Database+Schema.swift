internal import SQLText
internal import SQLiteConnection

extension Database {
    /// What would bring this file to a declared schema. Nothing is changed.
    ///
    /// - Throws: As ``upgrade(to:options:)``.
    public func plan(for schema: DatabaseSchema, options: SchemaOptions = SchemaOptions()) throws -> SchemaPlan {
        try read { try $0.plan(for: schema, options: options) }
    }

    /// Brings this file to a declared schema, in one transaction: see ``DatabaseAccess/upgrade(to:options:)``.
    @discardableResult
    public func upgrade(to schema: DatabaseSchema, options: SchemaOptions = SchemaOptions()) throws -> SchemaPlan {
        let plan = try plan(for: schema, options: options)
        return plan.isEmpty ? plan : try write { try $0.upgrade(to: schema, options: options) }
    }
}

extension DatabaseAccess {
    /// What would bring this file to a declared schema. Nothing is changed.
    ///
    /// - Throws: As ``upgrade(to:options:)``.
    public func plan(for schema: DatabaseSchema, options: SchemaOptions = SchemaOptions()) throws -> SchemaPlan {
        let wanted = try schema.image()
        let present = try SchemaImage(connection)
        try checkNames(wanted, present)
        try checkTemporaryNames(wanted.tables.map(\.name) + present.tables.map(\.name))
        let moving = try StateStore(connection: connection).load().tables.filter {
            $0.phase == .copying || $0.phase == .starting
        }.map(\.target)
        let file = SchemaPlanner.File(
            isSmall: { [connection] name, rows in
                try SchemaReader(connection: connection, schema: "main").isSmall(name, rows: rows)
            },
            isMoving: { name in moving.contains { SQLIdentifier.equal($0, name) } },
            movingAway: MovingAway(connection: connection),
            columns: { [connection] name in
                try SchemaReader(connection: connection, schema: "main").columnNames(of: name)
            },
            refusal: { [connection] expression, name in
                do {
                    let sql = "SELECT (\(expression)\n) FROM main.\(SQLIdentifier.quoted(name))"
                    _ = try connection.prepare(sql)
                    return nil
                } catch {
                    return error as? SQLiteError
                }
            }
        )
        var planner = SchemaPlanner(
            wanted: wanted,
            options: options,
            present: present,
            file: file
        )
        return try planner.make()
    }

    /// Makes sure that the names of the file's objects and of declared ones can be told apart. Those of columns matter where a
    /// table is rebuilt.
    private func checkNames(_ wanted: SchemaImage, _ present: SchemaImage) throws {
        func names(_ image: SchemaImage) -> [String] {
            image.tables.map(\.name) + image.views.map(\.name) + image.allTriggers.map(\.name)
        }
        try LegibleSchema.checkNames(names(wanted), besides: names(present), "tables, views or triggers")
    }

    /// - Throws: ``MigrationError`` where a TEMP table or view of the application's has a table's name: statements would mean that.
    func checkTemporaryNames(_ names: [String]) throws {
        let temporary = Set(
            try connection.fetchAll("SELECT name FROM sqlite_temp_master WHERE type IN ('table', 'view')").map {
                SQLIdentifier.lowercased(try $0.get(0))
            }
        )
        for name in names
        where temporary.contains(SQLIdentifier.lowercased(name)) && overlay.table(named: name) == nil
            && !overlay.twins.contains(where: { SQLIdentifier.equal($0, name) })
        {
            throw MigrationError(
                .misuse,
                "a TEMP table or view has the name of table \(name), so that statements mean that: drop it before the table "
                    + "gets another shape",
                table: name
            )
        }
    }

    /// Brings the file to a declared schema by the cheapest exact way: tables, indexes, views and triggers are created, what
    /// ALTER TABLE can do without looking at the rows is done by it, and other tables are rebuilt, online where they are not
    /// small: see ``rebuild(_:_:)``.
    ///
    /// What is not declared stays, unless ``SchemaOptions/allowsDrops`` says so. The order of columns does not count.
    ///
    /// - Parameters:
    ///   - schema: What the file is to have.
    ///   - options: What may be dropped, and what is renamed.
    /// - Returns: What was done, and in ``SchemaPlan/rebuilt`` how rows come into the new shapes.
    /// - Throws: ``MigrationError`` when something must be said by `options` first; ``/SQLiteConnection/SQLiteError`` when a
    ///   statement does not compile. Nothing has been changed then.
    @discardableResult
    public func upgrade(to schema: DatabaseSchema, options: SchemaOptions = SchemaOptions()) throws -> SchemaPlan {
        guard kind == .writer, isInBlock else {
            throw MigrationError(.misuse, "a schema is upgraded in a write block")
        }
        try beginInEarnest()
        var plan = try plan(for: schema, options: options)
        // What is not declared may be made anew by its text.
        if !plan.isEmpty { try LegibleSchema.checkTexts(connection, in: "main") }
        do {
            plan.rebuilt = try notingLosses {
                try withoutForeignKeys {
                    // What names a table or column is to follow its renaming, as it does on the copy.
                    try connection.setting("legacy_alter_table", to: 0) {
                        try connection.savepoint("midstream_schema") { try plan.changes.compactMap(make) }
                    }
                }
            }
        } catch {
            // Its TEMP objects are those from before.
            if connection.isInTransaction { try? overlay.suspended {} }
            throw error
        }
        return plan
    }

    private func make(_ change: SchemaChange) throws -> RebuiltTable? {
        guard let rebuilding = change.rebuild else {
            for sql in change.sql { try execute(sql) }
            return nil
        }
        return try rebuild(change.name, rebuilding.fill)
    }
}
