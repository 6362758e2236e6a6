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
/// The order is: the target knows of the migration; the source is fenced for it; the target's table begins to move.
/// Each is on the disk before the next. So a fence that the target does not know is always an error, never a fresh start.
struct Setup {
    let stepper: Stepper

    var connection: Connection { stepper.connection }

    /// Begins the moves that the filter asks for, of tables that do not move already.
    ///
    /// - Returns: The tables that the filter asks for, and what of the source each takes.
    func begin(
        _ source: MigrationSource,
        _ retirement: SourceRetirement,
        _ filter: (inout TableMigration) throws -> Void
    ) throws -> [String: String] {
        let deadline = ContinuousClock.now + Self.patienceWithReaders
        return try stepper.untilDone {
            do {
                return try tryToBegin(source, retirement, filter)
            } catch is Overtaken {
                return nil
            } catch let returning as Returning {
                guard ContinuousClock.now < deadline else { throw Self.isReturning(returning.record) }
                usleep(2000)
                return nil
            }
        }
    }

    /// How long readers are waited for that keep a table which has returned from beginning again.
    private static let patienceWithReaders = Duration.seconds(2)

    /// A table has returned to its source, but for readers from before.
    private struct Returning: Error {
        let record: TableRecord
    }

    /// Another process has changed the stored migrations or a table since they were read, and nothing has been done, or it has
    /// been taken back.
    private struct Overtaken: Error {}

    private func tryToBegin(
        _ source: MigrationSource,
        _ retirement: SourceRetirement,
        _ filter: (inout TableMigration) throws -> Void
    ) throws -> [String: String] {
        let (version, migrations, records) = try resumeAndLoad()
        let path = try sourcePath(source, retirement)
        if path == .some(nil), source != .sameDatabase { return [:] }
        let stored = path ?? nil
        let rebuilds = Set(records.filter(\.isRebuild).map(\.migration))
        let migration =
            migrations.first { $0.hasSource(stored) && !rebuilds.contains($0.id) }
            ?? MigrationRecord(id: Identifiers.next(), sourcePath: stored, retirement: retirement)
        let reader = SchemaReader(connection: connection, schema: "main")
        var wanted: [TableMigration] = []
        var asked: [String: String] = [:]
        var isCutShort = false
        for name in try reader.tableNames() {
            var table = TableMigration(name: name)
            try filter(&table)
            guard let sourceTable = table.sourceTable else { continue }
            asked[name] = sourceTable
            let known = records.filter {
                $0.migration == migration.id && SQLIdentifier.equal($0.target, name)
                    && SQLIdentifier.equal($0.source, sourceTable)
            }
            if let same = known.first(where: { Claims.isSame($0.condition, table.condition) || !$0.isOwn }) {
                if same.phase == .copied, same.undoStage != nil { throw Returning(record: same) }
                if same.phase == .starting { isCutShort = true }
                if same.isOwn { try setPolicies(table, of: same) }
            } else {
                wanted.append(table)
            }
        }
        if isCutShort {
            // The source could not be reached before, since somebody held it, or for want of its key.
            try attach(migration, source)
            try finishBeginning(of: migration)
            throw Overtaken()
        }
        guard !wanted.isEmpty else { return asked }
        let isNew = !migrations.contains(migration)
        var begun: [Beginning] = []
        do {
            try attach(migration, source)
            begun = try check(wanted, migration, records, at: version)
            if begun.isEmpty {
                // All has moved. The process may have ended before it could delete the file.
                if isNew { try Retirement(stepper: stepper, migration: migration).leaveRetiredSource() }
                return asked
            }
            try store(begun, migration, ifStillAt: version)
        } catch {
            stepper.detachUnneeded()
            // What another process is moving by now is found on both sides; and who has moved the last table deletes the file
            // after that.
            guard try error is Overtaken || isStill(at: version) && !isGone(source) else { throw Overtaken() }
            throw error
        }
        do {
            try finishBeginning(of: migration)
        } catch {
            // An error is to mean that nothing has begun, as far as that can be told. After one of the disk, what has failed to
            // be committed into a WAL may be found there all the same by whoever recovers it.
            let mayBeClaimed = (error as? SQLiteError).map { !(ResultCode.busy ~= $0.code) } ?? false
            try? forgetUnclaimed(begun.map(\.record), migration, isNoted: mayBeClaimed)
            stepper.detachUnneeded()
            throw error
        }
        // Another process may have taken them back.
        let known = Set(try stepper.load().tables.map(\.id))
        guard begun.allSatisfy({ known.contains($0.record.id) }) else { throw Overtaken() }
        return asked
    }

