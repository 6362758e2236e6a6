internal import SQLText
internal import SQLiteConnection

extension SchemaPlanner {
    /// What a table becomes.
    struct TableChange {
        let old: TableImage
        let goal: TableImage
        let columns: ColumnChange
        let dropped: [CreateTable.Column]

        func summary(_ verb: String) -> String {
            let renamed = columns.renamed.mapValues(SQLIdentifier.lowercased)
            let words = old.shape.differences(to: goal.shape, renamed: renamed)
            return words.isEmpty ? verb : "\(verb), since \(words.joined(separator: ", "))"
        }
    }

    mutating func change(_ old: TableImage, to declared: TableImage) throws {
        let columns = columns[SQLIdentifier.lowercased(old.name)] ?? ColumnChange()
        let texts = columns.texts ?? old
        let undeclared = texts.definition.columns.filter { column in
            declared.schema.columnIndex(column.name) == nil
                && columns.renamed[SQLIdentifier.lowercased(column.name)] == nil
        }
        var goal = declared
        if !options.allowsDrops, !undeclared.isEmpty {
            plan.undeclared += undeclared.map { "\(old.name).\($0.name)" }
            goal = try keeping(undeclared, of: texts, in: declared)
        }
        for index in texts.indexes where declared.indexes.named(index.name) == nil {
            // Another table may have an index of this name by now.
            if old.indexes.named(index.name) == nil { continue }
            if try options.allowsDrops && !isSource(old) { continue }
            plan.undeclared.append(index.name)
            goal.indexes.append(index)
        }
        let change = TableChange(
            old: old,
            goal: goal,
            columns: columns,
            dropped: options.allowsDrops ? undeclared : []
        )
        let name = formerName(old.name)
        let newIndexes = goal.indexes.missing(in: old.indexes)
        let newTriggers = declared.triggers.missing(in: old.triggers)
        let isMoving = file.isMoving(name)
        let needsAlter = goal.shape != old.shape || !columns.renamed.isEmpty
        let hasOldIndexes = !old.indexes.missing(in: goal.indexes).isEmpty
        guard needsAlter || hasOldIndexes || !newIndexes.isEmpty || isMoving && !newTriggers.isEmpty else { return }
        try checkChange(of: old)
        let lacks = try scratch().missing.first {
            $0.object.type != .trigger && SQLIdentifier.equal($0.object.owner, old.name)
        }
        if let lacks, needsAlter || !newIndexes.isEmpty { throw lacks.error }
        // Rows that are set aside need a move.
        let isSmall = try !options.refusedRows.stored.settlesUnasked && hasAtMost(options.rowsChangedAtOnce, old)
        // A rebuild tells on which rows an expression fails.
        let needsRows = try !newIndexes.isEmpty && (!isSmall || fails(newIndexes, goal, of: old))
        guard needsAlter || needsRows || isMoving && !newTriggers.isEmpty else {
            return try changeIndexes(old.indexes, goal.indexes)
        }
        if !isMoving, !needsRows, columns.mappings.isEmpty, let statements = try alter(change, isSmall: isSmall) {
            plan.changes.append(
                SchemaChange(name: old.name, way: .statements, summary: change.summary("alter"), sql: statements)
            )
            let altered = try SchemaImage.table(old.name, scratch().connection)
            return try changeIndexes(altered?.indexes ?? [], goal.indexes)
        }
        // Triggers that change are gone by now. In a declared trigger, a column's name means the declared column,
        // whichever column had the name before.
        let triggers = texts.triggers.filter { old.triggers.named($0.name) != nil }
            .map { declared.triggers.named($0.name) ?? $0 }
        try rebuild(change, triggers + newTriggers, newIndexes)
    }

    /// Whether a table has at most the given number of rows, and no rows to come.
    func hasAtMost(_ rows: Int, _ table: TableImage) throws -> Bool {
        let name = formerName(table.name)
        return try !file.isMoving(name) && file.isSmall(name, rows)
    }

