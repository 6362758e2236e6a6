internal import SQLText
internal import SQLiteConnection

/// Builds a table beside the live one. The rows and the entries of each index come in their own order; in the end the
/// live table adopts them in one transaction.
///
/// The rows that the application writes meanwhile are in the live table, and the keys of the source's rows that these
/// supersede are in the ledger, as before any row has moved. A slice of rows gets what the source and the live table
/// show together when the slice is made. What is written after that comes into the build when the live table adopts it,
/// or before: see ``Merging``. `Docs/Architecture.md` has the protocol.
struct Building {
    let copying: Copying
    let builds: BuildStore

    init(_ copying: Copying) {
        self.copying = copying
        builds = BuildStore(connection: copying.connection)
    }

    var stepper: Stepper { copying.stepper }
    var connection: Connection { copying.connection }
    var sql: MoveSQL { copying.sql }
    var statements: InternalStatements { stepper.statements }

    /// How many rows, those in the live table and superseded ones, are compared at once while nobody waits. If there
    /// are more, they are compared in slices.
    static let mostCompared: Int64 = 1500

    /// How many of these rows are compared while others wait. If there are more, and somebody writes while they are
    /// compared, they are merged again.
    static let mostWritten: Int64 = 40_000

    /// The limit in place of ``mostWritten`` when merging the rows again would never end. Others then wait once, so
    /// that the build is not lost.
    static let mostWrittenAtLast: Int64 = 150_000

    /// A table is not built if more than this part of its rows, a quarter, has been superseded.
    private static let mostSupersededPart: Int64 = 4

    /// How often the rows that were written meanwhile are merged, at most. For an application that writes faster,
    /// merging would never end.
    static let mostMerges: Int64 = 8

    /// How many keys are merged before the stepper looks at the time, and at who waits.
    static let mergedAtOnce: Int64 = 64

    /// What has been built does not fit any more, or the table cannot be built. The rows are inserted into the live
    /// table instead.
    struct GivenUp: Error {}
    /// The table or an index has another definition than when the build began. The build begins anew.
    struct Outdated: Error {}
    /// More rows have been written than may come into the build while all others wait.
    struct Unmerged: Error {}

    /// Builds a table further.
    ///
    /// - Returns: `nil` if the table's rows are inserted into the live table instead.
    func advance(
        _ record: TableRecord,
        _ limit: Stepper.Limit,
        _ start: ContinuousClock.Instant
    ) throws -> (moved: Int64, outcome: MigrationProgress.Outcome)? {
        // The rows may just have been counted.
        guard record.watermark == nil, let record = try copying.store.table(record.id), record.watermark == nil,
            record.isMoving, try total(record) >= copying.state.leastBuilt
        else { return nil }
        let build = try build(record)
        let sources = try build.map(sources) ?? []
        if let first = sources.first, first.sql.id != record.id,
            let leading = try copying.store.table(first.sql.id)
        {
            return try Building(first).advance(leading, limit, start)
        }
        if try builds.has(.givenUp, record.id) { return nil }
        let parts = try builds.parts(record.id)
        guard let build else {
            if !parts.isEmpty { return try giveUp(record) }
            return nil
        }
        var total: Int64 = 0
        if let outcome = try count(sources, record, &total, limit, start) { return (0, outcome) }
        if case .rows(..<1, _) = limit { return (0, .worked) }
        do {
            if parts.isEmpty { return try begin(record, build, total) }
            return try goOn(record, build, parts, sources, limit, start)
        } catch is GivenUp {
            return try giveUp(record)
        } catch is Outdated {
            return try drop(record)
        } catch let error as SQLiteError where Self.isOfRow(error) && settles(record, build, parts) {
            copying.state.refusing.insert(record.id)
            // The build goes on within this step, since the process may make no other one.
            return try advance(record, limit, start)
        } catch let error as SQLiteError where Self.isOfBuild(error) {
            // Another process may have ended the build by now, so these reads may fail.
            let mayMixTimes =
                [ResultCode.constraintUnique, .constraintPrimaryKey].contains(error.code)
                && (try? hasWritten(build)) == true && build.feeds.count == 1
                && (try? isOfSourceAlone(build)) == false
            return try drop(record, noting: mayMixTimes ? .ofSourceAlone : .givenUp)
        }
    }

    /// Counts the rows of the first source that is not counted yet.
    ///
    /// - Parameter total: The rows of the sources that are counted are added to this number.
    /// - Returns: What the step has come to; `nil` if all sources are counted.
    private func count(
        _ sources: [Copying],
        _ record: TableRecord,
        _ total: inout Int64,
        _ limit: Stepper.Limit,
        _ start: ContinuousClock.Instant
    ) throws -> MigrationProgress.Outcome? {
        for source in sources {
            guard let own = try copying.store.table(source.sql.id) else { return .worked }
            guard let rows = own.total else {
                guard let counted = try source.countReadable(own, limit, start) else {
                    // A table with a damaged source is not built.
                    if copying.state.damaged[own.id] != nil { copying.state.builds[record.id] = nil }
                    return .worked
                }
                return try source.storeCount(counted, own) ? .worked : .busy
            }
            total += rows
        }
        return nil
    }

