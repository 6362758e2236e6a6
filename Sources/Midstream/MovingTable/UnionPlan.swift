internal import SQLiteConnection

/// How a scan of a moving table runs: what its two arms are asked, and in which order their rows are merged.
struct UnionPlan: Hashable {
    /// Which rows the scan gives.
    enum Scope: Hashable {
        /// All rows.
        case whole
        /// The rows that are in the source alone.
        case pending
    }

    /// A term of the WHERE clause that the arms' own statements check.
    struct Constraint: Hashable {
        /// The column's index; -1 for the rowid.
        var column: Int
        var comparison: IndexInfo.Comparison
        /// Whether the arms' own comparison of the column with a number is right. It is not if the column holds text: in native
        /// SQLite, the comparison then depends on the affinity of the other operand, which SQLite does not tell a virtual table.
        var takesNumbers: Bool
        /// The index of the value among the filter's arguments.
        var argument: Int
    }

    struct Order: Hashable {
        var column: Int
        var isDescending: Bool
    }

    /// How the arms' rows become one scan.
    enum Merge: Hashable {
        /// By a unique key: if the target has the row, the source is not searched.
        case lookup
        /// In the order of some columns, and then of the rowid.
        case ordered([Order], rowIDDescending: Bool)
    }

    /// The order of the rows of a table without rowids.
    static func keyOrder(of table: TableSchema, isReversed: Bool = false) -> [Order] {
        table.primaryKey.map { Order(column: $0.column ?? -1, isDescending: $0.isDescending != isReversed) }
    }

    var scope: Scope
    var constraints: [Constraint]
    var merge: Merge
    /// The columns of the index that the scan follows. An arm can read these without reading the table.
    var indexedColumns: [Int]
    /// The columns that the statement uses, one bit for each; the highest bit stands for all columns from 63 on.
    var usedColumns: UInt64
    /// The first column of the index, if the scan follows the index to find rows and not for their order.
    var searchedColumn: Int?
    /// Whether the statement may want only some of the rows.
    var mayEndEarly: Bool
    /// Whether the statement makes one row of all that the scan gives, so that nothing is written while the scan runs.
    var isAggregated: Bool
    /// Whether the scan gives only one of the rows that are equal in what the merge compares. The statement then uses nothing else.
    var isDistinct: Bool
    /// Whether a text that looks like a number may come from a numeric column, so that it is compared as a number.
    var mayCompareTextAsNumber: Bool

    /// This scan, giving every row.
    var withAllRows: UnionPlan {
        var plan = self
        plan.isDistinct = false
        return plan
    }

    /// This scan with fewer constraints; SQLite checks the others itself.
    func dropping(_ arguments: Set<Int>) -> UnionPlan {
        var plan = self
        plan.constraints.removeAll { arguments.contains($0.argument) }
        // As in native SQLite, the scan does not follow an index without a reason.
        let isLost = searchedColumn.map { column in !plan.constraints.contains { $0.column == column } } ?? false
        if merge == .lookup || isLost {
            plan.merge = .ordered([], rowIDDescending: false)
            plan.indexedColumns = []
        }
        return plan
    }

    /// The index of the rowid among the filter's arguments, if the scan looks up one row by the rowid.
    var rowIDArgument: Int? {
        guard case .lookup = merge else { return nil }
        return constraints.first { $0.column == -1 && $0.comparison == .equal }?.argument
    }

    /// Whether the statement probably wants only the number of rows: it uses no columns except those for which it gives values.
    var isLikelyCounted: Bool {
        guard case .ordered = merge, scope == .whole, !isDistinct else { return false }
        let compared = constraints.filter { (0..<63).contains($0.column) && $0.takesNumbers }
        return usedColumns & ~compared.reduce(0) { $0 | 1 << UInt64($1.column) } == 0
    }

    func uses(_ column: Int) -> Bool {
        usedColumns & (1 << UInt64(min(column, 63))) != 0
    }
}
