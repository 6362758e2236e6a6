internal import SQLText
internal import SQLiteConnection

/// The TEMP objects by which one connection sees moving tables whole, and the functions that their writes need.
///
/// SQLite resolves an unqualified name in `temp` before `main`: a union table of the same name takes the place of each
/// moving table in whatever reads it. The overlay dies with the connection.
final class Overlay {
    let connection: Connection
    let statements: InternalStatements
    let tables: MovingTables
    let knownTables: KnownTables
    private let store: StateStore
    private let keys: Keyring

    /// The moving tables by their names' lower case.
    private(set) var byName: [String: MovingTable] = [:] { didSet { knownNames = nil } }
    /// The functions that the guard triggers of those name, and of tables that have moved.
    private var fences: Set<String> = []
    /// What the overlay was made for.
    private var installed: [Move] = []
    /// Raised with every change of the overlay: what was routed before must be routed anew.
    private(set) var generation = 0
    /// The target's schema version that the overlay was made for; `nil` before the first time.
    private(set) var schemaVersion: Int64?
    /// The same, also when it has to be made anew for what this connection has done.
    private var madeFor: Int64?
    private var attached: [String: String] = [:]
    /// Those of them that no table needs any more.
    private var unneeded: Set<String> = []
    /// The views that have twins, by their names as SQLite spells them.
    private(set) var twins: Set<String> = [] { didSet { knownNames = nil } }
    private var knownNames: SQLNameSet?
    private var viewTexts = ViewTexts()
    /// See ``InternalStatements/definitions``.
    private var definitionsBeforeTwins = 0
    /// Whether a statement has had the overlay taken down, and it is not back yet.
    private(set) var isSuspended = false
    /// Whether it was put back in the open transaction.
    private var hasResumed = false
    /// Whether a transaction in which it was read what moves could not be ended.
    private var hasBegun = false
    /// Tables that the open transaction drained.
    private var drained: [MovingTable] = []
    private var moduleName = UnionModule.name
    /// What statements being prepared would do to moving tables without the overlay.
    let watch = AccessWatch()
    /// What `changes()` is to say when writes of the engine's own have changed it since the application's last one.
    private var changesToReport: Int64?
    /// The moving tables with TEMP triggers of the application's on them or on a view of them. SQLite would take the
    /// triggers for the overlay's when it reads the schema again, and lose them.
    private(set) var boundByTemporaryTriggers: Set<Int64> = []
    /// The moving tables whose names, or those of views of them, mean TEMP tables or views of the application's.
    private(set) var hiddenByTemporaryTables: Set<Int64> = []
    /// Those of them whose rows return to their sources.
    private(set) var returning: [MovingTable] = []
    /// The stages of returning tables that have been waited for long enough: see `awaitReturn`.
    var awaitedStages: [Int64: Int64] = [:]
    /// What the application has attached itself.
    var attachedFiles: AttachedFiles
    /// What foreign keys tie to moving tables.
    private(set) var foreignKeys = ForeignKeyTies()
    /// What is done for keys that are enforced.
    let keyActions: KeyActions

