/// The parts of one statement, found without an expression tree and without a schema.
///
/// All offsets are into the UTF-8 of the whole text. The outline guesses nothing: if it is not certain of all parts,
/// `isComplete` is false, and the parts are those found before the place that could not be understood.
///
/// It has more than 15 stored properties: one for each part that a statement of SQL may have.
public struct StatementOutline: Sendable {
    /// What the statement does.
    public internal(set) var kind = StatementKind.other
    /// What an EXPLAIN explains. All other properties are those of the explained statement.
    public internal(set) var explained: StatementKind?
    /// Whether the EXPLAIN is an EXPLAIN QUERY PLAN.
    public internal(set) var isQueryPlan = false
    /// From the first token to the last one before the semicolon.
    public internal(set) var range: Range<Int>
    /// The offset just after the semicolon that ends the statement, or the end of the text: where the next statement
    /// starts.
    public internal(set) var endOffset: Int
    /// Whether the outline accounts for every clause.
    public internal(set) var isComplete = false

    /// Whether the statement is CREATE TEMP or CREATE TEMPORARY.
    public internal(set) var isTemporary = false
    /// Whether the statement has IF EXISTS or IF NOT EXISTS.
    public internal(set) var isConditional = false

    /// The statement's own WITH clause, from WITH to the token before the verb.
    public internal(set) var with: Range<Int>?
    /// INSERT, REPLACE, UPDATE, DELETE, SELECT, VALUES or whatever the first word after EXPLAIN and WITH is.
    public internal(set) var verb: Range<Int>?
    /// The table that is written, the object of CREATE, DROP and ALTER, or the name in PRAGMA, SAVEPOINT, RELEASE,
    /// ROLLBACK TO, REINDEX, ANALYZE, VACUUM (a schema), ATTACH and DETACH (a schema).
    public internal(set) var target: ObjectName?
    /// The alias of the target.
    public internal(set) var targetAlias: TableAlias?
    /// `INDEXED BY i` or `NOT INDEXED` after the target.
    public internal(set) var indexedBy: Range<Int>?
    /// The table that CREATE INDEX or CREATE TRIGGER names after ON.
    public internal(set) var onTable: ObjectName?
    /// The word that says what to do in a conflict.
    public internal(set) var conflict: ConflictWord?
    /// The columns of INSERT, UPDATE OF or CREATE VIEW. For INSERT and CREATE VIEW, the range includes the parentheses.
    public internal(set) var columns: Range<Int>?
    /// The names in `columns`, without quotes.
    public internal(set) var columnNames: [String] = []
    /// Where an INSERT takes its rows from.
    public internal(set) var source: InsertSource?
    /// The query of CREATE VIEW and CREATE TABLE … AS.
    public internal(set) var query: Range<Int>?
    /// The results of the outermost query of SELECT, CREATE TABLE … AS and CREATE VIEW; nil if that query begins with
    /// VALUES.
    public internal(set) var results: ResultList?
    /// The assignments of an UPDATE.
    public internal(set) var assignments: [Assignment] = []
    /// The `ON CONFLICT …` clauses of an INSERT.
    public internal(set) var upsert: [Range<Int>] = []
    /// FROM, SET, WHERE, ORDER BY, LIMIT and RETURNING, each with and without its keyword.
    public internal(set) var clauses = ClauseList()
    /// The text after the name in ALTER TABLE, PRAGMA, CREATE TABLE and CREATE VIRTUAL TABLE, and after the verb of
    /// BEGIN, ATTACH, DETACH and VACUUM. For PRAGMA, without the `=` or the parentheses.
    public internal(set) var arguments: Range<Int>?

    /// The parameters in the order of the text.
    public internal(set) var parameters: [Parameter] = []
    /// Every place that names a table, at any depth, in no certain order.
    public internal(set) var tableReferences: [TableReference] = []
    /// Every column named with its table and schema, at any depth.
    public internal(set) var qualifiedReferences: [QualifiedReference] = []
    /// Everything that looks like a function call, at any depth.
    public internal(set) var functionCalls: [FunctionCall] = []
    /// Every query, at any depth. An inner query comes before the query around it.
    public internal(set) var queries: [Query] = []
    /// Whether there is a row value before an IN, at any depth.
    public internal(set) var hasRowMembership = false
    /// The scope of the statement itself, and one scope for each SELECT or VALUES in it, for each statement of a
    /// trigger, and for each WITH that is not the statement's own.
    public internal(set) var scopes = [Scope(parent: nil)]

    let bytes: SQLBytes
    let tokens: [Token]

    init(bytes: SQLBytes, tokens: [Token], range: Range<Int>, endOffset: Int) {
        self.bytes = bytes
        self.tokens = tokens
        self.range = range
        self.endOffset = endOffset
    }
}
