internal import SQLText
internal import SQLiteConnection

/// Watches which rows of moving tables a statement that SQLite prepares would access past the overlay.
///
/// A redirected write may access the rows of its own moving table in `main`. Any other access to a moving table's rows
/// there, by a trigger or view of the application or by a construct that the router does not know, would see only the
/// target's part. Then the table is drained, so that the statement does not give a wrong answer.
///
/// It has more than 15 stored properties: SQLite reports accesses one by one, and the result is read once the statement
/// is prepared.
final class AccessWatch {
    /// The moving tables' names as SQLite spells them, and their ids.
    var moving: [String: Int64] = [:]
    /// The table that the statement's redirected write goes to.
    private var redirected: Int64?
    /// The moving tables that foreign keys may read and write on behalf of the statement that is being prepared.
    private var actedOn: Set<Int64> = []
    /// The moving tables whose enforced foreign keys promote the rows that they need, whichever statement writes.
    var enforced: Set<Int64> = []
    /// Whether the router made the statement so that it reads the target's table and the source's.
    private var readsBothSides = false
    /// The moving tables that the statement would access past the overlay.
    private(set) var violated: Set<Int64> = []
    /// A table of an attached source that a name without a schema means, because neither `temp` nor `main` has the
    /// name.
    private(set) var strayTable: String?
    /// A table of the engine's own that the statement would change.
    private(set) var stateTable: String?
    /// The tables of which the statement reads rows but no columns. SQLite reports such a table without its schema.
    private(set) var unqualified: Set<String> = []
    /// The views whose TEMP twins read the union tables.
    var twins: Set<String> = []
    /// What the triggers of `main` may do.
    var triggers = TriggerTexts()
    /// The virtual tables that read moving ones.
    var contents = ContentTables()
    /// Whether SQLite reports a read of no column, as by `count(*)`. Before 3.20 it does not.
    static let isToldOfEveryRead = Connection.libraryVersionNumber >= 3_020_000
    /// Whether the plan of the statement being prepared relies on a moving table that has no row at present.
    private(set) var assumesNoRows = false
    /// Whether tables move or sources are attached. If not, the watch notes only what statements write and whether
    /// SQLite prepares one again, and denies changes of the stored state.
    var isWatching = false
    /// Whether the file has the stored state of moves, even if all rows of their tables have come.
    var hasState = false
    /// Whether SQLite prepared a statement again because the schema had changed.
    private(set) var hasPreparedAnew = false
    /// The schema of the table that the statement being prepared writes; `nil` if it writes none.
    private(set) var writtenSchema: String?
    /// Whether the statement being prepared writes `main`, itself or by triggers.
    private(set) var writesTarget = false
    /// The statement that SQLite must not prepare again as it begins to run.
    private var kept: Statement?
    /// The engine's own tables that a VACUUM may copy; `nil` while no VACUUM runs.
    private var vacuumed: Set<String>?
    /// Whether the watch kept a statement from beginning, because the schema has changed.
    private(set) var isStopped = false
    /// The traits of the statement that is being prepared; ``QueryTraits/unknown`` if the statement is not watched.
    private(set) var traits = QueryTraits.unknown
    private(set) var isPreparing = false
    /// Whether a statement of the application begins to run. At that moment SQLite may prepare it again.
    private var isBeginning = false

    /// Whether SQLite is preparing a statement of the application, for the first time or again.
    var isActive: Bool { isPreparing || isBeginning }

    /// Watches SQLite prepare one statement.
    ///
    /// - Returns: The result of `body`, and the moving tables that the statement would access past the overlay.
    func preparing<Result>(_ route: Route, _ body: () throws -> Result) rethrows -> (Result, violated: Set<Int64>) {
        violated.removeAll()
        strayTable = nil
        stateTable = nil
        unqualified.removeAll()
        writtenSchema = nil
        writesTarget = false
        assumesNoRows = false
        begin(route)
        isPreparing = true
        defer {
            isPreparing = false
            traits = .unknown
        }
        let result = try body()
        return (result, violated)
    }

