internal import SQLText
internal import SQLiteConnection

/// The statements that one plan runs on the two sides of a moving table, kept for the next scan by the same plan.
///
/// Each is a plain statement on one table, so SQLite plans it natively. The first columns of its result are the key and
/// what ``Settled`` says of the row; the columns that the scan uses follow.
///
/// It has more than 15 stored properties: one for each trait of a scan by which its SQL differs.
final class UnionArms {
    /// What an arm reads.
    enum Arm: Int, CaseIterable {
        /// The target's rows.
        case target
        /// The source's rows, with all columns.
        case source
        /// The source's rows, with all columns, when the ledger has entries.
        case sourceWithLedger
        /// The source's rows, with only the columns to merge by. Moved rows stay in the source's indexes, and the scan
        /// passes them without reading their other columns.
        case sourceKeys
        case sourceKeysWithLedger
        /// One row of the target by its key, if it meets the constraints.
        case targetRow
        /// The target's rows after a key, if rows come in the order of keys.
        case targetAfter
        /// One row of the source by its key.
        case sourceRow
        /// How many rows the arms would give.
        case targetCount
        case sourceCount
        case sourceCountWithLedger
        /// The distinct values of the rows, if the scan is asked for nothing else.
        case targetValues
        case sourceValues
        case sourceValuesWithLedger

        var readsTarget: Bool {
            switch self {
            case .target, .targetRow, .targetAfter, .targetCount, .targetValues: true
            default: false
            }
        }

        var isCount: Bool { self == .targetCount || self == .sourceCount || self == .sourceCountWithLedger }

        var isKeysOnly: Bool { self == .sourceKeys || self == .sourceKeysWithLedger }

        var hasLedger: Bool {
            switch self {
            case .sourceWithLedger, .sourceKeysWithLedger, .sourceCountWithLedger, .sourceValuesWithLedger: true
            default: false
            }
        }
    }

    let plan: UnionPlan
    let table: MovingTable
    /// Whether there is a bound to compare keys with: see ``LiveState/bound``.
    let isBounded: Bool
    private let statements: InternalStatements
    private var idle: [[Statement]] = Array(repeating: [], count: Arm.allCases.count)
    /// Where a column stands in the arms' results, by the column's index.
    let slots: [Int]
    /// The columns to merge by: where they stand in the results, and how they compare.
    let mergeTerms: [MergeTerm]
    let rowIDDescending: Bool
    /// How the merge compares two rows.
    let merge: Merge
    /// Whether the scan looks up one row by a unique key.
    let isLookup: Bool
    /// Whether the index has all columns that the scan uses.
    let isCovered: Bool
    /// The columns that the arms read besides the key. Those of the index come first, and `indexedCount` is their
    /// number.
    private let columns: [Int]
    private let indexedCount: Int
    private let mergeColumns: [Int]
    /// For each constraint, the index of its value among the filter's arguments.
    let arguments: [Int]
    /// See ``UnionPlan/rowIDArgument``.
    let rowIDArgument: Int?
    /// See ``UnionPlan/isLikelyCounted``.
    let isLikelyCounted: Bool
    /// Whether some constraint must not be given a number: see ``UnionPlan/Constraint/takesNumbers``.
    let hasTextConstraints: Bool

    struct MergeTerm {
        var slot: Int
        var isDescending: Bool
        var collation: BuiltInCollation
    }

    /// How the merge compares two rows. The common case, by the rowid alone, needs no loop.
    enum Merge {
        case rowID(isDescending: Bool)
        case terms([MergeTerm], rowIDDescending: Bool)
    }

