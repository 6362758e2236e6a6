internal import SQLText

/// `SELECT count(*) FROM T` and nothing else: a count that need not go through the rows one by one.
struct WholeCount {
    let table: ObjectName
    /// The name that the result's column has.
    let resultName: String

    init?(_ outline: StatementOutline) {
        guard outline.kind == .select, outline.isComplete, outline.tableReferences.count == 1,
            outline.functionCalls.count == 1, outline.functionCalls[0].name == "count", outline.parameters.isEmpty,
            let reference = outline.tableReferences.first, reference.indexedBy == nil, !reference.isTableFunction,
            !outline.isHiddenByCommonTable(reference)
        else { return nil }
        let text = outline.text(outline.range)
        let bytes = Array(text.utf8)
        let tokens = SQLTokenizer(text).filter { !$0.isTrivia }
        func word(_ index: Int) -> String {
            tokens.indices.contains(index)
                ? SQLIdentifier.lowercased(String(decoding: bytes[tokens[index].range], as: UTF8.self)) : ""
        }
        guard word(0) == "select", word(1) == "count", word(2) == "(", word(3) == "*", word(4) == ")" else {
            return nil
        }
        var next = 5
        var name = String(decoding: bytes[tokens[1].range.lowerBound..<tokens[4].range.upperBound], as: UTF8.self)
        if word(next) == "as", tokens.indices.contains(next + 1) {
            name = SQLIdentifier.unquoted(String(decoding: bytes[tokens[next + 1].range], as: UTF8.self))
            next += 2
        }
        guard word(next) == "from" else { return nil }
        next += reference.name.schema == nil ? 2 : 4
        // An alias of the table changes nothing.
        if word(next) == "as" { next += 2 } else if next == tokens.count - 1 { next += 1 }
        guard next == tokens.count else { return nil }
        table = reference.name
        resultName = name
    }
}
