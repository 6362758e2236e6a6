/// Encodes the properties of a record.
struct RecordObjectEncoder: Encoder {
    let state: EncodedRecord

    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { state.userInfo }

    func container<Key: CodingKey>(keyedBy _: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(RecordContainer(state: state))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        RefusingContainer(error: Self.refusal, userInfo: userInfo)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer {
        RefusingContainer(error: Self.refusal, userInfo: userInfo)
    }

    private static let refusal = SQLiteError(
        code: .mismatch,
        message: "only a type with named properties can be encoded as a record"
    )
}

/// The properties of a record, by coding key.
struct RecordContainer<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let state: EncodedRecord

    var codingPath: [any CodingKey] { [] }

    mutating func encodeNil(forKey key: Key) throws { state.set(.null, for: key.stringValue) }

    mutating func encode(_ value: some Encodable, forKey key: Key) throws {
        state.set(try state.value(value, for: key.stringValue), for: key.stringValue)
    }

    mutating func nestedContainer<Nested: CodingKey>(
        keyedBy _: Nested.Type,
        forKey key: Key
    ) -> KeyedEncodingContainer<Nested> {
        let error = SQLiteError.nestedObject(key.stringValue)
        state.failure = error
        return KeyedEncodingContainer(RefusingKeyedContainer(error: error, userInfo: state.userInfo))
    }

    mutating func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        let error = SQLiteError.nestedList(key.stringValue)
        state.failure = error
        return RefusingContainer(error: error, userInfo: state.userInfo)
    }

    mutating func superEncoder() -> any Encoder { RecordObjectEncoder(state: state) }

    mutating func superEncoder(forKey _: Key) -> any Encoder { RecordObjectEncoder(state: state) }
}

// The standard types, each encoded without a detour.
extension RecordContainer {
    mutating func encode(_ value: Bool, forKey key: Key) throws {
        state.set(.integer(value ? 1 : 0), for: key.stringValue)
    }

    mutating func encode(_ value: String, forKey key: Key) throws {
        state.set(.text(value), for: key.stringValue)
    }

    mutating func encode(_ value: Double, forKey key: Key) throws {
        state.set(.real(value), for: key.stringValue)
    }

    mutating func encode(_ value: Float, forKey key: Key) throws {
        state.set(.real(Double(value)), for: key.stringValue)
    }

    mutating func encode(_ value: Int, forKey key: Key) throws {
        state.set(try state.integer(value, for: key.stringValue), for: key.stringValue)
    }

    mutating func encode(_ value: Int8, forKey key: Key) throws {
        state.set(try state.integer(value, for: key.stringValue), for: key.stringValue)
    }

    mutating func encode(_ value: Int16, forKey key: Key) throws {
        state.set(try state.integer(value, for: key.stringValue), for: key.stringValue)
    }

    mutating func encode(_ value: Int32, forKey key: Key) throws {
        state.set(try state.integer(value, for: key.stringValue), for: key.stringValue)
    }

    mutating func encode(_ value: Int64, forKey key: Key) throws {
        state.set(try state.integer(value, for: key.stringValue), for: key.stringValue)
    }

    mutating func encode(_ value: UInt, forKey key: Key) throws {
        state.set(try state.integer(value, for: key.stringValue), for: key.stringValue)
    }

    mutating func encode(_ value: UInt8, forKey key: Key) throws {
        state.set(try state.integer(value, for: key.stringValue), for: key.stringValue)
    }

    mutating func encode(_ value: UInt16, forKey key: Key) throws {
        state.set(try state.integer(value, for: key.stringValue), for: key.stringValue)
    }

    mutating func encode(_ value: UInt32, forKey key: Key) throws {
        state.set(try state.integer(value, for: key.stringValue), for: key.stringValue)
    }

    mutating func encode(_ value: UInt64, forKey key: Key) throws {
        state.set(try state.integer(value, for: key.stringValue), for: key.stringValue)
    }
}
