internal import SQLiteConnection

/// A scan of a moving table: the rows of the target and the pending rows of the source, merged.
///
/// The cursor reads where rows are when the scan begins, in the transaction of the statement that runs the scan. While the scan
/// goes on, only this connection can promote rows that the scan sees: see ``RecentPromotions``.
///
/// The cursor's state is exempt from Swift's checks of exclusive access, which would take a tenth of a scan's time: a cursor
/// belongs to one thread, and no access to its state runs code that may reach that state again. Its many stored properties have
/// no objects in their place, since SQLite asks the cursor for each column of each row.
final class UnionCursor: VirtualTableCursor {
    let table: MovingTable
    let union: UnionTable
    private let scope: UnionPlan.Scope
    /// Whether the scan reads other rows than the source's.
    private let hasTarget: Bool

    @exclusivity(unchecked) var arms: UnionArms?
    /// The arms' statements that this cursor has taken.
    @exclusivity(unchecked) var opened: [(arm: UnionArms.Arm, statement: Statement)] = []
    /// The next rows of the two sides; `nil` for a side that has none left.
    @exclusivity(unchecked) var target: RowReader?
    @exclusivity(unchecked) var source: RowReader?
    /// The statement that the current row is read from.
    @exclusivity(unchecked) var current: RowReader?
    @exclusivity(unchecked) var isCurrentFromTarget = false
    /// Whether the scan gives each distinct value once, in place of the rows.
    @exclusivity(unchecked) private var isOfValues = false
    /// How many rows the scan has given.
    @exclusivity(unchecked) private var given = 0
    @exclusivity(unchecked) private var isSourceKeysOnly = false
    /// See ``LiveState``.
    @exclusivity(unchecked) private var lower = Int64.min
    @exclusivity(unchecked) var bound: RowKey?
    @exclusivity(unchecked) var merge: UnionArms.Merge = .rowID(isDescending: false)

    @exclusivity(unchecked) private var birth: UInt64 = 0
    @exclusivity(unchecked) private var isCounted = false
    @exclusivity(unchecked) private var rollbacksAtBirth = 0
    /// The key of the last row that came from the target; a rollback could bring this row back to the source.
    @exclusivity(unchecked) private var lastTargetKey: RowKey?

    /// How much the connection had written when the scan first gave a row of the source while the target's next row was read
    /// ahead; `nil` if the target's next row has only just been read.
    @exclusivity(unchecked) private var writesBeforeTarget: Writes?
    /// Whether other code may have rolled something back since, which nothing reports: see ``InternalStatements/isBorrowed``.
    @exclusivity(unchecked) private var mayHaveRolledBack = false

    /// Set once a scan only counts, because the statement asked for no column: how many rows are left, and how many have been
    /// passed.
    @exclusivity(unchecked) var count: (left: Int64, passed: Int64)?
    /// How many rows the statement has passed without looking at any; not counted further once that no longer matters: see
    /// ``countRest(_:)``.
    @exclusivity(unchecked) var unseen = 0
    @exclusivity(unchecked) var isSeen = false
    /// The filter's arguments, and how much the connection had written then; `nil` if the scan can only go on as it began.
    @exclusivity(unchecked) var kept: (arguments: KeptValues, writes: Writes)?

    /// A measure of how much the connection has written.
    struct Writes: Equatable {
        var changes: Int64
        var rollbacks: Int
    }

    var writes: Writes {
        Writes(changes: table.connection.totalChanges, rollbacks: table.statements.rollbacks)
    }

    init(table: UnionTable, scope: UnionPlan.Scope) {
        union = table
        self.table = table.table
        self.scope = scope
        hasTarget = scope == .whole || table.table.inner != nil
    }

    /// Begins to serve a statement. The cursor may have served another statement before.
    func reopen() { table.openCursors += 1 }

    override func close() {
        endScan()
        for index in opened.indices { opened[index].statement.clearBindings() }
        table.openCursors -= 1
        union.keep(self)
    }

    /// Gives the statements back to the arms.
    func release() {
        guard let arms else { return }
        for (arm, statement) in opened { arms.giveBack(statement, arm) }
        opened.removeAll(keepingCapacity: true)
        self.arms = nil
        union.noteIdle(arms)
    }

    /// Ends the scan. The cursor keeps the arms' statements for the next scan by the same plan, as in the inner loop of a join.
    func endScan() {
        for index in opened.indices { opened[index].statement.reset() }
        target = nil
        source = nil
        current = nil
        count = nil
        unseen = 0
        isSeen = false
        given = 0
        kept = nil
        isOfValues = false
        lower = .min
        bound = nil
        lastTargetKey = nil
        writesBeforeTarget = nil
        if isCounted {
            isCounted = false
            table.recent.cursorClosed()
        }
    }

    // MARK: Beginning

