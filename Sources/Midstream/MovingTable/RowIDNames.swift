internal import SQLText

/// Makes a query name the INTEGER PRIMARY KEY where it says `rowid`, `oid` or `_rowid_`.
///
/// In native SQLite, the two are the same column; a virtual table has no primary key. So `SELECT rowid` would give a column named
/// `rowid`, and `SELECT id … UNION … ORDER BY rowid` would name no column of the result. Only what certainly means a moving table's
/// rowid is changed.
struct RowIDNames {
    private static let names: Set<String> = ["rowid", "oid", "_rowid_"]

    let outline: StatementOutline
    /// The moving table that a reference means, if it means one.
    let movingTable: (TableReference) -> MovingTable?
    /// The name of the column that is the rowid of a table that does not move, if there is one.
    let otherKey: (ObjectName) throws -> String?

    /// Names the columns of the result as native SQLite does. The columns of a query in FROM or WITH are named as they are written.
    func nameColumns(_ edits: inout SQLEdits, in text: String) {
        guard let results = outline.results, outline.mentions(Self.names) else { return }
        let terms = SQLTerms(text)
        for term in terms.list(in: results.range) {
            // SQLite names an expression by its own text.
            guard let column = terms.column(term), let last = column.last,
                let (table, key) = rowID(column, terms, results)
            else { continue }
            edits.replace(last.range, with: table.quotedColumns[key])
        }
    }

    /// Makes the ORDER BY of compounds, at any depth, name the columns of their results by position.
    func orderCompounds(_ edits: inout SQLEdits, in text: String) throws {
        guard outline.queries.contains(where: { $0.isCompound && $0.orderBy != nil }), outline.mentions(Self.names)
        else {
            return
        }
        let terms = SQLTerms(text)
        for query in outline.queries where query.isCompound {
            for term in query.orderBy.map(terms.list) ?? [] {
                let term = terms.withoutDirection(term)
                guard let position = try position(of: term, in: query, terms), let first = term.first,
                    let last = term.last
                else { continue }
                let range = first.range.lowerBound..<last.range.upperBound
                edits.discard(in: range)
                edits.replace(range, withWord: "\(position)", of: outline)
            }
        }
    }

    // MARK: The order of a compound

    /// The position of the column of a compound's result that a term of the ORDER BY means. `nil` if SQLite finds the column by
    /// itself. On a union table, SQLite cannot see that the rowid and the primary key are the same.
    ///
    /// SQLite looks through the SELECTs in turn. In each, it looks first for the names that columns are given, then for an equal
    /// expression: <https://www.sqlite.org/lang_select.html#orderby>.
    private func position(of term: SQLTerms.Term, in query: Query, _ terms: SQLTerms) throws -> Int? {
        let isNamed = query.arms.contains { arm in
            arm.map { mentionsRowID(terms.list(in: $0.range).joined(), terms) } ?? false
        }
        guard mentionsRowID(term, terms) || isNamed else { return nil }
        for case let arm? in query.arms {
            let items = terms.list(in: arm.range)
            if let column = terms.column(term), column.count == 1,
                items.contains(where: { terms.alias(of: $0).map(terms.name) == terms.name(column[0]) })
            {
                return nil
            }
            if try isFoundInOther(term, in: items, terms, arm) { return nil }
            let wanted = words(of: term, terms, arm)
            var position: Int? = 0
            for item in items {
                if let columns = columns(of: item, terms, arm) {
                    if let place = columns.firstIndex(where: { wanted == [$0] }) {
                        return position.map { $0 + place + 1 }
                    }
                    position = position.map { $0 + columns.count }
                } else if item.last.map(terms.word) == "*" {
                    position = nil
                } else {
                    if wanted == words(of: terms.withoutCollation(terms.withoutAlias(item)), terms, arm) {
                        return position.map { $0 + 1 }
                    }
                    position = position.map { $0 + 1 }
                }
            }
        }
        return nil
    }

    private func mentionsRowID(_ tokens: some Sequence<Token>, _ terms: SQLTerms) -> Bool {
        tokens.contains { [.identifier, .quotedIdentifier].contains($0.kind) && Self.names.contains(terms.name($0)) }
    }

