internal import SQLText
internal import SQLiteConnection

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#elseif canImport(Musl)
    internal import Musl
#endif

/// Begins migrations, and finishes beginnings that were cut short.
///
/// The order is: the target stores the migration; the source is fenced for it; the target's table begins to move. Each
/// is on the disk before the next. So a fence that the target does not know is always an error, never a fresh start.
struct Setup {
    let stepper: Stepper
    /// Whether this is a rehearsal, which only looks at what could begin, and writes nothing.
    var isRehearsal = false

    /// What a filter has chosen among the target's tables.
    struct Chosen {
        /// The source's table for each chosen table.
        var sources: [String: String] = [:]
        /// In a rehearsal, the chosen tables that would begin to move.
        var beginning: Set<String> = []
        /// The tables that were not chosen.
        var others: [String] = []
        /// Whether the source was deleted after all its rows had moved. The filter has not been asked then.
        var isSourceGone = false
        /// Whether no table was chosen because the migration has ended.
        var hasEnded = false

        static var sourceIsGone: Chosen { Chosen(isSourceGone: true) }

        /// - Throws: ``MigrationError`` where the filter has chosen no table.
        func checkNotEmpty() throws {
            guard sources.isEmpty, !isSourceGone, !hasEnded else { return }
            let shown = others.prefix(8).joined(separator: ", ") + (others.count > 8 ? ", …" : "")
            throw MigrationError(
                .missingTable,
                "the filter has set sourceTable for no table. It was asked about "
                    + (others.isEmpty ? "none, since this database has no tables yet" : shown)
                    + ": check the names that it compares, or add the migration with allowsNoTables: true where its tables are "
                    + "created later. Nothing has been changed"
            )
        }

        /// The chosen tables that still have rows to come.
        func moving(among records: [TableRecord]) -> [String] {
            let moving = Dictionary(grouping: records.filter { $0.phase != .done }) {
                SQLIdentifier.lowercased($0.target)
            }
            return sources.filter { name, source in
                moving[SQLIdentifier.lowercased(name)]?.contains { SQLIdentifier.equal($0.source, source) } ?? false
            }.keys.sorted()
        }
    }

    var connection: Connection { stepper.connection }

    /// Begins the moves that the filter asks for, of tables that do not move already.
    ///
    /// - Returns: The tables that the filter has chosen.
    func begin(
        _ source: MigrationSource,
        _ retirement: SourceRetirement,
        givingUp names: Set<String>,
        _ filter: (inout TableMigration) throws -> Void
    ) throws -> Chosen {
        while true {
            let deadline = ContinuousClock.now + Self.patienceWithReaders
            do {
                return try stepper.untilDone {
                    do {
                        return try tryToBegin(source, retirement, givingUp: names, filter)
                    } catch is Overtaken {
                        return nil
                    } catch let returning as Returning {
                        guard ContinuousClock.now < deadline else { throw Self.isReturning(returning.record) }
                        usleep(2000)
                        return nil
                    }
                }
            } catch is Ended {
                // Ending the move may have taken long, so the waits for other transactions and for readers begin anew.
            }
        }
    }

    /// How long to wait for readers that keep a returned table from beginning to move again.
    private static let patienceWithReaders = Duration.seconds(2)

    /// A table's rows have returned to its source, but there may be readers from before.
    struct Returning: Error {
        let record: TableRecord
    }

    /// Another process has changed the stored migrations or a table since this process read them. This process has done
    /// nothing, or has taken back what it had done.
    struct Overtaken: Error {}

    /// A move has been brought to its end so that others can begin. What can begin must be looked at anew.
    struct Ended: Error {}