    /// Asked before the overlay is made for these migrations: an error keeps the overlay as it is.
    var admission: (([MigrationRecord], [TableRecord]) throws -> Void)?
    /// Called when their sources are attached.
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
        // SQLite has no virtual tables without rowids that can be written, if their key has several columns.
        if !connection.isBorrowed {
            try connection.createModule(UnionModule.keyedName, UnionModule(tables: tables), isReadOnly: true)
        }
    }

    /// Before 3.30 a module cannot be replaced, as when other code's connection has had an overlay before.
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

    /// Lets go of everything that was prepared on the connection, which is about to be closed.
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
    /// Whether sources are attached, be their tables drained in the open transaction.
    var hasSources: Bool { !attached.isEmpty }
    /// The schemas that sources are attached as.
    var attachedSources: some Sequence<String> { attached.keys }

    func table(named name: String) -> MovingTable? {
        byName.isEmpty ? nil : byName[SQLIdentifier.lowercased(name)]
    }

    // MARK: What writes of the engine's own do not show in

    /// The rows that the application's last INSERT, UPDATE or DELETE changed.
    var changes: Int64 { changesToReport ?? connection.changes }

    /// Has `changes()` tell that many rows, until the next write.
    func reportChanges(_ changes: Int64) { changesToReport = changes }

    /// Runs writes of the engine's own, which `changes()` and `last_insert_rowid()` do not tell of.
    func unnoticed<Result>(_ body: () throws -> Result) rethrows -> Result {
        let changes = changes
        // The application's clauses may ask meanwhile.
        changesToReport = changes
        defer { changesToReport = changes }
        return try keepingLastInsertRowID(body)
    }

    /// Runs inserts that `last_insert_rowid()` does not tell of.
    func keepingLastInsertRowID<Result>(_ body: () throws -> Result) rethrows -> Result {
        let lastInsertRowID = connection.lastInsertRowID
        defer { setLastInsertRowID(lastInsertRowID) }
        return try body()
    }

    /// Has SQLite report a rowid as the last one inserted.
    func setLastInsertRowID(_ rowID: Int64) {
        connection.lastInsertRowID = rowID
        if connection.lastInsertRowID != rowID { try? insertAndRemove(rowID) }
    }

    /// Has SQLite report a rowid as the last one inserted. Before 3.18 it cannot be told, but by inserting it somewhere.
    private func insertAndRemove(_ rowID: Int64) throws {
        let (changes, before) = (changes, connection.totalChanges)
        defer {
            statements.internalChanges += connection.totalChanges - before
            changesToReport = changes
        }
        let insert = try statements.statement(InsertedRowID.insert)
        try insert.bind(rowID, at: 1)
        try insert.run()
        try statements.statement(InsertedRowID.clear).run()
    }

    /// Sees to it that a write that is about to begin gets from `changes()` what the application's last one changed: a
    /// statement that SQLite prepares anew as it begins would get 0.
    ///
    /// Where a trigger's program may ask, SQLite itself must count as many: there it is another number with each statement.
    func settleChanges() throws {
        guard let wanted = changesToReport ?? (isEmpty ? nil : connection.changes) else { return }
        guard watch.triggers.asksForChanges else {
            changesToReport = wanted
            return
        }
        changesToReport = nil
        if connection.changes == wanted { return }
        let before = connection.totalChanges
        defer { statements.internalChanges += connection.totalChanges - before }
        // No schema may be changed for it, or the statement would be prepared anew.
        try statements.statement(CountedRows.clear).run()
        if wanted == 0 { return try statements.statement(CountedRows.clear).run() }
        let count = try statements.statement(CountedRows.replace)
        try count.bind(wanted, at: 1)
        try count.bind(connection.lastInsertRowID, at: 2)
        try count.run()
    }

    /// The application's own statement has set `changes()`.
    func noteChanges() {
        changesToReport = nil
    }

    /// The application's own statement has been undone. What its triggers have changed stays counted, as natively.
    func noteUndone() {
        statements.internalChanges += changes
        changesToReport = 0
    }

    // MARK: Making it current

    /// What must be drained before the next statement, since the overlay cannot be made for it.
    var needsDraining: (tables: Set<Int64>, reason: MigrationStatistics.Reason) {
        if hiddenByTemporaryTables.isEmpty, boundByTemporaryTriggers.isEmpty { return ([], .temporaryTable) }
        let moving = Set(byName.values.map(\.id))
        let hidden = hiddenByTemporaryTables.intersection(moving)
        if !hidden.isEmpty { return (hidden, .temporaryTable) }
        return (boundByTemporaryTriggers.intersection(moving), .temporaryTrigger)
    }

    /// Whether the overlay was made for the target's schema as it is in the current snapshot, and serves.
    func isCurrent() throws -> Bool { try needsDraining.tables.isEmpty && reads(schemaVersion) }

    /// Whether the overlay was last made for the target's schema as it is in the current snapshot, whatever this connection
    /// has taken out of it since.
    func isOfSchema() throws -> Bool { try reads(madeFor) }

    /// A statement that reads the target, and so holds a snapshot of it until it is reset; `nil` where the overlay does not fit
    /// that.
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

    /// Whether the target's schema has that number in the current snapshot.
    private func reads(_ version: Int64?) throws -> Bool {
        guard let snapshot = try snapshot(of: version) else { return false }
        snapshot.reset()
        return true
    }

    /// The engine's own tables in a file's current snapshot. Each move has some of its own.
    func ownTables(in schema: String) throws -> Set<String> {
        Set(
            try connection.fetchAll(
                "SELECT name FROM \(SQLIdentifier.quoted(schema)).sqlite_master "
                    + "WHERE type = 'table' AND name LIKE 'midstream\\_%' ESCAPE '\\'"
            ).map { try $0.get(0) }.filter(OwnNames.isTable)
        )
    }

    /// Looks whether the sources are there, and are what they were. Nothing has been read yet.
    ///
    /// As long as nobody has changed a schema since all tables were looked at last, the overlay is made before the first statement.
    func open() throws {
        // Another process may end a move meanwhile, and what was to be found is rightly gone.
        if (try? isAsSeen()) != true { try refresh() }
    }

    private func isAsSeen() throws -> Bool {
        try WholeFile.checkFinished(connection)
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
            // Nobody tells what other code attaches.
            try attachedFiles.note()
            try attachedFiles.check()
        }
        // What could not be rolled back, for want of memory, when it was tried last.
        if hasBegun { try connection.rollBack() }
        hasBegun = false
        var tries = 0
        while true {
            // A change that comes in between is seen the next time, by its number.
            let version = try StateStore.schemaVersion(connection)
            guard version != schemaVersion else { return try detachUnneeded() }
            schemaVersion = nil
            do {
                try allowingWrites(rebuild)
                schemaVersion = version
                madeFor = version
                return
            } catch {
                hasBegun = connection.isInTransaction
                // What does not fit may be of two snapshots.
                tries += 1
                guard !hasBegun, tries < 10, try StateStore.schemaVersion(connection) != version else { throw error }
            }
        }
    }

    /// Runs `body`, which changes `temp` alone, also where the application has the connection write nothing.
    func allowingWrites(_ body: () throws -> Void) throws {
        guard try connection.fetchValue(Int64.self, "PRAGMA query_only") == 1 else { return try body() }
        try connection.execute("PRAGMA query_only = 0")
        defer { try? connection.execute("PRAGMA query_only = 1") }
        try body()
    }

    /// What is known of the state may be true no longer.
    func forgetState() {
        statements.epoch += 1
    }

    private func rebuild() throws {
        let (migrations, records) = try store.load()
        watch.hasState = !records.isEmpty
        try WholeFile.checkFinished(connection)
        let moving = records.filter { $0.phase == .copying }
        try admission?(migrations, moving)
        let sources = Dictionary(migrations.map { ($0.id, $0) }) { first, _ in first }
        let needed = Set(moving.compactMap { sources[$0.migration] }.filter { $0.sourcePath != nil })
        try detachReplaced(needed)
        unneeded = Set(attached.keys).subtracting(needed.map(\.schema))
        // The overlay stays as it was where a source cannot be reached, or is not what it was: what other code runs on its connection
        // would find a part of the rows without it.
        do {
            for migration in needed { try attach(migration) }
        } catch {
            // SQLite may have attached as many files as it can.
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

    /// Lets go of sources in whose place there are other files, which are attached then.
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

    /// Puts an overlay back that could not be replaced; where that fails as well, the connection cannot write moving tables.
    private func restore(_ moves: [Move]) {
        do { try replace(by: moves) } catch { removeFences() }
    }

    /// Has writes of moving tables fail: other code's connection has no overlay.
    private func removeFences() {
        for fence in fences { try? connection.removeFunction(fence, argumentCount: 0) }
        fences.removeAll()
    }

    /// Whether sources can be detached that stayed when they were needed no more.
    var canDetach: Bool { !unneeded.isEmpty && !connection.hasBusyStatement }

    /// SQLite detaches no file that was read in a transaction while a statement still runs that began in it: those files stay.
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

    /// Makes the TEMP objects. The sources are attached.
    private func install(_ moves: [Move]) throws {
        hiddenByTemporaryTables.removeAll()
        let temporary = moves.isEmpty ? [] : try temporaryNames()
        var unions: [SchemaRow] = []
        for move in moves { try install(move, besides: temporary, &unions) }
        try create(unions)
        if statements.canPromote { try createKeyCollections(moves) }
        foreignKeys = try ForeignKeyTies(SchemaReader(connection: connection, schema: "main"), moving: byName)
        try installKeyActions()
        try installTwins()
        if !byName.isEmpty {
            try execute(CountedRows.create)
            if Connection.libraryVersionNumber < 3_018_000 { try execute(InsertedRowID.create) }
        }
        try watchAccesses()
        try findTemporaryTriggers()
        // A rollback may bring the union tables of drained ones back. The others were known for being dropped.
        let known = (Array(byName.values) + drained).flatMap(\.feeds)
        tables.byID = Dictionary(known.map { ($0.id, $0) }) { first, _ in first }
        returning = byName.values.flatMap(\.feeds).filter(\.isReturning)
        generation += 1
    }

    /// Makes the TEMP triggers by which rows at the other ends of foreign keys are promoted, if the connection enforces keys.
    private func installKeyActions() throws {
        let isWanted = statements.canPromote && !connection.isBorrowed && connection.isOn(.foreignKeys)
        let reader = SchemaReader(connection: connection, schema: "main")
        try keyActions.read(reader, isWanted ? foreignKeys : ForeignKeyTies(), moving: byName)
        for trigger in keyActions.triggers { try execute(trigger) }
    }

    private func removeKeyTriggers() throws {
        let names = try connection.fetchAll("SELECT name FROM sqlite_temp_master WHERE type = 'trigger'").map {
            try $0.get(0, as: String.self)
        }
        for name in names where OwnNames.isTrigger(name) {
            // SQLite knows none whose table another program has renamed.
            try execute("DROP TRIGGER IF EXISTS temp.\(SQLIdentifier.quoted(name))")
        }
    }

    private func findTemporaryTriggers() throws {
        boundByTemporaryTriggers.removeAll()
        guard !byName.isEmpty else { return }
        let sql = "SELECT tbl_name, name FROM sqlite_temp_master WHERE type = 'trigger'"
        for row in try connection.fetchAll(sql) where !OwnNames.isTrigger(try row.get(1)) {
            let name: String = try row.get(0)
            if let table = table(named: name) {
                boundByTemporaryTriggers.insert(table.id)
            } else if twins.contains(where: { SQLIdentifier.equal($0, name) }) {
                boundByTemporaryTriggers.formUnion(byName.values.map(\.id))
            }
        }
    }

    private func attach(_ migration: MigrationRecord) throws {
        guard let path = migration.sourcePath, attached[migration.schema] == nil else { return }
        // Before 3.28, BEGIN IMMEDIATE fails for a file that is read alone; where Midstream does not begin, it must not.
        let isWritable = connection.isBorrowed && Connection.libraryVersionNumber < 3_028_000
        try SourceFile.attach(migration, to: connection, access: isWritable ? .readWrite : .readOnly, keys: keys)
        attached[migration.schema] = path
    }

    /// - Parameters:
    ///   - temporary: The names of TEMP tables and views, in lower case. Those of the overlay are not there yet.
    ///   - unions: The union tables that are to be created, which this one's come to.
    private func install(_ move: Move, besides temporary: Set<String>, _ unions: inout [SchemaRow]) throws {
        let (record, target) = (move.record, move.target)
        let name = SQLIdentifier.lowercased(target.name)
        let table = MovingTable(
            record: record,
            migration: move.migration,
            target: target,
            source: move.source,
            sourceVersion: move.sourceVersion,
            insertGuard: move.insertGuard,
            inner: byName[name],
            isHidden: byName[name]?.isHidden ?? temporary.contains(name),
            statements: statements
        )
        for fence in move.fences where !fences.contains(fence) { try defineFence(fence) }
        tables.byID[table.id] = table
        byName[name] = table
        if let inner = table.inner {
            if !inner.isHidden { unions.removeAll { SQLIdentifier.equal($0.name, target.name) } }
            unions.append(union(Self.wholeName(inner.id), inner, "whole"))
        }
        if table.isHidden {
            hiddenByTemporaryTables.insert(table.id)
        } else {
            unions.append(union(target.name, table, "whole"))
        }
        if table.hasPendingUnion { unions.append(union(Self.pendingName(table.id), table, "pending")) }
    }

    /// Tables with rowids have one collection in common.
    private func createKeyCollections(_ moves: [Move]) throws {
        let first = moves.first(where: \.target.hasRowID)?.record.id
        for move in moves where !move.target.hasRowID || move.record.id == first {
            if let table = tables.byID[move.record.id] { try execute(KeyCollection(table).create) }
        }
    }

    private func temporaryNames() throws -> Set<String> {
        let sql = "SELECT name FROM sqlite_temp_master WHERE type IN ('table', 'view')"
        return Set(try connection.fetchAll(sql).map { SQLIdentifier.lowercased(try $0.get(0)) })
    }

    /// Whether a TEMP table or view has that name. Those of the overlay are not there yet.
    private func hasTemporary(_ name: String) throws -> Bool {
        let sql = "SELECT 1 FROM sqlite_temp_master WHERE name = ? COLLATE NOCASE AND type IN ('table', 'view')"
        return try connection.fetchOne(sql, [name]) != nil
    }

    private func union(_ name: String, _ table: MovingTable, _ scope: String) -> SchemaRow {
        let module = table.target.hasRowID ? moduleName : UnionModule.keyedName
        return SchemaRow(
            kind: .table,
            name: name,
            table: name,
            words: ("CREATE VIRTUAL TABLE", "USING \(module)(\(table.id), \(scope))")
        )
    }

    /// SQLite connects those that are written into its schema's table when they are first named.
    private func create(_ unions: [SchemaRow]) throws {
        guard connection.isBorrowed else { return try connection.create(unions, in: "temp", execute) }
        // Other code's authorizer may not let the schema's table be written.
        for union in unions { try execute(union.create(in: "temp")) }
    }

    /// The table that has a moving table's pending rows alone.
    static func pendingName(_ id: Int64) -> String { "midstream_pending_\(id)" }

    /// The union with the first of several sources, which is the target for the next.
    static func wholeName(_ id: Int64) -> String { "midstream_whole_\(id)" }

    /// Removes the TEMP objects, be they those that a rollback has brought back or a failure has left.
    private func removeTables() throws {
        try removeKeyTriggers()
        try removeTwins()
        // Those that read others come after them.
        let unions = try connection.fetchAll(
            "SELECT name FROM sqlite_temp_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL TABLE %' "
                + "AND sql LIKE '% USING midstream\\_union%' ESCAPE '\\' ORDER BY rowid DESC"
        )
        try dropUnions(unions.map { try $0.get(0) })
        byName.removeAll()
        returning.removeAll()
        statements.removeAll()
    }

    private func remove(_ table: MovingTable) throws {
        // Those that read others before them.
        let inner = table.feeds.dropFirst().map { Self.wholeName($0.id) }
        try dropUnions((table.isHidden ? [] : [table.name]) + inner + table.feeds.map { Self.pendingName($0.id) })
    }

    private func dropUnions(_ names: [String]) throws {
        statements.isRemovingTables = true
        defer { statements.isRemovingTables = false }
        for name in names {
            try execute("DROP TABLE IF EXISTS temp.\(SQLIdentifier.quoted(name))")
            // An authorizer of other code's may have the statement do nothing.
            guard connection.isBorrowed, try exists(name) else { continue }
            throw SQLiteError(
                code: .authorization,
                message: "the connection's authorizer keeps TEMP tables from being dropped"
            )
        }
    }

    /// The moving tables of the names that those have, each with all of its sources.
    func groups(of ids: Set<Int64>) -> [MovingTable] {
        Set(ids.compactMap { tables.byID[$0].map { SQLIdentifier.lowercased($0.name) } }).sorted()
            .compactMap { byName[$0] }
    }

    /// Takes a table that has been drained out of the overlay, within the transaction that drained it.
    func removeDrained(_ table: MovingTable) throws {
        try remove(table)
        byName[SQLIdentifier.lowercased(table.name)] = nil
        for trigger in keyActions.triggerNames(uselessWithout: Set(byName.values.map(\.id))) {
            try execute("DROP TRIGGER IF EXISTS temp.\(trigger)")
        }
        drained.append(table)
        try removeTwins()
        try installTwins()
        noteMovingTables()
        generation += 1
        schemaVersion = nil
    }

    /// Takes tables out of the overlay that have moved by the snapshot of the transaction that is open.
    ///
    /// - Throws: `SQLiteError`, `LOCKED`, where a statement is reading one.
    func removeMoved() throws {
        if try isEmpty && drained.isEmpty || isOfSchema() { return }
        if !drained.isEmpty { try restoreAfterRollback() }
        let moving = Set(try store.load().tables.filter { $0.phase == .copying }.map(\.id))
        for table in byName.values where !table.feeds.contains(where: { moving.contains($0.id) }) {
            guard table.openCursors == 0 else {
                throw SQLiteError(code: .locked, message: "database table is locked: \(table.name)")
            }
            try removeDrained(table)
        }
    }

    /// Brings the overlay's names up to date with the TEMP objects after a ROLLBACK TO.
    func restoreAfterRollback() throws {
        // It was made within the transaction, perhaps after the savepoint, for what may not move any more.
        if hasResumed { return try suspended {} }
        for table in drained where try isBack(table) { byName[SQLIdentifier.lowercased(table.name)] = table }
        drained.removeAll { byName[SQLIdentifier.lowercased($0.name)] != nil }
        twins = Set(try twinsInPlace())
        noteMovingTables()
        generation += 1
    }

    private func isBack(_ table: MovingTable) throws -> Bool {
        try exists(table.hasPendingUnion ? Self.pendingName(table.id) : table.name)
    }

    private func exists(_ name: String) throws -> Bool {
        try connection.fetchValue(Int64.self, "SELECT 1 FROM sqlite_temp_master WHERE name = ?", [name]) != nil
    }

    /// Runs a statement without the overlay: ALTER TABLE looks up the names in the text of the whole schema, and finds
    /// TEMP tables first.
    ///
    /// The next statement puts it back, since that may fail: within the transaction by ``resume()``, else by ``refresh()``.
    func suspended<Result>(_ body: () throws -> Result) throws -> Result {
        schemaVersion = nil
        generation += 1
        isSuspended = true
        try allowingWrites(removeTables)
        return try body()
    }

    /// Puts the overlay back that a statement of the open transaction has had taken down.
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

    /// The moving tables that a new TEMP table or view of one of those names would hide, themselves or a view of them.
    func tablesHidden(by names: [String]) -> Set<Int64> {
        let isTwin = twins.contains { twin in names.contains { SQLIdentifier.equal($0, twin) } }
        return Set((isTwin ? Array(byName.values) : names.compactMap(table(named:))).map(\.id))
    }

    /// Has the overlay made anew when it is refreshed next.
    func forgetSchemaVersion() {
        schemaVersion = nil
    }

    /// The table of an attached source that one of those names fell through to, since neither `temp` nor `main` has it.
    func strayTable(among names: Set<String>) throws -> String? {
        if attached.isEmpty { return nil }
        func exists(_ name: String, in master: String) throws -> Bool {
            // The application's own statement is being prepared meanwhile, and may not read there.
            // One that is kept might be prepared anew as it begins, and be taken for a part of that one.
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

    /// The names, in lower case, of what only an attached source has.
    func strayNames() throws -> [String] {
        try attached.keys.flatMap { schema -> [String] in
            let sql =
                "SELECT lower(name) FROM \(SQLIdentifier.quoted(schema)).sqlite_master WHERE name COLLATE NOCASE NOT IN "
                + "(SELECT name FROM main.sqlite_master UNION ALL SELECT name FROM sqlite_temp_master)"
            return try connection.fetchAll(sql).map { try $0.get(0, as: String.self) }
        }
    }

    /// REINDEX of each of the target's tables.
    func tablesToReindex() throws -> [String] {
        let names = try SchemaReader(connection: connection, schema: "main").tableNames()
        return names.map { "REINDEX main.\(SQLIdentifier.quoted($0))" }
    }

    /// Whether the union tables exist: `PRAGMA temp_store` removes all of `temp`.
    func isInPlace() throws -> Bool {
        guard let table = byName.values.first else { return true }
        return try isBack(table)
    }

    /// Runs SQL of the engine's own, past the watch.
    func execute(_ sql: String) throws {
        try statements.prepare(sql).run()
    }

    // MARK: Views

    private func removeTwins() throws {
        for view in try twinsInPlace() { try execute("DROP VIEW temp.\(SQLIdentifier.quoted(view))") }
        twins.removeAll()
    }

    /// The twins that there are, be they those that a rollback has brought back. The application may have made TEMP views of the
    /// names of others.
    private func twinsInPlace() throws -> [String] {
        let views: [(name: String, sql: String)] = try connection.fetchAll(
            "SELECT name, sql FROM sqlite_temp_master WHERE type = 'view'"
        ).map { (try $0.get(0), try $0.get(1)) }
        return views.filter { $0.sql.contains(ViewTwin.mark) }.map(\.name)
    }

    /// Gives every view of `main` that mentions a moving table, directly or through other views, a TEMP twin of the same
    /// text, whose names resolve to the union tables.
    private func installTwins() throws {
        definitionsBeforeTwins = statements.definitions
        guard !byName.isEmpty else { return }
        var views: [(name: String, sql: String)] = try connection.fetchAll(
            "SELECT name, sql FROM main.sqlite_master WHERE type = 'view' ORDER BY rowid"
        ).map { (try $0.get(0), try $0.get(1)) }
        if views.isEmpty { return }
        // First which views there must be twins of, then the twins: one may name a view that is found after it.
        var mentioned = Set(byName.keys)
        let described = try byName.keys + strayNames()
        var affected: [(name: String, sql: String)] = []
        while let position = try views.firstIndex(where: {
            try ViewTwin(sql: $0.sql, mentioning: mentioned, described: described, tables: byName) != nil
        }) {
            let view = views.remove(at: position)
            // A program without Midstream may have made it since rows began to move.
            if LegibleSchema.mayBeRepaired(view.sql) {
                try LegibleSchema.checkTexts(connection, in: "main", where: "type = 'view' AND name = ?1", [view.name])
            }
            mentioned.insert(SQLIdentifier.lowercased(view.name))
            affected.append(view)
        }
        let others = try mainNames().subtracting(mentioned)
        for view in affected {
            let twin = try ViewTwin(
                sql: view.sql,
                mentioning: mentioned,
                others: others,
                described: described,
                tables: byName,
                rowIDColumn: rowIDColumn
            )
            guard let twin else { continue }
            if try hasTemporary(view.name) {
                hiddenByTemporaryTables.formUnion(byName.values.map(\.id))
                continue
            }
            try execute(twin.sql)
            twins.insert(view.name)
        }
    }

    /// The views that a statement names, and that these name.
    func viewsNamed(by outline: StatementOutline) throws -> [StatementOutline] {
        try viewTexts.update(statements, schemaVersion, attached: attachedFiles.schemas)
        return viewTexts.named(by: outline)
    }

    /// Whether one of the views that a statement names, and that these name, reads moving tables, or views of them, past the
    /// overlay: one of `main` that was made in the open transaction, and has no twin, or a TEMP view that says `main`. Where it
    /// asks for no column SQLite does not tell.
    func isPassed(by views: [StatementOutline]) -> Bool {
        views.contains { view in
            guard let name = view.target?.name, !twins.contains(where: { SQLIdentifier.equal($0, name) }) else {
                return false
            }
            // Those that were there when the twins were made have theirs if they need one.
            if viewTexts.isOfMain(name) {
                return statements.definitions != definitionsBeforeTwins && view.mentions(names)
            }
            return view.tableReferences.contains { reference in
                guard let schema = reference.name.schema, SQLIdentifier.equal(schema, "main") else { return false }
                return table(named: reference.name.name) != nil
                    || twins.contains { SQLIdentifier.equal($0, reference.name.name) }
            }
        }
    }

    /// The tables and views of `main`, in lower case.
    private func mainNames() throws -> Set<String> {
        let rows = try connection.fetchAll("SELECT name FROM main.sqlite_master WHERE type IN ('table', 'view')")
        return Set(try rows.map { SQLIdentifier.lowercased(try $0.get(0)) })
    }

    /// The tables still moving that a foreign key ties to that table.
    func tablesTied(to name: String) -> Set<Int64> {
        let tied = foreignKeys.tables(of: name)
        return tied.isEmpty ? [] : tied.intersection(byName.values.map(\.id))
    }

    // MARK: The watch

    private func noteMovingTables() {
        watch.twins = twins
        statements.fired.moving = Set(byName.keys)
        watch.moving = Dictionary(byName.map { ($0.value.name, $0.value.id) }) { first, _ in first }
        watch.enforced = keyActions.moving
    }

    private func watchAccesses() throws {
        noteMovingTables()
        if !byName.isEmpty {
            watch.triggers = try TriggerTexts(connection: connection, moving: byName, views: twins)
        }
        try readContentTables()
        watchWhatIsNeeded()
    }

    /// A name that a transaction has taken from the target would mean a table of a source that is still attached.
    private func watchWhatIsNeeded() {
        let isNeeded = !byName.isEmpty || hasSources
        guard watch.isWatching != isNeeded else { return }
        watch.isWatching = isNeeded
        // It expires the statements that were prepared before.
        authorize()
    }

    /// Looks which virtual tables read moving ones. The connection may make more of them at any time.
    func readContentTables() throws {
        let copies = watch.contents.copies
        watch.contents = ContentTables(copies: copies)
        if byName.isEmpty { return }
        let views = Set(twins.map(SQLIdentifier.lowercased))
        watch.contents = try ContentTables(connection: connection, moving: byName, views: views, copies: copies)
    }

    /// Has the watch asked about what statements do. The owner of a borrowed connection has an authorizer of its own, or none.
    private func authorize() {
        if connection.isBorrowed { return }
        connection.setAuthorizer { [watch, statements] event in
            if statements.fired.isFiring { return statements.fired.decide(event) }
            if statements.isPreparing || !watch.isActive {
                // A row that is moved or promoted is not a new row: triggers' programs stay empty. What a virtual table prepares
                // while a statement runs may read a view.
                guard watch.isWatching, let accessor = event.accessor, accessor != CountedRows.numbers else {
                    return .allow
                }
                let isTrigger = watch.triggers.isTrigger(accessor) || OwnNames.isTrigger(accessor)
                return statements.isPreparing || isTrigger ? .ignore : .allow
            }
            return watch.decide(event)
        }
    }

    /// The moving tables that the program of a CREATE TRIGGER may read or write.
    func tablesTouched(by trigger: StatementOutline) -> Set<Int64> {
        TriggerTexts.touched(by: trigger, moving: byName, views: Set(twins.map(SQLIdentifier.lowercased)))
    }

    // MARK: Leaving

    /// Removes everything from a connection that goes on without the overlay. Outside transactions.
    ///
    /// While no statement of the connection is running. Where it fails all the same, as for want of memory, the guard triggers'
    /// functions are gone, so that nothing is written where a part of the rows is seen alone.
    func dismantle() throws {
        for (name, count) in Self.functions { try connection.removeFunction(name, argumentCount: count) }
        for fence in fences { try connection.removeFunction(fence, argumentCount: 0) }
        try connection.restoreChangeCounters()
        try removeTables()
        let names = try connection.fetchAll(
            "SELECT name FROM sqlite_temp_master WHERE type = 'table' AND name LIKE 'midstream\\_%' ESCAPE '\\'"
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

    /// Lets go of the statements that can be prepared again.
    func releaseStatements() {
        statements.removeAll()
        connection.clearStatementCache()
    }

    // MARK: Functions

    private static let functions =
        [("midstream_conflict", -1), ("changes", 0), ("total_changes", 0)]
        + [("midstream_hash", -1)] + KeyActions.functions + StoredValue.names.map { ($0, 1) }

    private func defineFunctions() throws {
        try StoredValue.define(on: connection)
        try RowHash.define(on: connection)
        let flags: FunctionFlags = .innocuous
        try connection.createFunction("midstream_conflict", argumentCount: -1, flags: flags) {
            [weak self] values, _ in
            guard let self else { throw Self.isGone }
            watch.noteBegun()
            if statements.isPromoting { return }
            // Nobody says when a statement of other code's begins.
            if connection.isBorrowed { forgetState() }
            guard values.count >= 2 else { throw SQLiteError(code: .misuse, message: "midstream_conflict needs a key") }
            guard let table = tables.byID[values[0].int64] else {
                schemaVersion = nil
                throw SQLiteError(
                    code: .error,
                    message: "a table has begun to move since this connection looked: try again"
                )
            }
            try table.resolveConflicts(values, from: 1)
        }
        try defineKeyFunctions(flags)
        // Natively these count no promotions, and may be used where the schema is not trusted.
        try connection.createFunction("changes", argumentCount: 0, flags: flags) { [weak self] _, result in
            guard let self else { throw Self.isGone }
            result.set(changes)
        }
        try connection.createFunction("total_changes", argumentCount: 0, flags: flags) { [weak self] _, result in
            guard let self else { throw Self.isGone }
            result.set(connection.totalChanges - statements.internalChanges)
        }
    }

    /// The functions that the TEMP triggers call for enforced keys.
    private func defineKeyFunctions(_ flags: FunctionFlags) throws {
        let bodies = [KeyActions.bringParent, KeyActions.bringEnds, KeyActions.bringReplaced]
        for ((name, count), body) in zip(KeyActions.functions, bodies) {
            try connection.createFunction(name, argumentCount: count, flags: flags) { [weak self] values, _ in
                guard let self else { throw Self.isGone }
                watch.noteBegun()
                if statements.isPromoting || values.count == 0 { return }
                try body(keyActions)(values)
            }
        }
    }

    /// Functions that could not all be defined, nor be taken off again, stay on a connection that other code opened.
    private static let isGone = SQLiteError(code: .misuse, message: "the connection's overlay could not be made")

    /// Its mere name keeps connections without the overlay, or with another, from writing a moving table.
    private func defineFence(_ name: String) throws {
        try connection.createFunction(name, argumentCount: 0, flags: .innocuous) { _, _ in }
        fences.insert(name)
    }
}
