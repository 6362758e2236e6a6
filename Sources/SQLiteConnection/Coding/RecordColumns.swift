/// A column that a record type is read from.
public struct RecordColumn: Hashable, Sendable {
    /// How SQLite stores the column's values.
    public enum Storage: String, Hashable, Sendable {
        /// Integers and Bool.
        case integer = "INTEGER"
        /// Floating-point numbers.
        case real = "REAL"
        /// Strings.
        case text = "TEXT"
        /// `[UInt8]`.
        case blob = "BLOB"
    }

    /// The column's name, which is the coding key.
    public var name: String
    /// How the column's values are stored.
    public var storage: Storage
    /// Whether the column may be NULL, or be missing.
    public var isOptional: Bool

    /// The columns that a type is read from, in the order in which the type asks for them.
    ///
    ///     struct Message: Codable { var id: Int64?; var body: String }
    ///     try RecordColumn.columns(of: Message.self)
    ///     // id INTEGER, optional; body TEXT
    ///
    /// The type is decoded from a row of made-up values. A property whose type is the application's own must be decoded
    /// from a single value. Unless the property is optional, its type must also accept one of a few simple values, or
    /// be `CaseIterable`.
    ///
    /// - Throws: ``SQLiteError`` with ``ResultCode/mismatch`` that names the property for which no value can be made
    ///   up.
    public static func columns<Record: Decodable>(of _: Record.Type) throws -> [RecordColumn] {
        let probe = RecordProbe()
        do {
            _ = try Record(from: probe)
        } catch {
            if let failure = probe.failure { throw failure }
            throw SQLiteError(
                code: .mismatch,
                message:
                    "\(Record.self) cannot be read from a row of made-up values, so its columns are not known: \(error)"
            )
        }
        return probe.columns
    }
}

/// Notes which columns a type asks for, and gives the type made-up values.
private final class RecordProbe: Decoder {
    var columns: [RecordColumn] = []
    var failure: SQLiteError?
    /// The properties for which the type asked whether they are NULL, and which so may be NULL.
    var askedForNil: Set<String> = []

    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func note(_ key: any CodingKey, _ storage: RecordColumn.Storage, isOptional: Bool) {
        if columns.contains(where: { $0.name == key.stringValue }) { return }
        columns.append(RecordColumn(name: key.stringValue, storage: storage, isOptional: isOptional))
    }

    func refuse(_ key: any CodingKey, _ type: Any.Type, _ why: String) -> SQLiteError {
        let error = SQLiteError(
            code: .mismatch,
            message: "no value of type \(type) can be made up for property \(key.stringValue): \(why)"
        )
        failure = failure ?? error
        return error
    }

    func container<Key: CodingKey>(keyedBy _: Key.Type) throws -> KeyedDecodingContainer<Key> {
        KeyedDecodingContainer(ProbingContainer<Key>(probe: self))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer { throw notARow }
    func singleValueContainer() throws -> any SingleValueDecodingContainer { throw notARow }

    private var notARow: SQLiteError {
        SQLiteError(code: .mismatch, message: "a row is decoded by the names of its columns")
    }
}

private struct ProbingContainer<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let probe: RecordProbe

    var codingPath: [any CodingKey] { [] }
    var allKeys: [Key] { [] }
    func contains(_: Key) -> Bool { true }

    /// A type that asks this accepts NULL as an answer, as `decodeIfPresent` does for the standard types.
    func decodeNil(forKey key: Key) throws -> Bool {
        probe.askedForNil.insert(key.stringValue)
        return false
    }

    func decode<Wanted: Decodable>(_: Wanted.Type, forKey key: Key) throws -> Wanted {
        let (value, storage) = MadeUpValue.value(of: Wanted.self)
        guard let storage else { throw probe.refuse(key, Wanted.self, "it is not decoded from a single value") }
        probe.note(key, storage, isOptional: probe.askedForNil.contains(key.stringValue))
        guard let value else {
            throw probe.refuse(key, Wanted.self, "let it be CaseIterable, or the property be optional")
        }
        return value
    }

