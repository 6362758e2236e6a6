internal import SQLText

/// How a statement of the application is run while tables move.
///
/// It has more than 15 stored properties: each is a trait of the statement that one part of the router finds and another part needs.
struct Route {
    /// What must be done first, in the same transaction.
    enum Preparation {
        /// Nothing.
        case none
        /// Promote the pending rows whose keys this statement gives.
        case promote(table: Int64, keys: String)
        /// Collect the keys of all rows that the statement affects, and promote the pending ones among them. The statement that
        /// runs names the collected keys, so a condition whose value may change is evaluated only once.
        case collect(table: Int64, keys: String)
    }

    /// The kinds of statements that Midstream treats differently when it runs them.
    enum Role {
        case query
        case write
        case begin
        case savepoint
        /// COMMIT, END, RELEASE.
        case end
        case rollback
        /// Anything else: DDL, pragmas, ATTACH.
        case other
    }

    /// How Midstream makes sure that a statement outside a transaction reads and writes the schema that the overlay, and so the
    /// route, was made for. Another process may begin a move while the statement waits for a lock.
    enum Isolation {
        /// No check: the statement reads no rows, or cannot run in a transaction.
        case none
        /// The statement reads in a snapshot that the overlay fits. If the statement reads `main`, SQLite itself holds the
        /// snapshot from the statement's beginning on. For a union table, Midstream holds the snapshot until the statement ends
        /// (`isHeld`).
        case snapshot(isHeld: Bool)
        /// The statement takes the target's write lock as it begins. If the schema has changed by then, SQLite would prepare the
        /// statement again, past the overlay. In that case the statement does not begin, and runs as with `transaction`.
        case unlessPreparedAnew
        /// The statement runs in a transaction of its own, which has the target's write lock and a snapshot that the overlay
        /// fits.
        case transaction
    }

    var role: Role
    var isolation = Isolation.none
    /// Whether the statement is a pragma that only sets something of the connection.
    var touchesNoFile = false
    /// The schema of the table that the statement writes, which may be `sqlite_master`; `nil` if it is not known to write a
    /// table.
    var writtenSchema: String?
    /// Whether the statement writes `main`, itself or by triggers; a change of the schema counts.
    var writesTarget = false
    /// The text that SQLite prepares.
    var sql: String
    var preparation: Preparation = .none
    /// The moving table that the statement writes.
    var redirected: Int64?
    /// Tables that must be drained before the statement can run natively; `reason` says why.
    private(set) var drained: Set<Int64> = []
    private(set) var reason = MigrationStatistics.Reason.program
    /// The keys of which a collision makes SQLite roll the transaction back; `nil` if no key does.
    var rollbacks: RollbackClauses?
    /// Whether the statement is a DELETE without RETURNING.
    var isPlainDelete = false
    /// Whether the statement deletes all rows of a moving table.
    var deletesAll = false
    /// Whether enforced foreign keys that connect moving tables may act on behalf of the statement. Their triggers promote the
    /// rows that the keys need.
    var mayActByKeys = false
    /// Whether native SQLite, without Midstream's triggers, checks the foreign keys of the statement's only row before it inserts
    /// the row.
    var isCheckedFirst = false
    /// Whether some foreign keys of the written table are deferred, so that SQLite checks them when the transaction ends.
    var mayCheckLater = false
    /// Whether a SELECT takes the place of VALUES, so that SQLite evaluates the inserted row's expressions once.
    var isEvaluatedOnce = false
    /// Whether the statement may replace rows.
    var mayReplace = false
    /// A view whose twin must be dropped before the statement runs.
    var droppedView: String?
    /// A table, not a TEMP one, that the statement drops or alters.
    var changedTable: ObjectName?
    /// The schema whose file a VACUUM rewrites in place.
    var vacuumed: String?
    /// Whether the statement attaches or detaches a file.
    var changesAttachedFiles = false
    /// Whether names may mean something else after the statement.
    var changesNames = false
    /// Whether the route depends on what the tables contain at present, so that the next run needs a new route.
    var isOfMoment = false
    /// Whether SQLite must not check CHECK constraints of the rows that the statement inserts.
    var ignoresChecks = false
    /// Statements that run in place of the application's, all or none of them; empty if the application's own statement runs.
    var substitutes: [String] = []
    /// Whether the overlay must be taken down while the statement runs.
    var suspendsOverlay = false
    /// Whether the statement may remove or change what the overlay depends on.
    var unsettlesOverlay = false
    /// Whether the statement may defer foreign keys to the end of the transaction.
    var mayDeferForeignKeys = false
    var traits = QueryTraits()
    /// The views that the statement names, and the views that these name; `nil` if they cannot be read.
    private(set) var views: [StatementOutline]? = []

    /// Adds tables that must be drained before the statement runs.
    mutating func drain(_ tables: Set<Int64>, _ reason: MigrationStatistics.Reason) {
        if drained.isEmpty { self.reason = reason }
        drained.formUnion(tables)
    }

    /// Whether the statement takes the target's write lock.
    var locksTarget: Bool {
        switch isolation {
        case .none, .snapshot: false
        case .unlessPreparedAnew: writesTarget
        case .transaction: true
        }
    }

    mutating func add(views: [StatementOutline]) {
        self.views = views
        for view in views { traits.add(view) }
    }

    /// This route, with the given tables drained first.
    func draining(_ tables: Set<Int64>, _ reason: MigrationStatistics.Reason) -> Route {
        var route = self
        route.drain(tables, reason)
        return route
    }

    /// The route of the query that finds the keys of the rows that this route's statement affects.
    var ofKeys: Route {
        var keys = Route(role: .query, sql: "", traits: traits)
        keys.traits.isSimple = false
        return keys
    }
}
