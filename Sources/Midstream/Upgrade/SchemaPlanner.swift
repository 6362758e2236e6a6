internal import SQLText
internal import SQLiteConnection

/// Finds the cheapest exact way from the schema of a file to the wanted schema.
///
/// The planner does not predict the result of a statement, but tries it on an empty copy of the schema. If ALTER TABLE
/// gives the wanted shape, the planner takes it. If nothing changes, the planner makes no copy.
struct SchemaPlanner {
    var wanted: SchemaImage
    let options: SchemaOptions
    let file: File
    /// The file's schema, with its names, views and triggers as the planned changes leave them.
    var present: SchemaImage
    var plan = SchemaPlan()
    var rebuilds: [SchemaChange] = []
    /// The names that renamed tables still have in the file, by their new names.
    var formerNames: [String: String] = [:]
    /// The changes of columns that get other names or other values, by the table's name in lower case.
    var columns: [String: ColumnChange] = [:]
    /// The mappings of ``SchemaOptions/columns`` that are not applied.
    var unusedMappings: [UnusedMapping] = []
    private var copy: SchemaScratch?
    /// Objects that are not declared and are dropped together with the object that they belong to. They are created
    /// again.
    var remade: [SchemaObject] = []
    /// The names, in lower case, of views that replace tables whose rows have moved to another file.
    var movedAway: Set<String> = []
    /// What virtual tables read by name.
    let contents: [ExternalContent]
    /// All declared tables, including those that have moved to another file.
    let declaredTables: [TableImage]

    /// Questions about the file's tables, by the names that they have now.
    struct File {
        /// Whether a table has at most this many rows, of a kilobyte on average.
        var isSmall: (String, Int) throws -> Bool
        /// Whether rows of a table are still moving.
        var isMoving: (String) -> Bool
        /// Tells which tables' rows are moving into others.
        var movingAway: MovingAway
        /// The columns of a virtual table.
        var columns: (String) throws -> [String]
        /// The error if an expression does not compile on a table's row.
        var refusal: (_ expression: String, _ table: String) -> SQLiteError?
        /// Whether one of several expressions fails on a row of a table.
        var fails: (_ expressions: [String], _ table: String) throws -> Bool
    }

    init(wanted: SchemaImage, options: SchemaOptions, present: SchemaImage, file: File) {
        self.wanted = wanted
        declaredTables = wanted.tables
        contents = present.virtualTables.flatMap(ExternalContent.all)
        self.options = options
        self.present = present
        self.file = file
    }

    mutating func make() throws -> SchemaPlan {
        defer { copy?.close() }
        try leaveWhatHasMovedAway()
        for table in wanted.tables {
            if let object = present.unreadable.named(table.name) { throw Self.unreadable(object.name) }
        }
        try renameTables()
        try renameColumns()
        try dropOldPrograms()
        try dropMovedIndexes()
        for table in wanted.tables where present.table(table.name) == nil {
            try run(table.name, "create", [table.schema.sql] + table.indexes.map(\.sql))
        }
        for table in wanted.tables {
            if let old = present.table(table.name) { try change(old, to: table) }
        }
        for table in present.tables where wanted.table(table.name) == nil { try drop(table) }
        plan.undeclared += present.unreadable.map(\.name).filter { wanted.views.named($0) == nil }
        // A new trigger would make Midstream drain the tables that it touches, if they were moving. So triggers are
        // created before tables are rebuilt.
        try createNewPrograms()
        plan.changes += rebuilds
        plan.unusedMappings = unusedMappings.filter { $0.unknownColumn != nil }.map(\.name)
        try createVirtualTables()
        try checkPrograms()
        try checkContents()
        return plan
    }

    /// Leaves alone the tables that have moved to another file, and of which only a view that refuses writes is left.
    private mutating func leaveWhatHasMovedAway() throws {
        movedAway = try file.movingAway.views()
        func hasMoved(_ table: TableImage) -> Bool {
            if movedAway.contains(SQLIdentifier.lowercased(table.name)) { return true }
            // The table may have moved under its former name.
            return present.table(table.name) == nil
                && options.renamedTables.contains { old, new in
                    SQLIdentifier.equal(new, table.name) && movedAway.contains(SQLIdentifier.lowercased(old))
                }
        }
        plan.movedAway = wanted.tables.filter(hasMoved).map(\.name)
        wanted.tables.removeAll(where: hasMoved)
    }

    // MARK: Statements

    /// The copy of the schema, on which each change is made.
    mutating func scratch() throws -> SchemaScratch {
        if let copy { return copy }
        let made = try SchemaScratch(present, columns: file.columns)
        copy = made
        return made
    }

    /// Adds statements to the plan, and runs them on the copy.
    mutating func run(_ name: String, _ summary: String, _ statements: [String]) throws {
        let connection = try scratch().connection
        try connection.savepoint("midstream_change") {
            for sql in statements { try connection.execute(sql) }
        }
        plan.changes.append(SchemaChange(name: name, way: .statements, summary: summary, sql: statements))
    }

