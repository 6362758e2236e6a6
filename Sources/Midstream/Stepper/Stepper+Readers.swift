internal import SQLiteConnection

extension Stepper {
    /// A file whose readers a table's move waits for.
    struct WatchedFile: Hashable {
        var table: Int64
        var schema: String
    }

    /// An event in a table's move that the stepper waits for all readers to have seen.
    enum Milestone: Hashable {
        /// All of the table's rows are on one side.
        case end
        /// The keys of a stage of `Undo` are in the ledger.
        case undoStage(Int64)
        /// At the end of a stage, no row was left in the target.
        case emptied(Int64)
        /// The table's source has been released.
        case released
    }

    /// Whether no connection of any process can have a snapshot from before a milestone. The milestone must have been recorded.
    ///
    /// A passive checkpoint proves this if it has copied the WAL up to a frame behind the frame that recorded the milestone,
    /// since a checkpoint stops at the oldest snapshot in use. A WAL that has begun anew since then proves it too, since a WAL
    /// begins anew only when all of it was copied. The checkpoint need never reach the end of the WAL, which it cannot if
    /// somebody always reads or writes. Without a WAL, the COMMIT that recorded the milestone was the proof, since a COMMIT waits
    /// for readers.
    ///
    /// Source: <https://www.sqlite.org/walformat.html>, section 2.3.
    ///
    /// - Parameter schema: The schema of the file in which the milestone was recorded.
    func isProvenUnread(_ table: Int64, since milestone: Milestone, in schema: String = "main") throws -> Bool {
        try provenUnread([table], since: milestone, in: schema).contains(table)
    }

    /// The tables for which ``isProvenUnread(_:since:in:)`` holds, found by one checkpoint.
    func provenUnread(
        _ tables: [Int64],
        since milestone: Milestone,
        in schema: String = "main"
    ) throws -> Set<Int64> {
        // The checkpoint of a connection that has not read yet would report success.
        _ = try connection.fetchValue(Int64.self, "PRAGMA \(schema).schema_version")
        let mode: String? = try connection.fetchValue("PRAGMA \(schema).journal_mode")
        guard mode == "wal" else { return Set(tables) }
        do {
            let (log, copied) = try connection.checkpoint(schema: schema, mode: .passive)
            guard log >= 0, copied >= 0 else { return [] }
            return Set(
                tables.filter { table in
                    let watched = WatchedFile(table: table, schema: schema)
                    // This connection has read the milestone, so the WAL's end is behind the milestone.
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
