internal import SQLText
internal import SQLiteConnection

extension StateStore {
    /// The progress of the migrations, in the open transaction.
    func progress() throws -> MigrationProgress { try progress(of: load(), .idle, 0, ledgerCount) }

    /// - Parameters:
    ///   - ledgerCount: The number of entries in a table's ledger.
    ///   - stop: Why a table is stopped; `nil` if it is not.
    func progress(
        of state: (migrations: [MigrationRecord], tables: [TableRecord]),
        _ outcome: MigrationProgress.Outcome,
        _ moved: Int64,
        _ ledgerCount: (TableRecord) throws -> Int64,
        stop: (TableRecord) -> MigrationStop? = { $0.stop }
    ) throws -> MigrationProgress {
        let target = connection.fileName(schema: "main") ?? ""
        let paths = Dictionary(state.migrations.map { ($0.id, $0.path(fromFolderOf: target)) }) { first, _ in first }
        let builds = BuildStore(connection: connection, schema: schema)
        // Read once for all tables: there may be thousands.
        let built = try Set(builds.ids())
        // Several sources of one table have one build.
        var shares: [String: Double] = [:]
        func isUnmoved(_ record: TableRecord) -> Bool { record.isMoving && record.watermark == nil }
        for record in state.tables where built.contains(record.id) && isUnmoved(record) {
            let feeds = state.tables.filter { isUnmoved($0) && SQLIdentifier.equal($0.target, record.target) }
            let total = feeds.reduce(0) { $0 + ($1.total ?? 0) }
            shares[SQLIdentifier.lowercased(record.target)] = try builds.shareDone(of: record.id, total: total)
        }
        let tables = try state.tables.map { record in
            let settled = record.isMoving ? try ledgerCount(record) : 0
            let share = isUnmoved(record) ? shares[SQLIdentifier.lowercased(record.target)] ?? 0 : 0
            return MigrationProgress.Table(
                name: record.target,
                sourceTable: record.source,
                sourcePath: paths[record.migration] ?? nil,
                condition: record.condition,
                phase: record.phase,
                isReturning: record.isReturning,
                movesOnTo: record.destination,
                movedRows: max(
                    record.copied + record.settled + settled,
                    Int64(Double(record.total ?? 0) * share)
                ),
                totalRows: record.total,
                refusedRowsTable: record.refusedRowsTable,
                unreadableRowsTable: record.unreadableRowsTable,
                stop: stop(record)
            )
        }
        return MigrationProgress(tables: tables, outcome: outcome, rowsMovedByStep: moved)
    }
}
