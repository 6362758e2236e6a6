internal import SQLText
internal import SQLiteConnection

extension SchemaPlanner {
    /// Foretells how a table's rows will come into its new shape, as ``Rebuild`` will find it; `nil` if that depends on
    /// the values in the rows, on how far an earlier move has come, or on objects that the copy of the schema lacks.
    ///
    /// - Throws: ``MigrationError`` of misuse, as the rebuild would throw.
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
            // If the copy cannot take the change, the upgrade itself reports the reason.
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
        /// Rows can move in steps if no row has a key that stands in the way.
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
        // If rows get another key than before, the rows themselves must be asked whether they can move.
        let hasOwnKey =
            if new.hasRowID {
                new.rowIDColumn.map { backup.hasRowID && move.sql.columns[$0].copied == backup.rowIDName } ?? true
            } else {
                !backup.hasRowID
            }
        return hasOwnKey ? .certain : .dependent
    }

    /// Whether the expression of a new generated column fails on a row. ADD COLUMN evaluates it on no row, and
    /// afterwards a row on which it fails could not be read.
    ///
    /// - Complexity: O(n) if the expression has a function that may fail, otherwise O(1).
    func fails(_ column: CreateTable.Column, _ goal: TableImage, of old: TableImage) throws -> Bool {
        guard let index = goal.schema.columnIndex(column.name), let text = goal.schema.columns[index].generation else {
            return false
        }
        return try fails([text], goal, of: old)
    }

    /// Whether an expression of a new index fails on a row.
    ///
    /// - Complexity: O(n) if an expression has a function that may fail, otherwise O(1).
    func fails(_ indexes: [SchemaObject], _ goal: TableImage, of old: TableImage) throws -> Bool {
        let definitions = indexes.map { IndexTerms($0.sql) }
        return try fails(definitions.flatMap { $0.terms + [$0.condition].compactMap(\.self) }, goal, of: old)
    }

    private func fails(_ expressions: [String], _ goal: TableImage, of old: TableImage) throws -> Bool {
        let risky = expressions.filter { ConnectionTerms($0, of: goal.schema, readingGenerated: true).mayFail }
        return try !risky.isEmpty && file.fails(risky, formerName(old.name))
    }
}

/// A mapping of ``SchemaOptions/columns`` that is not applied.
struct UnusedMapping {
    enum Reason {
        /// The column is already in the file as it is declared.
        case unchanged
        /// The column is new, and its mapping names a column that the table lacks.
        case unknown(String)
        /// The table itself is created.
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
