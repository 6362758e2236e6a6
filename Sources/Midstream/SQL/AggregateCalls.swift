internal import SQLText

/// Calls of aggregate and window functions.
enum AggregateCalls {
    private static let names: Set<String> = [
        "avg", "count", "group_concat", "string_agg", "sum", "total", "json_group_array", "json_group_object",
        "jsonb_group_array", "jsonb_group_object", "row_number", "rank", "dense_rank", "percent_rank", "cume_dist",
        "ntile",
        "lag", "lead", "first_value", "last_value", "nth_value",
    ]
    private static let words = SQLNameSet(["over", "filter"])

    /// Whether a statement calls an aggregate or window function. `min()` and `max()` are aggregates if they have one argument.
    static func areIn(_ outline: StatementOutline, _ text: String) -> Bool {
        if outline.functionCalls.contains(where: { names.contains($0.name) }) || outline.mentions(words) { return true }
        let extremes = outline.functionCalls.filter { $0.name == "min" || $0.name == "max" }
        if extremes.isEmpty { return false }
        let tokens = SQLTokenizer(text).filter { !$0.isTrivia }
        return !extremes.allSatisfy { call in
            DescribingFunctions.list(after: call.nameRange.upperBound, tokens)?.hasSecond ?? false
        }
    }
}
