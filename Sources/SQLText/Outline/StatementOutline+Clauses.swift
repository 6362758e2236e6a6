extension StatementOutline {
    /// What follows FROM; see `ClauseList.from`.
    public var from: Range<Int>? { clauses.from?.body }
    /// What follows SET.
    public var set: Range<Int>? { clauses.set?.body }
    /// The expression after WHERE.
    public var whereClause: Range<Int>? { clauses.where?.body }
    /// What follows ORDER BY.
    public var orderBy: Range<Int>? { clauses.orderBy?.body }
    /// What follows LIMIT, the offset included.
    public var limit: Range<Int>? { clauses.limit?.body }
    /// What follows RETURNING.
    public var returning: Range<Int>? { clauses.returning?.body }
}
