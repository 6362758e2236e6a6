internal import SQLText
internal import SQLiteConnection

// Scans that need not read all rows: distinct values, and counts.
extension UnionCursor {
    // MARK: Distinct values

    /// Begins a scan of the values that the two sides have. The scan gives each value once.
    func scanValues(_ arms: UnionArms, _ arguments: ValueReferences) throws {
        let state = try table.state()
        merge = arms.merge
        let row = RowReader(try open(.targetValues, arms, arguments))
        target = try row.step() ? row : nil
        if state.lowerBound != nil {
            let statement = try open(
                state.hasLedger ? .sourceValuesWithLedger : .sourceValues,
                arms,
                arguments
            )
            if arms.isBounded { try state.bindBound(statement, at: arms.extraParameter) }
            source = try begin(statement)
        }
        try settleValues()
    }

    private func settleValues() throws {
        if let target, let source {
            let order = order(target, source)
            if order == 0, try !source.step() { self.source = nil }
            isCurrentFromTarget = order <= 0
        } else {
            isCurrentFromTarget = target != nil
        }
        current = isCurrentFromTarget ? target : source
        isAtEnd = current == nil
    }

    func nextValues() throws {
        if let kept, kept.writes != writes { return try goOnWithRows(kept.arguments) }
        if isCurrentFromTarget {
            if let target, try !target.step() { self.target = nil }
        } else if let source, try !source.step() {
            self.source = nil
        }
        try settleValues()
    }

    /// Goes on by a scan of rows, from the first row after the value given last: the loop that reads has written rows.
    private func goOnWithRows(_ arguments: KeptValues) throws {
        guard let arms, let given = current, let last = opened.firstIndex(where: { given.reads($0.statement) }) else {
            return
        }
        let (arm, statement) = opened.remove(at: last)
        defer { arms.giveBack(statement, arm) }
        let rows = try union.arms(arms.plan.withAllRows)
        endScan()
        release()
        self.arms = rows
        try scan(rows, arguments.references)
        while let current, !isAtEnd, Self.order(current, rows.mergeTerms, given, arms.mergeTerms) <= 0 { try advance() }
    }

    // MARK: Counting

    /// How many rows the cursor passes unseen before it counts the rest. Without a LIMIT, a statement that wants a second row
    /// wants all of them.
    func patience(_ arms: UnionArms) -> Int { arms.plan.mayEndEarly ? 32 : 1 }

    /// Counts the rows that are left, if the statement has not looked at any row so far. The scan stays where it is, in case the
    /// statement looks at a row after all.
    func countRest(_ arguments: ValueReferences) throws -> Bool {
        guard let arms else { return false }
        let state = try table.state()
        guard state.bound == bound else { return false }
        var rows = try counted(.targetCount, arms, arguments)
        if state.lowerBound != nil {
            rows += try counted(state.hasLedger ? .sourceCountWithLedger : .sourceCount, arms, arguments, beyond: state)
        }
        count = (rows - Int64(unseen), Int64(unseen))
        isAtEnd = rows <= Int64(unseen)
        return true
    }

    private func counted(
        _ arm: UnionArms.Arm,
        _ arms: UnionArms,
        _ arguments: ValueReferences,
        beyond state: LiveState? = nil
    ) throws -> Int64 {
        let statement = try open(arm, arms, arguments)
        defer { statement.reset() }
        if arms.isBounded, let state { try state.bindBound(statement, at: arms.extraParameter) }
        return try statement.step() ? statement.int64(at: 0) : 0
    }

    /// Goes on with the scan that was only counted, because the statement looks at a row after all: `LIMIT 5 OFFSET 100`, say.
    func resumeScan() throws {
        isSeen = true
        guard let counted = count else { return }
        count = nil
        for _ in 0..<(counted.passed + 1 - Int64(unseen)) { try advance() }
    }
}
