internal import SQLiteConnection

/// Moves ranges of rows in the transaction that is open, on whatever connection: the stepper's, or the application's own
/// when a table must be drained.
struct RowMover {
    let statements: InternalStatements
    let sql: MoveSQL

    /// Copies the pending rows of a range of keys, forgets the ledger's entries up to its end, and moves the watermark
    /// there.
    ///
    /// - Parameter refusal: What is undone when the target refuses a row.
    /// - Returns: The rows copied.
    func move(
        from lower: Int64,
        through upper: Int64,
        hasLedger: Bool,
        undoing refusal: MoveSQL.Refusal
    ) throws -> Int64 {
        let copied = try statements.keepingSequence(of: sql) {
            try run(sql.copyRange(withLedger: hasLedger, undoing: refusal), [lower, upper])
        }
        let settled = hasLedger ? try run(sql.forgetSettled, [upper]) : 0
        _ = try run(sql.advance, [upper, copied, settled])
        return copied
    }

    /// Moves all that is left.
    func moveRest(_ record: TableRecord) throws -> Int64 {
        guard let lower = record.lowerBound else { return 0 }
        return try move(from: lower, through: .max, hasLedger: true, undoing: .statement)
    }

    /// Records that a table has moved, after all its rows have.
    ///
    /// - Parameter counted: The rows of the source that belong, counted by other means than the watermark's.
    /// - Throws: ``MigrationError`` when they are not as many as were moved. Nothing is lost then: the source stays.
    func complete(_ record: TableRecord, counted: Int64) throws {
        guard counted == record.copied + record.settled else {
            throw MigrationError(
                .sourceChanged,
                "table \(record.target): \(record.copied + record.settled) rows were moved, but its source "
                    + "\(record.source) has \(counted). The source has been changed by somebody else, and stays as it is",
                table: record.target
            )
        }
        _ = try run(
            "UPDATE main.midstream_tables SET phase = ?1, watermark = ?2, total = ?3 WHERE id = \(record.id)",
            [MigrationPhase.copied.rawValue, .max, counted]
        )
        for text in sql.dropTriggers { try statements.prepare(text).run() }
    }

    /// Counts the source's rows that belong, at once.
    func countSource() throws -> Int64 {
        let condition = sql.condition.isEmpty ? "" : " WHERE 1\(sql.condition)"
        let statement = try statements.prepare("SELECT count(*) FROM \(sql.source)\(condition)")
        return try statement.step() ? statement.int64(at: 0) : 0
    }

    /// Runs a write; returns the rows that it changed.
    func run(_ text: String, _ values: [Int64]) throws -> Int64 {
        let statement = try statements.statement(text)
        defer { statement.reset() }
        for (offset, value) in values.enumerated() { try statement.bind(value, at: offset + 1) }
        while try statement.step() {}
        return statements.connection.changes
    }
}
