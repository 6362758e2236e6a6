internal import SQLText
internal import SQLiteConnection

// Claims on a source that rows return to.
extension Claims {
    /// The smallest and the largest rowid of a table.
    struct RowIDs: Equatable {
        var first: Int64?
        var last: Int64?

        /// Rows are not known by their rowids.
        static let unknown = RowIDs()
        /// There are no rows.
        static let none = RowIDs(first: .max, last: .min)

        var isEmpty: Bool { self == .none }
    }

    /// Notes, in the transaction that has written the source's table, for all who have a claim to it which rowids are the
    /// smallest and the largest now.
    func renew(_ record: TableRecord) throws {
        guard !isSameFile else { return }
        guard let source = try SchemaReader(connection: connection, schema: migration.schema).table(record.source),
            let own = try rowIDs(of: record), let now = try rowIDs(of: source)
        else { return }
        try connection.execute(
            "UPDATE \(table) SET first_rowid = ?1, last_rowid = ?2 WHERE id = ?3",
            [own.first, own.last, record.id]
        )
        // The other targets' rows have stayed where they are.
        try connection.execute(
            "UPDATE \(table) SET first_rowid = ?1, last_rowid = ?2 WHERE source_table = ?3 COLLATE NOCASE "
                + "AND id <> ?4 AND first_rowid IS NOT NULL",
            [now.first, now.last, record.source, record.id]
        )
    }

    /// The conditions under which other tables take rows from the source of this one.
    func otherConditions(_ record: TableRecord) throws -> [String] {
        let claims =
            isSameFile
            ? try StateStore(connection: connection).load().tables.filter { $0.migration == migration.id }.map(claim)
            : try all()
        return claims.filter { $0.id != record.id && SQLIdentifier.equal($0.sourceTable, record.source) }
            .map { $0.condition ?? "1" }
    }
}