    /// Drops an index, a view or a trigger. The copy may lack it.
    mutating func drop(_ object: SchemaObject, _ summary: String) throws {
        let sql = "DROP \(object.type.rawValue.uppercased()) "
        // A TEMP object may have the same name.
        let name = "main." + SQLIdentifier.quoted(object.name)
        try scratch().drop(object)
        plan.changes.append(SchemaChange(name: object.name, way: .statements, summary: summary, sql: [sql + name]))
    }

    /// Drops an object that is not declared, if the options allow it.
    ///
    /// - Returns: Whether the object is dropped.
    private mutating func dropUndeclared(_ object: SchemaObject) throws -> Bool {
        guard options.allowsDrops else {
            plan.undeclared.append(object.name)
            return false
        }
        try drop(object, "drop")
        return true
    }

    private mutating func drop(_ table: TableImage) throws {
        let kind: String? =
            if wanted.views.named(table.name) != nil {
                "view"
            } else {
                wanted.virtualTables.named(table.name).map { _ in "virtual table" }
            }
        let isRecord = SQLIdentifier.equal(table.name, UpgradeRecords.grdbTable)
        if try !options.allowsDrops || present.isShadow(table.name) || isSource(table) || isRecord {
            if let kind {
                throw MigrationError(
                    .misuse,
                    "\(table.name) is a table, and the schema declares a \(kind) of that name: drop or rename the table first",
                    table: table.name
                )
            }
            if !present.isShadow(table.name) { plan.undeclared.append(table.name) }
            return
        }
        let name = SQLIdentifier.quoted(table.name)
        try scratch().connection.execute("DROP TABLE IF EXISTS \(name)")
        plan.changes.append(
            SchemaChange(name: table.name, way: .statements, summary: "drop", sql: ["DROP TABLE \(name)"])
        )
    }

    /// Whether a table still has rows that move into another table.
    func isSource(_ table: TableImage) throws -> Bool {
        try file.movingAway.destination(of: formerName(table.name)) != nil
    }

    /// - Throws: ``MigrationError`` if a table still has rows that move into another table.
    func checkChange(of table: TableImage) throws {
        try file.movingAway.checkChange(of: formerName(table.name))
    }

    func formerName(_ table: String) -> String { SchemaOptions.value(of: table, in: formerNames) ?? table }

    static func unreadable(_ name: String) -> MigrationError {
        MigrationError(
            .unsupported,
            "the definition of table \(name) cannot be read: make the table anew by statements of your own",
            table: name
        )
    }

    // MARK: Views and triggers

    /// Drops the views and triggers that name missing objects: while there are any, SQLite renames no table.
    mutating func dropBrokenPrograms() throws {
        let broken = try scratch().brokenPrograms
        if broken.isEmpty { return }
        for (object, error) in broken where !options.allowsDrops {
            let declared = object.type == .view ? wanted.views : wanted.allTriggers
            if declared.named(object.name) == nil { throw Self.undeclared(object, error) }
        }
        let names = Set(broken.map(\.object.name))
        try dropOldPrograms { names.contains($0.name) }
    }

    /// Drops the views and triggers that change, before all other changes: ALTER TABLE must be able to understand all
    /// of them.
    ///
    /// - Parameter isMeant: Selects the views and triggers to look at.
    private mutating func dropOldPrograms(where isMeant: (SchemaObject) -> Bool = { _ in true }) throws {
        let declared = wanted.allTriggers
        for view in present.views where isMeant(view) {
            let isReplaced = wanted.table(view.name) != nil || wanted.virtualTables.named(view.name) != nil
            let new = wanted.views.named(view.name)
            if let new, view.isSame(as: new) { continue }
            if new == nil, movedAway.contains(SQLIdentifier.lowercased(view.name)) { continue }
            if new != nil || isReplaced {
                try drop(view, "drop, to be made anew")
            } else if !remade.contains(where: { $0.type == .view && SQLIdentifier.equal($0.name, view.name) }) {
                guard try dropUndeclared(view) else { continue }
            } else {
                plan.undeclared.append(view.name)
            }
            // The view's triggers are dropped with it.
            for trigger in present.triggersOfViews where SQLIdentifier.equal(trigger.owner, view.name) {
                if declared.named(trigger.name) != nil || options.allowsDrops { continue }
                if remade.named(trigger.name) == nil { remade.append(trigger) }
                plan.undeclared.append(trigger.name)
            }
            present.views.removeAll { SQLIdentifier.equal($0.name, view.name) }
            present.triggersOfViews.removeAll { SQLIdentifier.equal($0.owner, view.name) }
        }
        for trigger in present.allTriggers where isMeant(trigger) {
            if let new = declared.named(trigger.name) {
                if trigger.isSame(as: new) { continue }
                try drop(trigger, "drop, to be made anew")
            } else if remade.named(trigger.name) != nil {
                plan.undeclared.append(trigger.name)
            } else {
                guard try dropUndeclared(trigger) else { continue }
            }
            present.removeTrigger(trigger.name)
        }
    }

