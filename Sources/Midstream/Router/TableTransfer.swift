internal import SQLText
internal import SQLiteConnection

/// `INSERT INTO x SELECT * FROM y`, of two tables that are defined alike. SQLite copies such rows as they are stored, which
/// shows: the rows keep their rowids, generated columns do not count as columns too many, and SQLite checks no CHECK. SQLite does
/// so only with plain tables, so Midstream rewrites a statement that names a moving table to one with the same effect.
///
/// Source: `xferOptimization` in <https://www.sqlite.org/src/file/src/insert.c>. The manual does not describe it.
struct TableTransfer {
    /// When SQLite copies the rows as they are stored.
    enum Occasion {
        /// Always.
        case any
        /// When the table that receives the rows is empty.
        case empty
    }

    /// One of the two tables, with the texts that define it.
    struct Side {
        var table: TableSchema
        /// The texts of the table's CREATE TABLE and CREATE INDEX.
        var definitions: [String]
        /// The name by which the statement reads the table's rows.
        var name: String
    }

    let target: Side
    let source: Side
    let occasion: Occasion

    /// The table that such a statement copies, if the statement is `SELECT *` of one table and nothing else; otherwise `nil`.
    static func source(of outline: StatementOutline) -> TableReference? {
        guard outline.kind == .insert, outline.isComplete, case .select(let range)? = outline.source,
            outline.with == nil, outline.columns == nil, outline.returning == nil, outline.upsert.isEmpty,
            outline.queries.count == 1, let arm = outline.queries[0].arms[0], !outline.queries[0].isCompound,
            outline.text(arm.range) == "*", let from = arm.from, from.upperBound == range.upperBound
        else { return nil }
        let words = outline.text(range.lowerBound..<arm.range.lowerBound).utf8.split {
            [0x20, 0x09, 0x0a, 0x0d].contains($0)
        }
        let references = outline.tableReferences.filter { $0.context == .from }
        guard words.count <= 2, references.count == 1, !references[0].isTableFunction,
            references[0].name.range.lowerBound == from.lowerBound
        else { return nil }
        return references[0]
    }

    /// - Parameters:
    ///   - conflict: The word of the statement's OR clause, if there is one.
    ///   - enforcesForeignKeys: Whether the connection enforces foreign keys.
    /// - Returns: `nil` if SQLite would not copy the rows as they are stored.
    init?(from source: Side, into target: Side, conflict: String?, enforcesForeignKeys: Bool) {
        guard let occasion = Self.occasion(source, target, conflict, enforcesForeignKeys) else { return nil }
        self.target = target
        self.source = source
        self.occasion = occasion
    }

    /// Asks SQLite when it copies rows as they are stored, by means of two empty tables of the same definitions.
    private static func occasion(_ source: Side, _ target: Side, _ conflict: String?, _ enforcesForeignKeys: Bool)
        -> Occasion?
    {
        // A definition that calls the application's functions or collations cannot be made here.
        guard let scratch = try? Connection(path: ":memory:") else { return nil }
        defer { scratch.close() }
        do {
            if enforcesForeignKeys { try scratch.configure(.foreignKeys, true) }
            for text in target.definitions { try scratch.execute(text) }
            try scratch.execute("ATTACH ':memory:' AS other")
            for text in source.definitions { try scratch.execute(inOther(text)) }
            let into =
                "INSERT \(conflict.map { "OR \($0) " } ?? "")INTO main.\(SQLIdentifier.quoted(target.table.name))"
            let steps = try scratch.fetchAll(
                "EXPLAIN \(into) SELECT * FROM other.\(SQLIdentifier.quoted(source.table.name))"
            ).map { try $0.get("opcode", as: String.self) }
            // Before 3.20, SQLite copies the rows of a table without rowids by a different opcode.
            guard !Set(steps).isDisjoint(with: ["RowData", "RowCell", "RowKey"]) else { return nil }
            return steps.contains("InitCoroutine") ? .empty : .any
        } catch {
            return nil
        }
    }

    private static func inOther(_ definition: String) -> String {
        let outline = SQLScript(definition).outline()
        guard let target = outline.target else { return definition }
        var edits = SQLEdits()
        edits.insertWord("other.", at: target.nameRange.lowerBound, of: outline)
        return (try? edits.apply(to: definition)) ?? definition
    }

    /// Whether the copied rows keep their rowids.
    private var keepsRowIDs: Bool {
        target.table.hasRowID && target.table.rowIDColumn == nil && !target.table.indexes.isEmpty
    }

