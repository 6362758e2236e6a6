internal import SQLText
internal import SQLiteConnection

/// Checks whether a source table's rows can move into a target table, before anything is written.
struct Compatibility {
    let connection: Connection
    let target: TableSchema
    let source: TableSchema
    let sql: MoveSQL
    /// The other sources from which the target has rows to come.
    let others: [MoveSQL]
    /// What becomes of rows that the target refuses.
    var refusedRows = RefusedRowPolicy.Stored.stop

    /// - Throws: ``MigrationError``, which says what to change.
    func check() throws {
        try checkFeatures()
        try checkWidth()
        try checkKeys()
        try checkColumns()
        try checkUniqueness()
        try checkCollisions()
        try checkCollisionsWithOthers()
    }

    func checkCollisionsWithOthers() throws {
        for other in others { try checkCollisions(with: other) }
    }

    private func refuse(_ code: MigrationError.Code, _ message: String) -> MigrationError {
        MigrationError(code, message, table: target.name)
    }

    private func checkFeatures() throws {
        for (side, table) in [("target", target), ("source", source)] where table.hasRowID && table.rowIDName == nil {
            throw refuse(
                .unsupported,
                "\(side) table \(table.name) has columns called rowid, _rowid_ and oid, so its rowid cannot be named: "
                    + "rename one of them"
            )
        }
    }

    /// Checks that what the target's columns are made of exists: it may be that nothing else looks at it before rows move.
    func checkColumns() throws {
        do {
            _ = try connection.prepare(sql.selectRow(.key))
        } catch {
            guard error.code == .error else { throw error }
            throw MigrationError(
                .unequalTables,
                "the rows of source table \(source.name) cannot be read in the shape of table \(target.name): "
                    + "\(error.message). Say by TableMigration.columns what its columns are made of",
                table: target.name,
                cause: error
            )
        }
    }

    /// SQLite's limit for the number of columns of a table, and of a query.
    static let mostColumns = 2000

    /// The most columns that a source may have whose rows can be set aside.
    static let mostColumnsSetAside = mostColumns - 2

    static func isTooWideToSetAside(_ source: String, _ count: Int) -> String {
        "source table \(source) has \(count) columns, but only rows of at most \(mostColumnsSetAside) columns can be "
            + "set aside: say refusedRows = .stop"
    }

    /// Checks the number of columns. The queries that compare rows also have the rows' keys, and a row is set aside with the reason
    /// and its rowid.
    private func checkWidth() throws {
        guard refusedRows.alwaysStops || source.columns.count <= Self.mostColumnsSetAside else {
            throw refuse(.unsupported, Self.isTooWideToSetAside(source.name, source.columns.count))
        }
        let keys = sql.key.count
        guard sql.written.count + keys > Self.mostColumns else { return }
        throw refuse(
            .unsupported,
            "table \(target.name) has \(sql.written.count) columns, and its key has \(keys): a table that moves may "
                + "have at most \(Self.mostColumns) of both together"
        )
    }

    private func checkKeys() throws {
        try target.hasRowID ? checkRowID() : checkPrimaryKey()
        for index in target.comparableKeys where !sql.columns.areNull(in: index) {
            let terms = index.terms.compactMap(\.column).filter { $0 >= 0 }
            let isPlain = terms.allSatisfy { sql.columns[$0].plain != nil }
            if try isPlain ? hasIndex(for: index) : isSearched(sql.lookup(by: index)) { continue }
            let names = index.terms.compactMap(words).joined(separator: ", ")
            let converted = terms.first { sql.columns[$0].value != sql.columns[$0].copied }
            throw refuse(
                .unequalTables,
                "source table \(source.name) has no index on (\(names)), but the target has a unique index there: each "
                    + "insert would search the whole source table. "
                    + (converted.map(remedy(forConverted:)) ?? "Create one in the source first")
            )
        }
    }

    /// A term of an index that the source lacks, in the terms of the source's own schema.
    private func words(_ term: TableSchema.Index.Term) -> String? {
        guard let index = term.column, index >= 0 else { return nil }
        let column = sql.columns[index]
        if let plain = column.plain { return source.columns[plain].name }
        if column.value != column.copied {
            return "\(expression(index)), converted to \(target.columns[index].affinity.typeName)"
        }
        let isBinary = SQLIdentifier.equal(term.collation, "BINARY")
        return expression(index) + (isBinary ? "" : " COLLATE \(term.collation)")
    }

    /// What a column is made of, as the application wrote it.
    private func expression(_ column: Int) -> String {
        let copied = sql.columns[column].copied
        if let name = source.columns.first(where: { SQLIdentifier.quoted($0.name) == copied })?.name { return name }
        return copied.hasPrefix("(") && copied.hasSuffix("\n)") ? String(copied.dropFirst().dropLast(2)) : copied
    }

