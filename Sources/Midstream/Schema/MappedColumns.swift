internal import SQLText

/// The target's columns as SQL on a row of the source: the values that they will have when the row has moved.
///
/// When SQLite stores a value, it converts the value by the column's affinity. ``StoredValue`` is the function that does the same
/// for a pending row.
struct MappedColumns: Sendable {
    /// One for each of the target's columns.
    let columns: [Column]

    struct Column: Sendable {
        /// What is copied into the column, as SQL.
        let copied: String
        /// The value that the column will have, converted.
        let value: String
        /// The value, to be compared with another value as the target's column would be.
        let operand: String
        /// The source's column, if it is copied unchanged and compares as in the target.
        let plain: Int?
        /// Whether the expression may fail on a row of the source.
        var mayFail = false
        /// How a value that is compared with the column must be converted; `nil` if SQLite does the conversion.
        fileprivate let conversion: Affinity?

        /// Whether the column will be NULL in every row.
        var isNull: Bool { value == MappedColumns.null }

        /// A value, converted so that it can be compared with the column.
        func converted(_ sql: String) -> String { StoredValue.call(sql, conversion) }
    }

    subscript(_ column: Int) -> Column { columns[column] }

    /// Whether every row has NULL in a key of the target, so that no two rows are equal by it.
    func areNull(in index: TableSchema.Index) -> Bool {
        index.terms.contains { term in term.column.map { $0 >= 0 && columns[$0].isNull } ?? false }
    }

    init(target: TableSchema, source: TableSchema, records: [ColumnRecord]) {
        let origins = Dictionary(records.map { (SQLIdentifier.lowercased($0.name), $0.origin) }) { first, _ in first }
        var columns: [Column] = []
        for column in target.columns {
            switch origins[SQLIdentifier.lowercased(column.name)] {
            case nil, .left: columns.append(Self.column(named: column.name, column, source))
            case .column(let name): columns.append(Self.column(named: name, column, source))
            case .expression(let text):
                var made = Self.expression(text, column)
                made.mayFail = ConnectionTerms(text, of: source, readingGenerated: true).mayFail
                columns.append(made)
            }
        }
        self.columns = columns
    }

    private static func column(named name: String, _ target: TableSchema.Column, _ source: TableSchema) -> Column {
        guard let index = source.columnIndex(name) else {
            // This is the rowid, which has no column. A column that is missing altogether has been refused before.
            let rowID = Self.isRowIDName(name) ? source.rowIDName ?? "rowid" : SQLIdentifier.quoted(name)
            return made(rowID, target, isStored: target.affinity == .integer || target.affinity == .numeric)
        }
        let other = source.columns[index]
        let quoted = SQLIdentifier.quoted(other.name)
        let mayFail =
            other.generation != nil && ConnectionTerms(quoted, of: source, readingGenerated: true).mayFail
        guard other.affinity == target.affinity, !source.mayHoldTruthValues(index) else {
            var made = made(quoted, target, isStored: false)
            made.mayFail = mayFail
            return made
        }
        let collates = SQLIdentifier.equal(other.collation, target.collation)
        return Column(
            copied: quoted,
            value: quoted,
            operand: collates ? quoted : collating(quoted, target),
            plain: collates ? index : nil,
            mayFail: mayFail,
            conversion: nil
        )
    }

    private static let null = "NULL"

    private static func expression(_ text: String, _ target: TableSchema.Column) -> Column {
        // NULL is of any type.
        if ExpressionShape.isNull(text) { return made(null, target, isStored: true) }
        // The expression is on lines of its own, so that a comment in it cannot reach what follows.
        return made("(\(text)\n)", target, isStored: target.affinity == .text && ExpressionShape.givesText(text))
    }

    /// - Parameter isStored: Whether the values have the column's type already. If so, an index on that very expression can be
    ///   used.
    private static func made(_ sql: String, _ target: TableSchema.Column, isStored: Bool) -> Column {
        let value = isStored ? sql : StoredValue.call(sql, target.affinity)
        let conversion: Affinity = target.affinity.isNumeric ? .numeric : target.affinity
        return Column(
            copied: sql,
            value: value,
            operand: collating(value, target),
            plain: nil,
            conversion: conversion
        )
    }

    private static func collating(_ sql: String, _ column: TableSchema.Column) -> String {
        "\(sql) COLLATE \(SQLIdentifier.quoted(column.collation))"
    }

    // MARK: Expressions on the target's columns

    /// The columns of a table that an expression may use.
    static func operands(of expression: String, in table: TableSchema) -> [Int] {
        let names = ExpressionShape.names(in: expression)
        return table.columns.indices.filter { names.contains(SQLIdentifier.lowercased(table.columns[$0].name)) }
    }

    /// Turns an expression on the target's columns into one on a row of the source: a query on a row that has the target's names.
    /// `nil` if one of the columns is converted when it is copied, and so no longer has the type and collation by which it
    /// compares, or if a column could not keep its name.
    func substituted(_ expression: String, on operands: [Int], of target: TableSchema) -> String? {
        guard operands.allSatisfy({ columns[$0].plain != nil && !Self.isTruthName(target.columns[$0].name) }) else {
            return nil
        }
        if operands.isEmpty { return expression }
        let row = operands.map { "\(columns[$0].copied) AS \(SQLIdentifier.quoted(target.columns[$0].name))" }
        // The expression may name the table as well.
        return
            "(SELECT \(expression)\n FROM (SELECT \(row.joined(separator: ", "))) AS \(SQLIdentifier.quoted(target.name)))"
    }

    // MARK: The rowid

    static let rowIDNames: Set = ["rowid", "_rowid_", "oid"]

    /// Whether a name means a truth value if no column is called so. A column of a subquery cannot have such a name: SQLite calls
    /// that column `column1` and so on.
    ///
    /// Source: `sqlite3ColumnsFromExprList` in SQLite's `select.c`.
    static func isTruthName(_ name: String) -> Bool { ["true", "false"].contains(SQLIdentifier.lowercased(name)) }

    static func isRowIDName(_ name: String) -> Bool { rowIDNames.contains(SQLIdentifier.lowercased(name)) }
}

extension ColumnRecord {
    /// The columns of a source after which no column of the target is named.
    static func left(of source: TableSchema, in target: TableSchema) -> [ColumnRecord] {
        source.columns.filter { target.columnIndex($0.name) == nil }.map { ColumnRecord(name: $0.name, origin: .left) }
    }
}
