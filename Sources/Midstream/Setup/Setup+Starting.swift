internal import SQLText
internal import SQLiteConnection

// From the storing of what is to move to its moving.
extension Setup {
    /// Why tables do not begin to move after all. They have been taken back.
    enum Refusal {
        /// Somebody without Midstream has changed one, or its source, since it was checked.
        case changed
        /// Somebody has written a row into one that collides, or moves on what has yet to come into the source.
        case error(MigrationError)

        /// - Parameter changed: What to throw where a table has changed.
        func raise(_ changed: any Error) throws {
            if case .error(let error) = self { throw error }
            throw changed
        }
    }

    /// Finishes what was begun: fences sources, lets tables move, and makes sure that sources are those that were
    /// claimed.
    ///
    /// - Parameter needed: The migration that must begin now. Others' tables whose beginning was cut short are left as they are
    ///   while their source, which may have been claimed, cannot be reached, or not be written. No row has moved, and nobody
    ///   sees its rows in the target.
    @discardableResult
    func resume(needed: MigrationRecord? = nil) throws -> Refusal? {
        let (migrations, records) = try stepper.load()
        var refusal: Refusal?
        for migration in migrations {
            let own = records.filter { $0.migration == migration.id }
            for record in own where record.phase == .copied && record.undoStage != nil {
                do {
                    _ = try Undo(stepper: stepper, migration: migration).release(record)
                } catch  where Self.isUnreachable(error) && migration.id != needed?.id {
                    // All rows are there, and nobody needs it for the target: the next step tries again, and tells.
                }
            }
            for record in own where record.phase == .copying {
                try stepper.unlessOvertaken(record) {
                    try stepper.attach(migration)
                    let claims = Claims(connection: connection, migration: migration)
                    try claims.confirm(record)
                }
            }
            let starting = own.filter { $0.phase == .starting }
            if !starting.isEmpty, let refused = try resume(starting, migration, isNeeded: migration.id == needed?.id) {
                refusal = refusal ?? refused
            }
        }
        return refusal
    }

    /// Whether an error says that a source cannot be reached, or is locked.
    private static func isUnreachable(_ error: any Error) -> Bool {
        if let error = error as? SQLiteError { return ResultCode.busy ~= error.code }
        return (error as? MigrationError)?.code == .sourceUnavailable
    }

    /// Lets tables of a migration move whose beginning was cut short.
    ///
    /// - Throws: Why they cannot; those that do not fit any more have been taken back.
    func finishBeginning(_ records: [TableRecord], _ migration: MigrationRecord) throws {
        let changed = MigrationError(
            .sourceChanged,
            "\(records.map(\.target).joined(separator: ", ")) do not begin to move: one of the tables, or its "
                + "source, has been changed since their migration was added. Add the migration again"
        )
        try resume(records, migration, isNeeded: true)?.raise(changed)
    }

    /// Loads what is stored once nothing is about to begin any more but what cannot be reached: what another process is about to
    /// begin is not seen yet, and it may have claimed the source.
    ///
    /// - Returns: With it, the version of the schema from which on nothing has changed.
    func resumeAndLoad() throws -> (version: Int64, migrations: [MigrationRecord], records: [TableRecord]) {
        try stepper.untilDone {
            // Somebody may have held the source, so that it could not be fenced.
            let cutShort = try stepper.load().tables.filter(\.isHalfBegun).map(\.id)
            if !cutShort.isEmpty { try resume() }
            let version = try connection.schemaVersion()
            let (migrations, records) = try stepper.load()
            guard records.allSatisfy({ !$0.isHalfBegun || cutShort.contains($0.id) }) else { return nil }
            return (version, migrations, records)
        }
    }

    private func resume(
        _ records: [TableRecord],
        _ migration: MigrationRecord,
        isNeeded: Bool
    ) throws -> Refusal? {
        do {
            try stepper.attach(migration)
            return try start(records, migration)
        } catch {
            stepper.detachReadOnly()
            let left = try records.filter(isStarting)
            guard left.count == records.count else {
                // What was missed is rightly gone if another process has brought some of them further.
                return left.isEmpty ? nil : try resume(left, migration, isNeeded: isNeeded)
            }
            closeForWrites(left, migration)
            if isNeeded { throw error }
            return nil
        }
    }

