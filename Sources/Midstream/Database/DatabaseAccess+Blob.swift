internal import SQLText
public import SQLiteConnection

extension DatabaseAccess {
    /// Runs `body` with a handle on one value of `main`, which reads and writes parts of the value without holding all
    /// of it in memory.
    ///
    ///     try database.write { db in
    ///         try db.execute("INSERT INTO files(id, content) VALUES (7, zeroblob(50000000))")
    ///         try db.withBlob(table: "files", column: "content", rowID: 7, isWritable: true) { blob in
    ///             for (offset, piece) in pieces { try blob.write(piece, at: offset) }
    ///         }
    ///     }
    ///
    /// In a moving table, a pending row is read in the source, and is promoted before it is written. A handle that
    /// reads the row goes with it. Outside transactions, `body` runs in a transaction of its own.
    ///
    /// - Parameters:
    ///   - table: A table with rowids.
    ///   - column: The table's column. If it is to be written, it must be in no index and no foreign key.
    ///   - rowID: The rowid of the row.
    ///   - isWritable: Whether the value may be written.
    ///   - body: Gets the handle. It must not keep the handle, and must not write the row by statements: that expires
    ///     the handle.
    /// - Throws: ``/SQLiteConnection/SQLiteError`` if there is no such row, or its value is a number or NULL;
    ///   ``MigrationError`` if the column is converted while it moves, and the connection that reads it cannot write.
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
        // SQLite rolls back the transaction if it could not read or write a page for the handle.
        return try notingLosses {
            try connection.withBlob(
                rowID: rowID,
                isWritable: isWritable,
                locatedBy: { [self] rowID, blob in try locate(blob, table, column, rowID, isWritable: isWritable) },
                body
            )
        }
    }

    /// Where the value is. A pending row is promoted first if its value cannot be used where it is.
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
                        "column \(column) of table \(table) is converted while it moves: open the blob in a write "
                            + "block, or read the value by a statement",
                        table: table
                    )
                }
                try protected { try overlay.unnoticed { try feed.promoteIfPending(.rowID(rowID), feed.state()) } }
            }
        }
        if isWritable, !blob.isAt(target, rowID) { try checkFence(of: table, column, rowID) }
        return target
    }

    /// Makes a source table refuse a write by a blob handle. A source refuses writes by triggers, and SQLite does not
    /// fire triggers for parts of values, so this runs an UPDATE that changes nothing.
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
    /// The source's column that holds the values of a target column unchanged, in the row of the same rowid; `nil` if
    /// there is none.
    fileprivate func place(ofColumn name: String) -> BlobPlace? {
        guard let column = target.columnIndex(name), let plain = sql.columns[column].plain, source.hasRowID,
            key.source[0] == source.rowIDName
        else { return nil }
        return BlobPlace(schema: sourceSchema, table: source.name, column: source.columns[plain].name)
    }
}
