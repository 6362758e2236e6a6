internal import SQLText
internal import SQLiteConnection

/// The application's triggers that an INSERT into a table of the target fires.
enum InsertTriggers {
    /// Their names, but for those of Midstream's own. TEMP triggers belong to one connection, and are not among them.
    static func names(on table: String, _ connection: Connection) throws -> [String] {
        try triggers(on: table, connection).compactMap { name, sql in
            if OwnNames.isTrigger(name) { return nil }
            return TriggerTexts.fires(SQLScript(sql).outline(), sql, for: "insert") ? name : nil
        }
    }

    private static func triggers(on table: String, _ connection: Connection) throws -> [(name: String, sql: String)] {
        if let known = try connection.knownSchema("main") {
            return known.objects(of: table).filter { $0.type == "trigger" }.map { ($0.name, $0.sql ?? "") }
        }
        return try connection.fetchAll(
            "SELECT name, sql FROM main.sqlite_master WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE ORDER BY rowid",
            [table]
        ).map { (try $0.get(0), try $0.get(1)) }
    }

    /// Makes sure that the filter has said whether rows which move fire the triggers, where there are some: without that, a
    /// full-text table that they keep would lack the rows, or have them twice, and nothing would tell.
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
