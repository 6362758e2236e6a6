internal import SQLText
internal import SQLiteConnection

/// Finds the cheapest exact way from the schema that a file has to the one that is wanted.
///
/// What a statement comes to is not foretold but tried, on an empty copy of the schema: where ALTER TABLE gives the shape that
/// is wanted, it is taken.
struct SchemaPlanner {
    let wanted: SchemaImage
    let options: SchemaOptions
    let file: File
    /// An empty copy of the file's schema, to which each change is made.
    private let scratch: Connection
    private var plan = SchemaPlan()
    private var rebuilds: [SchemaChange] = []
    /// The names that renamed tables have in the file, by the new ones.
    private var formerNames: [String: String] = [:]

    /// What the file's tables are like, by the names that they have now.
    struct File {
        /// Whether a table has at most that many rows, and none to come.
        var isSmall: (String, Int) throws -> Bool
        /// Whether rows of a table are still moving.
        var isMoving: (String) -> Bool
    }

    init(wanted: SchemaImage, options: SchemaOptions, present: [String], file: File) throws {
        self.wanted = wanted
        self.options = options
        self.file = file
        scratch = try Connection(path: ":memory:")
        for sql in present { try scratch.execute(sql) }
    }

    mutating func make() throws -> SchemaPlan {
        defer { scratch.close() }
        try renameTables()
        try dropOldPrograms()
        let present = try SchemaImage(scratch)
        for table in wanted.tables where present.table(table.name) == nil {
            try run(table.name, "create", [table.schema.sql] + table.indexes.map(\.sql))
        }
        for table in wanted.tables {
            if let old = present.table(table.name) { try change(old, to: table) }
        }
        plan.changes += rebuilds
        for table in present.tables where wanted.table(table.name) == nil {
            try drop(table.name, "TABLE", table.name)
        }
        try createNewPrograms()
        return plan
    }

    // MARK: Statements

    /// Plans statements, and runs them on the copy.
    private mutating func run(_ name: String, _ summary: String, _ statements: [String]) throws {
        for sql in statements { try scratch.execute(sql) }
        plan.changes.append(SchemaChange(name: name, way: .statements, summary: summary, sql: statements))
    }

    /// Drops what is not declared, if that is allowed.
    private mutating func drop(_ name: String, _ type: String, _ shown: String) throws {
        guard options.allowsDrops else {
            plan.undeclared.append(shown)
            return
        }
        try run(name, "drop", ["DROP \(type) \(SQLIdentifier.quoted(name))"])
    }

    private mutating func renameTables() throws {
        for (old, new) in options.renamedTables.sorted(by: { $0.key < $1.key }) {
            let present = try SchemaImage(scratch)
            guard let table = present.table(old), present.table(new) == nil, wanted.table(new) != nil else { continue }
            formerNames[new] = table.name
            try run(
                new,
                "rename table \(table.name)",
                ["ALTER TABLE \(SQLIdentifier.quoted(table.name)) RENAME TO \(SQLIdentifier.quoted(new))"]
            )
        }
    }

    /// Views and triggers that change go first: ALTER TABLE asks that all of them can be understood.
    private mutating func dropOldPrograms() throws {
        let present = try SchemaImage(scratch)
        for view in present.views {
            guard let declared = wanted.views.named(view.name) else {
                try drop(view.name, "VIEW", view.name)
                continue
            }
            if !view.isSame(as: declared) {
                try run(view.name, "drop, to be made anew", ["DROP VIEW \(SQLIdentifier.quoted(view.name))"])
            }
        }
        let declared = wanted.triggersOfViews + wanted.tables.flatMap(\.triggers)
        for trigger in try SchemaImage(scratch).allTriggers {
            guard let new = declared.named(trigger.name) else {
                try drop(trigger.name, "TRIGGER", trigger.name)
                continue
            }
            if !trigger.isSame(as: new) {
                try run(trigger.name, "drop, to be made anew", ["DROP TRIGGER \(SQLIdentifier.quoted(trigger.name))"])
            }
        }
    }

    private mutating func createNewPrograms() throws {
        for view in wanted.views.missing(in: try SchemaImage(scratch).views) {
            try run(view.name, "create", [view.sql])
        }
        for trigger in wanted.allTriggers.missing(in: try SchemaImage(scratch).allTriggers) {
            try run(trigger.name, "create", [trigger.sql])
        }
    }

    // MARK: Tables

