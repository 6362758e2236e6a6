internal import SQLText

/// The statements that create a source's table in the target, under the target's name.
enum TableDefinition {
    /// The CREATE TABLE and the CREATE INDEXes, with the names edited and every other byte kept.
    ///
    /// - Parameter takenNames: The names in the target's schema, in lower case. An index gets a name that is not among
    ///   them.
    static func statements(
        for table: SourceSchema.Table,
        named target: String,
        takenNames: Set<String>
    ) throws -> [String] {
        var taken = takenNames
        var statements = [try createTable(table, named: target)]
        for index in table.indexes {
            let name = freeName(index.name, for: target, taken)
            taken.insert(SQLIdentifier.lowercased(name))
            statements.append(try createIndex(index, named: name, on: target))
        }
        return statements
    }

    /// The CREATE TRIGGER, with its own name and its table's name edited.
    ///
    /// - Returns: `nil` if the trigger's program names the source's table and that table has another name in the
    ///   target.
    static func trigger(
        _ trigger: SourceSchema.Object,
        of table: SourceSchema.Table,
        named target: String,
        takenNames: Set<String>
    ) throws -> (name: String, sql: String)? {
        let outline = SQLScript(trigger.sql).outline()
        guard let own = outline.target, let onTable = outline.onTable else { return nil }
        let name = freeName(trigger.name, for: target, takenNames)
        var edits = SQLEdits()
        if name != trigger.name { edits.replace(own.range, with: SQLIdentifier.quoted(name)) }
        if !SQLIdentifier.equal(table.name, target) {
            let bytes = Array(trigger.sql.utf8)
            let mentions = SQLTokenizer(trigger.sql).contains { token in
                token.range.lowerBound >= onTable.range.upperBound && !token.isTrivia
                    && SQLIdentifier.equal(
                        SQLIdentifier.unquoted(String(decoding: bytes[token.range], as: UTF8.self)),
                        table.name
                    )
            }
            if mentions { return nil }
            edits.replace(onTable.range, with: SQLIdentifier.quoted(target))
        }
        return (name, try edits.apply(to: trigger.sql))
    }

    private static func createTable(_ table: SourceSchema.Table, named target: String) throws -> String {
        if SQLIdentifier.equal(table.name, target) { return table.sql }
        let outline = SQLScript(table.sql).outline()
        guard outline.kind == .createTable, let name = outline.target else { throw unreadable(table.name) }
        var edits = SQLEdits()
        edits.replace(name.range, with: SQLIdentifier.quoted(target))
        for range in selfReferences(in: table.sql, to: table.name, after: name.range.upperBound) {
            edits.replace(range, with: SQLIdentifier.quoted(target))
        }
        return try edits.apply(to: table.sql)
    }

    private static func createIndex(
        _ index: SourceSchema.Object,
        named name: String,
        on target: String
    ) throws -> String {
        let outline = SQLScript(index.sql).outline()
        guard case .createIndex = outline.kind, let own = outline.target, let table = outline.onTable else {
            throw unreadable(index.name)
        }
        var edits = SQLEdits()
        if name != index.name { edits.replace(own.range, with: SQLIdentifier.quoted(name)) }
        if !SQLIdentifier.equal(table.name, target) { edits.replace(table.range, with: SQLIdentifier.quoted(target)) }
        return try edits.apply(to: index.sql)
    }

    /// The places where the definition names its own table: `REFERENCES T`, and `T.column` in a CHECK.
    private static func selfReferences(in sql: String, to name: String, after start: Int) -> [Range<Int>] {
        let bytes = Array(sql.utf8)
        let tokens = SQLTokenizer(sql).filter { !$0.isTrivia && $0.range.lowerBound >= start }
        func text(_ token: Token) -> String { String(decoding: bytes[token.range], as: UTF8.self) }
        return tokens.indices.compactMap { index in
            let token = tokens[index]
            guard token.kind == .identifier || token.kind == .quotedIdentifier || token.kind == .string,
                SQLIdentifier.equal(SQLIdentifier.unquoted(text(token)), name)
            else { return nil }
            let follows = index > 0 && SQLIdentifier.equal(text(tokens[index - 1]), "references")
            let isQualifier = index + 1 < tokens.count && tokens[index + 1].kind == .dot && token.kind != .string
            return follows || isQualifier ? token.range : nil
        }
    }

    private static func freeName(_ name: String, for table: String, _ taken: Set<String>) -> String {
        var candidate = name
        var count = 1
        while taken.contains(SQLIdentifier.lowercased(candidate)) {
            candidate = count == 1 ? "\(table)_\(name)" : "\(table)_\(name)_\(count)"
            count += 1
        }
        return candidate
    }

    private static func unreadable(_ name: String) -> CommandFailure {
        CommandFailure("the definition of \(name) cannot be read: create it in the target, then run this again")
    }
}