    /// Goes on with a build that has begun: fills its parts, merges what was written meanwhile, and lets the live table
    /// adopt the build.
    private func goOn(
        _ record: TableRecord,
        _ build: TableBuild,
        _ parts: [BuildStore.Part],
        _ sources: [Copying],
        _ limit: Stepper.Limit,
        _ start: ContinuousClock.Instant
    ) throws -> (moved: Int64, outcome: MigrationProgress.Outcome)? {
        if try builds.definition(record.id) != build.definition { throw Outdated() }
        guard parts.count == build.parts.count + 2, let merge = parts.last else { throw GivenUp() }
        let filled = parts.dropLast()
        if let part = filled.first(where: { $0.stage == .filling }) {
            return try fill(part, record, build, limit, start)
        }
        let isWhole = try zip(build.parts, filled.dropFirst()).allSatisfy { index, part in
            let hasHashes = try walk(index) != nil && record.verification != .count
            return part.count == part.expected - part.nulls && (!hasHashes || part.hashes == part.expectedHashes)
        }
        guard isWhole else { throw GivenUp() }
        if merge.stage != .filled { return try self.merge(record, build, limit, start) }
        // The sources are counted before there are entries with NULLs: these are to be there only for a short time.
        var counted: [(rows: Int64, hashes: Int64?)] = []
        for source in sources {
            guard var passed = try copying.store.table(source.sql.id) else { return (0, .worked) }
            passed.watermark = .max
            guard let rows = try source.countReadable(passed, limit, start) else { return (0, .worked) }
            counted.append(rows)
        }
        let open = filled.filter { $0.stage == .fillingNulls }
        // Once entries with NULLs are in their indexes, no row leaves a build.
        let hasNulls = merge.nulls > 0
        do {
            if !hasNulls { try findUnmerged(record, build, parts) }
            if let part = open.first, open.reduce(0, { $0 + $1.nulls }) > copying.state.mostNulls {
                return try fill(part, record, build, limit, start)
            }
            return try finish(record, build, parts, counted)
        } catch is Unmerged {
            if hasNulls { throw GivenUp() }
            return try mergeAgain(record, build)
        }
    }

    /// Whether the build gets the source's rows alone. It never does with several sources: a row that is superseded in
    /// one may be another's.
    func isOfSourceAlone(_ build: TableBuild) throws -> Bool {
        try build.feeds.count == 1 && builds.has(.ofSourceAlone, build.sql.id)
    }

    /// Whether the build has rows that are not the source's.
    private func hasWritten(_ build: TableBuild) throws -> Bool {
        try connection.fetchOne("SELECT 1 FROM \(build.merged) LIMIT 1") != nil
    }

    /// Whether an error may be one that does not occur when rows are inserted one by one, or that is reported then.
    private static func isOfBuild(_ error: SQLiteError) -> Bool {
        if error.isInterruption { return false }
        return error.isRefusal || ResultCode.corrupt ~= error.code || error.code == .error
            || ResultCode.readOnly ~= error.code
    }

    /// How many rows the sources of a table have, as far as they are counted. Sources of which a row has moved are left
    /// out.
    private func total(_ record: TableRecord) throws -> Int64 {
        if let total = record.total, total >= copying.state.leastBuilt { return total }
        return try connection.fetchValue(
            "SELECT sum(total) FROM main.midstream_tables WHERE target = ? AND phase = ? AND watermark IS NULL",
            [record.target, MigrationPhase.copying.rawValue]
        ) ?? 0
    }

    /// How the table is built, given its present shape; `nil` if it is not built.
    private func build(_ record: TableRecord) throws -> TableBuild? {
        let version = try connection.schemaVersion()
        if let known = copying.state.builds[record.id], known.version == version { return known.build }
        let feeds = try feeds(record)
        var made: TableBuild?
        let reader = SchemaReader(connection: connection, schema: "main")
        if !feeds.isEmpty, let target = try reader.table(record.target) {
            let sources = try feeds.compactMap { feed in
                try SchemaReader(connection: connection, schema: feed.schema).table(feed.record.source)
            }
            if sources.count == feeds.count {
                made = try TableBuild(feeds.map(\.sql), target: target, sources: sources, in: connection)
            }
        }
        copying.state.builds[record.id] = (version, made)
        return made
    }

