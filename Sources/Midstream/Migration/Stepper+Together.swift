internal import SQLText
internal import SQLiteConnection

// Many small tables. Each alone would take several transactions to its end, and after each change of the schema every other
// connection reads all of the schema again. So small tables move together, as far as a step's time allows.
extension Stepper {
    /// What tables have done together in a step.
    struct Together {
        var moved: Int64 = 0
        /// `nil` if no tables could do anything together.
        var outcome: MigrationProgress.Outcome?
        /// The tables that need nothing more in this step.
        var handled: Set<Int64> = []
    }

    /// Does what is next for tables that can move or retire together.
    ///
    /// - Parameter begun: The tables for which the step may do something, in their order.
    func advanceTogether(
        _ begun: [TableRecord],
        _ migrations: [MigrationRecord],
        until deadline: ContinuousClock.Instant
    ) throws -> Together {
        var together = Together()
        let records = begun.filter { !$0.isReturning && !apart.contains($0.id) }
        let copying = records.filter { $0.phase == .copying }
        if copying.count > 1, let moved = try copyTogether(copying, migrations, until: deadline) {
            return Together(moved: moved, outcome: .worked)
        }
        for migration in migrations {
            let retiring = records.filter {
                $0.migration == migration.id && ($0.phase == .copied || $0.phase == .retiring)
            }
            guard retiring.count > 1 else { continue }
            do {
                let retirement = Retirement(stepper: self, migration: migration)
                guard let outcome = try withoutPatience({ try retirement.advance(retiring, until: deadline) }),
                    outcome != .busy
                else { continue }
                together.handled.formUnion(retiring.map(\.id))
                together.outcome = outcome
                if outcome == .worked { break }
            } catch  where Self.isOfOneSource(error) {
                // Each of these tables reports its error when its own turn comes.
            }
        }
        return together
    }

    /// Moves the rows of small tables, one table after the other, in one transaction.
    ///
    /// - Returns: The number of rows; `nil` if nothing was done.
    private func copyTogether(
        _ records: [TableRecord],
        _ migrations: [MigrationRecord],
        until deadline: ContinuousClock.Instant
    ) throws -> Int64? {
        let known = Dictionary(migrations.map { ($0.id, $0) }) { first, _ in first }
        var last: TableRecord?
        do {
            for id in Set(records.map(\.migration)) { try known[id].map(attach) }
            func copying(_ record: TableRecord) throws -> Copying? {
                guard let migration = known[record.migration] else { return nil }
                last = record
                let copying = Copying(stepper: self, migration: migration, sql: try sql(for: record, migration))
                return try copying.isSmall() ? copying : nil
            }
            // If a large table comes first, it moves alone.
            guard let first = records.first, try withoutPatience({ try copying(first) }) ?? nil != nil else {
                return nil
            }
            let moved = try withoutPatience {
                try transaction {
                    var moved: (rows: Int64, tables: Int) = (0, 0)
                    guard try isCurrent() else { return moved }
                    for record in records {
                        guard let copying = try copying(record) else { break }
                        moved = (moved.rows + (try copying.moveWhole(record)), moved.tables + 1)
                        if ContinuousClock.now + commitTime >= deadline || gate.isAwaited { break }
                    }
                    return moved
                }
            }
            guard let moved = moved ?? nil, moved.tables > 0 else { return nil }
            return moved.rows
        } catch  where Self.isOfOneSource(error) {
            // The whole transaction has been rolled back. The table that failed goes on alone, and reports the error.
            if let last { apart.insert(last.id) }
            return nil
        }
    }
}
