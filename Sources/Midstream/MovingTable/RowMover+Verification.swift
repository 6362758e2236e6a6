internal import SQLiteConnection

extension RowMover {
    /// Checks that the target has the rows of a range, in the transaction that has copied them, and adds to the checksum.
    ///
    /// - Parameter copied: The number of rows that were copied.
    /// - Throws: ``MigrationError`` if the target does not have them.
    func verify(
        _ record: TableRecord,
        from position: Position,
        through upper: RowKey?,
        hasLedger: Bool,
        copied: Int64
    ) throws {
        guard record.verification != .count else { return }
        let verification = VerificationSQL(sql)
        let range = sql.key.range(after: position.key, through: upper)
        let hashes = record.verification == .complete
        let check = try statements.statement(
            verification.equalRows(range, withLedger: hasLedger, hashes: hashes)
        )
        defer { check.reset() }
        try bindRange(check, position, upper)
        let equal = try check.step() ? check.int64(at: 0) : 0
        guard equal == copied else {
            check.reset()
            let search = try statements.statement(
                verification.firstDifference(range, withLedger: hasLedger)
            )
            defer { search.reset() }
            try bindRange(search, position, upper)
            throw difference(record, try search.step() ? sql.key.read(search) : nil)
        }
        guard hashes else { return }
        var sum = check.isNull(at: 1) ? 0 : check.int64(at: 1)
        if hasLedger {
            let text = verification.settledHashes(range)
            guard let settled = try sumOfHashes(text, position, upper) else { return try leaveHashesOut() }
            sum &+= settled
        }
        try addHashes(sum, record)
    }

    /// Checks that the target has a row that was copied alone. The row is the only pending one of the range, and the last.
    func verifyRow(_ record: TableRecord, from position: Position, through key: RowKey) throws {
        guard record.verification != .count else { return }
        let check = try statements.statement(
            VerificationSQL(sql).equalRows(
                sql.key.range(after: position.key, through: key),
                withLedger: true,
                hashes: false
            )
        )
        defer { check.reset() }
        try bindRange(check, position, key)
        guard try check.step(), check.int64(at: 0) == 1 else { throw difference(record, key) }
    }

    /// Adds the hashes of a range of the source's rows to the checksum. These rows were settled one by one.
    func addHashes(of record: TableRecord, from position: Position, through upper: RowKey?) throws {
        guard record.verification == .complete else { return }
        let text =
            "SELECT sum(\(VerificationSQL(sql).sourceHash)) FROM \(sql.source)"
            + sql.rangeClause(sql.key.range(after: position.key, through: upper), withLedger: false)
        if let sum = try sumOfHashes(text, position, upper) { try addHashes(sum, record) } else { try leaveHashesOut() }
    }

    /// The sum of the hashes that a query computes for a range.
    ///
    /// - Returns: `nil` if an expression has no value for a row; such a row was set aside or deleted for that reason.
    func sumOfHashes(_ text: String, _ position: Position, _ upper: RowKey?) throws -> Int64? {
        let statement = try statements.statement(text)
        defer { statement.reset() }
        try bindRange(statement, position, upper)
        do {
            return try statement.step() && !statement.isNull(at: 0) ? statement.int64(at: 0) : 0
        } catch {
            guard error.code == .error else { throw error }
            return nil
        }
    }

    /// Lowers a table's verification to batches from now on, since not all rows of the source can be read.
    func leaveHashesOut() throws {
        _ = try run(TableUpdate.lowerVerification(sql.id)) {
            try $0.bind(MigrationVerification.batches.rawValue, at: 1)
        }
    }

    private func addHashes(_ sum: Int64, _ record: TableRecord) throws {
        _ = try run(TableUpdate.addHashes(record.id)) {
            try $0.bind(sum, at: 1)
        }
    }

    private func difference(_ record: TableRecord, _ key: RowKey?) -> MigrationError {
        MigrationError(
            .notVerified,
            "target table \(record.target) does not have the row "
                + (key?.words ?? "that was copied")
                + " as source table \(record.source) has it. The batch was undone, and the source is unchanged: check "
                + "both files with PRAGMA integrity_check, and the machine's memory and disk",
            table: record.target,
            row: key
        )
    }
}
