internal import SQLText
internal import SQLiteConnection

/// Takes a table from `copied` to `done`. The table's source goes when, and only when, nobody can need it any more and
/// the target's rows are on the disk.
///
/// The order of what follows keeps rows from being lost if the power fails between the two files.
struct Retirement {
    let stepper: Stepper
    let migration: MigrationRecord

    func advance(_ record: TableRecord) throws -> MigrationProgress.Outcome { try advance([record], until: .now) }

    /// Brings tables of one source further together. Where one fails, none has been brought further than others may have been.
    ///
    /// - Parameter deadline: The time after which no further table is retired in the same transaction. It is put off by
    ///   as long as the checks before that take, which look at all tables: otherwise, with a thousand tables, each step
    ///   would retire one.
    func advance(
        _ records: [TableRecord],
        until deadline: ContinuousClock.Instant
    ) throws -> MigrationProgress.Outcome {
        if migration.sourcePath == nil { return try retireInSameFile(records, until: deadline) }
        let copied = records.filter { $0.phase == .copied }
        if !copied.isEmpty {
            guard try beginRetiring(copied) else { return .busy }
        }
        let unread = try stepper.provenUnread(records.map(\.id), since: .end)
        var ready = records.filter { unread.contains($0.id) }
        if ready.isEmpty { return .waitingForReaders }
        // A checkpoint of another connection may have synced nothing.
        try stepper.connection.sync(schema: "main")
        let start = ContinuousClock.now
        let stored = try Stored(stepper)
        var kept: [Int64: String] = [:]
        // If a source could not be written when a table began, nothing of it is written now. Other tables come next.
        let idsOfUnfenced = try UnfencedClaims(connection: connection).ids()
        var raised: (from: Int64, to: Int64)?
        let unfenced = ready.filter { idsOfUnfenced.contains($0.id) }
        let isUnfenced = !unfenced.isEmpty
        if isUnfenced { ready = unfenced }
        var isMissing = !isUnfenced && stepper.path(of: migration).map(FilePath.isGone) != false
        // An open file may have another path by now, for instance since its folder was renamed. It is released, as it
        // may still be somewhere. That does no harm to a file that another process has rightly deleted.
        if !isUnfenced, stepper.isAttached(migration) || !isMissing {
            do {
                try stepper.attach(migration)
                let claims = try Claims(connection: connection, migration: migration).all()
                let released = Set(claims.filter { $0.moved != nil }.map(\.id))
                ready = try ready.filter { try released.contains($0.id) || !isInUse($0, stored) }
                if ready.isEmpty { return .waitingForReaders }
                let now = ContinuousClock.now
                let release = try releaseSources(ready, until: max(deadline, now + (now - start)))
                (ready, kept, raised) = (release.released, release.kept, release.versions)
                ready = try ready.filter { try isReleaseSeen($0, stored) }
                if ready.isEmpty { return .waitingForReaders }
            } catch let error as SQLiteError where ResultCode.busy ~= error.code || ResultCode.locked ~= error.code {
                return .waitingForReaders
            } catch let error as SQLiteError where ResultCode.readOnly ~= error.code && isMissing {
                // SQLite does not write a file that has a rollback journal and is not at its path any more.
            }
            isMissing = stepper.path(of: migration).map(FilePath.isGone) != false
        }
        if isMissing {
            let reason = "its file is missing. Once it is back, the next addMigration of this source retires the table"
            for record in ready { kept[record.id] = reason }
        } else {
            for record in ready where record.retirement == .keep { kept[record.id] = nil }
        }
        stepper.noteSourceToLeave(migration)
        guard let done = try finish(ready, raised, isUnfenced: isUnfenced, isMissing: isMissing) else { return .busy }
        try announce(done, kept: kept)
        return .worked
    }

