/// The columns of the current row, by coding key.
final class RowContainer<Key: CodingKey>: KeyedDecodingContainerProtocol {
    private let source: ColumnSource
    private let value: ColumnDecoder
    /// The columns of the keys, indexed by the one byte that a key has in memory. Synthesized keys are enums of one
    /// byte for up to 256 cases, so their column is found without their name. Other keys are looked up by name.
    private let columns: UnsafeMutablePointer<Int32>?

    private var unknown: Int32 { -2 }

    init(source: ColumnSource, value: ColumnDecoder) {
        self.source = source
        self.value = value
        if MemoryLayout<Key>.size <= 1 {
            let columns = UnsafeMutablePointer<Int32>.allocate(capacity: 256)
            columns.initialize(repeating: -2, count: 256)
            self.columns = columns
        } else {
            columns = nil
        }
    }

    deinit {
        columns?.deallocate()
    }

    /// The column of `key`; -1 if there is none.
    @inline(__always)
    private func column(of key: Key) -> Int32 {
        guard let columns else { return source.column(named: key.stringValue) }
        let byte: UInt8 = MemoryLayout<Key>.size == 0 ? 0 : unsafeBitCast(key, to: UInt8.self)
        let column = columns[Int(byte)]
        if column != unknown { return column }
        return findColumn(of: key, byte: byte, in: columns)
    }

    @inline(never)
    private func findColumn(of key: Key, byte: UInt8, in columns: UnsafeMutablePointer<Int32>) -> Int32 {
        let column = source.column(named: key.stringValue)
        columns[Int(byte)] = column
        return column
    }

    @inline(__always)
    private func requiredColumn(of key: Key) throws -> Int32 {
        let column = column(of: key)
        if column < 0 { throw source.missing(key.stringValue) }
        return column
    }

    /// The column of `key`, or `nil` if there is none or it is NULL.
    @inline(__always)
    private func columnIfPresent(_ key: Key) -> Int32? {
        let column = column(of: key)
        return column < 0 || source.isNull(column) ? nil : column
    }

    var codingPath: [any CodingKey] { [] }

    var allKeys: [Key] { source.names.names.compactMap(Key.init(stringValue:)) }

    func contains(_ key: Key) -> Bool { column(of: key) >= 0 }

    func decodeNil(forKey key: Key) throws -> Bool {
        source.isNull(try requiredColumn(of: key))
    }

    func decode<Wanted: Decodable>(_: Wanted.Type, forKey key: Key) throws -> Wanted {
        try value.decode(Wanted.self, column: requiredColumn(of: key))
    }

    func decodeIfPresent<Wanted: Decodable>(_: Wanted.Type, forKey key: Key) throws -> Wanted? {
        guard let column = columnIfPresent(key) else { return nil }
        return try value.decode(Wanted.self, column: column)
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy _: Nested.Type,
        forKey key: Key
    ) throws -> KeyedDecodingContainer<Nested> {
        throw source.unsupported("column \(key.stringValue) is a single value, and has no columns inside")
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        throw source.unsupported("column \(key.stringValue) is a single value, not a list")
    }

    func superDecoder() throws -> any Decoder { RowDecoder(source: source, value: value) }

    func superDecoder(forKey _: Key) throws -> any Decoder { RowDecoder(source: source, value: value) }
}

// The standard types, each read without a detour.
extension RowContainer {
    func decode(_: Bool.Type, forKey key: Key) throws -> Bool {
        try source.bool(requiredColumn(of: key))
    }

    func decodeIfPresent(_: Bool.Type, forKey key: Key) throws -> Bool? {
        guard let column = columnIfPresent(key) else { return nil }
        return try source.bool(column)
    }

    func decode(_: String.Type, forKey key: Key) throws -> String {
        try source.string(requiredColumn(of: key))
    }

    func decodeIfPresent(_: String.Type, forKey key: Key) throws -> String? {
        guard let column = columnIfPresent(key) else { return nil }
        return try source.string(column)
    }

    func decode(_: Double.Type, forKey key: Key) throws -> Double {
        try source.double(requiredColumn(of: key), as: Double.self)
    }