    override func filter(plan number: Int, arguments: ValueReferences) throws {
        do {
            try begin(number, arguments)
        } catch let error as SQLiteError where error.code == .readOnlyRollback {
            // A process has died while it wrote the source.
            guard let rollBackJournals = table.statements.rollBackJournals else { throw error }
            try rollBackJournals()
            try begin(number, arguments)
        }
    }

    private func begin(_ number: Int, _ arguments: ValueReferences) throws {
        union.noteBegun()
        let next = try chosenArms(number, arguments)
        endScan()
        if next !== arms {
            release()
            arms = next
        }
        isAtEnd = false
        isCurrentFromTarget = false
        if next.isLookup { return try lookUp(next, arguments) }
        isOfValues = next.plan.isDistinct
        // If the statement gives a row for each row of the scan, a loop over the statement may write between two of them.
        let isCountable = next.isLikelyCounted && (!table.statements.canPromote || union.isOfOneRow(next.plan))
        if isOfValues && table.statements.canPromote || isCountable {
            kept = try (KeptValues(arguments), writes)
        }
        if isOfValues { try scanValues(next, arguments) } else { try scan(next, arguments) }
    }

    /// The arms of the plan. If a value's type would make the arms compare otherwise than SQLite does, the arms of a plan without
    /// the constraints on that value.
    private func chosenArms(_ number: Int, _ arguments: ValueReferences) throws -> UnionArms {
        let arms = try union.arms(number)
        guard arms.hasTextConstraints else { return arms }
        var dropped: Set<Int> = []
        for constraint in arms.plan.constraints where !constraint.takesNumbers {
            let value = arguments[constraint.argument]
            switch value.storageClass {
            case .integer, .real:
                if constraint.comparison == .equal { try union.admitNumber() }
                dropped.insert(constraint.argument)
            // The value comes from a column of numbers, for which text that looks like a number is less than any other text.
            case .text where constraint.comparison == .less || constraint.comparison == .lessOrEqual:
                dropped.insert(constraint.argument)
            // The value may come from a compound's column of numbers. The compound has not converted it, but SQLite's comparison
            // does.
            case .text where value.beginsLikeNumber:
                if try arms.plan.mayCompareTextAsNumber || union.comparesTextAsNumber() {
                    dropped.insert(constraint.argument)
                }
            default: break
            }
        }
        return dropped.isEmpty ? arms : try union.arms(arms.plan.dropping(dropped))
    }

    func open(_ arm: UnionArms.Arm, _ arms: UnionArms, _ arguments: ValueReferences) throws -> Statement {
        let statement = try take(arm, arms)
        for (offset, argument) in arms.arguments.enumerated() {
            try statement.bind(arguments[argument], at: offset + 1)
        }
        return statement
    }

    private func take(_ arm: UnionArms.Arm, _ arms: UnionArms) throws -> Statement {
        for index in opened.indices where opened[index].arm == arm { return opened[index].statement }
        let statement = try arms.take(arm)
        opened.append((arm, statement))
        return statement
    }

    /// Finds the one row that has a unique key. The rowid tells which side has the row, except for new rows.
    private func lookUp(_ arms: UnionArms, _ arguments: ValueReferences) throws {
        let state = try table.state()
        var asksSourceFirst = false
        var asksSource = state.lowerBound != nil
        if let argument = arms.rowIDArgument, arguments[argument].storageClass == .integer {
            let key = arguments[argument].int64
            asksSource = try state.lowerBound.map { try key >= $0 && key <= table.largestSourceKey() ?? .min } ?? false
            asksSourceFirst = asksSource
        }
        if asksSourceFirst, try lookUpInSource(arms, arguments, state) { return }
        if hasTarget {
            let row = RowReader(try open(.target, arms, arguments))
            if try row.step() {
                current = row
                return
            }
        }
        if asksSource, !asksSourceFirst, try lookUpInSource(arms, arguments, state) { return }
        isAtEnd = true
    }

    private func lookUpInSource(_ arms: UnionArms, _ arguments: ValueReferences, _ state: LiveState) throws -> Bool {
        guard state.lowerBound != nil else { return false }
        let statement = try open(state.hasLedger ? .sourceWithLedger : .source, arms, arguments)
        if arms.isBounded { try state.bindBound(statement, at: arms.extraParameter) }
        guard let row = try begin(statement) else { return false }
        current = row
        return true
    }

    /// Steps a source's statement to its first row, and confirms the source if SQLite prepared the statement again.
    ///
    /// - Returns: `nil` if there is no row.
    func begin(_ statement: Statement) throws -> RowReader? {
        let row = RowReader(statement)
        let hasRow = try row.begin()
        if statement.takePreparedAnew() { try table.knownSource.confirm() }
        return hasRow ? row : nil
    }

