internal import SQLText
internal import SQLiteConnection

/// Whether a source table's rows can move into a target table, told before anything is done.
struct Compatibility {
    let connection: Connection
    let target: TableSchema
    let source: TableSchema
    let sql: MoveSQL
    let condition: String?

    /// The most values that a function may take in SQLite as it is commonly built, less those of our own.
    private static let mostKeyColumns = 100

    /// - Throws: ``MigrationError``, with what to change.
    func check() throws {
        try checkFeatures()
        try checkColumns()
        try checkKeys()
        try checkCondition()
        try checkCollisions()
    }

    private func refuse(_ code: MigrationError.Code, _ message: String) -> MigrationError {
        MigrationError(code, message, table: target.name)
    }

    private func checkFeatures() throws {
        for (side, table) in [("target", target), ("source", source)] {
            guard table.hasRowID, table.rowIDName != nil else {
                throw refuse(.unsupported, "\(side) table \(table.name) has no rowid, and such tables cannot move yet")
            }
            if let column = table.columns.first(where: \.isGenerated) {
                throw refuse(
                    .unsupported,
                    "column \(column.name) of \(side) table \(table.name) is generated, and such tables cannot move yet"
                )
            }
        }
        if let index = target.uniqueIndexes.first(where: { !$0.isPlain }) {
            throw refuse(
                .unsupported,
                "unique index \(index.name) is partial or has an expression, and tables with such indexes cannot move yet: "
                    + "create it when the table has moved"
            )
        }
        if MoveSQL.keyColumns(of: target).count > Self.mostKeyColumns {
            throw refuse(
                .unsupported,
                "the unique keys of table \(target.name) have more than \(Self.mostKeyColumns) columns in all"
            )
        }
    }

    private func checkColumns() throws {
        let missing = target.columns.filter { source.columnIndex($0.name) == nil }.map(\.name)
        let extra = source.columns.filter { target.columnIndex($0.name) == nil }.map(\.name)
        guard missing.isEmpty, extra.isEmpty else {
            var parts: [String] = []
            if !missing.isEmpty { parts.append("the source lacks \(missing.joined(separator: ", "))") }
            if !extra.isEmpty { parts.append("the target lacks \(extra.joined(separator: ", "))") }
            throw refuse(
                .unequalTables,
                "source table \(source.name) and target table \(target.name) must have the same columns: "
                    + parts.joined(separator: "; ")
            )
        }
        for column in target.columns {
            guard let index = source.columnIndex(column.name) else { continue }
            let other = source.columns[index]
            guard column.affinity == other.affinity else {
                throw refuse(
                    .unequalTables,
                    "column \(column.name) is of type \(column.type) in the target and \(other.type) in the source, which "
                        + "SQLite stores differently"
                )
            }
            guard SQLIdentifier.equal(column.collation, other.collation) else {
                throw refuse(
                    .unequalTables,
                    "column \(column.name) has collation \(column.collation) in the target and \(other.collation) in the "
                        + "source"
                )
            }
        }
    }

    private func checkKeys() throws {
        let targetKey = target.rowIDColumn.map { target.columns[$0].name }
        let sourceKey = source.rowIDColumn.map { source.columns[$0].name }
        guard targetKey.map(SQLIdentifier.lowercased) == sourceKey.map(SQLIdentifier.lowercased) else {
            throw refuse(
                .unequalTables,
                "the INTEGER PRIMARY KEY is \(targetKey ?? "absent") in target table \(target.name) and "
                    + "\(sourceKey ?? "absent") in source table \(source.name); it must be the same"
            )
        }
        for index in target.uniqueIndexes where !hasIndex(for: index) {
            let columns = index.terms.compactMap(\.column).filter { $0 >= 0 }.map { target.columns[$0].name }
            throw refuse(
                .unequalTables,
                "source table \(source.name) has no index on (\(columns.joined(separator: ", "))), which is unique in the "
                    + "target: each insert would search all of it. Create one in the source first"
            )
        }
    }

