internal import SQLText
internal import SQLiteConnection

/// A table that begins to move. The connection may be the stepper's, or the application's own for a table of the same
/// file.
struct Beginning {
    let connection: Connection
    let record: TableRecord
    let migration: MigrationRecord
    let target: TableSchema
    let source: TableSchema
    let sql: MoveSQL
    /// The definitions that were checked; `nil` if the table begins to move in the same transaction.
    var definitions: Definitions?
    /// The status of the source's file, if the file cannot be written and so gets no claim.
    var stamp: SourceStamp?
    /// The SQL that the source had before it was renamed to be rebuilt.
    var former: String?

    /// The beginning of a table that the target has stored.
    init(
        _ record: TableRecord,
        _ migration: MigrationRecord,
        target: TableSchema,
        source: TableSchema,
        on connection: Connection
    ) {
        self.connection = connection
        self.record = record
        self.migration = migration
        self.target = target
        self.source = source
        sql = MoveSQL(record: record, migration: migration, target: target, source: source)
    }

    /// The beginning of a table that the target has not stored yet. Checks that the table's rows can move.
    ///
    /// - Parameters:
    ///   - others: The other sources from which the target still has rows to come.
    ///   - former: The SQL that the source had before it was renamed to be rebuilt.
    /// - Throws: ``MigrationError``, which says what to change.
    init(
        checking wish: TableMigration,
        _ migration: MigrationRecord,
        _ retirement: SourceRetirement,
        target: TableSchema,
        source: TableSchema,
        others: [MoveSQL],
        former: String? = nil,
        on connection: Connection
    ) throws {
        let from = migration.name(of: source.name)
        if let condition = wish.condition {
            try RowExpression(
                connection: connection,
                source: source,
                from: from,
                text: condition,
                what: "the condition for table \(wish.name)",
                table: wish.name
            ).check()
        }
        let columns = try ColumnMatching(
            connection: connection,
            target: target,
            source: source,
            from: from,
            wish: wish,
            isAdded: true
        ).records()
        let record = Self.record(wish, migration, retirement, target, source, columns)
        self.init(record, migration, target: target, source: source, on: connection)
        self.former = former
        try checkCondition()
        try Compatibility(
            connection: connection,
            target: target,
            source: source,
            sql: sql,
            others: others,
            refusedRows: record.refusedRows
        ).check()
        try checkExpressions()
    }

    /// The record of a table before any of its rows has moved.
    private static func record(
        _ wish: TableMigration,
        _ migration: MigrationRecord,
        _ retirement: SourceRetirement,
        _ target: TableSchema,
        _ source: TableSchema,
        _ columns: [ColumnRecord]
    ) -> TableRecord {
        TableRecord(
            id: Identifiers.next(),
            migration: migration.id,
            target: target.name,
            source: source.name,
            condition: wish.condition,
            columns: columns,
            phase: .starting,
            watermark: nil,
            ceiling: nil,
            copied: 0,
            settled: 0,
            total: nil,
            verification: wish.verification,
            retirement: retirement,
            refusedRows: wish.refusedRows.stored,
            firesTriggers: wish.firesTriggers ?? false,
            unreadableRows: wish.unreadableRows
        )
    }

    // The functions below run in the transaction that is open.

    /// Makes sure that no row has come since the checks from which an expression would take the present time, or on
    /// which an expression fails.
    func checkRows() throws {
        try checkCondition()
        try checkExpressions()
        for (index, text) in record.expressions.enumerated() {
            let isCondition = record.condition != nil && index == 0
            try RowExpression(
                connection: connection,
                source: source,
                from: migration.name(of: source.name),
                text: text,
                what: "\(isCondition ? "the condition" : "an expression") for table \(record.target)",
                table: record.target
            ).checkRows()
        }
    }

    /// Stores the table's record in the target, and creates the engine's own tables of the move.
    func store(in store: StateStore) throws {
        try note(in: store)
        try connection.create(in: "main", sql.createTables)
    }

    /// Stores the table's record in the target, without the engine's own tables of the move.
    func note(in store: StateStore) throws {
        try store.save(record)
        if let stamp { try UnfencedClaims(connection: connection).stake(record, of: migration, stamp) }
    }

    /// Lets the table move: from then on its rows are on both sides.
    ///
    /// - Parameter number: See ``MoveSQL/triggers(of:number:)``.
    /// - Returns: The guard triggers, which the caller has to create in the open transaction.
    func letMove(number: Int64 = Identifiers.next()) throws -> [SchemaRow] {
        for trigger in BeginningGuard.drop(record) { try connection.execute(trigger) }
        if target.isAutoIncrement { try raiseSequence() }
        if sql.keepsRowIDs { try KeptRowIDs(connection: connection).keep(record.id) }
        try TableUpdate.move(record, to: .copying, connection)
        return sql.triggers(of: target, number: number)
    }

    /// Raises AUTOINCREMENT's sequence, so that AUTOINCREMENT does not choose a rowid again that either side has or
    /// had.
    private func raiseSequence() throws {
        let sequence: [Int64?] = [
            try AutoIncrement.largest(of: sql, connection),
            try AutoIncrement.sequence(of: record.source, in: migration.schema, connection),
        ]
        // If there is a condition, the source's own sequence may be that of a row that the condition leaves out.
        let isLeft = sql.condition.isEmpty ? { _ in true } : { $0 < Int64.max }
        guard let sequence = sequence.compactMap({ $0 }).filter(isLeft).max() else { return }
        try AutoIncrement.raise(of: target.name, in: "main", to: sequence, connection)
    }
}
