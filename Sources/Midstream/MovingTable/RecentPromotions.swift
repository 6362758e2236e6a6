/// The keys that this connection promoted while it had cursors open on the table.
///
/// An application may read a table and write it in the same loop. A cursor that began before a promotion has looked ahead on both
/// sides, so the row could fall between them. Such a cursor goes on as if the row had stayed in the source, with the values that
/// the row now has in the target.
///
/// Promotions by other connections are in no snapshot of this connection's cursors. Memory: one entry for each row that is promoted
/// while a cursor is open.
struct RecentPromotions {
    private var openCursors = 0
    private var clock: UInt64 = 0
    private var promoted: [RowKey: UInt64] = [:]

    /// Notes that a cursor was opened.
    ///
    /// - Returns: The cursor's time of birth.
    mutating func cursorOpened() -> UInt64 {
        openCursors += 1
        return clock
    }

    mutating func cursorClosed() {
        openCursors -= 1
        if openCursors == 0 { promoted.removeAll() }
    }

    mutating func note(_ key: RowKey) {
        guard openCursors > 0 else { return }
        clock += 1
        promoted[key] = clock
    }

    /// Whether the key was promoted after this time.
    func contains(_ key: @autoclosure () -> RowKey, since time: UInt64) -> Bool {
        guard clock > time, let promotion = promoted[key()] else { return false }
        return promotion > time
    }
}