    private mutating func changeIndexes(_ old: [SchemaObject], _ goal: [SchemaObject]) throws {
        for index in old.missing(in: goal) {
            let summary = goal.named(index.name) != nil ? "drop, to be made anew" : "drop"
            try drop(index, summary)
        }
        for index in goal.missing(in: old) { try run(index.name, "create", [index.sql]) }
    }

    // MARK: Columns

    /// The new names of columns, by their present names.
    func columnRenames(_ old: TableImage?, _ declared: TableImage) throws -> [(old: String, new: String)] {
        let renames = SchemaRenames(
            kind: "column",
            table: declared.name,
            present: old?.schema.columns.map(\.name) ?? [],
            declared: declared.schema.columns.map(\.name)
        )
        return try renames.pending(SchemaOptions.value(of: declared.name, in: options.renamedColumns) ?? [:])
    }

    /// What the columns are made of that are new, get another name, or get other values than before. A mapping that
    /// names a column which the table does not have belongs to an earlier change.
    mutating func mappings(
        _ old: TableImage,
        _ declared: TableImage,
        _ renamed: [String: String]
    ) throws -> [String: ColumnMapping] {
        let former = formerName(old.name)
        var given = SchemaOptions.value(of: old.name, in: options.columns) ?? [:]
        // When the mappings are read, the table may have its present name or its former one.
        if former != old.name { given = given.mapValues { $0.withoutQualifiers([old.name, former]) } }
        var applied: [String: ColumnMapping] = [:]
        for (name, mapping) in given.sorted(by: { $0.key < $1.key }) {
            guard let new = declared.shape.column(name) else {
                throw MigrationError(
                    .misuse,
                    "SchemaOptions.columns has a mapping for column \(name) of table \(old.name), but the schema does "
                        + "not declare that column: correct the name, or remove the mapping",
                    table: old.name
                )
            }
            let isRenamed = renamed.values.contains { SQLIdentifier.equal($0, name) }
            let was = ColumnChange.isReused(name, renamed) ? nil : old.shape.column(name)
            if !isRenamed, let was, was.affinity == new.affinity, was.collation == new.collation,
                old.definition.isNotNull(name) == declared.definition.isNotNull(name)
            {
                unusedMappings.append(UnusedMapping(table: old.name, column: name, reason: .unchanged))
                continue
            }
            guard let unknown = unknownColumn(of: mapping, old) else {
                applied[name] = mapping
                continue
            }
            if options.refusesUnusedColumns {
                throw MigrationError(
                    .misuse,
                    "SchemaOptions.columns makes column \(name) of table \(old.name) of column \(unknown), which the "
                        + "table does not have: correct the expression. Nothing has been changed",
                    table: old.name
                )
            }
            // Other columns keep their values.
            if isRenamed || was != nil { continue }
            try checkMeant(name, old, declared, renamed)
            unusedMappings.append(UnusedMapping(table: old.name, column: name, reason: .unknown(unknown)))
        }
        return applied
    }

    /// Notes the mappings of a table that is created. They are unused, since the table has no rows.
    mutating func noteUnused(of table: TableImage) {
        if plan.movedAway.contains(where: { SQLIdentifier.equal($0, table.name) }) { return }
        for column in (SchemaOptions.value(of: table.name, in: options.columns) ?? [:]).keys.sorted() {
            unusedMappings.append(UnusedMapping(table: table.name, column: column, reason: .created))
        }
    }

    /// Refuses a mapping that names a column which the table does not have, if a column that is perhaps meant would be
    /// dropped. Such a mapping may be right for a table that never had the column: the new column is then made of
    /// nothing. But the name may be misspelt, and then the column that was meant must not be dropped.
    private func checkMeant(
        _ name: String,
        _ old: TableImage,
        _ declared: TableImage,
        _ renamed: [String: String]
    ) throws {
        let dropped = old.schema.columns.map(\.name).filter {
            declared.schema.columnIndex($0) == nil && renamed[SQLIdentifier.lowercased($0)] == nil
        }
        guard options.allowsDrops, !dropped.isEmpty else { return }
        throw MigrationError(
            .misuse,
            "SchemaOptions.columns makes column \(name) of table \(old.name) of a column that the table does not have, "
                + "and the column that is perhaps meant would be dropped: \(dropped.joined(separator: ", ")). Correct "
                + "the name, or drop columns in a separate upgrade",
            table: old.name
        )
    }

