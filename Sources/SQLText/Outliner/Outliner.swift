/// Finds the parts of a statement in one pass over its tokens.
///
/// The outliner follows SQLite's grammar (parse.y) as far as clauses and tables go. It only scans expressions: for
/// subqueries, for tables after IN, and for the word that ends the expression.
///
/// The outliner is a class, used on one stack only. As a struct it would be copied into so many frames that nesting
/// overflows a small stack in a debug build.
final class Outliner {
    /// The statement has something that the outliner does not know. The outliner stops there.
    struct Unknown: Error {}

    /// How deep queries and joins may nest. With this limit, the 512 kB stack of a secondary thread is enough, also in
    /// a debug build. SQLite's own parser takes fewer levels up to 3.45. Parentheses in expressions do not count.
    static let depthLimit = 40

    let bytes: SQLBytes
    let tokens: [Token]
    let words: [Keyword]
    /// The token to take next.
    var position = 0
    var depth = 0
    var outline: StatementOutline

    var tableReferences: [TableReference] = []
    var qualifiedReferences: [QualifiedReference] = []
    var functionCalls: [FunctionCall] = []
    var queries: [Query] = []
    var scopes = [Scope(parent: nil)]

    private init(_ statement: StatementTokens, of bytes: SQLBytes) {
        self.bytes = bytes
        tokens = statement.tokens
        words = statement.words
        let end = statement.endOffset
        let range = tokens.isEmpty ? end..<end : tokens[0].range.lowerBound..<tokens[tokens.count - 1].range.upperBound
        outline = StatementOutline(bytes: bytes, tokens: tokens, range: range, endOffset: end)
    }

    static func outline(_ statement: StatementTokens, of bytes: SQLBytes) -> StatementOutline {
        let outliner = Outliner(statement, of: bytes)
        do throws(Unknown) {
            try outliner.parseStatement()
            outliner.outline.isComplete = outliner.position == outliner.tokens.count
        } catch {
            outliner.outline.isComplete = false
        }
        outliner.collectParameters()
        var outline = outliner.outline
        outline.tableReferences = outliner.tableReferences
        outline.qualifiedReferences = outliner.qualifiedReferences
        outline.functionCalls = outliner.functionCalls
        outline.queries = outliner.queries
        outline.scopes = outliner.scopes
        return outline
    }
}
