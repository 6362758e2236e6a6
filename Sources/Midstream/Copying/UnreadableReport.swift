internal import SQLText
internal import SQLiteConnection

/// Rows of the source that cannot be read, or not completely, and SQLite's error.
struct Damage {
    var place: Place
    var error: SQLiteError

    enum Place {
        case row(RowKey)
        /// What is between two rows that can be read; `nil` if the damage goes to the first row or to the last. There
        /// may be no row at all.
        case between(RowKey?, RowKey?)
    }

    /// The key of the row, if it is one row.
    var key: RowKey? {
        if case .row(let key) = place { key } else { nil }
    }

    /// The keys as the application is told them.
    func keys(_ sql: KeySQL) -> UnreadableKeys {
        switch place {
        case .row(.rowID(let rowID)): .rowIDs(rowID...rowID)
        case .row(let key): .row(key.values.map(\.value))
        case .between(let start, let end) where sql.isRowID:
            .rowIDs((start?.rowID.map { $0 + 1 } ?? .min)...(end?.rowID.map { $0 - 1 } ?? .max))
        case .between(let start, let end): .between(start?.values.map(\.value), end?.values.map(\.value))
        }
    }
}

/// The target's table of the rows that could not be read and were left out.
struct UnreadableReport {
    let mover: RowMover
    let record: TableRecord
    let connection: Connection

    private var key: KeySQL { mover.sql.key }

    /// The columns for the key of a row, and those for the two keys between which no key could be read.
    private var row: [String] { columns("key_") }
    private var start: [String] { key.isRowID ? ["first_rowid"] : columns("after_") }
    private var end: [String] { key.isRowID ? ["last_rowid"] : columns("before_") }

    private func columns(_ prefix: String) -> [String] { key.names.map { SQLIdentifier.quoted(prefix + $0.column) } }

    private var table: ReportTable {
        let collations = key.names.map { " COLLATE " + SQLIdentifier.quoted($0.collation) }
        let columns = key.isRowID ? start + end : [row, start, end].flatMap { zip($0, collations).map(+) }
        return ReportTable(kind: "unreadable", nameColumn: "unreadable_rows_table", columns: columns + ["reason"])
    }

    /// Notes which rows have been left out.
    func add(_ skipped: [Damage]) throws {
        guard !skipped.isEmpty else { return }
        // From now on, the table has fewer rows than were counted.
        try TableUpdate.forgetTotal(record, connection)
        let name = SQLIdentifier.quoted(try table.make(for: record, connection))
        for damage in skipped {
            let bounds = bounds(damage)
            let values = (bounds + [[.text(Array(damage.error.message.utf8))]]).flatMap(\.self)
            let list = KeySQL.list(values.indices.map { "?\($0 + 1)" })
            try run("INSERT INTO main.\(name) VALUES (\(list))", values)
            // Rows that statements have brought over are in the target, but cannot be counted in the source.
            try forget(damage)
        }
    }

    /// The values of the table's columns.
    private func bounds(_ damage: Damage) -> [[ExactValue]] {
        let none = [ExactValue](repeating: .null, count: key.count)
        if case .rowIDs(let rowIDs) = damage.keys(key) {
            return [[.integer(rowIDs.lowerBound)], [.integer(rowIDs.upperBound)]]
        }
        switch damage.place {
        case .row(let key): return [key.values, none, none]
        case .between(let start, let end): return [none, start?.values ?? none, end?.values ?? none]
        }
    }

    private func forget(_ damage: Damage) throws {
        var terms = ["1"]
        var values: [ExactValue] = []
        func add(_ comparison: KeySQL.Comparison, _ bound: RowKey?) {
            guard let bound else { return }
            terms.append(key.compares(key.ledger, comparison, key.parameters(from: 1 + values.count)))
            values += bound.values
        }
        switch damage.place {
        case .row(let key):
            add(.from, key)
            add(.through, key)
        case .between(let start, let end):
            add(.after, start)
            add(.before, end)
        }
        try run("DELETE FROM \(mover.sql.ledger) WHERE \(terms.joined(separator: " AND "))", values)
    }

    // MARK: Questions

    /// Whether any of the rows from one key through another has been left out.
    func meets(_ first: RowKey, _ last: RowKey) throws -> Bool {
        let (first, last) = ((KeySQL.Comparison.from, first), (KeySQL.Comparison.through, last))
        return try meets(first, last)
    }

    /// Whether anything between two keys has been left out; `nil` stands for no end.
    func meets(after start: RowKey?, before end: RowKey?) throws -> Bool {
        try meets(start.map { (.after, $0) }, end.map { (.before, $0) })
    }

    private typealias Bound = (comparison: KeySQL.Comparison, key: RowKey)

    private func meets(_ lower: Bound?, _ upper: Bound?) throws -> Bool {
        guard let name = record.unreadableRowsTable else { return false }
        let parameters = (lower: key.parameters(from: 1), upper: key.parameters(from: 1 + key.count))
        func compares(_ names: [String], _ comparison: KeySQL.Comparison?, _ parameters: [String]) -> String {
            comparison.map { key.compares(names, $0, parameters) } ?? "1"
        }
        let found: String
        if key.isRowID {
            // A stored range of rowids has both its ends.
            found =
                "\(compares(end, lower?.comparison, parameters.lower)) AND \(compares(start, upper?.comparison, parameters.upper))"
        } else {
            // A stored range of other keys has neither of its ends.
            let isRow =
                "\(compares(row, lower?.comparison, parameters.lower)) AND \(compares(row, upper?.comparison, parameters.upper))"
            let isRange =
                "(\(end[0]) IS NULL OR \(compares(end, lower.map { _ in .after }, parameters.lower))) AND "
                + "(\(start[0]) IS NULL OR \(compares(start, upper.map { _ in .before }, parameters.upper)))"
            found = "CASE WHEN \(row[0]) IS NULL THEN \(isRange) ELSE \(isRow) END"
        }
        let question = "SELECT 1 FROM main.\(SQLIdentifier.quoted(name)) WHERE \(found) LIMIT 1"
        let statement = try mover.statements.statement(question)
        defer { statement.reset() }
        if let lower { try statement.bind(lower.key, at: 1) }
        if let upper { try statement.bind(upper.key, at: 1 + key.count) }
        return try statement.step()
    }

    private func run(_ text: String, _ values: [ExactValue]) throws {
        _ = try mover.run(text) { for (offset, value) in values.enumerated() { try $0.bind(value, at: 1 + offset) } }
    }
}