    /// Whether the target has a CHECK, which SQLite would check for rows that it inserts one by one.
    var passesChecks: Bool {
        let words = SQLTerms(target.table.sql)
        return words.list(in: 0..<target.table.sql.utf8.count).joined().contains { words.word($0) == "check" }
    }

    /// Whether the statement would have another effect if it ran as it is.
    var isNeeded: Bool { keepsRowIDs || passesChecks || target.table.columns.contains { $0.generation != nil } }

    /// Writes the columns' names into the statement.
    func apply(to edits: inout SQLEdits, in outline: StatementOutline) {
        guard let target = outline.target, let arm = outline.queries.first?.arms.first ?? nil else { return }
        let stored = self.target.table.columns.indices.filter { self.target.table.columns[$0].generation == nil }
        var names = stored.map { SQLIdentifier.quoted(self.target.table.columns[$0].name) }
        var values = stored.map { SQLIdentifier.quoted(source.table.columns[$0].name) }
        if keepsRowIDs, let name = self.target.table.rowIDName, let value = source.table.rowIDName {
            names.append(name)
            values.append("CASE WHEN EXISTS (SELECT 1 FROM \(self.target.name)) THEN NULL ELSE \(value) END")
        }
        edits.insert("(\(KeySQL.list(names))) ", at: outline.targetAlias?.range.upperBound ?? target.range.upperBound)
        edits.replace(arm.range, with: KeySQL.list(values))
    }
}

extension Router {
    /// The transfer that a statement makes: it copies all rows of a table into another, one of the two moves, and SQLite would
    /// copy plain tables as they are stored. `nil` if the statement is none, or need not be rewritten.
    func transfer(_ outline: StatementOutline) throws -> TableTransfer? {
        guard let reference = TableTransfer.source(of: outline), let name = outline.target,
            let target = try side(name), let source = try side(reference.name), try !hasTriggers(target.table.name)
        else { return nil }
        let transfer = TableTransfer(
            from: source,
            into: target,
            conflict: outline.conflict?.word,
            enforcesForeignKeys: enforcesForeignKeys
        )
        return transfer.flatMap { $0.isNeeded ? $0 : nil }
    }

    /// Whether a table of that name has triggers of the application. If it has, SQLite inserts row by row.
    private func hasTriggers(_ table: String) throws -> Bool {
        let schemas = try overlay.connection.fetchAll("PRAGMA database_list").map { try $0.get(1, as: String.self) }
        return try schemas.contains { schema in
            try overlay.connection.fetchAll(
                "SELECT name FROM \(SchemaReader.master(of: schema)) WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE",
                [table]
            ).contains { try !OwnNames.isTrigger($0.get(0)) }
        }
    }

    private func side(_ name: ObjectName) throws -> TableTransfer.Side? {
        let schemas = name.schema.map { [$0] } ?? ["temp", "main"]
        let moving = movingTable(name)
        for schema in schemas where moving == nil || SQLIdentifier.equal(schema, "main") {
            guard let table = try SchemaReader(connection: overlay.connection, schema: schema).table(name.name),
                !table.sql.hasPrefix("CREATE VIRTUAL")
            else { continue }
            let quoted = SQLIdentifier.quoted(schema)
            let definitions: [String] = try overlay.connection.fetchAll(
                "SELECT sql FROM \(SchemaReader.master(of: schema)) WHERE tbl_name = ? COLLATE NOCASE AND type IN ('table', 'index') "
                    + "AND sql IS NOT NULL ORDER BY type DESC, rowid",
                [table.name]
            ).map { try $0.get(0) }
            let read = (moving == nil ? quoted : "temp") + "." + SQLIdentifier.quoted(table.name)
            return TableTransfer.Side(table: table, definitions: definitions, name: read)
        }
        return nil
    }

    /// Rewrites the statement to do what SQLite would do with plain tables, and notes in the route how the statement must run.
    func apply(_ transfer: TableTransfer, to edits: inout SQLEdits, _ route: inout Route, _ outline: StatementOutline)
        throws
    {
        transfer.apply(to: &edits, in: outline)
        guard transfer.passesChecks else { return }
        if transfer.occasion == .empty {
            route.isOfMoment = true
            overlay.forgetState()
            if try overlay.connection.fetchOne("SELECT 1 FROM \(transfer.target.name) LIMIT 1") != nil { return }
        }
        route.ignoresChecks = true
    }
}
