/// Decodes a type that is stored in one column.
final class ColumnDecoder: Decoder, SingleValueDecodingContainer {
    private let source: ColumnSource
    var column: Int32 = 0

    init(source: ColumnSource) {
        self.source = source
    }

    /// Decodes any type from one column.
    @inline(__always)
    func decode<Wanted: Decodable>(_: Wanted.Type, column: Int32) throws -> Wanted {
        if Wanted.self == [UInt8].self { return unsafeBitCast(try source.bytes(column), to: Wanted.self) }
        return try decodeNested(Wanted.self, column: column)
    }

    private func decodeNested<Wanted: Decodable>(_: Wanted.Type, column: Int32) throws -> Wanted {
        self.column = column
        do {
            return try Wanted(from: self)
        } catch is DecodingError {
            // The words of the error may show the value.
            throw source.mismatch(column, Wanted.self)
        }
    }

    var userInfo: [CodingUserInfoKey: Any] { source.userInfo }
    var codingPath: [any CodingKey] { [ColumnKey(stringValue: source.name(column))] }

    func container<Key: CodingKey>(keyedBy _: Key.Type) throws -> KeyedDecodingContainer<Key> {
        throw source.unsupported("column \(source.name(column)) is a single value, and has no columns inside")
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        throw source.unsupported("column \(source.name(column)) is a single value, not a list")
    }

    func singleValueContainer() throws -> any SingleValueDecodingContainer { self }

    func decodeNil() -> Bool { source.isNull(column) }

    func decode<Wanted: Decodable>(_: Wanted.Type) throws -> Wanted {
        if Wanted.self == [UInt8].self { return unsafeBitCast(try source.bytes(column), to: Wanted.self) }
        return try Wanted(from: self)
    }

    func decode(_: Bool.Type) throws -> Bool { try source.bool(column) }
    func decode(_: String.Type) throws -> String { try source.string(column) }
    func decode(_: Double.Type) throws -> Double { try source.double(column, as: Double.self) }
    func decode(_: Float.Type) throws -> Float { Float(try source.double(column, as: Float.self)) }
    func decode(_: Int.Type) throws -> Int { try source.integer(column, as: Int.self) }
    func decode(_: Int8.Type) throws -> Int8 { try source.integer(column, as: Int8.self) }
    func decode(_: Int16.Type) throws -> Int16 { try source.integer(column, as: Int16.self) }
    func decode(_: Int32.Type) throws -> Int32 { try source.integer(column, as: Int32.self) }
    func decode(_: Int64.Type) throws -> Int64 { try source.integer(column, as: Int64.self) }
    func decode(_: UInt.Type) throws -> UInt { try source.integer(column, as: UInt.self) }
    func decode(_: UInt8.Type) throws -> UInt8 { try source.integer(column, as: UInt8.self) }
    func decode(_: UInt16.Type) throws -> UInt16 { try source.integer(column, as: UInt16.self) }
    func decode(_: UInt32.Type) throws -> UInt32 { try source.integer(column, as: UInt32.self) }
    func decode(_: UInt64.Type) throws -> UInt64 { try source.integer(column, as: UInt64.self) }
}

/// A column's name as a coding key.
struct ColumnKey: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }
    init(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { nil }
}
