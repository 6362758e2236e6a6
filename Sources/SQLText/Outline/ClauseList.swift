/// The clauses that the outermost level of a statement has.
///
/// A SELECT has a WHERE and a FROM here only if it is not compound.
public struct ClauseList: Hashable, Sendable {
    /// `FROM …` of UPDATE or SELECT. A DELETE has none here, since its table is the target.
    public internal(set) var from: Clause?
    /// `SET …` of UPDATE.
    public internal(set) var set: Clause?
    /// `WHERE …`.
    public internal(set) var `where`: Clause?
    /// `ORDER BY …`.
    public internal(set) var orderBy: Clause?
    /// `LIMIT …`, including the offset.
    public internal(set) var limit: Clause?
    /// `RETURNING …`.
    public internal(set) var returning: Clause?
}
