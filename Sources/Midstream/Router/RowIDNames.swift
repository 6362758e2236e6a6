internal import SQLText

/// Has a read name the INTEGER PRIMARY KEY where it says `rowid`, `oid` or `_rowid_`.
///
/// Natively `SELECT rowid` gives a column of the primary key's name; a virtual table knows of no primary key, and would
/// give one named `rowid`. Only what certainly means a moving table's rowid is changed.
struct RowIDNames {
    private static let names: Set<String> = ["rowid", "oid", "_rowid_"]
    /// Words that a result's column follows.
    private static let openers: Set<String> = ["select", "distinct", "all"]

    let outline: StatementOutline
    /// The moving table that a reference means, if it means one.
    let movingTable: (TableReference) -> MovingTable?

    func apply(to edits: inout SQLEdits, in text: String) {
        guard outline.mentions(Self.names) else { return }
        let bytes = Array(text.utf8)
        let tokens = SQLTokenizer(text).filter { !$0.isTrivia && outline.range.contains($0.range.lowerBound) }
        func word(_ token: Token) -> String { String(decoding: bytes[token.range], as: UTF8.self) }
        for (position, token) in tokens.enumerated() where token.kind == .identifier && position > 0 {
            guard Self.names.contains(SQLIdentifier.lowercased(word(token))) else { continue }
            // A column of the result that is the rowid and nothing else: an expression is named by its own text.
            var start = position
            while start > 1, tokens[start - 1].kind == .dot { start -= 2 }
            let before = start > 0 ? tokens[start - 1] : nil
            let after = position + 1 < tokens.count ? tokens[position + 1] : nil
            guard let before, before.kind == .comma || Self.openers.contains(SQLIdentifier.lowercased(word(before))),
                after.map({ $0.kind == .comma || SQLIdentifier.equal(word($0), "from") }) ?? true
            else { continue }
            let table: MovingTable?
            if start < position {
                let name = SQLIdentifier.unquoted(word(tokens[position - 2]))
                table = Self.isOfSubquery(name, tokens.map { ($0.kind, word($0)) }) ? nil : meant(by: name)
            } else {
                guard outline.tableReferences.count == 1, outline.scopes.count <= 2 else { continue }
                table = outline.tableReferences.first.flatMap(movingTable)
            }
            guard let table, let key = table.target.rowIDColumn,
                !table.target.columns.contains(where: { Self.names.contains(SQLIdentifier.lowercased($0.name)) })
            else { continue }
            edits.replace(token.range, with: table.quotedColumns[key])
        }
    }

    /// Whether something in parentheses may be called so.
    private static func isOfSubquery(_ name: String, _ tokens: [(kind: TokenKind, word: String)]) -> Bool {
        tokens.indices.dropFirst().contains { position in
            guard SQLIdentifier.equal(SQLIdentifier.unquoted(tokens[position].word), name) else { return false }
            let before = SQLIdentifier.equal(tokens[position - 1].word, "as") ? position - 2 : position - 1
            return tokens.indices.contains(before) && tokens[before].kind == .rightParen
        }
    }

    /// The one moving table that is called so everywhere in the statement.
    private func meant(by name: String) -> MovingTable? {
        let references = outline.tableReferences.filter { SQLIdentifier.equal($0.alias ?? $0.name.name, name) }
        guard let first = references.first, let table = movingTable(first),
            references.allSatisfy({ movingTable($0)?.id == table.id })
        else { return nil }
        return table
    }
}
