internal import SQLText
internal import SQLiteConnection

// What is said of tables that move already.
extension Setup {
    /// Makes sure that what is asked for is what is stored, as far as it cannot change any more.
    func checkUnchanged(_ wish: TableMigration, _ record: TableRecord, _ migration: MigrationRecord) throws {
        guard record.isOwn, record.phase == .copying || record.phase == .starting, !record.columns.contains(.joined)
        else { return }
        // Of a table whose rows cannot all be hashed, less is stored than was asked for.
        let isLowered = wish.verification == .complete && record.verification == .batches
        if wish.verification != record.verification, !isLowered {
            throw Self.changed("verification", "\(record.verification)", "\(wish.verification)", record)
        }
        try checkColumns(wish, record, migration)
    }

    static func checkUnchanged(_ retirement: SourceRetirement, _ migration: MigrationRecord) throws {
        guard retirement != migration.retirement else { return }
        throw MigrationError(
            .misuse,
            "tables of \(migration.sourcePath ?? "this file") began to move with retirement .\(migration.retirement), and now "
                + "retirement .\(retirement) was asked for. Ask for the same until all of them have moved, or cancel their migration"
        )
    }

    private static func changed(_ what: String, _ stored: String, _ asked: String, _ record: TableRecord)
        -> MigrationError
    {
        MigrationError(
            .misuse,
            "table \(record.target) began to move with \(what) \(stored), and now \(asked) was asked for. Ask for the same until "
                + "its rows have moved, or cancel its migration",
            table: record.target
        )
    }

    private func checkColumns(_ wish: TableMigration, _ record: TableRecord, _ migration: MigrationRecord) throws {
        guard migration.sourcePath == nil || stepper.isAttached(migration),
            let target = try SchemaReader(connection: connection, schema: "main").table(record.target),
            let source = try SchemaReader(connection: connection, schema: migration.schema).table(record.source)
        else { return }
        let matching = ColumnMatching(
            connection: connection,
            target: target,
            source: source,
            from: SQLIdentifier.quoted(migration.schema) + "." + SQLIdentifier.quoted(source.name),
            wish: wish
        )
        if let difference = try matching.difference(from: record.columns) {
            throw Self.changed(
                "column \(difference.column) made of",
                difference.stored,
                difference.asked,
                record
            )
        }
    }
}