    init(plan: UnionPlan, table: MovingTable, isBounded: Bool, statements: InternalStatements) {
        self.plan = plan
        self.table = table
        self.isBounded = isBounded
        self.statements = statements
        var order: [UnionPlan.Order] = []
        var descends = false
        if case .ordered(let columns, let descending) = plan.merge {
            order = columns.isEmpty ? UnionPlan.keyOrder(of: table.target) : columns
            descends = descending
        }
        rowIDDescending = descends
        isLookup = plan.merge == .lookup
        mergeColumns = order.map(\.column)
        isBoundedByKey = isLookup || mergeColumns == table.key.columns
        arguments = plan.constraints.map(\.argument)
        rowIDArgument = plan.rowIDArgument
        isLikelyCounted = plan.isLikelyCounted
        hasTextConstraints = plan.constraints.contains { !$0.takesNumbers }
        let key = table.key
        func isKey(_ column: Int) -> Bool { column < 0 || key.columns.contains(column) }
        let used = table.target.columns.indices.filter {
            plan.uses($0) && $0 != table.target.rowIDColumn && !isKey($0)
        }
        var columns = order.map(\.column).filter { !isKey($0) }
        columns += used.filter { plan.indexedColumns.contains($0) && !columns.contains($0) }
        indexedCount = columns.count
        columns += used.filter { !columns.contains($0) }
        isCovered = columns.count == indexedCount
        self.columns = columns
        var slots = Array(repeating: plan.isDistinct ? -1 : 0, count: table.target.columns.count)
        if plan.isDistinct {
            for (offset, term) in order.enumerated() { slots[term.column] = offset }
        } else {
            for (offset, column) in columns.enumerated() { slots[column] = key.count + 1 + offset }
            for (offset, column) in key.columns.enumerated() { slots[column] = offset }
        }
        self.slots = slots
        let mergeTerms = order.map { term in
            let collation = term.column < 0 ? nil : BuiltInCollation(name: table.target.columns[term.column].collation)
            return MergeTerm(
                slot: term.column < 0 ? 0 : slots[term.column],
                isDescending: term.isDescending,
                collation: collation ?? .binary
            )
        }
        self.mergeTerms = mergeTerms
        following =
            isLookup || mergeColumns != key.columns
            ? nil : key.following(order.isEmpty ? [descends] : order.map(\.isDescending))
        merge = mergeTerms.isEmpty ? .rowID(isDescending: descends) : .terms(mergeTerms, rowIDDescending: descends)
    }

    /// An idle statement of the arm, or a new one. Give it back when the scan is over.
    func take(_ arm: Arm) throws -> Statement {
        if let statement = idle[arm.rawValue].popLast() { return statement }
        // The statement's text was made for the source as it was then.
        if !arm.readsTarget { try table.knownSource.confirm() }
        return try statements.prepare(text(of: arm))
    }

    func giveBack(_ statement: Statement, _ arm: Arm) {
        statement.reset()
        statement.clearBindings()
        idle[arm.rawValue].append(statement)
    }

    /// Lets the idle statements go; the next scan prepares its own.
    func removeIdle() {
        for index in idle.indices { idle[index].removeAll() }
    }

    /// The number of the parameter after those of the constraints. Its value is the smallest key that may be pending,
    /// the key of the one row that is sought, or the key after which rows are sought.
    var extraParameter: Int { plan.constraints.count + 1 }

    /// Whether the arm's own statement leaves out keys below the lower bound. If rows come in the order of other
    /// columns, it must not: SQLite would read on and on for a row that is pending. The merge drops such rows one at a
    /// time instead.
    let isBoundedByKey: Bool

    /// How the keys of later rows compare with the present one; `nil` if rows do not come in the order of keys.
    let following: KeySQL.Comparison?

