internal import SQLText
internal import SQLiteConnection

/// Moves pending rows one by one, after the target has refused a row of a batch. With rows that the target does not
/// take, does what the migration's policy says.
struct RefusedRows {
    let mover: RowMover
    let record: TableRecord
    /// Asks the application; `nil` if the application cannot be asked.
    let handler: RefusedRowPolicy.Handler?
    /// The other moves into the table. An answer of the application is checked against the rows that they have yet to
    /// bring.
    var others: Result<[MoveSQL], any Error> = .success([])
    let connection: Connection
    /// Whether, when a row's turn comes, the rows before it are in the target.
    var isInOrder = true

    /// What has become of the rows.
    struct Outcome {
        var copied: Int64 = 0
        var setAside: Int64 = 0
        /// The last row that is done with.
        var last: RowKey?
        /// The row at which the table stops.
        var refusal: (key: RowKey, error: SQLiteError)?

        mutating func note(_ settlement: Settlement, of key: RowKey) {
            switch settlement {
            case .copied, .replaced: copied += 1
            case .setAside: setAside += 1
            case .stopped(let error): refusal = (key, error)
            }
        }

        /// Reports rows that have not come into the target.
        func report(of record: TableRecord, to onEvent: ((MigrationEvent) -> Void)?) {
            if setAside > 0 { onEvent?(.rowsSetAside(table: record.target, count: setAside)) }
        }
    }

    /// Moves the pending rows of a range, up to a row at which the table stops, and moves the watermark there.
    func move(from position: Position, through upper: RowKey?) throws -> Outcome {
        // The table for rows that are set aside is made in advance only if refused rows are sure to be set aside: an
        // application that is asked may answer otherwise.
        let aside = record.refusedRows.settlesUnasked ? try table() : nil
        var outcome = Outcome()
        let keys = try mover.statements.statement(
            mover.sql.pendingKeys(mover.sql.key.range(after: position.key, through: upper))
        )
        defer { keys.reset() }
        try mover.bindRange(keys, position, upper)
        while try keys.step() {
            let key = try mover.sql.key.read(keys)
            let settlement = try move(key, .key, aside)
            if case .copied = settlement {
                try mover.verifyRow(record, from: outcome.last.map(Position.after) ?? position, through: key)
            }
            outcome.note(settlement, of: key)
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

    /// Moves a pending row, to which `way` leads.
    func move(_ key: RowKey, by way: MoveSQL.Way) throws -> Settlement { try move(key, way, nil) }

    private func move(_ key: RowKey, _ way: MoveSQL.Way, _ aside: String?) throws -> Settlement {
        do {
            try mover.statements.movingRows(of: mover.sql) {
                _ = try mover.copy(mover.sql.copyRow(way)) { try mover.sql.bind(key, way, to: $0) }
            }
            return .copied
        } catch let error as SQLiteError where ResultCode.constraint ~= error.code {
            return try settle(key, way, error, aside)
        }
    }

    /// What became of a row.
    enum Settlement {
        case copied
        /// The row is in the target, with values that the application gave.
        case replaced
        case setAside
        case stopped(SQLiteError)
    }

    private func settle(_ key: RowKey, _ way: MoveSQL.Way, _ error: SQLiteError, _ aside: String?) throws -> Settlement
    {
        var row: RefusedRow?
        let decision = try record.refusedRows.decision(
            on: {
                let found = try refusedRow(key, way, error)
                row = found
                return found
            },
            by: handler
        )
        switch decision {
        case .stop: return .stopped(error)
        case .setAside:
            try setAside(key, way, error, aside ?? table())
            return .setAside
        case .replace(let values):
            guard let row else { return .stopped(error) }
            do {
                try insert(row, values, key, way)
                return .replaced
            } catch let error as SQLiteError where ResultCode.constraint ~= error.code {
                return .stopped(error)
            }
        }
    }

    // MARK: Setting aside

    /// The table for rows that are set aside.
    private func table() throws -> String {
        guard mover.sql.namesOfSource.count <= Compatibility.mostColumnsSetAside else {
            throw MigrationError(
                .unsupported,
                Compatibility.isTooWideToSetAside(record.source, mover.sql.namesOfSource.count),
                table: record.target
            )
        }
        let report = ReportTable(
            kind: "refused",
            nameColumn: "refused_rows_table",
            columns: ownColumns + mover.sql.namesOfSource.map(SQLIdentifier.quoted)
        )
        return try report.make(for: record, connection)
    }

    /// The table's columns besides the source's. They get other names if the source's columns have these.
    private var ownColumns: [String] {
        let taken = Set(mover.sql.namesOfSource.map(SQLIdentifier.lowercased))
        return ["midstream_reason", "midstream_rowid"].map { name in
            var (free, number) = (name, 1)
            while taken.contains(free) {
                number += 1
                free = "\(name)_\(number)"
            }
            return free
        }
    }

    private func setAside(_ key: RowKey, _ way: MoveSQL.Way, _ error: SQLiteError, _ table: String) throws {
        let rowID = key.rowID == nil ? "NULL" : mover.sql.key.source[0]
        let columns = mover.sql.namesOfSource.map(SQLIdentifier.quoted)
        let first = 2 * mover.sql.key.count + 1
        _ = try mover.run(
            "INSERT INTO main.\(SQLIdentifier.quoted(table))(\(KeySQL.list(ownColumns + columns))) "
                + "SELECT ?\(first), \(KeySQL.list([rowID] + columns))"
                + mover.sql.row(way)
        ) {
            try mover.sql.bind(key, way, to: $0)
            try $0.bind(error.message, at: first)
        }
    }
}