    private func tryToBegin(
        _ source: MigrationSource,
        _ retirement: SourceRetirement,
        givingUp names: Set<String>,
        _ filter: (inout TableMigration) throws -> Void
    ) throws -> Chosen {
        let (version, migrations, records) = try isRehearsal ? loadAlone() : resumeAndLoad()
        let stored = try sourcePath(source)
        if retirement == .deleteFileWhenEmpty, isGone(source) {
            // The file is deleted when all its rows have moved. But a table that is about to begin was stored while the
            // file was there.
            let isMissed = migrations.contains { migration in
                migration.hasSource(stored)
                    && records.contains { $0.migration == migration.id && $0.phase == .starting }
            }
            if !isMissed { return .sourceIsGone }
        }
        try checkExistence(of: source, stored, migrations, at: version)
        let migration = try migration(of: stored, retirement, givingUp: names, migrations, records, at: version)
        var wishes = try wishes(filter, retirement, migration, source, records)
        if wishes.chosen.sources.isEmpty { wishes.chosen.hasEnded = try hasEnded(filter, migration, source) }
        if wishes.isCutShort, !isRehearsal {
            // The source could not be reached before, because another connection had locked it, or because its key was
            // missing.
            try attach(migration, source)
            try finishBeginning(of: migration)
            throw Overtaken()
        }
        if migration.sourcePath != nil, !wishes.retiring.isEmpty, !isRehearsal {
            try attach(migration, source)
            for record in wishes.retiring where try endIfMadeAnew(record, migration) { throw Overtaken() }
        }
        guard !wishes.wanted.isEmpty,
            let (begun, areFollowed) = try checkAndStore(
                wishes.wanted,
                retirement,
                migration,
                source,
                records,
                at: version
            )
        else { return wishes.chosen }
        if isRehearsal {
            wishes.chosen.beginning = Set(begun.map(\.record.target))
            return wishes.chosen
        }
        try finishBeginning(of: begun, migration)
        // Another process may have taken the beginnings back.
        let known = Set(try stepper.load().tables.map(\.id))
        guard begun.allSatisfy({ known.contains($0.record.id) }), !areFollowed else { throw Overtaken() }
        return wishes.chosen
    }

    private func checkExistence(
        of source: MigrationSource,
        _ stored: String?,
        _ migrations: [MigrationRecord],
        at version: Int64
    ) throws {
        guard case .file(let path) = source.location, !FilePath.exists(path) else { return }
        // Since the migrations were read, another process may have moved all rows and deleted the file.
        guard try isStill(at: version) else { throw Overtaken() }
        let hasBegun = migrations.contains { $0.hasSource(stored) }
        throw Self.isMissing(path, hasBegun: hasBegun)
    }

    /// The migration of a source: the stored one, updated with what the caller asks for now, or a new one.
    private func migration(
        of source: String?,
        _ retirement: SourceRetirement,
        givingUp names: Set<String>,
        _ migrations: [MigrationRecord],
        _ records: [TableRecord],
        at version: Int64
    ) throws -> MigrationRecord {
        let rebuilds = Set(records.filter(\.isRebuild).map(\.migration))
        let former = migrations.first { $0.hasSource(source) && !rebuilds.contains($0.id) }
        var migration = former ?? MigrationRecord(id: Identifiers.next(), sourcePath: source)
        if isOver(migration, records) { migration.deletesFile = retirement == .deleteFileWhenEmpty }
        if migration.givenUp != names {
            migration.givenUp = names
            if former != nil, !isRehearsal { try save(migration, ifStillAt: version) }
        }
        return migration
    }

    private func isOver(_ migration: MigrationRecord, _ records: [TableRecord]) -> Bool {
        records.allSatisfy { $0.migration != migration.id || $0.phase == .done }
    }

    /// What a filter asks for.
    private struct Wishes {
        var chosen = Chosen()
        /// The tables that do not move yet.
        var wanted: [TableMigration] = []
        /// The tables whose rows have moved, but whose source table still has to go.
        var retiring: [TableRecord] = []
        /// Whether the beginning of a table was cut short.
        var isCutShort = false
    }

    /// Asks the filter about the target's tables. For a table that moves already, the filter must ask for the same as
    /// before.
    private func wishes(
        _ filter: (inout TableMigration) throws -> Void,
        _ retirement: SourceRetirement,
        _ migration: MigrationRecord,
        _ source: MigrationSource,
        _ records: [TableRecord]
    ) throws -> Wishes {
        // The tables in which virtual tables keep their content move with the virtual tables.
        let virtual = try VirtualTables(connection, "main")
        let reader = SchemaReader(connection: connection, schema: "main")
        var wishes = Wishes()
        let moving = Dictionary(grouping: records) { SQLIdentifier.lowercased($0.target) }
        for name in try reader.tableNames() where !virtual.isShadow(name) {
            var table = TableMigration(name: name)
            try filter(&table)
            guard let sourceTable = table.sourceTable else {
                wishes.chosen.others.append(name)
                continue
            }
            wishes.chosen.sources[name] = sourceTable
            // If a move is done, the source tells what became of it: the source's table may have been dropped, and made
            // anew under its name.
            let known = (moving[SQLIdentifier.lowercased(name)] ?? []).filter {
                $0.migration == migration.id && $0.phase != .done && SQLIdentifier.equal($0.source, sourceTable)
            }
            if let same = known.first(where: { Claims.isSame($0.condition, table.condition) || !$0.isOwn }) {
                if same.hasReturned { throw Returning(record: same) }
                if same.phase == .starting { wishes.isCutShort = true }
                if same.phase == .retiring { wishes.retiring.append(same) }
                try checkUnchanged(table, retirement, same, migration, source)
                if same.isOwn, !isRehearsal { try setPolicies(table, of: same) }
            } else {
                wishes.wanted.append(table)
            }
        }
        return wishes
    }

