internal import SQLText
internal import SQLiteConnection

// The end of a source table that stayed after its rows had moved.
extension Retirement {
    /// Retires a source table whose file was missing when the table was due, or that was kept for a reason which may
    /// have changed. Reports what has become of the table.
    ///
    /// - Parameters:
    ///   - moved: The rows that have moved.
    ///   - retirement: What was asked for of the source's table.
    ///   - wish: What was asked for of the target's table.
    func releaseLate(
        _ claim: Claims.Claim,
        moved: Int64,
        _ retirement: SourceRetirement,
        _ wish: TableMigration
    ) throws {
        var record = TableRecord(claim, of: migration)
        record.phase = .retiring
        record.copied = moved
        record.retirement = retirement
        record.unreadableRowsTable = try ReportTable.left("unreadable", of: claim.targetTable, claim.id, connection)
        let reason = retirement == .keep ? nil : try reasonToKeepLate(record, wish)
        let kept = try releaseSources([record], until: .now, keptFor: reason).kept[record.id]
        try connection.sync(schema: migration.schema)
        try stepper.waitingTransaction {
            try Unreleased(connection: connection).forget(claim.id)
        }
        let path = stepper.path(of: migration)
        if let kept {
            if retirement != .keep {
                stepper.onEvent?(.sourceKept(table: record.source, path: path, reason: kept))
            }
        } else {
            stepper.onEvent?(.sourceDropped(table: record.source, path: path))
        }
    }

    /// How many rows at each end of a source table are looked at.
    private static let sample = 100

    /// Why a source table stays although its rows moved some time ago; `nil` if the target still has the table to which
    /// they came.
    ///
    /// That table may have been dropped, renamed or made anew since, and no schema tells. Its rows do: at one end of
    /// the source, at least half of the rows that are looked at are in the table as they were; and the table has at
    /// least half as many rows as have moved. The application may have changed or deleted the others.
    ///
    /// - Complexity: O(n).
    private func reasonToKeepLate(_ record: TableRecord, _ wish: TableMigration) throws -> String? {
        let reader = SchemaReader(connection: connection, schema: "main")
        guard let source = try SchemaReader(connection: connection, schema: migration.schema).table(record.source)
        else { return nil }
        guard let target = try reader.table(record.target) else {
            return "table \(record.target), into which its rows have moved, no longer exists"
        }
        let columns = ColumnMatching(
            connection: connection,
            target: target,
            source: source,
            from: migration.name(of: source.name),
            wish: wish
        )
        var record = record
        do {
            record.columns = try columns.records()
            let sql = MoveSQL(record: record, migration: migration, target: target, source: source)
            let rows: Int64 = try connection.fetchValue("SELECT count(*) FROM \(sql.target)") ?? 0
            if try 2 * rows >= record.copied && hasArrived(sql) { return nil }
        } catch is MigrationError {
            // The columns are others by now, so nothing tells whether the rows are there.
        } catch let error as SQLiteError where error.code == .error || ResultCode.corrupt ~= error.code {
            // Nor does anything tell if an expression fails, or a page is damaged.
        }
        return
            "most of its rows have moved into table \(record.target), but are no longer there, or have changed there: "
            + "drop the table here yourself if its rows are not needed"
    }

    private func hasArrived(_ sql: MoveSQL) throws -> Bool {
        for isLast in [false, true] {
            let order = sql.key.order(sql.key.source, isReversed: isLast)
            let rows =
                sql.whereClause(sql.key.belonging, sql.condition) + " ORDER BY \(order) LIMIT \(Self.sample)"
            let sample: Int64 =
                try connection.fetchValue("SELECT count(*) FROM (SELECT 1 FROM \(sql.source)\(rows))") ?? 0
            let arrived: Int64 =
                try connection.fetchValue(
                    "SELECT count(*) FROM \(sql.renamedRows(sql.written, rows)) CROSS JOIN \(sql.target) AS midstream_target "
                        + "WHERE \(VerificationSQL(sql).isSameRow)"
                ) ?? 0
            if 2 * arrived >= sample { return true }
        }
        return false
    }
}
