/// A SELECT or VALUES, or several with UNION, INTERSECT or EXCEPT between, and the ORDER BY of the whole.
public struct Query: Hashable, Sendable {
    /// What each SELECT gives, in the order of the text; nil for a VALUES.
    public let arms: [ResultList?]
    /// The terms of ORDER BY, without the keyword; nil without one.
    public let orderBy: Range<Int>?

    /// Whether it is a compound: then each term of ORDER BY is a column of the result.
    public var isCompound: Bool { arms.count > 1 }
}