    /// Whether the source finds rows by the index's columns.
    private func hasIndex(for index: TableSchema.Index) -> Bool {
        func key(_ term: TableSchema.Index.Term, _ table: TableSchema) -> String? {
            guard let column = term.column, column >= 0 else { return nil }
            return SQLIdentifier.lowercased(table.columns[column].name + "\u{0}" + term.collation)
        }
        let wanted = Set(index.terms.map { key($0, target) })
        return source.indexes.contains { other in
            !other.isPartial && Set(other.terms.prefix(index.terms.count).map { key($0, source) }) == wanted
        }
    }

    private func checkCondition() throws {
        guard let condition else { return }
        do {
            // With parentheses and without, so that it can neither leave them nor use more than an expression. On one
            // line of its own, so that a comment cannot reach what follows.
            _ = try connection.prepare("SELECT 1 FROM \(sql.source) WHERE (\(condition)\n)")
            _ = try connection.prepare("SELECT 1 FROM \(sql.source) WHERE \(condition)\n")
        } catch {
            throw MigrationError(
                .unequalTables,
                "the condition for table \(target.name) does not fit source table \(source.name): see the cause",
                table: target.name,
                cause: error
            )
        }
        do {
            // SQLite knows what depends on the row alone: it is what a partial index may ask for. The index is not made.
            let schema = sql.source.prefix { $0 != "." }
            let column = SQLIdentifier.quoted(source.columns[0].name)
            _ = try connection.prepare(
                "CREATE INDEX \(schema).midstream_condition ON \(SQLIdentifier.quoted(source.name))(\(column)) "
                    + "WHERE (\(condition)\n)"
            )
        } catch {
            throw conditionError(error)
        }
        if dependsOnTime(condition) { throw conditionError(nil) }
    }

    private func conditionError(_ cause: SQLiteError?) -> MigrationError {
        MigrationError(
            .unsupported,
            "the condition for table \(target.name) must depend on the source's row alone: no subquery, no parameter, no "
                + "time, no random value",
            table: target.name,
            cause: cause
        )
    }

    /// Whether a condition asks for the time or its zone. In an index SQLite refuses that only when it is used.
    private func dependsOnTime(_ condition: String) -> Bool {
        let times: Set = ["date", "time", "datetime", "julianday", "unixepoch", "strftime"]
        let text = SQLIdentifier.lowercased(condition)
        let calls = SQLScript("SELECT \(condition)").flatMap(\.functionCalls)
        if ["current_date", "current_time", "current_timestamp"].contains(where: text.contains) { return true }
        guard calls.contains(where: { times.contains($0.name) }) else { return false }
        return ["'now'", "'localtime'", "'utc'", "'subsec'", "()"].contains(where: text.contains)
    }

    /// No row of the target may have a key of a row that is to come.
    private func checkCollisions() throws {
        var comparisons = ["s.midstream_key = t.\(sql.targetKey)"]
        for index in target.uniqueIndexes {
            let terms = index.terms.compactMap { term -> String? in
                guard let column = term.column, column >= 0 else { return nil }
                let name = SQLIdentifier.quoted(target.columns[column].name)
                return "s.\(name) = t.\(name) COLLATE \(SQLIdentifier.quoted(term.collation))"
            }
            comparisons.append(terms.joined(separator: " AND "))
        }
        for comparison in comparisons {
            let key = try connection.fetchValue(
                Int64.self,
                "SELECT t.\(sql.targetKey) FROM \(sql.target) AS t WHERE EXISTS (SELECT 1 FROM "
                    + "(SELECT \(sql.sourceKey) AS midstream_key, * FROM \(sql.source) WHERE 1\(sql.condition)) AS s "
                    + "WHERE \(comparison)) LIMIT 1"
            )
            if let key {
                throw MigrationError(
                    .keyCollision,
                    "target table \(target.name) already has a row, of rowid \(key), with a key of a row of source table "
                        + "\(source.name): remove it from one of the two",
                    table: target.name,
                    key: key
                )
            }
        }
    }
}