    private func remedy(forConverted column: Int) -> String {
        let name = target.columns[column].name
        guard target.columns[column].affinity == .text else {
            return "There is no such index: give column \(name) the type that it has in the source"
        }
        let made = expression(column)
        // SQLite knows that such an expression is a text, so it can use an index on it.
        let isPlain = made.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_") }
        let isColumn = source.columnIndex(made) != nil
        let text = (isPlain ? made : isColumn ? SQLIdentifier.quoted(made) : "(\(made))") + " || ''"
        return
            "Say by TableMigration.columns that column \(name) is made of \(text), and create an index on \(text) in the source"
    }

    /// Whether SQLite uses an index to find what a query looks for.
    ///
    /// Source: <https://www.sqlite.org/eqp.html>.
    private func isSearched(_ query: String) throws -> Bool {
        let plan = try connection.fetchAll("EXPLAIN QUERY PLAN \(query)").map { try $0.get("detail", as: String.self) }
        return plan.first?.hasPrefix("SEARCH") ?? false
    }

    /// Checks that a row has the same rowid on both sides.
    private func checkRowID() throws {
        guard let column = target.rowIDColumn else {
            if source.hasRowID { return }
            throw refuse(
                .unequalTables,
                "source table \(source.name) has no rowids, so target table \(target.name) must have its PRIMARY KEY as "
                    + "INTEGER PRIMARY KEY, or be WITHOUT ROWID"
            )
        }
        let mapped = sql.columns[column]
        // The source's own rowid needs no check.
        if source.hasRowID, mapped.copied == source.rowIDName { return }
        let name = target.columns[column].name
        guard let plain = mapped.plain, isUnique(plain) else {
            throw refuse(
                .unequalTables,
                "column \(name) is the INTEGER PRIMARY KEY of target table \(target.name), and must be made of the "
                    + "rowid of source table \(source.name), or of a unique column of the same type there: it "
                    + "identifies a row on both sides. Say by TableMigration.columns which column that is, or give the "
                    + "target's table another key"
            )
        }
        try checkNone("typeof(\(mapped.copied)) <> 'integer'", "a value other than an integer in \(expression(column))")
    }

    /// Whether the source has a unique index on that column alone.
    private func isUnique(_ column: Int) -> Bool {
        source.indexes.contains { $0.isUnique && !$0.isPartial && $0.terms.map(\.column) == [column] }
    }

    /// Checks that the source has the target's PRIMARY KEY as a key: by it, a target without rowids identifies rows on both sides.
    private func checkPrimaryKey() throws {
        let terms = target.primaryKey
        let names = terms.compactMap { $0.column.map { target.columns[$0].name } }.joined(separator: ", ")
        for term in terms {
            guard let column = term.column.map({ target.columns[$0] }) else { continue }
            guard term.column.map({ sql.columns[$0].plain != nil }) ?? false else {
                throw refuse(
                    .unsupported,
                    "column \(column.name) belongs to the PRIMARY KEY of table \(target.name). It must be an unchanged "
                        + "column of source table \(source.name), of the same type and collation"
                )
            }
            guard SQLIdentifier.equal(term.collation, column.collation), BuiltInCollation(name: term.collation) != nil
            else {
                throw refuse(
                    .unsupported,
                    "the PRIMARY KEY of table \(target.name) compares column \(column.name) by collation "
                        + "\(term.collation), which is not the column's own, or is not built into SQLite: such a table "
                        + "cannot move"
                )
            }
        }
        func key(_ term: TableSchema.Index.Term, _ column: Int?, isReversed: Bool) -> String? {
            guard let column, column >= 0 else { return nil }
            return "\(column) \(term.isDescending != isReversed) " + SQLIdentifier.lowercased(term.collation)
        }
        let wanted = terms.map { term in
            key(term, term.column.flatMap { sql.columns[$0].plain }, isReversed: false)
        }
        let isRowID = terms.count == 1 && terms[0].column.map { sql.columns[$0].plain == source.rowIDColumn } ?? false
        let hasIndex =
            isRowID
            || source.indexes.contains { index in
                index.isUnique && !index.isPartial
                    && [true, false].contains { isReversed in
                        index.terms.map { key($0, $0.column, isReversed: isReversed) } == wanted
                    }
            }
        guard hasIndex else {
            throw refuse(
                .unequalTables,
                "source table \(source.name) has no unique index on (\(names)), the columns that identify a row of "
                    + "target table \(target.name). Create one in the source first"
            )
        }
        try checkNone(
            sql.key.source.map { "\($0) IS NULL" }.joined(separator: " OR "),
            "NULL in the columns of the target's PRIMARY KEY, (\(names))"
        )
    }

