internal import SQLText

/// What planner and watch must know of a statement besides what SQLite tells them: of its text and of the views that it
/// may read.
struct QueryTraits {
    /// Whether the statement's values are literals and parameters alone, and it reads one table.
    var isSimple = false
    /// Whether it makes one row of all that it reads, so that no order of these shows, and it reads one table.
    var isAggregated = false
    /// Whether a row value may stand before an IN.
    var hasRowMembership = false
    /// Whether `min()` may be called.
    var hasMinimum = false
    /// Whether a LIKE or GLOB may be there of which SQLite tells a table no more than the range that it makes of it. It tells
    /// of `column LIKE value` alone: not with ESCAPE, nor where the column stands in something that a range is known through.
    var hidesPattern: Bool { hasPattern && mayHidePattern }
    var hasPattern = false
    var mayHidePattern = false
    /// Whether INDEXED BY or NOT INDEXED may be there.
    var namesIndexes = false
    /// Whether a rowid may be named by its own name.
    var namesRowIDs = false
    /// Whether RIGHT JOIN or FULL JOIN may be there, for which SQLite remembers rows of the right table by their keys, and does
    /// not count these among the columns used.
    var hasRightJoin = false
    /// Whether LIMIT may be there, so that a scan may end before its last row.
    var hasLimit = false
    /// Whether a compound may be there: a column of numbers, by which text is compared with numbers, may give text that looks like
    /// one.
    var hasCompound = false
    private static let patternWords = SQLNameSet(["like", "glob"])
    private static let hidingWords = SQLNameSet(["escape", "collate", "likely", "unlikely", "likelihood", "union"])
    private static let indexWords = SQLNameSet(["indexed"])
    private static let rowIDWords = SQLNameSet(["rowid", "_rowid_", "oid"])
    private static let rightJoinWords = SQLNameSet(["right", "full"])
    private static let limitWords = SQLNameSet(["limit"])
    /// The names of common tables, in lower case.
    var commonTables: Set<String> = []

    /// Of a statement that nobody has looked at: the worst.
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

    /// Adds what a part of the statement has: its text, or a view's.
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
