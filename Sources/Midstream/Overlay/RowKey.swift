internal import SQLiteConnection

/// By what one row of a moving table is known on both sides: see ``KeySQL``.
enum RowKey: Hashable, Sendable {
    case rowID(Int64)
    case columns([ExactValue])

    /// The values to bind.
    var values: [ExactValue] {
        switch self {
        case .rowID(let rowID): [.integer(rowID)]
        case .columns(let values): values
        }
    }

    /// The rowid, where it is one.
    var rowID: Int64? {
        if case .rowID(let rowID) = self { rowID } else { nil }
    }
}

extension Statement {
    /// Binds a key to the parameters from `index` on.
    func bind(_ key: RowKey, at index: Int) throws(SQLiteError) {
        switch key {
        case .rowID(let rowID): try bind(rowID, at: index)
        case .columns(let values):
            for (offset, value) in values.enumerated() { try bind(value, at: index + offset) }
        }
    }
}