    private mutating func change(_ old: TableImage, to declared: TableImage) throws {
        let renamed = renames(old, declared)
        let undeclared = old.definition.columns.filter { column in
            declared.schema.columnIndex(column.name) == nil && renamed[SQLIdentifier.lowercased(column.name)] == nil
        }
        var definition = declared.definition
        var indexes = declared.indexes
        if !options.allowsDrops {
            plan.undeclared += undeclared.map { "\(old.name).\($0.name)" }
            let more = definition.adding(columns: undeclared.map { old.definition.text($0.range) })
            definition = CreateTable(more) ?? definition
        }
        for index in old.indexes where declared.indexes.named(index.name) == nil {
            if options.allowsDrops { continue }
            plan.undeclared.append(index.name)
            indexes.append(index)
        }
        let goal = try Self.image(definition.text, indexes)
        let change = Change(old: old, goal: goal, renamed: renamed, dropped: options.allowsDrops ? undeclared : [])
        let name = SchemaOptions.value(of: old.name, in: formerNames) ?? old.name
        let isMoving = file.isMoving(name)
        let isSmall = try !isMoving && file.isSmall(name, options.rowsChangedAtOnce)
        let newIndexes = goal.indexes.missing(in: old.indexes)
        let newTriggers = declared.triggers.missing(in: old.triggers)
        let needsAlter = goal.shape != old.shape || !renamed.isEmpty
        let needsRows = !newIndexes.isEmpty && !isSmall
        guard needsAlter || needsRows || isMoving && !newTriggers.isEmpty else {
            return try changeIndexes(old, goal, newIndexes)
        }
        if !isMoving, !needsRows, let statements = try alter(change, isSmall: isSmall) {
            plan.changes.append(
                SchemaChange(name: old.name, way: .statements, summary: change.summary("alter"), sql: statements)
            )
            return try changeIndexes(old, goal, newIndexes)
        }
        try rebuild(change, old.triggers + newTriggers, newIndexes)
    }

    /// The new names of columns by the old ones, in lower case, of those that still have the old ones.
    private func renames(_ old: TableImage, _ declared: TableImage) -> [String: String] {
        let wanted = SchemaOptions.value(of: old.name, in: options.renamedColumns) ?? [:]
        let pairs = wanted.filter { from, to in
            old.schema.columnIndex(from) != nil && old.schema.columnIndex(to) == nil
                && declared.schema.columnIndex(to) != nil
        }
        return Dictionary(
            pairs.map { (SQLIdentifier.lowercased($0.key), SQLIdentifier.lowercased($0.value)) }
        ) { first, _ in first }
    }

    /// A table as a text defines it.
    private static func image(_ createTable: String, _ indexes: [SchemaObject]) throws -> TableImage {
        let connection = try Connection(path: ":memory:")
        defer { connection.close() }
        try connection.execute(createTable)
        for index in indexes { try connection.execute(index.sql) }
        guard let image = try SchemaImage(connection).tables.first else {
            throw MigrationError(.misuse, "this table cannot be read: \(createTable)")
        }
        return image
    }

    private mutating func changeIndexes(_ old: TableImage, _ goal: TableImage, _ new: [SchemaObject]) throws {
        let present = try SchemaImage(scratch).table(old.name)?.indexes ?? []
        for index in present where !goal.indexes.contains(where: index.isSame) {
            let isChanged = goal.indexes.named(index.name) != nil
            try run(
                index.name,
                isChanged ? "drop, to be made anew" : "drop",
                ["DROP INDEX \(SQLIdentifier.quoted(index.name))"]
            )
        }
        for index in goal.indexes.missing(in: try SchemaImage(scratch).table(old.name)?.indexes ?? []) {
            try run(index.name, "create", [index.sql])
        }
    }

    // MARK: ALTER TABLE

    /// What is to become of a table.
    private struct Change {
        let old: TableImage
        let goal: TableImage
        /// New names of columns by the old ones, in lower case.
        let renamed: [String: String]
        let dropped: [CreateTable.Column]

        func summary(_ verb: String) -> String {
            let words = old.shape.differences(to: goal.shape, renamed: renamed)
            return words.isEmpty ? verb : "\(verb), since \(words.joined(separator: ", "))"
        }
    }

