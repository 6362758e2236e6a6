internal import SQLiteConnection

/// The union table of a connection that other code opened. Other code does not announce its statements, so the union table finds
/// out by itself what they are. It carries out writes row by row.
final class BorrowedUnionTable: UnionTable {
    private let writes: BorrowedWrites

    init(table: MovingTable, scope: UnionPlan.Scope, tables: MovingTables, writes: BorrowedWrites) {
        self.writes = writes
        super.init(table: table, scope: scope, tables: tables)
        writes.connectedTables += 1
    }

    /// While SQLite plans, the text of the statement is not known. ``admitNumber()`` looks at the running statements when it
    /// matters.
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

    override func bestIndex(_ info: IndexInfo) throws {
        try writes.completeOverlay()
        // Only statements that Midstream has rewritten read this table.
        if scope == .pending { try writes.checkPlan(of: table) }
        try super.bestIndex(info)
    }

    /// SQLite hands a row value before an IN to the table as plain comparisons, and would then forget the affinity of the
    /// subquery.
    override func admitNumber() throws { try writes.refuseRowMembership(on: table) }

    override func comparesTextAsNumber() throws -> Bool { writes.runningStatementsHaveCompound() }

    /// Notes that a statement has begun. Until the statement ends, this connection keeps one snapshot, and only the connection's
    /// own promotions change where a row is.
    override func open() throws -> VirtualTableCursor {
        try writes.noteStatement()
        if scope == .pending { try writes.checkKeys(of: table) }
        return try super.open()
    }

    override func isOfOneRow(_ plan: UnionPlan) -> Bool { writes.runsOneAggregate() }

    override func begin() throws { try writes.begin(table) }

    override var reportsConstraints: Bool { true }

    override func update(_ arguments: ValueReferences) throws -> Int64? {
        do {
            return try writes.update(table, arguments)
        } catch let error as SQLiteError where error.code == .readOnlyRollback {
            // After this, the next write finds the source as it should be.
            try? table.statements.rollBackJournals?()
            throw error
        }
    }

    override func destroy() throws {
        guard !table.statements.isRemovingTables else { return }
        throw SQLiteError(code: .error, message: "table \(table.name) is moving: it can be dropped when it has moved")
    }

    override func rename() throws {
        throw SQLiteError(code: .error, message: "table \(table.name) is moving: it can be renamed when it has moved")
    }

    override func disconnect() {
        super.disconnect()
        writes.connectedTables -= 1
        // The connection may be about to be closed, and statements would keep it open.
        writes.onDisconnect?()
    }
}

extension BorrowedWrites: UnionTableMaker {
    func unionTable(_ table: MovingTable, _ scope: UnionPlan.Scope, of tables: MovingTables) -> UnionTable {
        BorrowedUnionTable(table: table, scope: scope, tables: tables, writes: self)
    }
}
