/// What an INSERT or the statement itself wants to know of its query.
struct QueryShape {
    /// How many SELECTs and VALUES are compounded.
    var armCount = 0
    /// Whether the query is VALUES and nothing else.
    var isPlainValues = false
    /// The values of each row, if asked for.
    var rows: [[Range<Int>]] = []
    /// What the first arm gives, if that is a SELECT.
    var results: ResultList?
    /// FROM and WHERE of the last arm, ORDER BY and LIMIT of the whole.
    var clauses = ClauseList()
}
