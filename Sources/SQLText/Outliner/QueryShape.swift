/// What an INSERT, or the statement itself, needs to know of its query.
struct QueryShape {
    /// How many SELECTs and VALUES the compound has.
    var armCount = 0
    /// Whether the query is VALUES and nothing else.
    var isPlainValues = false
    /// The values of each row, if the caller asked for them.
    var rows: [[Range<Int>]] = []
    /// The results of the first arm, if the first arm is a SELECT.
    var results: ResultList?
    /// FROM and WHERE of the last arm, ORDER BY and LIMIT of the whole.
    var clauses = ClauseList()
}
