internal import SQLText
internal import SQLiteConnection

/// A moving table as one connection sees it: its two sides, the SQL that Midstream runs on them, and the statements prepared from
/// that SQL.
///
/// This object does not store where a row is. Only the target file does, and it is read anew for each statement of the application,
/// since a savepoint may be rolled back and nothing tells Midstream of that.
///
/// It has more than 15 stored properties, most of them lazy: each is made once for a table, of which there may be thousands.
final class MovingTable {
    let id: Int64
    /// The target's table.
    let target: TableSchema
    /// The source's table, and the schema under which it is attached.
    let source: TableSchema
    let sourceSchema: String
    let knownSource: KnownSource
    let condition: String?
    /// If rows come from several sources: the same table with another source. The target for this object is then the union of
    /// `main` and of that source.
    let inner: MovingTable?
    /// Whether the table's rows return to the source. The source changes then.
    let isReturning: Bool
    /// The table of another file to which the table's rows move on, in words. The table is only read then.
    let destination: String?
    /// Whether a TEMP table or view of the application has the table's name, so that there is no union table.
    let isHidden: Bool
    /// Created when the table is first used: there may be thousands of tables.
    private(set) lazy var sql = MoveSQL(record: record, migration: migration, target: target, source: source)
    /// The key that identifies rows.
    private(set) lazy var key = sql.key
    /// What is run for each row that is promoted, or looked for.
    private(set) lazy var copyRow = sql.copyRow
    private(set) lazy var settleRow = sql.settle
    private(set) lazy var isInLedger = sql.isInLedger
    private(set) lazy var isPendingRow = (
        unbounded: sql.isPending(isBounded: false), bounded: sql.isPending(isBounded: true)
    )
    private let record: TableRecord
    private let migration: MigrationRecord
    let connection: Connection
    /// The names of the target's columns, quoted.
    private(set) lazy var quotedColumns = target.columns.map { SQLIdentifier.quoted($0.name) }
    /// The lookups for `MovingTable+Promotion`: without and with a lower bound.
    private(set) lazy var keyLookups = (
        unbounded: sql.keyLookups(of: target, isBounded: false), bounded: sql.keyLookups(of: target, isBounded: true)
    )
    /// See `TableSchema.comparableKeys`; and the number of their columns.
    private(set) lazy var comparableKeys = target.comparableKeys
    private(set) lazy var keyCount = MoveSQL.keyColumns(of: target).count
    /// The offsets of those key columns for which nobody can tell what REPLACE puts in place of NULL.
    private(set) lazy var untoldKeyColumns = {
        let keyColumns = MoveSQL.keyColumns(of: target)
        return keyColumns.indices.filter { target.columns[keyColumns[$0]].isReplacementVolatile }
    }()
    /// Whether a new row may have to be unique by a key whose values the guard triggers do not pass on.
    private(set) lazy var hasOtherKeys = !GuardTriggers.handsOverKeys(of: target, insertGuard)
    private let insertGuard: String?
    /// What the target's definition says about conflicts.
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

    /// Promotes other rows together with a row of this table; `nil` if no enforced foreign key connects the table.
    weak var keyActions: KeyActions?

    // The promotions that open cursors must know of: see `RecentPromotions`.
    var recent = RecentPromotions()
    /// How many cursors statements have open on the union table. While there are any, the union table cannot be dropped.
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
        isReturning = record.isReturning
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

    /// The moving tables of all sources of this table, the outermost first.
    var feeds: [MovingTable] { [self] + (inner?.feeds ?? []) }

    /// Whether rows that come from one of the sources fire the table's triggers.
    var firesTriggers: Bool { feeds.contains(where: \.record.firesTriggers) }

    /// The table that the statements of the union's target arm read.
    func targetRelation(_ scope: UnionPlan.Scope) -> String {
        guard let inner else { return sql.target }
        return "temp." + (scope == .whole ? OwnNames.whole(inner.id) : OwnNames.pending(inner.id))
    }