    private func checkNone(_ term: String, _ what: String) throws {
        let key = source.hasRowID ? source.rowIDName : nil
        let found = try connection.fetchOne(
            "SELECT \(key ?? "NULL") FROM \(sql.source) WHERE (\(term))\(sql.condition) LIMIT 1"
        )
        guard let found else { return }
        let rowID = key == nil ? nil : try found.get(0, as: Int64.self)
        throw MigrationError(
            .unequalTables,
            "source table \(source.name) has rows with "
                + "\(what)\(rowID.map { ", such as the one with rowid \($0)" } ?? ""): change or delete them first",
            table: target.name,
            key: rowID
        )
    }

    /// The terms of an index of the target, on the source's columns; `nil` if one of them is not just a column.
    private func sourceTerms(of index: TableSchema.Index) -> Set<String>? {
        let terms = index.terms.map { term in
            term.column.flatMap { $0 >= 0 ? sql.columns[$0].plain : -1 }.map { Self.term($0, term.collation) }
        }
        return terms.contains(nil) ? nil : Set(terms.compactMap(\.self))
    }

    private static func term(_ column: Int, _ collation: String) -> String {
        "\(column) " + SQLIdentifier.lowercased(collation)
    }

    /// The first terms of an index of the source; empty if one of them is an expression.
    private static func terms(of index: TableSchema.Index, _ count: Int) -> Set<String> {
        let terms = index.terms.prefix(count).map { term in term.column.map { Self.term($0, term.collation) } }
        return terms.contains(nil) ? [] : Set(terms.compactMap(\.self))
    }

    /// Whether the source has an index to find rows by the index's columns.
    private func hasIndex(for index: TableSchema.Index) -> Bool {
        guard let wanted = sourceTerms(of: index) else { return false }
        if hasRowID(wanted) { return true }
        return source.indexes.contains { !$0.isPartial && Self.terms(of: $0, index.terms.count) == wanted }
    }

    /// Checks that what is unique in the target is unique among the rows to come, since rows are looked up by it.
    ///
    /// - Complexity: O(1) for what is unique in the source too, otherwise O(n log n).
    private func checkUniqueness() throws {
        let plain = target.uniqueIndexes.filter { $0.isPlain && !$0.isPrimaryKey || $0.isPlain && target.hasRowID }
        for index in plain where !sql.columns.areNull(in: index) && !isUniqueInSource(index) {
            let operands = index.terms.map { term in
                let value = term.column.flatMap { $0 >= 0 ? sql.columns[$0].value : nil } ?? sql.key.source[0]
                return "\(value) COLLATE \(SQLIdentifier.quoted(term.collation))"
            }
            let areThere = operands.map { "\($0) IS NOT NULL" }.joined(separator: " AND ") + sql.condition
            let values = try connection.fetchOne(
                "SELECT \(KeySQL.list(operands)) FROM \(sql.source) WHERE \(areThere) "
                    + "GROUP BY \(KeySQL.list(operands)) HAVING count(*) > 1 LIMIT 1"
            )
            guard let values else { continue }
            let areEqual = operands.enumerated().map { "\($1) = ?\($0 + 1)" }.joined(separator: " AND ")
            let rows = try connection.fetchAll(
                "SELECT \(KeySQL.list(sql.key.source)) FROM \(sql.source) WHERE \(areEqual) AND \(areThere) "
                    + "ORDER BY \(KeySQL.list(sql.key.source)) LIMIT 2",
                Arguments(values: values.values)
            ).map(\.values)
            let keys = rows.map { sql.key.isRowID ? "rowid \(SQLLiteral.text(of: $0[0]))" : "key \(RowKey.text($0))" }
            let names = index.terms.compactMap(\.column).filter { $0 >= 0 }.map { target.columns[$0].name }
            throw MigrationError(
                .keyCollision,
                "several rows of source table "
                    + "\(source.name)\(keys.isEmpty ? "" : ", such as those with \(keys.joined(separator: " and ")),") "
                    + "would have equal values of (\(names.joined(separator: ", "))), but these are unique in target "
                    + "table \(target.name): change or delete all but one",
                table: target.name,
                key: rows.first.flatMap { if sql.key.isRowID, case .integer(let rowID) = $0[0] { rowID } else { nil } }
            )
        }
    }

    private func hasRowID(_ terms: Set<String>) -> Bool {
        terms.contains(Self.term(-1, "BINARY"))
            || source.rowIDColumn.map { terms.contains(Self.term($0, "BINARY")) } ?? false
    }

    private func isUniqueInSource(_ index: TableSchema.Index) -> Bool {
        guard let wanted = sourceTerms(of: index) else { return false }
        if hasRowID(wanted) { return true }
        return source.indexes.contains { other in
            let terms = Self.terms(of: other, other.terms.count)
            return other.isUnique && !other.isPartial && !terms.isEmpty && terms.isSubset(of: wanted)
        }
    }

