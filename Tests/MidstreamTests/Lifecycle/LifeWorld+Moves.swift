import Midstream
import SQLiteConnection

/// Migrations: their beginning, their steps, their end.
extension LifeWorld {
    /// Makes a logical table move to another place, from wherever its rows are.
    func addMigration(_ dice: Dice) throws {
        guard let table = pick(dice), let index = index(of: table.id) else { return }
        let target = dice.percent(35) ? table.place.file : dice.below(Self.fileCount)
        let name = target != table.place.file && dice.percent(50) ? table.place.table : newName()
        let change =
            dice.percent(40) || table.isMended
            ? LifeChange(shape: table.shape) : table.shape.changed(dice, wild: dice.percent(15))
        let retirement = dice.weighted([(4, SourceRetirement.drop), (2, .keep), (1, .deleteFileWhenEmpty)])
        var entry = LifeCall.Entry(table: table.id, target: name, source: table.place.table, change: change)
        entry.verification = dice.pick([.batches, .batches, .count, .complete])
        // A table that a move goes on to move elsewhere either sets rows aside or mends them, not both.
        entry.setsAside = change.shape.refused != nil && !table.mends && dice.percent(40)
        if !entry.setsAside, !table.setsAside, dice.percent(50) { entry.mended = change.shape.checked }
        let strangers = dice.percent(50) ? try insertStrangers(table, dice) : 0
        if strangers > 0 { entry.condition = table.shape.key.ownCondition }
        let call = LifeCall(target: target, source: table.place.file, retirement: retirement, entries: [entry])
        note(
            "add \(table.place) -> f\(target).\(name), \(retirement.rawValue): \(change.shape.createTable(name)); \(change.made)"
        )
        let place = LifePlace(file: target, table: name)
        guard try begin(call, of: table, to: place, change, refusing: { try refuse("add", $0, of: table, fits: $1) })
        else {
            if strangers > 0 { try deleteStrangers(table.place, table.shape.key, strangers) }
            return
        }
        var move = LifeMove(origin: table.place, former: table.shape, made: change.made, condition: entry.condition)
        move.strangers = strangers
        move.earlier = LifeMove.files(of: table)
        state.calls.append(call)
        if retirement == .keep || strangers > 0 {
            state.kept.append(
                LifeKept(place: table.place, shape: table.shape, target: target, hasStrangers: strangers > 0)
            )
        }
        state.tables[index].place = place
        state.tables[index].shape = change.shape
        if change.shape.key == .autoIncrement { state.tables[index].knowsSequence = false }
        state.tables[index].move = move
        // The move before may have set rows aside, and may go on doing so.
        state.tables[index].setsAside = table.setsAside || entry.setsAside
        state.tables[index].mends = table.mends || !entry.mended.isEmpty
        if change.shape.key == .implicit, table.shape.key != .implicit || !table.knowsRowIDs {
            state.tables[index].knowsRowIDs = false
        }
        try settle()
    }

    /// Inserts rows that do not belong to the table, with keys of another kind than the table's own rows have.
    ///
    /// - Returns: How many such rows there are.
    private func insertStrangers(_ table: LifeTable, _ dice: Dice) throws -> Int {
        guard table.move == nil, let condition = table.shape.key.ownCondition else { return 0 }
        // After an upgrade, the table's own rows may have such keys.
        let own = "SELECT count(*) FROM \(table.plain) WHERE NOT ifnull(\(condition), 0)"
        guard try oracle.fetchValue(Int.self, own) == 0 else { return 0 }
        let keys = table.shape.key.strangers(dice).map { "(\($0), 1)" }.joined(separator: ", ")
        return try plainly(table.place.file) { plain in
            do {
                try plain.execute("INSERT OR IGNORE INTO \(table.place.table)(id, k) VALUES \(keys)")
            } catch {
                // A fence is in the way, if rows of the table have moved before, or a reader is.
                note("  no strangers: \(error)")
                return 0
            }
            let count = "SELECT count(*) FROM \(table.place.table) WHERE NOT ifnull(\(condition), 0)"
            let strangers = try plain.fetchValue(Int.self, count) ?? 0
            note("  \(strangers) strangers of \(table.place): \(keys)")
            return strangers
        }
    }

    private func deleteStrangers(_ place: LifePlace, _ key: LifeShape.Key, _ strangers: Int) throws {
        let condition = key.ownCondition ?? "1"
        try plainly(place.file) { plain in
            try plain.execute("DELETE FROM \(place.table) WHERE NOT ifnull(\(condition), 0)")
            guard plain.changes == strangers else {
                throw LifeProblem("\(place) had \(plain.changes) strangers, not \(strangers)")
            }
        }
    }

