extension StatementOutline {
    /// Whether the statement is an INSERT of the values of one row, or of the defaults.
    public var insertsOneRow: Bool {
        switch source {
        case .values(let rows, _)?: rows.count == 1
        case .defaultValues?: true
        default: false
        }
    }

    /// The text after FROM; see `ClauseList.from`.
    public var from: Range<Int>? { clauses.from?.body }
    /// The text after SET.
    public var set: Range<Int>? { clauses.set?.body }
    /// The expression after WHERE.
    public var whereClause: Range<Int>? { clauses.where?.body }
    /// The text after ORDER BY.
    public var orderBy: Range<Int>? { clauses.orderBy?.body }
    /// The text after LIMIT, including the offset.
    public var limit: Range<Int>? { clauses.limit?.body }
    /// The text after RETURNING.
    public var returning: Range<Int>? { clauses.returning?.body }
}
