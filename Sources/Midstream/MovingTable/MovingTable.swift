internal import SQLText
internal import SQLiteConnection

/// A moving table as one connection sees it: its two sides, the SQL that the engine runs on them, and the statements
/// prepared from it.
///
/// It says nothing about where a row is. That stands in the target file alone, and is read anew for each statement of
/// the application, since a savepoint may be rolled back without a word to anybody.
final class MovingTable {
    let id: Int64
    /// The target's table.
    let target: TableSchema
    /// The source's table, and the schema that it is attached under.
    let source: TableSchema
    let sourceSchema: String
    let knownSource: KnownSource
    let condition: String?
    /// The same table with another source, where rows come from several: what is the target for this one is the union of
    /// `main` and of that source.
    let inner: MovingTable?
    /// Whether its rows return to the source, which changes then.
    let isReturning: Bool
    /// The table of another file that its rows move on to, in words. Then it is read alone.
    let destination: String?
    /// Whether a TEMP table or view of the application's has its name, so that there is no union table.
    let isHidden: Bool
    /// Made when the table is first used: there may be thousands.
    private(set) lazy var sql = MoveSQL(record: record, migration: migration, target: target, source: source)
    private let record: TableRecord
    private let migration: MigrationRecord
    let connection: Connection
    /// The names of the target's columns, quoted.
    private(set) lazy var quotedColumns = target.columns.map { SQLIdentifier.quoted($0.name) }
    /// See `MovingTable+Promotion`: those without a bound, and those with one.
    private(set) lazy var keyLookups = (
        unbounded: sql.keyLookups(of: target, isBounded: false), bounded: sql.keyLookups(of: target, isBounded: true)
    )
    /// See `TableSchema.comparableKeys`, and how many columns they have.
    private(set) lazy var comparableKeys = target.comparableKeys
    private(set) lazy var keyCount = MoveSQL.keyColumns(of: target).count
    /// The columns of those keys, by their offsets, in which REPLACE puts what nobody can tell in the place of NULL.
    private(set) lazy var untoldKeyColumns = {
        let keyColumns = MoveSQL.keyColumns(of: target)
        return keyColumns.indices.filter { target.columns[keyColumns[$0]].isReplacementVolatile }
    }()
    /// Whether a new row may be unique by what the guard triggers do not tell of.
    private(set) lazy var hasOtherKeys = !GuardTriggers.handsOverKeys(of: target, insertGuard)
    private let insertGuard: String?
    /// What the target's definition says of conflicts.
    private(set) lazy var constraintWords = ConstraintWords(target.sql)
    private(set) lazy var keysThatRollBack = readKeysThatRollBack()
    /// Whether the source has an index on an expression.
    private(set) lazy var hasIndexedExpressions = source.indexes.contains { $0.terms.contains { $0.column == nil } }
    let statements: InternalStatements
    private(set) lazy var coveringIndexes = CoveringIndexes(
        target: target,
        source: source,
        sql: sql,
        statements: statements
    )

    /// What promotes other rows with one of this table; `nil` where no foreign key is enforced that connects it.
    weak var keyActions: KeyActions?

    // What open cursors must know: see `RecentPromotions`.
    var recent = RecentPromotions()
    /// The cursors that statements have on the union table, which cannot be taken away under them.
    var openCursors = 0

    private var knownState = LiveState.over
    private var stateEpoch = -1
    private var knownLargestSourceKey: Int64??

    init(
        record: TableRecord,
        migration: MigrationRecord,
        target: TableSchema,
        source: TableSchema,
        sourceVersion: Int64,
        insertGuard: String?,
        inner: MovingTable? = nil,
        isHidden: Bool = false,
        statements: InternalStatements
    ) {
        id = record.id
        self.target = target
        self.source = source
        sourceSchema = migration.schema
        condition = record.condition
        self.inner = inner
        isReturning = record.undoStage != nil
        destination = record.destination
        self.isHidden = isHidden
        self.record = record
        self.migration = migration
        self.insertGuard = insertGuard
        self.statements = statements
        connection = statements.connection
        knownSource = KnownSource(source, record, migration, version: sourceVersion, connection)
    }

    var name: String { target.name }

    /// This and the others of the same table, the outermost first.
    var feeds: [MovingTable] { [self] + (inner?.feeds ?? []) }

    /// Whether rows that come from one of the sources fire the table's triggers.
    var firesTriggers: Bool { feeds.contains(where: \.record.firesTriggers) }

    /// The table that the statements of the union's target arm read.
    func targetRelation(_ scope: UnionPlan.Scope) -> String {
        guard let inner else { return sql.target }
        return "temp." + (scope == .whole ? OwnNames.whole(inner.id) : OwnNames.pending(inner.id))
    }

    /// Whether there is a union table of the pending rows alone, which writes name. Where there is no other, it tells that the
    /// overlay is there.
    var hasPendingUnion: Bool { statements.canPromote || isHidden }

