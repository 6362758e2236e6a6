internal import SQLText

/// Has a query's result name the INTEGER PRIMARY KEY where it says `rowid`, `oid` or `_rowid_`.
///
/// Natively `SELECT rowid` gives a column of the primary key's name; a virtual table knows of no primary key, and would
/// give one named `rowid`. So it is in the outermost query alone: the columns of a query in FROM, or in WITH, are named as
/// they are written. Only what certainly means a moving table's rowid is changed.
struct RowIDNames {
    private static let names: Set<String> = ["rowid", "oid", "_rowid_"]

    let outline: StatementOutline
    /// The moving table that a reference means, if it means one.
    let movingTable: (TableReference) -> MovingTable?

    func apply(to edits: inout SQLEdits, in text: String) {
        guard let results = outline.results, outline.mentions(Self.names) else { return }
        let bytes = Array(text.utf8)
        func word(_ token: Token) -> String { String(decoding: bytes[token.range], as: UTF8.self) }
        let tokens = SQLTokenizer(text).filter { !$0.isTrivia && results.range.contains($0.range.lowerBound) }
        for item in Self.items(tokens) {
            // A column that is the rowid and nothing else: an expression is named by its own text.
            let column = Self.withoutParentheses(item)
            guard let last = column.last, last.kind == .identifier,
                Self.names.contains(SQLIdentifier.lowercased(word(last))),
                let table = table(column.dropLast().map { SQLIdentifier.unquoted(word($0)) }, results),
                let key = table.target.rowIDColumn,
                !table.target.columns.contains(where: { Self.names.contains(SQLIdentifier.lowercased($0.name)) })
            else { continue }
            edits.replace(last.range, with: table.quotedColumns[key])
        }
    }

    /// The columns of a result, parted at the commas.
    private static func items(_ tokens: [Token]) -> [ArraySlice<Token>] {
        var depth = 0
        return tokens.split(omittingEmptySubsequences: false) { token in
            if token.kind == .leftParen { depth += 1 }
            if token.kind == .rightParen { depth -= 1 }
            return token.kind == .comma && depth == 0
        }
    }

    private static func withoutParentheses(_ item: ArraySlice<Token>) -> ArraySlice<Token> {
        var item = item
        while item.count > 2, item.first?.kind == .leftParen, item.last?.kind == .rightParen {
            item = item.dropFirst().dropLast()
        }
        return item
    }

    /// The moving table whose rowid is meant.
    ///
    /// - Parameter qualifier: The words before `rowid`, dots included.
    private func table(_ qualifier: [String], _ results: ResultList) -> MovingTable? {
        let references = outline.tableReferences.filter { $0.scope == results.scope && $0.context == .from }
        if qualifier.isEmpty {
            guard references.count == 1, let from = results.from, isOneTable(from) else { return nil }
            return references.first.flatMap(movingTable)
        }
        guard [2, 4].contains(qualifier.count), qualifier.last == "." else { return nil }
        let name = qualifier[qualifier.count - 2]
        let meant = references.filter { SQLIdentifier.equal($0.alias ?? $0.name.name, name) }
        return meant.count == 1 ? movingTable(meant[0]) : nil
    }

    private func isOneTable(_ from: Range<Int>) -> Bool {
        let words = outline.text(from)
        let bytes = Array(words.utf8)
        return SQLTokenizer(words).allSatisfy { token in
            token.kind != .comma && token.kind != .leftParen
                && !SQLIdentifier.equal(String(decoding: bytes[token.range], as: UTF8.self), "join")
        }
    }
}
