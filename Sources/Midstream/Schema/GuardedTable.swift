internal import SQLText
internal import SQLiteConnection

/// Whether a moving table is still the one that its migration began with.
///
/// Midstream's connections move all of a table before they change its definition. Others can do so at any time, since the
/// guard triggers refuse writes alone: then the pending rows no longer fit, and nothing may be read or moved.
struct GuardedTable {
    private let record: TableRecord
    private let connection: Connection

    init(_ record: TableRecord, _ connection: Connection) {
        self.record = record
        self.connection = connection
    }

    /// - Parameters:
    ///   - target: The target's table of the recorded name; `nil` when there is none.
    ///   - source: The source's table.
    /// - Throws: ``MigrationError``, with what to do.
    func check(_ target: TableSchema?, _ source: TableSchema?) throws {
        // Before that there are no triggers; after it nothing is pending.
        guard record.phase == .copying else { return }
        let guarded: String? = try connection.fetchValue(
            "SELECT tbl_name FROM main.sqlite_master WHERE type = 'trigger' AND name = ?",
            [MoveSQL.trigger("insert", record.id)]
        )
        if let guarded, !SQLIdentifier.equal(guarded, record.target) {
            throw changed("was renamed to \(guarded)", "give it its name again")
        }
        guard let target, let source else { return }
        if guarded == nil { throw changed("was dropped and made anew", "restore the file") }
        let mapped = Set(record.columns.map { SQLIdentifier.lowercased($0.name) })
        let missing = target.columns.map(\.name).filter {
            source.columnIndex($0) == nil && !mapped.contains(SQLIdentifier.lowercased($0))
        }
        if !missing.isEmpty {
            throw changed(
                "got the column \(missing.joined(separator: ", ")), for which the rows that have yet to move have no values",
                "drop the column, or give it its name again"
            )
        }
    }

    private func changed(_ what: String, _ remedy: String) -> MigrationError {
        MigrationError(
            .unequalTables,
            "table \(record.target) is moving, and \(what) by a connection without Midstream: \(remedy), and change the "
                + "table through Midstream, which moves its rows first",
            table: record.target
        )
    }
}
