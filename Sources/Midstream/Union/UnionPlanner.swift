internal import SQLText
internal import SQLiteConnection

/// Plans scans as SQLite would plan them on the whole table: by its keys and indexes, with the costs that SQLite
/// assumes of a table that was never analyzed.
///
/// Source: <https://www.sqlite.org/vtab.html#the_xbestindex_method>.
struct UnionPlanner {
    let table: MovingTable
    let scope: UnionPlan.Scope
    /// Whether every value in the statement is a literal or a parameter. Then numbers may be pushed onto text columns.
    let isSimpleStatement: Bool
    /// Whether a row value may stand before an IN in the statement.
    let hasRowMembership: Bool
    /// See ``QueryTraits/hidesPattern``.
    let hidesPattern: Bool
    /// Whether the statement may say which indexes are used. If it may, and the table has rowids, the scan reads no
    /// other index for the columns in it. Without rowids, SQLite reads a covering index all the same.
    let namesIndexes: Bool
    /// Whether the statement makes one row of all that it reads, so that the order of the rows does not show.
    let isAggregated: Bool
    /// Whether SQLite may take the first row in order as the result of `min()`, even if it is NULL. Since 3.30, SQLite
    /// asks for the NULLs last, but does not tell virtual tables so.
    let mayTakeFirstAsMinimum: Bool
    /// Whether the statement may want only some of the rows.
    let mayEndEarly: Bool
    /// Whether SQLite may use more than the columns that it reports: rowids that are named as such, or keys of a RIGHT
    /// JOIN.
    let usesColumnsUntold: Bool
    /// See ``UnionPlan/mayCompareTextAsNumber``.
    let mayCompareTextAsNumber: Bool

    /// Whether the table has no row at present, as far as that can be told without looking at many rows.
    let hasNoRows: () -> Bool

    /// How many rows SQLite assumes of a table without statistics.
    private static let assumedRows = 1_048_576.0

    func plan(_ info: IndexInfo) throws -> UnionPlan {
        let usable = usableConstraints(info)
        let order = info.order.map {
            UnionPlan.Order(column: normalized($0.column), isDescending: $0.isDescending)
        }
        var best = candidate(usable, along: tablePath, order: order)
        for index in table.target.indexes where index.isPlain {
            let path = path(along: index)
            // A scan by the rowid follows the table itself, not an index.
            if path.terms.first?.column == -1 { continue }
            let other = candidate(usable, along: path, order: order)
            if other.total < best.total { best = other }
        }

        if scope == .whole, !isAggregated, !namesIndexes || !table.key.isRowID,
            best.rows == Self.assumedRows, !best.consumesOrder,
            let index = try table.coveringIndexes.index(for: info.usedColumns)
        {
            let path = path(along: index)
            if path.terms.allSatisfy(canMerge) {
                best.merge = merge(terms: path.terms, alike: [], order: [], follows: true)
                best.indexedColumns = path.columns
            }
        }

        // If a plain table that a join reads in full has no row, SQLite leaves all loops of the join at once. A virtual
        // table without rows ends only its own loop, so that should be the outermost one.
        if scope == .whole, best.rows == Self.assumedRows, hasNoRows() { (best.cost, best.rows) = (1, 1) }

        let isDistinct = info.wantsDistinct && best.consumesOrder && canSkipEqual(order, info.usedColumns)
        if isDistinct { best.merge = .ordered(order, rowIDDescending: false) }
        // For an IN, SQLite makes a scan for each of the values. That pays only if an index finds the values.
        let constraints = use(usable.filter { !$0.isMembership || best.fixed.contains($0.column) }, info)
        if best.consumesOrder { info.setOrderConsumed() }
        if case .lookup = best.merge { info.setUnique() }
        info.setEstimatedCost(best.cost)
        info.setEstimatedRows(Int64(best.rows))
        return UnionPlan(
            scope: scope,
            constraints: constraints,
            merge: best.merge,
            indexedColumns: best.indexedColumns,
            usedColumns: info.usedColumns,
            searchedColumn: best.consumesOrder ? nil : best.firstColumn,
            mayEndEarly: mayEndEarly,
            isAggregated: isAggregated,
            isDistinct: isDistinct,
            mayCompareTextAsNumber: mayCompareTextAsNumber
        )
    }

