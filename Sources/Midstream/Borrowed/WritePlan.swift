internal import SQLText
internal import SQLiteConnection

/// How Midstream carries out a write of a union table as writes of the target's table, row by row. It reads the text of
/// the running statement, since SQLite does not tell a virtual table which columns the statement gives.
struct WritePlan {
    /// What a statement does to a row.
    enum Operation: Hashable {
        case insert, update, delete
    }

    /// The statement that Midstream runs for each row.
    let sql: String
    /// For each parameter of ``sql``, the index of its value among the arguments of SQLite's call.
    let arguments: [Int]
    /// Why the statement cannot write more than one row; `nil` if it can.
    let refusalOfSecondRow: String?
    /// Whether the statement writes one row at most.
    let isOfOneRow: Bool
    /// Whether the statement changes a key of rows that children follow by an ON UPDATE action.
    let changesFollowedKey: Bool
    /// Whether the statement is an INSERT that may replace rows.
    let replaces: Bool

    /// - Parameters:
    ///   - text: The text of the running statement.
    ///   - isPlainTable: Whether a name that the statement reads is a table, and not a view.
    /// - Throws: `SQLiteError` if the text does not tell what to write for each row.
    init(
        _ text: String,
        _ operation: Operation,
        on table: MovingTable,
        isPlainTable: (String) throws -> Bool
    ) throws {
        let outline = SQLScript(text).outline()
        try Self.check(outline, operation, on: table)
        let word = outline.conflict?.word
        replaces = operation == .insert && (word.map { $0 == "replace" } ?? table.constraintWords.hasReplace)
        let keys = table.keyActions?.keys(to: table.name).map(\.definition).filter(\.actsOnUpdate) ?? []
        let followed = keys.flatMap { $0.places(in: table.target) ?? [] }
        var changed: [Int] = []
        isOfOneRow = operation == .insert && outline.insertsOneRow
        if operation != .delete, word == nil, table.constraintWords.hasOthersThanReplace {
            throw BorrowedWrites.refusal(
                of: table,
                "its definition has an ON CONFLICT clause that is not REPLACE, and the statement has no OR clause"
            )
        }
        switch operation {
        case .delete:
            sql = "DELETE FROM \(table.sql.target) WHERE \(table.key.target[0]) = ?1"
            arguments = [0]
            refusalOfSecondRow = nil
        case .insert:
            (sql, arguments) = try Self.insertion(outline, into: table)
            refusalOfSecondRow = nil
        case .update:
            let columns = try RowNames(table: table).columns(outline.assignments.flatMap(\.columns))
            changed = columns.map { $0 < 0 ? table.target.rowIDColumn ?? $0 : $0 }
            (sql, arguments) = Self.change(of: columns, in: table, Self.clause(word))
            refusalOfSecondRow = try Self.refusalOfSecondRow(outline, columns, of: table, isPlainTable)
        }
        changesFollowedKey = changed.contains(where: followed.contains)
    }

    /// Makes sure that the statement itself writes the table, and that Midstream can do this write row by row.
    private static func check(_ outline: StatementOutline, _ operation: Operation, on table: MovingTable) throws {
        func refuse(_ reason: String) -> SQLiteError { BorrowedWrites.refusal(of: table, reason) }
        guard outline.isComplete, kind(operation) == outline.kind, let target = outline.target,
            SQLIdentifier.equal(target.name, table.name),
            // With another schema, the statement writes another table of that name, and a trigger writes this one.
            target.schema.map({ SQLIdentifier.equal($0, "temp") }) ?? true
        else {
            throw refuse("a trigger writes it, or a statement that Midstream cannot read")
        }
        if outline.returning != nil { throw refuse("SQLite gives RETURNING no values of its rows") }
        if operation == .update, outline.from != nil {
            // If one row fails, SQLite does not undo the rows before it, since it makes no statement journal for such
            // an UPDATE.
            throw refuse("it is changed by UPDATE … FROM")
        }
        let readsTarget = outline.tableReferences.contains { reference in
            reference.context != .target && SQLIdentifier.equal(reference.name.name, table.name)
                && reference.name.schema.map { SQLIdentifier.equal($0, "main") } ?? false
        }
        if readsTarget { throw refuse("main.\(table.name) has only a part of its rows") }
    }