    /// Makes sure that tables can begin to move, and stores them in the target, except in a rehearsal.
    ///
    /// - Returns: The tables that begin, and whether other tables must follow them; `nil` if all rows have moved.
    private func checkAndStore(
        _ wanted: [TableMigration],
        _ retirement: SourceRetirement,
        _ migration: MigrationRecord,
        _ source: MigrationSource,
        _ records: [TableRecord],
        at version: Int64
    ) throws -> (begun: [Beginning], areFollowed: Bool)? {
        do {
            try attach(migration, source)
            try WholeFileNote.checkFinished(connection, as: migration.schema)
            var begun = try check(wanted, retirement, migration, records, at: version)
            if !begun.isEmpty { try checkDeletion(retirement, migration, records) }
            if isRehearsal {
                try settleAccess(&begun, migration)
                stepper.detachUnneeded()
                return (begun, false)
            }
            if begun.isEmpty {
                // All rows have moved. The process that moved them may have ended before it could delete the file.
                if isOver(migration, records) {
                    try Retirement(stepper: stepper, migration: migration).leaveRetiredSource()
                }
                return nil
            }
            try settleAccess(&begun, migration)
            let areFollowed = try !takeOutFollowing(&begun, migration).isEmpty
            try store(begun, migration, ifStillAt: version)
            return (begun, areFollowed)
        } catch {
            stepper.detachUnneeded()
            // The error may come of another process's work. Rows that the other process is moving by now are found on both
            // sides; and the process that has moved the last table then deletes the file.
            guard try error is Overtaken || error is Ended || isStill(at: version) && !isGone(source) else {
                throw Overtaken()
            }
            throw error
        }
    }

    private func loadAlone() throws -> (version: Int64, migrations: [MigrationRecord], records: [TableRecord]) {
        let (migrations, records) = try stepper.load()
        return (try connection.schemaVersion(), migrations, records)
    }

    /// Ends a move whose source table has been dropped although the target could not be told so yet, if another table
    /// stands in the source table's place by now. The rows of that table have yet to move.
    ///
    /// - Returns: Whether another table stands there.
    private func endIfMadeAnew(_ record: TableRecord, _ migration: MigrationRecord) throws -> Bool {
        let retirement = Retirement(stepper: stepper, migration: migration)
        guard try retirement.isMadeAnew(record) else { return false }
        let deadline = ContinuousClock.now + Self.patienceWithReaders
        while try !retirement.endReleased(record) {
            guard ContinuousClock.now < deadline else {
                // Instead of readers, another connection's lock on the target may be the cause. Then this call throws.
                try stepper.waitingTransaction {}
                throw MigrationError(
                    .misuse,
                    "source table \(record.source) was created anew, but open transactions still read the former table "
                        + "of that name: end them, and try again",
                    table: record.target
                )
            }
            usleep(2000)
        }
        return true
    }

    /// Lets tables begin that the target has stored. After an error, the target forgets the tables that have not begun.
    private func finishBeginning(of begun: [Beginning], _ migration: MigrationRecord) throws {
        do {
            try finishBeginning(of: migration)
        } catch {
            // An error must mean that nothing has begun, as far as Midstream can tell. After an error of the disk, a
            // commit into a WAL that failed may all the same be found there by the connection that recovers the WAL.
            let mayBeClaimed = (error as? SQLiteError).map { !(ResultCode.busy ~= $0.code) } ?? false
            try? forgetUnclaimed(begun.map(\.record), migration, isNoted: mayBeClaimed)
            stepper.detachUnneeded()
            throw error
        }
    }

    private func finishBeginning(of migration: MigrationRecord) throws {
        try resume(needed: migration)?.raise(Overtaken())
    }

    static func otherRows(_ record: TableRecord, _ wish: TableMigration) -> MigrationError {
        func rows(_ condition: String?) -> String { condition.map { "the rows that meet \($0)" } ?? "all rows" }
        return MigrationError(
            .misuse,
            "\(rows(record.condition)) of source table \(record.source) are moving into table \(record.target), and now "
                + "\(rows(wish.condition)) were asked for: ask for the same rows until these have moved, or cancel their migration",
            table: record.target
        )
    }

    static func isRenamed(_ claim: Claims.Claim, _ wish: TableMigration) -> MigrationError {
        MigrationError(
            .foreignState,
            "the rows of source table \(claim.sourceTable) have moved into table \(claim.targetTable), which no longer "
                + "exists. If it was renamed to \(wish.name), nothing is left to do: leave addMigration out. If it was "
                + "dropped, its rows are gone",
            table: wish.name
        )
    }

