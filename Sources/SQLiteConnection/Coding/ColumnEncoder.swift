/// Encodes a type that is stored in one column.
final class ColumnEncoder: Encoder, SingleValueEncodingContainer {
    private let record: EncodedRecord
    private let column: String
    private(set) var value: SQLiteValue?

    init(record: EncodedRecord, column: String) {
        self.record = record
        self.column = column
    }

    var codingPath: [any CodingKey] { [ColumnKey(stringValue: column)] }
    var userInfo: [CodingUserInfoKey: Any] { record.userInfo }

    func unsupported(_ what: String) -> SQLiteError {
        SQLiteError(code: .mismatch, message: "column \(column) would hold \(what)")
    }

    func container<Key: CodingKey>(keyedBy _: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(RefusingKeyedContainer(error: .nestedObject(column), userInfo: userInfo))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        RefusingContainer(error: .nestedList(column), userInfo: userInfo)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer { self }

    func encodeNil() throws { value = .null }
    func encode(_ value: some Encodable) throws { self.value = try record.value(value, for: column) }
    func encode(_ value: Bool) throws { self.value = .integer(value ? 1 : 0) }
    func encode(_ value: String) throws { self.value = .text(value) }
    func encode(_ value: Double) throws { self.value = .real(value) }
    func encode(_ value: Float) throws { self.value = .real(Double(value)) }
    func encode(_ value: Int) throws { self.value = try record.integer(value, for: column) }
    func encode(_ value: Int8) throws { self.value = try record.integer(value, for: column) }
    func encode(_ value: Int16) throws { self.value = try record.integer(value, for: column) }
    func encode(_ value: Int32) throws { self.value = try record.integer(value, for: column) }
    func encode(_ value: Int64) throws { self.value = try record.integer(value, for: column) }
    func encode(_ value: UInt) throws { self.value = try record.integer(value, for: column) }
    func encode(_ value: UInt8) throws { self.value = try record.integer(value, for: column) }
    func encode(_ value: UInt16) throws { self.value = try record.integer(value, for: column) }
    func encode(_ value: UInt32) throws { self.value = try record.integer(value, for: column) }
    func encode(_ value: UInt64) throws { self.value = try record.integer(value, for: column) }
}