    private static func insertion(
        _ outline: StatementOutline,
        into table: MovingTable
    ) throws -> (sql: String, arguments: [Int]) {
        if asksForEarlierRows(outline) {
            throw BorrowedWrites.refusal(of: table, "the values of a row could depend on the rows before it")
        }
        let insert = "INSERT\(clause(outline.conflict?.word)) INTO \(table.sql.target)"
        if case .defaultValues? = outline.source { return ("\(insert) DEFAULT VALUES", []) }
        let names = RowNames(table: table)
        let given =
            outline.columns == nil ? Array(table.target.columns.indices) : try names.columns(outline.columnNames)
        // If a statement gives the rowid twice, SQLite takes the last value for a table, but gives a virtual table the
        // first.
        if outline.columnNames.count(where: names.isKey) > 1 {
            throw BorrowedWrites.refusal(of: table, "the statement gives the rowid twice")
        }
        let list = given.map(names.quoted)
        let marks = given.indices.map { "?\($0 + 1)" }
        return (
            "\(insert)(\(list.joined(separator: ", "))) VALUES (\(marks.joined(separator: ", ")))",
            given.map { $0 + 2 }
        )
    }

    private static func change(
        of columns: [Int],
        in table: MovingTable,
        _ clause: String
    ) -> (sql: String, arguments: [Int]) {
        let names = RowNames(table: table)
        let changes = columns.enumerated().map { offset, column in "\(names.quoted(column)) = ?\(offset + 1)" }
        return (
            "UPDATE\(clause) \(table.sql.target) SET \(changes.joined(separator: ", ")) "
                + "WHERE \(table.key.target[0]) = ?\(columns.count + 1)",
            columns.map { $0 + 2 } + [0]
        )
    }

    /// Why an UPDATE cannot change more than one row.
    private static func refusalOfSecondRow(
        _ outline: StatementOutline,
        _ columns: [Int],
        of table: MovingTable,
        _ isPlainTable: (String) throws -> Bool
    ) throws -> String? {
        let word = outline.conflict?.word
        let replaces = word == "replace" || word == nil && table.constraintWords.hasReplace
        if replaces, columns.contains(where: RowNames(table: table).isUnique) {
            // By the time the statement comes to a later row, REPLACE may have deleted it, or put another row in its
            // place.
            return "the statement could replace rows that it has yet to change"
        }
        // For a virtual table, SQLite computes the new values of all rows before it changes the first row.
        return try readsItself(outline, table, isPlainTable)
            ? "the new values of a row could depend on the rows before it" : nil
    }

    private static func kind(_ operation: Operation) -> StatementKind {
        switch operation {
        case .insert: .insert
        case .update: .update
        case .delete: .delete
        }
    }

    /// The OR clause of the statement for one row. What becomes of the rows before one that fails is decided by SQLite,
    /// by the OR clause of the running statement.
    private static func clause(_ word: String?) -> String {
        switch word {
        case nil: ""
        case "replace": " OR REPLACE"
        case "ignore": " OR IGNORE"
        default: " OR ABORT"
        }
    }

    static func asksForEarlierRows(_ outline: StatementOutline) -> Bool {
        if case .values(let rows, _)? = outline.source, rows.count == 1 { return false }
        return outline.functionCalls.contains { ["changes", "total_changes", "last_insert_rowid"].contains($0.name) }
    }

    /// Whether an UPDATE may read its new values from the rows that it changes.
    private static func readsItself(
        _ outline: StatementOutline,
        _ table: MovingTable,
        _ isPlainTable: (String) throws -> Bool
    ) throws -> Bool {
        try outline.tableReferences.contains { reference in
            let place = reference.name.range.lowerBound
            guard reference.context != .target, !reference.isTableFunction,
                outline.set?.contains(place) ?? false || outline.with?.contains(place) ?? false,
                !outline.isHiddenByCommonTable(reference)
            else { return false }
            if SQLIdentifier.equal(reference.name.name, table.name) { return true }
            return try !isPlainTable(reference.name.name)
        }
    }
}

/// The columns of a table as a statement names them; -1 is the rowid.
private struct RowNames {
    let table: MovingTable

    /// A column, or the rowid, as SQL writes it.
    func quoted(_ column: Int) -> String { column < 0 ? table.key.target[0] : table.quotedColumns[column] }

    func columns(_ names: [String]) throws -> [Int] {
        var columns: [Int] = []
        for name in names {
            let column = table.target.columnIndex(name) ?? -1
            // If a statement names a column twice, SQLite chooses one of the values. It has chosen before it calls the
            // union table.
            if !columns.contains(column) { columns.append(column) }
        }
        if let key = table.target.rowIDColumn, columns.contains(-1), columns.contains(key) {
            throw BorrowedWrites.refusal(of: table, "the statement gives the rowid by two names")
        }
        return columns
    }

    func isKey(_ name: String) -> Bool {
        table.target.columnIndex(name).map { $0 == table.target.rowIDColumn } ?? false
    }

    func isUnique(_ column: Int) -> Bool {
        column < 0 || column == table.target.rowIDColumn
            || table.target.uniqueIndexes.contains { $0.terms.contains { $0.column == column || $0.column == nil } }
    }
}
