internal import SQLText
internal import SQLiteConnection

/// Moves pending rows one by one, after the target has refused one of a batch, and does with those that it does not take
/// what the migration's policy says.
struct RefusedRows {
    let mover: RowMover
    let record: TableRecord
    /// Asks the application; `nil` where it cannot be asked.
    let handler: (@Sendable (RefusedRow) -> RefusedRowDecision)?
    let connection: Connection

    /// What came of it.
    struct Outcome {
        var copied: Int64 = 0
        var setAside: Int64 = 0
        /// The last row that is done with.
        var last: RowKey?
        /// The row that it stopped at.
        var refusal: (key: RowKey, error: SQLiteError)?
    }

    /// Moves the pending rows of a range, up to one at which the table stops, and moves the watermark there.
    func move(from position: Position, through upper: RowKey?) throws -> Outcome {
        // Before the keys are read: it may have to be made.
        let aside = record.refusedRows == .stop ? nil : try table()
        var outcome = Outcome()
        let keys = try mover.statements.statement(
            mover.sql.pendingKeys(isBounded: position.key != nil, isEnded: upper != nil)
        )
        defer { keys.reset() }
        try mover.bindRange(keys, position, upper)
        while try keys.step() {
            let key = mover.sql.key.read(keys)
            switch try move(key, .key, aside) {
            case .copied: outcome.copied += 1
            case .setAside: outcome.setAside += 1
            case .stopped(let error): outcome.refusal = (key, error)
            }
            if outcome.refusal != nil { break }
            outcome.last = key
        }
        keys.reset()
        if let last = outcome.last {
            try mover.addHashes(of: record, from: position, through: last)
            try mover.advance(to: last, copied: outcome.copied, hasLedger: true, others: outcome.setAside)
        }
        return outcome
    }

    /// Moves a row that is pending, to which that way leads.
    func move(_ key: RowKey, by way: MoveSQL.Way) throws -> Settlement { try move(key, way, nil) }

    private func move(_ key: RowKey, _ way: MoveSQL.Way, _ aside: String?) throws -> Settlement {
        do {
            try mover.statements.movingRows(of: mover.sql) {
                _ = try mover.run(mover.sql.copyRow(way)) { try mover.sql.bind(key, way, to: $0) }
            }
            return .copied
        } catch let error as SQLiteError where ResultCode.constraint ~= error.code {
            return try settle(key, way, error, aside)
        }
    }

    /// What became of a row.
    enum Settlement {
        case copied
        case setAside
        case stopped(SQLiteError)
    }

    private func settle(_ key: RowKey, _ way: MoveSQL.Way, _ error: SQLiteError, _ aside: String?) throws -> Settlement
    {
        guard record.refusedRows != .stop else { return .stopped(error) }
        let aside = try aside ?? table()
        var decision = RefusedRowDecision.setAside
        var row: RefusedRow?
        if record.refusedRows == .ask {
            guard let handler else { return .stopped(error) }
            let found = try refusedRow(key, way, error)
            row = found
            decision = handler(found)
        }
        switch decision {
        case .stop: return .stopped(error)
        case .setAside:
            try setAside(key, way, error, aside)
            return .setAside
        case .replace(let values):
            guard let row else { return .stopped(error) }
            do {
                try insert(row, values, key, way)
                return .copied
            } catch let error as SQLiteError where ResultCode.constraint ~= error.code {
                return .stopped(error)
            }
        }
    }

    // MARK: Asking

    private func refusedRow(_ key: RowKey, _ way: MoveSQL.Way, _ error: SQLiteError) throws -> RefusedRow {
        let statement = try mover.statements.statement(mover.sql.selectRow(way))
        defer { statement.reset() }
        try mover.sql.bind(key, way, to: statement)
        var values: [String: SQLiteValue] = [:]
        if try statement.step() {
            for (offset, name) in mover.sql.writtenColumns.enumerated() { values[name] = statement.value(at: offset) }
        }
        return RefusedRow(
            table: record.target,
            sourceTable: record.source,
            rowID: key.rowID,
            values: values,
            reason: error
        )
    }

    /// Copies a row with other values in some columns. The rest is copied as SQLite has it: what the application was shown
    /// may be less, as of text that is not Unicode.
    private func insert(_ row: RefusedRow, _ values: [String: SQLiteValue], _ key: RowKey, _ way: MoveSQL.Way) throws {
        var replaced: [(column: Int, value: SQLiteValue)] = []
        let columns = mover.sql.writtenColumns
        for (name, value) in values {
            guard let column = columns.firstIndex(where: { SQLIdentifier.equal($0, name) }) else {
                throw MigrationError(
                    .misuse,
                    "table \(row.table) has no column \(name) to put a value into",
                    table: row.table
                )
            }
            if row.values[columns[column]] == value { continue }
            guard !mover.sql.isKeyColumn(columns[column]) else {
                throw MigrationError(
                    .misuse,
                    "column \(columns[column]) is of the key of table \(row.table), which a row that moves keeps",
                    table: row.table
                )
            }
            replaced.append((column, value))
        }
        replaced.sort { $0.column < $1.column }
        try connection.savepoint("midstream_answer") {
            try mover.statements.movingRows(of: mover.sql) {
                _ = try mover.run(mover.sql.copyRow(way, replacing: replaced.map(\.column))) { statement in
                    try mover.sql.bind(key, way, to: statement)
                    for (offset, replacement) in replaced.enumerated() {
                        try statement.bind(replacement.value, at: mover.sql.firstReplacement + offset)
                    }
                }
            }
            try checkKeys(of: key)
        }
    }

    /// A row that has other values than in the source may have those of one that has yet to move, which SQLite does not see.
    private func checkKeys(of key: RowKey) throws {
        guard let target = try SchemaReader(connection: connection, schema: "main").table(record.target) else { return }
        for index in target.comparableKeys {
            let statement = try mover.statements.statement(mover.sql.collides(by: index, of: target))
            defer { statement.reset() }
            try statement.bind(key, at: 1)
            guard try statement.step() else { continue }
            let columns = index.terms.compactMap(\.column).filter { $0 >= 0 }.map {
                "\(target.name).\(target.columns[$0].name)"
            }
            throw SQLiteError(
                code: .constraintUnique,
                message: "UNIQUE constraint failed: \(columns.joined(separator: ", "))"
            )
        }
    }

    // MARK: Setting aside

    /// The table for rows that are set aside.
    private func table() throws -> String {
        let report = ReportTable(
            kind: "refused",
            nameColumn: "refused_rows_table",
            columns: ["midstream_reason", "midstream_rowid"] + mover.sql.namesOfSource.map(SQLIdentifier.quoted)
        )
        return try report.make(for: record, connection)
    }

    private func setAside(_ key: RowKey, _ way: MoveSQL.Way, _ error: SQLiteError, _ table: String) throws {
        let rowID = key.rowID == nil ? "NULL" : mover.sql.key.source[0]
        let columns = mover.sql.namesOfSource.map(SQLIdentifier.quoted)
        let first = 2 * mover.sql.key.count + 1
        _ = try mover.run(
            "INSERT INTO main.\(SQLIdentifier.quoted(table))(\(KeySQL.list(["midstream_reason", "midstream_rowid"] + columns))) "
                + "SELECT ?\(first), \(KeySQL.list([rowID] + columns))"
                + mover.sql.row(way)
        ) {
            try mover.sql.bind(key, way, to: $0)
            try $0.bind(error.message, at: first)
        }
    }
}
