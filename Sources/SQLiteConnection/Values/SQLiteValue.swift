/// A value of one of SQLite's five storage classes.
///
/// Source: <https://www.sqlite.org/datatype3.html>.
public enum SQLiteValue: Hashable, Sendable {
    /// NULL.
    case null
    /// A 64-bit integer.
    case integer(Int64)
    /// A double. SQLite stores NaN as NULL.
    case real(Double)
    /// Text.
    case text(String)
    /// Bytes.
    case blob([UInt8])

    /// Whether the value is NULL.
    public var isNull: Bool {
        if case .null = self { true } else { false }
    }
}

extension SQLiteValue: ExpressibleByNilLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
    ExpressibleByStringLiteral, ExpressibleByBooleanLiteral
{
    /// NULL.
    public init(nilLiteral: ()) { self = .null }
    /// An integer.
    public init(integerLiteral value: Int64) { self = .integer(value) }
    /// A double.
    public init(floatLiteral value: Double) { self = .real(value) }
    /// Text.
    public init(stringLiteral value: String) { self = .text(value) }
    /// 1 or 0.
    public init(booleanLiteral value: Bool) { self = .integer(value ? 1 : 0) }
}

/// The storage class of a value.
public enum StorageClass: Int32, Sendable {
    /// A 64-bit integer.
    case integer = 1
    /// A double.
    case real = 2
    /// Text.
    case text = 3
    /// Bytes.
    case blob = 4
    /// NULL.
    case null = 5
}
