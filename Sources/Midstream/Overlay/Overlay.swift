internal import SQLText
internal import SQLiteConnection

/// The TEMP objects by which one connection sees moving tables whole, and the functions that writes of these tables need.
///
/// SQLite resolves an unqualified name in `temp` before `main`, so whatever reads a moving table reads the union table of the
/// same name instead. The overlay ends with the connection.
///
/// It has more than 15 stored properties: they say what is installed on the connection, and what it was made for.
final class Overlay {
    let connection: Connection
    let statements: InternalStatements
    let tables: MovingTables
    let knownTables: KnownTables
    let store: StateStore
    let keys: Keyring

    /// The moving tables by their names in lower case.
    var byName: [String: MovingTable] = [:] { didSet { knownNames = nil } }
    /// The functions that the guard triggers of moving tables name, and those that the triggers of moved tables named.
    var fences: Set<String> = []
    /// The moves that the overlay was made for.
    private var installed: [Move] = []
    /// Raised with every change of the overlay: a statement that was routed before must be routed again.
    var generation = 0
    /// The target's schema version that the overlay was made for; `nil` before the first time, and when the overlay must be made
    /// anew.
    var schemaVersion: Int64?
    /// The target's schema version that the overlay was last made for. Unlike `schemaVersion`, it stays when the overlay must be
    /// made anew because of what this connection has done.
    private var madeFor: Int64?
    var attached: [String: String] = [:]
    /// The schemas of attached sources that no table needs any more.
    private var unneeded: Set<String> = []
    /// The views that have twins, by their names as SQLite spells them.
    var twins: Set<String> = [] { didSet { knownNames = nil } }
    private var knownNames: SQLNameSet?
    var viewTexts = ViewTexts()
    /// See ``InternalStatements/definitions``.
    var definitionsBeforeTwins = 0
    /// Whether a statement has had the overlay taken down and the overlay is not back yet.
    private(set) var isSuspended = false
    /// Whether the overlay was put back in the open transaction.
    var hasResumed = false
    /// Whether the transaction in which the overlay read what moves could not be ended.
    private var hasBegun = false
    /// The tables that the open transaction drained.
    var drained: [MovingTable] = []
    var moduleName = UnionModule.name
    /// Watches what statements being prepared would do to moving tables past the overlay.
    let watch = AccessWatch()
    /// What `changes()` must return if the engine's own writes have changed the number since the application's last write; `nil`
    /// otherwise.
    var changesToReport: Int64?
    /// The moving tables that have TEMP triggers of the application, on themselves or on a view of them. When SQLite reads the
    /// schema again, it would bind these triggers to the overlay's objects, and lose them.
    var boundByTemporaryTriggers: Set<Int64> = []
    /// The moving tables that a TEMP table or view of the application hides: it has the name of the table, or of a view of the
    /// table.
    var hiddenByTemporaryTables: Set<Int64> = []
    /// The moving tables whose rows return to their sources.
    var returning: [MovingTable] = []
    /// By a returning table's id, the stage that writers have waited for long enough: see `awaitReturn`.
    var awaitedStages: [Int64: Int64] = [:]
    /// The files that the application itself has attached.
    var attachedFiles: AttachedFiles
    /// The foreign keys that tie other tables to moving tables.
    var foreignKeys = ForeignKeyTies()
    /// Promotes rows for foreign keys that are enforced.
    let keyActions: KeyActions
    /// Called before a trigger of ``keyActions`` acts, where nobody announces statements. An error ends the statement.
    var beforeKeyActions: ((_ isEnforced: Bool) throws -> Void)?
    /// Whether `changes()` and `total_changes()` are SQLite's still.
    var lacksCounts = false
    /// Called before a statement writes a row of the target's table, where nobody announces statements.
    var beforeDirectWrite: ((MovingTable) throws -> Void)?

    /// Called before the overlay is made for these migrations: an error keeps the overlay as it is.
    var admission: (([MigrationRecord], [TableRecord]) throws -> Void)?
    /// Called when the sources of the moves are attached.
    var admissionOfSources: (([Move]) throws -> Void)?