    private mutating func createNewPrograms() throws {
        for view in wanted.views.missing(in: present.views) { try run(view.name, "create", [view.sql]) }
        for view in remade where view.type == .view { try run(view.name, "create again", [view.sql]) }
        for trigger in wanted.allTriggers.missing(in: present.allTriggers) {
            try run(trigger.name, "create", [trigger.sql])
        }
        for trigger in remade where trigger.type == .trigger {
            do {
                try run(trigger.name, "create again", [trigger.sql])
            } catch {
                throw Self.undeclared(trigger, error)
            }
        }
    }

    /// Makes sure that views and triggers that are not declared, and stay, compile as they did before.
    private mutating func checkPrograms() throws {
        guard let copy else { return }
        let programs = try SchemaImage(copy.connection)
        for (object, error) in try copy.broken(among: programs.views + programs.allTriggers) {
            let declared = object.type == .view ? wanted.views : wanted.allTriggers
            if declared.named(object.name) == nil { throw Self.undeclared(object, error) }
        }
    }

    private func checkContents() throws {
        if let copy { try checkContents(contents, on: copy) }
    }

    static func undeclared(_ object: SchemaObject, _ error: any Error) -> MigrationError {
        let words = (error as? SQLiteError)?.message ?? "\(error)"
        return MigrationError(
            .misuse,
            "\(object.type.rawValue) \(object.name) is not declared, and does not fit the declared schema (\(words)): "
                + "declare the \(object.type.rawValue), or drop it",
            table: object.type == .view ? nil : object.owner
        )
    }

    /// Drops an index whose name the schema declares for an index of another table.
    private mutating func dropMovedIndexes() throws {
        let declared = wanted.tables.flatMap(\.indexes)
        for table in present.tables {
            for index in table.indexes {
                guard let new = declared.named(index.name), !SQLIdentifier.equal(new.owner, table.name) else {
                    continue
                }
                if wanted.table(table.name) == nil, !options.allowsDrops {
                    throw MigrationError(
                        .misuse,
                        "index \(index.name) of table \(table.name) is not declared, and the schema declares one of that name on "
                            + "table \(new.owner): give one of them another name, or drop it",
                        table: table.name
                    )
                }
                try checkChange(of: table)
                try drop(index, "drop, to be made anew")
                present.removeIndex(index.name)
            }
        }
    }
}

/// The changes of a table's columns.
struct ColumnChange {
    /// The new names, as they are declared, by the old ones in lower case.
    var renamed: [String: String] = [:]
    /// What columns are made of.
    var mappings: [String: ColumnMapping] = [:]
    /// The statements that give the new names.
    var statements: [String] = []
    /// The table with its new names; `nil` if SQLite cannot make its texts.
    var texts: TableImage?

    /// Whether a declared column takes over the name of another column that gets a new name.
    static func isReused(_ name: String, _ renamed: [String: String]) -> Bool {
        renamed[SQLIdentifier.lowercased(name)] != nil && !renamed.values.contains { SQLIdentifier.equal($0, name) }
    }

    func isReused(_ name: String) -> Bool { Self.isReused(name, renamed) }
}

extension SchemaImage {
    fileprivate mutating func removeTrigger(_ name: String) {
        triggersOfViews.removeAll { SQLIdentifier.equal($0.name, name) }
        for index in tables.indices { tables[index].triggers.removeAll { SQLIdentifier.equal($0.name, name) } }
    }

    fileprivate mutating func removeIndex(_ name: String) {
        for index in tables.indices { tables[index].indexes.removeAll { SQLIdentifier.equal($0.name, name) } }
    }

    /// Takes over the objects that a copy lacks.
    mutating func keep(_ objects: [SchemaObject], of other: SchemaImage, _ formerNames: [String: String]) {
        for object in objects {
            let owner = formerNames.first { SQLIdentifier.equal($0.value, object.owner) }?.key ?? object.owner
            var object = object
            if object.type != .view { object.owner = owner }
            switch object.type {
            case .table: tables += other.tables.filter { SQLIdentifier.equal($0.name, object.name) }
            case .view: views.append(object)
            case .index, .trigger:
                if let index = tables.firstIndex(where: { SQLIdentifier.equal($0.name, owner) }) {
                    if object.type == .index {
                        tables[index].indexes.append(object)
                    } else {
                        tables[index].triggers.append(object)
                    }
                } else if object.type == .trigger {
                    triggersOfViews.append(object)
                }
            }
        }
        takeKinds(of: other)
    }
}
