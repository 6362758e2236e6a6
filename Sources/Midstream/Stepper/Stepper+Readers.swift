internal import SQLiteConnection

extension Stepper {
    /// Whose readers are waited for, for a table's move.
    struct WatchedFile: Hashable {
        var table: Int64
        var schema: String
    }

    /// What of a table's move readers are waited for to have seen.
    enum Milestone: Hashable {
        /// All of its rows are on one side.
        case end
        /// The keys of a stage of `Undo` are in the ledger.
        case undoStage(Int64)
        /// At the end of a stage, no row was left in the target.
        case emptied(Int64)
        /// Its source has been released.
        case released
    }

    /// Whether no connection of any process can have a snapshot from before a milestone, which has been recorded.
    ///
    /// A passive checkpoint proves it that has copied the WAL up to a frame behind the one that recorded the milestone: it
    /// stops at the oldest snapshot in use. So does a WAL that has begun anew since, which it does only when all of it
    /// was copied. The end of the WAL itself need never be reached, where there is always somebody who reads or writes.
    /// Without a WAL, the COMMIT that recorded it was the proof, since it waits for readers.
    ///
    /// Source: <https://www.sqlite.org/walformat.html>, section 2.3.
    ///
    /// - Parameter schema: The file that recorded it.
    func isProvenUnread(_ table: Int64, since milestone: Milestone, in schema: String = "main") throws -> Bool {
        try provenUnread([table], since: milestone, in: schema).contains(table)
    }

    /// The same of several tables, by one checkpoint.
    func provenUnread(
        _ tables: [Int64],
        since milestone: Milestone,
        in schema: String = "main"
    ) throws -> Set<Int64> {
        // A connection that has not read yet would report success.
        _ = try connection.fetchValue(Int64.self, "PRAGMA \(schema).schema_version")
        let mode: String? = try connection.fetchValue("PRAGMA \(schema).journal_mode")
        guard mode == "wal" else { return Set(tables) }
        do {
            let (log, copied) = try connection.checkpoint(schema: schema, mode: .passive)
            guard log >= 0, copied >= 0 else { return [] }
            return Set(
                tables.filter { table in
                    let watched = WatchedFile(table: table, schema: schema)
                    // This connection has read the milestone, so the WAL's end is behind it.
                    let known = readerMarks[watched].flatMap { $0.milestone == milestone ? $0.frame : nil }
                    let frame = known ?? log
                    readerMarks[watched] = (milestone, frame)
                    guard copied >= frame || log < frame else { return false }
                    readerMarks[watched] = nil
                    return true
                }
            )
        } catch {
            guard ResultCode.busy ~= error.code else { throw error }
            return []
        }
    }
}
