internal import SQLText
internal import SQLiteConnection

extension Database {
    /// The changes that would bring this file to a declared schema.
    ///
    /// This is a rehearsal: it carries the upgrade out in a transaction, and takes the transaction back. So an upgrade
    /// that passes here also passes in ``upgrade(to:options:)``, unless rows change in between. A rehearsal takes as
    /// long as the upgrade, and waits for other writers likewise. If the file cannot be written, the plan is made by
    /// the schema alone.
    ///
    /// - Throws: As ``upgrade(to:options:)``.
    public func plan(for schema: DatabaseSchema, options: SchemaOptions = SchemaOptions()) throws -> SchemaPlan {
        var plan = try read { try $0.plan(for: schema, options: options) }
        if plan.isEmpty { return plan }
        do {
            try write { access in
                plan = try access.upgrade(to: schema, options: options)
                throw Rehearsed()
            }
        } catch is Rehearsed {
        } catch let error as SQLiteError where ResultCode.readOnly ~= error.code {
        }
        return plan
    }

    /// Thrown to take a rehearsal back.
    private struct Rehearsed: Error {}

    /// Brings this file to a declared schema, in one transaction: see ``DatabaseAccess/upgrade(to:options:)``.
    @discardableResult
    public func upgrade(to schema: DatabaseSchema, options: SchemaOptions = SchemaOptions()) throws -> SchemaPlan {
        let plan = try read { try $0.plan(for: schema, options: options) }
        return plan.isEmpty ? plan : try write { try $0.upgrade(to: schema, options: options) }
    }
}