    /// Ends the moves of tables whose sources have been released, or need not be.
    ///
    /// - Parameters:
    ///   - raised: The version of the source's schema before the release and after; `nil` if the source was not
    ///     written.
    ///   - isUnfenced: Whether the source could not be written when the moves began.
    ///   - isMissing: Whether the source's file is not there.
    /// - Returns: The tables whose move this process has ended; `nil` if the target could not be locked.
    private func finish(
        _ records: [TableRecord],
        _ raised: (from: Int64, to: Int64)?,
        isUnfenced: Bool,
        isMissing: Bool
    ) throws -> [TableRecord]? {
        try stepper.transaction(isDurable: true) {
            if let raised, try stepper.store.exists() {
                try SeenSchemas(connection: connection).raiseSource(of: migration, from: raised.from, to: raised.to)
            }
            return try records.filter { record in
                let isDone = try finishInTransaction(record)
                if isDone, isUnfenced {
                    try UnfencedClaims(connection: connection).noteMoved(
                        record.id,
                        rows: record.copied + record.settled
                    )
                }
                // If another process was faster, it has found the file, and may have deleted it.
                if isDone, isMissing {
                    try Unreleased(connection: connection).note(
                        .init(
                            id: record.id,
                            moved: record.copied + record.settled,
                            source: migration.sourcePath,
                            retirement: record.retirement
                        )
                    )
                }
                return isDone
            }
        }
    }

    /// Whether a move's source has been released and dropped, and another table stands in its place by now.
    func isMadeAnew(_ record: TableRecord) throws -> Bool {
        let claim = try Claims(connection: connection, migration: migration).all(only: record.id).first
        return try claim?.isDropped == true
            && SchemaReader(connection: connection, schema: migration.schema).table(record.source) != nil
    }

    /// Ends a move whose source has been released, if no reader can still have the source's table from before the
    /// release.
    ///
    /// - Returns: `false` while the target is locked, or while another file has readers from before.
    func endReleased(_ record: TableRecord) throws -> Bool {
        guard try isReleaseSeen(record, Stored(stepper)),
            let isDone = try stepper.transaction(isDurable: true, { try finishInTransaction(record) })
        else { return false }
        try announce(isDone ? [record] : [], kept: [:])
        return true
    }

    private func beginRetiring(_ records: [TableRecord]) throws -> Bool {
        let done: Void? = try stepper.transaction(isDurable: true) {
            for record in records {
                try TableUpdate.move(record, to: .retiring, stepper.connection)
            }
        }
        return done != nil
    }

    /// The stored state, and which moves end in the same table.
    private struct Stored {
        let migrations: [MigrationRecord]
        /// The moves that are not over, by their targets in lower case.
        private let unfinished: [String: [TableRecord]]
        /// The moves within this file.
        private let onward: [TableRecord]

        init(_ stepper: Stepper) throws {
            let tables: [TableRecord]
            (migrations, tables) = try stepper.stored()
            let own = Set(migrations.filter { $0.sourcePath == nil }.map(\.id))
            onward = tables.filter { own.contains($0.migration) }
            unfinished = Dictionary(grouping: tables.filter { $0.phase != .done }) {
                SQLIdentifier.lowercased($0.target)
            }
        }

        /// The moves that are not over and go into the same table, or into tables of this file to which that table's
        /// rows move on. A move that still had rows to come then goes there directly.
        func others(_ record: TableRecord) -> [TableRecord] {
            if onward.isEmpty {
                return (unfinished[SQLIdentifier.lowercased(record.target)] ?? []).filter { $0.id != record.id }
            }
            let own = destinations(record.target)
            return unfinished.values.joined().filter {
                $0.id != record.id && !own.isDisjoint(with: destinations($0.target))
            }
        }

        private func destinations(_ table: String) -> Set<String> {
            var found = [table]
            var next = 0
            while next < found.count {
                let table = found[next]
                found += onward.filter { SQLIdentifier.equal($0.source, table) && !found.contains($0.target) }.map(
                    \.target
                )
                next += 1
            }
            return Set(found.map(SQLIdentifier.lowercased))
        }
    }

