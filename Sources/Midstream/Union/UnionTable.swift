internal import SQLText
internal import SQLiteConnection

/// Makes union tables: `CREATE VIRTUAL TABLE temp.T USING midstream_union(id, whole | pending)`.
final class UnionModule: VirtualTableModule {
    static let name = "midstream_union"
    /// For tables without rowids.
    static let keyedName = "midstream_union_keyed"
    private let tables: MovingTables

    init(tables: MovingTables) {
        self.tables = tables
    }

    override func connect(name: String, arguments: [String]) throws -> (declaration: String, table: VirtualTable) {
        guard arguments.count == 2, let id = Int64(arguments[0]), let table = tables.byID[id] else {
            // A rollback has brought back a union table whose moving table is no longer known. SQLite connects a table before it
            // drops it.
            if tables.statements.isRemovingTables { return ("CREATE TABLE x(a)", VirtualTable()) }
            throw SQLiteError(code: .misuse, message: "\(name) is not a moving table of this connection")
        }
        let borrowed = tables.borrowed
        let columns = table.target.columns.enumerated().map { index, column in
            let quoted = table.quotedColumns[index]
            let type = Self.type(of: column, isStrict: table.target.isStrict)
            // Some libraries look for the primary key. SQLite itself ignores it here.
            let key = borrowed != nil && index == table.target.rowIDColumn ? " PRIMARY KEY" : ""
            // If no row can have NULL, SQLite answers `x IS NULL` without a row, for instance beside a count of no rows, and `min(x)`
            // from the first row.
            let notNull = table.isNeverNull(index) ? " NOT NULL" : ""
            return "\(quoted) \(type)\(key)\(notNull) COLLATE \(SQLIdentifier.quoted(column.collation))"
        }
        let scope: UnionPlan.Scope = arguments[1] == "pending" ? .pending : .whole
        let key = table.key
        // A key that is not the rowid is left out: SQLite would make an index of it, without its columns' names, which libraries
        // would take for all that the table has.
        let primaryKey = key.isRowID ? "" : ", PRIMARY KEY(\(KeySQL.list(key.target)))"
        return (
            "CREATE TABLE x(\(columns.joined(separator: ", "))\(primaryKey))\(key.ledgerOptions)",
            borrowed?.unionTable(table, scope, of: tables)
                ?? UnionTable(table: table, scope: scope, tables: tables)
        )
    }

    /// The type with which the union table declares a column: for the affinity, and for code that asks for the declared type.
    private static func type(of column: TableSchema.Column, isStrict: Bool) -> String {
        // ANY means no affinity in a STRICT table; elsewhere it would mean a numeric affinity. In a virtual table's type, SQLite
        // interprets the word HIDDEN itself.
        let isOther = isStrict && column.type.uppercased() == "ANY" || TypeName.words(column.type).contains("hidden")
        return !isOther && TypeName.isPlain(column.type) ? column.type : column.affinity.typeName
    }
}

/// Makes union tables of another class.
protocol UnionTableMaker: AnyObject {
    func unionTable(_ table: MovingTable, _ scope: UnionPlan.Scope, of tables: MovingTables) -> UnionTable
}

/// The moving tables of one connection, where its functions and virtual tables find them.
final class MovingTables {
    var byID: [Int64: MovingTable] = [:]
    let statements: InternalStatements
    let watch: AccessWatch
    /// Makes the union tables of a connection that other code opened; `nil` on Midstream's own connections.
    weak var borrowed: (any UnionTableMaker)?

    init(statements: InternalStatements, watch: AccessWatch) {
        self.statements = statements
        self.watch = watch
    }
}

/// A moving table as statements read it: the target's rows and the pending rows, each once.
class UnionTable: VirtualTable {
    let table: MovingTable
    let scope: UnionPlan.Scope
    private let tables: MovingTables
    /// The arms of each plan, without a bound of keys and with one.
    private var plans: [(unbounded: UnionArms, bounded: UnionArms)] = []
    private var planNumbers: [UnionPlan: Int] = [:]
    /// The plans that have idle statements, the most recently used one last.
    private var keeping: [UnionArms] = []
    /// Closed cursors, kept with their statements: SQLite opens a new cursor for each run of a subquery.
    private var idleCursors: [UnionCursor] = []

