internal import SQLText
internal import SQLiteConnection

// The rowids by which a claim knows the rows of a table without an INTEGER PRIMARY KEY.
extension Claims {
    /// The smallest and the largest rowid of a table whose rows are known by a rowid that no column has. `nil` if the table is
    /// gone, or if the page of one of the two is damaged.
    func rowIDs(of record: TableRecord) throws -> RowIDs? { try tables(of: record).flatMap(rowIDs) }

    func rowIDs(_ tables: (source: TableSchema, target: TableSchema?)) throws -> RowIDs? {
        guard tables.target?.hasRowID ?? true else { return .unknown }
        return try rowIDs(of: tables.source)
    }

    /// The two tables of a move as they are now; `nil` if the source's table is gone.
    func tables(of record: TableRecord) throws -> (source: TableSchema, target: TableSchema?)? {
        guard let source = try SchemaReader(connection: connection, schema: migration.schema).table(record.source)
        else { return nil }
        return (source, try SchemaReader(connection: connection, schema: "main").table(record.target))
    }

    func rowIDs(of source: TableSchema) throws -> RowIDs? {
        // VACUUM does not change rowids that a column has.
        guard source.hasRowID, source.rowIDColumn == nil else { return .unknown }
        let (key, from) = (source.rowIDName ?? "rowid", "\(schema).\(SQLIdentifier.quoted(source.name))")
        do {
            // One statement reads both: it is prepared for each table whenever a connection is opened.
            let ends: [RowIDs] = try connection.mapRows(
                once: "SELECT (SELECT min(\(key)) FROM \(from)), (SELECT max(\(key)) FROM \(from))"
            ) { row in
                row.isNull(at: 0) ? RowIDs.none : RowIDs(first: row.int64(at: 0), last: row.int64(at: 1))
            }
            return ends.first ?? RowIDs.none
        } catch let error as SQLiteError where ResultCode.corrupt ~= error.code {
            return nil
        }
    }

    /// Keeps VACUUM out of the source's file, if that is not the target's file.
    var keptRowIDs: KeptRowIDs {
        KeptRowIDs(connection: connection, schema: schema, table: KeptRowIDs.claimed)
    }

    func forgetRowIDs(of record: TableRecord) throws {
        try keptRowIDs.forget(record.id)
        try keptRowIDs.dropUnneeded()
    }

    /// Whether Midstream identifies the source's rows by rowids that no column has.
    static func isKnownByImplicitRowID(_ tables: (source: TableSchema, target: TableSchema?)) -> Bool {
        tables.source.hasRowID && tables.source.rowIDColumn == nil && tables.target?.hasRowID ?? true
    }
}
