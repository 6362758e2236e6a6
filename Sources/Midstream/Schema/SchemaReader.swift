internal import SQLText
internal import SQLiteConnection

/// Reads schemas from a connection.
struct SchemaReader {
    let connection: Connection
    /// `main`, or the schema of an attached source.
    let schema: String

    private var prefix: String { SQLIdentifier.quoted(schema) }
    private var master: String { Self.master(of: schema) }

    /// The name of the table that describes a schema. Before SQLite 3.33, that of `temp` has only a name of its own.
    static func master(of schema: String) -> String {
        SQLIdentifier.equal(schema, "temp") ? "sqlite_temp_master" : SQLIdentifier.quoted(schema) + ".sqlite_master"
    }

    /// Whether a table has at most `rows` rows, and at most as many kilobytes.
    ///
    /// - Complexity: O(n) in `rows`.
    func isSmall(_ table: String, rows: Int) throws -> Bool {
        // A virtual generated column has no stored bytes, and computing it may fail.
        let stored =
            try self.table(table)?.columns.filter { $0.generation == nil }.map { SQLIdentifier.quoted($0.name) } ?? [
                "*"
            ]
        let statement = try connection.prepare(
            "SELECT \(stored.joined(separator: ", ")) FROM \(prefix).\(SQLIdentifier.quoted(table))"
        )
        defer { statement.reset() }
        var (count, bytes) = (0, 0)
        while try statement.step() {
            count += 1
            for column in 0..<statement.columnCount { bytes += statement.byteCount(at: column) }
            if count > rows || bytes >> 10 > rows { return false }
        }
        return true
    }

    /// The CREATE texts of a table, or of a view of that name, and of its indexes; `nil` if there is no such table or view.
    func definition(of table: String) throws -> String? {
        if let known = try connection.knownSchema(schema) {
            let texts = known.objects(of: table).filter { ["table", "view", "index"].contains($0.type) }
                .map { (order: Array("\($0.type)\0\($0.name)".utf8), sql: $0.sql) }
                .sorted { $0.order.lexicographicallyPrecedes($1.order) }.compactMap(\.sql)
            return texts.isEmpty ? nil : texts.joined(separator: "\n")
        }
        return try connection.fetchValue(
            "SELECT group_concat(sql, char(10)) FROM (SELECT sql FROM \(master) WHERE tbl_name = ? COLLATE NOCASE "
                + "AND type IN ('table', 'view', 'index') ORDER BY type, name)",
            [table]
        )
    }

    /// The names of the application's tables, in the order of their creation.
    func tableNames() throws -> [String] { try tableNames(unless: OwnNames.isTable) }

    /// The names of the application's tables whose definitions contain a word, in any case.
    private func tableNames(having word: String) throws -> [String] {
        try tableNames(where: "lower(sql) LIKE '%\(word)%'", unless: OwnNames.isTable)
    }

    private func tableNames(where condition: String = "1", unless isLeftOut: (String) -> Bool) throws -> [String] {
        try connection.fetchAll(
            "SELECT name FROM \(master) "
                + "WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' AND \(condition) ORDER BY rowid"
        )
        .map { try $0.get(0) }
        .filter { !$0.hasPrefix("sqlite_") && !isLeftOut($0) }
    }

    /// The descriptions of tables, by their names in lower case. Call it in a transaction, so that each description is of the state
    /// that it is noted under.
    ///
    ///
    /// - Complexity: O(n) in the objects of the schema, which no index finds by their names.
    func tables(_ names: [String], _ known: KnownTables) throws -> [String: TableSchema] {
        try texts(of: names).mapValues { texts in
            if let table = known[texts] { return table }
            guard let sql = texts.sql?.string else { return nil }
            let table = try description(texts.name.string, sql)
            known.note(table, texts)
            return table
        }.compactMapValues { $0 }
    }

    private func texts(of names: [String]) throws -> [String: KnownTables.Texts] {
        let list = Set(names.map(SQLIdentifier.lowercased)).map { SQLLiteral.text(of: .text($0)) }.joined(
            separator: ", "
        )
        let statement = try connection.prepare(
            "SELECT type = 'table', name, tbl_name, sql FROM \(master) "
                + "WHERE type IN ('table', 'index') AND tbl_name COLLATE NOCASE IN (\(list)) "
                + "ORDER BY type DESC, rowid"
        )
        var texts: [String: KnownTables.Texts] = [:]
        while try statement.step() {
            let name = ExactString(string: try statement.read(at: 1))
            let table: String = try statement.read(at: 2)
            let sql = (try statement.read(at: 3) as String?).map(ExactString.init)
            if statement.int64(at: 0) == 1 {
                texts[SQLIdentifier.lowercased(table)] = KnownTables.Texts(name: name, sql: sql)
            } else {
                texts[SQLIdentifier.lowercased(table)]?.indexes.append(KnownTables.Texts.Index(name: name, sql: sql))
            }
        }
        try statement.checkValuesRead()
        return texts
    }

