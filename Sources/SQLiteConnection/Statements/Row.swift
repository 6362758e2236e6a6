/// One row of a result, copied out of SQLite.
///
///     let row = try connection.fetchOne("SELECT id, name FROM users WHERE id = ?", [1])
///     row?["name"]        // .text("Ann")
///     row?[0]             // .integer(1)
///     print(row!)         // [id: 1, name: "Ann"]
public struct Row: Sendable, Hashable {
    /// The columns' names.
    public let columns: ColumnNames
    /// The values, in the columns' order.
    public let values: [SQLiteValue]

    /// Copies the statement's current row.
    public init(copying statement: Statement) {
        columns = statement.columnNames
        values = (0..<statement.columnCount).map { statement.value(at: $0) }
    }

    /// The value at `index`, from 0.
    public subscript(index: Int) -> SQLiteValue { values[index] }

    /// The value of the first column of that name, or `nil` if there is none.
    public subscript(name: String) -> SQLiteValue? { columns.index(of: name).map { values[$0] } }

    /// The value at `index`, from 0, as `Wanted`.
    public func get<Wanted: ValueConvertible>(_ index: Int, as _: Wanted.Type = Wanted.self) throws(SQLiteError)
        -> Wanted
    {
        guard values.indices.contains(index), let value = Wanted(sqliteValue: values[index]) else {
            throw SQLiteError(code: .mismatch, message: "column \(index) cannot be read as \(Wanted.self)")
        }
        return value
    }

    /// The value of the first column of that name, as `Wanted`.
    public func get<Wanted: ValueConvertible>(_ name: String, as _: Wanted.Type = Wanted.self) throws(SQLiteError)
        -> Wanted
    {
        guard let index = columns.index(of: name) else {
            throw SQLiteError(code: .range, message: columns.missing(name))
        }
        guard let value = Wanted(sqliteValue: values[index]) else {
            throw SQLiteError(code: .mismatch, message: "column \(name) cannot be read as \(Wanted.self)")
        }
        return value
    }

    /// Two rows are equal if their names and values are.
    public static func == (left: Row, right: Row) -> Bool {
        left.values == right.values
            && (left.columns === right.columns
                || left.columns.names.elementsEqual(right.columns.names) { $0.hasSameBytes(as: $1) })
    }

    /// Hashes the values.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(values)
    }
}

extension Row: CustomStringConvertible {
    /// The columns with their values, as `[id: 1, name: "Ann", photo: x'ffd8', left: NULL]`.
    public var description: String {
        "["
            + zip(columns.names, values).map { "\($0): \($1.debugDescription)" }.joined(separator: ", ")
            + "]"
    }
}
