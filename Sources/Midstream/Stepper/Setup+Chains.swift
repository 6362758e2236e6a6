internal import SQLText
internal import SQLiteConnection

// Sources that are targets themselves.
extension Setup {
    /// A table of another file must have all of its rows: whoever moves them there goes on doing so.
    func checkIsWhole(_ source: TableSchema, _ migration: MigrationRecord, _ table: String) throws {
        let schema = SQLIdentifier.quoted(migration.schema)
        let hasState = try connection.fetchOne("SELECT 1 FROM \(schema).sqlite_master WHERE name = 'midstream_tables'")
        guard hasState != nil else { return }
        let pending = try connection.fetchOne(
            "SELECT 1 FROM \(schema).midstream_tables WHERE target = ? AND phase <= ?",
            [source.name, MigrationPhase.copying.rawValue]
        )
        guard pending == nil else {
            throw MigrationError(
                .unsupported,
                "source table \(source.name) of \(stepper.path(of: migration) ?? "the source") has yet to get rows of a "
                    + "migration of its own: let that end first",
                table: table
            )
        }
    }

    private func chains(
        _ record: TableRecord,
        _ source: TableSchema,
        _ target: TableSchema,
        _ records: [TableRecord]
    ) throws -> [Chain] {
        let migrations = try stepper.load().migrations
        return try records.filter { SQLIdentifier.equal($0.target, source.name) && $0.phase == .copying }
            .compactMap { first in
                guard let migration = migrations.first(where: { $0.id == first.migration }) else { return nil }
                try stepper.attach(migration)
                let a = try SchemaReader(connection: connection, schema: migration.schema).table(first.source)
                return a.map { Chain(first: first, a: $0, b: source, second: record, c: target) }
            }
    }

    /// Has the moves into a table end that cannot go on as moves into the table it moves to itself.
    func endWhatCannotBeJoined(
        _ record: TableRecord,
        _ source: TableSchema,
        _ target: TableSchema,
        _ records: [TableRecord]
    ) throws {
        for chain in try chains(record, source, target, records) where chain.joined() == nil {
            var tries = 0
            while try stepper.store.table(chain.first.id)?.phase == .copying {
                tries += 1
                let outcome = try stepper.step(.rows(.max - 1, table: chain.first.target)).outcome
                if outcome == .busy, tries > 1000 { throw Self.endlessTransaction }
            }
        }
    }

    /// Has the moves into a table go on as moves into the one that it moves to, in the transaction that is open.
    func join(_ record: TableRecord) throws {
        let reader = SchemaReader(connection: connection, schema: "main")
        guard let source = try reader.table(record.source), let target = try reader.table(record.target) else { return }
        let (migrations, records) = try stepper.load()
        for chain in try chains(record, source, target, records) {
            guard let joined = chain.joined(), let migration = migrations.first(where: { $0.id == joined.migration })
            else {
                throw MigrationError(
                    .unsupported,
                    "table \(source.name) has yet to get rows that cannot move on to table \(target.name) directly: let that "
                        + "migration end first",
                    table: target.name
                )
            }
            try chain.store(joined, migration, in: stepper.store)
            stepper.forget(joined.id)
        }
    }
}
