internal import SQLText
internal import SQLiteConnection

// How a build gets what was written meanwhile, and how the live table adopts the build.
extension Building {
    // MARK: Merging

    /// Makes sure that so little is left to merge that the live table can adopt the build.
    ///
    /// - Throws: ``Unmerged`` if more is left.
    func findUnmerged(_ record: TableRecord, _ build: TableBuild, _ parts: [BuildStore.Part]) throws {
        let (merging, merges) = (Merging(self, build), parts.last?.count ?? 0)
        // All reads are of one snapshot.
        let isEnough = try connection.readingTransaction {
            let version = try dataVersion()
            if let known = copying.state.mergedAt.removeValue(forKey: record.id), known == version {
                copying.state.mergedAt[record.id] = known
                return true
            }
            if try merges == 0 && merging.written(atMost: Self.mostCompared) > Self.mostCompared {
                return false
            }
            let most = mostUnmerged(parts)
            let unmerged = try merging.count(atMost: most)
            // Another process may have begun another build.
            if unmerged == 0, try builds.parts(record.id) == parts { copying.state.mergedAt[record.id] = version }
            return unmerged <= most
        }
        if !isEnough { throw Unmerged() }
    }

    /// Whether written rows cannot be merged once more before the live table adopts the build.
    private func isMergedAtLast(_ parts: [BuildStore.Part]) -> Bool {
        guard let merge = parts.last else { return true }
        return merge.count >= Self.mostMerges || merge.nulls > 0
    }

    /// How many written rows may be missing from the build when the live table adopts it.
    private func mostUnmerged(_ parts: [BuildStore.Part]) -> Int64 {
        isMergedAtLast(parts) ? copying.state.mostUnmergedAtLast : copying.state.mostUnmerged
    }

    /// Begins to merge, in slices, what was written since. The live table can adopt the build only after that.
    func mergeAgain(
        _ record: TableRecord,
        _ build: TableBuild
    ) throws -> (moved: Int64, outcome: MigrationProgress.Outcome) {
        var version: Int64?
        let done = try transaction(record, build) { _ -> Bool? in
            guard var merge = try builds.parts(record.id).last, merge.number > 0 else { return nil }
            guard merge.nulls == 0, merge.count < Self.mostMerges else { throw GivenUp() }
            merge.stage = .filling
            merge.count += 1
            version = try dataVersion()
            try builds.save(cursor: nil, of: record.id)
            try builds.save(merge, of: record.id)
            return true
        }
        // When the slices are over, the number is another one if anybody has written since. It counts only once this
        // transaction is committed.
        copying.state.mergedAt[record.id] = done == nil ? nil : version
        return (0, done == nil ? .busy : .worked)
    }

