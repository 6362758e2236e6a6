internal import SQLText

/// Keeps the names of result columns when a statement's text is edited: SQLite names an expression's column by the expression's
/// text.
struct ResultNames {
    let outline: StatementOutline

    /// Gives each edited expression an alias: its original text.
    ///
    /// A result column that is just a column of a table needs no alias: SQLite names it by the table's column, whatever the schema
    /// is called. In a subquery, the same holds for a column with COLLATE.
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