    init(table: MovingTable, scope: UnionPlan.Scope, tables: MovingTables) {
        self.table = table
        self.scope = scope
        self.tables = tables
    }

    /// What is known of the statement that SQLite is planning.
    func traits() throws -> QueryTraits { tables.watch.traits }

    /// Called when a scan gets a number for a text column that the plan compares with an equal value.
    func admitNumber() throws {}

    /// Whether the running statement may compare text that looks like a number as a number, although its plan does not say so.
    func comparesTextAsNumber() throws -> Bool { false }

    override func bestIndex(_ info: IndexInfo) throws {
        let traits = try traits()
        let planner = UnionPlanner(
            table: table,
            scope: scope,
            isSimpleStatement: traits.isSimple,
            hasRowMembership: traits.hasRowMembership,
            hidesPattern: traits.hidesPattern,
            namesIndexes: traits.namesIndexes,
            isAggregated: traits.isAggregated,
            mayTakeFirstAsMinimum: Connection.libraryVersionNumber < 3_030_000 && traits.hasMinimum,
            mayEndEarly: traits.hasLimit,
            usesColumnsUntold: traits.namesRowIDs || traits.hasRightJoin,
            mayCompareTextAsNumber: traits.hasCompound,
            hasNoRows: { [table, tables] in
                // A plan for a table without rows must not be kept, but SQLite keeps the plan of a statement that it prepares
                // again.
                guard tables.watch.isPreparing else { return false }
                do {
                    guard try table.hasNoRows() else { return false }
                } catch {
                    tables.statements.failureOfPlan = error
                    return false
                }
                tables.watch.noteNoRows()
                return true
            }
        )
        info.setPlan(number(of: try planner.plan(info)))
    }

    private func number(of plan: UnionPlan) -> Int {
        if let number = planNumbers[plan] { return number }
        func arms(_ isBounded: Bool) -> UnionArms {
            UnionArms(plan: plan, table: table, isBounded: isBounded, statements: tables.statements)
        }
        let bounded = arms(true)
        plans.append((table.key.isRowID ? bounded : arms(false), bounded))
        planNumbers[plan] = plans.count - 1
        return plans.count - 1
    }

    /// Tells the watch that the application's statement has begun to run.
    func noteBegun() { tables.watch.noteBegun() }

    /// Whether the running statement gives one row when it has read all rows, so that nothing is written between two rows of the scan.
    func isOfOneRow(_ plan: UnionPlan) -> Bool { plan.isAggregated }

    func arms(_ number: Int) throws -> UnionArms {
        try table.state().bound != nil ? plans[number].bounded : plans[number].unbounded
    }

    func arms(_ plan: UnionPlan) throws -> UnionArms { try arms(number(of: plan)) }

    override func open() throws -> VirtualTableCursor {
        let cursor = idleCursors.popLast() ?? UnionCursor(table: self, scope: scope)
        cursor.reopen()
        return cursor
    }

    private static let mostIdleCursors = 4

    /// Keeps a closed cursor for the next statement.
    func keep(_ cursor: UnionCursor) {
        if idleCursors.count < Self.mostIdleCursors { idleCursors.append(cursor) } else { cursor.release() }
    }

    private static let mostKeeping = 32

    /// Notes that a plan's statements are idle. If too many plans have idle statements, removes those of the plan that was used
    /// longest ago: SQLite keeps a prepared statement in memory, and the application may go on running statements of ever new
    /// shapes.
    func noteIdle(_ arms: UnionArms) {
        if let place = keeping.lastIndex(where: { $0 === arms }) { keeping.remove(at: place) }
        keeping.append(arms)
        if keeping.count > Self.mostKeeping { keeping.removeFirst().removeIdle() }
    }

    override func update(_ arguments: ValueReferences) throws -> Int64? {
        throw SQLiteError(
            code: .readOnly,
            message:
                "table \(table.name) is moving: write it as main.\(table.name), or through Midstream's own statements"
        )
    }

    override func disconnect() {
        idleCursors.removeAll()
        plans.removeAll()
        planNumbers.removeAll()
        keeping.removeAll()
    }
}