    func decodeIfPresent(_: Double.Type, forKey key: Key) throws -> Double? {
        guard let column = columnIfPresent(key) else { return nil }
        return try source.double(column, as: Double.self)
    }

    func decode(_: Float.Type, forKey key: Key) throws -> Float {
        Float(try source.double(requiredColumn(of: key), as: Float.self))
    }

    func decodeIfPresent(_: Float.Type, forKey key: Key) throws -> Float? {
        guard let column = columnIfPresent(key) else { return nil }
        return Float(try source.double(column, as: Float.self))
    }

    func decode(_: Int.Type, forKey key: Key) throws -> Int {
        try source.integer(requiredColumn(of: key), as: Int.self)
    }

    func decodeIfPresent(_: Int.Type, forKey key: Key) throws -> Int? {
        guard let column = columnIfPresent(key) else { return nil }
        return try source.integer(column, as: Int.self)
    }

    func decode(_: Int8.Type, forKey key: Key) throws -> Int8 {
        try source.integer(requiredColumn(of: key), as: Int8.self)
    }

    func decodeIfPresent(_: Int8.Type, forKey key: Key) throws -> Int8? {
        guard let column = columnIfPresent(key) else { return nil }
        return try source.integer(column, as: Int8.self)
    }

    func decode(_: Int16.Type, forKey key: Key) throws -> Int16 {
        try source.integer(requiredColumn(of: key), as: Int16.self)
    }

    func decodeIfPresent(_: Int16.Type, forKey key: Key) throws -> Int16? {
        guard let column = columnIfPresent(key) else { return nil }
        return try source.integer(column, as: Int16.self)
    }

    func decode(_: Int32.Type, forKey key: Key) throws -> Int32 {
        try source.integer(requiredColumn(of: key), as: Int32.self)
    }

    func decodeIfPresent(_: Int32.Type, forKey key: Key) throws -> Int32? {
        guard let column = columnIfPresent(key) else { return nil }
        return try source.integer(column, as: Int32.self)
    }

    func decode(_: Int64.Type, forKey key: Key) throws -> Int64 {
        try source.integer(requiredColumn(of: key), as: Int64.self)
    }

    func decodeIfPresent(_: Int64.Type, forKey key: Key) throws -> Int64? {
        guard let column = columnIfPresent(key) else { return nil }
        return try source.integer(column, as: Int64.self)
    }

    func decode(_: UInt.Type, forKey key: Key) throws -> UInt {
        try source.integer(requiredColumn(of: key), as: UInt.self)
    }

    func decodeIfPresent(_: UInt.Type, forKey key: Key) throws -> UInt? {
        guard let column = columnIfPresent(key) else { return nil }
        return try source.integer(column, as: UInt.self)
    }

    func decode(_: UInt8.Type, forKey key: Key) throws -> UInt8 {
        try source.integer(requiredColumn(of: key), as: UInt8.self)
    }

    func decodeIfPresent(_: UInt8.Type, forKey key: Key) throws -> UInt8? {
        guard let column = columnIfPresent(key) else { return nil }
        return try source.integer(column, as: UInt8.self)
    }

    func decode(_: UInt16.Type, forKey key: Key) throws -> UInt16 {
        try source.integer(requiredColumn(of: key), as: UInt16.self)
    }

    func decodeIfPresent(_: UInt16.Type, forKey key: Key) throws -> UInt16? {
        guard let column = columnIfPresent(key) else { return nil }
        return try source.integer(column, as: UInt16.self)
    }

    func decode(_: UInt32.Type, forKey key: Key) throws -> UInt32 {
        try source.integer(requiredColumn(of: key), as: UInt32.self)
    }

    func decodeIfPresent(_: UInt32.Type, forKey key: Key) throws -> UInt32? {
        guard let column = columnIfPresent(key) else { return nil }
        return try source.integer(column, as: UInt32.self)
    }

    func decode(_: UInt64.Type, forKey key: Key) throws -> UInt64 {
        try source.integer(requiredColumn(of: key), as: UInt64.self)
    }

    func decodeIfPresent(_: UInt64.Type, forKey key: Key) throws -> UInt64? {
        guard let column = columnIfPresent(key) else { return nil }
        return try source.integer(column, as: UInt64.self)
    }
}
