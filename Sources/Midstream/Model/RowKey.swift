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

    /// How a message tells of the row.
    var words: String { "with \(description)" }
}

extension RowKey: CustomStringConvertible {
    /// In words: `rowid 17`, `key (3, 'b')`.
    var description: String {
        switch self {
        case .rowID(let rowID): "rowid \(rowID)"
        case .columns(let values): "key \(Self.text(values.map(\.value)))"
        }
    }

    /// The columns of a key, as literals of SQL. Long texts and blobs are cut.
    static func text(_ key: [SQLiteValue]) -> String {
        "(\(key.map { SQLLiteral.text(of: $0, atMost: 100) }.joined(separator: ", ")))"
    }
}

extension MigrationError {
    /// The row that is concerned, in words, where it is one.
    var row: String? {
        key.map { "rowid \($0)" } ?? (keyColumns.isEmpty ? nil : "key \(RowKey.text(keyColumns))")
    }

    /// An error that one row of a table is concerned by.
    init(_ code: Code, _ message: String, table: String, row: RowKey?, cause: SQLiteError? = nil) {
        self.init(
            code,
            message,
            table: table,
            key: row?.rowID,
            keyColumns: row?.rowID == nil ? row?.values.map(\.value) ?? [] : [],
            cause: cause
        )
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