    /// Makes a target and begins to move a table there, in the plain database as well.
    ///
    /// - Parameter refusing: Checks that an error may occur; is told whether all rows fit.
    /// - Returns: Whether the table moves.
    func begin(
        _ call: LifeCall,
        of table: LifeTable,
        to place: LifePlace,
        _ change: LifeChange,
        refusing: (any Error, Bool) throws -> Void
    ) throws -> Bool {
        guard try createTarget(place, change.shape) else { return false }
        let converted = prepareConversion(table, change, "new_table")
        do {
            try begin(call)
        } catch {
            dropTarget(place)
            try forgetConversion()
            try refusing(error, converted)
            return false
        }
        guard converted else { throw LifeProblem("begins although rows cannot fit") }
        try applyConversion(table, to: place.table, change.shape)
        return true
    }

    /// Says a call again, as a launch does.
    func begin(_ call: LifeCall) throws {
        let entries = call.entries
        let source: MigrationSource = call.target == call.source ? .sameDatabase : .file(path(call.source))
        // A table may have gone since the call was first made.
        _ = try faulty("begin") {
            try database(call.target).addMigration(
                source: source,
                retirement: call.retirement,
                allowsNoTables: true,
                filter: Self.filter(entries)
            )
        }
    }

    private static func filter(_ entries: [LifeCall.Entry]) -> @Sendable (inout TableMigration) -> Void {
        { table in
            guard let entry = entries.first(where: { $0.target == table.name }) else { return }
            table.sourceTable = entry.source
            table.condition = entry.condition
            table.columns = entry.change.mappings
            table.unmatchedColumns = .ignored
            table.verification = entry.verification
            if entry.setsAside { table.refusedRows = .setAside }
            guard !entry.mended.isEmpty else { return }
            table.refusedRows = .ask { _ in
                .replace(Dictionary(entry.mended.map { ($0, SQLiteValue.null) }) { first, _ in first })
            }
        }
    }

    // MARK: The target's table

    /// Makes an empty table. If a table that has moved away has left a view of that name, drops the view, and forgets
    /// what was said of that table.
    func createTarget(_ place: LifePlace, _ shape: LifeShape) throws -> Bool {
        let database = try database(place.file)
        do {
            let type = try database.fetchValue(
                String.self,
                "SELECT type FROM sqlite_master WHERE name = ?",
                [place.table]
            )
            if let type {
                // The table was kept, or others still read it.
                guard type == "view" else {
                    note("  there is a \(type) of that name")
                    return false
                }
                try database.execute("DROP VIEW \(place.table)")
            }
            forget(place)
            try database.execute(shape.createTable(place.table))
            for sql in shape.createIndexes(place.table, number: &state.indexes) { try database.execute(sql) }
        } catch let error as MigrationError {
            try refuse("create", error)
            return false
        }
        return true
    }

    /// Forgets calls that the application does not repeat, since the name means something else from now on.
    func forget(_ place: LifePlace) {
        for index in state.calls.indices {
            let call = state.calls[index]
            state.calls[index].entries.removeAll { entry in
                call.source == place.file && entry.source == place.table
                    || call.target == place.file && entry.target == place.table
            }
        }
        state.calls.removeAll { $0.entries.isEmpty }
    }

    func dropTarget(_ place: LifePlace) {
        do {
            try database(place.file).execute("DROP TABLE \(place.table)")
        } catch {
            note("  cannot be dropped: \(error)")
        }
    }

    // MARK: The plain table

    /// Copies the plain table into another shape, beside it.
    ///
    /// - Returns: Whether all rows fit, apart from those that a CHECK refuses.
    func prepareConversion(
        _ table: LifeTable,
        _ change: LifeChange,
        _ name: String,
        where condition: String? = nil,
        savepoint: Bool = true
    ) -> Bool {
        do {
            if savepoint { try oracle.execute("SAVEPOINT conversion") }
            try oracle.execute(change.shape.createTable(name))
            for index in change.shape.indexes where index.isUnique {
                state.indexes += 1
                try oracle.execute(
                    "CREATE UNIQUE INDEX n\(state.indexes) ON \(name)(\(index.columns.joined(separator: ", ")))"
                )
            }
            try oracle.execute("PRAGMA ignore_check_constraints = ON")
            defer { try? oracle.execute("PRAGMA ignore_check_constraints = OFF") }
            try oracle.execute(change.copy(from: table.plain, table.shape, to: name, condition: condition))
            if table.shape.key == .autoIncrement, change.shape.key == .autoIncrement {
                try oracle.execute("DELETE FROM sqlite_sequence WHERE name = '\(name)'")
                try oracle.execute(
                    "INSERT INTO sqlite_sequence SELECT '\(name)', seq FROM sqlite_sequence WHERE name = '\(table.plain)'"
                )
            }
            return true
        } catch {
            note("  does not fit: \(error)")
            return false
        }
    }

