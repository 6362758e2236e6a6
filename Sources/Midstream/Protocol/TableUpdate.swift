internal import SQLiteConnection

/// What is written of a moving table's record once it is stored: the states of its life, and its counts.
///
/// No other file has an UPDATE of `midstream_tables`. All of it is in the transaction that is open.
enum TableUpdate {
    private static let update = "UPDATE main.midstream_tables SET"

    // MARK: The life

    /// Stores the next state of a table. The caller has looked, in this transaction, whether the table is still there.
    ///
    /// `retiring` and `opening` change nothing where another process has brought the table further.
    static func move(_ record: TableRecord, to next: LifeCycle, _ connection: Connection) throws {
        if next != .retiring, next != .opening { assertMayBecome(next, record.id, connection) }
        switch next {
        case .starting, .copying, .done:
            try connection.execute("\(update) phase = ?1 WHERE id = ?2", [phase(of: next).rawValue, record.id])
        case .retiring:
            try connection.execute(
                "\(update) phase = ?1 WHERE id = ?2 AND phase = ?3",
                [MigrationPhase.retiring.rawValue, record.id, MigrationPhase.copied.rawValue]
            )
        case .returning(stage: 0):
            try connection.execute("\(update) undo_stage = 0, ceiling = NULL WHERE id = ?", [record.id])
        case .returning(let stage):
            try connection.execute("\(update) undo_stage = ? WHERE id = ?", [stage, record.id])
        case .returned:
            try connection.execute(
                "\(update) phase = ?1, watermark = ?2, ceiling = NULL, copied = 0, settled = 0, total = 0, "
                    + "undo_stage = ifnull(undo_stage, 0) WHERE id = ?3",
                [MigrationPhase.copied.rawValue, Int64.max, record.id]
            )
        case .opening:
            try connection.execute(
                "\(update) undo_stage = ?1 WHERE id = ?2 AND phase = ?3 AND undo_stage IS NOT NULL",
                [LifeCycle.openingStage, record.id, MigrationPhase.copied.rawValue]
            )
        case .passed, .copied:
            // Rows of the engine's own statements lead there: `advance` and `complete`.
            preconditionFailure()
        }
    }

    private static func phase(of life: LifeCycle) -> MigrationPhase {
        switch life {
        case .starting: .starting
        case .copying, .passed, .returning: .copying
        case .copied, .returned, .opening: .copied
        case .retiring: .retiring
        case .done: .done
        }
    }

    /// Stops the process, in debug builds, where the stored state does not lead to the next one.
    static func assertMayBecome(_ next: LifeCycle, _ id: Int64, _ connection: Connection) {
        #if DEBUG
            guard let stored = try? StateStore(connection: connection).table(id) else { return }
            precondition(
                stored.life.mayBecome(next),
                "table \(stored.target) (\(id)) is \(stored.life), and not to be \(next)"
            )
        #endif
    }

    /// Has a table be `copied`: ?1 is its phase, ?2 its watermark, ?3 how many rows its source has.
    static func complete(_ id: Int64) -> String { "\(update) phase = ?1, watermark = ?2, total = ?3 WHERE id = \(id)" }

    // MARK: How far it is

    /// Moves the watermark to ?1, a rowid not back, and counts ?2 rows copied and ?3 settled.
    static func advance(_ id: Int64) -> String {
        "\(update) watermark = ?1, copied = copied + ?2, settled = settled + ?3 "
            + "WHERE id = \(id) AND ifnull(watermark, ?1) <= ?1"
    }

    /// Lowers the watermark to ?1; for a table without rowids it stands for a key that is stored besides.
    static func lowerWatermark(_ id: Int64) -> String { "\(update) watermark = ?1, ceiling = NULL WHERE id = \(id)" }

    static func storeCeiling(_ id: Int64) -> String { "\(update) ceiling = ?1 WHERE id = \(id)" }

    // MARK: Counts

    /// Stores as ?1 how many rows the source has.
    static func storeTotal(_ id: Int64) -> String { "\(update) total = ?1 WHERE id = \(id)" }

    /// Has the source's rows be counted anew.
    static func forgetTotal(_ record: TableRecord, _ connection: Connection) throws {
        try connection.execute("\(update) total = NULL WHERE id = ?", [record.id])
    }

    /// Stores what a build has brought that the table has adopted.
    static func storeBuilt(
        _ record: TableRecord,
        copied: Int64,
        settled: Int64,
        checksum: Int64,
        _ connection: Connection
    ) throws {
        try connection.execute(
            "\(update) copied = ?2, settled = ?3, checksum = ?4 WHERE id = ?1",
            [record.id, copied, settled, checksum]
        )
    }

    /// Counts rows as settled, for the progress: what the ledger has of rows to come is not to be told later from what is collected.
    static func countSettled(_ record: TableRecord, _ rows: Int64, _ connection: Connection) throws {
        try connection.execute("\(update) settled = settled + ? WHERE id = ?", [rows, record.id])
    }

    /// Counts rows that have returned.
    static func countReturned(_ record: TableRecord, _ rows: Int64, _ connection: Connection) throws {
        try connection.execute(
            "\(update) copied = max(0, copied - ?1), settled = max(0, settled - max(0, ?1 - copied)), ceiling = NULL "
                + "WHERE id = ?2",
            [rows, record.id]
        )
    }

    // MARK: Verification

    /// Adds ?1 to the checksum.
    static func addHashes(_ id: Int64) -> String { "\(update) checksum = checksum + ?1 WHERE id = \(id)" }

    /// Lowers the verification to ?1.
    static func lowerVerification(_ id: Int64) -> String {
        "\(update) verification = min(verification, ?1) WHERE id = \(id)"
    }

    // MARK: What becomes of rows

    static func setPolicies(
        _ record: TableRecord,
        _ refused: RefusedRowPolicy.Stored,
        _ unreadable: UnreadableRowPolicy,
        _ connection: Connection
    ) throws {
        try connection.execute(
            "\(update) refused_rows = ?, unreadable_rows = ? WHERE id = ?",
            [refused.rawValue, unreadable.rawValue, record.id]
        )
    }

    /// Stores the name of a table that tells of rows.
    ///
    /// - Parameter column: The column of `midstream_tables` that has it.
    static func setReport(_ record: TableRecord, _ column: String, _ name: String, _ connection: Connection) throws {
        try connection.execute("\(update) \(column) = ? WHERE id = ?", [name, record.id])
    }
}
