import Midstream
import SQLiteConnection
import SQLiteFeatures

/// What the application writes.
extension LifeWorld {
    private struct RolledBack: Error {}
    private struct Struck: Error {
        let text: String
    }
    private struct CheckInTheWay: Error {}
    private struct Refused: Error {
        let error: any Error
    }

    /// Runs a transaction of some statements on tables of one file. It may be rolled back.
    func write(_ dice: Dice) throws {
        guard let first = pick(dice) else { return }
        let file = first.place.file
        let own = state.tables.filter { $0.place.file == file && $0.part == nil }
        let isRolledBack = dice.percent(15)
        let usesSavepoint = dice.percent(25)
        let count = dice.pick([1, 1, 2, 3, 6])
        let database = try database(file)
        var statements: [String] = []
        startFault()
        defer { endFault() }
        note("write f\(file)\(isRolledBack ? ", rolled back" : "")\(usesSavepoint ? ", savepoint" : "")")
        try oracle.execute("BEGIN")
        var isOpen = true
        defer { if isOpen { try? oracle.execute("ROLLBACK") } }
        do {
            try database.write { access in
                func both(_ sql: String, on table: LifeTable? = nil) throws {
                    note("  \(sql)")
                    statements.append(sql)
                    let mine = try outcome { try access.execute(sql) }
                    if hasStruck { throw Struck(text: mine) }
                    let changes = (access.changes, access.lastInsertRowID)
                    let mayRefuse =
                        try mine.contains("CHECK constraint failed") && table.map { try hasRefusedRows($0) } ?? false
                    let native = try outcome { try oracle.execute(sql) }
                    // A row that the table's CHECK refuses is in the way of an INSERT.
                    if mine != native, mayRefuse {
                        throw CheckInTheWay()
                    }
                    guard mine == native else { throw LifeProblem("\(sql): \(mine), not \(native)") }
                    guard SQLiteFeature.writesOfKeyedTables.isAvailable else { return }
                    if native == "done", !sql.contains("SAVEPOINT"), !sql.hasPrefix("R"), changes.0 != oracle.changes {
                        throw LifeProblem("\(sql): \(changes.0) changes, not \(oracle.changes)")
                    }
                }
                for number in 0..<count {
                    if usesSavepoint, number == count / 2 { try both("SAVEPOINT s") }
                    let table = number == 0 ? first : dice.pick(own)
                    try both(LifeStatements(table, oracle, dice).random(), on: table)
                }
                if usesSavepoint {
                    if dice.percent(60) { try both("ROLLBACK TO s") }
                    try both("RELEASE s")
                }
                if isRolledBack { throw RolledBack() }
            }
            try oracle.execute("COMMIT")
            isOpen = false
        } catch let error where hasStruck {
            note("  fault: \(error)")
            endFault()
            if dice.percent(50), !isOpenTwice { close(file) }
            try oracle.execute("ROLLBACK")
            isOpen = false
            // A transaction that was said to have failed may be there as a whole.
            do { try check() } catch {
                if error is LifeProblem, isRolledBack { throw error }
                for sql in statements { try? oracle.execute(sql) }
                note("  it may be there")
            }
        } catch is RolledBack {
        } catch is CheckInTheWay {
            note("  a CHECK is in the way")
        } catch let refused as Refused {
            try refuse("write", refused.error)
        } catch let problem as LifeProblem {
            throw problem
        } catch {
            try refuse("write", error)
        }
    }

    private func outcome(_ body: () throws -> Void) throws -> String {
        do {
            try body()
            return "done"
        } catch let error as SQLiteError {
            return "\(error.code) \(error.message)"
        } catch {
            throw Refused(error: error)
        }
    }

    func pick(_ dice: Dice) -> LifeTable? {
        let tables = state.tables.filter { $0.part == nil }
        return tables.isEmpty ? nil : dice.pick(tables)
    }

    /// Makes the application go on without a row that was refused, and without the rows that a new CHECK refuses.
    func delete(_ refused: MigrationError) throws {
        try deleteRefusedRows()
        for table in state.tables where table.place.table == refused.table && table.part == nil {
            var keys = refused.keyColumns
            if let key = refused.key {
                let sql = "SELECT id, k FROM \(table.place.table) WHERE rowid = ?"
                keys = try database(table.place.file).fetchOne(sql, [key])?.values ?? []
            } else if table.shape.key != .pair {
                keys.append(.null)
            }
            guard keys.count == 2 else { continue }
            let sql = "DELETE FROM \(table.place.table) WHERE id IS ?1 AND ifnull(?2, k) = k"
            note("  \(sql): \(keys)")
            try database(table.place.file).execute(sql, Arguments(keys))
            try oracle.execute(sql, Arguments(keys))
        }
    }

    private func deleteRefusedRows() throws {
        for table in state.tables {
            guard let refused = table.shape.refused, table.part == nil else { continue }
            let sql = "DELETE FROM \(table.place.table) WHERE \(refused)"
            guard try oracle.fetchValue(Int.self, "SELECT count(*) FROM \(table.place.table) WHERE \(refused)") != 0
            else { continue }
            note("  \(sql)")
            do {
                try database(table.place.file).execute(sql)
            } catch {
                try refuse("delete refused rows", error, of: table)
                continue
            }
            try oracle.execute(sql)
        }
    }
}
