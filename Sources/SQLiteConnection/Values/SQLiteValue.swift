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

    /// Two values are equal if their storage classes and values are. Texts are equal if their bytes are, as in SQLite.
    public static func == (left: SQLiteValue, right: SQLiteValue) -> Bool {
        switch (left, right) {
        case (.null, .null): true
        case (.integer(let a), .integer(let b)): a == b
        case (.real(let a), .real(let b)): a == b
        case (.text(let a), .text(let b)): a.hasSameBytes(as: b)
        case (.blob(let a), .blob(let b)): a == b
        default: false
        }
    }

    /// Hashes what ``==(_:_:)`` compares.
    public func hash(into hasher: inout Hasher) {
        switch self {
        case .null: hasher.combine(0 as UInt8)
        case .integer(let integer): hasher.combine(integer)
        case .real(let double): hasher.combine(double)
        case .text(let text): text.hashBytes(into: &hasher)
        case .blob(let bytes): hasher.combine(bytes)
        }
    }
}

extension SQLiteValue: CustomStringConvertible, CustomDebugStringConvertible {
    /// The value alone: `NULL`, `1`, `1.5`, the text itself, `x'ffd8'`. For a long blob, its beginning and its size.
    public var description: String {
        switch self {
        case .null: "NULL"
        case .integer(let integer): "\(integer)"
        case .real(let double): "\(double)"
        case .text(let text): text
        case .blob(let bytes): Self.description(of: bytes)
        }
    }

    /// The value alone, with a text in quotes: `"Ann"`.
    public var debugDescription: String {
        if case .text(let text) = self { text.debugDescription } else { description }
    }

    private static func description(of bytes: [UInt8]) -> String {
        let most = 32
        let digits = bytes.prefix(most).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        return bytes.count > most ? "x'\(digits)…' (\(bytes.count) bytes)" : "x'\(digits)'"
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