    /// Makes SQLite hand the values of constraints to the scan.
    private func use(_ used: [Usable], _ info: IndexInfo) -> [UnionPlan.Constraint] {
        used.enumerated().map { position, item in
            let isChecked = item.takesNumbers && !(Self.forgetsRowValues && Self.ranges.contains(item.comparison))
            info.use(constraint: item.index, asArgument: position, isChecked: isChecked)
            return UnionPlan.Constraint(
                column: item.column,
                comparison: item.comparison,
                takesNumbers: item.takesNumbers,
                argument: position
            )
        }
    }

    /// Whether one row may stand for all rows that are equal in the columns of an order: the statement uses no other
    /// column, and equal values of these columns are identical.
    private func canSkipEqual(_ order: [UnionPlan.Order], _ used: UInt64) -> Bool {
        guard scope == .whole, !usesColumnsUntold, table.inner == nil, !table.isReturning, table.condition == nil else {
            return false
        }
        let columns = Set(order.map(\.column))
        guard !columns.contains(-1) else { return false }
        return table.target.columns.indices.allSatisfy { column in
            if !columns.contains(column) { return used & (1 << UInt64(min(column, 63))) == 0 }
            return table.target.columns[column].isUnmistakable && table.sql.columns[column].plain != nil
        }
    }

    // MARK: Constraints

    private struct Usable {
        var index: Int
        var column: Int
        var comparison: IndexInfo.Comparison
        var takesNumbers: Bool
        var isMembership: Bool
    }

    private static let operators: Set<IndexInfo.Comparison> = [
        .equal, .greater, .greaterOrEqual, .less, .lessOrEqual, .isNull, .notDistinct,
    ]

    /// The comparisons after which all rows have the same value in the column.
    private static let fixing: Set<IndexInfo.Comparison> = [.equal, .isNull, .notDistinct]

    private static let ranges: Set<IndexInfo.Comparison> = [.greater, .greaterOrEqual, .less, .lessOrEqual]

    /// SQLite before 3.30 compares only the first column of a row value once the virtual table has checked that column.
    private static let forgetsRowValues = Connection.libraryVersionNumber < 3_030_000

    private func usableConstraints(_ info: IndexInfo) -> [Usable] {
        let patterns = patterns(info)
        return (0..<info.constraintCount).compactMap { index in
            let constraint = info.constraint(at: index)
            guard constraint.isUsable, Self.operators.contains(constraint.comparison) else { return nil }
            let column = normalized(constraint.column)
            let isMembership = constraint.comparison == .equal && info.isMembership(at: index) ?? false
            if column < 0 {
                return Usable(
                    index: index,
                    column: -1,
                    comparison: constraint.comparison,
                    takesNumbers: true,
                    isMembership: isMembership
                )
            }
            guard table.target.columns.indices.contains(column) else { return nil }
            let definition = table.target.columns[column]
            // SQLite itself must compare by a collation other than the column's.
            guard let collation = info.collation(at: index), SQLIdentifier.equal(collation, definition.collation) else {
                return nil
            }
            if mayLoseMatches(constraint.comparison, definition, patterns[column]) { return nil }
            let takesNumbers = definition.affinity.isNumeric || isSimpleStatement
            // For an IN with a subquery, SQLite would forget the subquery's affinity. SQLite reports the columns of a
            // row value before IN as plain comparisons.
            let mayBeMembership = hasRowMembership || info.isMembership(at: index) ?? true
            if !takesNumbers, constraint.comparison == .equal, mayBeMembership { return nil }
            return Usable(
                index: index,
                column: column,
                comparison: constraint.comparison,
                takesNumbers: takesNumbers,
                isMembership: isMembership
            )
        }
    }

    private enum Pattern {
        case told, possible
    }

    /// The columns in which a LIKE or GLOB looks for a pattern, or may look for one.
    private func patterns(_ info: IndexInfo) -> [Int: Pattern] {
        var comparisons: [Int: Set<IndexInfo.Comparison>] = [:]
        for index in 0..<info.constraintCount {
            let constraint = info.constraint(at: index)
            comparisons[constraint.column, default: []].insert(constraint.comparison)
        }
        return comparisons.compactMapValues { found in
            if found.contains(.like) || found.contains(.glob) { return .told }
            return hidesPattern && found.isSuperset(of: [.greaterOrEqual, .less]) ? .possible : nil
        }
    }