    init(connection: Connection, canPromote: Bool, keys: Keyring, knownTables: KnownTables) throws {
        self.connection = connection
        self.keys = keys
        self.knownTables = knownTables
        statements = InternalStatements(connection: connection, canPromote: canPromote)
        tables = MovingTables(statements: statements, watch: watch)
        keyActions = KeyActions(statements: statements)
        store = StateStore(connection: connection)
        attachedFiles = AttachedFiles(statements: statements)
        statements.onReplacedSource = { [weak self] in self?.schemaVersion = nil }
        try defineFunctions()
        authorize()
        try createModule()
        // SQLite does not support writable virtual tables without rowids whose key has several columns.
        if !connection.isBorrowed {
            try connection.createModule(UnionModule.keyedName, UnionModule(tables: tables), isReadOnly: true)
        }
    }

    /// Creates the module under a name that is free. Before 3.30, SQLite does not replace a module, and other code's connection
    /// has one already if it has had an overlay before.
    private func createModule() throws {
        var number = 1
        while let error = errorOfModule() {
            guard error.code == .misuse, connection.isBorrowed, number < 1000 else { throw error }
            number += 1
            moduleName = "\(UnionModule.name)_\(number)"
        }
    }

    private func errorOfModule() -> SQLiteError? {
        do {
            try connection.createModule(moduleName, UnionModule(tables: tables))
            return nil
        } catch {
            return error
        }
    }

    /// Releases every statement that was prepared on the connection, which is about to be closed.
    func close() {
        byName.removeAll()
        returning.removeAll()
        drained.removeAll()
        tables.byID.removeAll()
        statements.removeAll()
    }

    var isEmpty: Bool { byName.isEmpty }

    /// The names of the moving tables, and of the views that have twins.
    var names: SQLNameSet {
        if let knownNames { return knownNames }
        let made = SQLNameSet(Array(byName.keys) + twins)
        knownNames = made
        return made
    }
    /// Whether sources are attached, even if the open transaction has drained their tables.
    var hasSources: Bool { !attached.isEmpty }
    /// The schemas under which sources are attached.
    var attachedSources: some Sequence<String> { attached.keys }

    func table(named name: String) -> MovingTable? {
        byName.isEmpty ? nil : byName[SQLIdentifier.lowercased(name)]
    }

    // MARK: Making it current

    /// The tables that must be drained before the next statement, since the overlay cannot be made for them.
    var needsDraining: (tables: Set<Int64>, reason: MigrationStatistics.Reason) {
        if hiddenByTemporaryTables.isEmpty, boundByTemporaryTriggers.isEmpty { return ([], .temporaryTable) }
        let moving = Set(byName.values.map(\.id))
        let hidden = hiddenByTemporaryTables.intersection(moving)
        if !hidden.isEmpty { return (hidden, .temporaryTable) }
        return (boundByTemporaryTriggers.intersection(moving), .temporaryTrigger)
    }

    /// Whether the overlay was made for the target's schema in the current snapshot, and no table must be drained.
    func isCurrent() throws -> Bool { try needsDraining.tables.isEmpty && reads(schemaVersion) }

    /// Whether the overlay was last made for the target's schema in the current snapshot, whatever this connection has taken out
    /// of the overlay since.
    func isOfSchema() throws -> Bool { try reads(madeFor) }

    /// A statement that reads the target, and so holds a snapshot of the target until the statement is reset; `nil` if the
    /// overlay does not fit that snapshot.
    func snapshot() throws -> Statement? {
        try needsDraining.tables.isEmpty ? snapshot(of: schemaVersion) : nil
    }

    private func snapshot(of version: Int64?) throws -> Statement? {
        let statement = try statements.statement("PRAGMA main.schema_version")
        var isCurrent = false
        defer { if !isCurrent { statement.reset() } }
        isCurrent = try statement.step() && statement.int64(at: 0) == version
        return isCurrent ? statement : nil
    }

