internal import SQLText

/// Looks for terms that may give another value when they are evaluated again, in the clauses that choose a statement's rows.
struct VolatileTerms {
    let isFound: Bool

    /// - Parameter views: The views that the statement names.
    init(outline: StatementOutline, views: [StatementOutline]) {
        // The new values of an UPDATE are evaluated only once anyway.
        let calls = outline.functionCalls.filter { call in
            outline.set.map { !$0.contains(call.nameRange.lowerBound) } ?? true
        }
        isFound =
            (calls + views.flatMap(\.functionCalls)).contains { !Self.isStable($0.name) }
            || ([outline] + views).contains { !$0.isComplete || $0.mentions(Self.words) }
    }

    private static let words = SQLNameSet(["current_timestamp", "current_time", "current_date", "regexp"])

    /// Whether a function gives equal results for equal arguments.
    static func isStable(_ function: String) -> Bool { stable.contains(function) }

    /// Whether a function gives equal results for equal arguments throughout a statement.
    ///
    /// Source: <https://www.sqlite.org/deterministic.html>.
    static func isSteady(_ function: String) -> Bool { isStable(function) || steady.contains(function) }

    private static let steady: Set<String> = [
        "date", "time", "datetime", "julianday", "unixepoch", "strftime", "timediff", "last_insert_rowid",
    ]

    /// Functions of SQLite that give equal results for equal arguments. Functions that are not listed may not: `random()`, date
    /// functions, which may use the current time, and functions of the application.
    private static let stable: Set<String> = [
        "abs", "char", "coalesce", "concat", "concat_ws", "format", "glob", "hex", "ifnull", "iif", "if", "instr",
        "length", "like", "likelihood", "likely", "lower", "ltrim", "max", "min", "nullif", "octet_length", "printf",
        "quote", "replace", "round", "rtrim", "sign", "soundex", "substr", "substring", "trim", "typeof", "unhex",
        "unicode", "unlikely", "upper", "zeroblob", "cast", "raise", "exists", "in",
        "avg", "count", "group_concat", "string_agg", "sum", "total",
        "row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead", "first_value",
        "last_value", "nth_value",
        "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "ceiling", "cos", "cosh", "degrees", "exp",
        "floor", "ln", "log", "log10", "log2", "mod", "pi", "pow", "power", "radians", "sin", "sinh", "sqrt", "tan",
        "tanh", "trunc",
        "json", "json_array", "json_array_length", "json_extract", "json_insert", "json_object", "json_patch",
        "json_quote", "json_remove", "json_replace", "json_set", "json_type", "json_valid", "json_each", "json_tree",
        "json_group_array", "json_group_object",
        "jsonb", "jsonb_array", "jsonb_extract", "jsonb_insert", "jsonb_object", "jsonb_patch", "jsonb_remove",
        "jsonb_replace", "jsonb_set", "jsonb_group_array", "jsonb_group_object",
        // `last_insert_rowid` is not listed: a promotion inserts a row.
        "changes", "total_changes", "sqlite_version",
    ]
}
