internal import SQLText
internal import SQLiteConnection

/// Watches what statements being prepared would do to moving tables past the overlay.
///
/// An access to a moving table's own rows is right when a redirected write of that very table makes it. Any other, by a
/// trigger or view of the application or by a construct that the router does not know, would see the target's part
/// alone: then the table is drained, not answered wrongly.
///
/// It has more than 15 stored properties: SQLite reports accesses one by one, and the sum is read once the statement is prepared.
final class AccessWatch {
    /// The moving tables' names as SQLite spells them, and their ids.
    var moving: [String: Int64] = [:]
    /// The table that the statement's redirected write goes to.
    private var redirected: Int64?
    /// The moving tables that foreign keys may read and write on behalf of the statement.
    private var actedOn: Set<Int64> = []
    /// The moving tables whose enforced keys promote what they need, whatever writes.
    var enforced: Set<Int64> = []
    /// Whether the statement is one that the router made of both sides.
    private var readsBothSides = false
    /// The tables that were accessed otherwise.
    private(set) var violated: Set<Int64> = []
    /// A table of an attached source that a name without a schema fell through to, since no other schema has it.
    private(set) var strayTable: String?
    /// A table of the engine's own that the statement would change.
    private(set) var stateTable: String?
    /// Tables of which rows are read but no columns, by names without a schema.
    private(set) var unqualified: Set<String> = []
    /// The views whose TEMP twins read the union tables.
    var twins: Set<String> = []
    /// What the triggers of `main` may do.
    var triggers = TriggerTexts()
    /// The virtual tables that read moving ones.
    var contents = ContentTables()
    /// Before 3.20, SQLite does not tell of a read of no column, as by `count(*)`.
    static let isToldOfEveryRead = Connection.libraryVersionNumber >= 3_020_000
    /// Whether the statement being prepared was planned for a moving table that has no row at present.
    private(set) var assumesNoRows = false
    /// Whether tables move or sources are attached: else nothing is looked at but what is prepared anew.
    var isWatching = false
    /// Whether the file has the stored state of moves, be they of tables all of whose rows have come.
    var hasState = false
    /// Whether a statement was prepared anew, since the schema had changed.
    private(set) var hasPreparedAnew = false
    /// The schema of the table that the statement being prepared writes; `nil` where it writes none.
    private(set) var writtenSchema: String?
    /// Whether the statement being prepared writes `main`, itself or by triggers.
    private(set) var writesTarget = false
    /// The statement that must not be prepared anew as it begins to run.
    private var kept: Statement?
    /// The engine's own tables of which a VACUUM may write copies.
    private var vacuumed: Set<String>?
    /// Whether the statement that begins was kept from it, since the schema has changed.
    private(set) var isStopped = false
    /// Of the statement that is being prepared. Nothing is known of one that is not watched.
    private(set) var traits = QueryTraits.unknown
    private(set) var isPreparing = false
    /// Whether a statement of the application's begins to run, which is when SQLite may prepare it anew.
    private var isBeginning = false

    /// Whether what is being prepared is a statement of the application's.
    var isActive: Bool { isPreparing || isBeginning }

    /// Watches one statement being prepared.
    ///
    /// - Returns: The tables that it would access past the overlay.
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

    /// Watches one statement beginning to run, which SQLite may prepare anew.
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

    /// Runs `body`, in which a statement begins to run, and fails rather than being prepared anew: ``isStopped`` tells.
    func keeping<Result>(_ statement: Statement, _ body: () throws -> Result) rethrows -> Result {
        kept = statement
        defer { kept = nil }
        return try body()
    }

    /// Whether the last statement that began was kept from it; asked once.
    func takeStop() -> Bool {
        defer { isStopped = false }
        return isStopped
    }

    /// Runs `body`, in which a VACUUM runs, and fails where it finds other tables of the engine's own than these:
    /// ``isStopped`` tells. It looks at no schema before it has the lock, and not whether that has changed.
    func vacuuming<Result>(_ tables: Set<String>, _ body: () throws -> Result) rethrows -> Result {
        vacuumed = tables
        defer { vacuumed = nil }
        return try body()
    }

    /// Whether the statement that begins must not go on.
    private func stops(_ event: AuthorizerEvent) -> Bool {
        // Once it is running, what is prepared is of a virtual table or a function that it calls.
        if let kept, !kept.isBusy { return true }
        guard let vacuumed, event.action == .insert, let table = event.first else { return false }
        return OwnNames.isTable(table) && !vacuumed.contains(table)
    }

    /// A read of no column, as by `count(*)`: SQLite says which table, but not of which schema.
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

    /// Whether SQLite names one of the statement's common tables as what reads, and not a trigger or view.
    private func isCommonTable(_ accessor: String) -> Bool {
        if traits.commonTables.isEmpty { return false }
        let name = SQLIdentifier.lowercased(accessor)
        return traits.commonTables.contains(name) && !triggers.names.contains(name)
    }

    /// Notes that the plan of the statement being prepared is for a table without rows, so that it is not kept.
    func noteNoRows() { assumesNoRows = true }

    private func begin(_ route: Route) {
        contents.begin()
        redirected = route.redirected
        actedOn = route.mayActByKeys ? enforced : []
        readsBothSides = route.role == .query && redirected != nil
        traits = route.traits
    }

    /// The statement has begun: what is prepared anew from here on are statements of the engine's own.
    func noteBegun() {
        isBeginning = false
        traits = .unknown
    }

    private static let writes: Set<AuthorizerAction> = [.insert, .update, .delete]

    /// Whether the event is a change of a table of the engine's own, which must not be: rows would be out of sight.
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

    /// Notes what the statement being prepared writes, or that another one is prepared anew.
    private func noteWrites(_ event: AuthorizerEvent) {
        if !isPreparing {
            hasPreparedAnew = true
        } else if Self.writes.contains(event.action) {
            if writtenSchema == nil, !event.hasAccessor { writtenSchema = event.schema }
            if event.schema == "main" { writesTarget = true }
        }
    }

    /// Whether the event is a change of the engine's own tables, which must not be made.
    private func changesState(_ event: AuthorizerEvent) -> Bool {
        switch event.action {
        // Where no table moves any more, a VACUUM writes copies of them, which are in another schema.
        case .insert, .update, .delete, .dropTable:
            (isWatching || event.schema == "main") && keepsState(from: event, event.first)
        case .alterTable:
            (isWatching || event.first == "main") && keepsState(from: event, event.second)
        default: false
        }
    }

    /// Whether a trigger or a virtual table reaches moving tables by the event. Notes these tables.
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

    /// What is decided on an access past the overlay. A statement that already runs must not get any further.
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
            // A TEMP trigger of the application's: its names mean the union tables, which cannot be written.
            violated.insert(id)
            return decisionOnViolation
        }
        // Of a read of no column, as the statement spells it.
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
        // A program that does not mention the table writes another one, of which a key refers to it.
        return actedOn.contains(id) && triggers.isTrigger(accessor)
    }
}
