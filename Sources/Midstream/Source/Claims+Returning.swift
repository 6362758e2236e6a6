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

    /// Whether claims say how far rows have returned. Those that earlier releases made did not before a row returned.
    static func hasUndoStage(_ definition: String) -> Bool { definition.contains("undo_stage") }

    /// Makes sure that this target is the very one whose rows have returned, and not from before that: those are in the
    /// source alone, and may be written in the original.
    ///
    /// The target's stage is on the disk before the claim has its number, so where the claim is read first, only another
    /// target has a smaller one. In a transaction that has read the target before, it is so as well: while a snapshot is in use
    /// that is from before a stage, this stage does not write the source.
    func checkStage(_ claim: Claim, _ record: TableRecord) throws {
        // Where the table's state has gone, another process has ended its move.
        guard let stage = claim.undoStage, let now = try StateStore(connection: connection).table(record.id) else {
            return
        }
        guard let own = now.undoStage, own >= stage else {
            throw MigrationError(
                .foreignState,
                "since this state of the database, rows of table \(record.target) have returned to source table "
                    + "\(record.source): it was restored from a backup, or is a copy. Open \(claim.targetFile) as it was last, or "
                    + "restore it and the source together",
                table: record.target
            )
        }
        try checkOwner(claim)
    }

    /// Notes, in the transaction that has written the source's table, the stage that has done so, and for all who have a
    /// claim to the table which rowids are the smallest and the largest now.
    func renew(_ record: TableRecord) throws {
        guard !isSameFile else { return }
        if let definition = try Self.definition(in: schema, connection), !Self.hasUndoStage(definition) {
            try connection.execute("ALTER TABLE \(table) ADD COLUMN undo_stage INTEGER")
        }
        try connection.execute("UPDATE \(table) SET undo_stage = ?1 WHERE id = ?2", [record.undoStage, record.id])
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
