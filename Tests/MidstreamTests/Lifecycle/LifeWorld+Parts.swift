import Midstream
import SQLiteConnection

/// Tables that become two, and two that become one.
extension LifeWorld {
    /// Has the rows of a table move into two others.
    func split(_ dice: Dice) throws {
        guard let table = pick(dice), table.move == nil || dice.percent(20), table.move?.isReturning != true else {
            return
        }
        let target = dice.below(Self.fileCount)
        let border = dice.between(0, 9)
        let conditions = ["k < \(border)", dice.percent(50) ? "k >= \(border)" : "NOT (k < \(border))"]
        let retirement = dice.weighted([(3, SourceRetirement.drop), (1, .keep), (1, .deleteFileWhenEmpty)])
        var halves: [LifeTable] = []
        var call = LifeCall(target: target, source: table.place.file, retirement: retirement, entries: [])
        for condition in conditions {
            let change = dice.percent(60) ? LifeChange(shape: table.shape) : table.shape.changed(dice, wild: false)
            state.names += 1
            let place = LifePlace(file: target, table: "t\(state.names)")
            var half = LifeTable(id: state.names, place: place, shape: change.shape)
            half.move = LifeMove(origin: table.place, former: table.shape, made: change.made, condition: condition)
            // Each goes on with the ids of all.
            half.knowsSequence = false
            half.knowsRowIDs = table.knowsRowIDs && (table.shape.key == .implicit || change.shape.key != .implicit)
            var entry = LifeCall.Entry(table: half.id, target: place.table, source: table.place.table, change: change)
            entry.condition = condition
            guard try createTarget(place, change.shape) else { return halves.forEach { dropTarget($0.place) } }
            halves.append(half)
            call.entries.append(entry)
        }
        note(
            "split \(table.place) -> f\(target).\(halves.map(\.place.table)), \(conditions), \(retirement.rawValue): "
                + "\(halves.map { $0.shape.createTable($0.place.table) }); \(call.entries.map(\.change.made))"
        )
        try oracle.execute("SAVEPOINT conversion")
        let converted = zip(halves, call.entries).allSatisfy { half, entry in
            prepareConversion(table, entry.change, half.plain, where: entry.condition, savepoint: false)
        }
        do {
            try begin(call)
        } catch {
            for half in halves { dropTarget(half.place) }
            try forgetConversion()
            return try refuse("split", error)
        }
        guard converted else { throw LifeProblem("split: begins although rows cannot fit") }
        try oracle.execute("DROP TABLE \(table.plain)")
        try oracle.execute("RELEASE conversion")
        state.calls.append(call)
        if retirement == .keep {
            state.kept.append(LifeKept(place: table.place, shape: table.shape, target: call.target))
        }
        state.tables.removeAll { $0.id == table.id }
        state.tables += halves
        try settle()
    }

    /// Has the rows of a table move into one that there is, with its rows.
    func join(_ dice: Dice) throws {
        guard let table = pick(dice), table.move?.isReturning != true else { return }
        let others = state.tables.filter { other in
            other.id != table.id && other.part == nil && other.move?.isReturning != true
                && other.shape.key.hasText == table.shape.key.hasText
                && other.shape.key.hasRowID == table.shape.key.hasRowID
        }
        guard !others.isEmpty else { return }
        let other = dice.pick(others)
        guard let index = index(of: other.id) else { return }
        var change = LifeChange(shape: other.shape)
        if table.shape.key == .implicit, other.shape.key == .alias || other.shape.key == .autoIncrement {
            change.made["id"] = .rowID
        }
        for column in other.shape.columns where !table.shape.columns.contains(where: { $0.name == column.name }) {
            change.made[column.name] = .expression("k || 'm'")
        }
        let entry = LifeCall.Entry(
            table: other.id,
            target: other.place.table,
            source: table.place.table,
            change: change
        )
        let retirement = dice.weighted([(3, SourceRetirement.drop), (2, .keep)])
        let call = LifeCall(
            target: other.place.file,
            source: table.place.file,
            retirement: retirement,
            entries: [entry]
        )
        note("join \(table.place) -> \(other.place), \(retirement.rawValue): \(change.made)")
        let inserted = prepareInsertion(table, change, into: other.plain)
        do {
            try begin(call)
        } catch {
            try forgetConversion()
            return try refuse("join", error)
        }
        guard inserted else { throw LifeProblem("join: begins although rows cannot fit") }
        try oracle.execute("DROP TABLE \(table.plain)")
        try oracle.execute("RELEASE conversion")
        state.calls.append(call)
        if retirement == .keep {
            state.kept.append(LifeKept(place: table.place, shape: table.shape, target: call.target))
        }
        state.tables[index].move = LifeMove(origin: table.place, former: table.shape, made: change.made)
        state.tables[index].knowsSequence = false
        if other.shape.key == .implicit, table.shape.key != .implicit || !table.knowsRowIDs {
            state.tables[index].knowsRowIDs = false
        }
        state.tables.removeAll { $0.id == table.id }
        try settle()
    }

    /// Copies a plain table's rows into another, in a savepoint.
    func prepareInsertion(_ table: LifeTable, _ change: LifeChange, into name: String) -> Bool {
        do {
            try oracle.execute("SAVEPOINT conversion")
            try oracle.execute("PRAGMA ignore_check_constraints = ON")
            defer { try? oracle.execute("PRAGMA ignore_check_constraints = OFF") }
            try oracle.execute(change.copy(from: table.plain, table.shape, to: name, condition: nil))
            return true
        } catch {
            note("  does not fit: \(error)")
            return false
        }
    }
}
