internal import SQLiteConnection

/// What identifies a row of a moving table on both sides: see ``KeySQL``.
enum RowKey: Hashable, Sendable {
    case rowID(Int64)
    case columns([ExactValue])

    /// The key's values, to bind to parameters.
    var values: [ExactValue] {
        switch self {
        case .rowID(let rowID): [.integer(rowID)]
        case .columns(let values): values
        }
    }

    /// The rowid, if the key is one.
    var rowID: Int64? {
        if case .rowID(let rowID) = self { rowID } else { nil }
    }

    /// How messages speak of the row.
    var words: String { "with \(description)" }
}

extension RowKey: CustomStringConvertible {
    /// The key in words: `rowid 17`, `key (3, 'b')`.
    var description: String {
        switch self {
        case .rowID(let rowID): "rowid \(rowID)"
        case .columns(let values): "key \(Self.text(values.map(\.value)))"
        }
    }

    /// A key's columns as literals of SQL. A literal of more than 100 characters is cut.
    static func text(_ key: [SQLiteValue]) -> String {
        "(\(key.map { SQLLiteral.text(of: $0, atMost: 100) }.joined(separator: ", ")))"
    }
}

extension MigrationError {
    /// The row that the error is about, in words; `nil` if it is about no single row.
    var row: String? {
        key.map { "rowid \($0)" } ?? (keyColumns.isEmpty ? nil : "key \(RowKey.text(keyColumns))")
    }

    /// Makes an error that is about one row of a table.
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
