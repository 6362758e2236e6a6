import Midstream
import SQLiteConnection

/// What happens to files that are closed, and what programs without Midstream do.
extension LifeWorld {
    /// The next launch of the application. It says its migrations again, or leaves that to a later launch.
    func reopen(_ dice: Dice) throws {
        note("reopen")
        for file in Array(databases.keys) where dice.percent(80) { close(file) }
        try launch(saysCalls: dice.percent(60))
    }

    func launch(saysCalls: Bool) throws {
        for file in 0..<Self.fileCount where Files.exists(path(file)) { _ = try database(file) }
        guard saysCalls else { return }
        for call in state.calls {
            note("  again: f\(call.source) -> f\(call.target), \(call.entries.map { "\($0.source)->\($0.target)" })")
            do {
                try begin(call)
            } catch {
                throw LifeProblem("said again: \(error)")
            }
        }
        try settle()
    }

    /// Goes on with another `Database` of the same file, while the first is still there.
    func openTwice(_ dice: Dice) throws {
        guard let table = pick(dice) else { return }
        let file = table.place.file
        let first = try database(file)
        note("open f\(file) twice")
        let second = try Database(path: path(file), key: keys[file], configuration: configuration())
        databases[file] = second
        isOpenTwice = true
        defer {
            isOpenTwice = false
            second.close()
            databases[file] = first
        }
        for _ in 0..<dice.between(1, 3) {
            switch dice.below(9) {
            case 0: try addMigration(dice)
            case 1: try cancel(dice)
            case 2: try rebuild(dice)
            case 3: try upgrade(dice)
            case 4: try alter(dice)
            case 5: try step(dice)
            default: try write(dice)
            }
            try check()
            if dice.percent(50) {
                databases[file] = first
                try check()
                databases[file] = second
            }
        }
    }

    /// A program without Midstream tries to write a table where rows are, or have been.
    func writePlainly(_ dice: Dice) throws {
        var places: [(LifePlace, LifeTable, isHead: Bool)] = []
        for table in state.tables where table.part == nil {
            places.append((table.place, table, true))
            if let move = table.move, let origin = move.origin {
                var former = table
                former.shape = move.former
                former.place = origin
                places.append((origin, former, false))
            }
        }
        guard !places.isEmpty else { return }
        let (place, table, isHead) = dice.pick(places)
        if dice.percent(50) { closeAll() }
        guard Files.exists(path(place.file)) else { return }
        var written = table
        written.place = place
        let sql = LifeStatements(written, oracle, dice).plainWrite(known: isHead)
        note("plainly in f\(place.file): \(sql)")
        let mine = outcome { try plainly(place.file) { try $0.execute(sql) } }
        if isHead, try !isGuarded(table) {
            let native = outcome { try oracle.execute(sql) }
            guard mine == native else { throw LifeProblem("plainly: \(sql): \(mine), not \(native)") }
        } else if mine == "done" {
            // A program without Midstream must not write a table whose rows are elsewhere.
            throw LifeProblem("a program without Midstream has written \(place): \(sql)")
        }
        if databases.isEmpty { try launch(saysCalls: dice.percent(30)) }
    }

    /// Whether a table has rows on both sides.
    private func isGuarded(_ table: LifeTable) throws -> Bool {
        guard table.move != nil else { return false }
        return try Database.readMigrationProgress(ofFile: path(table.place.file), key: keys[table.place.file]).tables
            .contains {
                $0.name == table.place.table && $0.phase == .copying
            }
    }

    private func outcome(_ body: () throws -> Void) -> String {
        do {
            try body()
            return "done"
        } catch { return "\(error)" }
    }

