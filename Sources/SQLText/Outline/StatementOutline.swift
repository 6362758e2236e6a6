/// The parts of one statement, found without an expression tree and without a schema.
///
/// All offsets are into the UTF-8 of the whole text. What is not certain is not guessed: then `isComplete` is
/// false, and the parts are those found before the place that could not be made out.
public struct StatementOutline: Sendable {
    /// What the statement does.
    public internal(set) var kind = StatementKind.other
    /// What an EXPLAIN explains. All other properties are those of the explained statement.
    public internal(set) var explained: StatementKind?
    /// Whether the EXPLAIN is an EXPLAIN QUERY PLAN.
    public internal(set) var isQueryPlan = false
    /// The first token through the last before the semicolon.
    public internal(set) var range: Range<Int>
    /// Just after the semicolon that ends the statement, or the end of the text: where the next one starts.
    public internal(set) var endOffset: Int
    /// Whether every clause was accounted for.
    public internal(set) var isComplete = false

    /// CREATE TEMP or CREATE TEMPORARY.
    public internal(set) var isTemporary = false
    /// IF EXISTS or IF NOT EXISTS.
    public internal(set) var isConditional = false

    /// The statement's own WITH clause, from WITH to the token before the verb.
    public internal(set) var with: Range<Int>?
    /// INSERT, REPLACE, UPDATE, DELETE, SELECT, VALUES or whatever the first word after EXPLAIN and WITH is.
    public internal(set) var verb: Range<Int>?
    /// The table written to, the object of CREATE, DROP and ALTER, or the name that PRAGMA, SAVEPOINT, RELEASE,
    /// ROLLBACK TO, REINDEX, ANALYZE, VACUUM (a schema), ATTACH and DETACH (a schema) have.
    public internal(set) var target: ObjectName?
    /// The alias of the target.
    public internal(set) var targetAlias: TableAlias?
    /// `INDEXED BY i` or `NOT INDEXED` after the target.
    public internal(set) var indexedBy: Range<Int>?
    /// The table of CREATE INDEX and CREATE TRIGGER.
    public internal(set) var onTable: ObjectName?
    /// What to do about a conflict.
    public internal(set) var conflict: ConflictWord?
    /// The columns of INSERT, UPDATE OF or CREATE VIEW: for INSERT and CREATE VIEW with the parentheses.
    public internal(set) var columns: Range<Int>?
    /// The names in `columns`, without quotes.
    public internal(set) var columnNames: [String] = []
    /// Where an INSERT has its rows from.
    public internal(set) var source: InsertSource?
    /// The query of CREATE VIEW and CREATE TABLE … AS.
    public internal(set) var query: Range<Int>?
    /// What the outermost query of SELECT, CREATE TABLE … AS and CREATE VIEW gives; nil where that begins with VALUES.
    public internal(set) var results: ResultList?
    /// The assignments of an UPDATE.
    public internal(set) var assignments: [Assignment] = []
    /// The `ON CONFLICT …` clauses of an INSERT.
    public internal(set) var upsert: [Range<Int>] = []
    /// FROM, SET, WHERE, ORDER BY, LIMIT and RETURNING, with and without their keywords.
    public internal(set) var clauses = ClauseList()
    /// What follows the name of ALTER TABLE, PRAGMA, CREATE TABLE and CREATE VIRTUAL TABLE, and the verb of BEGIN,
    /// ATTACH, DETACH and VACUUM. For PRAGMA without the `=` or the parentheses.
    public internal(set) var arguments: Range<Int>?

    /// The parameters in the order of the text.
    public internal(set) var parameters: [Parameter] = []
    /// Every place that names a table, at any depth, in no certain order.
    public internal(set) var tableReferences: [TableReference] = []
    /// Every column named with its table and schema, at any depth.
    public internal(set) var qualifiedReferences: [QualifiedReference] = []
    /// Everything that looks like a call, at any depth.
    public internal(set) var functionCalls: [FunctionCall] = []
    /// Every query, at any depth: an inner one before the one around it.
    public internal(set) var queries: [Query] = []
    /// Whether a row value stands before an IN, at any depth.
    public internal(set) var hasRowMembership = false
    /// The statement itself, and one for each SELECT or VALUES in it, for each statement of a trigger, and for
    /// each WITH that is not the statement's own.
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
