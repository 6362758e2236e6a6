internal import SQLText
internal import SQLiteConnection

extension Rebuild {
    /// What partial unique indexes, and those with expressions, take to be the same must be so of one row alone: rows that move
    /// would be refused, and with them every write.
    ///
    /// - Complexity: O(1) where the former shape has the same index, otherwise O(n log n).
    func checkOtherKeys(_ columns: [ColumnRecord], from backup: TableSchema, to new: TableSchema) throws {
        let mapped = MappedColumns(target: new, source: backup, records: columns)
        let formerIndexes = try definitions(of: backup.name).values
        for (name, definition) in try definitions(of: new.name) {
            guard let index = new.indexes.first(where: { SQLIdentifier.equal($0.name, name) }), index.isUnique,
                !index.isPlain
            else {
                continue
            }
            let names = ExpressionShape.names(in: definition.text)
            let used = new.columns.indices.filter { names.contains(SQLIdentifier.lowercased(new.columns[$0].name)) }
            // A row that is not taken is told of when it moves.
            if used.contains(where: { MappedColumns.isTruthName(new.columns[$0].name) }) { continue }
            let isSame = used.allSatisfy { column in
                mapped[column].plain.map { SQLIdentifier.equal(backup.columns[$0].name, new.columns[column].name) }
                    ?? false
            }
            if isSame, formerIndexes.contains(where: { $0.isUnique && $0.text.hasSameBytes(as: definition.text) }) {
                continue
            }
            let rows = new.columns.indices.map {
                "\(mapped[$0].operand) AS \(SQLIdentifier.quoted(new.columns[$0].name))"
            }
            let found = try connection.fetchOne(
                "SELECT 1 FROM (SELECT \(rows.joined(separator: ", ")) FROM main.\(SQLIdentifier.quoted(backup.name))) AS "
                    + "\(SQLIdentifier.quoted(new.name)) WHERE (\(definition.condition ?? "1")\n) AND "
                    + definition.terms.map { "(\($0)\n) IS NOT NULL" }.joined(separator: " AND ")
                    + " GROUP BY \(definition.terms.joined(separator: ", ")) HAVING count(*) > 1 LIMIT 1"
            )
            if found == nil { continue }
            throw refuse(
                .keyCollision,
                "several rows of table \(new.name) would have the same (\(definition.terms.joined(separator: ", "))), which is "
                    + "unique by index \(name): change or delete all but one"
            )
        }
    }

    /// What is indexed, by the indexes' names.
    private func definitions(of table: String) throws -> [String: IndexTerms] {
        let rows = try connection.fetchAll(
            "SELECT name, sql FROM main.sqlite_master WHERE type = 'index' AND tbl_name = ? COLLATE NOCASE AND sql NOT NULL",
            [table]
        )
        return Dictionary(try rows.map { (try $0.get(0), IndexTerms(try $0.get(1))) }) { first, _ in first }
    }
}

/// The parts of a CREATE INDEX that say what is indexed.
private struct IndexTerms {
    var isUnique = false
    /// Without ASC and DESC.
    var terms: [String] = []
    var condition: String?
    /// All of it, in words.
    var text = ""

    init(_ createIndex: String) {
        let bytes = Array(createIndex.utf8)
        let tokens = SQLTokenizer(createIndex).filter { !$0.isTrivia && $0.kind != .semicolon }
        func word(_ token: Token) -> String { String(decoding: bytes[token.range], as: UTF8.self) }
        func lowered(_ token: Token) -> String { SQLIdentifier.lowercased(word(token)) }
        isUnique = tokens.count > 1 && lowered(tokens[1]) == "unique"
        guard let start = tokens.firstIndex(where: { $0.kind == .leftParen }) else { return }
        var depth = 0
        var term: [Token] = []
        func finish() {
            if let last = term.last, last.kind == .identifier, ["asc", "desc"].contains(lowered(last)) {
                term.removeLast()
            }
            // A string alone is the name of a column here, and elsewhere a value.
            let isName = term.count == 1 && term[0].kind == .string
            terms.append(
                isName
                    ? SQLIdentifier.quoted(SQLIdentifier.unquoted(word(term[0])))
                    : term.map(word).joined(separator: " ")
            )
            term = []
        }
        for index in start..<tokens.count {
            let token = tokens[index]
            if token.kind == .leftParen { depth += 1 }
            if token.kind == .rightParen { depth -= 1 }
            if depth == 0 {
                finish()
                let rest = tokens[(index + 1)...].dropFirst()
                if let first = rest.first, let last = rest.last {
                    condition = String(decoding: bytes[first.range.lowerBound..<last.range.upperBound], as: UTF8.self)
                }
                break
            }
            if depth == 1, token.kind == .comma {
                finish()
            } else if index > start {
                term.append(token)
            }
        }
        text = CreateTable.words(String(decoding: bytes[tokens[start].range.lowerBound...], as: UTF8.self))
    }
}
