/// A SELECT or VALUES, or several of them with UNION, INTERSECT or EXCEPT between them, and the ORDER BY of the whole.
public struct Query: Hashable, Sendable {
    /// The results of each SELECT, in the order of the text; nil for a VALUES.
    public let arms: [ResultList?]
    /// The terms of ORDER BY, without the keyword; nil without one.
    public let orderBy: Range<Int>?

    /// Whether the query is a compound. In a compound, each term of ORDER BY is a column of the result.
    public var isCompound: Bool { arms.count > 1 }
}