    /// A column that a mapping names and the table does not have; `nil` if the table has all of them.
    private func unknownColumn(of mapping: ColumnMapping, _ old: TableImage) -> String? {
        switch mapping {
        case .column(let name):
            return old.schema.columnIndex(name) != nil || MappedColumns.isRowIDName(name) ? nil : name
        case .expression(let text):
            // SQLite takes a name in double quotes for a string if it is the name of no column.
            let renamed = SchemaOptions.value(of: old.name, in: options.renamedColumns) ?? [:]
            let quoted = ExpressionShape.doubleQuotedNames(in: text).first { !old.schema.hasColumn($0) }
            if let quoted { return quoted }
            let names = ExpressionShape.columnNames(in: text)
            let former = renamed.keys.sorted().first { name in
                old.schema.columnIndex(name) == nil && names.contains(SQLIdentifier.lowercased(name))
            }
            if let former { return former }
            let words = file.refusal(text, formerName(old.name))?.message ?? ""
            return words.hasPrefix(Self.noColumn) ? String(words.dropFirst(Self.noColumn.count)) : nil
        case .value, .defaultValue: return nil
        }
    }

    private static let noColumn = "no such column: "

    /// A declared table with columns that are not declared, and with the constraints that name them.
    private func keeping(
        _ columns: [CreateTable.Column],
        of old: TableImage,
        in declared: TableImage
    ) throws -> TableImage {
        // A constraint may contain words that are no columns, but have a column's name. So constraints that the
        // declaration itself has are left out here.
        let said = Set(declared.definition.constraints.map { ExactString(string: declared.definition.words($0.range)) })
        let constraints = old.definition.constraints.filter { constraint in
            if said.contains(ExactString(string: old.definition.words(constraint.range))) { return false }
            let names = old.definition.parentheses(of: constraint).map(old.definition.identifiers) ?? []
            return columns.contains { names.contains(SQLIdentifier.lowercased($0.name)) }
        }
        let hasKey = !(declared.definition.columns.flatMap(\.constraints) + declared.definition.constraints)
            .allSatisfy { $0.kind != .primaryKey }
        for column in columns {
            let names = column.name + " of table \(old.name)"
            let isKey =
                (column.constraints
                + constraints.filter { constraint in
                    old.definition.parentheses(of: constraint).map(old.definition.identifiers)?
                        .contains(SQLIdentifier.lowercased(column.name)) ?? false
                }).contains { $0.kind == .primaryKey }
            if isKey, hasKey {
                throw MigrationError(
                    .misuse,
                    "column \(names) is not declared, and its PRIMARY KEY is not the declared one: declare the column, "
                        + "or allow drops",
                    table: old.name
                )
            }
            guard let index = old.schema.columnIndex(column.name), old.schema.rowIDColumn != index else { continue }
            let schema = old.schema.columns[index]
            if schema.isNotNull, schema.defaultValue == nil, schema.generation == nil {
                throw MigrationError(
                    .misuse,
                    "column \(names) is not declared, NOT NULL and without default, so no INSERT by the declared "
                        + "schema would succeed: declare the column, or allow drops",
                    table: old.name
                )
            }
        }
        let text = declared.definition.adding(
            columns: columns.map { old.text(of: $0, isStrict: declared.schema.isStrict) },
            constraints: constraints.map { old.definition.text($0.range) }
        )
        let connection = try Connection(path: ":memory:")
        defer { connection.close() }
        try connection.execute(text)
        guard var image = try SchemaImage.table(declared.name, connection) else { throw Self.unreadable(declared.name) }
        image.indexes = declared.indexes
        image.triggers = declared.triggers
        return image
    }

    // MARK: ALTER TABLE