    /// Whether the file from which this move was taken over may still show its table with the source's rows. It may
    /// until that table has been released itself, and nobody reads from before the release.
    private func isInUse(_ record: TableRecord, _ stored: Stored) throws -> Bool {
        try stored.others(record).contains { other in
            guard let file = stored.migrations.first(where: { $0.id == other.migration && $0.sourcePath != nil }) else {
                return false
            }
            // If the file has been deleted, all its tables had been released. The file is let go of in its own turn.
            guard stepper.isAttached(file) || stepper.path(of: file).map(FilePath.exists) ?? false else { return true }
            try stepper.attach(file)
            let state = StateStore(connection: stepper.connection, schema: file.schema)
            return try state.table(record.id) != nil || isReleased(other, file)
        }
    }

    private func isReleased(_ record: TableRecord, _ migration: MigrationRecord) throws -> Bool {
        let claim = try Claims(connection: stepper.connection, migration: migration).all(only: record.id).first
        return claim?.moved != nil
    }

    /// Whether no reader of a file in the middle of a chain can still have the file's table, with rows of another
    /// source, from before the release. That other source goes next.
    private func isReleaseSeen(_ record: TableRecord, _ stored: Stored) throws -> Bool {
        try stored.others(record).isEmpty
            || stepper.isProvenUnread(record.id, since: .released, in: migration.schema)
    }

    /// - Parameters:
    ///   - records: The tables that this process has ended. A table that another process ended first was reported by
    ///     that process.
    ///   - kept: The reasons why sources were kept, by the tables' ids.
    private func announce(_ records: [TableRecord], kept: [Int64: String]) throws {
        if !records.isEmpty {
            let path = stepper.path(of: migration)
            let unfinished = try stepper.store.unfinishedTargets()
            for record in records {
                if let reason = kept[record.id] {
                    stepper.onEvent?(.sourceKept(table: record.source, path: path, reason: reason))
                }
                if !unfinished.contains(SQLIdentifier.lowercased(record.target)) {
                    stepper.onEvent?(.tableMoved(record.target))
                }
            }
        }
        try leaveSource()
    }

    /// - Parameter reason: Why the source tables are to be kept; `nil` if only what is found then can keep them.
    /// - Returns: The tables whose sources have been released; the reasons for which sources were kept; the version of
    ///   the source's schema before and after.
    func releaseSources(
        _ records: [TableRecord],
        until deadline: ContinuousClock.Instant,
        keptFor reason: String? = nil
    ) throws -> (released: [TableRecord], kept: [Int64: String], versions: (from: Int64, to: Int64)) {
        do {
            return try releaseSources(records, until: deadline, keptFor: reason, isDamaged: false)
        } catch let error as SQLiteError where ResultCode.corrupt ~= error.code && records.count == 1 {
            return try releaseSources(records, until: deadline, keptFor: reason, isDamaged: true)
        }
    }

    private func releaseSources(
        _ records: [TableRecord],
        until deadline: ContinuousClock.Instant,
        keptFor reason: String?,
        isDamaged: Bool
    ) throws -> (released: [TableRecord], kept: [Int64: String], versions: (from: Int64, to: Int64)) {
        let connection = stepper.connection
        let claims = Claims(connection: connection, migration: migration)
        let isClaimed = try Claims.exist(in: claims.schema, connection)
        // Only the source is written.
        try connection.execute("BEGIN")
        do {
            // SQLite does not wait for a lock that is asked for after a read.
            if isClaimed { try WriteLock.take(connection, by: "midstream_claims", in: migration.schema) }
            var (released, kept): ([TableRecord], [Int64: String]) = ([], [:])
            let version = try connection.schemaVersion(of: migration.schema)
            var known = try claims.all()
            for record in records {
                let moved = record.copied + record.settled
                kept[record.id] = try claims.release(
                    record,
                    moved: moved,
                    isDamaged: isDamaged,
                    keptFor: reason,
                    among: &known
                )
                released.append(record)
                if ContinuousClock.now >= deadline { break }
            }
            let raised = try connection.schemaVersion(of: migration.schema)
            try connection.execute("COMMIT")
            return (released, kept, (version, raised))
        } catch {
            try? connection.rollBack()
            throw Stepper.namingFullDisk(of: stepper.path(of: migration), error)
        }
    }

