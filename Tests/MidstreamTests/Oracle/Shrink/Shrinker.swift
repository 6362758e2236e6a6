/// Makes a case that differs as small as possible, by leaving out parts without which it still differs.
///
/// Source: Zeller, Hildebrandt: Simplifying and isolating failure-inducing input (2002).
struct Shrinker {
    private var best: OracleCase
    private var runsLeft: Int
    private(set) var difference: CaseRunner.Difference
    private let end = ContinuousClock().now + .seconds(20)
    private let run: (OracleCase) -> CaseRunner.Difference?

    init(
        _ oracleCase: OracleCase,
        _ difference: CaseRunner.Difference,
        runs: Int = 1500,
        by run: @escaping (OracleCase) -> CaseRunner.Difference? = {
            CaseRunner(oracleCase: $0, isThorough: true).run().difference
        }
    ) {
        self.run = run
        best = oracleCase
        self.difference = difference
        runsLeft = runs
    }

    mutating func shrink() -> OracleCase {
        if difference.position >= 0, difference.position + 1 < best.operations.count {
            var shorter = best
            shorter.operations.removeSubrange((difference.position + 1)...)
            _ = attempt(shorter)
        }
        var size = -1
        while size != measure(best), runsLeft > 0 {
            size = measure(best)
            reduce(\.operations)
            for index in best.tables.indices { reduce(\.tables[index].rows) }
            for index in best.tables.indices { reduce(\.tables[index].indexes) }
            for index in best.tables.indices { reduce(\.tables[index].constraints) }
            for index in best.tables.indices { reduce(\.tables[index].foreignKeys) }
            reduce(\.triggers)
            reduce(\.settings)
            reduce(\.views)
            reduce(\.tables)
            simplifyColumns()
        }
        return best
    }

    private func measure(_ some: OracleCase) -> Int {
        some.operations.count + some.views.count + some.triggers.count + some.settings.count + some.tables.count
            + some.tables.reduce(0) {
                $0 + $1.rows.count + $1.indexes.count + $1.constraints.count + $1.foreignKeys.count
            }
    }

    /// Keeps the smaller case if it still differs.
    private mutating func attempt(_ smaller: OracleCase) -> Bool {
        guard runsLeft > 0, ContinuousClock().now < end else { return false }
        runsLeft -= 1
        let found = run(smaller)
        // A case that cannot be set up shows nothing, unless the difference was that it cannot.
        guard let found, found.position >= 0 || difference.position < 0 else { return false }
        // A case that lacks a table which the rest of it names shows nothing either.
        let missing = "no such table"
        if found.description.contains(missing), !difference.description.contains(missing) { return false }
        best = smaller
        difference = found
        return true
    }

    private mutating func reduce<Element>(_ path: WritableKeyPath<OracleCase, [Element]>) {
        var chunk = max(1, best[keyPath: path].count / 2)
        while true {
            var start = 0
            while start < best[keyPath: path].count {
                var smaller = best
                let end = min(start + chunk, smaller[keyPath: path].count)
                smaller[keyPath: path].removeSubrange(start..<end)
                if !attempt(smaller) { start = end }
            }
            if chunk == 1 { return }
            chunk /= 2
        }
    }

    private mutating func simplifyColumns() {
        for table in best.tables.indices {
            for column in best.tables[table].columns.indices
            where best.tables[table].columns[column].name != best.tables[table].rowIDColumn {
                guard !best.tables[table].columns[column].constraints.isEmpty,
                    !best.tables[table].columns[column].isGenerated
                else { continue }
                var smaller = best
                smaller.tables[table].columns[column].constraints = ""
                _ = attempt(smaller)
            }
            guard best.tables[table].condition != nil else { continue }
            var smaller = best
            smaller.tables[table].condition = nil
            _ = attempt(smaller)
        }
    }
}