    /// Whether the target's schema has that version in the current snapshot.
    private func reads(_ version: Int64?) throws -> Bool {
        guard let snapshot = try snapshot(of: version) else { return false }
        snapshot.reset()
        return true
    }

    /// The engine's own tables in a file's current snapshot. Each move has some tables of its own.
    func ownTables(in schema: String) throws -> Set<String> {
        Set(
            try connection.fetchAll(
                "SELECT name FROM \(SQLIdentifier.quoted(schema)).sqlite_master "
                    + "WHERE type = 'table' AND name LIKE 'midstream\\_%' ESCAPE '\\'"
            ).map { try $0.get(0) }.filter(OwnNames.isTable)
        )
    }

    /// Checks that the sources are there and are the files that rows move from. Call it before anything has been read.
    ///
    /// If no schema has changed since all tables were last checked, this makes no overlay: it is made before the first statement.
    func open() throws {
        // An error may only mean that another process has ended a move meanwhile, so that what was looked for is rightly gone.
        if (try? isAsSeen()) != true { try refresh() }
    }

    private func isAsSeen() throws -> Bool {
        try WholeFileNote.checkFinished(connection)
        let (migrations, records) = try store.load()
        let moving = records.filter { $0.phase == .copying }
        let ids = Set(moving.map(\.migration))
        guard !moving.isEmpty, moving.allSatisfy(\.isMoving),
            try UnfencedClaims(connection: connection).ids().isEmpty
        else { return false }
        let needed = migrations.filter { ids.contains($0.id) }
        for migration in needed { try attach(migration) }
        return try connection.readingTransaction {
            let seen = SeenSchemas(connection: connection)
            for migration in needed {
                guard try seen.areUnchanged(migration) else { return false }
                let claims = Claims(connection: connection, migration: migration)
                if claims.isSameFile { continue }
                let known = Dictionary(try claims.all().map { ($0.id, $0) }) { first, _ in first }
                for record in moving where record.migration == migration.id {
                    try claims.confirm(record, among: known)
                }
            }
            return true
        }
    }

    /// Makes the overlay anew if the target's schema has changed. Call it outside transactions.
    ///
    /// - Throws: ``MigrationError`` when a source cannot be reached: then the tables would silently lack rows.
    func refresh() throws {
        if connection.isBorrowed {
            // Nothing reports what other code attaches.
            try attachedFiles.note()
            try attachedFiles.check()
        }
        // The last try could not roll back, for want of memory.
        if hasBegun { try connection.rollBack() }
        hasBegun = false
        var tries = 0
        while true {
            // If the schema changes in between, the next comparison of versions finds the change.
            let version = try connection.schemaVersion()
            guard version != schemaVersion else { return try detachUnneeded() }
            schemaVersion = nil
            do {
                try allowingWrites(rebuild)
                schemaVersion = version
                madeFor = version
                return
            } catch {
                hasBegun = connection.isInTransaction
                // What does not fit together may come from two snapshots.
                tries += 1
                guard !hasBegun, tries < 10, try connection.schemaVersion() != version else { throw error }
            }
        }
    }

    /// Runs `body`, which changes only `temp`, even if the application has set `PRAGMA query_only`.
    func allowingWrites(_ body: () throws -> Void) throws {
        guard try connection.fetchValue(Int64.self, "PRAGMA query_only") == 1 else { return try body() }
        try connection.execute("PRAGMA query_only = 0")
        defer { try? connection.execute("PRAGMA query_only = 1") }
        try body()
    }

    /// Forgets what is known of the stored state, which may no longer hold.
    func forgetState() {
        statements.epoch += 1
    }

