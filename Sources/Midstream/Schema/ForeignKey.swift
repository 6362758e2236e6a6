internal import SQLText
internal import SQLiteConnection

/// A foreign key of a table, as the table's definition declares it.
struct ForeignKey: Hashable {
    /// The table that has the key, and the table that the key refers to.
    let child: String
    let parent: String
    /// The columns of the child.
    let columns: [String]
    /// The columns of the parent. Empty if the definition names none, which means the PRIMARY KEY.
    let parentColumns: [String]
    /// Whether the key deletes or changes the children of a row that is deleted.
    let actsOnDelete: Bool
    /// Whether the key changes the children of a row whose key changes.
    let actsOnUpdate: Bool

    /// The places of the parent's columns. `nil` if these columns are not a key of the parent: SQLite then refuses writes ("foreign
    /// key mismatch").
    ///
    /// Source: <https://www.sqlite.org/foreignkeys.html#fk_indexes>.
    func places(in parent: TableSchema) -> [Int]? {
        if parentColumns.isEmpty {
            if let column = parent.rowIDColumn { return columns.count == 1 ? [column] : nil }
            let terms = parent.indexes.first(where: \.isPrimaryKey)?.terms ?? parent.primaryKey
            let places = terms.compactMap(\.column)
            return places.count == columns.count ? places : nil
        }
        let places = parentColumns.compactMap(parent.columnIndex)
        guard places.count == columns.count, parentColumns.count == columns.count else { return nil }
        if let column = parent.rowIDColumn, places == [column] { return places }
        let isKey = parent.uniqueIndexes.contains { index in
            index.isPlain && index.terms.count == places.count
                && Set(index.terms.compactMap(\.column)) == Set(places)
                && index.terms.allSatisfy { term in
                    guard let column = term.column, column >= 0 else { return false }
                    return SQLIdentifier.equal(term.collation, parent.columns[column].collation)
                }
        }
        return isKey && Set(places).count == places.count ? places : nil
    }
}

extension SchemaReader {
    /// The foreign keys of a table.
    func foreignKeys(of name: String) throws -> [ForeignKey] {
        let rows = try connection.fetchAll(
            "PRAGMA \(SQLIdentifier.quoted(schema)).foreign_key_list(\(SQLIdentifier.quoted(name)))"
        )
        return try Dictionary(grouping: rows) { try $0.get("id", as: Int64.self) }.sorted { $0.key < $1.key }.map {
            _,
            rows in
            let rows = try rows.sorted { try $0.get("seq", as: Int64.self) < $1.get("seq", as: Int64.self) }
            return ForeignKey(
                child: name,
                parent: try rows[0].get("table"),
                columns: try rows.map { try $0.get("from") },
                parentColumns: try rows.compactMap { $0["to"] == .null ? nil : try $0.get("to") },
                actsOnDelete: !["NO ACTION", "RESTRICT"].contains(try rows[0].get("on_delete", as: String.self)),
                actsOnUpdate: !["NO ACTION", "RESTRICT"].contains(try rows[0].get("on_update", as: String.self))
            )
        }
    }
}