extension DatabaseAccess {
    /// The changes that would bring this file to a declared schema, as far as the schema tells. Nothing is changed.
    ///
    /// ``Database/plan(for:options:)`` also tells whether the rows fit.
    ///
    /// - Throws: ``MigrationError`` if `options` must say something first; ``/SQLiteConnection/SQLiteError`` if a
    ///   statement does not compile.
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
            },
            fails: { [connection] expressions, name in
                let values = expressions.map { "count((\($0)\n))" }.joined(separator: ", ")
                do {
                    _ = try connection.fetchOne("SELECT \(values) FROM main.\(SQLIdentifier.quoted(name))")
                    return false
                } catch let error as SQLiteError where error.isOfRow {
                    return true
                }
            }
        )
        var planner = SchemaPlanner(
            wanted: wanted,
            options: options,
            present: present,
            file: file
        )
        let plan = try planner.make()
        try checkColumns(options, besides: plan, unused: planner.unusedMappings)
        return plan
    }

    /// Makes sure that the columns of a table that is being rebuilt are not asked to be made of something else than
    /// when the rebuild began. If `options` ask for it, also makes sure that no column mapping is left unused.
    private func checkColumns(_ options: SchemaOptions, besides plan: SchemaPlan, unused: [UnusedMapping]) throws {
        if options.columns.isEmpty { return }
        let rebuilds = try StateStore(connection: connection).load().tables.filter {
            $0.isRebuild && $0.phase == .copying && !$0.columns.contains(.joined)
        }
        for record in rebuilds where !plan.changes.contains(where: { SQLIdentifier.equal($0.name, record.target) }) {
            for (name, mapping) in SchemaOptions.value(of: record.target, in: options.columns) ?? [:] {
                guard case .expression(let asked) = mapping.withoutQualifiers([record.target]) else { continue }
                let stored = record.columns.first { SQLIdentifier.equal($0.name, name) }?.origin
                switch stored {
                case .expression(let text):
                    if CreateTable.words(text).hasSameBytes(as: CreateTable.words(asked)) { continue }
                case .column: break
                // A schema that is declared anew may keep the mappings that earlier changes needed.
                case nil, .left: if !options.refusesUnusedColumns { continue }
                }
                throw MigrationError(
                    .misuse,
                    "the rows of table \(record.target) are moving into its new shape, with column \(name) made of "
                        + "\(stored.map(ColumnMatching.words) ?? "column \(name)"), and now \(asked) was asked for. "
                        + "Ask for the same until the rows have moved, or change them by UPDATE",
                    table: record.target
                )
            }
        }
        // The mappings that have brought the file to its present schema may be given once more.
        guard options.refusesUnusedColumns, rebuilds.isEmpty, !plan.changes.isEmpty, let mapping = unused.first else {
            return
        }
        let reason =
            if case .created = mapping.reason {
                "table \(mapping.table) is newly created, and has no rows. Remove the mapping, or correct the table's "
                    + "name"
            } else {
                "the column is already as declared, so the mapping would have no effect. Remove the mapping; use "
                    + "UPDATE to change values"
            }
        throw MigrationError(
            .misuse,
            "SchemaOptions.columns has a mapping for column \(mapping.column) of table \(mapping.table), but "
                + "\(reason). Nothing has been changed",
            table: mapping.table
        )
    }

    /// Makes sure that the names of the file's objects and of the declared ones can be told apart. The names of columns
    /// are checked when a table is rebuilt.
    private func checkNames(_ wanted: SchemaImage, _ present: SchemaImage) throws {
        func names(_ image: SchemaImage) -> [String] {
            image.tables.map(\.name) + image.views.map(\.name) + image.allTriggers.map(\.name)
        }
        try LegibleSchema.checkNames(names(wanted), besides: names(present), "tables, views or triggers")
    }

    /// - Throws: ``MigrationError`` if a TEMP table or view of the application has a table's name, since statements
    ///   would mean the TEMP one.
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
                "a TEMP table or view has the name of table \(name), so statements mean the TEMP one: drop it before "
                    + "the table gets another shape",
                table: name
            )
        }
    }

    /// Brings the file to a declared schema by the cheapest exact way. Tables, indexes, views and triggers are created.
    /// Where ALTER TABLE can make a change without looking at the rows, it does. Other tables are rebuilt, online if
    /// they are not small: see ``rebuild(_:_:)``.
    ///
    /// What is not declared stays, unless ``SchemaOptions/allowsDrops`` says so. The order of columns does not count.
    ///
    /// - Parameters:
    ///   - schema: What the file is to have.
    ///   - options: What may be dropped, and what is renamed.
    /// - Returns: What was done, and in ``SchemaPlan/rebuilt`` how rows come into the new shapes.
    /// - Throws: ``MigrationError`` if `options` must say something first; ``/SQLiteConnection/SQLiteError`` if a
    ///   statement does not compile. Nothing has been changed then.
    ///   statement does not compile. Nothing has been changed then.
    @discardableResult
    public func upgrade(to schema: DatabaseSchema, options: SchemaOptions = SchemaOptions()) throws -> SchemaPlan {
        guard kind == .writer, isInBlock else {
            throw MigrationError(.misuse, "a schema can only be upgraded in a write block")
        }
        try beginInEarnest()
        var plan = try plan(for: schema, options: options)
        // An object that is not declared may be made anew by its text.
        if !plan.isEmpty { try LegibleSchema.checkTexts(connection, in: "main") }
        do {
            plan.rebuilt = try notingLosses {
                try withoutForeignKeys {
                    // Whatever names a table or column must follow its renaming, as it does on the copy.
                    try connection.setting("legacy_alter_table", to: 0) {
                        try connection.savepoint("midstream_schema") { try plan.changes.compactMap(make) }
                    }
                }
            }
        } catch {
            // The savepoint has brought back the TEMP objects from before it. Suspending the overlay takes them down.
            if connection.isInTransaction { try? overlay.suspended {} }
            throw error
        }
        return plan
    }

    private func make(_ change: SchemaChange) throws -> RebuiltTable? {
        guard let rebuilding = change.rebuild else {
            for sql in change.sql {
                do {
                    try execute(sql)
                } catch let error as SQLiteError {
                    throw try collision(error, of: sql)
                }
            }
            return nil
        }
        return try rebuild(change.name, rebuilding.fill)
    }
}
