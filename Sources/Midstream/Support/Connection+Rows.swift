internal import SQLText
internal import SQLiteConnection

extension Connection {
    /// What `body` makes of each row of one statement's result. Nothing is kept of a row but that.
    func mapRows<Element>(
        _ sql: String,
        _ arguments: Arguments = Arguments(),
        _ body: (Statement) throws -> Element
    ) throws -> [Element] {
        let statement = try cachedStatement(sql)
        try statement.bind(arguments)
        return try rows(of: statement, body)
    }

    /// The same of a statement that is not asked again, so that it takes no other's place in the cache.
    func mapRows<Element>(once sql: String, _ body: (Statement) throws -> Element) throws -> [Element] {
        try rows(of: prepare(sql), body)
    }

    private func rows<Element>(of statement: Statement, _ body: (Statement) throws -> Element) throws -> [Element] {
        defer { statement.reset() }
        var elements: [Element] = []
        while try statement.step() { elements.append(try body(statement)) }
        try statement.checkValuesRead()
        return elements
    }

    /// The number that SQLite raises with every change of a file's schema, and with VACUUM.
    func schemaVersion(of schema: String = "main") throws -> Int64 {
        try fetchValue(Int64.self, "PRAGMA \(SQLIdentifier.quoted(schema)).schema_version") ?? 0
    }
}