    func decodeIfPresent<Wanted: Decodable>(_: Wanted.Type, forKey key: Key) throws -> Wanted? {
        guard let storage = MadeUpValue.value(of: Wanted.self).storage else {
            throw probe.refuse(key, Wanted.self, "it is not decoded from a single value")
        }
        probe.note(key, storage, isOptional: true)
        return nil
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy _: Nested.Type,
        forKey key: Key
    ) throws -> KeyedDecodingContainer<Nested> {
        throw probe.refuse(key, [String: Any].self, "a column has no columns inside")
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        throw probe.refuse(key, [Any].self, "a column is no list")
    }

    func superDecoder() throws -> any Decoder { probe }
    func superDecoder(forKey _: Key) throws -> any Decoder { probe }
}

/// Stands for a single value while a type is decoded from it.
private final class MadeUpValue: Decoder, SingleValueDecodingContainer {
    private let attempt: Int
    private(set) var storage: RecordColumn.Storage?

    /// Texts that types stored as text commonly accept.
    private static let texts = ["", "0", "a", "00000000-0000-0000-0000-000000000000", "2000-01-01T00:00:00Z"]
    private static let attempts = 16

    private init(_ attempt: Int) {
        self.attempt = attempt
    }

    /// A value of a type, and how the type is stored; each is `nil` if it cannot be found out.
    static func value<Wanted: Decodable>(of type: Wanted.Type) -> (value: Wanted?, storage: RecordColumn.Storage?) {
        if Wanted.self == [UInt8].self { return ([UInt8]() as? Wanted, .blob) }
        var storage: RecordColumn.Storage?
        for attempt in 0..<attempts {
            let decoder = MadeUpValue(attempt)
            let value = try? Wanted(from: decoder)
            storage = storage ?? decoder.storage
            if let value { return (value, storage) }
            if storage == nil { break }
        }
        return ((type as? any CaseIterable.Type).flatMap { first(of: $0) } as? Wanted, storage)
    }

    private static func first<Cases: CaseIterable>(of _: Cases.Type) -> Any? { Cases.allCases.first }

    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy _: Key.Type) throws -> KeyedDecodingContainer<Key> { throw notASingleValue }
    func unkeyedContainer() throws -> any UnkeyedDecodingContainer { throw notASingleValue }
    func singleValueContainer() throws -> any SingleValueDecodingContainer { self }

    private var notASingleValue: SQLiteError {
        SQLiteError(code: .mismatch, message: "a column is a single value")
    }

    private func note<Wanted>(_ storage: RecordColumn.Storage, _ value: Wanted) -> Wanted {
        self.storage = self.storage ?? storage
        return value
    }

    private func integer<Wanted: FixedWidthInteger>() -> Wanted { note(.integer, Wanted(attempt)) }

    func decodeNil() -> Bool { false }

    func decode<Wanted: Decodable>(_: Wanted.Type) throws -> Wanted {
        if Wanted.self == [UInt8].self, let bytes = [UInt8]() as? Wanted { return note(.blob, bytes) }
        return try Wanted(from: self)
    }

    func decode(_: Bool.Type) throws -> Bool { note(.integer, attempt == 1) }
    func decode(_: String.Type) throws -> String { note(.text, Self.texts[attempt % Self.texts.count]) }
    func decode(_: Double.Type) throws -> Double { note(.real, Double(attempt)) }
    func decode(_: Float.Type) throws -> Float { note(.real, Float(attempt)) }
    func decode(_: Int.Type) throws -> Int { integer() }
    func decode(_: Int8.Type) throws -> Int8 { integer() }
    func decode(_: Int16.Type) throws -> Int16 { integer() }
    func decode(_: Int32.Type) throws -> Int32 { integer() }
    func decode(_: Int64.Type) throws -> Int64 { integer() }
    func decode(_: UInt.Type) throws -> UInt { integer() }
    func decode(_: UInt8.Type) throws -> UInt8 { integer() }
    func decode(_: UInt16.Type) throws -> UInt16 { integer() }
    func decode(_: UInt32.Type) throws -> UInt32 { integer() }
    func decode(_: UInt64.Type) throws -> UInt64 { integer() }
}
