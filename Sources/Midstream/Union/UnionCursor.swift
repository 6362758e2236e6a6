internal import SQLiteConnection

/// A scan of a moving table: the rows of the target and the pending rows of the source, merged.
///
/// Where a row is, is read when the scan begins, in the transaction of the statement that runs it. Only this connection
/// can promote rows while the scan goes on: see ``RecentPromotions``.
///
/// Its state is exempt from Swift's checks of exclusive access, which would take a tenth of a scan's time: a cursor belongs
/// to one thread, and no access to its state runs code that may reach it again.
final class UnionCursor: VirtualTableCursor {
    let table: MovingTable
    let union: UnionTable
    private let scope: UnionPlan.Scope

    /// Whether there are rows besides the source's.
    private let hasTarget: Bool

    @exclusivity(unchecked) var arms: UnionArms?
    /// The arms' statements that this cursor has.
    @exclusivity(unchecked) var opened: [(arm: UnionArms.Arm, statement: Statement)] = []
    /// The two sides' rows; `nil` for a side that has none left.
    @exclusivity(unchecked) var target: RowReader?
    @exclusivity(unchecked) var source: RowReader?
    /// Where the current row is read from.
    @exclusivity(unchecked) var current: RowReader?
    @exclusivity(unchecked) var isCurrentFromTarget = false
    /// Whether each of the values that rows have is given once.
    @exclusivity(unchecked) private var isOfValues = false
    /// The rows that the scan has given.
    @exclusivity(unchecked) private var given = 0
    @exclusivity(unchecked) private var isSourceKeysOnly = false
    /// See ``LiveState``.
    @exclusivity(unchecked) private var lower = Int64.min
    @exclusivity(unchecked) var bound: RowKey?
    @exclusivity(unchecked) var merge: UnionArms.Merge = .rowID(isDescending: false)

    @exclusivity(unchecked) private var birth: UInt64 = 0
    @exclusivity(unchecked) private var isCounted = false
    @exclusivity(unchecked) private var rollbacksAtBirth = 0
    /// The key of the last row that came from the target, where a rollback could bring it back to the source.
    @exclusivity(unchecked) private var lastTargetKey: RowKey?

    /// What the connection had written when a row of the source was first given before the target's row, which has been read
    /// ahead; `nil` where that has just been read.
    @exclusivity(unchecked) private var writesBeforeTarget: Writes?
    /// Whether something may have been rolled back since, of which nobody tells: see ``InternalStatements/isBorrowed``.
    @exclusivity(unchecked) private var mayHaveRolledBack = false

    /// A scan that was asked for nothing but how many rows there are: those that are left, and those behind.
    @exclusivity(unchecked) var count: (left: Int64, passed: Int64)?
    /// The rows that were passed without a look at any, as far as that is of interest: see ``countRest()``.
    @exclusivity(unchecked) var unseen = 0
    @exclusivity(unchecked) var isSeen = false
    /// The filter's arguments, where the scan may go on in another way, and what the connection had written then.
    @exclusivity(unchecked) var kept: (arguments: KeptValues, writes: Writes)?

    /// How much the connection has written.
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

    /// Begins to serve a statement; the cursor may have served another.
    func reopen() { table.openCursors += 1 }

    override func close() {
        endScan()
        for index in opened.indices { opened[index].statement.clearBindings() }
        table.openCursors -= 1
        union.keep(self)
    }

    /// Gives the statements back.
    func release() {
        guard let arms else { return }
        for (arm, statement) in opened { arms.giveBack(statement, arm) }
        opened.removeAll(keepingCapacity: true)
        self.arms = nil
        union.noteIdle(arms)
    }

    /// Ends the scan; its statements stay for the next one by the same plan, as in the inner loop of a join.
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
            // A process has died as it wrote the source.
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
        // Where a statement gives a row for each of the scan's, a loop that writes may come between two of them.
        let isCountable = next.isLikelyCounted && (next.plan.isAggregated || !table.statements.canPromote)
        if isOfValues && table.statements.canPromote || isCountable {
            kept = try (KeptValues(arguments), writes)
        }
        if isOfValues { try scanValues(next, arguments) } else { try scan(next, arguments) }
    }

    /// The plan's arms; those of a plan with fewer constraints when a value is of a type that the arms would compare
    /// otherwise than SQLite does.
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
            // Of a column of numbers, in which text that looks like one would be less than any text.
            case .text where constraint.comparison == .less || constraint.comparison == .lessOrEqual:
                dropped.insert(constraint.argument)
            // Of a column of numbers that is a compound's, which has not converted it: the comparison does.
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

    /// Finds the one row that has a unique key. By the rowid it is clear, but for new rows, which side has it.
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

    /// Begins to read rows of the source.
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

    /// The smallest key that can be pending and meets the constraints, as far as they tell: the key to seek.
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
            // A lookup has one row.
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

    /// Reads the target's side anew from behind the source's row, which was given last, where the loop that reads may have made
    /// rows before the one that has been read ahead, or brought some back.
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

    /// How many rows of the source that have moved are passed at once, at most, before it is seen whether they come first.
    private static let mostEagerPasses = 32

    /// The same by now: few as long as the scan has given few rows, which may be all that are wanted.
    private var eagerPasses: Int { min(Self.mostEagerPasses, given / 4) }

    /// Finds the row that comes next: of the two sides' rows the one that is first in order, unless it has gone.
    private func settle() throws {
        given += 1
        while true {
            if let source {
                // Most rows that have moved are known by their keys alone.
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
            // The source's side gives it, since it was there when the scan began.
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

    /// Less than 0 where the target's row comes first by the terms of the merge, more where the source's does.
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

    /// Makes the target's row the current one, as it is by now; `false` when the loop that reads has deleted it since it was
    /// read ahead, given it another place, or rolled back what had made it.
    private func takeTargetRow(_ target: RowReader) throws -> Bool {
        guard let before = writesBeforeTarget, before != writes || mayHaveRolledBack else {
            current = target
            return true
        }
        guard try fetch(.targetRow, target), let current else { return false }
        return order(current, target) == 0
    }

    /// Makes the source's row the current one; `false` when it is not in the source any more.
    private func takeSourceRow(_ source: RowReader) throws -> Bool {
        if source.int64(at: 0) < lower { return false }
        let settled = source.int64(at: table.key.count)
        if settled == UnionArms.Settled.passed { return false }
        if isCounted, table.recent.contains(foldedKey(source), since: birth), try isSettled(source) {
            // It was promoted after the scan began: it stays in its place, with the values that it has by now.
            return try fetch(.targetRow, source)
        }
        let isRolledBack =
            isCounted && (table.statements.isBorrowed || table.statements.rollbacks != rollbacksAtBirth)
        if isRolledBack, foldedKey(source) == lastTargetKey { return false }
        // What was read ahead may not hold after a rollback.
        if settled != 0, try !isRolledBack || isSettled(source) { return false }
        // The scan that finds rows to promote promotes them as it goes.
        if scope == .pending, try isSettled(source) { return false }
        if isSourceKeysOnly { return try fetch(.sourceRow, source) }
        current = source
        return true
    }

    private func foldedKey(_ row: RowReader) -> RowKey { table.key.folded(table.key.read(row)) }

    /// Whether the ledger has a row of the source by now.
    private func isSettled(_ row: RowReader) throws -> Bool {
        let statement = try table.statement(table.sql.isInLedger)
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
        SQLiteError(code: .error, message: "\(asked) was asked of a scan of distinct values")
    }
}