    /// Whether a column of the target has NULL on neither side. What refuses NULL in the target alone may have it in the source.
    func isNeverNull(_ column: Int) -> Bool {
        column == target.rowIDColumn
            || target.columns[column].isNotNull
                && feeds.allSatisfy { feed in
                    feed.sql.columns[column].plain.map { feed.source.columns[$0].isNotNull } ?? false
                }
    }

    /// By what rows are told apart.
    var key: KeySQL { sql.key }

    /// The largest rowid of the source, which does not change unless rows return to it; `nil` when it has no rows. The
    /// largest number of all where the page that has it is damaged.
    func largestSourceKey() throws -> Int64? {
        if !isReturning, let known = knownLargestSourceKey { return known }
        var key: Int64? = .max
        do {
            // It is kept, and so must not be another table's.
            key = try connection.holdingSnapshots(of: [SQLIdentifier.quoted(sourceSchema)]) {
                try knownSource.confirm()
                return try integer(sql.largestSourceKey)
            }
        } catch let error as SQLiteError where ResultCode.corrupt ~= error.code {}
        knownLargestSourceKey = .some(key)
        return key
    }

    /// Whether neither side has a row, as far as that can be told by a look at its ends.
    ///
    /// While SQLite plans a statement of the application's: what the engine asks meanwhile is not that statement's.
    func hasNoRows() throws -> Bool {
        try statements.whileOthersArePrepared {
            try integer(sql.anyInTarget) == nil && feeds.allSatisfy { try $0.hasNothingPending() }
        }
    }

    /// Whether the source had no row, or all have been passed.
    private func hasNothingPending() throws -> Bool {
        guard let first = try state().lowerBound else { return true }
        guard key.isRowID else { return try integer(sql.anyInSource) == nil }
        return try largestSourceKey().map { $0 < first } ?? true
    }

    /// The first column of the first row of a statement of the engine's own.
    func integer(_ text: String) throws -> Int64? {
        let statement = try statement(text)
        defer { statement.reset() }
        guard try statement.step(), !statement.isNull(at: 0) else { return nil }
        return statement.int64(at: 0)
    }

    /// Whether the target has a row with that rowid.
    func targetHolds(rowID: Int64) throws -> Bool {
        guard key.isRowID else { return false }
        let statement = try statement(sql.isInTarget)
        defer { statement.reset() }
        try statement.bind(rowID, at: 1)
        return try statement.step()
    }

    /// Prepares a statement of the engine's own, once.
    func statement(_ text: String) throws -> Statement {
        try statements.statement(text)
    }

    /// Where the rows are, in the connection's current snapshot.
    ///
    /// Read once for each statement of the application, and again after a promotion: within a statement nothing else can
    /// change it.
    ///
    /// - Throws: ``MigrationError`` where the source's table is another than it was: what it lacks tells as much as what it has.
    func state() throws -> LiveState {
        if stateEpoch == statements.epoch { return knownState }
        let state = try readState()
        if state.lowerBound != nil {
            try knownSource.confirm()
            if isReturning, knownSource.isReplaced {
                statements.onReplacedSource?()
                throw knownSource.replacement
            }
        }
        knownState = state
        stateEpoch = statements.epoch
        return knownState
    }

    /// Whether the stored state says that rows are in both files.
    private func isCopying() throws -> Bool {
        guard let record = try StateStore(connection: connection).load().tables.first(where: { $0.id == id }) else {
            return false
        }
        return record.phase == .copying
    }

    private func readState() throws -> LiveState {
        if statements.isStateGone { return .over }
        let statement: Statement
        do {
            statement = try self.statement(sql.state)
            guard try statement.step() else {
                statement.reset()
                if try StateStore(connection: connection).hasGuards(of: id) { throw StateStore.isIncomplete }
                return .over
            }
        } catch let error as SQLiteError where error.isMissingTable {
            // The table has moved, and its ledger is gone with that; or the last of all, and the state.
            if try isCopying() { throw error }
            return .over
        }
        defer { statement.reset() }
        guard statement.int64(at: 0) == MigrationPhase.copying.rawValue else { return .over }
        let watermark = statement.isNull(at: 1) ? nil : statement.int64(at: 1)
        var state = LiveState(
            lowerBound: key.isRowID ? LowerBound.after(watermark) : (watermark == .max ? nil : .min),
            ceiling: statement.isNull(at: 2) ? nil : statement.int64(at: 2),
            hasLedger: statement.int64(at: 3) != 0
        )
        if key.isRowID {
            state.bound = state.lowerBound.map { .rowID($0) }
        } else if watermark != nil {
            state.bound = key.read(RowReader(statement), from: 4)
        }
        return state
    }
}

/// Where a moving table's rows are, in one snapshot.
struct LiveState {
    /// The smallest rowid that may be pending; `nil` when no row is. Where the key is another, the smallest number.
    var lowerBound: Int64?
    /// No pending row has a larger rowid; `nil` when that is not known.
    var ceiling: Int64?
    /// Whether the ledger has entries.
    var hasLedger: Bool

