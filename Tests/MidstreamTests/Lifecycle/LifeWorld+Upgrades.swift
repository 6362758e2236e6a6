import Midstream
import SQLiteConnection

/// Declared schemas, and what becomes of tables that were kept.
extension LifeWorld {
    private struct RolledBack: Error {}

    /// Declares another shape of a table, perhaps in a transaction that writes before and after, and is rolled back.
    func upgrade(_ dice: Dice) throws {
        guard let table = pick(dice), let index = index(of: table.id) else { return }
        var change = table.shape.changed(dice, wild: dice.percent(20), drops: false)
        if change.made["id"] != nil { return }
        // What is said about a column counts only if the column is new.
        change.made = change.made.filter { name, origin in
            if case .column = origin { return true }
            return !table.shape.columns.contains { $0.name == name }
        }
        change.shape.indexes = table.shape.indexes.filter { index in
            index.columns.allSatisfy { name in
                name == "k" || name == "id" || change.shape.columns.contains { $0.quoted == name }
            }
        }
        var added = change.shape
        added.indexes = dice.percent(50) ? [] : [LifeShape.Index(columns: [dice.pick(change.shape.columns).quoted])]
        let name = table.place.table
        let statements = [change.shape.createTable(name)] + added.createIndexes(name, number: &state.indexes)
        change.shape.indexes += added.indexes
        var options = SchemaOptions()
        options.rowsChangedAtOnce = dice.percent(25) ? 1000 : 0
        for (new, origin) in change.made {
            switch origin {
            case .column(let old): options.renamedColumns[name, default: [:]][old] = new
            case .expression(let text): options.columns[name, default: [:]][new] = .expression(text)
            default: break
            }
        }
        let isRolledBack = dice.percent(20)
        note("upgrade \(table.place)\(isRolledBack ? ", rolled back" : ""): \(statements); \(options)")
        let converted = prepareConversion(table, change, "new_table")
        let before = try definition(table.place)
        startFault()
        defer { endFault() }
        do {
            try database(table.place.file).write { access in
                _ = try access.upgrade(to: DatabaseSchema(sql: statements.joined(separator: ";")), options: options)
                if isRolledBack {
                    try access.execute("DELETE FROM \(name) WHERE k < 5")
                    throw RolledBack()
                }
            }
        } catch is RolledBack {
            return try forgetConversion()
        } catch let error where hasStruck {
            if try !isDone(in: table.place, before, error) { return try forgetConversion() }
        } catch {
            try forgetConversion()
            let mayNotFit = !converted || change.shape.refused != nil || table.shape.refused != nil
            if let error = error as? SQLiteError, [.constraint, .mismatch].contains(error.code.primary), mayNotFit {
                return note("  refused: \(error)")
            }
            return try refuse("upgrade", error, of: table, fits: !mayNotFit)
        }
        endFault()
        guard converted else { throw LifeProblem("upgrade: done although rows cannot fit") }
        try take(change, of: table, at: index)
    }

    /// Notes the new shape of a table that was changed in its place.
    func take(_ change: LifeChange, of table: LifeTable, at index: Int) throws {
        try applyConversion(table, to: table.place.table, change.shape)
        state.tables[index].shape = change.shape
        if change.shape.key == .autoIncrement { state.tables[index].knowsSequence = false }
        if change.shape.key == .implicit, table.shape.key != .implicit || !table.knowsRowIDs {
            state.tables[index].knowsRowIDs = false
        }
        state.tables[index].move = table.move?.followed(by: change) ?? LifeMove(former: table.shape)
        try settle()
    }

    func definition(_ place: LifePlace) throws -> String? {
        try database(place.file)
            .fetchValue(String.self, "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", [place.table])
    }