    private func finishBeginning(of migration: MigrationRecord) throws {
        switch try resume(needed: migration) {
        case nil: break
        case .changed: throw Overtaken()
        case .error(let error): throw error
        }
    }

    private static func otherRows(_ record: TableRecord, _ wish: TableMigration) -> MigrationError {
        func rows(_ condition: String?) -> String { condition.map { "the rows that meet \($0)" } ?? "all rows" }
        return MigrationError(
            .misuse,
            "\(rows(record.condition)) of source table \(record.source) are moving into table \(record.target), and now "
                + "\(rows(wish.condition)) were asked for: ask for the same rows until these have moved, or cancel their migration",
            table: record.target
        )
    }

    private static func isRenamed(_ claim: Claims.Claim, _ wish: TableMigration) -> MigrationError {
        MigrationError(
            .foreignState,
            "the rows of source table \(claim.sourceTable) have moved into table \(claim.targetTable), and there is none of that "
                + "name any more: if it was renamed \(wish.name), all is done, and addMigration is to be left out. If it was "
                + "dropped, its rows are gone",
            table: wish.name
        )
    }

    private static func isReturning(_ record: TableRecord) -> MigrationError {
        MigrationError(
            .misuse,
            "table \(record.target) is being moved back to table \(record.source): let that end first",
            table: record.target
        )
    }

    /// What becomes of refused and unreadable rows may be changed at any time, and the application's answer is not stored.
    private func setPolicies(_ table: TableMigration, of record: TableRecord) throws {
        let policy = table.refusedRows
        stepper.refusalHandlers[record.id] = if case .ask(let handler) = policy { handler } else { nil }
        let wanted = TableRecord.RefusedRows(policy)
        guard wanted != record.refusedRows || table.unreadableRows != record.unreadableRows,
            record.phase == .copying || record.phase == .starting
        else { return }
        try stepper.waitingTransaction {
            // Another process may have brought it to its end.
            guard try stepper.store.table(record.id) != nil else { return }
            try connection.execute(
                "UPDATE main.midstream_tables SET refused_rows = ?, unreadable_rows = ? WHERE id = ?",
                [wanted.rawValue, table.unreadableRows.rawValue, record.id]
            )
        }
    }

    private func attach(_ migration: MigrationRecord, _ source: MigrationSource) throws {
        guard case .file(let path) = source.location, !stepper.isAttached(migration) else {
            return try stepper.attach(migration)
        }
        try stepper.keys.trying(source.key, ofSource: FilePath.resolved(path)) { try stepper.attach(migration) }
    }

    /// The source's path as the target stores it.
    ///
    /// - Returns: `.some(nil)` for the target itself, or when a source that was to be deleted is gone.
    private func sourcePath(_ source: MigrationSource, _ retirement: SourceRetirement) throws -> String?? {
        guard case .file(let path) = source.location else { return .some(nil) }
        guard FilePath.exists(path) else {
            if retirement == .deleteFileWhenEmpty { return .some(nil) }
            throw MigrationError(
                .sourceUnavailable,
                "there is no source file \(path): check the path. If its migration has ended, leave addMigration out"
            )
        }
        let target = connection.fileName(schema: "main") ?? ""
        let resolved = FilePath.resolved(path)
        guard FilePath.identity(resolved) != FilePath.identity(target) else {
            throw MigrationError(.misuse, "the source is the target's own file: say .sameDatabase")
        }
        return FilePath.relative(resolved, toFolderOf: target)
    }

    private func isGone(_ source: MigrationSource) -> Bool {
        if case .file(let path) = source.location { !FilePath.exists(path) } else { false }
    }

