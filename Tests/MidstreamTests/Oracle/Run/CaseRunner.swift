import Midstream
import SQLiteConnection

/// Runs a case on both sides and compares after every statement.
struct CaseRunner {
    /// How the sides differ.
    struct Difference: Error, CustomStringConvertible {
        /// The position of the operation in the case.
        var position: Int
        var description: String
    }

    let oracleCase: OracleCase
    /// Whether all tables are compared after every statement that writes; otherwise only after some.
    var isThorough = false

    /// - Returns: The first difference, how many statements ran, and whether a table moved on.
    func run() -> (difference: Difference?, statements: Int, hasMovedOn: Bool) {
        var count = 0
        var hasMovedOn = false
        do {
            let files = try CaseFiles(oracleCase)
            var position = 0
            defer { hasMovedOn = files.hasMovedOn }
            while position < oracleCase.operations.count {
                try advance(files, &position, &count)
            }
            if let text = try files.compareAtEnd() { throw Difference(position: position, description: text) }
            return (nil, count, files.hasMovedOn)
        } catch let difference as Difference {
            return (difference, count, hasMovedOn)
        } catch is EndlessWrite {
            return (nil, count, hasMovedOn)
        } catch {
            return (Difference(position: -1, description: "outside a statement: \(error)"), count, hasMovedOn)
        }
    }

    // MARK: Operations

    private func advance(_ files: CaseFiles, _ position: inout Int, _ count: inout Int) throws {
        switch oracleCase.operations[position] {
        case .step(let rows):
            do {
                try step(files, rows)
            } catch {
                throw Difference(position: position, description: "a step failed: \(error)")
            }
        case .read(let command):
            count += 1
            try read(command, files, position)
        case .other(let command):
            count += 1
            let (database, native) = try files.others()
            try native.readSchema()
            defer { try? files.native.readSchema() }
            try database.withoutTransaction { try compare(command, $0, native, position) }
        case .stranger(let command):
            // The operation is meant for tables that do not move.
            if files.hasMovedFile { break }
            count += 1
            let (target, native) = try files.strangers()
            defer {
                target.connection.close()
                native.connection.close()
                try? files.native.readSchema()
            }
            try compare(command, target, native, position)
        case .block(let commands, let commits):
            count += commands.count
            try block(commands, commits, files, position)
        case .reopen: try files.reopen()
        case .moveOn, .moveFile:
            do {
                if case .moveOn = oracleCase.operations[position] { try files.moveOn() } else { try files.moveFile() }
            } catch {
                throw Difference(position: position, description: "a later migration failed: \(error)")
            }
        case .run, .loop:
            try files.database.withoutTransaction { access in
                try runStatements(access, files, &position, &count)
            }
            return
        }
        position += 1
    }

    private func step(_ files: CaseFiles, _ rows: Int64?) throws {
        if let rows { try files.database.stepMigration(rows: rows) } else { try files.database.stepMigration() }
    }

    /// Runs statements until one needs an idle connection. Within a transaction, statements that need one are left out.
    private func runStatements(
        _ access: DatabaseAccess,
        _ files: CaseFiles,
        _ position: inout Int,
        _ count: inout Int
    ) throws {
        while position < oracleCase.operations.count {
            switch oracleCase.operations[position] {
            case .run(let command):
                count += 1
                try compare(command, access, files.native, position)
                try compareTables(access, files.native, position)
            case .loop(let select, let writes, let limit):
                count += 1
                try loop(select, writes, limit, access, files.native, position)
                try compareTables(access, files.native, position)
            default:
                if !access.isInTransaction { return }
            }
            position += 1
        }
        if access.isInTransaction { try compare(Command(sql: "ROLLBACK"), access, files.native, position) }
    }

