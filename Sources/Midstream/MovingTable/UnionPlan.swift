internal import SQLiteConnection

/// How a scan of a moving table runs: what is asked of its two arms, and in which order their rows are merged.
struct UnionPlan: Hashable {
    /// Which rows the scan gives.
    enum Scope: Hashable {
        /// All.
        case whole
        /// Those that are in the source alone.
        case pending
    }

    /// A term of the WHERE clause that the arms' own statements check.
    struct Constraint: Hashable {
        /// The column's index; -1 is the rowid.
        var column: Int
        var comparison: IndexInfo.Comparison
        /// Whether a number may be compared with the column as the arms would. It may not where the column holds text:
        /// natively that depends on the affinity of the other operand, which a virtual table is not told.
        var takesNumbers: Bool
        /// Which of the filter's arguments is the value.
        var argument: Int
    }

    struct Order: Hashable {
        var column: Int
        var isDescending: Bool
    }

    /// How the arms' rows become one scan.
    enum Merge: Hashable {
        /// A unique key: a row that the target has is not looked for in the source.
        case lookup
        /// In the order of some columns, then of the rowid.
        case ordered([Order], rowIDDescending: Bool)
    }

    /// The order of a table without rowids.
    static func keyOrder(of table: TableSchema, isReversed: Bool = false) -> [Order] {
        table.primaryKey.map { Order(column: $0.column ?? -1, isDescending: $0.isDescending != isReversed) }
    }

    var scope: Scope
    var constraints: [Constraint]
    var merge: Merge
    /// The columns of the index that the scan goes along: what an arm can read without going to the table.
    var indexedColumns: [Int]
    /// The columns that the statement uses, a bit each; the highest stands for all from 63 on.
    var usedColumns: UInt64
    /// The first column of the index, where it is followed for the rows that it finds and not for their order.
    var searchedColumn: Int?
    /// Whether the statement may want some of the rows only.
    var mayEndEarly: Bool
    /// Whether the statement makes one row of all that the scan gives, so that nobody writes between two of these.
    var isAggregated: Bool
    /// Whether of rows that are equal in what the merge compares one is given: then it is all that the statement uses.
    var isDistinct: Bool
    /// Whether text that looks like a number may come from a column of numbers, so that it is compared as one.
    var mayCompareTextAsNumber: Bool

    /// The same scan with every row.
    var withAllRows: UnionPlan {
        var plan = self
        plan.isDistinct = false
        return plan
    }

    /// The same scan with fewer constraints; SQLite checks the others itself.
    func dropping(_ arguments: Set<Int>) -> UnionPlan {
        var plan = self
        plan.constraints.removeAll { arguments.contains($0.argument) }
        // As natively, an index is not followed for nothing.
        let isLost = searchedColumn.map { column in !plan.constraints.contains { $0.column == column } } ?? false
        if merge == .lookup || isLost {
            plan.merge = .ordered([], rowIDDescending: false)
            plan.indexedColumns = []
        }
        return plan
    }

    /// Which of the filter's arguments is the rowid, where one row is looked up by it.
    var rowIDArgument: Int? {
        guard case .lookup = merge else { return nil }
        return constraints.first { $0.column == -1 && $0.comparison == .equal }?.argument
    }

    /// Whether the statement can hardly want more of the rows than how many they are: it uses no column but those that it
    /// has values for.
    var isLikelyCounted: Bool {
        guard case .ordered = merge, scope == .whole, !isDistinct else { return false }
        let compared = constraints.filter { (0..<63).contains($0.column) && $0.takesNumbers }
        return usedColumns & ~compared.reduce(0) { $0 | 1 << UInt64($1.column) } == 0
    }

    func uses(_ column: Int) -> Bool {
        usedColumns & (1 << UInt64(min(column, 63))) != 0
    }
}