    /// The moves into the table, one for each source, in the order in which they began; none if the table is not built.
    private func feeds(_ record: TableRecord) throws -> [(record: TableRecord, schema: String, sql: MoveSQL)] {
        let (migrations, records) = try stepper.stored()
        // No statement is shown the rows of a move that has yet to begin.
        let unfinished = records.filter { $0.phase != .done && $0.phase != .starting }
        let others = unfinished.filter { SQLIdentifier.equal($0.target, record.target) }
        // Moves into one of the sources, and moves within the file that go on from the table, come first.
        let ownFile = Set(migrations.filter { $0.sourcePath == nil }.map(\.id))
        func meets(_ source: TableRecord, _ target: TableRecord) -> Bool {
            ownFile.contains(source.migration) && SQLIdentifier.equal(source.source, target.target)
        }
        let isInChain = unfinished.contains { other in
            meets(other, record) || others.contains { meets($0, other) }
        }
        let isBuilt =
            !isInChain
            && others.allSatisfy { other in
                // If a move has copied all its rows, all of them are in the table.
                if other.phase == .copied || other.phase == .retiring { return !other.isReturning }
                return other.isMoving && other.isOwn && other.watermark == nil && other.unreadableRowsTable == nil
                    && (others.count == 1 || other.verification != .complete) && copying.state.damaged[other.id] == nil
            }
        guard isBuilt else { return [] }
        do {
            return try others.filter(\.isMoving).compactMap { other in
                if other.id == record.id { return (other, sql.sourceSchema, sql) }
                return try migrations.first { $0.id == other.migration }.map { migration in
                    (other, migration.schema, try stepper.sql(for: other, migration))
                }
            }
        } catch let error as MigrationError where error.code == .sourceUnavailable {
            // A source that is missing must not stop the others from moving, unless some of its rows are in a build.
            guard try builds.parts(others[0].id).isEmpty else { throw error }
            return []
        }
    }

    /// What moves the rows of each source of a build.
    func sources(_ build: TableBuild) throws -> [Copying] {
        if build.feeds.count == 1 { return [copying] }
        let (migrations, records) = try stepper.stored()
        return try build.feeds.map { feed in
            let record = records.first { $0.id == feed.id }
            let migration = migrations.first { $0.id == record?.migration } ?? copying.migration
            if !connection.isInTransaction { try stepper.attach(migration) }
            return Copying(stepper: stepper, migration: migration, sql: feed)
        }
    }

    /// Runs `body` in a transaction, with the table's record as it is there; `nil` if the target could not be locked.
    func transaction<Result>(
        _ record: TableRecord,
        _ build: TableBuild,
        _ body: (TableRecord) throws -> Result?
    ) throws -> Result?? {
        let sources = try sources(build)
        return try stepper.transaction { () throws -> Result? in
            var records: [TableRecord] = []
            for source in sources {
                guard let now = try source.store.table(source.sql.id) else { return nil }
                try source.confirm(now)
                guard try stepper.isCurrent(now), now.isMoving, now.watermark == nil else {
                    copying.state.builds[record.id] = nil
                    return nil
                }
                records.append(now)
            }
            guard let now = records.first,
                try copying.state.builds[record.id]?.version == connection.schemaVersion()
            else { return nil }
            if let definition = try builds.definition(record.id), definition != build.definition { throw Outdated() }
            let result = try body(now)
            for record in records { try stepper.checkSourceUnchanged(record) }
            return result
        }
    }

    // MARK: Beginning, and giving up

    /// - Parameter total: The number of the sources' rows.
    private func begin(
        _ record: TableRecord,
        _ build: TableBuild,
        _ total: Int64
    ) throws -> (moved: Int64, outcome: MigrationProgress.Outcome)? {
        // When rows move in batches, superseded rows are passed without a copy.
        let superseded = try build.ledgers.reduce(Int64(0)) { sum, ledger in
            try sum + (connection.fetchValue(Int64.self, "SELECT count(*) FROM \(ledger)") ?? 0)
        }
        if superseded > total / Self.mostSupersededPart { throw GivenUp() }
        guard try connection.canWriteSchema else { throw GivenUp() }
        copying.state.mergedAt[record.id] = nil
        let begun = try transaction(record, build) { _ -> Bool? in
            guard try builds.parts(record.id).isEmpty else { return true }
            try builds.create()
            try connection.create(in: "main", build.create)
            guard try isOfShape(build) else { throw GivenUp() }
            try builds.save(BuildStore.Part(number: 0), of: record.id, definition: build.definition)
            for part in build.parts { try builds.save(BuildStore.Part(number: part.number), of: record.id) }
            try builds.save(BuildStore.Part(number: build.parts.count + 1, stage: .filled), of: record.id)
            return true
        }
        return (0, begun == nil ? .busy : .worked)
    }