    /// Checks that no row of the target has a key of a row to come.
    ///
    /// - Parameter rows: Chooses the source's rows, as a continuation of a WHERE clause; `nil` for all that belong to the
    ///   migration.
    func checkCollisions(of rows: String? = nil) throws {
        if try connection.fetchOne("SELECT 1 FROM \(sql.target) LIMIT 1") == nil { return }
        // Without rowids, the key is one of the indexes too, unless these have too many columns.
        var comparisons = [(keyNames, sql.key.equals(sql.key.source, sql.key.target.map { "midstream_target." + $0 }))]
        comparisons += target.comparableKeys.map { (names(of: $0), sql.hasKey($0, of: target)) }
        for (names, comparison) in comparisons {
            let equal = "FROM \(sql.source) WHERE \(comparison)\(rows ?? sql.condition) LIMIT 1"
            let keys =
                sql.key.target.map { "midstream_target." + $0 } + sql.key.source.map { "(SELECT \($0) \(equal))" }
            let row = try connection.fetchOne(
                "SELECT \(KeySQL.list(keys)) FROM \(sql.target) AS midstream_target WHERE EXISTS (SELECT 1 \(equal)) LIMIT 1"
            )
            if let row {
                let (own, other) = (Array(row.values.prefix(sql.key.count)), Array(row.values.suffix(sql.key.count)))
                throw MigrationError(
                    .keyCollision,
                    "target table \(target.name) already has a row (\(words(own))) with the same (\(names)) as a row "
                        + "of source table \(source.name) (\(words(other))): remove one of them",
                    table: target.name,
                    key: rowID(own)
                )
            }
        }
    }

    /// The names of the key's columns, for messages.
    private var keyNames: String {
        if !sql.key.isRowID { return KeySQL.list(sql.key.columns.map { target.columns[$0].name }) }
        return target.rowIDColumn.map { target.columns[$0].name } ?? "rowid"
    }

    private func names(of index: TableSchema.Index) -> String {
        KeySQL.list(index.terms.compactMap(\.column).filter { $0 >= 0 }.map { target.columns[$0].name })
    }

    private func words(_ key: [SQLiteValue]) -> String {
        sql.key.isRowID ? "rowid \(SQLLiteral.text(of: key[0]))" : "key \(RowKey.text(key))"
    }

    private func rowID(_ key: [SQLiteValue]) -> Int64? {
        if sql.key.isRowID, case .integer(let rowID) = key[0] { rowID } else { nil }
    }

    /// The source of a move, for messages.
    private func place(_ move: MoveSQL) -> String {
        let path = move.sourceInTarget == nil ? connection.fileName(schema: move.sourceSchema) : nil
        return "source table \(move.sourceName)" + (path.map { " of \($0)" } ?? "")
    }

    /// Checks that no row of another source has a key of a row to come.
    private func checkCollisions(with other: MoveSQL) throws {
        let rows = sql.renamedRows(Array(target.columns.indices), " WHERE 1\(sql.condition)")
        var comparisons = [(keyNames, other.key.equals(other.key.source, sql.keyAliases))]
        for index in target.comparableKeys where !sql.columns.areNull(in: index) && !other.columns.areNull(in: index) {
            let terms = index.terms.compactMap { term -> String? in
                guard let column = term.column, column >= 0 else { return nil }
                let collation = SQLIdentifier.quoted(term.collation)
                return
                    "\(other.columns[column].value) = \(StoredValue.call(MoveSQL.valueAlias(column), .blob)) COLLATE \(collation)"
            }
            comparisons.append((names(of: index), terms.joined(separator: " AND ")))
        }
        for (names, comparison) in comparisons {
            let equal = "FROM \(other.source) WHERE \(comparison)\(other.condition) LIMIT 1"
            let keys = sql.keyAliases + other.key.source.map { "(SELECT \($0) \(equal))" }
            let found = try connection.fetchOne(
                "SELECT \(KeySQL.list(keys)) FROM \(rows) WHERE EXISTS (SELECT 1 \(equal)) LIMIT 1"
            )
            guard let found else { continue }
            let own = Array(found.values.prefix(sql.key.count))
            let others = Array(found.values.suffix(other.key.count))
            throw MigrationError(
                .keyCollision,
                "a row of \(place(sql)) (\(words(own))) and a row of \(place(other)) (\(words(others))) would have the "
                    + "same (\(names)) in table \(target.name). Change or delete one of them, or give conditions such "
                    + "that only one of them moves",
                table: target.name,
                key: rowID(own)
            )
        }
    }
}