    private func rebuild() throws {
        let (migrations, records) = try store.load()
        watch.hasState = !records.isEmpty
        try WholeFileNote.checkFinished(connection)
        let moving = records.filter { $0.phase == .copying }
        try admission?(migrations, moving)
        let sources = Dictionary(migrations.map { ($0.id, $0) }) { first, _ in first }
        let needed = Set(moving.compactMap { sources[$0.migration] }.filter { $0.sourcePath != nil })
        try detachReplaced(needed)
        unneeded = Set(attached.keys).subtracting(needed.map(\.schema))
        // If a source cannot be reached, or is not what it was, the overlay stays as it was: without an overlay, the statements
        // that other code runs on its connection would find only a part of the rows.
        do {
            for migration in needed { try attach(migration) }
        } catch {
            // SQLite may have reached its limit of attached files.
            guard !unneeded.isEmpty else { throw error }
            releaseStatements()
            try detachUnneeded()
            for migration in needed { try attach(migration) }
        }
        let moves = try currentMoves(migrations, records)
        try admissionOfSources?(moves)
        let former = installed
        do {
            try replace(by: moves)
        } catch {
            if connection.isBorrowed { restore(former) }
            throw error
        }
        try detachUnneeded()
        isSuspended = false
        hasResumed = false
    }

    /// Detaches sources in whose place there are now other files; the other files are attached afterwards.
    private func detachReplaced(_ migrations: Set<MigrationRecord>) throws {
        let replaced = migrations.filter { attached[$0.schema] != nil && SourceFile.isReplaced($0, on: connection) }
        if replaced.isEmpty { return }
        releaseStatements()
        unneeded = Set(replaced.map(\.schema))
        try detachUnneeded()
    }

    private func replace(by moves: [Move]) throws {
        try removeTables()
        drained.removeAll()
        try install(moves)
        installed = moves
    }

    /// Puts the former overlay back after it could not be replaced. If that fails too, the connection can no longer write moving
    /// tables.
    private func restore(_ moves: [Move]) {
        do { try replace(by: moves) } catch { removeFences() }
    }

    /// Makes writes of moving tables fail, because other code's connection has no overlay.
    private func removeFences() {
        for fence in fences { try? connection.removeFunction(fence, argumentCount: 0) }
        fences.removeAll()
    }

    /// Whether sources that no table needs any more, and that had to stay attached, can be detached now.
    var canDetach: Bool { !unneeded.isEmpty && !connection.hasBusyStatement }

    /// Detaches the sources that no table needs any more. SQLite does not detach a file that was read in a transaction while a
    /// statement that began in the transaction still runs: such a file stays.
    private func detachUnneeded() throws {
        for schema in unneeded {
            do {
                try connection.detach(schema)
            } catch {
                guard error.code == .error, connection.hasBusyStatement else { throw error }
                continue
            }
            attached[schema] = nil
            unneeded.remove(schema)
        }
        watchWhatIsNeeded()
    }

    /// Runs a statement without the overlay: ALTER TABLE looks up the names in the text of the whole schema, and would find TEMP
    /// tables first.
    ///
    /// The next statement puts the overlay back, since putting it back may fail: within the transaction by ``resume()``,
    /// otherwise by ``refresh()``.
    func suspended<Result>(_ body: () throws -> Result) throws -> Result {
        schemaVersion = nil
        generation += 1
        isSuspended = true
        try allowingWrites(removeTables)
        return try body()
    }

    /// Puts the overlay back after a statement of the open transaction has had it taken down.
    func resume() throws {
        do {
            try allowingWrites {
                try removeTables()
                let (migrations, records) = try store.load()
                try install(currentMoves(migrations, records))
            }
        } catch {
            if connection.isBorrowed { removeFences() }
            throw error
        }
        isSuspended = false
        hasResumed = true
    }

    /// Removes the TEMP twin of a view that the application drops.
    func removeTwin(of view: String) throws {
        guard let name = twins.first(where: { SQLIdentifier.equal($0, view) }) else { return }
        try execute("DROP VIEW IF EXISTS temp.\(SQLIdentifier.quoted(name))")
        twins.remove(name)
        watch.twins = twins
        schemaVersion = nil
    }

