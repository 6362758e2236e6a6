internal import SQLText
internal import SQLiteConnection

// Asks the application what becomes of a row. The application may answer with other values for the row.
extension RefusedRows {
    func refusedRow(_ key: RowKey, _ way: MoveSQL.Way, _ error: SQLiteError) throws -> RefusedRow {
        let statement = try mover.statements.statement(mover.sql.selectRow(way))
        defer { statement.reset() }
        try mover.sql.bind(key, way, to: statement)
        var values: [String: SQLiteValue] = [:]
        do {
            if try statement.step() {
                for (offset, name) in mover.sql.writtenColumns.enumerated() {
                    values[name] = statement.value(at: offset)
                }
            }
        } catch {
            // The row may be refused because a mapping fails with it.
            guard error.isOfRow else { throw error }
        }
        return RefusedRow(
            table: record.target,
            sourceTable: record.source,
            rowID: key.rowID,
            values: values,
            reason: error
        )
    }

    /// Copies a row with other values in some columns. SQLite copies the other columns from the source, since the
    /// application may have been shown less than they hold, as with text that is not Unicode.
    func insert(_ row: RefusedRow, _ values: [String: SQLiteValue], _ key: RowKey, _ way: MoveSQL.Way) throws {
        var replaced: [(column: Int, value: SQLiteValue)] = []
        let columns = mover.sql.writtenColumns
        for (name, value) in values {
            guard let column = columns.firstIndex(where: { SQLIdentifier.equal($0, name) }) else {
                throw MigrationError(
                    .misuse,
                    "the answer for a refused row has a value for column \(name), which table \(row.table) does not "
                        + "have",
                    table: row.table
                )
            }
            if row.values[columns[column]] == value { continue }
            guard !mover.sql.isKeyColumn(columns[column]) else {
                throw MigrationError(
                    .misuse,
                    "the answer for a refused row changes column \(columns[column]), which belongs to the key of table "
                        + "\(row.table): a row keeps its key when it moves",
                    table: row.table
                )
            }
            replaced.append((column, value))
        }
        replaced.sort { $0.column < $1.column }
        guard let target = try SchemaReader(connection: connection, schema: "main").table(row.table) else {
            throw MigrationError(
                .missingTable,
                "table \(row.table) was dropped while its rows moved: restore the "
                    + "file",
                table: row.table
            )
        }
        try checkHiddenKeys(of: target, replaced.map { columns[$0.column] })
        try connection.savepoint("midstream_answer") {
            try mover.statements.movingRows(of: mover.sql) {
                _ = try mover.copy(mover.sql.copyRow(way, replacing: replaced.map(\.column))) { statement in
                    try mover.sql.bind(key, way, to: statement)
                    for (offset, replacement) in replaced.enumerated() {
                        try statement.bind(replacement.value, at: mover.sql.firstReplacement + offset)
                    }
                }
            }
            try checkKeys(of: target, key)
        }
    }

    /// A row whose values are not the source's may have the values of a row that has yet to move, which SQLite does not
    /// see.
    private func checkKeys(of target: TableSchema, _ key: RowKey) throws {
        let (own, parameters) = (mover.sql.key, mover.sql.key.parameters(from: 1))
        let rest =
            isInOrder
            ? " AND \(own.compares(own.source, .after, parameters)) AND \(mover.sql.isUnsettled)"
            : " AND NOT (\(own.equals(own.source, parameters)))\(mover.sql.isPending(after: record.watermark))"
        var coming = [(mover.sql, rest)]
        for other in try others.get() {
            guard let record = try StateStore(connection: connection).table(other.id), record.phase == .copying else {
                continue
            }
            coming.append((other, other.isPending(after: record.watermark)))
        }
        for index in target.comparableKeys {
            for (sql, rows) in coming {
                let statement = try mover.statements.statement(sql.collides(by: index, of: target, with: rows))
                defer { statement.reset() }
                try statement.bind(key, at: 1)
                guard try statement.step() else { continue }
                let columns = index.terms.compactMap(\.column).filter { $0 >= 0 }.map {
                    "\(target.name).\(target.columns[$0].name)"
                }
                throw SQLiteError(
                    code: .constraintUnique,
                    message: "UNIQUE constraint failed: \(columns.joined(separator: ", "))"
                )
            }
        }
    }

    /// Rows that have yet to move cannot be looked up by a unique index that is partial, or on expressions. So the
    /// columns that such an index is made of must stay as they are.
    private func checkHiddenKeys(of target: TableSchema, _ replaced: [String]) throws {
        guard target.hasOtherKeys else { return }
        let comparable = Set(target.comparableKeys)
        for index in target.uniqueIndexes where !comparable.contains(index) {
            let definition = "SELECT sql FROM main.sqlite_master WHERE type = 'index' AND name = ?"
            let text: String? = try connection.fetchValue(definition, [index.name])
            let terms = index.terms.compactMap(\.column).filter { $0 >= 0 }.map { target.columns[$0].name }
            let generations = target.columns.compactMap(\.generation)
            let names = ([text].compactMap(\.self) + generations).map { ExpressionShape.names(in: $0) }
                .reduce(into: Set(terms.map(SQLIdentifier.lowercased))) { $0.formUnion($1) }
            guard let column = replaced.first(where: { names.contains(SQLIdentifier.lowercased($0)) }) else { continue }
            throw MigrationError(
                .misuse,
                "column \(column) of table \(target.name) belongs to the unique index \(index.name), and rows that "
                    + "have yet to move cannot be looked up by that index: leave the column as it is, or set the row "
                    + "aside",
                table: target.name
            )
        }
    }
}