    func forgetConversion() throws {
        try oracle.execute(script: "ROLLBACK TO conversion; RELEASE conversion")
    }

    func applyConversion(_ table: LifeTable, to name: String, _ shape: LifeShape) throws {
        try oracle.execute("DROP TABLE \(table.plain)")
        try oracle.execute("ALTER TABLE new_table RENAME TO \(name)")
        try oracle.execute("RELEASE conversion")
    }

    // MARK: Steps

    func step(_ dice: Dice) throws {
        let moving = state.tables.filter { $0.move != nil }
        guard let table = moving.isEmpty ? pick(dice) : dice.pick(moving) else { return }
        let file = dice.percent(85) ? table.place.file : dice.below(Self.fileCount)
        guard databases[file] != nil || Files.exists(path(file)) else { return }
        for _ in 0..<dice.between(1, 4) {
            do {
                if dice.percent(60) {
                    let rows = Int64(dice.pick([0, 1, 2, 5, 12, 40]))
                    let progress = try faulty("step") { try self.database(file).stepMigration(rows: rows) }
                    note("step f\(file) by \(rows) rows: \(Self.text(progress))")
                } else {
                    let budget = Duration.microseconds(dice.pick([1, 300, 5000]))
                    let progress = try faulty("step") { try self.database(file).stepMigration(budget: budget) }
                    note("step f\(file): \(Self.text(progress))")
                }
            } catch let error as MigrationError where error.code == .rowRefused {
                try refuse("step", error)
                if dice.percent(50) { try delete(error) }
                break
            }
        }
        try settle()
    }

    static func text(_ progress: MigrationProgress) -> String {
        "\(progress.outcome), "
            + progress.tables.map {
                "\($0.sourceTable)->\($0.name) \($0.movedRows)/\($0.totalRows ?? -1) \($0.phase)\($0.isReturning ? " returning" : "")"
            }
            .joined(separator: ", ")
    }

    /// Moves everything that has yet to come into a file.
    func finish(_ file: Int) throws {
        note("finish f\(file)")
        for _ in 0..<400 {
            do {
                let progress = try faulty("step") { try self.database(file).stepMigration() }
                if progress.isFinished { break }
                if progress.outcome == .busy || progress.outcome == .waitingForReaders {
                    note("  \(Self.text(progress))")
                    break
                }
            } catch let error as MigrationError where error.code == .rowRefused {
                try refuse("step", error)
                try delete(error)
            }
        }
        try settle()
    }

    func finishOne(_ dice: Dice) throws {
        guard let table = pick(dice) else { return }
        try finish(table.place.file)
    }

    /// Finds out which moves have come to their end.
    func settle() throws {
        // When all rows are back, the table in which they were is empty. Until a step has told that it has returned, it
        // may go on with others.
        for file in Set(state.tables.filter { $0.move != nil }.map(\.place.file)) {
            let database = try database(file)
            for round in 0..<10
            where try database.readMigrationProgress().tables.contains(where: { $0.isReturning && $0.phase == .copied })
            {
                // The step may be waiting for this reader.
                if round == 5 { endReader() }
                try database.stepMigration()
            }
        }
        for table in state.tables {
            guard let move = table.move, let index = index(of: table.id) else { continue }
            let progress = try database(table.place.file).readMigrationProgress()
            let isGoingOn = progress.tables.contains { $0.name == table.place.table && $0.phase != .done }
            if isGoingOn { continue }
            if move.isReturning, let origin = move.origin {
                try comeBack(index, origin, move)
            } else {
                note("  \(table.place) has moved")
                state.tables[index].move = nil
            }
        }
        for file in 0..<Self.fileCount where !Files.exists(path(file)) {
            if databases[file] != nil { close(file) }
            state.calls.removeAll { $0.source == file }
            state.kept.removeAll { $0.place.file == file }
        }
        try forgetEmptyParts()
    }

    // MARK: Going back

