internal import SQLText

/// What the planner and the watch must know of a statement besides what SQLite tells them. It comes from the texts of the
/// statement and of the views that the statement may read.
struct QueryTraits {
    /// Whether the statement's values are only literals and parameters, and it reads one table.
    var isSimple = false
    /// Whether the statement reads one table and makes one row of all that it reads, so that the order of the rows read does not
    /// show.
    var isAggregated = false
    /// Whether the statement may have a row value before an IN.
    var hasRowMembership = false
    /// Whether the statement may call `min()`.
    var hasMinimum = false
    /// Whether the statement may have a LIKE or GLOB of which SQLite tells a virtual table only the range that SQLite makes of
    /// the pattern. SQLite reports the pattern itself only for `column LIKE value`: not with ESCAPE, nor if the column is within
    /// an expression through which SQLite knows a range.
    var hidesPattern: Bool { hasPattern && mayHidePattern }
    var hasPattern = false
    var mayHidePattern = false
    /// Whether the statement may have INDEXED BY or NOT INDEXED.
    var namesIndexes = false
    /// Whether the statement may name a rowid as `rowid`, `_rowid_` or `oid`.
    var namesRowIDs = false
    /// Whether the statement may have RIGHT JOIN or FULL JOIN. For these, SQLite remembers rows of the right table by their keys,
    /// and does not report the keys among the columns used.
    var hasRightJoin = false
    /// Whether the statement may have LIMIT, so that a scan may end before its last row.
    var hasLimit = false
    /// Whether the statement may have a compound. A compound's column of numbers makes SQLite compare text with numbers, but may
    /// itself give text that looks like a number.
    var hasCompound = false
    private static let patternWords = SQLNameSet(["like", "glob"])
    private static let hidingWords = SQLNameSet(["escape", "collate", "likely", "unlikely", "likelihood", "union"])
    private static let indexWords = SQLNameSet(["indexed"])
    private static let rowIDWords = SQLNameSet(["rowid", "_rowid_", "oid"])
    private static let rightJoinWords = SQLNameSet(["right", "full"])
    private static let limitWords = SQLNameSet(["limit"])
    /// The names of common tables, in lower case.
    var commonTables: Set<String> = []

    /// The traits to assume of a statement that nobody has looked at: the worst case.
    static let unknown = QueryTraits(
        hasRowMembership: true,
        hasMinimum: true,
        hasPattern: true,
        mayHidePattern: true,
        namesIndexes: true,
        namesRowIDs: true,
        hasRightJoin: true,
        hasLimit: true,
        hasCompound: true
    )

    /// Adds the traits of one text: the statement's, or a view's.
    mutating func add(_ outline: StatementOutline) {
        if outline.hasRowMembership || !outline.isComplete { hasRowMembership = true }
        if outline.mentions(Self.patternWords) {
            hasPattern = true
            let isCalled = outline.functionCalls.contains { ["like", "glob"].contains($0.name) }
            if isCalled || !outline.isComplete { mayHidePattern = true }
        }
        if outline.mentions(Self.hidingWords) { mayHidePattern = true }
        if outline.mentions(Self.indexWords) { namesIndexes = true }
        if outline.mentions(Self.rowIDWords) { namesRowIDs = true }
        if outline.mentions(Self.rightJoinWords) { hasRightJoin = true }
        if outline.mentions(Self.limitWords) { hasLimit = true }
        if outline.hasMinimum { hasMinimum = true }
        if outline.hasCompound { hasCompound = true }
        commonTables.formUnion(outline.allCommonTables)
    }
}
