internal import SQLText
internal import SQLiteConnection

/// Whether a source table's rows can move into a target table, told before anything is done.
struct Compatibility {
    let connection: Connection
    let target: TableSchema
    let source: TableSchema
    let sql: MoveSQL
    let condition: String?

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
        for (side, table) in [("target", target), ("source", source)] where table.hasRowID && table.rowIDName == nil {
            throw refuse(
                .unsupported,
                "the rowid of \(side) table \(table.name) cannot be named: its columns have taken all of its names"
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
            guard column.generation == nil || column.generation == other.generation else {
                throw refuse(
                    .unequalTables,
                    "column \(column.name) is generated in target table \(target.name), and not by the same expression in "
                        + "source table \(source.name)"
                )
            }
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
        try target.hasRowID ? checkRowID() : checkPrimaryKey()
        for index in target.comparableKeys where !hasIndex(for: index) {
            let columns = index.terms.compactMap(\.column).filter { $0 >= 0 }.map { target.columns[$0].name }
            throw refuse(
                .unequalTables,
                "source table \(source.name) has no index on (\(columns.joined(separator: ", "))), which is unique in the "
                    + "target: each insert would search all of it. Create one in the source first"
            )
        }
    }

    /// A row has the same rowid on both sides.
    private func checkRowID() throws {
        if !source.hasRowID { return try checkIntegerKey() }
        let targetKey = target.rowIDColumn.map { target.columns[$0].name }
        let sourceKey = source.rowIDColumn.map { source.columns[$0].name }
        guard targetKey.map(SQLIdentifier.lowercased) == sourceKey.map(SQLIdentifier.lowercased) else {
            throw refuse(
                .unequalTables,
                "the INTEGER PRIMARY KEY is \(targetKey ?? "absent") in target table \(target.name) and "
                    + "\(sourceKey ?? "absent") in source table \(source.name); it must be the same"
            )
        }
    }

    /// Of a source without rowids the target's INTEGER PRIMARY KEY must be the PRIMARY KEY, and all integers.
    private func checkIntegerKey() throws {
        guard let column = target.rowIDColumn, source.primaryKey.count == 1, let other = source.primaryKey[0].column,
            SQLIdentifier.equal(source.columns[other].name, target.columns[column].name)
        else {
            throw refuse(
                .unequalTables,
                "source table \(source.name) has no rowids, so target table \(target.name) must have its PRIMARY KEY as "
                    + "INTEGER PRIMARY KEY, or be WITHOUT ROWID"
            )
        }
        try checkNone("typeof(\(sql.key.source[0])) <> 'integer'", "a PRIMARY KEY that is no integer")
    }

    /// A target without rowids knows rows by its PRIMARY KEY, and so must the source.
    private func checkPrimaryKey() throws {
        let terms = target.primaryKey
        let names = terms.compactMap { $0.column.map { target.columns[$0].name } }.joined(separator: ", ")
        for term in terms {
            guard let column = term.column.map({ target.columns[$0] }) else { continue }
            guard SQLIdentifier.equal(term.collation, column.collation), BuiltInCollation(name: term.collation) != nil
            else {
                throw refuse(
                    .unsupported,
                    "the PRIMARY KEY of table \(target.name) compares column \(column.name) by collation \(term.collation), "
                        + "which is not the column's own, or not one of SQLite's: such a table cannot move"
                )
            }
        }
        func key(_ term: TableSchema.Index.Term, _ table: TableSchema, isReversed: Bool) -> String? {
            guard let column = term.column, column >= 0 else { return nil }
            return SQLIdentifier.lowercased(table.columns[column].name) + " \(term.isDescending != isReversed) "
                + SQLIdentifier.lowercased(term.collation)
        }
        let wanted = terms.map { key($0, target, isReversed: false) }
        let hasIndex = source.indexes.contains { index in
            index.isUnique && !index.isPartial
                && [true, false].contains { isReversed in
                    index.terms.map { key($0, source, isReversed: isReversed) } == wanted
                }
        }
        guard hasIndex else {
            throw refuse(
                .unequalTables,
                "source table \(source.name) has no unique index on (\(names)), by which rows of target table "
                    + "\(target.name) are known. Create one in the source first"
            )
        }
        try checkNone(
            sql.key.source.map { "\($0) IS NULL" }.joined(separator: " OR "),
            "NULL in the columns of the target's PRIMARY KEY, (\(names))"
        )
    }

    private func checkNone(_ term: String, _ what: String) throws {
        let found = try connection.fetchValue(
            Int64.self,
            "SELECT 1 FROM \(sql.source) WHERE (\(term))\(sql.condition) LIMIT 1"
        )
        guard found == nil else {
            throw refuse(
                .unequalTables,
                "source table \(source.name) has rows with \(what): change or delete them first"
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
        // Without rowids, the key is among the indexes.
        let rowID = sql.key.isRowID ? "t.\(sql.key.target[0])" : "NULL"
        var comparisons = sql.key.isRowID ? ["s.midstream_key = \(rowID)"] : []
        for index in target.comparableKeys {
            let terms = index.terms.compactMap { term -> String? in
                guard let column = term.column, column >= 0 else { return nil }
                let name = SQLIdentifier.quoted(target.columns[column].name)
                return "s.\(name) = t.\(name) COLLATE \(SQLIdentifier.quoted(term.collation))"
            }
            comparisons.append(terms.joined(separator: " AND "))
        }
        for comparison in comparisons {
            let row = try connection.fetchOne(
                "SELECT \(rowID) FROM \(sql.target) AS t WHERE EXISTS (SELECT 1 FROM "
                    + "(SELECT \(sql.key.source[0]) AS midstream_key, * FROM \(sql.source) WHERE 1\(sql.condition)) AS s "
                    + "WHERE \(comparison)) LIMIT 1"
            )
            if let row {
                let key: Int64? = try row.get(0)
                throw MigrationError(
                    .keyCollision,
                    "target table \(target.name) already has a row\(key.map { ", of rowid \($0)," } ?? "") with a key of a row of "
                        + "source table \(source.name): remove it from one of the two",
                    table: target.name,
                    key: key
                )
            }
        }
    }
}