    func cancel(_ dice: Dice) throws {
        let moving = state.tables.filter { $0.move != nil }
        guard !moving.isEmpty else { return }
        let table = dice.pick(moving)
        let isOfAll = dice.percent(25) && moving.count == state.tables.filter { $0.move != nil }.count
        // The tables that share its source return together with it.
        let group = moving.filter { other in
            other.id == table.id
                || table.move?.condition != nil && other.move?.condition != nil
                    && other.move?.origin == table.move?.origin
        }
        // If a part of a source returns while another part moves to its end, nothing is promised for the source.
        let hasRest = state.tables.contains { $0.part != nil && $0.place == table.move?.origin }
        if let move = table.move, move.condition != nil, move.strangers == 0, group.count == 1, !hasRest { return }
        note("cancel \(isOfAll ? "all of f\(table.place.file)" : "\(group.map(\.place))")")
        let files = Set(group.map(\.place.file)).sorted { a, _ in a == table.place.file }
        for file in files {
            let names = group.filter { $0.place.file == file }.map(\.place.table)
            var tries = 0
            do {
                try faulty("cancel") {
                    tries += 1
                    do {
                        try database(file).cancelMigration(of: isOfAll ? nil : names)
                    } catch let error as MigrationError where tries == 2 && error.code == .misuse {
                        // No row had come, and the fault has struck after the end.
                        note("  done before: \(error)")
                    }
                }
            } catch {
                try refuse("cancel", error)
                if file == files.first { return }
                throw LifeOver()
            }
        }
        // If no row had come, all rows are in the source as they were. The plain tables do not know how they were.
        let returning = isOfAll ? moving.filter { files.contains($0.place.file) } : group
        if returning.contains(where: { !($0.move?.isReversible(from: $0.shape) ?? true) }) { throw LifeOver() }
        for file in files { try noteReturning(file, group, isOfAll) }
        let parts = state.tables.compactMap(\.move).filter { $0.condition != nil }
        for part in parts where part.isReturning {
            if parts.contains(where: { $0.origin == part.origin && !$0.isReturning }) { throw LifeOver() }
        }
        try settle()
    }

    private func noteReturning(_ file: Int, _ group: [LifeTable], _ isOfAll: Bool) throws {
        let progress = try database(file).readMigrationProgress()
        for (index, other) in state.tables.enumerated() where other.place.file == file && other.move != nil {
            let records = progress.tables.filter { $0.name == other.place.table && $0.phase != .done }
            let isReturning =
                group.contains { $0.id == other.id } && !isOfAll
                ? true : (isOfAll ? records.contains { $0.isReturning } || records.isEmpty : nil)
            guard let isReturning, isReturning else { continue }
            note("  \(other.place) returns: \(Self.text(progress))")
            state.tables[index].move?.isReturning = true
            forgetCalls(of: other)
        }
    }

    private func forgetCalls(of table: LifeTable) {
        for index in state.calls.indices where state.calls[index].target == table.place.file {
            state.calls[index].entries.removeAll { $0.target == table.place.table }
        }
        state.calls.removeAll { $0.entries.isEmpty }
    }

    private func comeBack(_ index: Int, _ origin: LifePlace, _ move: LifeMove) throws {
        let table = state.tables[index]
        note("  \(table.place) has returned to \(origin)")
        let shape = move.former
        guard prepareConversion(table, LifeChange(shape: shape, made: move.inverted), "new_table") else {
            throw LifeProblem("\(table.place) has returned although its rows cannot")
        }
        let left = try database(table.place.file).fetchValue(Int.self, "SELECT count(*) FROM \(table.place.table)")
        if left != 0 { throw LifeProblem("\(table.place) has returned and has \(left ?? -1) rows") }
        dropTarget(table.place)
        state.tables[index].place = origin
        state.tables[index].shape = shape
        state.tables[index].move = nil
        if move.strangers > 0 {
            try deleteStrangers(origin, shape.key, move.strangers)
        } else {
            state.tables[index].part = move.condition
            state.tables[index].parts = move.condition == nil ? 1 : 2
        }
        try applyConversion(table, to: state.tables[index].plain, shape)
        state.kept.removeAll { $0.place == origin }
        try reunite(origin)
    }

    /// Makes one table of the parts that have returned to a place, once all of them have returned.
    private func reunite(_ origin: LifePlace) throws {
        let parts = state.tables.filter { $0.place == origin && $0.part != nil }
        // A part that has moved on, or to its end, does not count any more.
        guard let first = parts.first, parts.count == first.parts else { return }
        note("  \(parts.count) parts of \(origin) are one table again")
        var whole = first
        whole.part = nil
        whole.parts = 1
        whole.knowsRowIDs = parts.allSatisfy(\.knowsRowIDs)
        try oracle.execute("ALTER TABLE \(first.plain) RENAME TO \(whole.plain)")
        for part in parts.dropFirst() {
            guard prepareInsertion(part, LifeChange(shape: whole.shape), into: whole.plain) else {
                throw LifeProblem("parts of \(origin) have returned and have the same keys")
            }
            try oracle.execute("DROP TABLE \(part.plain)")
            try oracle.execute("RELEASE conversion")
        }
        state.tables.removeAll { $0.place == origin && $0.part != nil }
        state.tables.append(whole)
    }
}
