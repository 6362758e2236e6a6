public import SQLiteConnection

/// The keys of rows that cannot be read because a page of the source's file is damaged: see ``UnreadableRowPolicy``.
public enum UnreadableKeys: Sendable, Hashable {
    /// A range of rowids. There may have been fewer rows than it has rowids.
    case rowIDs(ClosedRange<Int64>)
    /// The PRIMARY KEY of one row of a table without rowids.
    case row([SQLiteValue])
    /// All keys after the first and before the second of two rows that can be read, in a table without rowids. The order is that of
    /// the PRIMARY KEY, or the reverse if all columns of the PRIMARY KEY descend. The first key is `nil` if the damage begins with
    /// the first row, the second if it ends with the last row. There may have been any number of rows.
    case between([SQLiteValue]?, [SQLiteValue]?)
}

extension UnreadableKeys: CustomStringConvertible {
    /// The keys in words: `rowids 17 to 20`, `key (3, 'b')`, `keys after (3, 'b') and before (4, 'a')`.
    public var description: String {
        switch self {
        case .rowIDs(let rowIDs) where rowIDs.lowerBound == rowIDs.upperBound: "rowid \(rowIDs.lowerBound)"
        case .rowIDs(Int64.min...Int64.max): "all rowids"
        case .rowIDs(let rowIDs) where rowIDs.upperBound == .max: "rowids from \(rowIDs.lowerBound) on"
        case .rowIDs(let rowIDs) where rowIDs.lowerBound == .min: "rowids up to \(rowIDs.upperBound)"
        case .rowIDs(let rowIDs): "rowids \(rowIDs.lowerBound) to \(rowIDs.upperBound)"
        case .row(let key): "key \(RowKey.text(key))"
        case .between(nil, nil): "all keys"
        case .between(let start?, nil): "keys after \(RowKey.text(start))"
        case .between(nil, let end?): "keys before \(RowKey.text(end))"
        case .between(let start?, let end?): "keys after \(RowKey.text(start)) and before \(RowKey.text(end))"
        }
    }
}