    /// Watches one statement begin to run. SQLite may prepare it again then.
    func beginning<Result>(_ route: Route, _ body: () throws -> Result) rethrows -> Result {
        violated.removeAll()
        strayTable = nil
        stateTable = nil
        hasPreparedAnew = false
        isStopped = false
        begin(route)
        isBeginning = true
        defer { noteBegun() }
        return try body()
    }

    /// Runs `body`, in which a statement begins to run. If SQLite would prepare the statement again, the statement
    /// fails instead, and ``isStopped`` is set.
    func keeping<Result>(_ statement: Statement, _ body: () throws -> Result) rethrows -> Result {
        kept = statement
        defer { kept = nil }
        return try body()
    }

    /// Whether the watch kept the last statement from beginning. The answer is given once.
    func takeStop() -> Bool {
        defer { isStopped = false }
        return isStopped
    }

    /// Runs `body`, in which a VACUUM runs. If the VACUUM finds a table of the engine's own that is not in `tables`, it
    /// fails, and ``isStopped`` is set. A VACUUM looks at no schema before it has the lock, and does not check whether
    /// the schema has changed.
    func vacuuming<Result>(_ tables: Set<String>, _ body: () throws -> Result) rethrows -> Result {
        vacuumed = tables
        defer { vacuumed = nil }
        return try body()
    }

    /// Whether the watch must stop the statement that begins.
    private func stops(_ event: AuthorizerEvent) -> Bool {
        // Once the statement is running, SQLite prepares only statements of a virtual table or a function that the
        // statement calls.
        if let kept, !kept.isBusy { return true }
        guard let vacuumed, event.action == .insert, let table = event.first else { return false }
        return OwnNames.isTable(table) && !vacuumed.contains(table)
    }

    /// Decides on a read of no column, as by `count(*)`. SQLite reports the table, but not its schema.
    private func decideWithoutSchema(_ event: AuthorizerEvent, _ name: String) -> AuthorizerDecision {
        guard let accessor = event.accessor, !isCommonTable(accessor) else {
            unqualified.insert(name)
            return .allow
        }
        guard let id = moving[name] ?? spelled(name), !OwnNames.isTrigger(accessor), !twins.contains(accessor) else {
            return .allow
        }
        violated.insert(id)
        return decisionOnViolation
    }

    private func spelled(_ name: String) -> Int64? {
        moving.first { SQLIdentifier.equal($0.key, name) }?.value
    }

    /// Whether SQLite names one of the statement's common tables as the reader, and not a trigger or view.
    private func isCommonTable(_ accessor: String) -> Bool {
        if traits.commonTables.isEmpty { return false }
        let name = SQLIdentifier.lowercased(accessor)
        return traits.commonTables.contains(name) && !triggers.names.contains(name)
    }

    /// Notes that the plan of the statement being prepared relies on a table without rows. Such a plan is not kept.
    func noteNoRows() { assumesNoRows = true }

    private func begin(_ route: Route) {
        contents.begin()
        redirected = route.redirected
        actedOn = route.mayActByKeys ? enforced : []
        readsBothSides = route.role == .query && redirected != nil
        traits = route.traits
    }

    /// Notes that the statement has begun. If SQLite prepares a statement again from here on, it is one of the engine's
    /// own.
    func noteBegun() {
        isBeginning = false
        traits = .unknown
    }

    private static let writes: Set<AuthorizerAction> = [.insert, .update, .delete]

    /// Whether the event changes a table of the engine's own that tells where rows are. The watch denies such a change,
    /// since rows would be out of sight.
    private func keepsState(from event: AuthorizerEvent, _ table: String?) -> Bool {
        guard let table, OwnNames.tellsOfRows(table),
            !(event.accessor.map(OwnNames.isTrigger) ?? false)
        else {
            return false
        }
        stateTable = table
        return true
    }

