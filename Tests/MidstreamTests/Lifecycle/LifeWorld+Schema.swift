import Midstream
import SQLiteConnection
import SQLiteFeatures

/// Changes of the schema through Midstream.
extension LifeWorld {
    func rebuild(_ dice: Dice) throws {
        guard let table = pick(dice), let index = index(of: table.id) else { return }
        let change = table.shape.changed(dice, wild: dice.percent(30))
        let name = table.place.table
        let atOnce = dice.percent(25) ? 1000 : 0
        let indexes = change.shape.createIndexes(name, number: &state.indexes)
        note("rebuild \(table.place), \(atOnce) at once: \(change.shape.createTable(name)); \(indexes); \(change.made)")
        let converted = prepareConversion(table, change, "new_table")
        let before = try definition(table.place)
        startFault()
        defer { endFault() }
        do {
            let database = try database(table.place.file)
            let rebuilt = try database.write { access in
                try access.rebuild(name) { rebuild in
                    rebuild.schema = change.shape.createTable(name)
                    rebuild.indexes = indexes
                    rebuild.columns = change.mappings
                    rebuild.unmatchedColumns = .ignored
                    rebuild.rowsCopiedAtOnce = atOnce
                }
            }
            note("  \(rebuilt.way), \(rebuilt.reason ?? "")")
        } catch let error where hasStruck {
            if try !isDone(in: table.place, before, error) { return try forgetConversion() }
        } catch {
            try forgetConversion()
            // SQLite's own error may tell of rows that do not fit.
            let mayNotFit = !converted || table.shape.refused != nil || change.shape.refused != nil
            if let error = error as? SQLiteError, [.constraint, .mismatch].contains(error.code.primary), mayNotFit {
                return note("  refused: \(error)")
            }
            return try refuse("rebuild", error, of: table, fits: !mayNotFit)
        }
        endFault()
        guard converted else { throw LifeProblem("rebuild: done although rows cannot fit") }
        try take(change, of: table, at: index)
    }

    /// Statements that look at whole tables or change their names.
    func alter(_ dice: Dice) throws {
        guard let table = pick(dice), let index = index(of: table.id) else { return }
        let name = table.place.table
        let database = try database(table.place.file)
        switch dice.below(6) {
        case 0:
            let new = newName()
            note("rename \(table.place) to \(new)")
            do { try database.execute("ALTER TABLE \(name) RENAME TO \(new)") } catch {
                return try refuse("rename", error, of: table)
            }
            try oracle.execute("ALTER TABLE \(name) RENAME TO \(new)")
            state.tables[index].place.table = new
            // Calls know the moving table by its former name.
            forgetCalls(into: table.place)
            for other in state.tables.indices where state.tables[other].move?.origin == table.place {
                state.tables[other].move?.origin?.table = new
            }
        case 1:
            guard let column = table.shape.columns.indices.randomElement(dice), SQLiteFeature.renameColumn.isAvailable
            else { return }
            let old = table.shape.columns[column]
            let new = "r\(dice.below(50))"
            guard old.check == nil, !table.shape.columns.contains(where: { $0.name == new }) else { return }
            note("rename column \(old.name) of \(table.place) to \(new)")
            let sql = "ALTER TABLE \(name) RENAME COLUMN \(old.quoted) TO \(new)"
            do { try database.execute(sql) } catch { return try refuse("rename column", error, of: table) }
            try oracle.execute(sql)
            state.tables[index].shape.columns[column].name = new
            for number in state.tables[index].shape.indexes.indices {
                state.tables[index].shape.indexes[number].columns = state.tables[index].shape.indexes[number].columns
                    .map {
                        $0 == old.quoted ? "\"\(new)\"" : $0
                    }
            }
            forgetCalls(into: table.place)
        case 2:
            let new = "n\(state.names)_\(dice.below(100))"
            guard !table.shape.columns.contains(where: { $0.name == new }) else { return }
            note("add column \(new) to \(table.place)")
            let sql = "ALTER TABLE \(name) ADD COLUMN \"\(new)\" TEXT DEFAULT 'd'"
            do { try database.execute(sql) } catch { return try refuse("add column", error, of: table) }
            try oracle.execute(sql)
            state.tables[index].shape.columns.append(LifeShape.Column(name: new, type: "TEXT", rest: " DEFAULT 'd'"))
            forgetCalls(into: table.place)
        case 3:
            let column = dice.pick(table.shape.columns).quoted
            state.indexes += 1
            note("create index on \(table.place)(\(column))")
            do { try database.execute("CREATE INDEX i\(state.indexes) ON \(name)(\(column))") } catch {
                return try refuse("create index", error, of: table)
            }
            state.tables[index].shape.indexes.append(LifeShape.Index(columns: [column]))
        case 4:
            note("vacuum f\(table.place.file)")
            for (other, known) in state.tables.enumerated() where known.place.file == table.place.file {
                state.tables[other].knowsRowIDs = false
            }
            do { try database.execute("VACUUM") } catch {
                // VACUUM needs the rows of all tables of the file.
                let refused = try state.tables.first { try $0.place.file == table.place.file && hasRefusedRows($0) }
                return try refuse("vacuum", error, of: refused ?? table)
            }
        default:
            note("drain \(table.place) by an update of all")
            let sql = "UPDATE \(name) SET k = k + 1 WHERE k < 50"
            do {
                try database.execute(sql)
            } catch let error as SQLiteError where error.code.primary == .constraint {
                // A CHECK refuses rows of the table as they are. The plain table has such rows too.
                if error.code == Self.checkFailed, try hasRefusedRows(table) { return }
                guard try failsNatively(sql) else { throw LifeProblem("update all: \(error), and not by SQLite alone") }
                return
            } catch { return try refuse("update all", error) }
            try oracle.execute(sql)
        }
        try settle()
    }

    private func failsNatively(_ sql: String) throws -> Bool {
        try oracle.execute("SAVEPOINT trial")
        defer { try? oracle.execute(script: "ROLLBACK TO trial; RELEASE trial") }
        do { try oracle.execute(sql) } catch { return error.code.primary == .constraint }
        return false
    }

    /// Forgets the calls for a table, since a name that they use has changed. Another version of the application would
    /// make other calls.
    private func forgetCalls(into place: LifePlace) {
        for index in state.calls.indices where state.calls[index].target == place.file {
            state.calls[index].entries.removeAll { $0.target == place.table }
        }
        state.calls.removeAll { $0.entries.isEmpty }
    }
}

extension Range<Int> {
    fileprivate func randomElement(_ dice: Dice) -> Int? { isEmpty ? nil : lowerBound + dice.below(count) }
}
