extension Connection {
    /// All rows of one statement's result, each decoded by ``StatementDecoder``.
    ///
    ///     let users = try connection.fetchAll(User.self, "SELECT id, name FROM users WHERE id < ?", [10])
    ///
    /// Complexity: O(rows).
    @inlinable
    public func fetchAll<Wanted: Decodable>(
        _ type: Wanted.Type,
        _ sql: String,
        _ arguments: Arguments = Arguments()
    ) throws -> [Wanted] {
        let statement = try cachedStatement(sql)
        defer { statement.reset() }
        try statement.bind(arguments)
        let decoder = StatementDecoder()
        var rows: [Wanted] = []
        while try statement.step() { rows.append(try decoder.decode(type, from: statement)) }
        return rows
    }

    /// The first row of one statement's result, decoded by ``StatementDecoder``; `nil` if there is no row.
    @inlinable
    public func fetchOne<Wanted: Decodable>(
        _ type: Wanted.Type,
        _ sql: String,
        _ arguments: Arguments = Arguments()
    ) throws -> Wanted? {
        let statement = try cachedStatement(sql)
        defer { statement.reset() }
        try statement.bind(arguments)
        guard try statement.step() else { return nil }
        let record = try StatementDecoder().decode(type, from: statement)
        try statement.end()
        return record
    }

    /// Inserts a record, encoded by ``RecordEncoder``. A property that is `nil` is left to SQLite.
    ///
    ///     try connection.insert(User(id: nil, name: "Ann"), into: "users")
    ///     connection.lastInsertRowID      // 1
    ///
    /// - Parameters:
    ///   - record: The record to insert. Each property that it encodes is a column.
    ///   - table: The table's name, without quotes.
    public func insert(_ record: some Encodable, into table: String) throws {
        let (columns, values) = try RecordEncoder().encode(record)
        try execute(RecordEncoder.insertSQL(table: table, columns: columns), Arguments(values: values))
    }
}
