internal import SQLText

/// Forms the statement that finds the rows which an UPDATE or DELETE affects, from that statement's own clauses.
struct Promotion {
    let outline: StatementOutline
    let text: String
    let table: MovingTable

    /// The name by which the statement calls its target.
    private var alias: String {
        SQLIdentifier.quoted(outline.targetAlias?.name ?? outline.target?.name ?? table.name)
    }

    /// The columns of the target's key, qualified by `alias`.
    private var key: [String] { table.key.target.map { "\(alias).\($0)" } }

    /// `WITH … SELECT alias.key FROM temp.relation AS alias, … WHERE … ORDER BY … LIMIT …`
    ///
    /// - Parameters:
    ///   - relation: The union table, or the union table of the pending rows alone.
    ///   - redirect: Makes the edits that redirect the statement's reads.
    func keys(from relation: String, redirect: (inout SQLEdits) throws -> Void) rethrows -> String? {
        try rows(
            of: "temp.\(SQLIdentifier.quoted(relation))",
            selecting: KeySQL.list(key),
            parameter: { "?\($0.index)" },
            redirect: redirect
        )
    }

    /// `WITH … SELECT results FROM relation AS alias, … WHERE … ORDER BY … LIMIT …`
    ///
    /// - Parameter parameter: A parameter's text. A clause lifted out of its statement must keep its parameters' numbers.
    private func rows(
        of relation: String,
        selecting results: String,
        parameter: (Parameter) -> String,
        redirect: (inout SQLEdits) throws -> Void
    ) rethrows -> String? {
        var edits = SQLEdits()
        try redirect(&edits)
        for place in outline.parameters { edits.replace(place.range, with: parameter(place)) }
        for column in outline.qualifiedReferences
        where SQLIdentifier.equal(column.schema, "main") && outline.source(of: column)?.context == .target {
            edits.discard(in: column.schemaRange.lowerBound..<column.tableRange.upperBound)
            edits.replace(column.schemaRange.lowerBound..<column.tableRange.upperBound, with: alias)
        }
        do {
            func clause(_ range: Range<Int>?, after word: String) throws -> String {
                try range.map { "\n" + word + " " + (try edits.extract($0, from: text)) } ?? ""
            }
            return try clause(outline.with, after: "")
                + "\nSELECT \(results) FROM \(relation) AS \(alias)"
                + (try outline.from.map { joined(try edits.extract($0, from: text)) } ?? "")
                + clause(outline.whereClause, after: "WHERE")
                + clause(outline.orderBy, after: "ORDER BY") + clause(outline.limit, after: "LIMIT")
        } catch {
            return nil
        }
    }

    /// The text that joins FROM to the target as SQLite does: if FROM has several tables, SQLite joins these with each other
    /// first.
    private func joined(_ from: String) -> String {
        let bytes = Array(from.utf8)
        var depth = 0
        for token in SQLTokenizer(from) {
            switch SQLIdentifier.lowercased(String(decoding: bytes[token.range], as: UTF8.self)) {
            case "(": depth += 1
            case ")": depth -= 1
            case ",", "join": if depth == 0 { return "\n, (\(from)\n)" }
            default: break
            }
        }
        return "\n, \(from)"
    }

    // MARK: Within the statement

    /// Makes an UPDATE or DELETE itself promote the rows that it affects: its WHERE becomes a list of keys, which calls a function for each
    /// pending row. SQLite evaluates the list before it looks for rows, if it looks for rows by their keys. Whoever runs the statement must
    /// make sure of that: see ``BorrowedWrites/checkPlan(of:)``.
    ///
    /// - Returns: `false` if the statement cannot do so.
    func embed(in edits: inout SQLEdits, redirect: (inout SQLEdits) throws -> Void) rethrows -> Bool {
        guard outline.from == nil, outline.orderBy == nil, outline.limit == nil else { return false }
        // A parameter without a name needs its number wherever it is mentioned again.
        func again(_ parameter: Parameter) -> String { parameter.name ?? "?\(parameter.index)" }
        func first(_ parameter: Parameter) -> String {
            outline.with?.contains(parameter.range.lowerBound) ?? false ? again(parameter) : parameter.name ?? "?"
        }
        let promoted = try rows(
            of: "temp.\(SQLIdentifier.quoted(OwnNames.pending(table.id)))",
            selecting: "\(Self.function)(\(table.id), \(KeySQL.list(key)))",
            parameter: first,
            redirect: redirect
        )
        let others = try rows(
            of: table.sql.target,
            selecting: KeySQL.list(key),
            parameter: again,
            redirect: redirect
        )
        guard let promoted, let others else { return false }
        let list = "SELECT * FROM (\(promoted)\n) UNION ALL SELECT * FROM (\(others)\n)"
        let condition = "\(table.key.tupleOfSought(key)) IN (\(list))"
        // SQLite finds the rows by their keys.
        if let index = outline.indexedBy { edits.remove(index) }
        if let whereClause = outline.whereClause {
            edits.discard(in: whereClause)
            edits.replace(whereClause, with: condition)
        } else {
            edits.insert(
                " WHERE \(condition) ",
                at: outline.clauses.returning?.range.lowerBound ?? outline.range.upperBound
            )
        }
        return true
    }

