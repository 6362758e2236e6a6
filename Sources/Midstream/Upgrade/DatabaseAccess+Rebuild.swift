internal import SQLText
internal import SQLiteConnection

extension DatabaseAccess {
    /// Gives a table another shape. The new shape is read and written at once, while the rows move into it in steps.
    ///
    ///     try database.write { access in
    ///         try access.rebuild("messages") { table in
    ///             table.schema = "CREATE TABLE messages(id INTEGER PRIMARY KEY, body TEXT NOT NULL, sent REAL)"
    ///             table.columns["sent"] = .column("date")
    ///         }
    ///     }
    ///     database.startAutoMigration()
    ///
    /// Columns of equal name are taken over; other columns are mapped as in a migration. Indexes and triggers of the
    /// table are made anew. Views, and the triggers and foreign keys of other tables, go on naming the table, as after
    /// the rebuild that SQLite's manual describes. Within the transaction the table already has its new shape. A table
    /// whose rows are still moving can be rebuilt again.
    ///
    /// A small table is copied at once, and so is a table whose rows cannot move into the new shape in steps.
    ///
    /// Source: <https://www.sqlite.org/lang_altertable.html>.
    ///
    /// - Parameters:
    ///   - table: The table's name.
    ///   - change: Says what the table becomes. It may read the database.
    /// - Returns: How the rows come into the new shape.
    /// - Throws: ``MigrationError`` if columns that only one of the two shapes has are not accounted for, or outside a
    ///   `write` block; ``/SQLiteConnection/SQLiteError`` if a definition does not compile, or if rows that are copied
    ///   at once do not fit. Nothing has been changed then.
    /// - Complexity: O(1) in rows if they move in steps, O(n log n) if there is a unique index that the present shape
    ///   lacks, O(n) if they are copied.
    @discardableResult
    public func rebuild(_ table: String, _ change: (inout TableRebuild) throws -> Void) throws -> RebuiltTable {
        guard kind == .writer, isInBlock else {
            throw MigrationError(.misuse, "a table can only be rebuilt in a write block", table: table)
        }
        try beginInEarnest()
        let reader = SchemaReader(connection: connection, schema: "main")
        guard let old = try reader.table(table), !OwnNames.isTable(old.name) else {
            throw MigrationError(.missingTable, "there is no table \(table) to rebuild", table: table)
        }
        try LegibleSchema.checkTexts(
            connection,
            in: "main",
            where: "tbl_name = ?1 COLLATE NOCASE",
            [old.name],
            table: old.name
        )
        let objects = try SchemaImage.objects(connection, of: old.name)
        var wish = TableRebuild(
            name: old.name,
            schema: old.sql,
            indexes: objects.filter { $0.type == .index }.map(\.sql),
            triggers: objects.filter { $0.type == .trigger }.map(\.sql)
        )
        try change(&wish)
        try check(wish, old)
        // An earlier statement of the block may have had the overlay taken down. The sources are known through the
        // overlay.
        if overlay.isSuspended { try overlay.resume() }
        for feed in overlay.table(named: old.name)?.feeds ?? [] { try feed.knownSource.confirmWhole() }
        let rebuild = Rebuild(connection: connection, statements: overlay.statements, wish: wish, old: old)
        let rebuilt = try notingLosses {
            try withoutForeignKeys {
                try overlay.suspended { try connection.savepoint("midstream_rebuild") { try rebuild.run() } }
            }
        }
        self.rebuilt?.append(rebuilt)
        return rebuilt
    }

    private func check(_ wish: TableRebuild, _ old: TableSchema) throws {
        func refuse(_ code: MigrationError.Code, _ message: String) -> MigrationError {
            MigrationError(code, message, table: old.name)
        }
        guard let schema = CreateTable(wish.schema), SQLIdentifier.equal(schema.name, old.name), !schema.isTemporary
        else {
            throw refuse(.misuse, "the new shape of table \(old.name) must be a CREATE TABLE with its name and columns")
        }
        try LegibleSchema.checkNames(
            schema.columns.map(\.name),
            besides: old.columns.map(\.name),
            "columns",
            table: old.name
        )
        for (texts, isKind) in [(wish.indexes, Self.isIndex), (wish.triggers, Self.isTrigger)] {
            for text in texts {
                let statements = SQLScript(text).filter { $0.kind != .empty }
                guard statements.count == 1, isKind(statements[0].kind),
                    let owner = statements[0].onTable, SQLIdentifier.equal(owner.name, old.name)
                else {
                    throw refuse(
                        .misuse,
                        "this statement does not create an index or trigger of table \(old.name), which is being "
                            + "rebuilt: \(text)"
                    )
                }
            }
        }
        if wish.refusedRows.stored.asks {
            throw refuse(
                .misuse,
                "refusedRows = .ask is not available for a rebuild: use .stop or .setAside"
            )
        }
        if connection.hasBusyStatement {
            throw refuse(.misuse, "table \(old.name) cannot be rebuilt while another statement runs")
        }
        for record in try StateStore(connection: connection).load().tables
        where SQLIdentifier.equal(record.target, old.name) && (record.isReturning || record.phase == .starting) {
            throw refuse(
                .misuse,
                "table \(old.name) is returning to its source, or has not begun to move yet: wait until it has "
                    + "returned or begun"
            )
        }
        try MovingAway(connection: connection).checkChange(of: old.name)
        try checkTemporaryNames([old.name])
    }

    private static func isIndex(_ kind: StatementKind) -> Bool {
        if case .createIndex = kind { true } else { false }
    }

    private static func isTrigger(_ kind: StatementKind) -> Bool { kind == .createTrigger }

    /// Runs `body` with foreign keys switched off. This works in a transaction too, where the pragma does nothing.
    func withoutForeignKeys<Result>(_ body: () throws -> Result) throws -> Result {
        let enforces = connection.isConfigured(.foreignKeys) ?? false
        if enforces { try connection.configure(.foreignKeys, false) }
        defer { if enforces { try? connection.configure(.foreignKeys, true) } }
        return try overlay.unnoticed(body)
    }
}
