/// The words of SQLite's grammar that decide an outline; any other word is `none`.
///
/// SQLite takes a keyword for a name where its grammar has no place for the keyword, unless the keyword is reserved.
/// See `%fallback` in parse.y and https://sqlite.org/lang_keywords.html.
enum Keyword: UInt8, CaseIterable {
    case none
    // Reserved: these are never names without quotes.
    case add, all, alter, and, `as`, autoincrement, between, `case`, check, collate, commit, constraint, create
    case `default`, deferrable, delete, distinct, drop, `else`, escape, except, exists, foreign, from, group, having
    case `in`, index, insert, intersect, into, `is`, isnull, join, limit, not, nothing, notnull, null, on, or, order
    case primary, references, returning, select, set, table, then, to, transaction, union, unique, update, using
    case values, when, `where`
    // These are names in some places only.
    case cross, full, inner, left, natural, outer, right, indexed
    // These are names wherever the grammar has no place for the keyword.
    case abort, after, analyze, attach, before, begin, by, conflict, database, deferred, detach, `do`, each, end
    case exclude, exclusive, explain, fail, filter, `for`, glob, `if`, ignore, immediate, instead, key, like, match
    case materialized, of, offset, over, plan, pragma, query, recursive, regexp, reindex, release, rename, replace
    case rollback, row, savepoint, temp, temporary, trigger, vacuum, view, virtual, window, with, within

    /// The words of the cases after `none`, in the order of the cases.
    private static let spellings = """
        add all alter and as autoincrement between case check collate commit constraint create \
        default deferrable delete distinct drop else escape except exists foreign from group having \
        in index insert intersect into is isnull join limit not nothing notnull null on or order \
        primary references returning select set table then to transaction union unique update using \
        values when where \
        cross full inner left natural outer right indexed \
        abort after analyze attach before begin by conflict database deferred detach do each end \
        exclude exclusive explain fail filter for glob if ignore immediate instead key like match \
        materialized of offset over plan pragma query recursive regexp reindex release rename replace \
        rollback row savepoint temp temporary trigger vacuum view virtual window with within
        """

    /// Whether the word is never a name.
    var isReserved: Bool {
        self != .none && rawValue < Keyword.cross.rawValue
    }

    /// Whether the word is a name wherever the grammar has no place for it as a keyword.
    var isAlwaysName: Bool { self == .none || rawValue > Keyword.indexed.rawValue }

    /// Whether the word can start a join operator, as LEFT or NATURAL can.
    var isJoinWord: Bool {
        rawValue >= Keyword.cross.rawValue && rawValue <= Keyword.right.rawValue
    }

    /// Each keyword with its word in ASCII lower case.
    static let bySpelling: [(spelling: String, keyword: Keyword)] = {
        let words = spellings.split(separator: " ")
        return zip(words, allCases.dropFirst()).map { (String($0), $1) }
    }()
}
