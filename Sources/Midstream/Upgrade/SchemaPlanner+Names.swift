internal import SQLText
internal import SQLiteConnection

// Renames tables and columns.
extension SchemaPlanner {
    mutating func renameTables() throws {
        let renames = SchemaRenames(
            kind: "table",
            table: nil,
            present: present.tables.map(\.name).filter { !present.isShadow($0) } + plan.movedAway,
            declared: declaredTables.map(\.name)
        )
        let pending = try renames.pending(
            options.renamedTables.filter { !movedAway.contains(SQLIdentifier.lowercased($0.key)) }
        )
        if !pending.isEmpty { try dropBrokenPrograms() }
        for (old, new) in pending {
            try file.movingAway.checkChange(of: old)
            if let content = contents.first(where: { SQLIdentifier.equal($0.table, old) }) {
                throw Self.lost(content, "table \(old) under this name")
            }
            let quoted = SQLIdentifier.quoted(new)
            formerNames[new] = old
            try run(new, "rename table \(old)", ["ALTER TABLE \(SQLIdentifier.quoted(old)) RENAME TO \(quoted)"])
            try checkFollowers(of: old, new, pending.map(\.old))
        }
        if !formerNames.isEmpty { try readCopy() }
    }

    /// Refuses to rename a table if an object that is not declared names it and SQLite would leave the old name there:
    /// before version 3.26, foreign keys, views and triggers go on naming a renamed table as it was called. Declared
    /// objects get their declared text.
    ///
    /// - Parameter renamed: The former names of declared tables.
    private mutating func checkFollowers(of old: String, _ new: String, _ renamed: [String]) throws {
        if Connection.libraryVersionNumber >= 3_026_000 || options.allowsDrops { return }
        let copy = try scratch()
        let image = try SchemaImage(copy.connection)
        func isDeclared(_ table: String) -> Bool {
            wanted.table(table) != nil || renamed.contains { SQLIdentifier.equal($0, table) }
        }
        let children = image.tables.filter { table in
            !isDeclared(table.name) && table.schema.parents.contains { SQLIdentifier.equal($0, old) }
        }
        let programs = copy.missing.map(\.object).filter { $0.type == .trigger || $0.type == .view }
        let followers = (image.views + image.allTriggers + programs).filter { object in
            let declared = object.type == .view ? wanted.views : wanted.allTriggers
            let outline = SQLScript(object.sql).outline()
            let start = (outline.onTable ?? outline.target)?.range.upperBound ?? 0
            return declared.named(object.name) == nil
                && outline.mentions([SQLIdentifier.lowercased(old)], from: start)
        }
        let names = children.map { "table \($0.name)" } + followers.map { "\($0.type.rawValue) \($0.name)" }
        guard let name = names.first else { return }
        throw MigrationError(
            .unsupported,
            "\(name) is not declared, and names table \(old), which is renamed to \(new): SQLite before version 3.26 "
                + "does not change the name there. Declare \(name), or drop it",
            table: new
        )
    }

    mutating func renameColumns() throws {
        for name in options.renamedColumns.keys.sorted() + options.columns.keys.sorted() {
            guard declaredTables.contains(where: { SQLIdentifier.equal($0.name, name) }) else {
                throw MigrationError(
                    .misuse,
                    "columns of table \(name) are to be renamed or mapped, but the schema does not declare that table",
                    table: name
                )
            }
        }
        var rebuilt: [String] = []
        for declared in declaredTables {
            let pairs = try columnRenames(present.table(declared.name), declared)
            guard let old = present.table(declared.name) else {
                noteUnused(of: declared)
                continue
            }
            let renamed = Dictionary(pairs.map { (SQLIdentifier.lowercased($0.old), $0.new) }) { first, _ in first }
            let mappings = try mappings(old, declared, renamed)
            if renamed.isEmpty, mappings.isEmpty { continue }
            try checkChange(of: old)
            for pair in pairs {
                let content = contents.first { SQLIdentifier.equal($0.table, old.name) && $0.reads(pair.old) }
                if let content { throw Self.lost(content, "column \(pair.old) of table \(old.name)") }
            }
            let key = SQLIdentifier.lowercased(old.name)
            let statements = pairs.map { pair in
                let new = declared.schema.columnIndex(pair.new).map { declared.definition.columns[$0] }
                return
                    "ALTER TABLE \(SQLIdentifier.quoted(old.name)) RENAME COLUMN \(SQLIdentifier.quoted(pair.old)) TO "
                    + (new.map { declared.definition.text($0.nameRange) } ?? SQLIdentifier.quoted(pair.new))
            }
            columns[key] = ColumnChange(renamed: renamed, mappings: mappings, statements: statements)
            if renamed.isEmpty { continue }
            let summary = pairs.map { "column \($0.old) is called \($0.new)" }.joined(separator: ", ")
            let canAlter = try mappings.isEmpty && !file.isMoving(formerName(old.name)) && scratch().missing.isEmpty
            if canAlter, (try? run(old.name, "alter, since \(summary)", statements)) != nil {
                columns[key] = nil
                try readCopy()
            } else {
                rebuilt.append(old.name)
            }
        }
        if !rebuilt.isEmpty { try readRenamedTexts(of: rebuilt) }
    }

    /// Replaces the present schema by that of the copy, together with the objects that the copy lacks.
    private mutating func readCopy() throws {
        let copy = try scratch()
        var image = try SchemaImage(copy.connection)
        image.keep(copy.missing.map(\.object), of: present, formerNames)
        present = image
    }

    /// Notes the texts of tables after the columns of all of them have their new names, if SQLite can make these texts.
    /// Other objects that name the columns are made anew.
    private mutating func readRenamedTexts(of tables: [String]) throws {
        let copy = try scratch()
        let trial = try? copy.trying {
            // The tables are renamed together, since one object may name columns of several tables.
            let renamed = tables.filter { table in
                let statements = columns[SQLIdentifier.lowercased(table)]?.statements ?? []
                let isMade: Void? = try? copy.connection.savepoint("midstream_names") {
                    for sql in statements { try copy.connection.execute(sql) }
                }
                return isMade != nil
            }
            return (renamed: renamed, image: try SchemaImage(copy.connection))
        }
        guard let (renamed, image) = trial, !renamed.isEmpty else { return }
        for table in image.tables where wanted.table(table.name) == nil {
            guard let before = present.table(table.name), before.shape != table.shape else { continue }
            throw MigrationError(
                .unsupported,
                "table \(table.name), which is not declared, names columns of table "
                    + "\(renamed.joined(separator: " or ")) that are renamed: declare table \(table.name)",
                table: table.name
            )
        }
        func remake(_ objects: [SchemaObject], _ declared: [SchemaObject], _ now: [SchemaObject]) throws {
            for object in objects where declared.named(object.name) == nil {
                guard let new = now.named(object.name), !new.isSame(as: object) else { continue }
                if options.allowsDrops { continue }
                try drop(object, "drop, to be made anew")
                remade.append(new)
            }
        }
        let others = present.tables.filter { table in !renamed.contains { SQLIdentifier.equal($0, table.name) } }
        let triggers = others.flatMap(\.triggers) + present.triggersOfViews
        try remake(triggers, wanted.allTriggers, image.allTriggers)
        try remake(present.views, wanted.views, image.views)
        for name in renamed { columns[SQLIdentifier.lowercased(name)]?.texts = image.table(name) }
    }
}