    /// The function that such a statement calls with the number of a moving table and a key. It returns the key.
    static let function = "midstream_promoted"

    /// Replaces WHERE, ORDER BY and LIMIT by a list of keys.
    func restrict(_ edits: inout SQLEdits, toKeysIn keyTable: String) {
        var condition = "\(table.key.tupleOfSought(key)) IN (SELECT \(KeySQL.list(table.key.ledger)) FROM \(keyTable))"
        // The condition mentions the parameters of the removed clause, so that the parameters after it keep their numbers.
        let gone = outline.parameters.filter { outline.whereClause?.contains($0.range.lowerBound) ?? false }
        if !gone.isEmpty {
            condition += " AND (1 OR 0 IN (\(gone.map { outline.text($0.range) }.joined(separator: ", "))))"
        }
        // SQLite finds the keys by the key's own index.
        if let index = outline.indexedBy, outline.nameOfIndex(index).map(table.target.hasIndex) ?? true {
            edits.remove(index)
        }
        for clause in [outline.clauses.orderBy, outline.clauses.limit].compactMap({ $0?.range }) {
            edits.discard(in: clause)
            edits.remove(clause)
        }
        if let whereClause = outline.whereClause {
            edits.discard(in: whereClause)
            edits.replace(whereClause, with: condition)
        } else {
            let end =
                outline.clauses.returning?.range.lowerBound ?? outline.clauses.orderBy?.range.lowerBound
                ?? outline.clauses.limit?.range.lowerBound ?? outline.range.upperBound
            edits.insert(" WHERE \(condition) ", at: end)
        }
    }
}

/// The TEMP table into which a rowid is inserted only for `last_insert_rowid()`.
enum InsertedRowID {
    static let create = "CREATE TEMP TABLE IF NOT EXISTS midstream_rowid(key INTEGER PRIMARY KEY)"
    static let insert = "INSERT INTO temp.midstream_rowid(key) VALUES (?1)"
    static let clear = "DELETE FROM temp.midstream_rowid"
}

/// The TEMP table into which rows are inserted only for `changes()`.
enum CountedRows {
    static let create = "CREATE TEMP TABLE IF NOT EXISTS midstream_count(key INTEGER PRIMARY KEY)"
    static let clear = "DELETE FROM temp.midstream_count"
    /// A common table. SQLite gives its name to the authorizer as it would a trigger's.
    static let numbers = "midstream_numbers"
    /// Inserts one row ?1 times, with the rowid ?2.
    static let replace =
        "INSERT OR REPLACE INTO temp.midstream_count(key) WITH RECURSIVE \(numbers)(i) AS "
        + "(SELECT 1 UNION ALL SELECT i + 1 FROM \(numbers) WHERE i < ?1) SELECT ?2 FROM \(numbers)"
}

/// The TEMP table in which the keys of a table's rows are collected. All tables with rowids share one.
struct KeyCollection {
    let table: String
    private let key: KeySQL

    init(_ moving: MovingTable) {
        key = moving.key
        table = "temp.midstream_keys" + (key.isRowID ? "" : "_\(moving.id)")
    }

    var create: String { "CREATE TABLE IF NOT EXISTS \(table)(\(key.ledgerColumns))\(key.ledgerOptions)" }
    var clear: String { "DELETE FROM \(table)" }
    var insert: String {
        "INSERT OR IGNORE INTO \(table)(\(KeySQL.list(key.ledger))) VALUES (\(KeySQL.list(key.parameters(from: 1))))"
    }
    var all: String { "SELECT \(KeySQL.list(key.ledger)) FROM \(table) ORDER BY \(key.order(key.ledger))" }
}