    /// Takes back what was about to begin and could not, unless another process lets it move.
    ///
    /// - Throws: ``MigrationError`` when the source cannot be reached, which may have been claimed: a claim that the target does
    ///   not know would be an error. Only where there is no file is it not asked: see ``Unreleased``.
    func takeBack(_ record: TableRecord, _ migration: MigrationRecord) throws {
        if let path = stepper.path(of: migration), FilePath.isGone(path) {
            return try forget(record, migration)
        }
        try stepper.attach(migration)
        try withdraw([record], migration, Claims(connection: connection, migration: migration))
    }

    /// Takes back what has begun in a file that is withdrawn: nobody has used it, and no row has come.
    ///
    /// - Parameter source: The file that it was made of.
    func takeBackWithdrawn(from source: String) throws {
        try setBackWithdrawn(from: source)
        let (migrations, records) = try stepper.load()
        for record in records where record.phase == .starting {
            if let migration = migrations.first(where: { $0.id == record.migration }) {
                try takeBack(record, migration)
            }
        }
    }

    /// Has what has begun be about to begin once more, in one transaction.
    func setBackWithdrawn(from source: String) throws {
        let file = FilePath.identity(source)
        try stepper.waitingTransaction {
            // Another process may have made the file anew.
            guard try WholeFileNote.isWithdrawn(connection) else { return }
            let (migrations, records) = try stepper.load()
            let own = Set(migrations.filter { stepper.path(of: $0).flatMap(FilePath.identity) == file }.map(\.id))
            for record in records where record.phase == .copying && record.undoStage == nil {
                for trigger in MoveSQL.dropTriggers(record.id) { try connection.execute(trigger) }
                // What was taken over with a table's claim is given back with that.
                guard own.contains(record.migration) else {
                    try stepper.store.remove(record)
                    stepper.forget(record.id)
                    continue
                }
                try TableUpdate.move(record, to: .starting, connection)
                // It fits no table any more.
                let nothing = Definitions(target: nil, source: nil)
                try stepper.store.save(nothing, in: WholeFileNote.copiedFile(connection), of: record)
            }
        }
    }

    /// Has the target forget a table that was about to move from a source that is not there. That is noted, since the file may come
    /// back, and may have been claimed.
    private func forget(_ record: TableRecord, _ migration: MigrationRecord) throws {
        try stepper.waitingTransaction {
            guard try isStarting(record) else { return }
            try removeNoting(record, migration)
        }
        stepper.forget(record.id)
    }

    /// Removes a table that is about to move, and notes that its source may have been claimed.
    private func removeNoting(_ record: TableRecord, _ migration: MigrationRecord) throws {
        let file = try stepper.store.sourceFile(of: record)
        let isUnfenced = try isUnfenced(record)
        try stepper.store.remove(record)
        guard let source = migration.sourcePath, !isUnfenced else { return }
        try Unreleased(connection: connection).note(
            .init(id: record.id, moved: Unreleased.nothing, source: source, file: file)
        )
    }

    /// Takes back the claims of what was cancelled before it had begun, or has returned, where the source's file is there again.
    /// What cannot be reached is left to the next one who looks.
    func takeBackClaimed() throws {
        for note in try Unreleased(connection: connection).claimed() {
            let migration = MigrationRecord(id: Identifiers.next(), sourcePath: note.source)
            guard let path = stepper.path(of: migration), FilePath.exists(path) else { continue }
            try? takeBackClaimed(note, migration)
            try? stepper.detach(migration)
        }
    }

    private func takeBackClaimed(_ note: Unreleased.Note, _ migration: MigrationRecord) throws {
        try stepper.attach(migration)
        let claim = try Claims(connection: connection, migration: migration).all(only: note.id).first
        _ = try settle(note, claim, migration)
    }