    func decide(_ event: AuthorizerEvent) -> AuthorizerDecision {
        if isBeginning, stops(event) {
            isStopped = true
            return .deny
        }
        noteWrites(event)
        guard isWatching || hasState else { return .allow }
        if changesState(event) { return .deny }
        guard isWatching else { return .allow }
        if reachesMovingTables(event) { return decisionOnViolation }
        switch event.action {
        case .read, .insert, .update, .delete: return decideOnRows(event)
        default: return .allow
        }
    }

    /// Notes what the statement being prepared writes. If no statement is being prepared, notes that SQLite prepares
    /// one again.
    private func noteWrites(_ event: AuthorizerEvent) {
        if !isPreparing {
            hasPreparedAnew = true
        } else if Self.writes.contains(event.action) {
            if writtenSchema == nil, !event.hasAccessor { writtenSchema = event.schema }
            if event.schema == "main" { writesTarget = true }
        }
    }

    /// Whether the event is a change of the engine's own tables that must not be made.
    private func changesState(_ event: AuthorizerEvent) -> Bool {
        switch event.action {
        // If no table moves any more, a VACUUM may copy the engine's own tables. The copies are in another schema.
        case .insert, .update, .delete, .dropTable:
            (isWatching || event.schema == "main") && keepsState(from: event, event.first)
        case .alterTable:
            (isWatching || event.first == "main") && keepsState(from: event, event.second)
        default: false
        }
    }

    /// Whether a trigger or a virtual table reaches moving tables by the event. Notes these tables as violated.
    private func reachesMovingTables(_ event: AuthorizerEvent) -> Bool {
        if let accessor = event.accessor, let touched = triggers.touched[accessor]?.intersection(moving.values),
            !touched.isEmpty
        {
            violated.formUnion(touched)
            return true
        }
        let needed = contents.tables(neededBy: event, of: event.accessor.flatMap { triggers.rowReaders[$0] })
        if needed.isDisjoint(with: moving.values) { return false }
        violated.formUnion(needed.intersection(moving.values))
        return true
    }

    /// The decision on an access past the overlay. A statement that is being prepared may go on, since the table can be
    /// drained. A statement that already runs must not.
    private var decisionOnViolation: AuthorizerDecision { isPreparing ? .allow : .deny }

    /// Decides on an access to the rows of a table.
    private func decideOnRows(_ event: AuthorizerEvent) -> AuthorizerDecision {
        guard let name = event.first else { return .allow }
        guard let schema = event.schema else { return decideWithoutSchema(event, name) }
        if schema.hasPrefix(MigrationRecord.schemaPrefix) {
            if readsBothSides { return .allow }
            strayTable = name
            return .deny
        }
        if event.action != .read, event.hasAccessor, SQLIdentifier.equal(schema, "temp"), let id = moving[name] {
            // A TEMP trigger of the application writes. Its names mean the union tables, which cannot be written.
            violated.insert(id)
            return decisionOnViolation
        }
        // For a read of no column, SQLite gives the name as the statement spells it.
        guard SQLIdentifier.equal(schema, "main"), let id = moving[name] ?? spelled(name), !isRight(event, on: id)
        else {
            return .allow
        }
        violated.insert(id)
        return decisionOnViolation
    }

    /// Whether an access to a moving table's own rows misses none of the table's rows.
    private func isRight(_ event: AuthorizerEvent, on id: Int64) -> Bool {
        guard let accessor = event.accessor else { return id == redirected || actedOn.contains(id) }
        if OwnNames.isTrigger(accessor) { return true }
        guard event.action == .read else { return false }
        if triggers.rowReaders[accessor] == id, !traits.commonTables.contains(SQLIdentifier.lowercased(accessor)) {
            return true
        }
        // The trigger's program does not mention this table. It writes another table, of which a foreign key refers to
        // this one.
        return actedOn.contains(id) && triggers.isTrigger(accessor)
    }
}
