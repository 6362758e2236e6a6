internal import SQLText
public import SQLiteConnection

extension DatabaseAccess {
    /// Runs `body` with a handle on one value of `main`, to read and write parts of it without the whole being in memory.
    ///
    ///     try database.write { db in
    ///         try db.execute("INSERT INTO files(id, content) VALUES (7, zeroblob(50000000))")
    ///         try db.withBlob(table: "files", column: "content", rowID: 7, isWritable: true) { blob in
    ///             for (offset, piece) in pieces { try blob.write(piece, at: offset) }
    ///         }
    ///     }
    ///
    /// Of a table that moves, a row that has yet to move is read where it is, and comes over before it is written: a handle that
    /// reads it goes with it. Outside transactions, `body` is one of its own.
    ///
    /// - Parameters:
    ///   - table: A table with rowids.
    ///   - column: Its column. To be written it must be in no index and no foreign key.
    ///   - rowID: The row.
    ///   - isWritable: Whether it may be written.
    ///   - body: Must not keep the handle, and not write the row by statements: that expires it.
    /// - Throws: ``/SQLiteConnection/SQLiteError`` when there is no such row, or its value is a number or NULL;
    ///   ``MigrationError`` when a column that is converted while it moves is read by a connection that cannot write.
    public func withBlob<Result>(
        table: String,
        column: String,
        rowID: Int64,
        isWritable: Bool = false,
        _ body: (Blob) throws -> Result
    ) throws -> Result {
        // As for a statement, the overlay must fit the snapshot, and steps must be kept out.
        guard connection.isInTransaction || connection.isAmidWrite else {
            return try withTransaction {
                try $0.withBlob(table: table, column: column, rowID: rowID, isWritable: isWritable, body)
            }
        }
        if !connection.isInTransaction, try !overlay.isCurrent() { try refreshOverlay() }
        try beginInEarnest()
        if overlay.isSuspended { try overlay.resume() }
        // SQLite rolls back a transaction in which it could not read or write a page for the handle.
        return try notingLosses {
            try connection.withBlob(
                rowID: rowID,
                isWritable: isWritable,
                locatedBy: { [self] rowID, blob in try locate(blob, table, column, rowID, isWritable: isWritable) },
                body
            )
        }
    }

    /// Where the value is, in a row that comes over if it must.
    private func locate(
        _ blob: Blob,
        _ table: String,
        _ column: String,
        _ rowID: Int64,
        isWritable: Bool
    ) throws -> BlobPlace {
        let target = BlobPlace(table: table, column: column)
        let feeds = overlay.table(named: table)?.feeds ?? []
        overlay.statements.blobs.forget(blob)
        if let first = feeds.first, first.key.isRowID, first.target.columnIndex(column) != nil {
            overlay.forgetState()
            for feed in feeds where try feed.isPending(.rowID(rowID)) {
                if !isWritable, let place = feed.place(ofColumn: column) {
                    overlay.statements.blobs.note(blob, rowID, of: feed.id, target)
                    return place
                }
                guard feed.statements.canPromote else {
                    throw MigrationError(
                        .refusedStatement,
                        "column \(column) of table \(table) is converted while it moves: open the blob in a write block, or "
                            + "read it by a statement",
                        table: table
                    )
                }
                try protected { try overlay.unnoticed { try feed.promoteIfPending(.rowID(rowID), feed.state()) } }
            }
        }
        if isWritable, !blob.isAt(target, rowID) { try checkFence(of: table, column, rowID) }
        return target
    }

    /// A source refuses writes by triggers, which SQLite does not fire for parts of values.
    private func checkFence(of table: String, _ column: String, _ rowID: Int64) throws {
        if try Claims.fences(of: table, in: "main", connection).isEmpty { return }
        let name = SQLIdentifier.quoted(column)
        try execute(
            "UPDATE main.\(SQLIdentifier.quoted(table)) SET \(name) = \(name) WHERE rowid = ?",
            [rowID]
        )
    }
}

extension MovingTable {
    /// The source's column that has the values of one of the target's unchanged, in the row of the same rowid.
    fileprivate func place(ofColumn name: String) -> BlobPlace? {
        guard let column = target.columnIndex(name), let plain = sql.columns[column].plain, source.hasRowID,
            key.source[0] == source.rowIDName
        else { return nil }
        return BlobPlace(schema: sourceSchema, table: source.name, column: source.columns[plain].name)
    }
}