    /// Whether there is a union table of the pending rows alone, which redirected writes name. If there is no other union table,
    /// this one shows that the overlay exists.
    var hasPendingUnion: Bool { statements.canPromote || isHidden }

    /// Whether a column of the target has NULL on neither side. A column that refuses NULL in the target alone may have NULL in the
    /// source.
    func isNeverNull(_ column: Int) -> Bool {
        column == target.rowIDColumn
            || target.columns[column].isNotNull
                && feeds.allSatisfy { feed in
                    feed.sql.columns[column].plain.map { feed.source.columns[$0].isNotNull } ?? false
                }
    }

    /// The largest rowid of the source; `nil` if the source has no rows. It does not change unless rows return to the source. It is
    /// the largest possible number if the page with that row is damaged.
    func largestSourceKey() throws -> Int64? {
        if !isReturning, let known = knownLargestSourceKey { return known }
        var key: Int64? = .max
        do {
            // The key is kept, so it must not be another table's.
            key = try connection.holdingSnapshots(of: [SQLIdentifier.quoted(sourceSchema)]) {
                try knownSource.confirm()
                return try integer(sql.largestSourceKey)
            }
        } catch let error as SQLiteError where ResultCode.corrupt ~= error.code {}
        knownLargestSourceKey = .some(key)
        return key
    }

    /// Whether neither side has a row, as far as a look at their ends can tell.
    ///
    /// This is asked while SQLite plans a statement of the application. The authorizer must not take Midstream's statements for
    /// parts of that one.
    func hasNoRows() throws -> Bool {
        try statements.whileOthersArePrepared {
            try integer(sql.anyInTarget) == nil && feeds.allSatisfy { try $0.hasNothingPending() }
        }
    }

    /// Whether the source has no row at all, or the stepper has passed all of its rows.
    private func hasNothingPending() throws -> Bool {
        guard let first = try state().lowerBound else { return true }
        guard key.isRowID else { return try integer(sql.anyInSource) == nil }
        return try largestSourceKey().map { $0 < first } ?? true
    }

    /// The first column of the first row of one of Midstream's own statements.
    func integer(_ text: String) throws -> Int64? {
        let statement = try statement(text)
        defer { statement.reset() }
        guard try statement.step(), !statement.isNull(at: 0) else { return nil }
        return statement.int64(at: 0)
    }

    /// Whether the target has a row with this rowid.
    func targetHolds(rowID: Int64) throws -> Bool {
        guard key.isRowID else { return false }
        let statement = try statement(sql.isInTarget)
        defer { statement.reset() }
        try statement.bind(rowID, at: 1)
        return try statement.step()
    }

    /// One of Midstream's own statements, prepared once.
    func statement(_ text: String) throws -> Statement {
        try statements.statement(text)
    }

    /// Where the rows are, in the connection's current snapshot.
    ///
    /// It is read once for each statement of the application, and again after a promotion: nothing else can change it within a
    /// statement.
    ///
    /// - Throws: ``MigrationError`` if the source's table is another one than before: a row that it lacks would mislead as much as
    ///   one that it has.
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

    /// Whether the stored state says that the table is being copied.
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
            // Either the table has moved and its ledger is gone, or it was the last table and the state is gone.
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
    /// The smallest rowid that may be pending; `nil` if no row is pending. If the key is not the rowid, the smallest possible
    /// number.
    var lowerBound: Int64?
    /// No pending row has a larger rowid; `nil` if no such rowid is known.
    var ceiling: Int64?
    /// Whether the ledger has entries.
    var hasLedger: Bool

    /// The key with which ``MoveSQL/isBeyond(_:isIndexed:)`` compares keys: the smallest rowid that may be pending, or if the key
    /// is not the rowid, the last key that the stepper has passed. `nil` if it has passed none.
    var bound: RowKey?

