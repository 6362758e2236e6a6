internal import SQLiteConnection

/// How far the stepper has come in a table.
enum Position: Hashable {
    /// Before the first row.
    case start
    /// The stepper has passed the row with this key.
    case after(RowKey)

    var key: RowKey? {
        if case .after(let key) = self { key } else { nil }
    }
}

/// Moves ranges of rows in the open transaction, on any connection: the stepper's, or the application's own when a table must be
/// drained.
struct RowMover {
    let statements: InternalStatements
    let sql: MoveSQL

    /// How far the stepper has come in a table; `nil` if it has passed all rows.
    func position(_ record: TableRecord) throws -> Position? {
        guard let watermark = record.watermark else { return .start }
        if record.isPassed { return nil }
        if sql.key.isRowID { return .after(.rowID(watermark)) }
        let statement = try statements.statement(sql.watermarkKey)
        defer { statement.reset() }
        return try statement.step() ? .after(sql.key.read(statement)) : .start
    }

    /// Copies the pending rows of a range of keys, removes the ledger's entries up to the end of the range, and moves the watermark
    /// there.
    ///
    /// - Parameters:
    ///   - record: The table.
    ///   - upper: The range's last key; `nil` for all that is left.
    ///   - refusal: What is undone if the target refuses a row.
    /// - Returns: The number of rows that were copied.
    func move(
        _ record: TableRecord,
        from position: Position,
        through upper: RowKey?,
        hasLedger: Bool,
        undoing refusal: MoveSQL.Refusal
    ) throws -> Int64 {
        let copied = try statements.movingRows(of: sql) {
            let text = sql.copyRange(
                sql.key.range(after: position.key, through: upper),
                withLedger: hasLedger,
                undoing: refusal
            )
            return try copy(text) { try bindRange($0, position, upper) }
        }
        try verify(record, from: position, through: upper, hasLedger: hasLedger, copied: copied)
        try advance(from: position, to: upper, copied: copied, hasLedger: hasLedger)
        return copied
    }

    /// Moves the watermark to a key, or past all keys.
    ///
    /// - Parameters:
    ///   - position: The present position. The ledger has no entry before it.
    ///   - others: The number of passed rows that are in neither the target nor the ledger: those that were set aside or deleted.
    func advance(from position: Position = .start, to upper: RowKey?, copied: Int64, hasLedger: Bool, others: Int64 = 0)
        throws
    {
        let settled =
            hasLedger
            ? try run(sql.forgetSettled(sql.key.range(after: position.key, through: upper))) {
                try bindRange($0, position, upper)
            } : 0
        if let upper, !sql.key.isRowID { _ = try run(sql.storeWatermarkKey) { try $0.bind(upper, at: 1) } }
        let advanced = try run(TableUpdate.advance(sql.id)) {
            try $0.bind(upper.map { $0.rowID ?? 0 } ?? .max, at: 1)
            try $0.bind(copied, at: 2)
            try $0.bind(settled + others, at: 3)
        }
        // Otherwise, rows that the stepper has passed would become pending again.
        guard advanced == 1 else {
            throw MigrationError(
                .foreignState,
                "the file records more progress of table \(sql.targetName) than this step had read. The step has moved "
                    + "nothing: check both files with PRAGMA integrity_check",
                table: sql.targetName
            )
        }
    }

    /// Binds a range to a statement whose first parameters are its ends.
    func bindRange(_ statement: Statement, _ position: Position, _ upper: RowKey?) throws {
        if let lower = position.key { try statement.bind(lower, at: 1) }
        if let upper { try statement.bind(upper, at: 1 + sql.key.count) }
    }

    /// The key of the row that comes `offset` rows after the first row of a position; `nil` if there are not so many rows.
    func key(at offset: Int64, from position: Position, isPending: Bool) throws -> RowKey? {
        try sql.key.nearest(position.key) { shared in
            let statement = try statements.statement(
                sql.upperKey(isBounded: position.key != nil, sharing: shared, isPending: isPending)
            )
            defer { statement.reset() }
            try bindRange(statement, position, nil)
            try statement.bind(offset, at: 2 * sql.key.count + 1)
            return try statement.step() ? sql.key.read(statement) : nil
        }
    }

    /// Records that a table has moved. All its rows have.
    ///
    /// - Parameters:
    ///   - counted: The number of the source's rows that belong to the migration, counted in another way than the watermark's.
    ///   - hashed: The sum of these rows' hashes, if it was asked for.
    /// - Throws: ``MigrationError`` if the number differs from that of the rows that were moved. Nothing is lost then: the source
    ///   stays.
    func complete(_ record: TableRecord, counted: Int64, hashed: Int64? = nil) throws {
        guard counted == record.copied + record.settled else {
            throw MigrationError(
                .sourceChanged,
                "table \(record.target) got \(record.copied + record.settled) rows, but its source table "
                    + "\(record.source) has \(counted) rows that belong there: a program without Midstream has changed "
                    + "the source while its rows moved. The source stays as it is: compare the two tables",
                table: record.target
            )
        }
        if let hashed, record.verification == .complete, hashed != record.checksum {
            throw MigrationError(
                .notVerified,
                "table \(record.target): the checksum of the rows that moved differs from the checksum of its source "
                    + "table \(record.source). The source stays as it is: check both files with PRAGMA integrity_check",
                table: record.target
            )
        }
        statements.whileOthersArePrepared {
            TableUpdate.assertMayBecome(.copied, record.id, statements.connection)
        }
        _ = try run(TableUpdate.complete(record.id)) {
            try $0.bind(MigrationPhase.copied.rawValue, at: 1)
            try $0.bind(Int64.max, at: 2)
            try $0.bind(counted, at: 3)
        }
        try statements.whileOthersArePrepared { try Stops(connection: statements.connection).forget(record.id) }
        let guards = MoveSQL.guards.map { MoveSQL.trigger($0, sql.id) }
        try statements.connection.dropTriggers(guards, of: sql.targetName, in: "main") {
            for text in sql.dropTriggers { try statements.prepare(text).run() }
        }
        if sql.keepsRowIDs {
            try statements.whileOthersArePrepared { try KeptRowIDs(connection: statements.connection).forget(sql.id) }
        }
    }

    /// Counts all the source's rows that belong to the migration, in one go.
    func countSource(_ record: TableRecord) throws -> (rows: Int64, hashes: Int64?) {
        let hashes = record.verification == .complete
        let statement = try statements.prepare(sql.countSlice(KeyRange(), hashes: hashes))
        guard try statement.step() else { return (0, nil) }
        return (statement.int64(at: 0), hashes ? statement.int64(at: 1) : nil)
    }

    /// Copies rows.
    ///
    /// - Returns: The number of rows that were copied.
    func copy(_ text: String, _ bind: (Statement) throws -> Void) throws -> Int64 {
        try statements.run(text, by: { try $0.stepOfCopy() }, bind)
    }

    /// Runs a write.
    ///
    /// - Returns: The number of rows that the write changed.
    func run(_ text: String, _ bind: (Statement) throws -> Void) throws -> Int64 { try statements.run(text, bind) }
}

extension Statement {
    /// Makes one step of a statement that copies rows of a source. If a function of the target, such as one in an index on an
    /// expression, fails with a row's value, the target refuses the row as it would because of a constraint.
    func stepOfCopy() throws(SQLiteError) -> Bool {
        do {
            return try step()
        } catch {
            guard error.isOfRow else { throw error }
            throw SQLiteError(code: .constraintFunction, message: error.message, sql: error.sql)
        }
    }
}