    var connection: Connection { stepper.connection }

    private func retireInSameFile(
        _ records: [TableRecord],
        until deadline: ContinuousClock.Instant
    ) throws -> MigrationProgress.Outcome {
        do {
            return try retireInSameFile(records, until: deadline, isDamaged: false)
        } catch let error as SQLiteError where ResultCode.corrupt ~= error.code && records.count == 1 {
            return try retireInSameFile(records, until: deadline, isDamaged: true)
        }
    }

    /// - Parameter isDamaged: Whether SQLite cannot drop the table, since a page of it or of an index is damaged.
    private func retireInSameFile(
        _ records: [TableRecord],
        until deadline: ContinuousClock.Instant,
        isDamaged: Bool
    ) throws -> MigrationProgress.Outcome {
        var kept: [Int64: String] = [:]
        let done = try stepper.transaction {
            kept.removeAll()
            var done: [TableRecord] = []
            for record in records where try isUnfinished(record) {
                kept[record.id] = isDamaged ? "it is damaged. All rows have moved" : try retireTable(record)
                if try finishInTransaction(record) { done.append(record) }
                if ContinuousClock.now >= deadline { break }
            }
            return done
        }
        guard let done else { return .busy }
        try announce(done, kept: kept)
        return .worked
    }

    /// Drops a source table of the target's own file, unless some of its rows are somebody else's. Returns why the
    /// table was kept.
    private func retireTable(_ record: TableRecord) throws -> String? {
        let connection = stepper.connection
        let name = SQLIdentifier.quoted(record.source)
        let other = try connection.fetchOne(
            "SELECT target FROM main.midstream_tables WHERE id <> ? AND migration = ? AND phase < ? AND source = ? COLLATE NOCASE",
            [record.id, record.migration, MigrationPhase.done.rawValue, record.source]
        )
        if let other { return "table \(try other.get(0, as: String.self)) has yet to take rows from it" }
        if let table = record.unreadableRowsTable { return "rows of it cannot be read: see table \(table)" }
        if record.retirement == .keep { return Claims.wasToBeKept }
        guard try SchemaReader(connection: connection, schema: "main").table(record.source) != nil else {
            return "the table no longer exists"
        }
        let claims = Claims(connection: connection, migration: migration)
        try claims.checkFence(record)
        let before = try claims.movedHere(from: record.source, besides: [record])
        if let keeping = before.first(where: { !$0.isDroppable }) {
            return "it was to be kept when its rows had moved to table \(keeping.targetTable)"
        }
        let rows: Int64 = try connection.fetchValue("SELECT count(*) FROM main.\(name)") ?? 0
        var claimed = record.copied + record.settled
        if !before.isEmpty {
            let conditions = before.map { "(\($0.condition ?? "1")\n)" }.joined(separator: " OR ")
            claimed +=
                try connection.fetchValue(Int64.self, "SELECT count(*) FROM main.\(name) WHERE \(conditions)") ?? 0
        }
        if rows != claimed {
            let verb = rows - claimed == 1 ? "belongs" : "belong"
            return "\(rows - claimed) of its rows \(verb) to no migration"
        }
        if let reason = try migration.remainder(connection).reasonToKeep(record) { return reason }
        try connection.withoutOverwriting("main") { try connection.dropTable(record.source, in: "main") }
        return nil
    }

    private func isUnfinished(_ record: TableRecord) throws -> Bool {
        guard let now = try stepper.store.table(record.id) else { return false }
        return now.phase != .done
    }

