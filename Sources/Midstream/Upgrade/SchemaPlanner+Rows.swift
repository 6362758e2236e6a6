internal import SQLText
internal import SQLiteConnection

extension SchemaPlanner {
    /// How a table's rows will come into its new shape, as ``Rebuild`` will find; `nil` where that depends on what is in the rows,
    /// on how far an earlier move has come, or on what the copy of the schema has not.
    ///
    /// - Throws: ``MigrationError`` of misuse, as the rebuild would.
    func foresee(
        _ rebuilding: SchemaChange.Rebuilding,
        of old: TableImage,
        on copy: SchemaScratch
    ) throws -> RebuiltTable? {
        let lacks = copy.missing.contains {
            $0.object.type != .trigger && SQLIdentifier.equal($0.object.owner, old.name)
        }
        if file.isMoving(formerName(old.name)) || lacks { return nil }
        var wish = TableRebuild(name: old.name, schema: rebuilding.schema, indexes: [], triggers: [])
        rebuilding.fill(&wish)
        let tried: Possibility
        do {
            tried = try copy.trying { try Self.tryMove(wish, of: old, on: copy.connection) }
        } catch let error as MigrationError {
            throw Rebuild.hiding(Self.backup, error, old.name)
        } catch {
            // What the copy cannot take is told when it is done.
            return nil
        }
        let isSmall = try hasAtMost(wish.rowsCopiedAtOnce, old)
        let name = wish.name
        switch tried {
        case .impossible(let reason): return RebuiltTable(name: name, way: .atOnce, reason: isSmall ? nil : reason)
        case _ where isSmall && !wish.refusedRows.stored.settlesUnasked: return RebuiltTable(name: name, way: .atOnce)
        case .certain: return RebuiltTable(name: name, way: .online)
        case .dependent: return nil
        }
    }

    /// Whether rows can move in steps.
    private enum Possibility {
        case certain
        /// Where no row has a key that stands in the way.
        case dependent
        case impossible(reason: String?)
    }

    private static let backup = TableRecord.backupPrefix + "0"

    private static func tryMove(
        _ wish: TableRebuild,
        of old: TableImage,
        on connection: Connection
    ) throws -> Possibility {
        try StoredValue.define(on: connection)
        for trigger in old.triggers {
            try connection.execute("DROP TRIGGER IF EXISTS \(SQLIdentifier.quoted(trigger.name))")
        }
        let reader = SchemaReader(connection: connection, schema: "main")
        guard let table = try reader.table(old.name) else { throw unreadable(old.name) }
        let backup = try TableBackup(connection: connection, table: table, name: Self.backup).make()
        for sql in [wish.schema] + wish.indexes { try connection.execute(sql) }
        guard let new = try reader.table(wish.name) else { throw unreadable(wish.name) }
        _ = try ColumnMatching(
            connection: connection,
            target: new,
            source: backup,
            from: "main." + SQLIdentifier.quoted(Self.backup),
            wish: wish.migration
        ).storedRecords()
        let migration = MigrationRecord(id: Identifiers.next(), sourcePath: nil)
        let (move, reason) = try Rebuild.move(wish, migration, from: backup, to: new, former: nil, on: connection)
        guard let move else { return .impossible(reason: reason) }
        // Rows that are known by another key than before are asked for it.
        let hasOwnKey =
            if new.hasRowID {
                new.rowIDColumn.map { backup.hasRowID && move.sql.columns[$0].copied == backup.rowIDName } ?? true
            } else {
                !backup.hasRowID
            }
        return hasOwnKey ? .certain : .dependent
    }

    /// Whether the expression of a generated column that comes fails on a row: ADD COLUMN looks at none, and then no such row could
    /// be read.
    ///
    /// - Complexity: O(n) where it has a function that may fail, otherwise O(1).
    func fails(_ column: CreateTable.Column, _ goal: TableImage, of old: TableImage) throws -> Bool {
        guard let index = goal.schema.columnIndex(column.name), let text = goal.schema.columns[index].generation else {
            return false
        }
        return try fails([text], goal, of: old)
    }

    /// Whether an expression of an index that comes fails on a row.
    ///
    /// - Complexity: As of a column.
    func fails(_ indexes: [SchemaObject], _ goal: TableImage, of old: TableImage) throws -> Bool {
        let definitions = indexes.map { IndexTerms($0.sql) }
        return try fails(definitions.flatMap { $0.terms + [$0.condition].compactMap(\.self) }, goal, of: old)
    }

    private func fails(_ expressions: [String], _ goal: TableImage, of old: TableImage) throws -> Bool {
        let risky = expressions.filter { ConnectionTerms($0, of: goal.schema, readingGenerated: true).mayFail }
        return try !risky.isEmpty && file.fails(risky, formerName(old.name))
    }
}

/// What ``SchemaOptions/columns`` says of a column and is not applied.
struct UnusedMapping {
    enum Reason {
        /// The column is in the file as it is declared.
        case unchanged
        /// It comes, and is made of a column that the table has not.
        case unknown(String)
        /// The table is created.
        case created
    }

    let table: String
    let column: String
    let reason: Reason

    var name: String { "\(table).\(column)" }

    var unknownColumn: String? { if case .unknown(let name) = reason { name } else { nil } }

    func isOf(_ column: String, of table: String) -> Bool {
        SQLIdentifier.equal(self.column, column) && SQLIdentifier.equal(self.table, table)
    }
}
