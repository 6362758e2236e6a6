internal import SQLiteConnection

/// The union table of a connection that other code opened: its statements come without a word before, so it finds out by
/// itself what they are, and writes of it are carried out row by row.
final class BorrowedUnionTable: UnionTable {
    private let writes: BorrowedWrites

    init(table: MovingTable, scope: UnionPlan.Scope, tables: MovingTables, writes: BorrowedWrites) {
        self.writes = writes
        super.init(table: table, scope: scope, tables: tables)
        writes.connectedTables += 1
    }

    /// The text is not known while SQLite plans. What it could be is looked at when it matters: ``admitNumber()``.
    override func traits() throws -> QueryTraits {
        QueryTraits(
            isSimple: false,
            hasRowMembership: try writes.viewsHave(\.hasRowMembership),
            hasMinimum: true,
            hasPattern: true,
            mayHidePattern: true,
            namesRowIDs: true,
            hasRightJoin: true,
            hasLimit: true,
            hasCompound: try writes.viewsHave(\.hasCompound)
        )
    }

    /// A row value before an IN comes as plain comparisons, of which SQLite would then forget the subquery's affinity.
    override func admitNumber() throws { try writes.refuseRowMembership(on: table) }

    override func comparesTextAsNumber() throws -> Bool { writes.runningStatementsHaveCompound() }

    /// A statement has begun. Until it ends, this connection keeps one snapshot, and nothing but its own promotions changes
    /// where a row is.
    override func open() throws -> VirtualTableCursor {
        try writes.noteStatement()
        return try super.open()
    }

    override func begin() throws { try writes.begin(table) }

    override var reportsConstraints: Bool { true }

    override func update(_ arguments: ValueReferences) throws -> Int64? {
        do {
            return try writes.update(table, arguments)
        } catch let error as SQLiteError where error.code == .readOnlyRollback {
            // The next one finds the source as it should be.
            try? table.statements.rollBackJournals?()
            throw error
        }
    }

    override func destroy() throws {
        guard !table.statements.isRemovingTables else { return }
        throw SQLiteError(code: .error, message: "table \(table.name) is moving: it can be dropped when it has moved")
    }

    override func disconnect() {
        super.disconnect()
        writes.connectedTables -= 1
        // The connection may be about to be closed, which statements would keep from being done.
        writes.onDisconnect?()
    }
}

extension BorrowedWrites: UnionTableMaker {
    func unionTable(_ table: MovingTable, _ scope: UnionPlan.Scope, of tables: MovingTables) -> UnionTable {
        BorrowedUnionTable(table: table, scope: scope, tables: tables, writes: self)
    }
}
