internal import SQLiteConnection

/// The handles that read pending rows of moving tables in their sources.
///
/// Where a statement needs such a row in the target, its handles go with it, before the statement changes it: so SQLite sees
/// that they expire.
struct PendingBlobs {
    private struct Handle {
        weak var blob: Blob?
        let table: Int64
        let rowID: Int64
        /// Where it reads the row when that has come over.
        let target: BlobPlace
    }

    private var handles: [Handle] = []

    mutating func note(_ blob: Blob, _ rowID: Int64, of table: Int64, _ target: BlobPlace) {
        handles.append(Handle(blob: blob, table: table, rowID: rowID, target: target))
    }

    mutating func forget(_ blob: Blob) {
        handles.removeAll { $0.blob == nil || $0.blob === blob }
    }

    /// A row has come into the target.
    mutating func promoted(_ key: RowKey, of table: Int64) {
        for handle in take(where: { $0.table == table && $0.rowID == key.rowID }) {
            handle.blob?.move(to: handle.target)
        }
    }

    /// All rows that were left have.
    mutating func promotedAll(of table: Int64) {
        for handle in take(where: { $0.table == table }) { handle.blob?.move(to: handle.target) }
    }

    /// A row is gone.
    mutating func discarded(_ key: RowKey, of table: Int64) {
        for handle in take(where: { $0.table == table && $0.rowID == key.rowID }) { handle.blob?.expire() }
    }

    /// All rows that were left are.
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