    /// Whether DISTINCT has left a row twice. SQLite compares each row with the row before if an index that it makes
    /// for the occasion brings equal rows together. An index by which text is compared as numbers does not do so.
    private func isRepeated(_ theirs: Outcome, _ command: Command) -> Bool {
        command.sql.hasPrefix("SELECT DISTINCT") && !command.sql.contains("UNION")
            && Set(theirs.rows.map { $0.map(literal) }).count < theirs.rows.count
    }

    private func compare(_ command: Command, _ mine: some Side, _ native: NativeSide, _ position: Int) throws {
        var theirs = native.run(command)
        if theirs.isEndless { throw EndlessWrite() }
        if theirs.isTooLong || isRepeated(theirs, command) { return }
        let own = mine.run(command)
        // After the largest possible rowid, SQLite chooses rowids at random.
        let chosen = [own.lastInsertRowID, theirs.lastInsertRowID]
        if chosen[0] != chosen[1], chosen.allSatisfy({ $0 > 1 << 53 }) { throw EndlessWrite() }
        // AUTOINCREMENT has used the largest rowid. A statement that fires no trigger then loses its transaction.
        if theirs.failure?.hasPrefix("13:") ?? false, own.failure == theirs.failure,
            own.isInTransaction != theirs.isInTransaction
        {
            throw EndlessWrite()
        }
        // In a transaction, SQLite 3.40 takes the column to be gone although the statement was refused.
        if theirs.failure != nil, command.sql.contains("DROP COLUMN"), native.isInTransaction { throw EndlessWrite() }
        // SQLite may count the rows of a dropped table that foreign keys connect with others. Any later statement may
        // ask for that count.
        if command.sql.hasPrefix("DROP TABLE"), own.changes != theirs.changes,
            oracleCase.tables.contains(where: { !$0.foreignKeys.isEmpty })
        {
            throw EndlessWrite()
        }
        // Natively, VACUUM sets `last_insert_rowid()` to the rowid of some row that it copied. If a table has both
        // immediate and deferred keys, and one of them refuses a row outside transactions, it depends on the key
        // whether that row counts.
        if command.sql == "VACUUM" || isRefusedByOneOfMixedKeys(own, theirs) {
            native.connection.lastInsertRowID = own.lastInsertRowID
            theirs.lastInsertRowID = own.lastInsertRowID
        }
        let order =
            command.order == .scan && theirs.failure == nil && native.scansInOrder(command, oracleCase)
            ? .total : command.order
        if let text = own.difference(from: theirs, order: order, isLoose: command.isLoose) {
            if hasRandomRowIDs(mine, native) { throw EndlessWrite() }
            throw Difference(position: position, description: "\(command)\n  \(text)")
        }
    }

    private func isRefusedByOneOfMixedKeys(_ own: Outcome, _ theirs: Outcome) -> Bool {
        guard own.failure?.hasPrefix("787:") ?? false, own.failure == theirs.failure, !theirs.isInTransaction else {
            return false
        }
        return oracleCase.tables.contains { table in
            Set(table.foreignKeys.map { $0.contains("INITIALLY DEFERRED") }).count == 2
        }
    }

    /// Whether the tables differ in rowids that were chosen at random, after the largest of all, in the middle of a
    /// statement or in a trigger. `last_insert_rowid()` does not tell of such rowids.
    private func hasRandomRowIDs(_ mine: some Side, _ native: NativeSide) -> Bool {
        oracleCase.tables.contains { table in
            guard table.primaryKey.isEmpty else { return false }
            let command = Command(sql: table.contents, order: .total)
            let keys = [native.run(command), mine.run(command)].map { Set($0.rows.compactMap { literal($0[0]) }) }
            let others = keys[0].symmetricDifference(keys[1])
            return keys[0].contains("\(Int64.max)") && !others.isEmpty && others.allSatisfy { Int64($0) ?? 0 > 1 << 53 }
        }
    }