    /// Takes back the claim that a note tells of, and forgets the note, unless the file that is there is another one than that which
    /// was to be claimed: that may come back.
    ///
    /// - Returns: Whether there is no such claim any more.
    func settle(_ note: Unreleased.Note, _ claim: Claims.Claim?, _ migration: MigrationRecord) throws -> Bool {
        if let claim {
            // It may be that of the file which this one is a copy of.
            let claims = Claims(connection: connection, migration: migration)
            let isOwn = claim.targetFile.hasSameBytes(as: claims.targetFile()) || claims.isStale(claim)
            guard isOwn, claim.moved == nil, !note.isAfter(claim) else { return false }
            try takeBack(claim, migration)
        } else {
            guard let file = note.file, stepper.sourceFile(of: migration) == file else { return false }
            // Whoever has taken it back may have died before the rest.
            try giveBackAll(migration)
        }
        try stepper.waitingTransaction { try Unreleased(connection: connection).forget(note.id) }
        return true
    }

    private func takeBack(_ claim: Claims.Claim, _ migration: MigrationRecord) throws {
        let record = TableRecord(claim, of: migration)
        let claims = Claims(connection: connection, migration: migration)
        do {
            try claims.write {
                try claims.withdraw(record)
                if claim.undoStage != nil { try Undo.raiseSequence(record, migration, connection) }
            }
        } catch let error as SQLiteError where error.isMissingTable {
            // Another process has withdrawn the last one.
        }
        try giveBack(record, migration, isForgotten: true)
    }

    /// A move that has ended needs no note any more.
    func forgetNote(_ id: Int64) throws {
        try stepper.waitingTransaction { try Unreleased(connection: connection).forget(id) }
    }

    /// A table, or its source, is not the one any more that was checked.
    struct Changed: Error {}

    /// Another target was faster to claim rows of a source.
    private struct Taken: Error {
        let error: MigrationError
    }

    /// Fences the sources of tables that are `starting`, and lets them move: all of them, or none.
    private func start(_ records: [TableRecord], _ migration: MigrationRecord) throws -> Refusal? {
        // Whoever stored that they are about to begin may have died before it was on the disk.
        if migration.sourcePath != nil { try connection.sync(schema: "main") }
        let claims = Claims(connection: connection, migration: migration)
        let journal =
            try fenced(records, migration).isEmpty
            ? nil : try? connection.fetchValue(String.self, "PRAGMA \(migration.schema).journal_mode")
        func withdrawAll() throws {
            try withdraw(records, migration, claims)
            if let journal, journal != "wal", try claims.all().isEmpty {
                _ = try? connection.execute("PRAGMA \(migration.schema).journal_mode = \(journal)")
            }
        }
        do {
            try stepper.untilDone { try tryToStart(records, migration, claims) ? () : nil }
            // What the two files know of each other is not to be in a WAL alone, which somebody may leave behind.
            for schema in try fenced(records, migration).isEmpty ? ["main"] : Set(["main", migration.schema]) {
                _ = try? connection.checkpoint(schema: schema, mode: .passive)
            }
            return nil
        } catch  where error is Changed || error is Claims.NumberTaken {
            try withdrawAll()
            return .changed
        } catch let taken as Taken {
            try withdrawAll()
            return .error(taken.error)
        } catch let error as MigrationError
            where [.keyCollision, .unsupported, .unequalTables, .rowRefused].contains(error.code)
        {
            try withdrawAll()
            return .error(error)
        }
    }