    func scan(_ arms: UnionArms, _ arguments: ValueReferences) throws {
        let state = try table.state()
        merge = arms.merge
        if hasTarget {
            let row = RowReader(try open(.target, arms, arguments))
            target = try row.step() ? row : nil
        }
        if let lower = state.lowerBound {
            self.lower = lower
            bound = state.bound
            if scope == .whole, table.statements.canPromote {
                birth = table.recent.cursorOpened()
                isCounted = true
                rollbacksAtBirth = table.statements.rollbacks
                _ = try open(.targetRow, arms, arguments)
                if arms.following != nil { _ = try open(.targetAfter, arms, arguments) }
            }
            isSourceKeysOnly =
                !arms.isBoundedByKey && (lower != .min || !table.key.isRowID && bound != nil || state.hasLedger)
                && !(arms.isCovered && table.condition == nil)
            let arm: UnionArms.Arm =
                switch (isSourceKeysOnly, state.hasLedger) {
                case (false, false): .source
                case (false, true): .sourceWithLedger
                case (true, false): .sourceKeys
                case (true, true): .sourceKeysWithLedger
                }
            let statement = try open(arm, arms, arguments)
            if !table.key.isRowID {
                if arms.isBounded { try state.bindBound(statement, at: arms.extraParameter) }
            } else if arms.isBoundedByKey {
                try statement.bind(firstKey(arms, arguments, lower), at: arms.extraParameter)
            } else if arms.isBounded, statement.parameterCount >= arms.extraParameter {
                try statement.bind(lower, at: arms.extraParameter)
            }
            source = try begin(statement)
        }
        try settle()
    }

    /// The key to seek first: the smallest key that can be pending and that meets the lower bounds among the constraints.
    private func firstKey(_ arms: UnionArms, _ arguments: ValueReferences, _ lower: Int64) -> Int64 {
        var first = lower
        for constraint in arms.plan.constraints where constraint.column == -1 {
            guard constraint.comparison == .greater || constraint.comparison == .greaterOrEqual else { continue }
            let value = arguments[constraint.argument]
            if value.storageClass == .integer { first = max(first, value.int64) }
        }
        return first
    }

    // MARK: Going on

    override func next() throws {
        if isOfValues { return try nextValues() }
        if let counted = count {
            count = (counted.left - 1, counted.passed + 1)
            isAtEnd = counted.left <= 1
            return
        }
        if let kept, !isSeen {
            unseen += 1
            if let arms, unseen == patience(arms), kept.writes == writes, try countRest(kept.arguments.references) {
                return
            }
        }
        try advance()
    }

    func advance() throws {
        if isCurrentFromTarget {
            try stepTarget()
        } else if let source {
            try seekTarget(behind: source)
            if try !source.step() { self.source = nil }
        } else {
            // The cursor is at the row of a lookup, and a lookup has one row.
            isAtEnd = true
            return
        }
        try settle()
    }

    private func noteWrites() {
        writesBeforeTarget = writes
        mayHaveRolledBack = table.statements.isBorrowed && table.connection.isInTransaction
    }

    private func stepTarget() throws {
        writesBeforeTarget = nil
        if let target, try !target.step() { self.target = nil }
    }

    /// Reads the target's rows again, from behind the source's row that was given last. This is needed if the loop that reads may
    /// have made rows that come before the row read ahead, or brought some back.
    private func seekTarget(behind source: RowReader) throws {
        guard let writesBeforeTarget, writesBeforeTarget != writes else { return }
        guard let arms, arms.following != nil else { return }
        let statement = try take(.targetAfter, arms)
        statement.reset()
        try statement.bind(table.key.read(source), at: arms.extraParameter)
        self.writesBeforeTarget = nil
        let row = RowReader(statement)
        target = try row.step() ? row : nil
    }

    /// How many of the source's rows that have moved `settle` passes at most before it looks again which side's row comes first.
    private static let mostEagerPasses = 32

    /// The limit at present. It is low as long as the scan has given few rows, since these may be all that the statement wants.
    private var eagerPasses: Int { min(Self.mostEagerPasses, given / 4) }

    /// Finds the next row of the scan: of the two sides' rows the one that comes first in order, unless that row has gone.
    private func settle() throws {
        given += 1
        while true {
            if let source {
                // The keys alone identify most rows that have moved.
                if source.int64(at: 0) < lower {
                    var passes = eagerPasses
                    var isLeft = true
                    while isLeft, passes > 0, source.int64(at: 0) < lower {
                        isLeft = try source.step()
                        passes -= 1
                    }
                    if !isLeft {
                        self.source = nil
                        continue
                    }
                }
                guard let target, comesFirst(target, source) else {
                    if try takeSourceRow(source) {
                        isCurrentFromTarget = false
                        if isCounted, writesBeforeTarget == nil { noteWrites() }
                        return
                    }
                    if try !source.step() { self.source = nil }
                    continue
                }
            }
            guard let target else { break }
            // The source's side gives this row, since the row was in the source when the scan began.
            let isGivenBySource = isCounted && table.recent.contains(foldedKey(target), since: birth)
            if try isGivenBySource || !takeTargetRow(target) {
                try stepTarget()
                continue
            }
            isCurrentFromTarget = true
            if isCounted { lastTargetKey = foldedKey(target) }
            return
        }
        isAtEnd = true
    }

