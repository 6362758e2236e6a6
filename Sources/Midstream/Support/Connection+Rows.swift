internal import SQLText
internal import SQLiteConnection

extension Connection {
    /// Maps each row of a statement's result by `body`. Only what `body` returns is kept of a row.
    func mapRows<Element>(
        _ sql: String,
        _ arguments: Arguments = Arguments(),
        _ body: (Statement) throws -> Element
    ) throws -> [Element] {
        let statement = try cachedStatement(sql)
        try statement.bind(arguments)
        return try rows(of: statement, body)
    }

    /// Like `mapRows(_:_:_:)`, for a statement that is not run again: the statement stays out of the cache and displaces no other
    /// one.
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

    /// SQLite's schema version of a file. SQLite raises this number with every change of the schema, and with VACUUM.
    func schemaVersion(of schema: String = "main") throws -> Int64 {
        try fetchValue(Int64.self, "PRAGMA \(SQLIdentifier.quoted(schema)).schema_version") ?? 0
    }
}
