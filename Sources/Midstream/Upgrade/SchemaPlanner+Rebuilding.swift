internal import SQLText
internal import SQLiteConnection

// The change of a table by a rebuild.
extension SchemaPlanner {
    mutating func rebuild(
        _ change: TableChange,
        _ triggers: [SchemaObject],
        _ newIndexes: [SchemaObject]
    ) throws {
        let (old, goal) = (change.old, change.goal)
        let rebuilding = SchemaChange.Rebuilding(
            schema: goal.schema.sql,
            indexes: goal.indexes.map(\.sql),
            triggers: triggers.map(\.sql),
            columns: try mappingsOfRebuild(change),
            unfilledColumns: unfilledColumns(change),
            refusedRows: options.refusedRows,
            rowsCopiedAtOnce: options.rowsChangedAtOnce
        )
        var summary = change.summary("rebuild")
        if goal.shape == old.shape, change.columns.renamed.isEmpty {
            summary +=
                newIndexes.isEmpty
                ? " for new triggers" : ", since index \(newIndexes.map(\.name).joined(separator: ", ")) comes"
        }
        let statements = [goal.schema.sql] + rebuilding.indexes + rebuilding.triggers
        rebuilds.append(
            SchemaChange(name: goal.name, way: .rebuild, summary: summary, sql: statements, rebuild: rebuilding)
        )
        let copy = try scratch()
        if let rebuilt = try foresee(rebuilding, of: old, on: copy) { plan.rebuilt.append(rebuilt) }
        try remake(change, triggers, on: copy)
        present.setTriggers(triggers, of: old.name)
    }

    /// What a rebuild makes columns of. Besides what the options say, a renamed column is made of the former column,
    /// and a column that gets a renamed column's name is made of its own default.
    private func mappingsOfRebuild(_ change: TableChange) throws -> [String: ColumnMapping] {
        let goal = change.goal
        var columns = change.columns.mappings
        for (from, to) in change.columns.renamed where SchemaOptions.value(of: to, in: columns) == nil {
            // A generated column is made of nothing but its own expression.
            let isGenerated = goal.schema.columnIndex(to).map { goal.schema.columns[$0].generation != nil } ?? false
            if !isGenerated { columns[to] = .column(from) }
        }
        for column in goal.schema.columns {
            let isReused = change.columns.isReused(column.name)
            if change.old.schema.columnIndex(column.name) != nil, !isReused { continue }
            let isGiven = SchemaOptions.value(of: column.name, in: columns) != nil || column.generation != nil
            if isReused, !isGiven { columns[column.name] = .defaultValue }
            if !isGiven { try checkNew(column, change) }
        }
        return columns
    }

    /// Makes sure that no row needs a value in a new column for which nothing gives a value.
    private func checkNew(_ column: TableSchema.Column, _ change: TableChange) throws {
        let (old, goal) = (change.old, change.goal)
        if !column.isNotNull || column.defaultValue != nil { return }
        if goal.schema.rowIDColumn.map({ SQLIdentifier.equal(goal.schema.columns[$0].name, column.name) }) ?? false {
            return
        }
        // If there are no rows, none needs a value.
        if try hasAtMost(0, old) { return }
        let remedy =
            unusedMappings.first { $0.isOf(column.name, of: old.name) }?.unknownColumn.map {
                ", and SchemaOptions.columns makes it of \($0), which the table does not have: correct the name"
            } ?? ": say by SchemaOptions.columns what value the rows get"
        throw MigrationError(
            .unequalTables,
            "column \(column.name) of table \(goal.name) is new, NOT NULL and without default\(remedy)",
            table: goal.name
        )
    }

    /// The columns that become NOT NULL, if nothing says what takes the place of NULL in their rows.
    private func unfilledColumns(_ change: TableChange) -> [String] {
        let (old, columns) = (change.old.schema, change.columns)
        return change.goal.schema.columns.filter { column in
            let isFilled =
                SchemaOptions.value(of: column.name, in: columns.mappings) != nil || columns.isReused(column.name)
            if !column.isNotNull || column.generation != nil || isFilled { return false }
            let former = columns.renamed.first { SQLIdentifier.equal($0.value, column.name) }?.key
            // A rowid is not NULL.
            guard let index = old.columnIndex(former ?? column.name), index != old.rowIDColumn else { return false }
            return !old.columns[index].isNotNull
        }.map(\.name)
    }

    /// Makes the table anew on the copy, with its indexes and triggers.
    private func remake(_ change: TableChange, _ triggers: [SchemaObject], on copy: SchemaScratch) throws {
        let (old, goal) = (change.old, change.goal)
        try copy.connection.execute("DROP TABLE \(SQLIdentifier.quoted(old.name))")
        try copy.connection.execute(goal.schema.sql)
        let declared = wanted.table(goal.name)
        for object in goal.indexes + triggers {
            // An object that the copy cannot take has not changed, except perhaps for names in it.
            if let missing = copy.missing.first(where: {
                $0.object.type == object.type && SQLIdentifier.equal($0.object.name, object.name)
            }) {
                if SchemaOptions.value(of: old.name, in: formerNames) == nil, change.columns.renamed.isEmpty {
                    continue
                }
                throw Self.undeclared(object, missing.error)
            }
            do {
                try copy.connection.execute(object.sql)
            } catch {
                let names = object.type == .index ? declared?.indexes : declared?.triggers
                throw names?.named(object.name) == nil ? Self.undeclared(object, error) : error
            }
        }
    }
}

extension SchemaImage {
    fileprivate mutating func setTriggers(_ triggers: [SchemaObject], of name: String) {
        for index in tables.indices where SQLIdentifier.equal(tables[index].name, name) {
            tables[index].triggers = triggers
        }
    }
}