    /// Now and then, reads each table as a whole.
    private func compareTables(_ mine: some Side, _ native: NativeSide, _ position: Int) throws {
        guard isThorough || position % 3 == 0 else { return }
        for table in oracleCase.tables {
            let command = Command(sql: table.contents, order: .total)
            let theirs = native.run(command)
            // The table has moved on.
            if table.name == oracleCase.chain?.from, theirs.failure != nil { continue }
            let own = mine.run(command)
            if let text = own.difference(from: theirs, order: .total, isLoose: false) {
                if hasRandomRowIDs(mine, native) { throw EndlessWrite() }
                let last = position < oracleCase.operations.count ? "\(oracleCase.operations[position])" : "the end"
                throw Difference(position: position, description: "\(table.name) after \(last)\n  \(text)")
            }
        }
    }

    private func read(_ command: Command, _ files: CaseFiles, _ position: Int) throws {
        let theirs = files.native.run(command)
        if theirs.isTooLong || isRepeated(theirs, command) { return }
        var own = try files.database.read { $0.run(command) }
        // A connection that only reads cannot drain a table, and says so.
        if own.foreignFailure?.hasPrefix("refusedStatement") == true {
            own = try files.database.withoutTransaction { $0.run(command) }
        }
        own.changes = theirs.changes
        own.lastInsertRowID = theirs.lastInsertRowID
        own.isInTransaction = theirs.isInTransaction
        let order =
            command.order == .scan && theirs.failure == nil && files.native.scansInOrder(command, oracleCase)
            ? .total : command.order
        if let text = own.difference(from: theirs, order: order, isLoose: command.isLoose) {
            throw Difference(position: position, description: "\(command)\n  \(text)")
        }
    }

    private struct Abandoned: Error {}

    /// Compares the results of a block's COMMIT. If COMMIT fails because of a deferred foreign key, the block is rolled
    /// back.
    private func compareCommits(_ error: SQLiteError?, _ native: NativeSide, _ position: Int) throws {
        let theirs = native.isInTransaction ? native.run(Command(sql: "COMMIT")).failure : nil
        let mine = error.map { "\($0.code.rawValue): \($0.message)" }
        if native.isInTransaction { _ = native.run(Command(sql: "ROLLBACK")) }
        if mine != theirs {
            let text = "COMMIT of a block: native \(theirs ?? "none"), Midstream \(mine ?? "none")"
            throw Difference(position: position, description: text)
        }
    }

    private func block(_ commands: [Command], _ commits: Bool, _ files: CaseFiles, _ position: Int) throws {
        _ = files.native.run(Command(sql: "BEGIN IMMEDIATE"))
        var isLost = false
        do {
            try files.database.write { access in
                for command in commands {
                    try compare(command, access, files.native, position)
                    // A conflict with OR ROLLBACK has ended the transaction. The block can do nothing any more.
                    isLost = !access.isInTransaction
                    if isLost { return }
                    try compareTables(access, files.native, position)
                }
                if !commits { throw Abandoned() }
            }
            if isLost {
                throw Difference(position: position, description: "a block that was rolled back was committed")
            }
            try compareCommits(nil, files.native, position)
        } catch let error as SQLiteError {
            if isLost, error.message.contains("has been rolled back") { return }
            try compareCommits(error, files.native, position)
        } catch is Abandoned {
            _ = files.native.run(Command(sql: "ROLLBACK"))
        }
    }

    private func loop(
        _ select: Command,
        _ writes: [Command],
        _ limit: Int,
        _ mine: DatabaseAccess,
        _ native: NativeSide,
        _ position: Int
    ) throws {
        let theirs = native.loop(select, writes, limit: limit)
        let own = mine.loop(select, writes, limit: limit)
        for (number, (one, other)) in zip(own, theirs).enumerated() {
            if let text = one.difference(from: other, order: .total, isLoose: false) {
                let what = number == 0 ? select : writes[(number - 1) % writes.count]
                throw Difference(position: position, description: "loop, \(number): \(what)\n  \(text)")
            }
        }
        if own.count != theirs.count { throw Difference(position: position, description: "loop: lengths differ") }
    }
}
