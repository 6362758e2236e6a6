internal import SQLText
internal import SQLiteConnection

/// Finds out what of the source goes into each of the target's columns: by equal names, and by what the application says.
struct ColumnMatching {
    let connection: Connection
    let target: TableSchema
    let source: TableSchema
    /// `"schema"."S"`
    let from: String
    let wish: TableMigration
    /// Whether the application adds the migration, and so can have columns made of something else. The columns of a rebuild are
    /// made of those of the former shape.
    var isAdded = false

    /// The records of columns that do not simply take the source's column of their name, and of those that only the source has.
    ///
    /// - Throws: ``MigrationError`` if a column has nothing to take, or if something of the source would be lost silently.
    func records() throws -> [ColumnRecord] {
        let stored = try storedRecords()
        return stored + (try generatedRecords(stored)) + ColumnRecord.left(of: source, in: target)
    }

    /// The records of the columns that are not generated.
    func storedRecords() throws -> [ColumnRecord] {
        for name in wish.columns.keys where target.columnIndex(name) == nil {
            throw refuse(.misuse, "there is a mapping for column \(name), but table \(target.name) has no such column")
        }
        let mappings = Dictionary(wish.columns.map { (SQLIdentifier.lowercased($0.key), $0.value) }) { first, _ in first
        }
        var records: [ColumnRecord] = []
        var missing: [String] = []
        for (index, column) in target.columns.enumerated() where column.generation == nil {
            let mapping: ColumnMapping
            if let given = mappings[SQLIdentifier.lowercased(column.name)] {
                mapping = given
            } else if source.columnIndex(column.name) != nil {
                try checkGenerated(column.name, for: column)
                continue
            } else if wish.unmatchedColumns == .ignored {
                mapping = .defaultValue
            } else {
                missing.append(column.name)
                continue
            }
            records.append(ColumnRecord(name: column.name, origin: try origin(of: index, mapping)))
        }
        try checkNoneIsLost(missing, records)
        for column in target.columns where column.generation != nil {
            if mappings[SQLIdentifier.lowercased(column.name)] != nil {
                throw refuse(.misuse, "column \(column.name) of table \(target.name) is generated: it cannot be mapped")
            }
        }
        return records
    }

    /// The records of the generated columns, given those of all others.
    private func generatedRecords(_ stored: [ColumnRecord]) throws -> [ColumnRecord] {
        var records = stored
        for column in target.columns where column.generation != nil {
            if let made = try generated(column, records) {
                records.append(ColumnRecord(name: column.name, origin: made))
            }
        }
        return Array(records.dropFirst(stored.count))
    }

    private func refuse(_ code: MigrationError.Code, _ message: String) -> MigrationError {
        MigrationError(code, message, table: target.name)
    }

    private func origin(of index: Int, _ mapping: ColumnMapping) throws -> ColumnRecord.Origin {
        let column = target.columns[index]
        switch mapping {
        case .column(let name):
            guard source.hasColumn(name) else {
                throw refuse(
                    .unequalTables,
                    "column \(column.name) of table \(target.name) is mapped to column \(name), but source table "
                        + "\(source.name) has no such column"
                )
            }
            try checkGenerated(name, for: column)
            return .column(name)
        case .expression(let text):
            try check(text, "the expression for column \(column.name) of table \(target.name)")
            return .expression(text)
        case .value(let value):
            return .expression(try literal(value))
        case .defaultValue:
            // An ordinary column of the source may be called rowid; it is not meant here.
            if index == target.rowIDColumn, source.hasRowID,
                let name = source.rowIDColumn.map({ source.columns[$0].name }) ?? source.rowIDName
            {
                return .column(name)
            }
            return .expression(try defaultLiteral(of: column))
        }
    }

    private func check(_ expression: String, _ what: String) throws {
        try RowExpression(
            connection: connection,
            source: source,
            from: from,
            text: expression,
            what: what,
            table: target.name
        ).check()
    }

    /// If the source generates a column, checks that the column has the same values on every connection.
    private func checkGenerated(_ name: String, for column: TableSchema.Column) throws {
        guard isAdded, let index = source.columnIndex(name), source.columns[index].generation != nil else { return }
        let what =
            "column \(source.columns[index].name) of table \(source.name), for column \(column.name) of table \(target.name),"
        try check(SQLIdentifier.quoted(source.columns[index].name), what)
    }

