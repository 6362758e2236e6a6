internal import SQLText

extension StatementOutline {
    private static let aggregates: Set = ["count", "max", "min"]
    /// Words of constructs that give more than one row, or whose results depend on the order of rows.
    private static let otherWords = SQLNameSet(["group", "over", "limit", "union", "except", "intersect", "values"])

    /// Whether the statement is `SELECT max(…) FROM …`, or the same with `min` or `count`, and asks for nothing else. Its result is
    /// one row, which does not depend on the order of the table's rows.
    ///
    /// - Complexity: O(n) in the bytes of the statement.
    var isOneAggregate: Bool {
        guard kind == .select, isComplete, functionCalls.count == 1, Self.aggregates.contains(functionCalls[0].name),
            !mentions(Self.otherWords)
        else { return false }
        let words = StatementWords(self)
        guard words[0] == "select", Self.aggregates.contains(words[1]), words[2] == "(" else { return false }
        var depth = 1
        var next = 3
        while depth > 0, next < words.tokens.count {
            switch words.tokens[next].kind {
            case .leftParen: depth += 1
            case .rightParen: depth -= 1
            // With two arguments, max() and min() are not aggregates.
            case .comma where depth == 1: return false
            default: break
            }
            next += 1
        }
        if words[next] == "as" { next += 2 }
        return words[next] == "from"
    }
}
