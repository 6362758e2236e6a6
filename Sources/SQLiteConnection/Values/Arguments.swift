/// The values for a statement's parameters, by position or by name.
///
///     try connection.execute("INSERT INTO t VALUES (?, ?)", [1, "one"])
///     try connection.execute("INSERT INTO t VALUES (:id, :name)", [":id": 1, ":name": "one"])
///
/// A name may be given with or without its prefix (`:`, `@`, `$`).
public struct Arguments: Sendable {
    /// Values for the parameters 1, 2, ….
    public var positional: [SQLiteValue]
    /// Values for named parameters.
    public var named: [(name: String, value: SQLiteValue)]

    /// No values.
    public init() {
        positional = []
        named = []
    }

    /// Values by position.
    public init(_ values: [any ValueConvertible]) {
        positional = values.map(\.sqliteValue)
        named = []
    }

    /// Values by position.
    public init(values: [SQLiteValue]) {
        positional = values
        named = []
    }

    /// Values by name.
    public init(_ values: [String: any ValueConvertible]) {
        positional = []
        named = values.map { ($0.key, $0.value.sqliteValue) }
    }

    /// Whether there are no values.
    public var isEmpty: Bool { positional.isEmpty && named.isEmpty }
}

extension Arguments: ExpressibleByArrayLiteral {
    /// Values by position; `nil` is NULL.
    public init(arrayLiteral elements: (any ValueConvertible)?...) {
        self.init(values: elements.map { $0?.sqliteValue ?? .null })
    }
}

extension Arguments: ExpressibleByDictionaryLiteral {
    /// Values by name; `nil` is NULL.
    public init(dictionaryLiteral elements: (String, (any ValueConvertible)?)...) {
        positional = []
        named = elements.map { ($0.0, $0.1?.sqliteValue ?? .null) }
    }
}
