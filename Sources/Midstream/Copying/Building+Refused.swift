internal import SQLText
internal import SQLiteConnection

// Rows that the target does not take because of a CHECK, a NOT NULL, a type of a STRICT table, or a function that
// fails.
extension Building {
    /// What has become of refused rows.
    struct Settled {
        var rows = RefusedRows.Outcome()
        /// The row at which the table stops, and the source of the row.
        var refusal: (source: Copying, record: TableRecord, row: (key: RowKey, error: SQLiteError))?
    }

    /// Whether an error may be of one row, which is found by trying the rows one by one. An entry that would be there
    /// twice is of two rows.
    static func isOfRow(_ error: SQLiteError) -> Bool {
        error.isRefusal && ![ResultCode.constraintUnique, .constraintPrimaryKey].contains(error.code)
    }

    /// Whether to look for the row that a build did not take, rather than insert the rows into the live table. Rows
    /// that are settled are superseded, and a build of the source's rows alone takes no account of that.
    func settles(_ record: TableRecord, _ build: TableBuild, _ parts: [BuildStore.Part]) -> Bool {
        parts.first?.stage == .filling && !copying.state.refusing.contains(record.id)
            && (try? isOfSourceAlone(build)) == false
    }

    /// Fills a part further. If the target does not take rows of the next slice, the migration's policy says what
    /// becomes of them. These rows are superseded then, like rows that the application has changed or deleted.
    ///
    /// - Parameter settled: What has become of such rows. If it has a refusal afterwards, the slice has not been filled
    ///   in.
    func pass(_ filling: inout Filling, _ rows: Int64, _ settled: inout Settled) throws {
        guard filling.isCareful, filling.part.number == 0, !filling.isOfSourceAlone else {
            return try filling.pass(rows)
        }
        while true {
            let before = filling
            do {
                return try connection.savepoint("midstream_slice") { try filling.pass(rows) }
            } catch let error as SQLiteError where Self.isOfRow(error) {
                filling = before
                guard try settleRefused(of: filling, rows, &settled) else { throw error }
            }
            if settled.refusal != nil { return }
        }
    }

    /// Settles the rows of the next slice that the target does not take.
    ///
    /// - Returns: Whether there are such rows.
    private func settleRefused(of filling: Filling, _ rows: Int64, _ settled: inout Settled) throws -> Bool {
        var hasSettled = false
        // The range is found out before a row leaves the slice.
        let range = try filling.nextRows(rows)
        let sources = try sources(filling.build)
        for (copying, built) in zip(sources, filling.build.built) {
            guard let record = try copying.store.table(built.id) else { continue }
            let others = sources.map(\.sql).filter { $0.id != built.id }
            var refused = copying.refusedRows(record, .success(others))
            refused.isInOrder = false
            for key in try pendingKeys(copying.sql, range).filter({ try !isTaken($0, built) }) {
                settled.rows.note(try refused.move(key, by: .key), of: key)
                if let row = settled.rows.refusal {
                    settled.refusal = (copying, record, row)
                    return true
                }
                _ = try copying.mover.run(copying.sql.settle) { try $0.bind(key, at: 1) }
                hasSettled = true
            }
        }
        return hasSettled
    }

    private func pendingKeys(_ sql: MoveSQL, _ range: (position: Position, upper: RowKey?)) throws -> [RowKey] {
        let (position, upper) = range
        let statement = try statements.statement(sql.pendingKeys(sql.key.range(after: position.key, through: upper)))
        defer { statement.reset() }
        try copying.mover.bindRange(statement, position, upper)
        var keys: [RowKey] = []
        while try statement.step() { keys.append(try sql.key.read(statement)) }
        return keys
    }

    /// Whether the build takes a row. The row is inserted and then deleted again. A savepoint would not do: once the
    /// table for rows that are set aside has been made, SQLite would read the schema anew after each rollback.
    private func isTaken(_ key: RowKey, _ built: MoveSQL) throws -> Bool {
        do {
            _ = try copying.mover.copy(built.copyRow) { try $0.bind(key, at: 1) }
        } catch let error as SQLiteError where error.isRefusal {
            return false
        }
        let own = built.key.equals(built.key.target, built.key.parameters(from: 1))
        _ = try copying.mover.run("DELETE FROM \(built.target) WHERE \(own)") { try $0.bind(key, at: 1) }
        return true
    }

    /// Reports what has become of refused rows, once that is committed.
    ///
    /// - Throws: ``MigrationError`` if the table stops at one of the rows.
    func tell(_ settled: Settled, of record: TableRecord) throws {
        settled.rows.report(of: record, to: stepper.onEvent)
        if let refusal = settled.refusal { throw refusal.source.refused(refusal.record, refusal.row) }
    }
}