    /// The table's description; `nil` if there is no such table.
    func table(_ name: String) throws -> TableSchema? {
        if let known = try connection.knownSchema(schema) {
            guard let object = known.table(name), let sql = object.sql else { return nil }
            return try known.description(of: name) { try description(object.name, sql) }
        }
        // Another connection may replace the table by a view meanwhile.
        return try connection.holdingSnapshots(of: [prefix]) { try tableHere(name) }
    }

    private func tableHere(_ name: String) throws -> TableSchema? {
        guard
            let master = try connection.fetchOne(
                "SELECT name, sql FROM \(master) WHERE type = 'table' AND name = ?1 COLLATE NOCASE",
                [name]
            )
        else { return nil }
        return try description(master.get(0), master.get(1))
    }

    /// - Parameters:
    ///   - name: The table's name as SQLite spells it.
    ///   - sql: The table's CREATE text.
    private func description(_ name: String, _ sql: String) throws -> TableSchema {
        let quoted = SQLIdentifier.quoted(name)

        let info = try columns(of: name)
        let options = TableOptions(sql: sql)
        let generations =
            info.contains(where: \.isGenerated) ? GeneratedColumns(createTable: sql).expressions : [:]
        var columns: [TableSchema.Column] = []
        var isAutoIncrement = false
        var primaryKey: [(position: Int64, column: Int)] = []
        for column in info {
            if column.positionInKey > 0 { primaryKey.append((column.positionInKey, columns.count)) }
            let metadata = try connection.metadata(ofColumn: column.name, table: name, schema: schema)
            if metadata.isAutoIncrement { isAutoIncrement = true }
            columns.append(
                TableSchema.Column(
                    name: column.name,
                    type: column.type,
                    collation: metadata.collation,
                    // If the expression cannot be read, the table's whole text stands for it, so that no other column counts as
                    // equal.
                    generation: column.isGenerated
                        ? generations[SQLIdentifier.lowercased(column.name)] ?? sql : nil,
                    affinity: Affinity(declaredType: column.type, isStrict: options.isStrict),
                    isNotNull: column.isNotNull,
                    defaultValue: column.defaultValue.flatMap(Self.expression)
                )
            )
        }

        let indexes = try indexes(of: quoted, columns)
        var table = TableSchema(
            name: name,
            sql: sql,
            columns: columns,
            hasRowID: !options.isWithoutRowID,
            primaryKey: options.isWithoutRowID ? indexes.first(where: \.isPrimaryKey)?.terms ?? [] : [],
            isAutoIncrement: isAutoIncrement,
            isStrict: options.isStrict,
            indexes: indexes,
            parents: options.hasForeignKeys ? try parents(of: name) : []
        )
        // A single primary key column that has no index of its own is the rowid itself.
        if table.hasRowID, primaryKey.count == 1, !indexes.contains(where: \.isPrimaryKey) {
            table.rowIDColumn = primaryKey[0].column
        }
        return table
    }

    /// The names of the columns of a table or view, including generated and hidden ones; empty if there is no such table or view.
    func columnNames(of name: String) throws -> [String] {
        if try connection.knownSchema(schema) != nil, let table = try table(name) { return table.columns.map(\.name) }
        return try columns(of: name).map(\.name)
    }

    /// What SQLite tells of a column.
    private struct ColumnInfo {
        let name: String
        let type: String
        let isNotNull: Bool
        let defaultValue: SQLiteValue?
        /// From 1 on; 0 if the column is not in the PRIMARY KEY.
        let positionInKey: Int64
        let isGenerated: Bool

        init(_ row: Statement) throws {
            name = try row.read(at: 1)
            type = try row.read(at: 2)
            isNotNull = row.int64(at: 3) == 1
            defaultValue = row.value(at: 4)
            positionInKey = row.int64(at: 5)
            // table_info has no such column; SQLite reads a missing column as NULL, and NULL as 0.
            isGenerated = [2, 3].contains(row.int64(at: 6))
        }
    }

    private func columns(of name: String) throws -> [ColumnInfo] {
        let quoted = SQLIdentifier.quoted(name)
        // table_xinfo also shows generated and hidden columns. SQLite before 3.26 has no such pragma, and answers nothing.
        let info = try connection.mapRows(once: "PRAGMA \(prefix).table_xinfo(\(quoted))", ColumnInfo.init)
        if !info.isEmpty { return info }
        return try connection.mapRows(once: "PRAGMA \(prefix).table_info(\(quoted))", ColumnInfo.init)
    }

