internal import SQLiteConnection

/// The changes of a moving table's stored record: the states of its life, and its counts.
///
/// No other file has an UPDATE of `midstream_tables`. All of these changes are made in the open transaction.
enum TableUpdate {
    private static let update = "UPDATE main.midstream_tables SET"

    // MARK: The life

    /// Stores the next state of a table. The caller has checked in this transaction that the table's record still exists.
    ///
    /// `retiring` and `opening` change nothing if another process has brought the table further.
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
            // Other statements store these two states: `advance` and `complete`.
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

    /// In debug builds, stops the process if the stored state may not become the next one.
    static func assertMayBecome(_ next: LifeCycle, _ id: Int64, _ connection: Connection) {
        #if DEBUG
            guard let stored = try? StateStore(connection: connection).table(id) else { return }
            precondition(
                stored.life.mayBecome(next),
                "table \(stored.target) (\(id)) is \(stored.life), and not to be \(next)"
            )
        #endif
    }

    /// Makes a table `copied`: ?1 is the phase, ?2 the watermark, ?3 how many rows the source has.
    static func complete(_ id: Int64) -> String { "\(update) phase = ?1, watermark = ?2, total = ?3 WHERE id = \(id)" }

    // MARK: How far it is

    /// Moves the watermark to ?1, never to a smaller rowid. Adds ?2 to the copied rows and ?3 to the settled rows.
    static func advance(_ id: Int64) -> String {
        "\(update) watermark = ?1, copied = copied + ?2, settled = settled + ?3 "
            + "WHERE id = \(id) AND ifnull(watermark, ?1) <= ?1"
    }

    /// Lowers the watermark to ?1. For a table without rowids, ?1 stands for a key that is stored elsewhere.
    static func lowerWatermark(_ id: Int64) -> String { "\(update) watermark = ?1, ceiling = NULL WHERE id = \(id)" }

    static func storeCeiling(_ id: Int64) -> String { "\(update) ceiling = ?1 WHERE id = \(id)" }

    // MARK: Counts

    /// Stores how many rows the source has: ?1.
    static func storeTotal(_ id: Int64) -> String { "\(update) total = ?1 WHERE id = \(id)" }

    /// Forgets how many rows the source has, so that they are counted again.
    static func forgetTotal(_ record: TableRecord, _ connection: Connection) throws {
        try connection.execute("\(update) total = NULL WHERE id = ?", [record.id])
    }

    /// Stores the counts and the checksum of the build that the table has adopted.
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

    /// Counts rows as settled, for the progress. Once the return collects keys in the ledger, the entries from before cannot be
    /// told from those.
    static func countSettled(_ record: TableRecord, _ rows: Int64, _ connection: Connection) throws {
        try connection.execute("\(update) settled = settled + ? WHERE id = ?", [rows, record.id])
    }

    /// Subtracts rows that have returned from the counts.
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

    /// Lowers the verification to ?1, unless it is lower already.
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

    /// Stores the name of a report table.
    ///
    /// - Parameter column: The column of `midstream_tables` that stores it.
    static func setReport(_ record: TableRecord, _ column: String, _ name: String, _ connection: Connection) throws {
        try connection.execute("\(update) \(column) = ? WHERE id = ?", [name, record.id])
    }
}
