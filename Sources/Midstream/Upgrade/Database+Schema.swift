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
        let moving = try StateStore(connection: connection).load().tables.filter {
            $0.phase == .copying || $0.phase == .starting
        }
        let present = try connection.fetchAll(
            "SELECT name, tbl_name, sql FROM main.sqlite_master WHERE sql IS NOT NULL AND sql NOT LIKE 'CREATE VIRTUAL%' "
                + "ORDER BY rowid"
        ).filter { row in
            try [0, 1].allSatisfy { index in
                let name: String = try row.get(index)
                return !name.hasPrefix("sqlite_") && !name.hasPrefix(StateStore.prefix)
            }
        }
        var planner = try SchemaPlanner(
            wanted: wanted,
            options: options,
            present: try present.map { try $0.get(2) },
            file: SchemaPlanner.File(
                isSmall: { [connection] name, rows in
                    let table = SQLIdentifier.quoted(name)
                    return try connection.fetchOne("SELECT 1 FROM main.\(table) LIMIT 1 OFFSET ?", [max(0, rows)])
                        == nil
                },
                isMoving: { name in moving.contains { SQLIdentifier.equal($0.target, name) } }
            )
        )
        return try planner.make()
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
    /// - Returns: What was done.
    /// - Throws: ``MigrationError`` when something must be said by `options` first; ``/SQLiteConnection/SQLiteError`` when a
    ///   statement does not compile. Nothing has been changed then.
    @discardableResult
    public func upgrade(to schema: DatabaseSchema, options: SchemaOptions = SchemaOptions()) throws -> SchemaPlan {
        guard kind == .writer, isInBlock else {
            throw MigrationError(.misuse, "a schema is upgraded in a write block")
        }
        let plan = try plan(for: schema, options: options)
        do {
            try withoutForeignKeys {
                try connection.savepoint("midstream_schema") {
                    for change in plan.changes { try make(change) }
                }
            }
        } catch {
            // Its TEMP objects are those from before.
            if connection.isInTransaction { try? overlay.suspended {} }
            throw error
        }
        return plan
    }

    private func make(_ change: SchemaChange) throws {
        guard let rebuilding = change.rebuild else {
            for sql in change.sql { try execute(sql) }
            return
        }
        try rebuild(change.name, rebuilding.fill)
    }
}
