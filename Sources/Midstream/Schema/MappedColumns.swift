internal import SQLText

/// The target's columns as SQL on a source's row: what they will be when the row has moved.
///
/// SQLite converts what is stored by the column's affinity. ``StoredValue`` is the function that does so for a row which
/// has yet to move.
struct MappedColumns: Sendable {
    /// For each of the target's columns.
    let columns: [Column]

    struct Column: Sendable {
        /// What is copied.
        let copied: String
        /// What it will be, converted.
        let value: String
        /// The same, to be compared with another value as the target's column is.
        let operand: String
        /// The source's column, where it is copied unchanged and compares as in the target.
        let plain: Int?
        /// Whether there may be rows of the source on which it fails.
        var mayFail = false
        /// How a value that it is compared with must be converted; `nil` where SQLite does that.
        fileprivate let conversion: Affinity?

        /// Whether it will be NULL in every row.
        var isNull: Bool { value == MappedColumns.null }

        /// A value to compare the column with.
        func converted(_ sql: String) -> String { StoredValue.call(sql, conversion) }
    }

    subscript(_ column: Int) -> Column { columns[column] }

    /// Whether all rows have NULL in a key of the target, so that none is equal to another.
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
            // The rowid, which has no name of its own. What is missing altogether has been refused.
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
        // It is of any type.
        if ExpressionShape.isNull(text) { return made(null, target, isStored: true) }
        // On lines of its own, so that a comment cannot reach what follows.
        return made("(\(text)\n)", target, isStored: target.affinity == .text && ExpressionShape.givesText(text))
    }

    /// - Parameter isStored: Whether the values have the column's type already. Then an index on the very expression serves.
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

    /// An expression on columns of the target as one on a row of the source: a query on a row that has the target's names.
    /// `nil` where one is converted on its way, and so has lost the type and the collation by which it compares, or could not keep
    /// its name.
    func substituted(_ expression: String, on operands: [Int], of target: TableSchema) -> String? {
        guard operands.allSatisfy({ columns[$0].plain != nil && !Self.isTruthName(target.columns[$0].name) }) else {
            return nil
        }
        if operands.isEmpty { return expression }
        let row = operands.map { "\(columns[$0].copied) AS \(SQLIdentifier.quoted(target.columns[$0].name))" }
        // It may name the table as well.
        return
            "(SELECT \(expression)\n FROM (SELECT \(row.joined(separator: ", "))) AS \(SQLIdentifier.quoted(target.name)))"
    }

    // MARK: The rowid

    static let rowIDNames: Set = ["rowid", "_rowid_", "oid"]

    /// Whether a name means a truth value where there is no such column. A subquery's column cannot have it: SQLite calls that
    /// `column1` and so on.
    ///
    /// Source: `sqlite3ColumnsFromExprList` in SQLite's `select.c`.
    static func isTruthName(_ name: String) -> Bool { ["true", "false"].contains(SQLIdentifier.lowercased(name)) }

    static func isRowIDName(_ name: String) -> Bool { rowIDNames.contains(SQLIdentifier.lowercased(name)) }
}

extension ColumnRecord {
    /// Those of a source that no column of the target is named after.
    static func left(of source: TableSchema, in target: TableSchema) -> [ColumnRecord] {
        source.columns.filter { target.columnIndex($0.name) == nil }.map { ColumnRecord(name: $0.name, origin: .left) }
    }
}