    private func text(of arm: Arm) -> String {
        if plan.isDistinct { return textOfValues(arm) }
        let isPending =
            arm.readsTarget || isLookup || arm == .sourceRow ? [] : pendingTerms(hasLedger: arm.hasLedger)
        let results = arm.isCount ? [count(arm)] : results(of: arm, where: isPending)
        let terms = terms(of: arm, where: isPending)
        let from = arm.readsTarget ? table.targetRelation(plan.scope) : table.sql.source
        var text = "SELECT \(results.joined(separator: ", ")) FROM \(from)"
        if !terms.isEmpty { text += " WHERE " + terms.joined(separator: " AND ") }
        if arm == .targetRow || arm == .sourceRow || arm.isCount { return text }
        if isLookup { return text + " LIMIT 1" }
        var order = zip(mergeColumns, mergeTerms).filter { $0.0 >= 0 }.map { column, term in
            operand(column, of: arm, where: isPending) + (term.isDescending ? " DESC" : "")
        }
        if table.key.isRowID { order.append(keyNames(of: arm)[0] + (rowIDDescending ? " DESC" : "")) }
        return text + " ORDER BY " + order.joined(separator: ", ")
    }

    private func keyNames(of arm: Arm) -> [String] { arm.readsTarget ? table.key.target : table.key.source }

    /// Whether an arm subtracts the number of the ledger's entries from its count.
    private func subtractsLedger(_ arm: Arm) -> Bool {
        // If there are no constraints, all that the ledger has is among the counted rows, unless rows return.
        arm.isCount && arm.hasLedger && plan.constraints.isEmpty && !table.isReturning
    }

    private func count(_ arm: Arm) -> String {
        guard subtractsLedger(arm) else { return "count(*)" }
        // If keys are rowids, the scan's lower bound may lie beyond the watermark. Then fewer of the ledger's entries
        // are among the counted rows.
        let settled = table.key.isRowID ? " WHERE key >= ?\(extraParameter)" : ""
        return "count(*) - (SELECT count(*) FROM \(table.sql.ledger)\(settled))"
    }

    /// The results that an arm selects of a row.
    private func results(of arm: Arm, where isPending: [String]) -> [String] {
        let selected = arm.isKeysOnly ? columns.prefix(indexedCount) : columns[...]
        let settled = arm.readsTarget || isLookup ? "0" : settled(hasLedger: arm.hasLedger)
        return keyNames(of: arm) + [settled]
            + selected.map { column in
                if arm.readsTarget { return table.quotedColumns[column] }
                let mapped = table.sql.columns[column]
                return mapped.mayFail ? Self.evaluating(mapped.value, where: isPending) : mapped.value
            }
    }

    /// A column as constraints and ORDER BY need it.
    private func operand(_ column: Int, of arm: Arm, where isPending: [String]) -> String {
        if arm.readsTarget { return table.quotedColumns[column] }
        let mapped = table.sql.columns[column]
        // An expression that is in an index has failed on no row. And a plain column of the source compares by its own
        // affinity.
        guard mapped.mayFail, mapped.plain == nil, !table.hasIndexedExpressions else { return mapped.operand }
        let collation = SQLIdentifier.quoted(table.target.columns[column].collation)
        return Self.evaluating(mapped.value, where: isPending) + " COLLATE \(collation)"
    }

    /// Which rows an arm gives.
    private func terms(of arm: Arm, where isPending: [String]) -> [String] {
        let key = table.key
        let keyNames = keyNames(of: arm)
        var terms: [String] = []
        if arm == .sourceRow {
            terms.append(key.equals(keyNames, key.parameters(from: 1)))
        } else {
            terms += plan.constraints.enumerated().map { offset, constraint in
                let parameter = "?\(offset + 1)"
                if constraint.column < 0 { return "\(keyNames[0]) \(symbol(constraint.comparison)) \(parameter)" }
                let other = arm.readsTarget ? parameter : table.sql.columns[constraint.column].converted(parameter)
                return
                    "\(operand(constraint.column, of: arm, where: isPending)) \(symbol(constraint.comparison)) \(other)"
            }
        }
        if arm == .targetRow { terms.append(key.equals(keyNames, key.parameters(from: extraParameter))) }
        if arm == .targetAfter, let following {
            terms.insert(key.compares(keyNames, following, key.parameters(from: extraParameter)), at: 0)
        }
        if arm == .source || arm == .sourceWithLedger || arm.isKeysOnly {
            // This term comes first, since SQLite seeks by the first of several lower bounds: see
            // `UnionCursor.firstKey`.
            if isBounded, isBoundedByKey { terms.insert(table.sql.isBeyond(extraParameter), at: 0) }
            if arm.hasLedger, isLookup { terms.append("NOT \(table.sql.isSettled)") }
        }
        if arm.isCount, !arm.readsTarget {
            if isBounded {
                // Of two ways to find the rows, SQLite must take the index that the plan follows.
                terms.append(table.sql.isBeyond(extraParameter, isIndexed: isBoundedByKey))
            }
            if arm.hasLedger, !subtractsLedger(arm) { terms.append("NOT \(table.sql.isSettled)") }
        }
        // An arm that reads only keys lacks the columns of the condition. The condition is checked when the row is
        // fetched by its key.
        if arm.isKeysOnly { terms += key.belongingUnsought }
        if !arm.readsTarget, !arm.isKeysOnly, !table.sql.condition.isEmpty {
            terms.append(String(table.sql.condition.dropFirst(5)))
        }
        return terms
    }

