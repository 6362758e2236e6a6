internal import SQLText
internal import SQLiteConnection

// The claims on a source to which rows return.
extension Claims {
    /// The smallest and the largest rowid of a table.
    struct RowIDs: Equatable {
        var first: Int64?
        var last: Int64?

        /// The rows are not known by their rowids.
        static let unknown = RowIDs()
        /// The table has no rows.
        static let none = RowIDs(first: .max, last: .min)
    }

    /// Checks that the target and the source are of the same time: rows that have returned are in the source alone.
    ///
    /// - The target is the one whose rows have returned, in a state from after their return. Its stage is on the disk before the
    ///   claim has the stage's number. A stage does not write the source while a reader has a snapshot from before the stage.
    /// - The source has all rows that the target has forgotten: before the target forgot them, they were on the source's disk, and
    ///   counted.
    ///
    /// - Parameter now: The target's record of the table, from a snapshot that is not newer than the claim.
    func checkStage(_ claim: Claim, _ now: TableRecord?) throws {
        // If the record is gone, another process has ended the move.
        guard let now else { return }
        if let stage = claim.undoStage {
            guard let own = now.undoStage, own >= stage else {
                throw MigrationError(
                    .foreignState,
                    "this file is older than its source: since it was saved, rows of table \(now.target) have returned "
                        + "to source table \(now.source). It was restored from a backup, or is a copy. Open the latest "
                        + "\(claim.targetFile), or restore it together with the source",
                    table: now.target
                )
            }
        }
        guard try claim.undoWrites ?? 0 >= Returns(connection: connection).writes(of: now) else {
            throw MigrationError(
                .foreignState,
                "rows of table \(now.target) had returned to source table \(now.source), but that table does not have "
                    + "them: \(connection.fileName(schema: migration.schema) ?? "the source") was restored from a "
                    + "backup. Restore its latest state, or restore it together with the target",
                table: now.target
            )
        }
        if claim.undoStage != nil { try checkOwner(claim) }
    }

    /// Notes the stage that has written the source's table, and the table's smallest and largest rowid, for all claims on the
    /// table. Call it in the transaction that wrote the table.
    func renew(_ record: TableRecord) throws {
        guard !isSameFile else { return }
        try connection.execute(
            "UPDATE \(table) SET undo_stage = ?1, undo_writes = ifnull(undo_writes, 0) + 1 WHERE id = ?2",
            [record.undoStage, record.id]
        )
        guard let source = try SchemaReader(connection: connection, schema: migration.schema).table(record.source),
            let own = try rowIDs(of: record), let now = try rowIDs(of: source)
        else { return }
        try connection.execute(
            "UPDATE \(table) SET first_rowid = ?1, last_rowid = ?2 WHERE id = ?3",
            [own.first, own.last, record.id]
        )
        // The rows of the other targets have stayed where they are.
        try connection.execute(
            "UPDATE \(table) SET first_rowid = ?1, last_rowid = ?2 WHERE source_table = ?3 COLLATE NOCASE "
                + "AND id <> ?4 AND first_rowid IS NOT NULL",
            [now.first, now.last, record.source, record.id]
        )
    }

    /// Notes the state of the source in the target: the source has the rows that the target forgets. Call it in the transaction
    /// that forgets them.
    func noteReturn(_ record: TableRecord) throws {
        guard !isSameFile, let claim = try Self.all(in: migration.schema, connection, only: record.id).first else {
            return
        }
        try Returns(connection: connection).note(claim.undoWrites ?? 0, of: record)
    }

    /// The conditions by which other targets take rows from this table's source.
    func otherConditions(_ record: TableRecord) throws -> [String] {
        let claims =
            isSameFile
            ? try StateStore(connection: connection).load().tables.filter {
                $0.migration == migration.id && $0.phase != .done
            }.map(claim) + movedHere()
            : try all()
        return claims.filter { $0.id != record.id && SQLIdentifier.equal($0.sourceTable, record.source) }
            .map { $0.condition ?? "1" }
    }
}
