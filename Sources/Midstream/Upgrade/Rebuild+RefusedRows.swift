internal import SQLText
internal import SQLiteConnection

// Finds the rows that a table's new shape does not take. SQLite's message names a column at most.
extension Rebuild {
    private static let note = "midstream_note"

    /// SQLite's error with a message that names the row at which a copy has failed. If values must be unique, the
    /// message also names the other row that has the same values.
    ///
    /// - Parameter insert: The statement that has failed. It has no WHERE.
    /// - Complexity: O(rows), since the copy is tried once more, up to the row that fails.
    func namingRows(
        _ error: SQLiteError,
        of insert: String,
        _ mapped: MappedColumns,
        from backup: TableSchema,
        to new: TableSchema
    ) -> SQLiteError {
        guard let key = try? key(thatFails: insert, backup) else { return error }
        let row = "the row with \(words(key, backup)) of table \(new.name)"
        var reason =
            "does not fit the table's new shape. Nothing has been changed: change or delete the row, and try again"
        if let other = try? other(than: key, mapped, backup, new) {
            reason =
                "and the one with \(words(other, backup)) would have the same values there. Nothing has been changed: change or "
                + "delete one of the two, and try again"
        }
        return SQLiteError(code: error.code, message: "\(error.message): \(row) \(reason)", sql: error.sql)
    }

    private final class LastKey {
        var values: [SQLiteValue]?
    }

    private func keyColumns(_ table: TableSchema) -> [String] {
        if table.hasRowID { return [table.rowIDName ?? "rowid"] }
        return table.primaryKey.compactMap(\.column).map { SQLIdentifier.quoted(table.columns[$0].name) }
    }

    private func words(_ key: [SQLiteValue], _ table: TableSchema) -> String {
        if table.hasRowID, case .integer(let rowID)? = key.first { return "rowid \(rowID)" }
        return "key \(RowKey.text(key))"
    }

    /// Finds the row at which a copy fails. SQLite inserts each row before it reads the next, so it is the row that was
    /// read last.
    private func key(thatFails insert: String, _ backup: TableSchema) throws -> [SQLiteValue]? {
        let names = keyColumns(backup)
        let last = LastKey()
        try connection.createFunction(Self.note, argumentCount: names.count) { arguments, result in
            last.values = (0..<arguments.count).map { arguments[$0].value }
            result.set(1 as Int64)
        }
        do {
            try connection.execute("\(insert) WHERE \(Self.note)(\(names.joined(separator: ", ")))")
            return nil
        } catch {
            guard Self.isOfRow(error) else { throw error }
            return last.values
        }
    }

    /// Whether an INSERT has failed because of one row.
    static func isOfRow(_ error: SQLiteError) -> Bool {
        ResultCode.constraint ~= error.code || ResultCode.mismatch ~= error.code
    }

    /// Another row that has the same values where values must be unique.
    private func other(
        than key: [SQLiteValue],
        _ mapped: MappedColumns,
        _ backup: TableSchema,
        _ new: TableSchema
    ) throws -> [SQLiteValue]? {
        var keys: [[UniqueTerm]] = []
        for index in new.uniqueIndexes where index.isPlain {
            let columns = index.terms.filter { $0.column ?? -1 >= 0 }
            keys.append(columns.map { UniqueTerm(value: mapped[$0.column ?? 0].value, collation: $0.collation) })
        }
        // An INTEGER PRIMARY KEY has no index of its own.
        if let column = new.rowIDColumn { keys.append([UniqueTerm(value: mapped[column].value, collation: "BINARY")]) }
        for terms in keys where !terms.isEmpty {
            let row = try connection.fetchOne(search(terms, backup), Arguments(values: key))
            if let row { return row.values }
        }
        return nil
    }

    /// A term of a unique key: its value in a row of the former shape.
    private struct UniqueTerm {
        let value: String
        let collation: String
    }

    /// SQL that finds another row with the same terms as a given row. The parameters are the key of the given row.
    private func search(_ terms: [UniqueTerm], _ backup: TableSchema) -> String {
        let names = keyColumns(backup)
        let source = "main." + SQLIdentifier.quoted(backup.name)
        var (isThis, isThat, values, areEqual): ([String], [String], [String], [String]) = ([], [], [], [])
        for (offset, name) in names.enumerated() {
            isThis.append("\(name) IS ?\(offset + 1)")
            isThat.append("that.\(name) IS ?\(offset + 1)")
        }
        for (offset, term) in terms.enumerated() {
            values.append("\(term.value) AS midstream_v\(offset)")
            areEqual.append("\(term.value) = this.midstream_v\(offset) COLLATE \(SQLIdentifier.quoted(term.collation))")
        }
        return "SELECT \(KeySQL.list(names.map { "that." + $0 })) FROM \(source) AS that, "
            + "(SELECT \(KeySQL.list(values)) FROM \(source) WHERE \(isThis.joined(separator: " AND "))) AS this "
            + "WHERE NOT (\(isThat.joined(separator: " AND "))) AND \(areEqual.joined(separator: " AND ")) LIMIT 1"
    }
}
