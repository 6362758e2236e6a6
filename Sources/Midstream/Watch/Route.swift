internal import SQLText

/// How a statement of the application is run while tables move.
struct Route {
    /// What must be done first, in the same transaction.
    enum Preparation {
        /// Nothing.
        case none
        /// Promote the pending rows whose keys this statement gives.
        case promote(table: Int64, keys: String)
        /// Collect the keys of the rows that are meant, and promote those that are pending: what is run names the
        /// collected keys, so that a condition whose value may change is evaluated once.
        case collect(table: Int64, keys: String)
    }

    /// The kinds of statements that are treated in a way of their own when they are run.
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

    /// How a statement that no transaction surrounds sees to it that what it reads and writes is what the overlay, and so its
    /// route, was made for. Another process may begin a move while it waits for a lock.
    enum Isolation {
        /// It does not: it reads no rows, or cannot run in a transaction.
        case none
        /// It reads in a snapshot that the overlay fits. SQLite holds that from its beginning, where it reads `main`; for a union
        /// table it is held to its end.
        case snapshot(isHeld: Bool)
        /// It takes the target's write lock as it begins. If the schema has changed by then SQLite would prepare it anew, past
        /// the overlay: then it does not begin, and runs as with `transaction`.
        case unlessPreparedAnew
        /// It runs in a transaction of its own, which has the target's write lock, and whose snapshot the overlay fits.
        case transaction
    }

    var role: Role
    var isolation = Isolation.none
    /// Whether it is a pragma that sets something of the connection alone.
    var touchesNoFile = false
    /// The schema of the table that it writes, be it that of the schema itself; `nil` where it is not known to write one.
    var writtenSchema: String?
    /// Whether it writes `main`, itself or by triggers, be it the schema.
    var writesTarget = false
    /// What SQLite prepares.
    var sql: String
    var preparation: Preparation = .none
    /// The moving table that the statement writes.
    var redirected: Int64?
    /// Tables that must be drained before the statement can run natively, and why.
    private(set) var drained: Set<Int64> = []
    private(set) var reason = MigrationStatistics.Reason.program
    /// By which keys a collision has the transaction rolled back; `nil` where by none.
    var rollbacks: RollbackClauses?
    /// Whether it deletes rows, and asks nothing of them.
    var isPlainDelete = false
    /// Whether it deletes all rows of a moving table.
    var deletesAll = false
    /// Whether enforced foreign keys that connect moving tables may act on behalf of the statement, which promotes what they need.
    var mayActByKeys = false
    /// Whether natively, without the triggers of the engine's own, SQLite checks the keys of the only row before it inserts that.
    var isCheckedFirst = false
    /// Whether some of these keys are deferred, and so checked when the transaction ends.
    var mayCheckLater = false
    /// Whether the expressions of the row that it inserts are evaluated by a SELECT, once.
    var isEvaluatedOnce = false
    /// Whether it may replace rows.
    var mayReplace = false
    /// A view whose twin goes before the statement runs.
    var droppedView: String?
    /// A table that is dropped, or gets another definition, where it is no TEMP one.
    var changedTable: ObjectName?
    /// The schema whose file VACUUM writes anew.
    var vacuumed: String?
    /// Whether it attaches a file, or detaches one.
    var changesAttachedFiles = false
    /// Whether names may mean something else after it.
    var changesNames = false
    /// Whether it is made for what the tables have at present, so that the next run needs another.
    var isOfMoment = false
    /// Whether no CHECK is looked at of the rows that it inserts.
    var ignoresChecks = false
    /// What is run in the place of the statement, where there is any, all or nothing.
    var substitutes: [String] = []
    /// The statement needs the overlay out of its way.
    var suspendsOverlay = false
    /// The statement may remove or change what the overlay rests on.
    var unsettlesOverlay = false
    /// Whether it may defer foreign keys to the end of the transaction.
    var mayDeferForeignKeys = false
    var traits = QueryTraits()
    /// The views that it names, and that these name; `nil` where they cannot be read.
    private(set) var views: [StatementOutline]? = []

    /// Has tables drained before the statement runs.
    mutating func drain(_ tables: Set<Int64>, _ reason: MigrationStatistics.Reason) {
        if drained.isEmpty { self.reason = reason }
        drained.formUnion(tables)
    }

    /// Whether it takes the target's write lock.
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

    /// The same statement, once all rows of those tables are in the target.
    func draining(_ tables: Set<Int64>, _ reason: MigrationStatistics.Reason) -> Route {
        var route = self
        route.drain(tables, reason)
        return route
    }

    /// The route of the query for the keys of the rows that this route's statement means.
    var ofKeys: Route {
        var keys = Route(role: .query, sql: "", traits: traits)
        keys.traits.isSimple = false
        return keys
    }
}