    private func comesFirst(_ target: RowReader, _ source: RowReader) -> Bool {
        let order = order(target, source)
        if order != 0 { return order < 0 }
        let isDescending =
            switch merge {
            case .rowID(let descends), .terms(_, let descends): descends
            }
        let (targetKey, sourceKey) = (target.int64(at: 0), source.int64(at: 0))
        return targetKey == sourceKey || (targetKey < sourceKey) != isDescending
    }

    /// Less than 0 if the target's row comes first by the terms of the merge, greater than 0 if the source's row does, else 0.
    func order(_ target: RowReader, _ source: RowReader) -> Int {
        guard case .terms(let terms, _) = merge else { return 0 }
        return Self.order(target, terms, source, terms)
    }

    static func order(
        _ left: RowReader,
        _ leftTerms: [UnionArms.MergeTerm],
        _ right: RowReader,
        _ rightTerms: [UnionArms.MergeTerm]
    ) -> Int {
        for (index, term) in leftTerms.enumerated() {
            let order = left.compare(
                column: term.slot,
                with: right,
                column: rightTerms[index].slot,
                collation: term.collation
            )
            if order != 0 { return (order < 0) != term.isDescending ? -1 : 1 }
        }
        return 0
    }

    /// Makes the target's row, as it is now, the current one.
    ///
    /// - Returns: `false` if the loop that reads has, since the row was read ahead, deleted the row, changed its place in the
    ///   order, or rolled back the statement that made it.
    private func takeTargetRow(_ target: RowReader) throws -> Bool {
        guard let before = writesBeforeTarget, before != writes || mayHaveRolledBack else {
            current = target
            return true
        }
        guard try fetch(.targetRow, target), let current else { return false }
        return order(current, target) == 0
    }

    /// Makes the source's row the current one.
    ///
    /// - Returns: `false` if the scan does not give the row: it is no longer pending, has gone, or has been given from the
    ///   target.
    private func takeSourceRow(_ source: RowReader) throws -> Bool {
        if source.int64(at: 0) < lower { return false }
        let settled = source.int64(at: table.key.count)
        if settled == UnionArms.Settled.passed { return false }
        if isCounted, table.recent.contains(foldedKey(source), since: birth), try isSettled(source) {
            // The row was promoted after the scan began: it stays in its place, with the values that it has now.
            return try fetch(.targetRow, source)
        }
        let isRolledBack =
            isCounted && (table.statements.isBorrowed || table.statements.rollbacks != rollbacksAtBirth)
        if isRolledBack, foldedKey(source) == lastTargetKey { return false }
        // What was read ahead may no longer hold after a rollback.
        if settled != 0, try !isRolledBack || isSettled(source) { return false }
        // A scan that finds rows to promote promotes them as it goes.
        if scope == .pending, try isSettled(source) { return false }
        if isSourceKeysOnly { return try fetch(.sourceRow, source) }
        current = source
        return true
    }

    private func foldedKey(_ row: RowReader) -> RowKey { table.key.folded(table.key.read(row)) }

    /// Whether the ledger has a row of the source now.
    private func isSettled(_ row: RowReader) throws -> Bool {
        let statement = try table.statement(table.isInLedger)
        defer { statement.reset() }
        try statement.bind(table.key.read(row), at: 1)
        return try statement.step()
    }

    private func fetch(_ arm: UnionArms.Arm, _ row: RowReader) throws -> Bool {
        guard let arms else { return false }
        let statement = try take(arm, arms)
        statement.reset()
        try statement.bind(table.key.read(row), at: arm == .targetRow ? arms.extraParameter : 1)
        let found = RowReader(statement)
        guard try found.step() else { return false }
        current = found
        return true
    }

    // MARK: The current row

    override func column(_ index: Int, to result: ResultContext) throws {
        try resumeScan()
        guard let current, let arms else { return }
        let slot = arms.slots[index]
        if slot < 0 { throw Self.hasValuesAlone("column \(index)") }
        result.set(column: slot, of: current)
    }

    override func rowID() throws -> Int64 {
        if isOfValues { throw Self.hasValuesAlone("a rowid") }
        try resumeScan()
        return current?.int64(at: 0) ?? 0
    }

    private static func hasValuesAlone(_ asked: String) -> SQLiteError {
        SQLiteError(code: .error, message: "internal error: a scan of distinct values cannot give \(asked)")
    }
}