    /// The position after which the pending rows come.
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

/// Midstream's own statements on one connection, by their text.
///
/// While these statements are prepared, the authorizer knows that they are Midstream's, and leaves the programs of triggers empty:
/// a row that is moved or promoted is not a new row, unless the migration asks for triggers to fire (``movingRows(of:_:)``).
///
/// It has more than 15 stored properties: hooks of SQLite, which have no argument for it, leave word of what they have met here.
final class InternalStatements {
    let connection: Connection
    /// The triggers that fire for rows which come into the target, if a migration asks for that.
    let fired: FiredTriggers
    /// Whether the connection may write, and so promote rows.
    let canPromote: Bool
    private var prepared: [ExactString: Statement] = [:]
    /// True while one of Midstream's own statements is being prepared.
    private(set) var isPreparing = false
    /// How many row changes on this connection are Midstream's own. `total_changes()` must not count them.
    var internalChanges: Int64 = 0
    /// How many times a transaction or savepoint was rolled back. After a rollback, open scans look again where a row is.
    var rollbacks = 0
    /// How many times the application has created, changed or dropped an object that has a name.
    var definitions = 0
    /// Raised when what was read of the state may no longer be true: with each statement of the application, and with each
    /// promotion.
    var epoch = 0
    /// Whether the last migration is known to have ended, and its state to be gone.
    var isStateGone = false
    /// Whether other code opened the connection, and runs statements on it without Midstream's knowledge.
    var isBorrowed: Bool { connection.isBorrowed }
    /// Rolls back the journals that keep this connection from reading sources.
    var rollBackJournals: (() throws -> Void)?
    /// Called if a statement would read a source whose file has been replaced by another.
    var onReplacedSource: (() -> Void)?
    /// Whether rows are being promoted. Guard triggers may call functions meanwhile, if no authorizer leaves the triggers' programs
    /// empty.
    var isPromoting = false
    /// Why the target was to take a pending row that it refused; `nil` if it has refused none since ``beginNotingRefusals()``.
    var refusal: RollbackClauses.Refusal?
    /// How many rows the guard triggers have checked since ``beginNotingRefusals()``.
    var guardedRows = 0

    func beginNotingRefusals() { (refusal, guardedRows) = (nil, 0) }

    /// Whether Midstream can undo several statements if one of them fails.
    var isProtected = true
    /// The blob handles that read pending rows. The overlay may be made anew while they are open.
    var blobs = PendingBlobs()
    /// Whether Midstream itself is dropping union tables.
    var isRemovingTables = false

    init(connection: Connection, canPromote: Bool) {
        self.connection = connection
        fired = FiredTriggers(connection: connection)
        self.canPromote = canPromote
    }

    /// The error of something that failed while SQLite planned a statement. SQLite goes on nevertheless. If SQLite has rolled the
    /// transaction back because of the error, the end of the statement finds that out.
    var failureOfPlan: (any Error)?

    /// Notes that something was left half done. If nothing that can be rolled back surrounds it, the whole transaction is lost.
    func noteHalfDone() {
        if !isProtected { connection.noteHalfUndone() }
    }

    /// Runs a write.
    ///
    /// - Returns: The number of rows that the write changed.
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

    /// Runs Midstream's own statements while one of the application's is being prepared. SQLite may prepare Midstream's statements
    /// again meanwhile.
    func whileOthersArePrepared<Result>(_ body: () throws -> Result) rethrows -> Result {
        let outer = isPreparing
        isPreparing = true
        defer { isPreparing = outer }
        return try body()
    }

    /// Prepares a statement that is not kept here: the caller keeps it.
    func prepare(_ text: String) throws -> Statement {
        try whileOthersArePrepared { try connection.prepare(text, persistent: true) }
    }

    /// Lets go of all statements. When the last one goes that reads a union table, SQLite lets go of the table at once, and that calls
    /// this function again.
    func removeAll() {
        let former = prepared
        prepared = [:]
        withExtendedLifetime(former) {}
    }

    /// Forgets all statements if there are many, as after steps of many tables.
    func forgetSome() {
        if prepared.count > 1000 { removeAll() }
    }
}
