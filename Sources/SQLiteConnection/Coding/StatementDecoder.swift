/// Decodes the rows of a statement's result, by the names of its columns.
///
///     struct User: Codable { var id: Int64; var name: String? }
///     let statement = try connection.prepare("SELECT id, name FROM users")
///     let decoder = StatementDecoder()
///     while try statement.step() {
///         let user = try decoder.decode(User.self, from: statement)
///     }
///
/// A property is read from the column of its coding key. Integers must be in range, `[UInt8]` is a blob, NULL and an
/// absent column are `nil`, and enums are decoded from their raw values. A type that is a single value is read from the
/// first column. Objects inside a row have no column of their own, and are refused.
public struct StatementDecoder {
    /// Information for the types that are decoded.
    public var userInfo: [CodingUserInfoKey: Any]

    /// Makes a decoder.
    public init(userInfo: [CodingUserInfoKey: Any] = [:]) {
        self.userInfo = userInfo
    }

    /// Decodes the statement's current row.
    ///
    /// The decoder keeps what it learns of the statement's columns with the statement, so later rows need no search for
    /// a column.
    ///
    /// - Throws: ``SQLiteError`` with ``ResultCode/mismatch`` that names column and type, if a column holds something
    ///   else; with ``ResultCode/range`` if there is no such column; and whatever the type itself throws.
    public func decode<Wanted: Decodable>(_: Wanted.Type = Wanted.self, from statement: Statement) throws -> Wanted {
        let decoder = statement.idleRowDecoder()
        decoder.source.handle = statement.handle
        decoder.source.userInfo = userInfo
        // The statement must live until the handle is taken away.
        defer {
            decoder.source.handle = nil
            withExtendedLifetime(statement) {}
        }
        return try decoder.decode(Wanted.self)
    }
}
