internal import SQLText
internal import SQLiteConnection

/// Finds the cheapest exact way from the schema that a file has to the one that is wanted.
///
/// What a statement comes to is not foretold but tried, on an empty copy of the schema: where ALTER TABLE gives the shape that
/// is wanted, it is taken. Where nothing changes, no copy is made.
struct SchemaPlanner {
    var wanted: SchemaImage
    let options: SchemaOptions
    let file: File
    /// The file's schema, as the changes that are planned leave its names, views and triggers.
    var present: SchemaImage
    var plan = SchemaPlan()
    var rebuilds: [SchemaChange] = []
    /// The names that renamed tables have in the file, by the new ones.
    var formerNames: [String: String] = [:]
    /// What becomes of columns that get other names or other values, by the table's name in lower case.
    var columns: [String: ColumnChange] = [:]
    /// What ``SchemaOptions/columns`` says and is not applied.
    var unusedMappings: [UnusedMapping] = []
    private var copy: SchemaScratch?
    /// Objects that are not declared, and go with what they are on: they are created again.
    private var remade: [SchemaObject] = []
    /// The views, in lower case, that stand where tables were whose rows have moved to another file.
    private var movedAway: Set<String> = []
    /// What virtual tables read by its name.
    private let contents: [ExternalContent]
    /// All declared tables, those among them that have moved to another file.
    private let declaredTables: [TableImage]

    /// What the file's tables are like, by the names that they have now.
    struct File {
        /// Whether a table has at most that many rows, of a kilobyte on average.
        var isSmall: (String, Int) throws -> Bool
        /// Whether rows of a table are still moving.
        var isMoving: (String) -> Bool
        /// Tells which tables' rows are moving into others.
        var movingAway: MovingAway
        /// The columns of a virtual table.
        var columns: (String) throws -> [String]
        /// Why an expression on a table's row does not compile.
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
        // A trigger that comes would have the rows of the tables that it touches in one place, were they moving.
        try createNewPrograms()
        plan.changes += rebuilds
        plan.unusedMappings = unusedMappings.filter { $0.unknownColumn != nil }.map(\.name)
        try createVirtualTables()
        try checkPrograms()
        try checkContents()
        return plan
    }

    /// Leaves the tables alone of which a view is left that refuses writes.
    private mutating func leaveWhatHasMovedAway() throws {
        movedAway = try file.movingAway.views()
        func hasMoved(_ table: TableImage) -> Bool {
            if movedAway.contains(SQLIdentifier.lowercased(table.name)) { return true }
            // One that has moved under its former name.
            return present.table(table.name) == nil
                && options.renamedTables.contains { old, new in
                    SQLIdentifier.equal(new, table.name) && movedAway.contains(SQLIdentifier.lowercased(old))
                }
        }
        plan.movedAway = wanted.tables.filter(hasMoved).map(\.name)
        wanted.tables.removeAll(where: hasMoved)
    }

    // MARK: Statements

    /// The copy, to which each change is made.
    mutating func scratch() throws -> SchemaScratch {
        if let copy { return copy }
        let made = try SchemaScratch(present, columns: file.columns)
        copy = made
        return made
    }

    /// Plans statements, and runs them on the copy.
    mutating func run(_ name: String, _ summary: String, _ statements: [String]) throws {
        let connection = try scratch().connection
        try connection.savepoint("midstream_change") {
            for sql in statements { try connection.execute(sql) }
        }
        plan.changes.append(SchemaChange(name: name, way: .statements, summary: summary, sql: statements))
    }

    /// Drops an index, a view or a trigger, which the copy may lack.
    mutating func drop(_ object: SchemaObject, _ summary: String) throws {
        let sql = "DROP \(object.type.rawValue.uppercased()) "
        // One of TEMP may have the name.
        let name = "main." + SQLIdentifier.quoted(object.name)
        try scratch().drop(object)
        plan.changes.append(SchemaChange(name: object.name, way: .statements, summary: summary, sql: [sql + name]))
    }

    /// Drops an object that is not declared, if that is allowed.
    ///
    /// - Returns: Whether it goes.
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

    /// Whether another table has yet to take a table's rows.
    func isSource(_ table: TableImage) throws -> Bool {
        try file.movingAway.destination(of: formerName(table.name)) != nil
    }

    /// - Throws: ``MigrationError`` where another table has yet to take a table's rows.
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

    // MARK: Names

    private mutating func renameTables() throws {
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

    /// Before version 3.26, foreign keys, views and triggers go on naming a renamed table as it was called. What is declared gets
    /// its declared words.
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
            "\(name) is not declared, and names table \(old), which gets the name \(new): SQLite before version 3.26 does not "
                + "rename it there. Declare it, or drop it",
            table: new
        )
    }

    private mutating func renameColumns() throws {
        for name in options.renamedColumns.keys.sorted() + options.columns.keys.sorted() {
            guard declaredTables.contains(where: { SQLIdentifier.equal($0.name, name) }) else {
                throw MigrationError(
                    .misuse,
                    "columns of table \(name) are given names or values, and the schema does not declare it",
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

    /// The file's schema as the copy has it by now, with what the copy lacks.
    private mutating func readCopy() throws {
        let copy = try scratch()
        var image = try SchemaImage(copy.connection)
        image.keep(copy.missing.map(\.object), of: present, formerNames)
        present = image
    }

    /// Notes what belongs to tables when the columns of all have their new names, where SQLite can say. Other objects that name
    /// them are made anew.
    private mutating func readRenamedTexts(of tables: [String]) throws {
        let copy = try scratch()
        let trial = try? copy.trying {
            // Together, since one object may name columns of several.
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
                "table \(table.name), which is not declared, names columns of table \(renamed.joined(separator: " or ")) that get other "
                    + "names: declare it",
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

    // MARK: Views and triggers

    /// With views and triggers that name what is not there, SQLite renames no table.
    private mutating func dropBrokenPrograms() throws {
        let broken = try scratch().brokenPrograms
        if broken.isEmpty { return }
        for (object, error) in broken where !options.allowsDrops {
            let declared = object.type == .view ? wanted.views : wanted.allTriggers
            if declared.named(object.name) == nil { throw Self.undeclared(object, error) }
        }
        let names = Set(broken.map(\.object.name))
        try dropOldPrograms { names.contains($0.name) }
    }

    /// Views and triggers that change go first: ALTER TABLE asks that all of them can be understood.
    ///
    /// - Parameter isMeant: Of which it is asked whether they change.
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
            // Its triggers go with it.
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

    /// What is not declared, and stays, must compile as it did before.
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
            "\(object.type.rawValue) \(object.name) is not declared, and does not fit the declared schema (\(words)): declare "
                + "it, or drop it",
            table: object.type == .view ? nil : object.owner
        )
    }

    /// An index whose name another table's has gets out of the way.
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

/// What becomes of a table's columns.
struct ColumnChange {
    /// New names, as they are declared, by the old ones in lower case.
    var renamed: [String: String] = [:]
    /// What columns are made of.
    var mappings: [String: ColumnMapping] = [:]
    /// What gives the names.
    var statements: [String] = []
    /// The table with its new names; `nil` where they cannot be told.
    var texts: TableImage?

    /// Whether a declared column is another than the one that has its name so far, which gets a new one.
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

    /// Takes over what a copy lacks.
    fileprivate mutating func keep(_ objects: [SchemaObject], of other: SchemaImage, _ formerNames: [String: String]) {
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