    /// What ``MoveSQL/isBeyond(_:isIndexed:)`` compares keys with: the smallest rowid that may be pending, or of other keys
    /// the last one that has been passed. `nil` where none has been.
    var bound: RowKey?

    /// Behind what the pending rows come.
    var position: Position {
        guard case .rowID(let first) = bound else { return bound.map(Position.after) ?? .start }
        return first == .min ? .start : .after(.rowID(first - 1))
    }

    /// Binds the bound, if there is one.
    func bindBound(_ statement: Statement, at index: Int) throws {
        if let bound { try statement.bind(bound, at: index) }
    }

    /// All rows are in the target.
    static let over = LiveState(lowerBound: nil, ceiling: nil, hasLedger: false)
}

/// Statements of the engine's own on one connection, by their text.
///
/// They are prepared with the authorizer told so, and with the programs of triggers left empty: a row that is moved or
/// promoted is not a new row, unless the migration has it fire them (``movingRows(of:_:)``).
final class InternalStatements {
    let connection: Connection
    /// The triggers that fire for rows which come into the target, where a migration asks for that.
    let fired: FiredTriggers
    /// Whether the connection may write, and so promote rows.
    let canPromote: Bool
    private var prepared: [ExactString: Statement] = [:]
    /// Raised while a statement of the engine's own is being prepared.
    private(set) var isPreparing = false
    /// Rows that the engine has changed on this connection, which `total_changes()` is not to count.
    var internalChanges: Int64 = 0
    /// How often a transaction or savepoint was rolled back, after which open scans look again where a row is.
    var rollbacks = 0
    /// How often the application has created, changed or dropped something that has a name.
    var definitions = 0
    /// Raised whenever what was read of the state may be true no longer: with each statement of the application, and with
    /// each promotion.
    var epoch = 0
    /// Whether the last migration is known to have ended, and the state to be gone with it.
    var isStateGone = false
    /// Whether other code opened the connection, and runs statements on it without a word to the engine.
    var isBorrowed: Bool { connection.isBorrowed }
    /// Rolls back the journals that keep this connection from reading sources.
    var rollBackJournals: (() throws -> Void)?
    /// Called when a statement would read a source in whose place there is another file by now.
    var onReplacedSource: (() -> Void)?
    /// Whether rows are being promoted. Where no authorizer leaves the guard triggers' programs empty, they call all the
    /// same.
    var isPromoting = false
    /// What the target was to take when it refused a pending row; `nil` where it has not since ``beginNotingRefusals()``.
    var refusal: RollbackClauses.Refusal?
    /// How many rows guard triggers have looked at since then.
    var guardedRows = 0

    func beginNotingRefusals() { (refusal, guardedRows) = (nil, 0) }

    /// Whether what is done in several statements can be undone where one of them fails.
    var isProtected = true
    /// The handles that read pending rows. The overlay may be made anew while they are open.
    var blobs = PendingBlobs()
    /// Whether the engine itself drops union tables.
    var isRemovingTables = false

    init(connection: Connection, canPromote: Bool) {
        self.connection = connection
        fired = FiredTriggers(connection: connection)
        self.canPromote = canPromote
    }

    /// What has failed while SQLite planned a statement, which goes on all the same. Where SQLite has rolled the transaction back for it,
    /// the statement's end finds that.
    var failureOfPlan: (any Error)?

    /// Notes that something was left half done. Where nothing surrounds it that can be rolled back, the transaction is lost.
    func noteHalfDone() {
        if !isProtected { connection.noteHalfUndone() }
    }

    /// Runs a write; returns the rows that it changed.
    func run(
        _ text: String,
        by step: (Statement) throws -> Bool = { try $0.step() },
        _ bind: (Statement) throws -> Void
    ) throws -> Int64 {
        try run(statement(text), by: step, bind)
    }

    func run(
        _ statement: Statement,
        by step: (Statement) throws -> Bool = { try $0.step() },
        _ bind: (Statement) throws -> Void
    ) throws -> Int64 {
        defer { statement.reset() }
        try bind(statement)
        while try step(statement) {}
        return connection.changes
    }

    func statement(_ text: String) throws -> Statement {
        let key = ExactString(string: text)
        if let statement = prepared[key], !statement.isBusy { return statement }
        let statement = try prepare(text)
        prepared[key] = statement
        return statement
    }

    /// Runs statements of the engine's own, which SQLite may prepare anew, while one of the application's is being prepared.
    func whileOthersArePrepared<Result>(_ body: () throws -> Result) rethrows -> Result {
        let outer = isPreparing
        isPreparing = true
        defer { isPreparing = outer }
        return try body()
    }

    /// Prepares a statement that the caller keeps.
    func prepare(_ text: String) throws -> Statement {
        try whileOthersArePrepared { try connection.prepare(text, persistent: true) }
    }

    func removeAll() {
        prepared.removeAll()
    }

    /// Forgets all statements where there are many, as after steps of many tables.
    func forgetSome() {
        if prepared.count > 1000 { prepared.removeAll() }
    }
}
