extension SQLiteError {
    static func nestedObject(_ column: String) -> SQLiteError {
        SQLiteError(
            code: .mismatch,
            message: "column \(column) would hold an object; encode it as one value, such as text, or flatten it"
        )
    }

    static func nestedList(_ column: String) -> SQLiteError {
        SQLiteError(
            code: .mismatch,
            message: "column \(column) would hold a list; encode it as one value, such as text or [UInt8]"
        )
    }
}

/// Takes the place of a container that a record cannot have, where the protocol has no way to refuse. It refuses every
/// value instead. If no value at all is encoded, whoever asked for the encoding refuses that.
struct RefusingContainer: UnkeyedEncodingContainer, SingleValueEncodingContainer, Encoder {
    let error: SQLiteError
    let userInfo: [CodingUserInfoKey: Any]

    var codingPath: [any CodingKey] { [] }
    var count: Int { 0 }

    func encodeNil() throws { throw error }
    func encode(_: some Encodable) throws { throw error }

    func container<Key: CodingKey>(keyedBy _: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(RefusingKeyedContainer(error: error, userInfo: userInfo))
    }
    func unkeyedContainer() -> any UnkeyedEncodingContainer { self }
    func singleValueContainer() -> any SingleValueEncodingContainer { self }
    func nestedContainer<Key: CodingKey>(keyedBy key: Key.Type) -> KeyedEncodingContainer<Key> {
        container(keyedBy: key)
    }
    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { self }
    func superEncoder() -> any Encoder { self }
}

/// A ``RefusingContainer`` for keys.
struct RefusingKeyedContainer<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let error: SQLiteError
    let userInfo: [CodingUserInfoKey: Any]

    var codingPath: [any CodingKey] { [] }

    private var refusing: RefusingContainer { RefusingContainer(error: error, userInfo: userInfo) }

    func encodeNil(forKey _: Key) throws { throw error }
    func encode(_: some Encodable, forKey _: Key) throws { throw error }
    func nestedContainer<Nested: CodingKey>(keyedBy key: Nested.Type, forKey _: Key) -> KeyedEncodingContainer<Nested> {
        refusing.container(keyedBy: key)
    }
    func nestedUnkeyedContainer(forKey _: Key) -> any UnkeyedEncodingContainer { refusing }
    func superEncoder() -> any Encoder { refusing }
    func superEncoder(forKey _: Key) -> any Encoder { refusing }
}