    /// Checks every table before anything is done, and leaves out those that have moved before.
    private func check(
        _ wanted: [TableMigration],
        _ migration: MigrationRecord,
        _ records: [TableRecord],
        at version: Int64
    ) throws -> [Beginning] {
        let targets = SchemaReader(connection: connection, schema: "main")
        let sources = SchemaReader(connection: connection, schema: migration.schema)
        let claims = Claims(connection: connection, migration: migration)
        let isSameFile = migration.sourcePath == nil
        let names = try targets.tableNames()
        let staked = try isSameFile ? claims.movedHere() : claims.all()
        let onward = try isSameFile ? [] : Claims.all(in: "main", connection)
        // What was cancelled before it had begun, while the file was not there, or failed to begin.
        for (id, stored) in try Unreleased(connection: connection).unbegun() {
            if let claim = staked.first(where: { $0.id == id }) {
                try takeBack(claim, migration)
            } else if migration.hasSource(stored) {
                try forgetUnbegun(id)
            } else {
                continue
            }
            throw Overtaken()
        }
        var begun: [Beginning] = []
        for wish in wanted {
            guard let sourceName = wish.sourceTable else { continue }
            // It was taken over, with the table that it moved into: see `Setup+Chains`.
            if staked.contains(where: { claims.hasMovedOn($0, sourceName, wish, onward) }) { continue }
            let own = staked.filter {
                SQLIdentifier.equal($0.sourceTable, sourceName) && SQLIdentifier.equal($0.targetTable, wish.name)
                    && claims.isOwn($0, for: wish.condition)
            }
            let same = own.filter { Claims.isSame($0.condition, wish.condition) }
            // Its target moves on to another table by now; or the source has got another path.
            let isKnown = same.contains { claim in
                records.contains { record in
                    record.id == claim.id && (record.phase != .done || !SQLIdentifier.equal(record.target, wish.name))
                }
            }
            if isKnown { continue }
            // Other rows may follow when those have moved; they have come before others that moved on to the table.
            let other = records.first { record in
                record.phase != .done
                    && (own.contains { $0.id == record.id }
                        || record.migration == migration.id && SQLIdentifier.equal(record.target, wish.name)
                            && SQLIdentifier.equal(record.source, sourceName))
            }
            if same.isEmpty, let other { throw Self.otherRows(other, wish) }
            guard try own.allSatisfy({ try $0.targetVersion ?? 0 <= StateStore.schemaVersion(connection) }) else {
                throw MigrationError(
                    .foreignState,
                    "the rows of source table \(sourceName) moved into table \(wish.name) of a newer state of this "
                        + "database: it was replaced, or restored from a backup of before. If that is meant, leave "
                        + "addMigration out",
                    table: wish.name
                )
            }
            let unknown = own.filter { claim in claim.moved == nil && !records.contains { $0.id == claim.id } }
            for claim in unknown {
                guard let moved = try Unreleased(connection: connection).moved(claim.id) else { continue }
                try Retirement(stepper: stepper, migration: migration).releaseLate(claim, moved: moved)
                throw Overtaken()
            }
            if !unknown.isEmpty {
                guard try isStill(at: version) else { throw Overtaken() }
                throw MigrationError(
                    .foreignState,
                    "source table \(sourceName) is being moved into table \(wish.name), but the target does not know of it: "
                        + "the target was replaced or restored from a backup. Restore the pair together",
                    table: wish.name
                )
            }
            // It has moved; with sources that stay, this is how the next launch finds out. Unless its table has been dropped, and
            // one stands there that has been made since.
            let isMadeAnew = try own.contains(where: \.isDropped) && sources.table(sourceName) != nil
            if !isMadeAnew, !same.isEmpty { continue }
            // Neither what goes to a source may come into a table from another one, nor move on.
            for name in [wish.name] + (isSameFile ? [sourceName] : []) {
                let returning = records.first { $0.undoStage != nil && SQLIdentifier.equal($0.target, name) }
                guard let returning else { continue }
                if returning.phase == .copied { throw Returning(record: returning) }
                throw Self.isReturning(returning)
            }
            try checkName(wish.name, names)
            // Before they are looked at: what changes after that is noticed.
            let definitions = try Definitions(of: wish.name, from: sourceName, migration, connection)
            guard let target = try targets.table(wish.name) else { continue }
            let former = staked.first { claim in
                SQLIdentifier.equal(claim.sourceTable, sourceName) && Claims.isSame(claim.condition, wish.condition)
                    && claim.targetFile.hasSameBytes(as: claims.targetFile())
            }
            let source = try sources.table(sourceName)
            if let former, source == nil || !former.isDropped,
                !names.contains(where: { SQLIdentifier.equal($0, former.targetTable) })
            {
                throw Self.isRenamed(former, wish)
            }
            guard let source else {
                // Of the same file: it has moved and was dropped.
                if isSameFile { continue }
                throw MigrationError(
                    .missingTable,
                    "there is no table \(sourceName) in \(stepper.path(of: migration) ?? "the source")",
                    table: wish.name
                )
            }
            guard !isSameFile || !SQLIdentifier.equal(source.name, target.name) else {
                throw MigrationError(.misuse, "table \(target.name) cannot move into itself", table: target.name)
            }
            // It has moved, and stayed.
            if try isSameFile && claims.hasOldFence(source: source.name, target: target.name) { continue }
            try checkUnclaimed(wish.name, sourceName, migration)
            var beginning = try Beginning(
                checking: wish,
                migration,
                target: target,
                source: source,
                others: others(of: target.name, records)
                    + begun.filter { SQLIdentifier.equal($0.target.name, target.name) }.map(\.sql),
                on: connection
            )
            beginning.definitions = definitions
            let record = beginning.record
            let shares = (records + begun.map(\.record)).contains {
                $0.migration == migration.id && $0.phase != .done && SQLIdentifier.equal($0.source, sourceName)
            }
            try claims.checkOwners(record)
            try checkFormers(of: record, migration, isShared: shares)
            stepper.refusalHandlers[record.id] = if case .ask(let handler) = wish.refusedRows { handler } else { nil }
            let claimed = staked.filter { !$0.isDropped }
            let others = claimed + (isSameFile ? records.filter { $0.migration == migration.id }.map(claims.claim) : [])
            for other in others + begun.map({ claims.claim($0.record) })
            where SQLIdentifier.equal(other.sourceTable, sourceName) {
                try claims.checkDisjoint(record, other)
            }
            begun.append(beginning)
        }
        try checkTriggers(begun, records)
        return begun
    }