    /// Whether SQLite may have made the comparison of a pattern, so that the comparison leaves out values which match.
    /// Of LIKE 'a%', SQLite makes the range from 'A' to 'b'. Blobs are beyond that range, and SQLite looks for them
    /// separately in an index. Numbers are below any text; one of them, infinity, matches GLOB 'I*'.
    private func mayLoseMatches(_ comparison: IndexInfo.Comparison, _ column: TableSchema.Column, _ pattern: Pattern?)
        -> Bool
    {
        switch (pattern, comparison) {
        case (nil, _): false
        case (_, .less): IndexInfo.patternsMatchBlobs
        case (.told, .greaterOrEqual): column.affinity != .text
        default: false
        }
    }

    private func normalized(_ column: Int) -> Int {
        column == table.target.rowIDColumn ? -1 : column
    }

    // MARK: Paths

    /// What a scan follows: an index, or the table itself.
    private struct Path {
        /// The terms by which the entries are ordered, up to those that leave no ties. The rowid is -1, whatever its
        /// name.
        var terms: [TableSchema.Index.Term]
        /// How many of the terms are the index's own. Those of the key come after them.
        var ownCount: Int
        /// Whether no two rows have the same values in the index's own terms.
        var isUnique: Bool
        var isTable: Bool
        /// The columns that the scan can read without going to the table.
        var columns: [Int]
    }

    private var tablePath: Path {
        let terms = table.key.isRowID ? [Self.rowIDTerm] : table.target.primaryKey
        let columns = table.key.isRowID ? [] : Array(table.target.columns.indices)
        return Path(terms: terms, ownCount: terms.count, isUnique: true, isTable: true, columns: columns)
    }

    private func path(along index: TableSchema.Index) -> Path {
        var terms: [TableSchema.Index.Term] = []
        var missing = table.key.isRowID ? [Self.rowIDTerm] : table.target.primaryKey
        for term in index.terms where !missing.isEmpty {
            let column = term.column.map(normalized)
            terms.append(
                TableSchema.Index.Term(column: column, isDescending: term.isDescending, collation: term.collation)
            )
            missing.removeAll {
                $0.column == column && (column == -1 || SQLIdentifier.equal($0.collation, term.collation))
            }
        }
        return Path(
            terms: terms + missing,
            ownCount: terms.count,
            isUnique: index.isUnique,
            isTable: false,
            columns: index.terms.compactMap(\.column).filter { $0 >= 0 }
        )
    }

    private static let rowIDTerm = TableSchema.Index.Term(column: -1, isDescending: false, collation: "BINARY")

    // MARK: Candidates

    private struct Candidate {
        var merge: UnionPlan.Merge
        /// The columns of the index for which a value is given.
        var fixed: [Int]
        var indexedColumns: [Int]
        /// The first column of the index; `nil` if the scan follows the table itself.
        var firstColumn: Int?
        var consumesOrder: Bool
        var cost: Double
        var rows: Double
        /// The cost, with that of sorting the rows if they do not come sorted.
        var total: Double
    }

    private func candidate(_ usable: [Usable], along path: Path, order: [UnionPlan.Order]) -> Candidate {
        let terms = path.terms
        var fixed: [Int] = []
        var alike: Set<Int> = []
        var isLookup = path.isUnique
        for (position, term) in terms.enumerated() {
            guard let column = term.column, hasColumnCollation(term) else { break }
            let matches = usable.filter { $0.column == column && Self.fixing.contains($0.comparison) }
            if matches.isEmpty { break }
            // A unique key may have NULL in several rows.
            let isValue = matches.contains { $0.comparison == .equal && $0.takesNumbers }
            if position < path.ownCount, !isValue { isLookup = false }
            fixed.append(column)
            // As numbers, '1' and '1.0' are equal.
            if matches.contains(where: { $0.takesNumbers || $0.comparison == .isNull }) { alike.insert(column) }
        }
        let isLastUnique = path.isUnique && fixed.count >= path.ownCount
        if isLookup, isLastUnique {
            return Candidate(
                merge: .lookup,
                fixed: fixed,
                indexedColumns: [],
                consumesOrder: !order.isEmpty,
                cost: 12,
                rows: 1,
                total: 12
            )
        }

        let rows = estimatedRows(usable, terms, fixed: fixed.count, isUnique: isLastUnique)
        let isNarrowed = rows < Self.assumedRows
        let wanted = order.filter { !alike.contains($0.column) }
        // Columns for which a value is given that may not make all rows alike. The statement wants these columns in
        // order nevertheless.
        let loose = terms.prefix(fixed.count).filter { term in wanted.contains { $0.column == term.column } }
        let rest = loose + terms.dropFirst(fixed.count)
        let leavesTies = alike.count + loose.count < fixed.count
        let consumes = !order.isEmpty && isConsumed(wanted, terms: rest, leavesTies: leavesTies)
        let merge = merge(terms: rest, alike: alike, order: consumes ? wanted : [], follows: consumes || isNarrowed)
        var cost = path.isTable ? rows * 3 : rows * 4 + 20
        if !path.isTable, !isNarrowed, !consumes { cost = .infinity }
        cost += 10
        let sorting = !order.isEmpty && !consumes ? rows * 10 : 0
        return Candidate(
            merge: merge,
            fixed: fixed,
            indexedColumns: path.columns,
            firstColumn: path.isTable ? nil : terms.first?.column,
            consumesOrder: consumes,
            cost: cost,
            rows: rows,
            total: cost + sorting
        )
    }

