internal import SQLiteConnection

extension Connection {
    /// What `body` makes of each row of one statement's result. Nothing is kept of a row but that.
    func mapRows<Element>(
        _ sql: String,
        _ arguments: Arguments = Arguments(),
        _ body: (Statement) throws -> Element
    ) throws -> [Element] {
        let statement = try cachedStatement(sql)
        defer { statement.reset() }
        try statement.bind(arguments)
        var elements: [Element] = []
        while try statement.step() { elements.append(try body(statement)) }
        try statement.checkValuesRead()
        return elements
    }
}