    /// Whether the hidden table has the columns of the live one.
    private func isOfShape(_ build: TableBuild) throws -> Bool {
        let reader = SchemaReader(connection: connection, schema: "main")
        guard let live = try reader.table(sql.targetName), let hidden = try reader.table(build.name) else {
            return false
        }
        return live.columns == hidden.columns && live.rowIDColumn == hidden.rowIDColumn
            && live.hasRowID == hidden.hasRowID && live.primaryKey == hidden.primaryKey
            && live.isStrict == hidden.isStrict && hidden.indexes.allSatisfy { !hidden.hasRowID && $0.isPrimaryKey }
    }

    private func giveUp(_ record: TableRecord) throws -> (moved: Int64, outcome: MigrationProgress.Outcome) {
        try drop(record, noting: .givenUp)
    }

    private func drop(
        _ record: TableRecord,
        noting mark: BuildStore.Mark? = nil
    ) throws -> (moved: Int64, outcome: MigrationProgress.Outcome) {
        copying.state.mergedAt[record.id] = nil
        let done: Void? = try stepper.transaction {
            guard let now = try copying.store.table(record.id), now.isMoving, now.watermark == nil else { return }
            try builds.create()
            try builds.drop(record.id, noting: mark)
        }
        return (0, done == nil ? .busy : .worked)
    }

    // MARK: Filling

    /// Fills a part until the step's time is up, or by as many rows as the step is to move.
    private func fill(
        _ part: BuildStore.Part,
        _ record: TableRecord,
        _ build: TableBuild,
        _ limit: Stepper.Limit,
        _ start: ContinuousClock.Instant
    ) throws -> (moved: Int64, outcome: MigrationProgress.Outcome) {
        let state = copying.state
        if part.stage == .filling { state.mergedAt[record.id] = nil }
        var settled = Settled()
        let filled = try transaction(record, build) { now -> Int64? in
            settled = Settled()
            // Another process may have brought the build further.
            let parts = try builds.parts(record.id)
            guard let current = parts.first(where: { $0.number == part.number }), current.stage == part.stage,
                var merge = parts.last, merge.stage == .filled
            else { return nil }
            if part.stage == .fillingNulls, merge.nulls == 0 {
                merge.nulls = 1
                try builds.save(merge, of: record.id)
            }
            var filling = Filling(
                building: self,
                build: build,
                record: now,
                part: current,
                others: parts,
                isOfSourceAlone: try isOfSourceAlone(build),
                isCareful: state.refusing.contains(record.id),
                cursor: try builds.cursor(record.id)
            )
            let before = current.count
            try pass(&filling, &settled, limit, start)
            if filling.isOver { filling.part.stage = filling.next }
            try builds.save(cursor: filling.isOver ? nil : filling.cursor, of: record.id)
            try builds.save(filling.part, of: record.id)
            if part.number == 0 {
                for other in filling.others.dropFirst().dropLast() { try builds.save(other, of: record.id) }
            }
            return part.number == 0 ? filling.part.count - before : 0
        }
        guard let filled else { return (0, .busy) }
        try tell(settled, of: record)
        if build.feeds.count > 1 {
            // If one of the moves was stopped, all of them go on now.
            let ids = Set(build.feeds.map(\.id))
            for stopped in try stepper.stored().tables where ids.contains(stopped.id) { stepper.noteProgress(stopped) }
        }
        let end = copying.clock.now
        if case .time(let budget, _) = limit, end > start + budget, !copying.isHeldUpBySync(end - start) {
            state.builtBatch.shrink()
        }
        return (filled ?? 0, .worked)
    }

    /// Fills a part in the open transaction: with the rows that the limit allows, or one batch after the other until the time
    /// is up.
    private func pass(
        _ filling: inout Filling,
        _ settled: inout Settled,
        _ limit: Stepper.Limit,
        _ start: ContinuousClock.Instant
    ) throws {
        switch limit {
        case .rows(let rows, _): try pass(&filling, rows, &settled)
        case .time(let budget, _):
            let state = copying.state
            let deadline = start + budget
            while !filling.isOver, settled.refusal == nil {
                let began = copying.clock.now
                try pass(&filling, state.builtBatch.rows, &settled)
                let time = copying.clock.now - began
                state.builtBatch.adapt(took: time)
                if copying.isToCommit(by: deadline, beforeAnother: time) { break }
            }
        }
    }

    /// The source's index whose entries an index gets; `nil` if the index gets the entries of the build's rows, in the
    /// order of the rows.
    func walk(_ index: TableBuild.Part) throws -> IndexWalk? {
        guard let walk = index.walk else { return nil }
        return try walk.hasRanges || !hasEdits(index) ? walk : nil
    }

    /// Whether the source's index has other entries than the rows of the build.
    func hasEdits(_ index: TableBuild.Part) throws -> Bool {
        let statement = try statements.statement("SELECT EXISTS (SELECT 1 FROM \(index.edits))")
        defer { statement.reset() }
        return try statement.step() && statement.int64(at: 0) != 0
    }

}
