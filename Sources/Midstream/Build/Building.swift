internal import SQLText
internal import SQLiteConnection

/// Builds a table beside the live one, whose rows and indexes come in their own order, and has the live table adopt them in one
/// transaction.
///
/// What the application writes meanwhile is in the live table, and the keys of the source's rows that are superseded by it are in the
/// ledger, as before any row has moved. The build has all of the source's rows: those of the ledger leave it, and those of the live table
/// come in, when the live table adopts it, or before: see ``Merging``. `Docs/Architecture.md` has the protocol.
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

    /// How many rows the live table may have, and as many superseded keys there may be: each is looked up once more when the live table
    /// adopts the build. Where there are more, the rest of the rows is inserted instead.
    static let mostWritten: Int64 = 20_000

    /// How often what was written meanwhile is merged. Whoever writes faster would have it merged for ever.
    private static let mostMerges: Int64 = 8

    /// What is built by now does not fit any more, or cannot be built: the rows are inserted into the live table.
    struct GivenUp: Error {}
    /// The table or an index has another definition than when the build began, which begins anew.
    private struct Outdated: Error {}
    /// More has been written than may come in while all others wait.
    private struct Unmerged: Error {}

    /// Builds a table further.
    ///
    /// - Returns: `nil` where its rows are inserted into the live table instead.
    func advance(
        _ record: TableRecord,
        _ limit: Stepper.Limit,
        _ start: ContinuousClock.Instant
    ) throws -> (moved: Int64, outcome: MigrationProgress.Outcome)? {
        // It may just have been counted.
        guard record.watermark == nil, let record = try copying.store.table(record.id), record.watermark == nil,
            let total = record.total, total > 0, total >= copying.state.leastBuilt, record.isMoving
        else { return nil }
        let parts = try builds.parts(record.id)
        if parts.first?.number == -1 { return nil }
        guard let build = try build(record) else {
            if !parts.isEmpty { return try giveUp(record) }
            return nil
        }
        if case .rows(..<1, _) = limit { return (0, .worked) }
        do {
            if parts.isEmpty { return try begin(record, build) }
            if try builds.definition(record.id) != build.definition { throw Outdated() }
            guard parts.count == build.parts.count + 2, let merge = parts.last else { throw GivenUp() }
            let filled = parts.dropLast()
            if let part = filled.first(where: { $0.stage == .filling }) {
                return try fill(part, record, build, limit, start)
            }
            let isWhole = zip(build.parts, filled.dropFirst()).allSatisfy { index, part in
                let hasHashes = index.walk != nil && record.verification != .count
                return part.count == part.expected - part.nulls && (!hasHashes || part.hashes == part.expectedHashes)
            }
            guard isWhole else { throw GivenUp() }
            if merge.stage != .filled {
                do {
                    return try self.merge(record, build, limit, start)
                } catch let error as SQLiteError where ResultCode.constraint ~= error.code {
                    // A row that has come since has the value of one that has left since.
                    return try mergeAgain(record, build)
                }
            }
            // Before there are entries with NULLs, which are there for a short time then.
            var passed = record
            passed.watermark = .max
            guard let counted = try copying.countReadable(passed, limit, start) else { return (0, .worked) }
            let open = filled.filter { $0.stage == .fillingNulls }
            // Once entries with NULLs are in their indexes, no row leaves a build.
            let hasNulls = merge.nulls > 0
            let most = copying.state.mostUnmerged
            do {
                if !hasNulls, try Merging(self, build).count(atMost: most) > most { throw Unmerged() }
                if let part = open.first, open.reduce(0, { $0 + $1.nulls }) > copying.state.mostNulls {
                    return try fill(part, record, build, limit, start)
                }
                return try finish(record, build, parts, counted)
            } catch is Unmerged {
                if hasNulls { throw GivenUp() }
                return try mergeAgain(record, build)
            }
        } catch is GivenUp {
            return try giveUp(record)
        } catch is Outdated {
            return try drop(record, isGivenUp: false)
        } catch let error as SQLiteError where Self.isOfBuild(error) {
            return try giveUp(record)
        }
    }

    /// Whether an error may be one that rows which are inserted one by one do not meet, or are told of by then.
    private static func isOfBuild(_ error: SQLiteError) -> Bool {
        if error.isInterruption { return false }
        return error.isRefusal || ResultCode.corrupt ~= error.code || error.code == .error
            || ResultCode.readOnly ~= error.code
    }

    /// How the table is built, by its shape as it is now; `nil` where it is not.
    private func build(_ record: TableRecord) throws -> TableBuild? {
        let version = try StateStore.schemaVersion(connection)
        if let known = copying.state.builds[record.id], known.version == version { return known.build }
        var made: TableBuild?
        let (_, records) = try stepper.load()
        // The rows of several sources, or of a chain, come one after the other.
        let names = [record.target, record.source]
        let isAlone = !records.contains { other in
            other.id != record.id && other.phase != .done
                && names.contains { SQLIdentifier.equal(other.target, $0) || SQLIdentifier.equal(other.source, $0) }
        }
        if isAlone, record.refusedRowsTable == nil, record.unreadableRowsTable == nil,
            let target = try SchemaReader(connection: connection, schema: "main").table(record.target),
            let source = try SchemaReader(connection: connection, schema: sql.sourceSchema).table(record.source)
        {
            made = try TableBuild(sql, target: target, source: source, in: connection)
        }
        copying.state.builds[record.id] = (version, made)
        return made
    }

    /// Runs `body` in a transaction, with the table's state as it is there; `nil` when the target could not be locked.
    private func transaction<Result>(
        _ record: TableRecord,
        _ build: TableBuild,
        _ body: (TableRecord) throws -> Result?
    ) throws -> Result?? {
        try stepper.transaction { () throws -> Result? in
            try copying.confirm(record)
            guard try stepper.isCurrent(record), let now = try copying.store.table(record.id), now.isMoving,
                now.watermark == nil,
                try copying.state.builds[record.id]?.version == StateStore.schemaVersion(connection)
            else { return nil }
            if let definition = try builds.definition(record.id), definition != build.definition { throw Outdated() }
            let result = try body(now)
            try stepper.checkSourceUnchanged(record)
            return result
        }
    }

    // MARK: Beginning, and giving up

    private func begin(
        _ record: TableRecord,
        _ build: TableBuild
    ) throws -> (moved: Int64, outcome: MigrationProgress.Outcome)? {
        guard try connection.canWriteSchema, try isLittleWritten() else { throw GivenUp() }
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

    /// Whether the hidden table has the live one's columns.
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
        try drop(record, isGivenUp: true)
    }

    private func drop(
        _ record: TableRecord,
        isGivenUp: Bool
    ) throws -> (moved: Int64, outcome: MigrationProgress.Outcome) {
        let done: Void? = try stepper.transaction {
            guard let now = try copying.store.table(record.id), now.isMoving, now.watermark == nil else { return }
            try builds.create()
            try builds.drop(record.id, isGivenUp: isGivenUp)
        }
        return (0, done == nil ? .busy : .worked)
    }

    /// Whether few rows have been written, so that the live table can adopt a build.
    private func isLittleWritten() throws -> Bool {
        try [sql.target, sql.ledger].allSatisfy { table in
            let count: Int64? = try connection.fetchValue(
                "SELECT count(*) FROM (SELECT 1 FROM \(table) LIMIT \(Self.mostWritten + 1))"
            )
            return (count ?? 0) <= Self.mostWritten
        }
    }

    // MARK: Filling

    /// Fills a part until the step's time is up, or with so many rows.
    private func fill(
        _ part: BuildStore.Part,
        _ record: TableRecord,
        _ build: TableBuild,
        _ limit: Stepper.Limit,
        _ start: ContinuousClock.Instant
    ) throws -> (moved: Int64, outcome: MigrationProgress.Outcome) {
        let state = copying.state
        let filled = try transaction(record, build) { now -> Int64? in
            // Another process may be further.
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
                cursor: try builds.cursor(record.id)
            )
            let before = current.count
            switch limit {
            case .rows(let rows, _): try filling.pass(rows)
            case .time(let budget, _):
                let deadline = start + budget
                while !filling.isOver {
                    let began = copying.clock.now
                    try filling.pass(state.builtBatch.rows)
                    let time = copying.clock.now - began
                    state.builtBatch.adapt(took: time)
                    if copying.isToCommit(by: deadline, beforeAnother: time) { break }
                }
            }
            if filling.isOver { filling.part.stage = filling.next }
            try builds.save(cursor: filling.isOver ? nil : filling.cursor, of: record.id)
            try builds.save(filling.part, of: record.id)
            if part.number == 0 {
                for other in filling.others.dropFirst().dropLast() { try builds.save(other, of: record.id) }
            }
            return part.number == 0 ? filling.part.count - before : 0
        }
        guard let filled else { return (0, .busy) }
        let end = copying.clock.now
        if case .time(let budget, _) = limit, end > start + budget, !copying.isHeldUpBySync(end - start) {
            state.builtBatch.shrink()
        }
        return (filled ?? 0, .worked)
    }

    // MARK: Merging

    /// Has what was written since be merged in slices, before the live table can adopt the build.
    private func mergeAgain(
        _ record: TableRecord,
        _ build: TableBuild
    ) throws -> (moved: Int64, outcome: MigrationProgress.Outcome) {
        let done = try transaction(record, build) { _ -> Bool? in
            guard var merge = try builds.parts(record.id).last, merge.number > 0 else { return nil }
            guard build.merges, merge.nulls == 0, merge.count < Self.mostMerges else { throw GivenUp() }
            merge.stage = .filling
            merge.count += 1
            try builds.save(cursor: nil, of: record.id)
            try builds.save(merge, of: record.id)
            return true
        }
        return (0, done == nil ? .busy : .worked)
    }

    private func merge(
        _ record: TableRecord,
        _ build: TableBuild,
        _ limit: Stepper.Limit,
        _ start: ContinuousClock.Instant
    ) throws -> (moved: Int64, outcome: MigrationProgress.Outcome) {
        let done = try transaction(record, build) { _ -> Bool? in
            guard var merge = try builds.parts(record.id).last, merge.stage != .filled else { return nil }
            let merging = Merging(self, build)
            var (cursor, left) = (try builds.cursor(record.id), Int64.max)
            if case .rows(let rows, _) = limit { left = rows }
            while left > 0 {
                let last = try merging.mergeOne(after: cursor, comingIn: merge.stage == .fillingNulls)
                cursor = last.map { [.integer($0)] }
                left -= 1
                if last == nil {
                    merge.stage = merge.stage == .filling ? .fillingNulls : .filled
                    if merge.stage == .filled { break }
                }
                guard case .time(let budget, _) = limit else { continue }
                if copying.isToCommit(by: start + budget, beforeAnother: .zero) { break }
            }
            try builds.save(cursor: cursor, of: record.id)
            try builds.save(merge, of: record.id)
            return true
        }
        return (0, done == nil ? .busy : .worked)
    }

    // MARK: The end

    /// Compares what is built with the rows, and has the live table adopt it.
    private func finish(
        _ record: TableRecord,
        _ build: TableBuild,
        _ parts: [BuildStore.Part],
        _ counted: (rows: Int64, hashes: Int64?)
    ) throws -> (moved: Int64, outcome: MigrationProgress.Outcome) {
        let done = try transaction(record, build) { now -> Bool? in
            guard try builds.parts(record.id) == parts else { return nil }
            guard try isLittleWritten() else { throw GivenUp() }
            for part in parts.dropLast() where part.stage == .fillingNulls {
                var filling = Filling(building: self, build: build, record: now, part: part, others: parts)
                try filling.pass(.max)
            }
            try adopt(now, build, built: parts[0], counted)
            return true
        }
        guard let done else { return (0, .busy) }
        if done != nil {
            copying.state.counts[record.id] = nil
            copying.state.builds[record.id] = nil
        }
        return (0, .worked)
    }

    /// Forgets what ANALYZE has found: it was of the few rows that the live table had.
    private func forgetStatistics() throws {
        let tables = try connection.fetchAll(
            "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name IN ('sqlite_stat1', 'sqlite_stat4')"
        )
        for table in try tables.map({ try $0.get(0, as: String.self) }) {
            try connection.execute("DELETE FROM main.\(table) WHERE tbl = ? COLLATE NOCASE", [sql.targetName])
        }
    }

    /// Has the live table take the b-trees that were built, and then what was written meanwhile.
    private func adopt(
        _ record: TableRecord,
        _ build: TableBuild,
        built: BuildStore.Part,
        _ counted: (rows: Int64, hashes: Int64?)
    ) throws {
        let superseded = try copying.store.ledgerCount(record)
        statements.removeAll()
        connection.clearStatementCache()
        try connection.exchangeRoots([(sql.targetName, build.name)] + build.parts.map { ($0.index, $0.name) })
        // The build has the live table's rows now.
        let merging = Merging(self, build, isExchanged: true)
        var changes: Int64 = 0
        for text in [merging.deleteOutdated, merging.insertMissing] {
            try statements.movingRows(of: sql) { try connection.execute(text) }
            changes += connection.changes
        }
        // It has been counted before, but not in this transaction.
        if changes > 2 * copying.state.mostUnmerged { throw Unmerged() }
        try connection.execute("DELETE FROM \(sql.ledger) WHERE 1")
        try forgetStatistics()
        try connection.execute(
            "UPDATE main.midstream_tables SET copied = ?2, settled = ?3, checksum = ?4 WHERE id = ?1",
            [record.id, built.count - superseded, superseded, built.hashes]
        )
        try builds.drop(record.id)
        guard let now = try copying.store.table(record.id) else { return }
        try copying.mover.complete(now, counted: counted.rows, hashed: counted.hashes)
    }
}