    /// Tables are looked up by names that Swift compares: to it, a letter and an accent equal the accented letter.
    private func checkName(_ name: String, _ names: [String]) throws {
        let lowered = SQLIdentifier.lowercased(name)
        guard
            let other = names.first(where: {
                SQLIdentifier.lowercased($0) == lowered && !SQLIdentifier.equal($0, name)
            })
        else { return }
        throw MigrationError(
            .unsupported,
            "the names of tables \(name) and \(other) look the same, and are two: rename one of them",
            table: name
        )
    }

    /// Neither the target nor a source in its own file may be another file's.
    func checkUnclaimed(_ target: String, _ source: String, _ migration: MigrationRecord) throws {
        for table in [target] + (migration.sourcePath == nil ? [source] : []) {
            guard let destination = try stepper.store.destination(of: table) else { continue }
            throw MigrationError(
                .misuse,
                "the rows of table \(table) move to \(destination): let that end first, or move those of table \(source) there",
                table: target
            )
        }
        guard let fence = try Claims.fences(of: target, in: "main", stepper.connection).first else { return }
        let words = fence.strings.first ?? "the rows of table \(target) have moved"
        throw MigrationError(
            .misuse,
            "\(words). What is left of it here is kept as it was, and takes no rows: move those of table \(source) there, or drop "
                + "the table and create it anew",
            table: target
        )
    }

    /// Triggers that fire for rows that move must not touch what moves then.
    private func checkTriggers(_ begun: [Beginning], _ records: [TableRecord]) throws {
        let moving = records.filter { $0.phase == .copying || $0.phase == .starting }
        let migrations = try stepper.load().migrations
        let before = try moving.filter(\.firesTriggers).compactMap { record in
            try migrations.first { $0.id == record.migration }.map { try stepper.sql(for: record, $0) }
        }
        let fired = stepper.statements.fired
        fired.moving = Set((moving + begun.map(\.record)).map { SQLIdentifier.lowercased($0.target) })
        for sql in before + begun.map(\.sql) where sql.firesTriggers {
            try stepper.firing(sql) { try fired.check(sql) }
        }
    }

    /// The other sources that a table has rows to come from.
    func others(of target: String, _ records: [TableRecord]) throws -> [MoveSQL] {
        let migrations = try stepper.load().migrations
        return try records.filter {
            SQLIdentifier.equal($0.target, target) && ($0.phase == .copying || $0.phase == .starting)
        }.compactMap { record in
            guard let migration = migrations.first(where: { $0.id == record.migration }) else { return nil }
            // It has come since, and within a transaction nothing can be attached.
            let isReachable = migration.sourcePath == nil || stepper.isAttached(migration)
            if connection.isInTransaction, !isReachable { throw Changed() }
            return try stepper.sql(for: record, migration)
        }
    }

    /// Whether no move has begun or ended since. The stored moves alone do not tell: all of one may have come and gone.
    private func isStill(at version: Int64) throws -> Bool { try StateStore.schemaVersion(connection) == version }

    private func store(_ begun: [Beginning], _ migration: MigrationRecord, ifStillAt version: Int64) throws {
        let table = try stepper.store.exists() ? "midstream_state" : begun.first?.record.target
        try stepper.waitingTransaction(lockingBy: table ?? "midstream_state") {
            guard try isStill(at: version) else { throw Overtaken() }
            try stepper.store.create()
            try stepper.store.save(migration)
            for beginning in begun {
                try beginning.store(in: stepper.store)
                if let definitions = beginning.definitions {
                    try stepper.store.save(definitions, of: beginning.record)
                }
            }
        }
    }
}
