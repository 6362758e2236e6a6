internal import SQLText
internal import SQLiteConnection

extension Rebuild {
    /// Makes sure that no two rows have equal terms in a partial unique index, or in a unique index with expressions.
    /// Otherwise such rows would be refused when they move, and with them every write.
    ///
    /// - Complexity: O(1) if the former shape has the same index, otherwise O(n log n).
    func checkOtherKeys(_ columns: [ColumnRecord], from backup: TableSchema, to new: TableSchema) throws {
        let mapped = MappedColumns(target: new, source: backup, records: columns)
        let formerIndexes = try definitions(of: backup.name).values
        for (name, definition) in try definitions(of: new.name) {
            guard let index = new.indexes.first(where: { SQLIdentifier.equal($0.name, name) }), index.isUnique,
                !index.isPlain
            else {
                continue
            }
            let names = ExpressionShape.names(in: definition.text)
            let used = new.columns.indices.filter { names.contains(SQLIdentifier.lowercased(new.columns[$0].name)) }
            // A row that the target does not take is reported when it moves.
            if used.contains(where: { MappedColumns.isTruthName(new.columns[$0].name) }) { continue }
            let isSame = used.allSatisfy { column in
                mapped[column].plain.map { SQLIdentifier.equal(backup.columns[$0].name, new.columns[column].name) }
                    ?? false
            }
            if isSame, formerIndexes.contains(where: { $0.isUnique && $0.text.hasSameBytes(as: definition.text) }) {
                continue
            }
            let rows = new.columns.indices.map {
                "\(mapped[$0].operand) AS \(SQLIdentifier.quoted(new.columns[$0].name))"
            }
            let key = SharedKey.name(of: backup)
            let keys = key.map { ["\($0) AS midstream_key"] } ?? []
            let shared = try SharedKey.rows(
                by: definition,
                "(SELECT \((keys + rows).joined(separator: ", ")) FROM main.\(SQLIdentifier.quoted(backup.name))) AS "
                    + SQLIdentifier.quoted(new.name),
                key: key == nil ? nil : "midstream_key",
                isRowID: backup.hasRowID,
                connection
            )
            guard let shared else { continue }
            throw refuse(.keyCollision, shared.message(of: new.name, by: name, definition))
        }
    }

    /// The terms of a table's indexes, by the indexes' names.
    private func definitions(of table: String) throws -> [String: IndexTerms] {
        let rows = try connection.fetchAll(
            "SELECT name, sql FROM main.sqlite_master WHERE type = 'index' AND tbl_name = ? COLLATE NOCASE AND sql NOT NULL",
            [table]
        )
        return Dictionary(try rows.map { (try $0.get(0), IndexTerms(try $0.get(1))) }) { first, _ in first }
    }
}
