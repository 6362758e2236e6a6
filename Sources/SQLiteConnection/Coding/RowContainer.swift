/// The columns of the current row, by coding key.
struct RowContainer<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let decoder: RowDecoder

    var codingPath: [any CodingKey] { [] }

    var allKeys: [Key] { decoder.source.names.names.compactMap(Key.init(stringValue:)) }

    func contains(_ key: Key) -> Bool { decoder.source.names.index(of: key.stringValue) != nil }

    func decodeNil(forKey key: Key) throws -> Bool {
        decoder.source.isNull(try decoder.requiredColumn(of: key))
    }

    /// The column of `key`, or `nil` when there is none or it is NULL.
    @inline(__always)
    private func columnIfPresent(_ key: Key) -> Int32? {
        let column = decoder.column(of: key)
        return column < 0 || decoder.source.isNull(column) ? nil : column
    }

    func decode<Wanted: Decodable>(_: Wanted.Type, forKey key: Key) throws -> Wanted {
        try decoder.decode(Wanted.self, column: decoder.requiredColumn(of: key))
    }

    func decodeIfPresent<Wanted: Decodable>(_: Wanted.Type, forKey key: Key) throws -> Wanted? {
        guard let column = columnIfPresent(key) else { return nil }
        return try decoder.decode(Wanted.self, column: column)
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy _: Nested.Type,
        forKey key: Key
    ) throws -> KeyedDecodingContainer<Nested> {
        throw decoder.source.unsupported("column \(key.stringValue) is a single value, and has no columns inside")
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        throw decoder.source.unsupported("column \(key.stringValue) is a single value, not a list")
    }

    func superDecoder() throws -> any Decoder { decoder }

    func superDecoder(forKey _: Key) throws -> any Decoder { decoder }
}

// The standard types, each read without a detour.
extension RowContainer {
    func decode(_: Bool.Type, forKey key: Key) throws -> Bool {
        try decoder.source.bool(decoder.requiredColumn(of: key))
    }

    func decodeIfPresent(_: Bool.Type, forKey key: Key) throws -> Bool? {
        guard let column = columnIfPresent(key) else { return nil }
        return try decoder.source.bool(column)
    }

    func decode(_: String.Type, forKey key: Key) throws -> String {
        try decoder.source.string(decoder.requiredColumn(of: key))
    }

    func decodeIfPresent(_: String.Type, forKey key: Key) throws -> String? {
        guard let column = columnIfPresent(key) else { return nil }
        return try decoder.source.string(column)
    }

    func decode(_: Double.Type, forKey key: Key) throws -> Double {
        try decoder.source.double(decoder.requiredColumn(of: key), as: Double.self)
    }

    func decodeIfPresent(_: Double.Type, forKey key: Key) throws -> Double? {
        guard let column = columnIfPresent(key) else { return nil }
        return try decoder.source.double(column, as: Double.self)
    }

    func decode(_: Float.Type, forKey key: Key) throws -> Float {
        Float(try decoder.source.double(decoder.requiredColumn(of: key), as: Float.self))
    }

    func decodeIfPresent(_: Float.Type, forKey key: Key) throws -> Float? {
        guard let column = columnIfPresent(key) else { return nil }
        return Float(try decoder.source.double(column, as: Float.self))
    }

    func decode(_: Int.Type, forKey key: Key) throws -> Int {
        try decoder.source.integer(decoder.requiredColumn(of: key), as: Int.self)
    }

    func decodeIfPresent(_: Int.Type, forKey key: Key) throws -> Int? {
        guard let column = columnIfPresent(key) else { return nil }
        return try decoder.source.integer(column, as: Int.self)
    }

    func decode(_: Int8.Type, forKey key: Key) throws -> Int8 {
        try decoder.source.integer(decoder.requiredColumn(of: key), as: Int8.self)
    }

    func decodeIfPresent(_: Int8.Type, forKey key: Key) throws -> Int8? {
        guard let column = columnIfPresent(key) else { return nil }
        return try decoder.source.integer(column, as: Int8.self)
    }

    func decode(_: Int16.Type, forKey key: Key) throws -> Int16 {
        try decoder.source.integer(decoder.requiredColumn(of: key), as: Int16.self)
    }

    func decodeIfPresent(_: Int16.Type, forKey key: Key) throws -> Int16? {
        guard let column = columnIfPresent(key) else { return nil }
        return try decoder.source.integer(column, as: Int16.self)
    }

    func decode(_: Int32.Type, forKey key: Key) throws -> Int32 {
        try decoder.source.integer(decoder.requiredColumn(of: key), as: Int32.self)
    }

    func decodeIfPresent(_: Int32.Type, forKey key: Key) throws -> Int32? {
        guard let column = columnIfPresent(key) else { return nil }
        return try decoder.source.integer(column, as: Int32.self)
    }

    func decode(_: Int64.Type, forKey key: Key) throws -> Int64 {
        try decoder.source.integer(decoder.requiredColumn(of: key), as: Int64.self)
    }

    func decodeIfPresent(_: Int64.Type, forKey key: Key) throws -> Int64? {
        guard let column = columnIfPresent(key) else { return nil }
        return try decoder.source.integer(column, as: Int64.self)
    }

    func decode(_: UInt.Type, forKey key: Key) throws -> UInt {
        try decoder.source.integer(decoder.requiredColumn(of: key), as: UInt.self)
    }

    func decodeIfPresent(_: UInt.Type, forKey key: Key) throws -> UInt? {
        guard let column = columnIfPresent(key) else { return nil }
        return try decoder.source.integer(column, as: UInt.self)
    }

    func decode(_: UInt8.Type, forKey key: Key) throws -> UInt8 {
        try decoder.source.integer(decoder.requiredColumn(of: key), as: UInt8.self)
    }

    func decodeIfPresent(_: UInt8.Type, forKey key: Key) throws -> UInt8? {
        guard let column = columnIfPresent(key) else { return nil }
        return try decoder.source.integer(column, as: UInt8.self)
    }

    func decode(_: UInt16.Type, forKey key: Key) throws -> UInt16 {
        try decoder.source.integer(decoder.requiredColumn(of: key), as: UInt16.self)
    }

    func decodeIfPresent(_: UInt16.Type, forKey key: Key) throws -> UInt16? {
        guard let column = columnIfPresent(key) else { return nil }
        return try decoder.source.integer(column, as: UInt16.self)
    }

    func decode(_: UInt32.Type, forKey key: Key) throws -> UInt32 {
        try decoder.source.integer(decoder.requiredColumn(of: key), as: UInt32.self)
    }

    func decodeIfPresent(_: UInt32.Type, forKey key: Key) throws -> UInt32? {
        guard let column = columnIfPresent(key) else { return nil }
        return try decoder.source.integer(column, as: UInt32.self)
    }

    func decode(_: UInt64.Type, forKey key: Key) throws -> UInt64 {
        try decoder.source.integer(decoder.requiredColumn(of: key), as: UInt64.self)
    }

    func decodeIfPresent(_: UInt64.Type, forKey key: Key) throws -> UInt64? {
        guard let column = columnIfPresent(key) else { return nil }
        return try decoder.source.integer(column, as: UInt64.self)
    }
}