    /// - Returns: `false` when another process, which found a collision, has withdrawn a claim meanwhile.
    private func tryToStart(
        _ records: [TableRecord],
        _ migration: MigrationRecord,
        _ claims: Claims
    ) throws -> Bool {
        let fenced = try fenced(records, migration)
        if let first = fenced.first {
            try stepper.writeSource(migration, of: first) {
                // They may be claimed in another file than the one which is there, and are not to be in two.
                if try WholeFileNote.isWithdrawn(connection) { throw Changed() }
                // Another process may have brought them to their end, or back: a claim that the target does not know would
                // be an error for ever.
                let left = try fenced.filter(isStarting)
                for record in left { try checkDefinitions(record, migration) }
                try checkFile(left, claims)
                try unlessTaken { try claims.stake(left) }
            }
            // Not before: a beginning that is refused leaves the source as it was.
            _ = try? connection.execute("PRAGMA \(migration.schema).journal_mode = WAL")
            try unlessTaken { for record in fenced { try takeOver(record, migration) } }
        }
        // Sources cannot be attached within a transaction.
        let known = Self.byTargets(try stepper.load().tables)
        for record in records { _ = try strangers(record, among: known) }
        var areClaimed = true
        try stepper.waitingTransaction {
            // Another process may have been here meanwhile.
            let left = try records.filter(isStarting)
            if migration.sourcePath != nil {
                let claimed = Set(try claims.all().map(\.id))
                areClaimed = left.allSatisfy { claimed.contains($0.id) }
            }
            guard areClaimed else { return }
            var stored = Self.byTargets(try stepper.load().tables)
            let number = Identifiers.next()
            var guards: [SchemaRow] = []
            for record in Self.inOrder(left, migration) {
                let isOnward = migration.sourcePath == nil && stored[SQLIdentifier.lowercased(record.source)] != nil
                if isOnward {
                    // It takes the triggers off which those have that it takes over.
                    try connection.create(guards, in: "main")
                    guards.removeAll()
                }
                // What moves on brings other moves with it.
                if try letMove(record, migration, claims, among: stored, number: number, &guards) {
                    stored = Self.byTargets(try stepper.load().tables)
                }
            }
            try connection.create(guards, in: "main")
            let moving = Set(try stepper.load().tables.filter { $0.migration == migration.id }.map(\.id))
            if moving.isSubset(of: left.map(\.id)) { try SeenSchemas(connection: connection).note(migration) }
        }
        return areClaimed
    }

    /// Makes sure that the sources of tables that are about to move are in the file in which they were checked, or have their claims:
    /// these may be in the other one, and the two are not to be claimed by one number.
    private func checkFile(_ records: [TableRecord], _ claims: Claims) throws {
        let now = stepper.sourceFile(of: claims.migration)
        for record in records {
            guard let file = try stepper.store.sourceFile(of: record), file != now,
                try claims.all(only: record.id).isEmpty
            else { continue }
            throw Changed()
        }
    }

    /// - Throws: ``Taken`` where rows belong to another migration by now.
    private func unlessTaken(_ body: () throws -> Void) throws {
        do {
            try body()
        } catch let error as MigrationError where error.code == .foreignState {
            throw Taken(error: error)
        }
    }

    /// With tables first that others move on from: these take over what those have yet to get.
    private static func inOrder(_ records: [TableRecord], _ migration: MigrationRecord) -> [TableRecord] {
        guard migration.sourcePath == nil else { return records }
        var (left, ordered) = (records, [TableRecord]())
        while !left.isEmpty {
            let next =
                left.firstIndex { record in !left.contains { SQLIdentifier.equal($0.target, record.source) } } ?? 0
            ordered.append(left.remove(at: next))
        }
        return ordered
    }

    /// Makes sure, in the transaction that is open, that a table which is about to move, and its source, are those that were
    /// checked.
    private func checkDefinitions(_ record: TableRecord, _ migration: MigrationRecord) throws {
        let now = try Definitions(of: record.target, from: record.source, migration, connection)
        let checked = try stepper.store.definitions(of: record) ?? now
        guard now == checked, now.target != nil, now.source != nil else { throw Changed() }
    }

    /// Whether a table has yet to begin, in the transaction that is open.
    func isStarting(_ record: TableRecord) throws -> Bool {
        try stepper.store.table(record.id)?.phase == .starting
    }