    /// The statements that make a change, run on the copy; `nil` where they cannot, or take a time that grows with the rows.
    private func alter(_ change: Change, isSmall: Bool) throws -> [String]? {
        let table = "ALTER TABLE \(SQLIdentifier.quoted(change.old.name))"
        let goal = change.goal
        var statements: [String] = []
        for (old, new) in change.renamed.sorted(by: { $0.key < $1.key }) {
            statements.append("\(table) RENAME COLUMN \(SQLIdentifier.quoted(old)) TO \(SQLIdentifier.quoted(new))")
        }
        // The rows are rewritten.
        if !change.dropped.isEmpty, !isSmall { return nil }
        for column in change.dropped {
            statements.append("\(table) DROP COLUMN \(SQLIdentifier.quoted(column.name))")
        }
        for column in goal.definition.columns {
            let name = SQLIdentifier.lowercased(column.name)
            if change.old.shape.columns[name] != nil || change.renamed.values.contains(name) { continue }
            guard canAdd(column, to: goal, isSmall: isSmall) else { return nil }
            statements.append("\(table) ADD COLUMN \(goal.definition.text(column.range))")
        }
        do {
            try scratch.savepoint("alter") {
                for sql in statements { try scratch.execute(sql) }
                guard try SchemaImage(scratch).table(change.old.name)?.shape == goal.shape else { throw OtherShape() }
            }
            return statements
        } catch is OtherShape {
            return nil
        } catch is SQLiteError {
            return nil
        }
    }

    private struct OtherShape: Error {}

    /// Whether ADD COLUMN gives rows that there are what it gives new ones. Whether SQLite takes it of an empty table tells
    /// nothing of that.
    ///
    /// Source: <https://www.sqlite.org/lang_altertable.html#alter_table_add_column>.
    private func canAdd(_ column: CreateTable.Column, to goal: TableImage, isSmall: Bool) -> Bool {
        guard let shape = goal.shape.columns[SQLIdentifier.lowercased(column.name)] else { return false }
        // All rows are checked.
        let isChecked = goal.schema.isStrict || !goal.shape.checks.isEmpty
        if isChecked, !isSmall { return false }
        // Something else than the default, and so for all rows.
        if SchemaOptions.value(of: column.name, in: options.columns(of: goal.name)) != nil { return false }
        if let generation = shape.generation { return !generation.hasSuffix(" stored") && !shape.isNotNull }
        let isForeign = column.constraints.contains { $0.kind == .foreignKey }
        guard let value = shape.defaultValue, value != "null" else { return !shape.isNotNull }
        if isForeign { return false }
        return !["current_time", "current_date", "current_timestamp"].contains(value) && isConstant(column, goal)
    }

    /// Whether a column's default is written without parentheses.
    private func isConstant(_ column: CreateTable.Column, _ goal: TableImage) -> Bool {
        column.constraints.filter { $0.kind == .default }.allSatisfy {
            !goal.definition.words($0.body).hasPrefix("default (")
        }
    }

    // MARK: Rebuilding

    private mutating func rebuild(_ change: Change, _ triggers: [SchemaObject], _ newIndexes: [SchemaObject]) throws {
        let (old, goal) = (change.old, change.goal)
        var columns = options.columns(of: goal.name)
        for (from, to) in change.renamed where SchemaOptions.value(of: to, in: columns) == nil {
            columns[to] = .column(from)
        }
        for column in goal.schema.columns where old.schema.columnIndex(column.name) == nil {
            let isGiven = SchemaOptions.value(of: column.name, in: columns) != nil || column.generation != nil
            if isGiven || !column.isNotNull || column.defaultValue != nil { continue }
            if goal.schema.rowIDColumn.map({ goal.schema.columns[$0].name }) == column.name { continue }
            throw MigrationError(
                .unequalTables,
                "column \(column.name) of table \(goal.name) is new, NOT NULL and without default: say by SchemaOptions.columns "
                    + "what the rows have there",
                table: goal.name
            )
        }
        let rebuilding = SchemaChange.Rebuilding(
            schema: goal.schema.sql,
            indexes: goal.indexes.map(\.sql),
            triggers: triggers.map(\.sql),
            columns: columns,
            refusedRows: options.refusedRows,
            rowsCopiedAtOnce: options.rowsChangedAtOnce
        )
        var summary = change.summary("rebuild")
        if goal.shape == old.shape {
            summary +=
                newIndexes.isEmpty
                ? " for new triggers" : ", since index \(newIndexes.map(\.name).joined(separator: ", ")) comes"
        }
        let statements = [goal.schema.sql] + rebuilding.indexes + rebuilding.triggers
        rebuilds.append(
            SchemaChange(name: goal.name, way: .rebuild, summary: summary, sql: statements, rebuild: rebuilding)
        )
        try scratch.execute("DROP TABLE \(SQLIdentifier.quoted(old.name))")
        for sql in statements { try scratch.execute(sql) }
    }
}

extension SchemaOptions {
    /// What columns of a table are made of.
    fileprivate func columns(of table: String) -> [String: ColumnMapping] {
        Self.value(of: table, in: columns) ?? [:]
    }
}

extension SchemaImage {
    /// The triggers of tables and views.
    fileprivate var allTriggers: [SchemaObject] { tables.flatMap(\.triggers) + triggersOfViews }
}
