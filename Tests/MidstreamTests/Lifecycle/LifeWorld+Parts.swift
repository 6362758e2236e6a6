import Midstream
import SQLiteConnection

/// Ends a life: nothing is promised for what comes after.
struct LifeOver: Error {}

/// Tables that become two, and two that become one.
extension LifeWorld {
    /// Makes the rows of a table move into two others.
    func split(_ dice: Dice) throws {
        guard let table = pick(dice), table.move == nil || dice.percent(20), table.move?.isReturning != true,
            !table.isMended
        else {
            return
        }
        let target = dice.below(Self.fileCount)
        let border = dice.between(0, 9)
        let conditions = ["k < \(border)", dice.percent(50) ? "k >= \(border)" : "NOT (k < \(border))"]
        let retirement = dice.weighted([(3, SourceRetirement.drop), (1, .keep), (1, .deleteFileWhenEmpty)])
        if dice.percent(40) { return try splitOff(conditions, of: table, retirement, dice) }
        var halves: [LifeTable] = []
        var call = LifeCall(target: target, source: table.place.file, retirement: retirement, entries: [])
        for condition in conditions {
            let change = dice.percent(60) ? LifeChange(shape: table.shape) : table.shape.changed(dice, wild: false)
            state.names += 1
            let place = LifePlace(file: target, table: "t\(state.names)")
            var half = LifeTable(id: state.names, place: place, shape: change.shape)
            half.move = LifeMove(origin: table.place, former: table.shape, made: change.made, condition: condition)
            half.move?.earlier = LifeMove.files(of: table)
            // Each half goes on with the ids of the whole table.
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
            return try refuse("split", error, of: table, fits: converted)
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

    /// Makes some rows of a table move into another table, and perhaps the rest into another, in any file.
    private func splitOff(
        _ conditions: [String],
        of table: LifeTable,
        _ retirement: SourceRetirement,
        _ dice: Dice
    ) throws {
        guard table.move == nil else { return }
        var halves = conditions.map { condition in
            state.names += 1
            var half = LifeTable(id: state.names, place: table.place, shape: table.shape)
            half.part = condition
            half.parts = 2
            half.knowsRowIDs = table.knowsRowIDs
            return half
        }
        note("split \(table.place) by \(conditions)")
        if dice.percent(50) { halves.reverse() }
        try oracle.execute("SAVEPOINT conversion")
        for half in halves {
            let change = LifeChange(shape: table.shape)
            guard prepareConversion(table, change, half.plain, where: half.part, savepoint: false) else {
                throw LifeProblem("rows do not fit into a table as theirs was")
            }
        }
        try oracle.execute("RELEASE conversion")
        // The table is one until its first half moves.
        guard try movePart(halves[0], retirement, dice, { state.tables.removeAll { $0.id == table.id } }) else {
            for half in halves { try oracle.execute("DROP TABLE \(half.plain)") }
            return
        }
        try oracle.execute("DROP TABLE \(table.plain)")
        guard try oracle.fetchValue(Int.self, "SELECT count(*) FROM \(halves[1].plain)") != 0 else {
            // A half without rows goes with the last of those that have rows.
            try oracle.execute("DROP TABLE \(halves[1].plain)")
            return try settle()
        }
        state.tables.append(halves[1])
        if dice.percent(75) { _ = try movePart(halves[1], retirement, dice) }
        try settle()
    }

    /// Makes a part that is left of a table move.
    func movePart(_ dice: Dice) throws {
        let parts = state.tables.filter { $0.part != nil }
        guard !parts.isEmpty else { return }
        let table = dice.pick(parts)
        // A part without rows goes, or has gone, with the last of those that have rows.
        for part in parts where part.place == table.place {
            if try oracle.fetchValue(Int.self, "SELECT count(*) FROM \(part.plain)") == 0 { return }
        }
        let isKept = state.kept.contains { $0.place == table.place }
        _ = try movePart(table, isKept ? .keep : .drop, dice)
        try settle()
    }

    /// Forgets parts without rows: such a part goes with the last of those that have rows.
    func forgetEmptyParts() throws {
        for part in state.tables where part.part != nil && Files.exists(path(part.place.file)) {
            let isThere = try database(part.place.file)
                .fetchOne("SELECT 1 FROM sqlite_master WHERE name = ?", [part.place.table])
            let isEmpty = try oracle.fetchValue(Int.self, "SELECT count(*) FROM \(part.plain)") == 0
            guard isThere == nil, isEmpty else { continue }
            note("  \(part.place) where \(part.part ?? "") is gone, and was empty")
            try oracle.execute("DROP TABLE \(part.plain)")
            state.tables.removeAll { $0.id == part.id }
        }
    }

    /// - Parameter begun: What is to be done when the move has begun.
    /// - Returns: Whether the part moves.
    private func movePart(
        _ part: LifeTable,
        _ retirement: SourceRetirement,
        _ dice: Dice,
        _ begun: () -> Void = {}
    ) throws -> Bool {
        let change = dice.percent(60) ? LifeChange(shape: part.shape) : part.shape.changed(dice, wild: false)
        let place = LifePlace(file: dice.below(Self.fileCount), table: newName())
        var entry = LifeCall.Entry(table: part.id, target: place.table, source: part.place.table, change: change)
        entry.condition = part.part
        let call = LifeCall(target: place.file, source: part.place.file, retirement: retirement, entries: [entry])
        note(
            "move \(part.place) where \(part.part ?? "") -> \(place), \(retirement.rawValue): "
                + "\(change.shape.createTable(place.table)); \(change.made)"
        )
        let moves = try begin(call, of: part, to: place, change) { error, fits in
            // One part may not move within the file while another moves into another file. Nor may a part move while
            // another one returns.
            let isReturning = state.tables.contains { $0.move?.isReturning == true && $0.move?.origin == part.place }
            if let error = error as? MigrationError, error.code == .foreignState,
                error.message.contains("already belong") || isReturning && error.message.contains("are returning")
            {
                note("  refused: \(error)")
            } else {
                try refuse("move a part", error, of: part, fits: fits)
            }
        }
        guard moves else { return false }
        begun()
        state.calls.append(call)
        if retirement == .keep, !state.kept.contains(where: { $0.place == part.place }) {
            state.kept.append(LifeKept(place: part.place, shape: part.shape, target: call.target))
        }
        var moving = part
        moving.place = place
        moving.shape = change.shape
        moving.move = LifeMove(origin: part.place, former: part.shape, made: change.made, condition: part.part)
        moving.part = nil
        moving.parts = 1
        moving.knowsSequence = false
        moving.knowsRowIDs = part.knowsRowIDs && (part.shape.key == .implicit || change.shape.key != .implicit)
        state.tables.removeAll { $0.id == part.id }
        state.tables.append(moving)
        return true
    }

    /// Makes the rows of a table move into a table that is there already, with its rows.
    func join(_ dice: Dice) throws {
        guard let table = pick(dice), table.move?.isReturning != true, !table.isMended else { return }
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
            // Rowids that are no column may collide, whereas the plain table gives new ones.
            let haveRowIDs = other.shape.key.hasRowID && !other.shape.key.isRowID
            return try refuse("join", error, of: table, fits: inserted && !haveRowIDs)
        }
        guard inserted else { throw LifeProblem("join: begins although rows cannot fit") }
        try oracle.execute("DROP TABLE \(table.plain)")
        try oracle.execute("RELEASE conversion")
        state.calls.append(call)
        if retirement == .keep {
            state.kept.append(LifeKept(place: table.place, shape: table.shape, target: call.target))
        }
        state.tables[index].move = LifeMove(origin: table.place, former: table.shape, made: change.made)
        state.tables[index].move?.earlier = LifeMove.files(of: table).union(LifeMove.files(of: other))
        state.tables[index].knowsSequence = false
        if other.shape.key == .implicit, table.shape.key != .implicit || !table.knowsRowIDs {
            state.tables[index].knowsRowIDs = false
        }
        state.tables.removeAll { $0.id == table.id }
        try settle()
    }

    /// Copies the rows of a plain table into another one, in a savepoint.
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
