internal import SQLText
internal import SQLiteConnection

// Pragmas, and functions that answer as pragmas do.
extension Router {
    /// Whether a pragma would describe the union table, or a table or index of an attached source.
    private func describesOther(_ outline: StatementOutline) throws -> Bool {
        try mentionsMovingTable(outline) || describesSource(outline)
    }

    /// Whether a pragma names a table or an index that only an attached source has.
    private func describesSource(_ outline: StatementOutline) throws -> Bool {
        guard let argument = outline.arguments else { return false }
        let name = SQLIdentifier.unquoted(outline.text(argument))
        return try overlay.strayTable(among: [name]) != nil
    }

    /// Whether REINDEX would find a table or an index of that name, and not a collation.
    func isInTarget(_ name: String) throws -> Bool {
        if ["binary", "nocase", "rtrim"].contains(lower(name)) { return false }
        let sql =
            "SELECT 1 FROM main.sqlite_master WHERE name = ?1 COLLATE NOCASE "
            + "UNION ALL SELECT 1 FROM sqlite_temp_master WHERE name = ?1 COLLATE NOCASE"
        return try overlay.connection.fetchValue(Int64.self, sql, [name]) != nil
    }

    /// Pragmas that may name a table or an index.
    private static let pragmasOfTables = DescribingFunctions.pragmas.union([
        "integrity_check", "quick_check", "table_list",
    ])

    /// Pragmas that apply to all attached files if they name no schema.
    private static let pragmasOfAllFiles: Set<String> = [
        "optimize", "wal_checkpoint", "journal_mode", "journal_size_limit", "locking_mode",
    ]

    func pragma(_ outline: StatementOutline, _ text: String, _ route: Route) throws -> Route {
        guard let target = outline.target else { return route }
        var route = route
        let name = lower(target.name)
        if Self.pragmasOfTables.contains(name), target.schema == nil, try describesOther(outline) {
            return inMain(target, route, outline, text)
        }
        // Without a schema, the pragma would also apply to the sources, which are attached, and only for reading.
        if Self.pragmasOfAllFiles.contains(name), target.schema == nil {
            return inMain(target, route, outline, text)
        }
        if name == "foreign_key_check" {
            route.drain(allTables, .foreignKeyCheck)
            guard target.schema == nil, try describesSource(outline) else { return route }
            return inMain(target, route, outline, text)
        }
        if ["temp_store", "temp_store_directory", "foreign_keys", "writable_schema"].contains(name) {
            route.unsettlesOverlay = true
        }
        return route
    }
}