    /// A column's default, as an expression that may stand anywhere. In a column's definition, a name as default means a string.
    ///
    /// Source: <https://www.sqlite.org/lang_createtable.html#the_default_clause>.
    private static func expression(ofDefault value: SQLiteValue) -> String? {
        guard case .text(let text) = value else { return nil }
        let bytes = Array(text.utf8)
        let tokens = SQLTokenizer(text).filter { !$0.isTrivia }
        let words = tokens.map { SQLIdentifier.lowercased(String(decoding: bytes[$0.range], as: UTF8.self)) }
        // SQLite recognises these words within parentheses and after plus signs as well.
        let inner = words.filter { !["(", ")", "+"].contains($0) }
        if inner == ["true"] || inner == ["false"], Connection.libraryVersionNumber >= 3_023_000 { return inner[0] }
        guard tokens.count == 1 else { return "(\(text)\n)" }
        let word = words[0]
        switch tokens[0].kind {
        case .identifier where ["null", "current_time", "current_date", "current_timestamp"].contains(word): return word
        case .identifier, .quotedIdentifier:
            return SQLLiteral.quoted(SQLIdentifier.unquoted(text))
        default: return "(\(text)\n)"
        }
    }

    /// The triggers of a table, in the order of their creation.
    func triggers(on table: String) throws -> [(name: String, table: String, sql: String)] {
        if let known = try connection.knownSchema(schema) {
            return known.objects(of: table).filter { $0.type == "trigger" }.map { ($0.name, $0.table, $0.sql ?? "") }
        }
        return try connection.fetchAll(
            "SELECT name, tbl_name, sql FROM \(master) WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE ORDER BY rowid",
            [table]
        ).map { (try $0.get(0), try $0.get(1), try $0.get(2)) }
    }

    /// The tables that the table's foreign keys refer to.
    func parents(of name: String) throws -> [String] {
        try foreignKeys(of: name).map(\.parent)
    }

    /// For each table, the tables that foreign keys connect with it, by names in lower case. A table without such keys is not in
    /// the result.
    func foreignKeyNeighbors() throws -> [String: Set<String>] {
        var neighbors: [String: Set<String>] = [:]
        for name in try tableNames(having: "references") {
            for parent in try parents(of: name) {
                let (child, parent) = (SQLIdentifier.lowercased(name), SQLIdentifier.lowercased(parent))
                neighbors[child, default: []].insert(parent)
                neighbors[parent, default: []].insert(child)
            }
        }
        return neighbors
    }

    private func indexes(of quoted: String, _ columns: [TableSchema.Column]) throws -> [TableSchema.Index] {
        try connection.mapRows(once: "PRAGMA \(prefix).index_list(\(quoted))") { row in
            let name: String = try row.read(at: 1)
            let terms = try connection.mapRows(once: "PRAGMA \(prefix).index_xinfo(\(SQLIdentifier.quoted(name)))") {
                term -> (isOfIndex: Bool, term: TableSchema.Index.Term) in
                let column = term.int64(at: 1)
                let made = TableSchema.Index.Term(
                    column: column == -2 ? nil : Int(column),
                    isDescending: term.int64(at: 3) == 1,
                    collation: try term.read(String?.self, at: 4) ?? "BINARY"
                )
                return (term.int64(at: 5) == 1, made)
            }
            return TableSchema.Index(
                name: name,
                isUnique: row.int64(at: 2) == 1,
                isPrimaryKey: row.text(at: 3) == "pk",
                isPartial: row.int64(at: 4) == 1,
                terms: terms.filter(\.isOfIndex).map(\.term),
                rest: terms.filter { !$0.isOfIndex }.map(\.term)
            )
        }
    }
}

/// The words that follow the columns in a CREATE TABLE.
private struct TableOptions {
    var isWithoutRowID = false
    var isStrict = false
    /// Whether the text has the word REFERENCES, which every foreign key needs.
    var hasForeignKeys = false

    init(sql: String) {
        let bytes = Array(sql.utf8)
        for token in SQLTokenizer(sql) {
            switch token.kind {
            case .rightParen:
                isWithoutRowID = false
                isStrict = false
            case .identifier:
                // Few words are as long as one of these three.
                guard [5, 6, 10].contains(token.range.count) else { continue }
                switch SQLIdentifier.lowercased(String(decoding: bytes[token.range], as: UTF8.self)) {
                case "rowid": isWithoutRowID = true
                case "strict": isStrict = true
                case "references": hasForeignKeys = true
                default: break
                }
            default: break
            }
        }
    }
}