    /// Whether a change was made although a fault has struck it.
    func isDone(in place: LifePlace, _ before: String?, _ error: any Error) throws -> Bool {
        note("  fault: \(error)")
        let reopens = fault?.reopens == true && !isOpenTwice
        endFault()
        if reopens { closeAll() }
        let isDone = try definition(place) != before
        if isDone { note("  it is done") }
        return isDone
    }

    /// What an application may do with a table whose rows have moved away.
    func useKept(_ dice: Dice) throws {
        let kept = state.kept.filter { kept in
            Files.exists(path(kept.place.file)) && !kept.hasStrangers
                && !state.tables.contains {
                    $0.place == kept.place || $0.move?.origin == kept.place
                }
        }
        guard !kept.isEmpty else { return }
        let (place, shape) = { ($0.place, $0.shape) }(dice.pick(kept))
        let database = try database(place.file)
        let isThere = try database.fetchValue(
            Int.self,
            "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?",
            [place.table]
        )
        guard isThere == 1 else { return }
        switch dice.below(5) {
        case 0:
            var change = shape.changed(dice, wild: dice.percent(20))
            // Nobody could mend rows that such a CHECK refuses.
            for index in change.shape.columns.indices { change.shape.columns[index].check = nil }
            note("rebuild \(place), which was kept: \(change.shape.createTable(place.table))")
            let atOnce = dice.percent(50) ? 0 : 1000
            do {
                _ = try database.write { access in
                    try access.rebuild(place.table) { rebuild in
                        rebuild.schema = change.shape.createTable(place.table)
                        rebuild.indexes = []
                        rebuild.columns = change.mappings
                        rebuild.unmatchedColumns = .ignored
                        rebuild.rowsCopiedAtOnce = atOnce
                    }
                }
            } catch let error as SQLiteError {
                return note("  refused: \(error)")
            } catch { return try refuse("rebuild kept", error) }
            for index in state.kept.indices where state.kept[index].place == place {
                state.kept[index].shape = change.shape
            }
        case 1:
            let file = dice.below(Self.fileCount)
            let target = LifePlace(file: file, table: newName())
            note("add \(place), which was kept, -> \(target)")
            guard try createTarget(target, shape) else { return }
            let entry = LifeCall.Entry(
                table: -1,
                target: target.table,
                source: place.table,
                change: LifeChange(shape: shape)
            )
            let call = LifeCall(target: target.file, source: place.file, retirement: .drop, entries: [entry])
            do {
                try begin(call)
            } catch {
                dropTarget(target)
                if let error = error as? MigrationError, error.code == .foreignState {
                    return note("  refused: \(error)")
                }
                return try refuse("add kept", error)
            }
            let found =
                try self.database(target.file).fetchValue(Int.self, "SELECT count(*) FROM \(target.table)") ?? -1
            if found != 0 { throw LifeProblem("\(place) was kept, and \(found) of its rows move again to \(target)") }
            dropTarget(target)
        case 2:
            let sql = dice.pick(["UPDATE \(place.table) SET k = k", "DELETE FROM \(place.table)"])
            note("\(sql) in f\(place.file), which was kept")
            let count = try database.fetchValue(Int.self, "SELECT count(*) FROM \(place.table)") ?? 0
            do {
                try database.execute(sql)
                if count > 0 { throw LifeProblem("\(place) was kept, and can be written: \(sql)") }
            } catch let error as LifeProblem {
                throw error
            } catch {
                note("  refused: \(error)")
            }
        case 3:
            note("rename \(place), which was kept")
            let new = newName()
            do { try database.execute("ALTER TABLE \(place.table) RENAME TO \(new)") } catch {
                return try refuse("rename kept", error)
            }
            for index in state.kept.indices where state.kept[index].place == place {
                state.kept[index].place.table = new
            }
            forget(place)
        default:
            note("drop \(place), which was kept")
            do { try database.execute("DROP TABLE \(place.table)") } catch { return try refuse("drop kept", error) }
            state.kept.removeAll { $0.place == place }
            forget(place)
        }
    }
}
