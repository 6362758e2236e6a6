internal import SQLiteConnection

/// The blob handles that read pending rows of moving tables in their sources.
///
/// When a statement needs such a row in the target, the row's handles move to the target before the statement changes the row. So
/// SQLite sees that the handles expire.
struct PendingBlobs {
    private struct Handle {
        weak var blob: Blob?
        let table: Int64
        let rowID: Int64
        /// Where the handle reads the row once the row is in the target.
        let target: BlobPlace
    }

    private var handles: [Handle] = []

    mutating func note(_ blob: Blob, _ rowID: Int64, of table: Int64, _ target: BlobPlace) {
        handles.append(Handle(blob: blob, table: table, rowID: rowID, target: target))
    }

    mutating func forget(_ blob: Blob) {
        handles.removeAll { $0.blob == nil || $0.blob === blob }
    }

    /// A row has come into the target: its handles follow.
    mutating func promoted(_ key: RowKey, of table: Int64) {
        for handle in take(where: { $0.table == table && $0.rowID == key.rowID }) {
            handle.blob?.move(to: handle.target)
        }
    }

    /// All remaining rows have come into the target: their handles follow.
    mutating func promotedAll(of table: Int64) {
        for handle in take(where: { $0.table == table }) { handle.blob?.move(to: handle.target) }
    }

    /// A row is gone: its handles expire.
    mutating func discarded(_ key: RowKey, of table: Int64) {
        for handle in take(where: { $0.table == table && $0.rowID == key.rowID }) { handle.blob?.expire() }
    }

    /// All remaining rows are gone: their handles expire.
    mutating func discardedAll(of table: Int64) {
        for handle in take(where: { $0.table == table }) { handle.blob?.expire() }
    }

    private mutating func take(where isMeant: (Handle) -> Bool) -> [Handle] {
        guard !handles.isEmpty else { return [] }
        let taken = handles.filter(isMeant)
        handles.removeAll(where: isMeant)
        return taken
    }
}
