internal import SQLText
internal import SQLiteConnection

// Moving all that is left of a table at once.
extension RowMover {
    /// Moves all rows that are left. Returns their number.
    func moveRest(_ record: TableRecord) throws -> Int64 {
        guard let position = try position(record) else { return 0 }
        do {
            // SQLite does not undo a statement in which a function has failed.
            return try statements.connection.savepoint("midstream_rest") {
                try move(record, from: position, through: nil, hasLedger: true, undoing: .statement)
            }
        } catch let error as SQLiteError where ResultCode.constraint ~= error.code && record.refusedRows.settlesUnasked
        {
            let rows = RefusedRows(mover: self, record: record, handler: nil, connection: statements.connection)
            let outcome = try rows.move(from: position, through: nil)
            if let refusal = outcome.refusal { throw refusal.error }
            try addHashes(of: record, from: outcome.last.map(Position.after) ?? position, through: nil)
            try advance(to: nil, copied: 0, hasLedger: true)
            return outcome.copied
        }
    }
}