    /// The terms that hold for the source's pending rows, as far as the arm's own statement does not leave out other
    /// rows.
    private func pendingTerms(hasLedger: Bool) -> [String] {
        (isBounded ? [table.sql.isBeyond(extraParameter, isIndexed: false)] : [])
            + (hasLedger ? ["NOT \(table.sql.isSettled)"] : [])
    }

    /// An expression that SQLite evaluates only on rows that meet the terms. It may fail on a row that has been deleted
    /// or set aside.
    private static func evaluating(_ value: String, where terms: [String]) -> String {
        terms.isEmpty ? value : "CASE WHEN \(terms.joined(separator: " AND ")) THEN \(value) END"
    }

    /// The text of an arm that gives distinct values. SQLite finds each side's values once, by an index if it can.
    private func textOfValues(_ arm: Arm) -> String {
        let isTarget = arm.readsTarget
        func name(_ column: Int) -> String {
            isTarget ? table.quotedColumns[column] : table.sql.columns[column].operand
        }
        var terms = plan.constraints.enumerated().map { offset, constraint in
            "\(name(constraint.column)) \(symbol(constraint.comparison)) ?\(offset + 1)"
        }
        if !isTarget, isBounded { terms.append(table.sql.isBeyond(extraParameter, isIndexed: false)) }
        if arm == .sourceValuesWithLedger { terms.append("NOT \(table.sql.isSettled)") }
        let values = mergeColumns.map(name)
        let order = zip(values, mergeTerms).map { $0 + ($1.isDescending ? " DESC" : "") }
        return
            "SELECT DISTINCT \(KeySQL.list(values)) FROM \(isTarget ? table.targetRelation(plan.scope) : table.sql.source)"
            + (terms.isEmpty ? "" : " WHERE " + terms.joined(separator: " AND "))
            + " ORDER BY \(KeySQL.list(order))"
    }

    /// What the source's arms say of a row that is not pending. The value 1 means that the ledger has the row.
    enum Settled {
        /// The row is behind the watermark. If the key is the rowid, the cursor makes this comparison instead.
        static let passed: Int64 = 2
    }

    /// Whether a source's row is settled, as far as the arm's own statement does not leave out such rows.
    private func settled(hasLedger: Bool) -> String {
        let inLedger = hasLedger ? "(\(table.sql.isSettled))" : "0"
        guard isBounded, !isBoundedByKey, !table.key.isRowID else { return inLedger }
        return "CASE WHEN \(table.sql.isBeyond(extraParameter)) THEN \(inLedger) ELSE \(Settled.passed) END"
    }

    private func symbol(_ comparison: IndexInfo.Comparison) -> String {
        switch comparison {
        case .equal: "="
        case .greater: ">"
        case .greaterOrEqual: ">="
        case .less: "<"
        case .lessOrEqual: "<="
        // The value may be NULL. Every constraint has a parameter, so that the parameters keep their numbers.
        default: "IS"
        }
    }
}
