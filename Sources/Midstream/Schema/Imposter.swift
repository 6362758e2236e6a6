internal import SQLText
internal import SQLiteConnection

/// A second description of a table's b-tree, on one connection, which lets rows in that the table's own does not.
///
/// Source: <https://www.sqlite.org/imposter.html>. SQLite's own `rbu` writes indexes so.
struct Imposter {
    static let name = OwnNames.imposter
    let connection: Connection

    /// Runs `body` with the table of that name described as well by ``name``. Within a transaction, in which nothing else changes the
    /// schema.
    ///
    /// - Parameter create: The CREATE TABLE of that description.
    /// - Throws: `SQLiteError`, `READONLY`, where SQLite was built without it.
    func describing(_ table: String, _ create: String, _ body: () throws -> Void) throws {
        let root = try connection.rootPage(of: table)
        try connection.setImposter(schema: "main", isOn: true, root: root)
        defer { try? connection.setImposter(schema: "main", isOn: false, root: 1) }
        do {
            // SQLite makes no statement of it.
            try connection.execute(script: create)
        } catch {
            try connection.setImposter(schema: "main", isOn: false, root: 0)
            throw error
        }
        try connection.setImposter(schema: "main", isOn: false, root: 0)
        // Then it has made a table.
        let isTable = try connection.fetchOne("SELECT 1 FROM main.sqlite_master WHERE name = ?", [Self.name]) != nil
        if isTable { throw SQLiteError(code: .readOnly, message: "this SQLite was built without imposter tables") }
        try body()
    }
}

extension Connection {
    /// The root page of a table's or an index's b-tree, in the transaction that is open: VACUUM gives it others.
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
