/// A Swift type that is stored in one column.
public protocol ValueConvertible {
    /// The value to store.
    var sqliteValue: SQLiteValue { get }

    /// Reads a stored value; `nil` if it is not of this type. Each type says which values it takes.
    init?(sqliteValue: SQLiteValue)

    /// Reads a column of the statement's current row; `nil` in the same cases as ``init(sqliteValue:)``.
    ///
    /// The default goes through ``SQLiteValue``; types on hot paths read the column directly.
    static func read(from statement: Statement, at index: Int) -> Self?
}

extension ValueConvertible {
    /// Reads by way of ``SQLiteValue``.
    public static func read(from statement: Statement, at index: Int) -> Self? {
        Self(sqliteValue: statement.value(at: index))
    }
}

extension SQLiteValue: ValueConvertible {
    /// Itself.
    public var sqliteValue: SQLiteValue { self }
    /// Itself.
    public init?(sqliteValue: SQLiteValue) { self = sqliteValue }
}

extension Int64: ValueConvertible {
    /// An integer.
    public var sqliteValue: SQLiteValue { .integer(self) }
    /// Takes integers, and doubles that are whole.
    public init?(sqliteValue: SQLiteValue) {
        switch sqliteValue {
        case .integer(let integer): self = integer
        case .real(let double):
            guard let exact = Int64(exactly: double) else { return nil }
            self = exact
        default: return nil
        }
    }
    /// Reads the column directly.
    @inlinable
    public static func read(from statement: Statement, at index: Int) -> Int64? {
        if statement.storageClass(at: index) == .integer { return statement.int64(at: index) }
        return Int64(sqliteValue: statement.value(at: index))
    }
}

/// An integer type all of whose values fit into a column, that is, into 64 bits with a sign. A wider type has to say
/// itself how it is stored.
public protocol ColumnInteger: ValueConvertible, FixedWidthInteger {}

extension ColumnInteger {
    /// An integer.
    public var sqliteValue: SQLiteValue { .integer(Int64(self)) }
    /// Takes integers in range.
    public init?(sqliteValue: SQLiteValue) {
        guard let integer = Int64(sqliteValue: sqliteValue), let exact = Self(exactly: integer) else { return nil }
        self = exact
    }
    /// Reads the column directly.
    @inlinable
    public static func read(from statement: Statement, at index: Int) -> Self? {
        Int64.read(from: statement, at: index).flatMap(Self.init(exactly:))
    }
}

extension Int: ColumnInteger {}
extension Int32: ColumnInteger {}
extension Int16: ColumnInteger {}
extension Int8: ColumnInteger {}
extension UInt32: ColumnInteger {}
extension UInt16: ColumnInteger {}
extension UInt8: ColumnInteger {}

extension Double: ValueConvertible {
    /// A double.
    public var sqliteValue: SQLiteValue { .real(self) }
    /// Takes doubles and integers. An integer beyond 2^53 gives the nearest double.
    public init?(sqliteValue: SQLiteValue) {
        switch sqliteValue {
        case .real(let double): self = double
        case .integer(let integer): self = Double(integer)
        default: return nil
        }
    }
    /// Reads the column directly.
    @inlinable
    public static func read(from statement: Statement, at index: Int) -> Double? {
        switch statement.storageClass(at: index) {
        case .real, .integer: statement.double(at: index)
        default: nil
        }
    }
}

extension Float: ValueConvertible {
    /// A double.
    public var sqliteValue: SQLiteValue { .real(Double(self)) }
    /// Takes doubles and integers, as the nearest float.
    public init?(sqliteValue: SQLiteValue) {
        guard let double = Double(sqliteValue: sqliteValue) else { return nil }
        self = Float(double)
    }
    /// Reads the column directly.
    @inlinable
    public static func read(from statement: Statement, at index: Int) -> Float? {
        Double.read(from: statement, at: index).map { Float($0) }
    }
}

extension Bool: ValueConvertible {
    /// 1 or 0.
    public var sqliteValue: SQLiteValue { .integer(self ? 1 : 0) }
    /// Takes numbers; 0 is false.
    public init?(sqliteValue: SQLiteValue) {
        switch sqliteValue {
        case .integer(let integer): self = integer != 0
        case .real(let double): self = double != 0
        default: return nil
        }
    }
    /// Reads the column directly.
    @inlinable
    public static func read(from statement: Statement, at index: Int) -> Bool? {
        Double.read(from: statement, at: index).map { $0 != 0 }
    }
}

extension String: ValueConvertible {
    /// Text.
    public var sqliteValue: SQLiteValue { .text(self) }
    /// Takes text.
    public init?(sqliteValue: SQLiteValue) {
        guard case .text(let text) = sqliteValue else { return nil }
        self = text
    }
    /// Reads the column directly.
    @inlinable
    public static func read(from statement: Statement, at index: Int) -> String? {
        statement.storageClass(at: index) == .text ? statement.text(at: index) : nil
    }
}

extension Array: ValueConvertible where Element == UInt8 {
    /// Bytes.
    public var sqliteValue: SQLiteValue { .blob(self) }
    /// Takes blobs, and text as its UTF-8.
    public init?(sqliteValue: SQLiteValue) {
        switch sqliteValue {
        case .blob(let bytes): self = bytes
        case .text(let text): self = Array(text.utf8)
        default: return nil
        }
    }
    /// Reads the column directly.
    @inlinable
    public static func read(from statement: Statement, at index: Int) -> [UInt8]? {
        switch statement.storageClass(at: index) {
        case .blob, .text: statement.blob(at: index)
        default: nil
        }
    }
}

extension Optional: ValueConvertible where Wrapped: ValueConvertible {
    /// The wrapped value, or NULL.
    public var sqliteValue: SQLiteValue { self?.sqliteValue ?? .null }
    /// Takes NULL as `nil`.
    public init?(sqliteValue: SQLiteValue) {
        if sqliteValue.isNull {
            self = nil
        } else if let wrapped = Wrapped(sqliteValue: sqliteValue) {
            self = .some(wrapped)
        } else {
            return nil
        }
    }
    /// Reads the column directly.
    @inlinable
    public static func read(from statement: Statement, at index: Int) -> Wrapped?? {
        if statement.storageClass(at: index) == .null { return .some(.none) }
        return Wrapped.read(from: statement, at: index).map { .some($0) }
    }
}
