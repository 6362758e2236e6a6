internal import SQLText
internal import SQLiteConnection

/// The application's triggers that an INSERT into a table of the target fires.
enum InsertTriggers {
    /// The names of these triggers, without Midstream's own. TEMP triggers belong to one connection, and are not among them.
    static func names(on table: String, _ connection: Connection) throws -> [String] {
        try SchemaReader(connection: connection, schema: "main").triggers(on: table).filter { trigger in
            !OwnNames.isTrigger(trigger.name)
                && SQLScript(trigger.sql).outline().fires(trigger.sql, for: "insert")
        }.map(\.name)
    }

    /// If the table has such triggers, checks that the filter has said whether moving rows fire them. Without an answer, a
    /// full-text table that the triggers maintain would lack the rows or have them twice, unnoticed.
    ///
    /// - Throws: ``MigrationError``, `triggersUndecided`.
    static func check(_ wish: TableMigration, _ connection: Connection) throws {
        guard wish.firesTriggers == nil else { return }
        let names = try names(on: wish.name, connection)
        guard !names.isEmpty else { return }
        throw MigrationError(
            .triggersUndecided,
            "table \(wish.name) has triggers for INSERT (\(names.joined(separator: ", "))), and the filter has not said whether rows "
                + "that move fire them. Set firesTriggers = true to have each row fire them once as it comes, so that an index "
                + "or a full-text table which they keep gets the rows. Set firesTriggers = false to have rows come without them, "
                + "which is right where these tables have the rows already, for instance from the source. Nothing has been changed",
            table: wish.name
        )
    }
}

extension StatementOutline {
    /// Whether a CREATE TRIGGER is for a kind of statement: `insert`, `update` or `delete`.
    ///
    /// - Parameter sql: The text of the CREATE TRIGGER.
    func fires(_ sql: String, for event: String) -> Bool {
        let bytes = Array(sql.utf8)
        let end = onTable?.range.lowerBound ?? bytes.count
        return SQLTokenizer(sql).contains { token in
            token.range.upperBound <= end
                && SQLIdentifier.equal(String(decoding: bytes[token.range], as: UTF8.self), event)
        }
    }
}
