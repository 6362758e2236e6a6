internal import SQLText
internal import SQLiteConnection

/// The statements that one plan runs on the two sides of a moving table, kept for the next scan by the same plan.
///
/// Each is a plain statement on one table, so SQLite plans it natively. Their first two columns are the key and whether
/// the ledger has it; the columns that the scan uses follow.
final class UnionArms {
    /// What an arm reads.
    enum Arm: Int, CaseIterable {
        /// The target's rows.
        case target
        /// The source's rows, with all columns.
        case source
        /// The same, when the ledger has entries.
        case sourceWithLedger
        /// Of the source's rows the columns to merge by alone: moved rows stay in the source's indexes, and are passed
        /// without their other columns being read.
        case sourceKeys
        case sourceKeysWithLedger
        /// One row of the target by its key.
        case targetRow
        /// One row of the source by its key.
        case sourceRow
    }

    let plan: UnionPlan
    let table: MovingTable
    private let statements: InternalStatements
    private var idle: [[Statement]] = Array(repeating: [], count: Arm.allCases.count)
    /// Where a column stands in the arms' results, by the column's index.
    let slots: [Int]
    /// The columns to merge by, where they stand, and how they compare.
    let mergeTerms: [(slot: Int, isDescending: Bool, collation: BuiltInCollation)]
    let rowIDDescending: Bool
    /// Whether the columns to merge by are all that the scan uses.
    let isCovered: Bool
    private let columns: [Int]
    private let mergeColumns: [UnionPlan.Order]

    init(plan: UnionPlan, table: MovingTable, statements: InternalStatements) {
        self.plan = plan
        self.table = table
        self.statements = statements
        if case .ordered(let columns, let descending) = plan.merge {
            mergeColumns = columns
            rowIDDescending = descending
        } else {
            mergeColumns = []
            rowIDDescending = false
        }
        // The merge's columns first, so that an arm with nothing else has them in the same place.
        var columns = mergeColumns.map(\.column).filter { $0 >= 0 }
        let merged = Set(columns)
        for column in table.target.columns.indices
        where plan.uses(column) && column != table.target.rowIDColumn && !merged.contains(column) {
            columns.append(column)
        }
        isCovered = columns.count == merged.count
        self.columns = columns
        var slots = Array(repeating: 0, count: table.target.columns.count)
        for (offset, column) in columns.enumerated() { slots[column] = offset + 2 }
        self.slots = slots
        mergeTerms = mergeColumns.map { term in
            let collation =
                term.column < 0 ? .binary : BuiltInCollation(name: table.target.columns[term.column].collation)
            return (term.column < 0 ? 0 : slots[term.column], term.isDescending, collation ?? .binary)
        }
    }

    /// An idle statement of the arm, or a new one. Give it back when the scan is over.
    func take(_ arm: Arm) throws -> Statement {
        if let statement = idle[arm.rawValue].popLast() { return statement }
        return try statements.prepare(text(of: arm))
    }

    func giveBack(_ statement: Statement, _ arm: Arm) {
        statement.reset()
        statement.clearBindings()
        idle[arm.rawValue].append(statement)
    }

    /// The parameter for the smallest key that may be pending.
    var lowerBoundParameter: Int { plan.constraints.count + 1 }

    /// Whether the arm's own statement passes over keys below the lower bound. Where rows come in the order of other
    /// columns it must not, or it would read on and on for one that is pending; the merge drops them in step.
    var isBoundedByKey: Bool { mergeTerms.isEmpty }

    private func text(of arm: Arm) -> String {
        let isTarget = arm == .target || arm == .targetRow
        let key = isTarget ? table.sql.targetKey : table.sql.sourceKey
        let from = isTarget ? table.sql.target : table.sql.source
        let hasLedger = arm == .sourceWithLedger || arm == .sourceKeysWithLedger
        let flag = hasLedger ? "\(key) IN (SELECT key FROM \(table.sql.ledger))" : "0"
        let isKeysOnly = arm == .sourceKeys || arm == .sourceKeysWithLedger
        let selected = isKeysOnly ? columns.prefix(mergeColumns.filter { $0.column >= 0 }.count) : columns[...]
        let result = ([key, flag] + selected.map { table.quotedColumns[$0] }).joined(separator: ", ")
        if arm == .targetRow { return "SELECT \(result) FROM \(from) WHERE \(key) = ?1" }
        if arm == .sourceRow { return "SELECT \(result) FROM \(from) WHERE \(key) = ?1\(table.sql.condition)" }

        var terms = plan.constraints.enumerated().map { offset, constraint in
            let operand = constraint.column < 0 ? key : table.quotedColumns[constraint.column]
            return "\(operand) \(symbol(constraint.comparison, offset + 1))"
        }
        if !isTarget {
            if isBoundedByKey { terms.append("\(key) >= ?\(lowerBoundParameter)") }
            // Without the other columns, the condition is checked when the row is fetched.
            if !isKeysOnly, !table.sql.condition.isEmpty { terms.append(String(table.sql.condition.dropFirst(5))) }
        }
        var text = "SELECT \(result) FROM \(from)"
        if !terms.isEmpty { text += " WHERE " + terms.joined(separator: " AND ") }
        if case .lookup = plan.merge {
            if !isTarget { text += " AND \(key) NOT IN (SELECT key FROM \(table.sql.ledger))" }
            return text + " LIMIT 1"
        }
        let order =
            mergeColumns.filter { $0.column >= 0 }.map {
                table.quotedColumns[$0.column] + ($0.isDescending ? " DESC" : "")
            } + [key + (rowIDDescending ? " DESC" : "")]
        return text + " ORDER BY " + order.joined(separator: ", ")
    }

    private func symbol(_ comparison: IndexInfo.Comparison, _ parameter: Int) -> String {
        switch comparison {
        case .equal: "= ?\(parameter)"
        case .greater: "> ?\(parameter)"
        case .greaterOrEqual: ">= ?\(parameter)"
        case .less: "< ?\(parameter)"
        case .lessOrEqual: "<= ?\(parameter)"
        // The value is NULL. Every constraint has a parameter, so that they keep their numbers.
        default: "IS ?\(parameter)"
        }
    }
}