    /// Lets one move, in the transaction that is open.
    ///
    /// - Parameters:
    ///   - stored: All tables that move, by their targets.
    ///   - number: That of the guard triggers.
    ///   - guards: Those that are to be created, which this one's come to.
    /// - Returns: Whether others move as well since then: those that had moved into its source.
    private func letMove(
        _ record: TableRecord,
        _ migration: MigrationRecord,
        _ claims: Claims,
        among stored: [String: [TableRecord]],
        number: Int64,
        _ guards: inout [SchemaRow]
    ) throws -> Bool {
        if try WholeFileNote.isWithdrawn(connection) { throw Changed() }
        try checkDefinitions(record, migration)
        if let stamp = try UnfencedClaims(connection: connection).stamp(of: record.id),
            stepper.path(of: migration).flatMap(SourceStamp.init(of:)) != stamp
        {
            throw Changed()
        }
        do {
            try checkUnclaimed(record.target, record.source, migration)
            if migration.sourcePath == nil { try claims.checkOwners(record) }
        } catch let error as MigrationError {
            throw Taken(error: error)
        }
        guard let target = try SchemaReader(connection: connection, schema: "main").table(record.target),
            let source = try SchemaReader(connection: connection, schema: migration.schema).table(record.source)
        else { throw Changed() }
        let beginning = Beginning(record, migration, target: target, source: source, on: connection)
        // Until the source is fenced, and the target has the guard triggers, others may have written rows that do not fit.
        try beginning.checkRows()
        try Compatibility(
            connection: connection,
            target: target,
            source: source,
            sql: beginning.sql,
            others: strangers(record, among: stored)
        ).check()
        let hasJoined = try join(record, migration)
        if migration.sourcePath == nil { try unlessTaken { try claims.stake(record) } }
        let handler = stepper.refusalHandlers[record.id]
        let setAside = try beginning.settleFailing(stepper.statements, handler: handler)
        guards += try beginning.letMove(number: number)
        if setAside > 0 { stepper.onEvent?(.rowsSetAside(table: record.target, count: setAside)) }
        try stepper.store.forgetDefinitions(of: record)
        return hasJoined
    }

    /// The other sources of a table that is about to move.
    private func strangers(_ record: TableRecord, among stored: [String: [TableRecord]]) throws -> [MoveSQL] {
        let sources = stored[SQLIdentifier.lowercased(record.target)] ?? []
        return try others(of: record.target, sources.filter { $0.id != record.id })
    }

    private static func byTargets(_ records: [TableRecord]) -> [String: [TableRecord]] {
        Dictionary(grouping: records) { SQLIdentifier.lowercased($0.target) }
    }

    /// Has the target forget tables that are about to move, but those that another process lets move, or whose source is
    /// claimed.
    ///
    /// - Parameters:
    ///   - isNoted: Whether that is noted, since a claim may show later.
    ///   - withdrawn: Those whose claims have been taken back.
    func forgetUnclaimed(
        _ records: [TableRecord],
        _ migration: MigrationRecord,
        isNoted: Bool = false,
        withdrawn: Set<Int64> = []
    ) throws {
        let claims = Claims(connection: connection, migration: migration)
        let file = stepper.sourceFile(of: migration)
        try stepper.waitingTransaction {
            // Nobody claims it in the meantime, since that takes the target's lock as well.
            let known = migration.sourcePath == nil ? [] : try claims.all()
            for record in try records.filter(isStarting) {
                let isUnfenced = try isUnfenced(record)
                let isClaimed =
                    !isUnfenced && known.contains { $0.id == record.id } && !claims.isTaken(record, among: known)
                if isClaimed { continue }
                // The claim may be in another file than the one which is there.
                let isElsewhere = try !withdrawn.contains(record.id) && stepper.store.sourceFile(of: record) != file
                if !isUnfenced, isNoted || isElsewhere {
                    try removeNoting(record, migration)
                } else {
                    try stepper.store.remove(record)
                }
            }
        }
        for record in records { stepper.forget(record.id) }
    }

    /// Takes back what was begun, unless another process lets it move, or claims the source anew. The target forgets it
    /// last: what the source knows of alone would be an error for ever.
    private func withdraw(_ records: [TableRecord], _ migration: MigrationRecord, _ claims: Claims) throws {
        var withdrawn: Set<Int64> = []
        let fenced = try fenced(records, migration)
        if let first = fenced.first {
            try stepper.writeSource(migration, of: first) {
                let known = try claims.all()
                for record in try fenced.filter(isStarting) where !claims.isTaken(record, among: known) {
                    try claims.withdraw(record)
                    if known.contains(where: { $0.id == record.id }) { withdrawn.insert(record.id) }
                }
            }
            for record in fenced { try giveBack(record, migration) }
        }
        try forgetUnclaimed(records, migration, withdrawn: withdrawn)
    }
}
