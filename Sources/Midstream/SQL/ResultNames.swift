internal import SQLText

/// Keeps the names of results' columns where the text is edited: SQLite names an expression by its text.
struct ResultNames {
    let outline: StatementOutline

    /// Gives each expression in which there are edits an alias, the text that it had.
    ///
    /// A column is named by its table, whatever its schema is called. In a query that others read, so is one with COLLATE.
    func keep(_ edits: inout SQLEdits, in text: String) {
        let result = outline.kind == .select ? outline.results?.range : outline.clauses.returning?.body
        let lists =
            outline.queries.compactMap { $0.arms[0]?.range } + [outline.clauses.returning?.body].compactMap(\.self)
        let changed = lists.filter(edits.change)
        if changed.isEmpty { return }
        let terms = SQLTerms(text)
        for list in changed {
            let isResult = list == result
            for term in terms.list(in: list) {
                guard let first = term.first, let last = term.last, terms.word(last) != "*" else { continue }
                let range = first.range.lowerBound..<last.range.upperBound
                guard edits.change(range), terms.alias(of: term) == nil,
                    terms.column(isResult ? term : terms.withoutCollation(term)) == nil
                else { continue }
                edits.insert(" AS " + SQLIdentifier.quoted(terms.span(of: term)), at: range.upperBound)
            }
        }
    }
}
