/// Encodes a record as columns and values, in the order of its coding keys.
///
///     struct User: Codable { var id: Int64?; var name: String }
///     let (columns, values) = try RecordEncoder().encode(User(id: nil, name: "Ann"))
///     // columns == ["name"], values == [.text("Ann")]
///
/// A key that is not encoded gives no column; a key that is encoded as `nil` gives NULL. Synthesized conformances do
/// not encode a `nil` property, so that a `nil` id leaves the choice of the rowid, and other columns their default,
/// to SQLite.
public struct RecordEncoder {
    /// Information for the types that are encoded.
    public var userInfo: [CodingUserInfoKey: Any]

    /// Makes an encoder.
    public init(userInfo: [CodingUserInfoKey: Any] = [:]) {
        self.userInfo = userInfo
    }

    /// The record's columns and their values.
    ///
    /// - Throws: ``SQLiteError`` with ``ResultCode/mismatch`` that names the column, if a property is neither a value
    ///   nor encoded as one, or is an integer that SQLite cannot hold.
    public func encode(_ record: some Encodable) throws -> (columns: [String], values: [SQLiteValue]) {
        let state = EncodedRecord(userInfo: userInfo)
        do {
            try record.encode(to: RecordObjectEncoder(state: state))
        } catch is EncodingError {
            // The words of the error may show values.
            throw SQLiteError(code: .mismatch, message: "\(type(of: record)) cannot be encoded as a record")
        }
        if let failure = state.failure { throw failure }
        return (state.columns, state.values)
    }

    /// The statement that inserts a record with these columns, with one parameter for each column.
    ///
    ///     RecordEncoder.insertSQL(table: "users", columns: ["id", "name"])
    ///     // INSERT INTO "users"("id", "name") VALUES (?, ?)
    public static func insertSQL(table: String, columns: [String]) -> String {
        guard !columns.isEmpty else { return "INSERT INTO \(table.quotedIdentifier) DEFAULT VALUES" }
        let names = columns.map(\.quotedIdentifier).joined(separator: ", ")
        let parameters = repeatElement("?", count: columns.count).joined(separator: ", ")
        return "INSERT INTO \(table.quotedIdentifier)(\(names)) VALUES (\(parameters))"
    }
}

/// What has been encoded of a record.
final class EncodedRecord {
    private(set) var columns: [String] = []
    private(set) var values: [SQLiteValue] = []
    let userInfo: [CodingUserInfoKey: Any]
    /// The first error that an encoding method could not throw, because its protocol does not let it.
    var failure: SQLiteError?

    init(userInfo: [CodingUserInfoKey: Any]) {
        self.userInfo = userInfo
    }

    /// Sets the value of a column. If a key is encoded several times, its last value counts.
    ///
    /// Complexity: O(columns so far).
    func set(_ value: SQLiteValue, for column: String) {
        if let index = columns.firstIndex(where: { $0.hasSameBytes(as: column) }) {
            values[index] = value
        } else {
            columns.append(column)
            values.append(value)
        }
    }

    func integer(_ integer: some FixedWidthInteger, for column: String) throws -> SQLiteValue {
        guard let exact = Int64(exactly: integer) else {
            throw SQLiteError(
                code: .mismatch,
                message: "column \(column): the \(type(of: integer)) is larger than an integer of SQLite"
            )
        }
        return .integer(exact)
    }

    /// The value of any type that is encoded as a single value.
    func value<Given: Encodable>(_ value: Given, for column: String) throws -> SQLiteValue {
        if Given.self == [UInt8].self { return .blob(unsafeBitCast(value, to: [UInt8].self)) }
        let encoder = ColumnEncoder(record: self, column: column)
        do {
            try value.encode(to: encoder)
        } catch is EncodingError {
            throw encoder.unsupported("a value of type \(type(of: value)), which cannot be encoded")
        }
        guard let encoded = encoder.value else {
            throw encoder.unsupported("a value of type \(type(of: value)), which encodes nothing")
        }
        return encoded
    }
}