    /// The statements that make a change, once they have run on the copy; `nil` if statements cannot make the change,
    /// or take a time that grows with the rows.
    private mutating func alter(_ change: TableChange, isSmall: Bool) throws -> [String]? {
        let table = "ALTER TABLE \(SQLIdentifier.quoted(change.old.name))"
        let goal = change.goal
        var statements = change.columns.statements
        if !statements.isEmpty || !change.dropped.isEmpty, try scratch().hasBrokenPrograms { return nil }
        // DROP COLUMN rewrites the rows.
        if !change.dropped.isEmpty, !isSmall { return nil }
        for column in change.dropped {
            statements.append("\(table) DROP COLUMN \(SQLIdentifier.quoted(column.name))")
        }
        let renamed = Set(change.columns.renamed.values.map(SQLIdentifier.lowercased))
        for column in goal.definition.columns {
            let name = SQLIdentifier.lowercased(column.name)
            let isThere = change.old.shape.column(column.name) != nil && !change.columns.isReused(column.name)
            if isThere || renamed.contains(name) { continue }
            guard try canAdd(column, to: goal) && !fails(column, goal, of: change.old) else {
                return nil
            }
            statements.append("\(table) ADD COLUMN \(goal.definition.text(column.range))")
        }
        let connection = try scratch().connection
        do {
            try connection.savepoint("alter") {
                for sql in statements { try connection.execute(sql) }
                guard try SchemaImage.table(change.old.name, connection)?.shape == goal.shape else {
                    throw OtherShape()
                }
            }
            return statements
        } catch  where error is OtherShape || error is SQLiteError {
            return nil
        }
    }

    private struct OtherShape: Error {}

    /// Whether ADD COLUMN gives existing rows the same value as new rows. That SQLite accepts the statement for an
    /// empty table does not tell so.
    ///
    /// Source: <https://www.sqlite.org/lang_altertable.html#alter_table_add_column>.
    private func canAdd(_ column: CreateTable.Column, to goal: TableImage) -> Bool {
        guard let shape = goal.shape.column(column.name) else { return false }
        // SQLite checks all rows, and does not say which row does not fit. A rebuild does.
        if goal.schema.isStrict || !goal.shape.checks.isEmpty { return false }
        if let generation = shape.generation?.string { return !generation.hasSuffix(" stored") && !shape.isNotNull }
        let isForeign = column.constraints.contains { $0.kind == .foreignKey }
        guard let value = shape.defaultValue?.string, value != "null" else { return !shape.isNotNull }
        if isForeign { return false }
        return !["current_time", "current_date", "current_timestamp"].contains(value) && isConstant(column, goal)
    }

    /// Whether a column's default is written without parentheses.
    private func isConstant(_ column: CreateTable.Column, _ goal: TableImage) -> Bool {
        column.constraints.filter { $0.kind == .default }.allSatisfy {
            !goal.definition.words($0.body).hasPrefix("default (")
        }
    }
}

extension CreateTable {
    /// Whether a column's definition says NOT NULL. A PRIMARY KEY may have the same effect without saying so.
    fileprivate func isNotNull(_ column: String) -> Bool {
        columns.first { SQLIdentifier.equal($0.name, column) }?.constraints.contains { $0.kind == .notNull } ?? false
    }
}

extension TableImage {
    private static let strictTypes: Set = ["int", "integer", "real", "text", "blob", "any"]

    /// A column's definition for a table that may be STRICT although this one is not, or the other way round. The
    /// column's values stay what they are.
    fileprivate func text(of column: CreateTable.Column, isStrict: Bool) -> String {
        let text = definition.text(column.range)
        guard isStrict != schema.isStrict, let index = schema.columnIndex(column.name) else { return text }
        let type = SQLIdentifier.lowercased(schema.columns[index].type)
        let rest = (column.constraints.first?.range.lowerBound ?? column.range.upperBound)..<column.range.upperBound
        let name = definition.text(column.nameRange)
        // In a table that is not STRICT, the type ANY would make SQLite convert text to numbers.
        if !isStrict { return type == "any" ? "\(name) \(definition.text(rest))" : text }
        return Self.strictTypes.contains(type) ? text : "\(name) ANY \(definition.text(rest))"
    }
}