    /// The moving tables that a new TEMP table or view with one of those names would hide: the table itself, or a view of it.
    func tablesHidden(by names: [String]) -> Set<Int64> {
        let isTwin = twins.contains { twin in names.contains { SQLIdentifier.equal($0, twin) } }
        return Set((isTwin ? Array(byName.values) : names.compactMap(table(named:))).map(\.id))
    }

    /// Makes the next refresh make the overlay anew.
    func forgetSchemaVersion() {
        schemaVersion = nil
    }

    /// The first of those names that means a table of an attached source, because neither `temp` nor `main` has the name.
    func strayTable(among names: Set<String>) throws -> String? {
        if attached.isEmpty { return nil }
        func exists(_ name: String, in master: String) throws -> Bool {
            // The application's own statement is being prepared meanwhile, and the authorizer may deny it this read. A kept
            // statement might be prepared again as it begins, and be taken for a part of the application's statement.
            let statement = try statements.prepare("SELECT 1 FROM \(master) WHERE name = ? COLLATE NOCASE")
            try statement.bind(SQLiteValue.text(name), at: 1)
            return try statement.step()
        }
        return try names.first { name in
            if try table(named: name) != nil || exists(name, in: "sqlite_temp_master")
                || exists(name, in: "main.sqlite_master")
            {
                return false
            }
            return try attached.keys.contains { try exists(name, in: SQLIdentifier.quoted($0) + ".sqlite_master") }
        }
    }

    /// The names, in lower case, that only an attached source has.
    func strayNames() throws -> [String] {
        try attached.keys.flatMap { schema -> [String] in
            let sql =
                "SELECT lower(name) FROM \(SQLIdentifier.quoted(schema)).sqlite_master WHERE name COLLATE NOCASE NOT IN "
                + "(SELECT name FROM main.sqlite_master UNION ALL SELECT name FROM sqlite_temp_master)"
            return try connection.fetchAll(sql).map { try $0.get(0, as: String.self) }
        }
    }

    /// One REINDEX for each of the target's tables.
    func tablesToReindex() throws -> [String] {
        let names = try SchemaReader(connection: connection, schema: "main").tableNames()
        return names.map { "REINDEX main.\(SQLIdentifier.quoted($0))" }
    }

    /// Whether the union tables still exist: `PRAGMA temp_store` removes all of `temp`.
    func isInPlace() throws -> Bool {
        guard let table = byName.values.first else { return true }
        return try isBack(table)
    }

    /// Runs the engine's own SQL, past the watch.
    func execute(_ sql: String) throws {
        try statements.prepare(sql).run()
    }

    // MARK: Leaving

    /// Removes everything from a connection that goes on without the overlay. Call it outside transactions, while no statement of
    /// the connection is running.
    ///
    /// If the removal fails all the same, for instance for want of memory, the guard triggers' functions are gone. So the
    /// connection, which sees only a part of the rows, cannot write.
    func dismantle() throws {
        for (name, count) in Self.functions { try connection.removeFunction(name, argumentCount: count) }
        for fence in fences { try connection.removeFunction(fence, argumentCount: 0) }
        try connection.restoreChangeCounters()
        try removeTables()
        let names = try connection.fetchAll(
            "SELECT name FROM sqlite_temp_master WHERE lower(type) = 'table' AND name LIKE 'midstream\\_%' ESCAPE '\\'"
        )
        for name in try names.map({ try $0.get(0, as: String.self) }) where OwnNames.isTable(name) {
            try execute("DROP TABLE temp.\(SQLIdentifier.quoted(name))")
        }
        close()
        connection.clearStatementCache()
        for schema in attached.keys { try connection.detach(schema) }
        attached.removeAll()
        unneeded.removeAll()
        connection.clearStatementCache()
        schemaVersion = nil
        fences.removeAll()
        installed.removeAll()
    }

    /// Releases the statements that can be prepared again.
    func releaseStatements() {
        statements.removeAll()
        connection.clearStatementCache()
    }

}
