/// The clauses of a statement's outermost level that it has.
///
/// A SELECT has a WHERE and a FROM of its own only where it is not compound.
public struct ClauseList: Hashable, Sendable {
    /// `FROM …` of UPDATE or SELECT; not of DELETE, whose table is the target.
    public internal(set) var from: Clause?
    /// `SET …` of UPDATE.
    public internal(set) var set: Clause?
    /// `WHERE …`.
    public internal(set) var `where`: Clause?
    /// `ORDER BY …`.
    public internal(set) var orderBy: Clause?
    /// `LIMIT …`, with the offset.
    public internal(set) var limit: Clause?
    /// `RETURNING …`.
    public internal(set) var returning: Clause?
}