    func merge(
        _ record: TableRecord,
        _ build: TableBuild,
        _ limit: Stepper.Limit,
        _ start: ContinuousClock.Instant
    ) throws -> (moved: Int64, outcome: MigrationProgress.Outcome) {
        var isWhole = true
        let done = try transaction(record, build) { _ -> Bool? in
            guard var merge = try builds.parts(record.id).last, merge.stage != .filled else { return nil }
            isWhole = true
            let merging = Merging(self, build)
            var (cursor, left) = (try builds.cursor(record.id), Int64.max)
            if case .rows(let rows, _) = limit { left = rows }
            while left > 0 {
                let rows = min(left, Self.mergedAtOnce)
                let slice = try merging.merge(
                    after: cursor.map(sql.key.key),
                    comingIn: merge.stage == .fillingNulls,
                    atMost: rows
                )
                isWhole = isWhole && slice.isWhole
                cursor = slice.last?.values
                left -= rows
                if slice.last == nil {
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
        // Some rows have not come in, and have yet to be found.
        if !isWhole { copying.state.mergedAt[record.id] = nil }
        return (0, done == nil ? .busy : .worked)
    }

    // MARK: The end

    /// Compares the build with the rows, and has the live table adopt it.
    func finish(
        _ record: TableRecord,
        _ build: TableBuild,
        _ parts: [BuildStore.Part],
        _ counted: [(rows: Int64, hashes: Int64?)]
    ) throws -> (moved: Int64, outcome: MigrationProgress.Outcome) {
        let done = try transaction(record, build) { now -> Bool? in
            guard try builds.parts(record.id) == parts else { return nil }
            for part in parts.dropLast() where part.stage == .fillingNulls {
                var filling = Filling(
                    building: self,
                    build: build,
                    record: now,
                    part: part,
                    others: parts,
                    isOfSourceAlone: true
                )
                try filling.pass(.max)
            }
            try adopt(
                record,
                build,
                parts,
                counted,
                isMerged: dataVersion().map { copying.state.mergedAt[record.id] == $0 } ?? false
            )
            return true
        }
        guard let done else { return (0, .busy) }
        if done != nil {
            for feed in build.feeds {
                copying.state.counts[feed.id] = nil
                copying.state.builds[feed.id] = nil
            }
            copying.state.mergedAt[record.id] = nil
        }
        return (0, .worked)
    }

    /// A number that changes when another connection writes the target.
    ///
    /// Source: <https://www.sqlite.org/pragma.html#pragma_data_version>.
    private func dataVersion() throws -> Int64? { try connection.fetchValue("PRAGMA main.data_version") }

    /// Deletes what ANALYZE has found out about the table: it saw only the few rows that the live table had.
    private func forgetStatistics() throws {
        let tables = try connection.fetchAll(
            "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name IN ('sqlite_stat1', 'sqlite_stat4')"
        )
        for table in try tables.map({ try $0.get(0, as: String.self) }) {
            try connection.execute("DELETE FROM main.\(table) WHERE tbl = ? COLLATE NOCASE", [sql.targetName])
        }
    }

    /// Has the live table take the b-trees of the build, and then the rows that were written meanwhile.
    private func adopt(
        _ record: TableRecord,
        _ build: TableBuild,
        _ parts: [BuildStore.Part],
        _ counted: [(rows: Int64, hashes: Int64?)],
        isMerged: Bool
    ) throws {
        let (built, most) = (parts[0], isMergedAtLast(parts) ? Self.mostWrittenAtLast : Self.mostWritten)
        if !isMerged, try Merging(self, build).written(atMost: most) > most { throw Unmerged() }
        let sources = try sources(build)
        statements.removeAll()
        connection.clearStatementCache()
        try connection.exchangeRoots([(sql.targetName, build.name)] + build.parts.map { ($0.index, $0.name) })
        // The hidden table has the live table's rows now.
        let merging = Merging(self, build, isExchanged: true)
        var changes: Int64 = 0
        for text in isMerged ? [] : [merging.deleteOutdated, merging.insertMissing] {
            try statements.movingRows(of: sql) { try connection.execute(text) }
            changes += connection.changes
        }
        // The changes have been counted before, but not in this transaction.
        if changes > 2 * mostUnmerged(parts) { throw Unmerged() }
        try forgetStatistics()
        try builds.drop(record.id)
        // Each source must have as many rows as when its rows were first counted. For the first source, the number is
        // that of the build's rows, less the other sources'.
        let records = try sources.map { try copying.store.table($0.sql.id) }
        let others = records.dropFirst().reduce(0) { $0 + ($1?.total ?? 0) }
        for (place, source) in sources.enumerated() {
            guard let record = records[place], let total = record.total else { continue }
            let superseded = try copying.store.ledgerCount(record)
            try connection.execute("DELETE FROM \(source.sql.ledger) WHERE 1")
            let rows = place == 0 ? built.count - others : total
            try TableUpdate.storeBuilt(
                record,
                copied: rows - superseded,
                settled: superseded,
                checksum: built.hashes,
                connection
            )
            guard let now = try copying.store.table(record.id) else { continue }
            try source.mover.complete(now, counted: counted[place].rows, hashed: counted[place].hashes)
        }
    }
}