    /// Records that a table is done. With the last table, everything of Midstream's own is removed.
    ///
    /// - Returns: `false` if another process has done so.
    private func finishInTransaction(_ record: TableRecord) throws -> Bool {
        guard try isUnfinished(record) else { return false }
        let connection = stepper.connection
        try TableUpdate.move(record, to: .done, connection)
        for table in [record.ledger, record.watermarkTable] {
            try connection.dropTable(table, in: "main")
        }
        try BuildStore(connection: connection).drop(record.id)
        try KeptRowIDs(connection: connection).dropUnneeded()
        try stepper.store.dropIfOver()
        return true
    }

    // MARK: The source's file

    /// Lets go of the source when no table needs it any more, and deletes its file if that was asked for. If that
    /// fails, or if somebody has the file open, the next step tries again: nothing is stored of the source any more.
    func leaveSource() throws {
        stepper.noteSourceToLeave(migration)
        let isNeeded = try stepper.store.isUnfinished(migration)
        if isNeeded != true, try !detachSource() {
            stepper.onSourceInUse?()
            guard try detachSource() || stepper.hasWaitedToLeave(migration) else { return }
        }
        stepper.noteSourceLeft(migration)
        // No migration is left at all.
        if isNeeded == nil { stepper.onEvent?(.databaseMoved) }
    }

    /// Lets go of a source that was retired before, for instance by a process that ended before it could delete the
    /// file.
    func leaveRetiredSource() throws {
        if try !detachSource() { tellOfKeptFile() }
    }

    func tellOfKeptFile() {
        guard let path = stepper.path(of: migration) else { return }
        let reason = "another connection has it open. The next addMigration of this source deletes the file"
        stepper.onEvent?(.sourceFileKept(path: path, reason: reason))
    }

    /// Detaches a source that no table needs, and deletes its file if that was asked for and nothing is left in it.
    ///
    /// The caller makes sure that `done` is on the disk.
    ///
    /// - Returns: Whether nothing is left to do: `false` while somebody has a file open that is to be deleted.
    private func detachSource() throws -> Bool {
        var isLeft = true
        if migration.deletesFile, let path = stepper.path(of: migration), FilePath.exists(path) {
            do {
                try stepper.attach(migration)
                let left = try remainder()
                if left.isEmpty {
                    isLeft = try deleteSource(path)
                } else {
                    let reason = "the target lacks some of its content: " + Remainder.words(left)
                    stepper.onEvent?(.sourceFileKept(path: path, reason: reason))
                }
            } catch {
                // Another process may have deleted the file first.
                guard !FilePath.exists(path) else { throw error }
            }
        }
        try stepper.detach(migration)
        return isLeft
    }

    /// What the source still has, apart from its records of moves that are over.
    private func remainder() throws -> [UnmovedObject] {
        // The reads are of one snapshot of each file.
        try connection.holdingSnapshots(of: ["main", migration.schema]) {
            let claims = try Claims(connection: connection, migration: migration).all()
            let moving = claims.filter { $0.moved == nil }.map { claim in
                UnmovedObject(kind: .table, name: claim.sourceTable, reason: "it is moving to \(claim.destination)")
            }
            if !moving.isEmpty { return moving }
            let left = try migration.remainder(connection).objects(isEmptied: true)
            // Without a claim, nothing tells that this is the file from which the rows came.
            guard left.isEmpty, claims.isEmpty else { return left }
            return [UnmovedObject(kind: .table, name: "midstream_claims", reason: "it is gone")]
        }
    }

    /// - Returns: Whether the file is gone, or is not empty any more; `false` while somebody has it open.
    private func deleteSource(_ path: String) throws -> Bool {
        try stepper.withoutPatience {
            try SourceFile.delete(path, attachedTo: connection, as: migration.schema, lockingBy: "midstream_claims") {
                try remainder().isEmpty
            }
        } ?? false
    }
}
