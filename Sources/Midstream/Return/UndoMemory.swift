internal import SQLiteConnection

/// What the return of tables to their sources remembers from step to step.
final class UndoMemory: StageMemory {
    /// How far the stages of tables are, by the tables' ids.
    var progress: [Int64: Undo.Progress] = [:]
    fileprivate var statements: [Int64: UndoSQL] = [:]
    /// The size of batches. The source has a batch on the disk before the target forgets the batch.
    var batch = BatchSize(rows: 64, wanted: .milliseconds(4), least: 64)

    init(pageSize: Int64) {}

    func forget(_ id: Int64) { (progress[id], statements[id]) = (nil, nil) }
    func forgetShapes() { statements.removeAll() }

    func forgetSource(_ migration: MigrationRecord) {
        statements.removeAll()
        progress.removeAll()
    }
}

extension Stepper {
    func undoSQL(_ record: TableRecord, _ migration: MigrationRecord) throws -> UndoSQL {
        if let sql = memory(UndoMemory.self).statements[record.id] { return sql }
        let move = try sql(for: record, migration)
        // This record has its columns. A record that is read in each step has none.
        guard let whole = try store.load().tables.first(where: { $0.id == record.id }),
            let target = try SchemaReader(connection: connection, schema: "main").table(record.target),
            let source = try SchemaReader(connection: connection, schema: migration.schema).table(record.source)
        else {
            throw MigrationError(
                .missingTable,
                "table \(record.target) or its source table \(record.source) was dropped while rows were returning: "
                    + "restore the files from a backup",
                table: record.target
            )
        }
        let sql = try UndoSQL(whole, move, target: target, source: source)
        memory(UndoMemory.self).statements[record.id] = sql
        return sql
    }
}