    private func checkNoneIsLost(_ missing: [String], _ records: [ColumnRecord]) throws {
        // A source's column is not lost if the target's column of its name takes it. Nor is it if that column takes something else
        // by a mapping, unless that is another column. A generated column is computed again from the other columns on both sides.
        func isTaken(_ name: String) -> Bool {
            guard let index = target.columnIndex(name) else { return false }
            if target.columns[index].generation != nil {
                return source.columnIndex(name).map { source.columns[$0].generation != nil } ?? false
            }
            let record = records.first { SQLIdentifier.equal($0.name, target.columns[index].name) }
            if case .column(let origin)? = record?.origin { return SQLIdentifier.equal(origin, name) }
            return true
        }
        let mentioned = records.map(\.origin).reduce(into: Set<String>()) { names, origin in
            switch origin {
            case .column(let name): names.insert(SQLIdentifier.lowercased(name))
            case .expression(let text): names.formUnion(ExpressionShape.columnNames(in: text))
            case .left: break
            }
        }
        let left =
            wish.unmatchedColumns == .ignored
            ? []
            : source.columns.map(\.name).filter {
                !isTaken($0) && !mentioned.contains(SQLIdentifier.lowercased($0))
            }
        if missing.isEmpty, left.isEmpty { return }
        var parts: [String] = []
        if !missing.isEmpty { parts.append("the source lacks \(missing.joined(separator: ", "))") }
        if !left.isEmpty { parts.append("the target lacks \(left.joined(separator: ", "))") }
        throw refuse(
            .unequalTables,
            "source table \(source.name) and target table \(target.name) do not have the same columns: "
                + parts.joined(separator: "; ")
                + ". Say by TableMigration.columns what the target's columns are made of, or by unmatchedColumns that "
                + "these columns are to be ignored"
        )
    }

    // MARK: Values

    func literal(_ value: SQLiteValue) throws -> String {
        switch value {
        case .real(let double) where double.isInfinite: return double < 0 ? "-9e999" : "9e999"
        // quote() has no sign of zero, and ends at a NUL.
        case .real(let double) where double == 0 && double.sign == .minus: return "-0.0"
        case .text(let text) where text.utf8.contains(0):
            return "CAST(\(try literal(.blob(Array(text.utf8)))) AS TEXT)"
        default: return try connection.fetchValue("SELECT CAST(quote(?1) AS TEXT)", [value]) ?? "NULL"
        }
    }

    /// The value that the column's default has now, as a literal.
    func defaultLiteral(of column: TableSchema.Column) throws -> String {
        guard let expression = column.defaultValue else { return "NULL" }
        let calls = SQLScript("SELECT \(expression)").flatMap(\.functionCalls)
        guard calls.allSatisfy({ VolatileTerms.isStable($0.name) || ConnectionTerms.timeFunctions.contains($0.name) })
        else {
            throw refuse(
                .unsupported,
                "the default of column \(column.name) of table \(target.name) may differ from row to row: say by "
                    + "TableMigration.columns what value the rows get"
            )
        }
        let value = try connection.fetchOne("SELECT \(expression)")?[0] ?? .null
        // A string literal would change the bytes of a text that is not valid UTF-8.
        guard case .text = value,
            let bytes = try connection.fetchOne(
                "SELECT hex(CAST(v AS BLOB)) FROM (SELECT \(expression) AS v) WHERE v IS NOT ?1",
                [value]
            )
        else { return try literal(value) }
        return "CAST(x'\(try bytes.get(0, as: String.self))' AS TEXT)"
    }

    // MARK: Generated columns

    /// What a generated column will be made of; `nil` if the source has the same generated column.
    private func generated(_ column: TableSchema.Column, _ records: [ColumnRecord]) throws -> ColumnRecord.Origin? {
        let mapped = MappedColumns(target: target, source: source, records: records)
        if isGeneratedLikewise(column, mapped) { return nil }
        let operands = MappedColumns.operands(of: column.generation ?? "", in: target)
        guard operands.allSatisfy({ target.columns[$0].generation == nil }), let expression = column.generation,
            let substituted = mapped.substituted(expression, on: operands, of: target)
        else {
            throw refuse(
                .unsupported,
                "column \(column.name) of table \(target.name) is generated from columns that are not copied as they "
                    + "are, or from generated columns, so its values are unknown for rows that have yet to move. Move "
                    + "the rows first, and then add the column"
            )
        }
        return .expression(substituted)
    }

    /// Whether the source generates the same values under the same name: by the same expression, stored with the same affinity,
    /// from columns that are copied as they are or are generated likewise.
    ///
    /// - Parameter outer: The columns whose expressions have led to this one. SQLite only finds when it reads columns that they
    ///   depend on themselves.
    private func isGeneratedLikewise(
        _ column: TableSchema.Column,
        _ mapped: MappedColumns,
        outer: Set<String> = []
    ) -> Bool {
        if outer.contains(column.name) { return false }
        guard let expression = column.generation, let index = source.columnIndex(column.name) else { return false }
        let other = source.columns[index]
        guard let same = other.generation, ExactString(string: same) == ExactString(string: expression),
            other.affinity == column.affinity, SQLIdentifier.equal(other.collation, column.collation)
        else { return false }
        let path = outer.union([column.name])
        return MappedColumns.operands(of: expression, in: target).allSatisfy { operand in
            let column = target.columns[operand]
            if column.generation != nil { return isGeneratedLikewise(column, mapped, outer: path) }
            return mapped[operand].plain.map { SQLIdentifier.equal(source.columns[$0].name, column.name) } ?? false
        }
    }
}