    /// Whether VACUUM may give the rows of the file's tables other rowids. A move would not survive that.
    private func mayBeVacuumed(_ file: Int) throws -> Bool {
        // A move of a chain may have yet to end although its table has moved on.
        let isOver = try (0..<Self.fileCount).allSatisfy { other in
            try !Files.exists(path(other))
                || Database.readMigrationProgress(ofFile: path(other), key: keys[other]).tables.allSatisfy {
                    $0.phase == .done || other != file && $0.sourcePath != path(file)
                }
        }
        return isOver
            && state.tables.allSatisfy { table in
                guard let move = table.move else { return true }
                return table.place.file != file && move.origin?.file != file && !move.earlier.contains(file)
            }
    }

    /// What other programs do with a file that nobody has open.
    func useFile(_ dice: Dice) throws {
        let file = dice.below(Self.fileCount)
        guard Files.exists(path(file)) else { return }
        closeAll()
        switch dice.below(4) {
        case 0 where try mayBeVacuumed(file):
            note("vacuum f\(file) plainly")
            for index in state.tables.indices where state.tables[index].place.file == file {
                state.tables[index].knowsRowIDs = false
            }
            try plainly(file) { try $0.execute("VACUUM") }
        case 1:
            note("journal mode of f\(file) DELETE")
            try plainly(file) { try $0.execute("PRAGMA journal_mode = DELETE") }
        case 2:
            note("checkpoint f\(file) plainly")
            try plainly(file) { try $0.execute("PRAGMA wal_checkpoint(TRUNCATE)") }
        default:
            note("read f\(file) plainly")
            for table in state.tables where table.place.file == file {
                let sql = "SELECT count(*) FROM \(table.place.table)"
                _ = try plainly(file) { try $0.fetchValue(Int.self, sql) }
            }
        }
        try launch(saysCalls: dice.percent(50))
    }

    // MARK: Backups

    /// Keeps a copy of all files, or restores the last copy.
    func backUpOrRestore(_ dice: Dice) throws {
        closeAll()
        func names() -> [String] { (0..<Self.fileCount).map { path($0) } }
        if let former = backup, dice.percent(50) {
            note("restore all files")
            for name in names() { Files.removeDatabase(name) }
            let (count, indexes) = (state.names, state.indexes)
            state = former
            (state.names, state.indexes) = (count, indexes)
            // If the files have been copied or moved since, they are restored at their new paths.
            for name in names() {
                Files.removeDatabase(name)
                if Files.exists(name + "-saved") { Files.copyDatabase(name + "-saved", to: name) }
            }
            try restoreOracle()
        } else {
            note("back up all files")
            for name in names() {
                Files.removeDatabase(name + "-saved")
                if Files.exists(name) { Files.copyDatabase(name, to: name + "-saved") }
            }
            backup = state
            Files.copyDatabase(folder.file("oracle.db"), to: folder.file("oracle.db-saved"))
        }
        try launch(saysCalls: dice.percent(50))
    }

    // MARK: Other folders

    /// Gives files other paths: copies or moves all of them together, or moves a single file, of which the application
    /// knows.
    func relocate(_ dice: Dice) throws {
        closeAll()
        folders.append(TemporaryFolder())
        let next = folders.count - 1
        let areTogether = Set(state.folders).count == 1
        let former = (0..<Self.fileCount).map { path($0) }
        if areTogether, dice.percent(60) {
            let isCopy = dice.percent(50)
            note("\(isCopy ? "copy" : "move") all files")
            state.folders = state.folders.map { _ in next }
            for (file, name) in former.enumerated() where Files.exists(name) {
                if isCopy { Files.copyDatabase(name, to: path(file)) } else { Files.moveDatabase(name, to: path(file)) }
            }
        } else {
            let file = dice.below(Self.fileCount)
            note("move f\(file)")
            state.folders[file] = next
            if Files.exists(former[file]) { Files.moveDatabase(former[file], to: path(file)) }
        }
        try launch(saysCalls: dice.percent(50))
    }

    private func restoreOracle() throws {
        oracle.close()
        Files.copyDatabase(folder.file("oracle.db-saved"), to: folder.file("oracle.db"))
        oracle = try Self.openOracle(folder)
    }
}
