internal import SQLText

/// `SELECT count(*) FROM T` and nothing else. This count need not go through the rows one by one.
struct WholeCount {
    let table: ObjectName
    /// The name of the result's column.
    let resultName: String

    init?(_ outline: StatementOutline) {
        guard outline.kind == .select, outline.isComplete, outline.tableReferences.count == 1,
            outline.functionCalls.count == 1, outline.functionCalls[0].name == "count", outline.parameters.isEmpty,
            let reference = outline.tableReferences.first, reference.indexedBy == nil, !reference.isTableFunction,
            !outline.isHiddenByCommonTable(reference)
        else { return nil }
        let words = StatementWords(outline)
        guard words[0] == "select", words[1] == "count", words[2] == "(", words[3] == "*", words[4] == ")" else {
            return nil
        }
        var next = 5
        var name = words.text(1...4)
        if words[next] == "as", words.tokens.indices.contains(next + 1) {
            name = words.name(next + 1)
            next += 2
        }
        guard words[next] == "from" else { return nil }
        // A comment before FROM is part of the column's name.
        if next == 5, words.hasComment(between: 4, and: 5) { return nil }
        next += reference.name.schema == nil ? 2 : 4
        // An alias of the table changes nothing.
        if words[next] == "as" { next += 2 } else if next == words.tokens.count - 1 { next += 1 }
        guard next == words.tokens.count else { return nil }
        table = reference.name
        resultName = name
    }
}
