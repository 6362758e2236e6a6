internal import SQLText
internal import SQLiteConnection

/// A second description of a table's b-tree, on one connection, that accepts rows which the table's own description refuses.
///
/// Source: <https://www.sqlite.org/imposter.html>. SQLite's own `rbu` writes indexes in this way.
struct Imposter {
    static let name = OwnNames.imposter
    let connection: Connection

    /// Runs `body` while ``name`` describes the b-tree of `table` as well. Call it in a transaction in which nothing else changes
    /// the schema.
    ///
    /// - Parameter create: The CREATE TABLE of the second description.
    /// - Throws: `SQLiteError`, `READONLY`, if SQLite was built without imposter tables.
    func describing(_ table: String, _ create: String, _ body: () throws -> Void) throws {
        let root = try connection.rootPage(of: table)
        try connection.setImposter(schema: "main", isOn: true, root: root)
        defer { try? connection.setImposter(schema: "main", isOn: false, root: 1) }
        do {
            // For an imposter table, SQLite makes no statement of the CREATE TABLE.
            try connection.execute(script: create)
        } catch {
            try connection.setImposter(schema: "main", isOn: false, root: 0)
            throw error
        }
        try connection.setImposter(schema: "main", isOn: false, root: 0)
        // A SQLite without imposter tables has created an ordinary table instead.
        let isTable = try connection.fetchOne("SELECT 1 FROM main.sqlite_master WHERE name = ?", [Self.name]) != nil
        if isTable { throw SQLiteError(code: .readOnly, message: "this SQLite was built without imposter tables") }
        try body()
    }
}

extension Connection {
    /// The root page of the b-tree of a table or an index. Valid within the open transaction: VACUUM changes root pages.
    func rootPage(of name: String) throws -> Int64 {
        let page: Int64? = try fetchValue(
            "SELECT rootpage FROM main.sqlite_master WHERE name = ? COLLATE NOCASE AND type IN ('table', 'index')",
            [name]
        )
        guard let page, page > 0 else {
            throw SQLiteError(code: .corrupt, message: "\(name) has no root page")
        }
        return page
    }
}
