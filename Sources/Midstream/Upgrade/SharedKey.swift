internal import SQLText
internal import SQLiteConnection

/// Rows that have the same terms in a unique index.
struct SharedKey {
    /// Two of these rows in words, if one value identifies a row.
    let rows: String?

    /// The name of the rowid or column that identifies a table's rows, if it is a single one.
    static func name(of table: TableSchema) -> String? {
        if table.hasRowID { return table.rowIDName }
        let columns = table.primaryKey.compactMap(\.column)
        return columns.count == 1 ? SQLIdentifier.quoted(table.columns[columns[0]].name) : nil
    }

    /// - Parameters:
    ///   - rows: The text that follows FROM.
    ///   - key: What identifies the rows; `nil` if the message does not name rows.
    /// - Returns: `nil` if no two rows have the same terms.
    /// - Complexity: O(n log n).
    static func rows(
        by index: IndexTerms,
        _ rows: String,
        key: String?,
        isRowID: Bool,
        _ connection: Connection
    ) throws -> SharedKey? {
        let terms = index.terms.joined(separator: ", ")
        let keys = key.map { "min(\($0)), max(\($0))" } ?? "1"
        let found = try connection.fetchOne(
            "SELECT \(keys) FROM \(rows) WHERE (\(index.condition ?? "1")\n) AND "
                + index.terms.map { "(\($0)\n) IS NOT NULL" }.joined(separator: " AND ")
                + " GROUP BY \(terms) HAVING count(*) > 1 LIMIT 1"
        )
        guard let found else { return nil }
        if key == nil { return SharedKey(rows: nil) }
        let words = found.values.map { (isRowID ? "rowid " : "key ") + SQLLiteral.text(of: $0, atMost: 100) }
        return SharedKey(rows: words.joined(separator: " and "))
    }

    /// The error's message about a new index.
    func message(of table: String, by index: String, _ terms: IndexTerms) -> String {
        "several rows of table \(table)\(rows.map { ", such as those with \($0)," } ?? "") would have equal values of "
            + "(\(terms.terms.joined(separator: ", "))), but index \(index) is unique: change or delete all but one"
    }
}

extension DatabaseAccess {
    /// The error of a CREATE UNIQUE INDEX, with the rows that are in its way.
    func collision(_ error: SQLiteError, of sql: String) throws -> any Error {
        let outline = SQLScript(sql).outline()
        let terms = IndexTerms(sql)
        guard ResultCode.constraint ~= error.code, outline.kind == .createIndex(unique: true),
            let index = outline.target?.name, let name = outline.onTable?.name,
            let table = try SchemaReader(connection: connection, schema: "main").table(name)
        else { return error }
        let shared = try SharedKey.rows(
            by: terms,
            "main.\(SQLIdentifier.quoted(table.name))",
            key: SharedKey.name(of: table),
            isRowID: table.hasRowID,
            connection
        )
        guard let shared else { return error }
        return MigrationError(
            .keyCollision,
            shared.message(of: table.name, by: index, terms),
            table: table.name,
            cause: error
        )
    }
}
