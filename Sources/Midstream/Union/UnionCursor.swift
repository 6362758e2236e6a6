internal import SQLiteConnection

/// A scan of a moving table: the rows of the target and the pending rows of the source, merged.
///
/// Where a row is, is read when the scan begins, in the transaction of the statement that runs it. Only this connection
/// can promote rows while the scan goes on: see ``RecentPromotions``.
final class UnionCursor: VirtualTableCursor {
    private let table: MovingTable
    private let union: UnionTable
    private let scope: UnionPlan.Scope

    private var arms: UnionArms?
    private var taken: [(statement: Statement, arm: UnionArms.Arm)] = []
    private var target: Statement?
    private var source: Statement?
    private var hasTargetRow = false
    private var hasSourceRow = false
    private var isSourceKeysOnly = false
    private var lower: Int64?
    /// Where the current row is read from.
    private var current: Statement?
    private var isCurrentFromTarget = false

    private var birth: UInt64 = 0
    private var isCounted = false

    /// A scan that was asked for nothing but how many rows there are: those that are left, and those behind.
    private var count: (left: Int64, passed: Int64)?

    init(table: UnionTable, scope: UnionPlan.Scope) {
        union = table
        self.table = table.table
        self.scope = scope
        self.table.openCursors += 1
    }

    override func close() {
        release()
        table.openCursors -= 1
    }

    private func release() {
        if let arms {
            for (statement, arm) in taken { arms.giveBack(statement, arm) }
        }
        taken.removeAll(keepingCapacity: true)
        target = nil
        source = nil
        current = nil
        count = nil
        hasTargetRow = false
        hasSourceRow = false
        arms = nil
        if isCounted {
            isCounted = false
            table.recent.cursorClosed()
        }
    }

    // MARK: Beginning

    override func filter(plan number: Int, arguments: ValueReferences) throws {
        union.noteBegun()
        release()
        isAtEnd = false
        let arms = try chosenArms(number, arguments)
        self.arms = arms
        switch arms.plan.merge {
        case .lookup: try lookUp(arms, arguments)
        case .counted: try countRows()
        case .ordered: try scan(arms, arguments)
        }
    }

    /// The plan's arms; those of a plan with fewer constraints when a value is of a type that the arms would compare
    /// otherwise than SQLite does.
    private func chosenArms(_ number: Int, _ arguments: ValueReferences) throws -> UnionArms {
        let arms = union.arms(number)
        var dropped: Set<Int> = []
        for constraint in arms.plan.constraints where !constraint.takesNumbers {
            switch arguments[constraint.argument].storageClass {
            case .integer, .real: dropped.insert(constraint.argument)
            default: break
            }
        }
        return dropped.isEmpty ? arms : union.arms(arms.plan.dropping(dropped))
    }

    private func open(_ arm: UnionArms.Arm, _ arms: UnionArms, _ arguments: ValueReferences) throws -> Statement {
        let statement = try arms.take(arm)
        taken.append((statement, arm))
        for (offset, constraint) in arms.plan.constraints.enumerated() {
            try statement.bind(arguments[constraint.argument], at: offset + 1)
        }
        return statement
    }

    private func lookUp(_ arms: UnionArms, _ arguments: ValueReferences) throws {
        if scope == .whole {
            let statement = try open(.target, arms, arguments)
            if try statement.step() {
                current = statement
                return
            }
        }
        guard let lower = try table.state().lowerBound else {
            isAtEnd = true
            return
        }
        let statement = try open(.source, arms, arguments)
        try statement.bind(lower, at: arms.lowerBoundParameter)
        if try statement.step() { current = statement } else { isAtEnd = true }
    }

    private func scan(_ arms: UnionArms, _ arguments: ValueReferences) throws {
        let state = try table.state()
        lower = state.lowerBound
        if scope == .whole {
            birth = table.recent.cursorOpened()
            isCounted = true
            let statement = try open(.target, arms, arguments)
            target = statement
            hasTargetRow = try statement.step()
        }
        if let lower {
            isSourceKeysOnly =
                !arms.mergeTerms.isEmpty && (lower != .min || state.hasLedger)
                && !(arms.isCovered && table.condition == nil)
            let arm: UnionArms.Arm =
                switch (isSourceKeysOnly, state.hasLedger) {
                case (false, false): .source
                case (false, true): .sourceWithLedger
                case (true, false): .sourceKeys
                case (true, true): .sourceKeysWithLedger
                }
            let statement = try open(arm, arms, arguments)
            if arms.isBoundedByKey { try statement.bind(lower, at: arms.lowerBoundParameter) }
            source = statement
            hasSourceRow = try statement.step()
        }
        try settle(arms)
    }

    // MARK: Going on