    /// Whether the term is the rowid of a table that does not move, and is a column of the result. SQLite itself sees that.
    private func isFoundInOther(_ term: SQLTerms.Term, in items: [SQLTerms.Term], _ terms: SQLTerms, _ arm: ResultList)
        throws -> Bool
    {
        guard let column = terms.column(term), let last = column.last, Self.names.contains(terms.name(last)),
            let reference = reference(column.dropLast().map(terms.name), arm), movingTable(reference) == nil
        else { return false }
        let key = try otherKey(reference.name).map(SQLIdentifier.lowercased)
        return items.contains { item in
            guard let name = terms.column(item)?.last.map(terms.name) else { return item.last.map(terms.word) == "*" }
            return name == key || Self.names.contains(name)
        }
    }

    /// The words of an expression. A moving table's rowid has the same word, whichever name it is written by.
    private func words(of term: SQLTerms.Term, _ terms: SQLTerms, _ arm: ResultList) -> [String] {
        let tokens = Array(SQLTerms.withoutParentheses(term))
        var words: [String] = []
        var place = 0
        while place < tokens.count {
            var end = place
            let isAlone = place == 0 || tokens[place - 1].kind != .dot
            while isAlone, end + 2 < tokens.count, end < place + 4, tokens[end + 1].kind == .dot { end += 2 }
            if let column = terms.column(tokens[place...end]), let word = keyWord(column, terms, arm) {
                words.append(word)
                place = end + 1
            } else {
                let token = tokens[place]
                words.append(token.kind == .quotedIdentifier ? terms.name(token) : terms.word(token))
                place += 1
            }
        }
        return words
    }

    /// The word that stands for a moving table's rowid in ``words(of:_:_:)``; `nil` if the column is no such rowid.
    private func keyWord(_ column: [Token], _ terms: SQLTerms, _ arm: ResultList) -> String? {
        guard let name = column.last.map(terms.name), let reference = reference(column.dropLast().map(terms.name), arm),
            let table = movingTable(reference), let key = table.target.rowIDColumn
        else { return nil }
        let isKey = SQLIdentifier.equal(table.target.columns[key].name, name)
        guard isKey || Self.names.contains(name) && !hasOwn(table) else { return nil }
        return Self.word(reference)
    }

    private static func word(_ reference: TableReference) -> String { "\u{0}\(reference.name.nameRange.lowerBound)" }

    /// The words of the columns that `*` or `t.*` stands for; `nil` unless these are the columns of one moving table.
    private func columns(of item: SQLTerms.Term, _ terms: SQLTerms, _ arm: ResultList) -> [String]? {
        guard item.last.map(terms.word) == "*", [1, 3, 5].contains(item.count) else { return nil }
        let qualifier = item.dropLast().filter { $0.kind != .dot }.map(terms.name)
        guard let reference = reference(qualifier, arm), let table = movingTable(reference) else { return nil }
        return table.target.columns.enumerated().map { index, column in
            index == table.target.rowIDColumn ? Self.word(reference) : SQLIdentifier.lowercased(column.name)
        }
    }

    // MARK: What is meant

    /// The moving table whose rowid a column means that is written as `rowid`, `oid` or `_rowid_`, and the table's primary key
    /// column. `nil` if the column means none.
    private func rowID(_ column: [Token], _ terms: SQLTerms, _ results: ResultList) -> (MovingTable, key: Int)? {
        guard let last = column.last, Self.names.contains(terms.name(last)),
            let table = reference(column.dropLast().map(terms.name), results).flatMap(movingTable),
            let key = table.target.rowIDColumn, !hasOwn(table)
        else { return nil }
        return (table, key)
    }

    /// Whether a table has a column with one of the rowid's names.
    private func hasOwn(_ table: MovingTable) -> Bool {
        table.target.columns.contains { Self.names.contains(SQLIdentifier.lowercased($0.name)) }
    }

    /// The table of a SELECT to which a column certainly belongs; `nil` if that is not certain.
    ///
    /// - Parameter qualifier: The names before the column's name.
    private func reference(_ qualifier: [String], _ results: ResultList) -> TableReference? {
        let references = outline.tableReferences.filter { $0.scope == results.scope && $0.context == .from }
        guard let name = qualifier.last else {
            guard references.count == 1, let from = results.from, isOneTable(from) else { return nil }
            return references.first
        }
        let meant = references.filter { SQLIdentifier.equal($0.alias ?? $0.name.name, name) }
        return meant.count == 1 ? meant[0] : nil
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
