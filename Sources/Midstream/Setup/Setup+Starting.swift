internal import SQLText
internal import SQLiteConnection

// From the moment that a move is stored until its rows may move.
extension Setup {
    /// Why tables do not begin to move after all. Their beginning has been taken back.
    enum Refusal {
        /// A program without Midstream has changed a table, or its source, since Midstream checked them.
        case changed
        /// Somebody has written a row that collides, or moves on the rows that have yet to come into the source.
        case error(MigrationError)

        /// - Parameter changed: The error to throw if a table has changed.
        func raise(_ changed: any Error) throws {
            if case .error(let error) = self { throw error }
            throw changed
        }
    }

    /// Finishes what was begun: fences sources, lets tables move, and makes sure that the sources are those that were claimed.
    ///
    /// - Parameter needed: The migration that must begin now. Tables of other migrations whose beginning was cut short stay as
    ///   they are while their source cannot be reached or written. The source may have been claimed, but no row has moved, and
    ///   nobody sees the source's rows in the target.
    @discardableResult
    func resume(needed: MigrationRecord? = nil) throws -> Refusal? {
        let (migrations, records) = try stepper.load()
        var refusal: Refusal?
        for migration in migrations {
            let own = records.filter { $0.migration == migration.id }
            for record in own where record.hasReturned {
                do {
                    _ = try Undo(stepper: stepper, migration: migration).release(record)
                } catch  where Self.isUnreachable(error) && migration.id != needed?.id {
                    // All rows are in the source, and the target does not need the release: the next step tries again, and
                    // reports the error.
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
    /// - Throws: Why they cannot move. Beginnings that no longer fit have been taken back.
    func finishBeginning(_ records: [TableRecord], _ migration: MigrationRecord) throws {
        let changed = MigrationError(
            .sourceChanged,
            "these tables do not begin to move: \(records.map(\.target).joined(separator: ", ")). One of them, or its "
                + "source, has been changed since their migration was added: add the migration again"
        )
        try resume(records, migration, isNeeded: true)?.raise(changed)
    }

    /// Loads the stored state once no table is about to begin, except tables whose source cannot be reached. If another process
    /// is about to begin a move, Midstream does not see the move as begun yet, and the process may have claimed the source.
    ///
    /// - Returns: The stored state, with the schema version from which on nothing has changed.
    func resumeAndLoad() throws -> (version: Int64, migrations: [MigrationRecord], records: [TableRecord]) {
        try stepper.untilDone {
            // Somebody may have locked the source, so that it could not be fenced.
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
                // If another process has brought some tables further, what was missed is rightly gone.
                return left.isEmpty ? nil : try resume(left, migration, isNeeded: isNeeded)
            }
            closeForWrites(left, migration)
            if isNeeded { throw error }
            return nil
        }
    }

    /// Takes back a beginning that could not be finished, unless another process lets the table move.
    ///
    /// - Throws: ``MigrationError`` when the source cannot be reached. The source may have been claimed, and a claim that the
    ///   target does not know would be an error. Only if there is no file does this function not look at the source: see
    ///   ``Unreleased``.
    func takeBack(_ record: TableRecord, _ migration: MigrationRecord) throws {
        if let path = stepper.path(of: migration), FilePath.isGone(path) {
            return try forget(record, migration)
        }
        try stepper.attach(migration)
        try withdraw([record], migration, Claims(connection: connection, migration: migration))
    }

    /// Takes back what has begun in a file that is withdrawn: nobody has used the file, and no row has come.
    ///
    /// - Parameter source: The file of which the withdrawn file was made.
    func takeBackWithdrawn(from source: String) throws {
        try setBackWithdrawn(from: source)
        let (migrations, records) = try stepper.load()
        for record in records where record.phase == .starting {
            if let migration = migrations.first(where: { $0.id == record.migration }) {
                try takeBack(record, migration)
            }
        }
    }

    /// Sets the tables that have begun to move back to `starting`, in one transaction.
    func setBackWithdrawn(from source: String) throws {
        let file = FilePath.identity(source)
        try stepper.waitingTransaction {
            // Another process may have made the file anew.
            guard try WholeFileNote.isWithdrawn(connection) else { return }
            let (migrations, records) = try stepper.load()
            let own = Set(migrations.filter { stepper.path(of: $0).flatMap(FilePath.identity) == file }.map(\.id))
            for record in records where record.isMoving {
                for trigger in MoveSQL.dropTriggers(record.id) { try connection.execute(trigger) }
                // A move that was taken over with a table's claim is given back together with the claim.
                guard own.contains(record.migration) else {
                    try stepper.store.remove(record)
                    stepper.forget(record.id)
                    continue
                }
                try TableUpdate.move(record, to: .starting, connection)
                // The beginning fits no table any more.
                let nothing = Definitions(target: nil, source: nil)
                try stepper.store.save(nothing, in: WholeFileNote.copiedFile(connection), of: record)
            }
        }
    }

    /// Makes the target forget a table that was about to move from a source that is not there. The target notes this, since the
    /// file may come back, and may have been claimed.
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

    /// Takes back the claims of moves that were cancelled before they had begun, or whose rows have returned, if the source's
    /// file is there again. Claims that cannot be reached are left to the next caller.
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

    /// Takes back the claim that a note tells of, and forgets the note. Does neither if the file that is there is not the one
    /// that was to be claimed: the other file may come back.
    ///
    /// - Returns: Whether there is no such claim any more.
    func settle(_ note: Unreleased.Note, _ claim: Claims.Claim?, _ migration: MigrationRecord) throws -> Bool {
        if let claim {
            // The claim may be that of the file of which this file is a copy.
            let claims = Claims(connection: connection, migration: migration)
            let isOwn = claim.targetFile.hasSameBytes(as: claims.targetFile()) || claims.isStale(claim)
            guard isOwn, claim.moved == nil, !note.isAfter(claim) else { return false }
            try takeBack(claim, migration)
        } else {
            guard let file = note.file, stepper.sourceFile(of: migration) == file else { return false }
            // The process that took back the claim may have died before it did the rest.
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
            // Another process has withdrawn the last claim.
        }
        try giveBack(record, migration, isForgotten: true)
    }

    /// Forgets the note of a move that has ended, which needs no note any more.
    func forgetNote(_ id: Int64) throws {
        try stepper.waitingTransaction { try Unreleased(connection: connection).forget(id) }
    }

    /// A table, or its source, is no longer the one that was checked.
    struct Changed: Error {}

    /// Another target has claimed rows of a source first.
    private struct Taken: Error {
        let error: MigrationError
    }

    /// Fences the sources of tables that are `starting`, and lets them move: all of them, or none.
    private func start(_ records: [TableRecord], _ migration: MigrationRecord) throws -> Refusal? {
        // The process that stored the beginning may have died before the beginning was on the disk.
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
            // What the two files store of each other must not be in a WAL alone: somebody may leave the WAL behind.
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
                // The tables may be claimed in a file that is not the one now there, and must not be claimed in two files.
                if try WholeFileNote.isWithdrawn(connection) { throw Changed() }
                // Another process may have brought the tables to their end, or back: a claim that the target does not know would
                // be an error for ever.
                let left = try fenced.filter(isStarting)
                for record in left { try checkDefinitions(record, migration) }
                try checkFile(left, claims)
                try unlessTaken { try claims.stake(left) }
            }
            // Not earlier: a beginning that is refused leaves the source as it was.
            _ = try? connection.execute("PRAGMA \(migration.schema).journal_mode = WAL")
            try unlessTaken { for record in fenced { try takeOver(record, migration) } }
        }
        // Sources cannot be attached within a transaction.
        let known = Self.byTargets(try stepper.load().tables)
        for record in records { _ = try strangers(record, among: known) }
        var areClaimed = true
        try stepper.waitingTransaction {
            // Another process may have done this meanwhile.
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
                    // A table that moves on drops the guard triggers of the moves that it takes over, so these triggers must
                    // exist.
                    try connection.create(guards, in: "main")
                    guards.removeAll()
                }
                // A table that moves on brings the moves into its source with it.
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

    /// Makes sure that the sources of tables that are about to move are in the file in which they were checked, or have their
    /// claims. Otherwise the claims may be in the other file, and the two files must not be claimed under one id.
    private func checkFile(_ records: [TableRecord], _ claims: Claims) throws {
        let now = stepper.sourceFile(of: claims.migration)
        for record in records {
            guard let file = try stepper.store.sourceFile(of: record), file != now,
                try claims.all(only: record.id).isEmpty
            else { continue }
            throw Changed()
        }
    }

    /// - Throws: ``Taken`` if the rows belong to another migration now.
    private func unlessTaken(_ body: () throws -> Void) throws {
        do {
            try body()
        } catch let error as MigrationError where error.code == .foreignState {
            throw Taken(error: error)
        }
    }

    /// Puts tables from which others move on first: the others take over the rows that the first have yet to get.
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

    /// Makes sure, in the open transaction, that a table which is about to move, and its source, are the tables that were
    /// checked.
    private func checkDefinitions(_ record: TableRecord, _ migration: MigrationRecord) throws {
        let now = try Definitions(of: record.target, from: record.source, migration, connection)
        let checked = try stepper.store.definitions(of: record) ?? now
        guard now == checked, now.target != nil, now.source != nil else { throw Changed() }
    }

    /// Whether a table has yet to begin, in the open transaction.
    func isStarting(_ record: TableRecord) throws -> Bool {
        try stepper.store.table(record.id)?.phase == .starting
    }

    /// Lets one table move, in the open transaction.
    ///
    /// - Parameters:
    ///   - stored: All tables that move, by their targets.
    ///   - number: The number of the guard triggers.
    ///   - guards: The guard triggers that are to be created; the function adds those of this table.
    /// - Returns: Whether other tables move as well since then: the moves into this table's source now go on into this table.
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
        // Until the source is fenced and the target has the guard triggers, others may have written rows that do not fit.
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
        let settled = try beginning.settleFailing(stepper.statements, handler: handler)
        guards += try beginning.letMove(number: number)
        settled.report(of: record, to: stepper.onEvent)
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

    /// Makes the target forget tables that are about to move, except those that another process lets move and those whose source
    /// is claimed.
    ///
    /// - Parameters:
    ///   - isNoted: Whether the target notes the beginning, since a claim may turn up later.
    ///   - withdrawn: The tables whose claims have been taken back.
    func forgetUnclaimed(
        _ records: [TableRecord],
        _ migration: MigrationRecord,
        isNoted: Bool = false,
        withdrawn: Set<Int64> = []
    ) throws {
        let claims = Claims(connection: connection, migration: migration)
        let file = stepper.sourceFile(of: migration)
        try stepper.waitingTransaction {
            // Nobody claims the source meanwhile, since a claim takes the target's lock as well.
            let known = migration.sourcePath == nil ? [] : try claims.all()
            for record in try records.filter(isStarting) {
                let isUnfenced = try isUnfenced(record)
                let isClaimed =
                    !isUnfenced && known.contains { $0.id == record.id } && !claims.isTaken(record, among: known)
                if isClaimed { continue }
                // The claim may be in a file that is not the one now there.
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

    /// Takes back what was begun, unless another process lets the table move, or claims the source anew. The target forgets the
    /// table last: a claim that only the source knows would be an error for ever.
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