    override func next() throws {
        if let counted = count {
            count = (counted.left - 1, counted.passed + 1)
            isAtEnd = counted.left <= 1
            return
        }
        guard let arms, case .ordered = arms.plan.merge else {
            isAtEnd = true
            return
        }
        if isCurrentFromTarget {
            hasTargetRow = try target?.step() ?? false
        } else {
            hasSourceRow = try source?.step() ?? false
        }
        try settle(arms)
    }

    /// Finds the row that comes next: of the two arms' rows the one that is first in order, unless it has gone.
    private func settle(_ arms: UnionArms) throws {
        while true {
            if hasTargetRow, !hasSourceRow || targetComesFirst(arms) {
                guard let target else { break }
                // The source's arm gives it, since it was there when the scan began.
                if source != nil, table.recent.contains(target.int64(at: 0), since: birth) {
                    hasTargetRow = try target.step()
                    continue
                }
                current = target
                isCurrentFromTarget = true
                return
            }
            guard hasSourceRow, let source else { break }
            if try takeSourceRow(source, arms) {
                isCurrentFromTarget = false
                return
            }
            hasSourceRow = try source.step()
        }
        isAtEnd = true
    }

    private func targetComesFirst(_ arms: UnionArms) -> Bool {
        guard let target, let source else { return true }
        for term in arms.mergeTerms {
            let order = target.compare(column: term.slot, with: source, column: term.slot, collation: term.collation)
            if order != 0 { return (order < 0) != term.isDescending }
        }
        return (target.int64(at: 0) <= source.int64(at: 0)) != arms.rowIDDescending
    }

    /// Makes the source's row the current one; `false` when it is not in the source any more.
    private func takeSourceRow(_ source: Statement, _ arms: UnionArms) throws -> Bool {
        let key = source.int64(at: 0)
        if let lower, key < lower { return false }
        if table.recent.contains(key, since: birth), try isSettled(key) {
            if scope == .pending { return false }
            // It was promoted after the scan began: it stays in its place, with the values that it has by now.
            return try fetch(.targetRow, key, arms)
        }
        if source.int64(at: 1) != 0 { return false }
        // The scan that finds rows to promote promotes them as it goes.
        if scope == .pending, try isSettled(key) { return false }
        if isSourceKeysOnly { return try fetch(.sourceRow, key, arms) }
        current = source
        return true
    }

    private func isSettled(_ key: Int64) throws -> Bool {
        let statement = try table.statement("SELECT 1 FROM \(table.sql.ledger) WHERE key = ?1")
        defer { statement.reset() }
        try statement.bind(key, at: 1)
        return try statement.step()
    }

    private func fetch(_ arm: UnionArms.Arm, _ key: Int64, _ arms: UnionArms) throws -> Bool {
        let statement: Statement
        if let open = taken.first(where: { $0.arm == arm }) {
            statement = open.statement
            statement.reset()
        } else {
            statement = try arms.take(arm)
            taken.append((statement, arm))
        }
        try statement.bind(key, at: 1)
        guard try statement.step() else { return false }
        current = statement
        return true
    }

    // MARK: Counting

    private func countRows() throws {
        let state = try table.state()
        var rows = try integer("SELECT count(*) FROM \(table.sql.target)")
        if let lower = state.lowerBound {
            rows += try integer(
                "SELECT count(*) FROM \(table.sql.source) WHERE \(table.sql.sourceKey) >= ?1\(table.sql.condition)",
                lower
            )
            if state.hasLedger {
                rows -= try integer("SELECT count(*) FROM \(table.sql.ledger) WHERE key >= ?1", lower)
            }
        }
        count = (rows, 0)
        isAtEnd = rows == 0
    }

    private func integer(_ text: String, _ argument: Int64? = nil) throws -> Int64 {
        let statement = try table.statement(text)
        defer { statement.reset() }
        if let argument { try statement.bind(argument, at: 1) }
        return try statement.step() ? statement.int64(at: 0) : 0
    }

    /// `SELECT rowid` asks for as little as `SELECT count(*)`: a scan that was only counted is made up for when it turns
    /// out that somebody looks.
    private func scanAfterAll() throws {
        guard let counted = count, let arms else { return }
        release()
        var plan = arms.plan
        plan.merge = .ordered([], rowIDDescending: false)
        let whole = union.arms(plan)
        self.arms = whole
        isAtEnd = false
        try scan(whole, ValueReferences.none)
        for _ in 0..<counted.passed { try next() }
    }

    // MARK: The current row

    override func column(_ index: Int, to result: ResultContext) throws {
        if count != nil { try scanAfterAll() }
        guard let current, let arms else { return }
        result.set(column: arms.slots[index], of: current)
    }

    override func rowID() throws -> Int64 {
        if count != nil { try scanAfterAll() }
        return current?.int64(at: 0) ?? 0
    }
}