    /// How many rows SQLite assumes that a scan finds.
    ///
    /// - Parameters:
    ///   - fixed: For how many of the terms a value is given.
    ///   - isUnique: Whether at most one row has these values.
    private func estimatedRows(_ usable: [Usable], _ terms: [TableSchema.Index.Term], fixed: Int, isUnique: Bool)
        -> Double
    {
        var rows = Self.assumedRows
        if fixed > 0 { rows = isUnique ? 1 : max(2, 11 - Double(fixed)) }
        let bounded = fixed < terms.count ? terms[fixed].column : nil
        if let bounded, hasColumnCollation(terms[fixed]) {
            let comparisons = usable.filter { $0.column == bounded }.map(\.comparison)
            if comparisons.contains(.greater) || comparisons.contains(.greaterOrEqual) { rows /= 4 }
            if comparisons.contains(.less) || comparisons.contains(.lessOrEqual) { rows /= 4 }
            if comparisons.count > 1 { rows /= 4 }
        }
        return max(rows, 1)
    }

    /// Whether the index compares its column as the column itself does.
    private func hasColumnCollation(_ term: TableSchema.Index.Term) -> Bool {
        guard let column = term.column else { return false }
        return column < 0 || SQLIdentifier.equal(term.collation, table.target.columns[column].collation)
    }

    /// Whether a scan along the index gives rows in the given order.
    ///
    /// - Parameters:
    ///   - terms: The terms by which the rows that the scan finds are ordered.
    ///   - leavesTies: Whether rows may be equal in all of these terms.
    private func isConsumed(_ order: [UnionPlan.Order], terms: [TableSchema.Index.Term], leavesTies: Bool) -> Bool {
        var rest = terms[...]
        var isReversed: Bool?
        for wanted in order {
            guard let term = rest.popFirst() else { return !leavesTies }
            guard term.column == wanted.column, canMerge(term) else { return false }
            if mayTakeFirstAsMinimum, order.count == 1, !wanted.isDescending, wanted.column >= 0 { return false }
            let reversed = term.isDescending != wanted.isDescending
            if let isReversed, isReversed != reversed { return false }
            isReversed = reversed
        }
        return true
    }

    private func canMerge(_ term: TableSchema.Index.Term) -> Bool {
        guard let column = term.column, hasColumnCollation(term) else { return false }
        return column < 0 || BuiltInCollation(name: term.collation) != nil
    }

    /// The order of the merge: the order of the index, as far as Midstream can compare the two arms' rows outside
    /// SQLite, and then the order of the table's key. Columns in which all rows are alike are left out.
    private func merge(
        terms: [TableSchema.Index.Term],
        alike: Set<Int>,
        order: [UnionPlan.Order],
        follows: Bool
    ) -> UnionPlan.Merge {
        guard follows else {
            return .ordered(table.key.isRowID ? [] : UnionPlan.keyOrder(of: table.target), rowIDDescending: false)
        }
        let rest = terms.prefix(while: canMerge)
        // SQLite reads an index backwards as a whole, ties included.
        let isReversed =
            rest.first.map { first in order.first.map { $0.isDescending != first.isDescending } ?? false } ?? false
        var columns = rest.map { UnionPlan.Order(column: $0.column ?? -1, isDescending: $0.isDescending != isReversed) }
        if table.key.isRowID {
            let rowID = columns.last?.column == -1 ? columns.removeLast() : nil
            return .ordered(columns, rowIDDescending: rowID?.isDescending ?? isReversed)
        }
        let known = Set(columns.map(\.column))
        columns += UnionPlan.keyOrder(of: table.target, isReversed: isReversed).filter {
            !known.contains($0.column) && !alike.contains($0.column)
        }
        return .ordered(columns, rowIDDescending: false)
    }
}
