internal import SQLText
internal import SQLiteConnection

// By which rowids a claim knows the rows of a table without a key of its own.
extension Claims {
    /// The smallest and the largest rowid of a table, where its rows are known by that and no column has it; nothing when it is gone,
    /// or the page that one of them is on is damaged.
    func rowIDs(of record: TableRecord) throws -> RowIDs? { try tables(of: record).flatMap(rowIDs) }

    func rowIDs(_ tables: (source: TableSchema, target: TableSchema?)) throws -> RowIDs? {
        guard tables.target?.hasRowID ?? true else { return .unknown }
        return try rowIDs(of: tables.source)
    }

    /// The tables of a move as they are; `nil` where the source's is gone.
    func tables(of record: TableRecord) throws -> (source: TableSchema, target: TableSchema?)? {
        guard let source = try SchemaReader(connection: connection, schema: migration.schema).table(record.source)
        else { return nil }
        return (source, try SchemaReader(connection: connection, schema: "main").table(record.target))
    }

    func rowIDs(of source: TableSchema) throws -> RowIDs? {
        // No VACUUM changes those that a column has.
        guard source.hasRowID, source.rowIDColumn == nil else { return .unknown }
        let (key, from) = (source.rowIDName ?? "rowid", "\(schema).\(SQLIdentifier.quoted(source.name))")
        do {
            // Both in one statement: it is prepared for each table of a connection that is opened.
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

    /// Keeps VACUUM out of the source's file, where that is another than the target's.
    var keptRowIDs: KeptRowIDs {
        KeptRowIDs(connection: connection, schema: schema, table: KeptRowIDs.claimed)
    }

    func forgetRowIDs(of record: TableRecord) throws {
        try keptRowIDs.forget(record.id)
        try keptRowIDs.dropUnneeded()
    }

    /// Whether the engine tells the source's rows by rowids that are no column's.
    static func isKnownByImplicitRowID(_ tables: (source: TableSchema, target: TableSchema?)) -> Bool {
        tables.source.hasRowID && tables.source.rowIDColumn == nil && tables.target?.hasRowID ?? true
    }
}