    static func isReturning(_ record: TableRecord) -> MigrationError {
        MigrationError(
            .misuse,
            "table \(record.target) is being moved back to table \(record.source): wait until its rows have returned",
            table: record.target
        )
    }

    /// Stores what becomes of refused and unreadable rows. The application may change this at any time. The closure by
    /// which the application answers is not stored.
    private func setPolicies(_ table: TableMigration, of record: TableRecord) throws {
        stepper.refusalHandlers[record.id] = table.refusedRows.handler
        let wanted = table.refusedRows.stored
        guard wanted != record.refusedRows || table.unreadableRows != record.unreadableRows,
            record.phase == .copying || record.phase == .starting
        else { return }
        try stepper.waitingTransaction {
            // Another process may have brought the move to its end.
            guard try stepper.store.table(record.id) != nil else { return }
            try TableUpdate.setPolicies(record, wanted, table.unreadableRows, connection)
        }
    }

    func attach(_ migration: MigrationRecord, _ source: MigrationSource) throws {
        guard case .file(let path) = source.location, !stepper.isAttached(migration) else {
            return try stepper.attach(migration)
        }
        try stepper.keys.trying(source.key, ofSource: FilePath.resolved(path)) { try stepper.attach(migration) }
    }

    /// The source's path as the target stores it; `nil` for the target itself.
    private func sourcePath(_ source: MigrationSource) throws -> String? {
        guard case .file(let path) = source.location else { return nil }
        let target = connection.fileName(schema: "main") ?? ""
        let resolved = FilePath.resolved(path)
        guard !FilePath.exists(resolved) || FilePath.identity(resolved) != FilePath.identity(target) else {
            throw MigrationError(.misuse, "the source is the target's own file: say .sameDatabase")
        }
        return FilePath.relative(resolved, toFolderOf: target)
    }

    private static func isMissing(_ path: String, hasBegun: Bool) -> MigrationError {
        let words =
            if !FilePath.isGone(path) {
                "the source file \(path) may exist, but cannot be accessed: check the permissions of its folders, and "
                    + "try again when its volume can be read"
            } else if hasBegun {
                "there is no source file \(path), from which tables are moving or were about to move: restore it. To "
                    + "give up the tables that have yet to begin, call cancelMigration"
            } else {
                "there is no source file \(path): check the path. If its migration has ended, leave addMigration out"
            }
        return MigrationError(.sourceUnavailable, words)
    }

    private func isGone(_ source: MigrationSource) -> Bool {
        if case .file(let path) = source.location { FilePath.isGone(path) } else { false }
    }

    /// The other sources from which a table still has rows to come.
    func others(of target: String, _ records: [TableRecord]) throws -> [MoveSQL] {
        let others = records.filter {
            SQLIdentifier.equal($0.target, target) && ($0.phase == .copying || $0.phase == .starting)
        }
        if others.isEmpty { return [] }
        let migrations = try stepper.load().migrations
        return try others.compactMap { record in
            guard let migration = migrations.first(where: { $0.id == record.migration }) else { return nil }
            // The other source has been added since the checks. Within a transaction, SQLite attaches no file.
            let isReachable = migration.sourcePath == nil || stepper.isAttached(migration)
            if connection.isInTransaction, !isReachable { throw Changed() }
            return try stepper.sql(for: record, migration)
        }
    }

    /// Whether no move has begun or ended since `version` was read. The stored moves alone do not tell: a whole move
    /// may have come and gone.
    func isStill(at version: Int64) throws -> Bool { try connection.schemaVersion() == version }

    private func save(_ migration: MigrationRecord, ifStillAt version: Int64) throws {
        try stepper.waitingTransaction {
            guard try isStill(at: version) else { throw Overtaken() }
            try stepper.store.save(migration)
        }
    }

    private func store(_ begun: [Beginning], _ migration: MigrationRecord, ifStillAt version: Int64) throws {
        try stepper.waitingTransaction {
            guard try isStill(at: version) else { throw Overtaken() }
            try WholeFileNote.checkNotWithdrawn(connection)
            try stepper.store.create()
            try stepper.store.save(migration)
            let file = stepper.sourceFile(of: migration)
            for beginning in begun {
                try beginning.note(in: stepper.store)
                if let definitions = beginning.definitions {
                    try stepper.store.save(definitions, in: file, of: beginning.record)
                }
            }
            // The tables are created after all records are stored, since each CREATE TABLE makes SQLite prepare the
            // statements again that store records.
            try connection.create(in: "main", begun.flatMap(\.sql.createTables))
        }
    }
}
