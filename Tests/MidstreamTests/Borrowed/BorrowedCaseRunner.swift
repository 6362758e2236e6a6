import Midstream
import SQLiteC
import SQLText

@testable import SQLiteConnection

/// A connection that other code opened, as a side of a case.
struct ForeignSide: Side {
    let connection: Connection
    /// Whether prepared statements are kept, as libraries do.
    let keepsStatements: Bool
    /// Rewrites what SQLite refuses on virtual tables.
    let overlay: MigrationOverlay?

    func scan(_ sql: String, _ arguments: Arguments, _ body: (Statement) throws -> Bool) throws {
        let sql = try rewritten(sql)
        var statement = keepsStatements ? try connection.cachedStatement(sql) : try connection.prepare(sql)
        if statement.isBusy { statement = try connection.prepare(sql) }
        defer { statement.reset() }
        statement.clearBindings()
        try statement.bind(arguments)
        while try statement.step() {
            guard try body(statement) else { return }
        }
    }

    private func rewritten(_ sql: String) throws -> String {
        do {
            return try overlay?.rewritten(sql) ?? sql
        } catch let error as MigrationError where error.code == .refusedStatement {
            throw SQLiteError(code: .error, message: error.message)
        }
    }

    var changes: Int64 { connection.changes }
    var lastInsertRowID: Int64 { connection.lastInsertRowID }
    var isInTransaction: Bool { connection.isInTransaction }
}

/// Runs a case through a connection that other code opened, and compares after every statement. If a statement is
/// refused, by an error that the documentation lists, it is left out on both sides.
final class BorrowedCaseRunner {
    struct Count {
        var run = 0
        /// How many of these ran while foreign keys were enforced.
        var enforced = 0
        var refused: [String: Int] = [:]
        var leftOut = 0
        var repeated = 0
        var abandoned = 0

        static func += (left: inout Count, right: Count) {
            left.run += right.run
            left.enforced += right.enforced
            left.leftOut += right.leftOut
            left.repeated += right.repeated
            left.abandoned += right.abandoned
            left.refused.merge(right.refused, uniquingKeysWith: +)
        }
    }

    private struct Abandoned: Error {}

    private let oracleCase: OracleCase
    private let library: ForeignConnection.Library
    private let isThorough: Bool
    private let files: CaseFiles
    private var foreign: ForeignConnection
    private var reader: ForeignConnection
    private(set) var count = Count()
    private var position = 0

    /// - Returns: The first difference, and what was run.
    static func run(
        _ oracleCase: OracleCase,
        _ library: ForeignConnection.Library,
        isThorough: Bool = false
    ) -> (difference: CaseRunner.Difference?, count: Count) {
        var count = Count()
        do {
            let runner: BorrowedCaseRunner
            do {
                runner = try BorrowedCaseRunner(oracleCase, library, isThorough)
            } catch is Abandoned {
                count.abandoned = 1
                return (nil, count)
            }
            defer { count = runner.count }
            do {
                try runner.runAll()
            } catch is EndlessWrite {
            } catch is Abandoned {
                runner.count.abandoned += 1
            } catch let difference as CaseRunner.Difference {
                return (difference, runner.count)
            }
            return (nil, runner.count)
        } catch {
            return (CaseRunner.Difference(position: -1, description: "outside a statement: \(error)"), count)
        }
    }

    private init(_ oracleCase: OracleCase, _ library: ForeignConnection.Library, _ isThorough: Bool) throws {
        self.oracleCase = oracleCase
        self.library = library
        self.isThorough = isThorough
        files = try CaseFiles(oracleCase)
        foreign = try ForeignConnection(files.targetPath, as: library)
        reader = try ForeignConnection(files.targetPath, as: .readOnly)
        do {
            try begin()
        } catch let error as MigrationError where error.code == .unsupported && oracleCase.enforcesForeignKeys {
            // The keys connect tables in a way that only a Database can follow.
            throw Abandoned()
        }
    }

    private func begin() throws {
        let enforces = oracleCase.enforcesForeignKeys
        try foreign.execute("PRAGMA synchronous = OFF; PRAGMA foreign_keys = \(enforces ? "ON" : "OFF")")
        if library == .grdb {
            // Strings in double quotes are switched off.
            for setting in [1013, 1014] {
                try? files.native.connection.configure(Connection.Setting(rawValue: Int32(setting)), false)
            }
        }
        try foreign.execute("CREATE TEMP TABLE scratch_changes(a)")
        try files.native.connection.execute("CREATE TEMP TABLE scratch_changes(a)")
        try foreign.install()
        try reader.install()
        // Here an INSERT of no rows leaves the sequences as they are, which is a documented difference.
        for table in oracleCase.tables where table.isAutoIncrement {
            let sql =
                "INSERT INTO sqlite_sequence SELECT t.name, 0 FROM (SELECT \(literal(.text(table.name))) AS name) AS t "
                + "WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence AS s WHERE s.name = t.name)"
            try foreign.execute(sql)
            try files.native.connection.execute(sql)
        }
        // This sets `changes()` to the same number on both sides. Before SQLite 3.18, nothing else sets it.
        let sql = "INSERT INTO temp.scratch_changes VALUES (1)"
        try foreign.execute(sql)
        try files.native.connection.execute(sql)
        forgetChanges()
    }

    private func end() throws {
        for connection in [foreign, reader] {
            let code = connection.close()
            if code != SQLITE_OK { throw difference("sqlite3_close gives \(code)") }
        }
    }

    private var own: ForeignSide { side(foreign, keepsStatements: position % 2 == 0) }

    private func side(_ foreign: ForeignConnection, keepsStatements: Bool) -> ForeignSide {
        ForeignSide(
            connection: foreign.wrapped,
            keepsStatements: keepsStatements,
            overlay: MigrationOverlay.installed(on: foreign.handle)
        )
    }

    private func difference(_ text: String) -> CaseRunner.Difference {
        CaseRunner.Difference(position: position, description: text)
    }

    // MARK: Operations

    private func runAll() throws {
        while position < oracleCase.operations.count {
            try runOne(oracleCase.operations[position])
            position += 1
        }
        if own.isInTransaction { try compare(Command(sql: "ROLLBACK")) }
        try compareTables(always: true)
        try end()
        if let text = try files.compareAtEnd() { throw difference(text) }
    }

    private func runOne(_ operation: Operation) throws {
        switch operation {
        case .step(let rows):
            // Within a transaction, a step would find the file locked, or make the transaction's next write fail.
            if own.isInTransaction { return }
            if let rows { try files.database.stepMigration(rows: rows) } else { try files.database.stepMigration() }
            // A table that has moved is read rightly without a new overlay, too.
            if position % 5 == 0 { try foreign.install() }
        case .read(let command):
            if !own.isInTransaction { try read(command) }
        case .block(let commands, let commits):
            if own.isInTransaction { return }
            try compare(Command(sql: "BEGIN IMMEDIATE"))
            for command in commands {
                try compare(command)
                try compareTables()
            }
            if own.isInTransaction { try compare(Command(sql: commits ? "COMMIT" : "ROLLBACK")) }
        case .reopen:
            if own.isInTransaction { return }
            try end()
            try files.reopen()
            foreign = try ForeignConnection(files.targetPath, as: library)
            reader = try ForeignConnection(files.targetPath, as: .readOnly)
            try begin()
        case .run(let command):
            try compare(command)
            try compareTables()
        case .loop(let select, let writes, let limit):
            try loop(select, writes, limit)
            try compareTables()
        // These operations change the schema, or write past the overlay, which such connections are not told of, or let
        // tables move that such connections cannot use.
        case .other, .stranger, .moveOn, .moveFile: return
        }
    }

    private func compare(_ command: Command) throws {
        guard isForBorrowed(command) else {
            count.leftOut += 1
            return
        }
        // The borrowed connection runs the statement first: native SQLite must not run what is refused.
        var mine = own.run(command)
        if mine.failure?.hasPrefix("516") == true {
            // Another table of the source has come to its end.
            count.repeated += 1
            mine = own.run(command)
        }
        if OracleFuzzTests.setting("VERBOSE") != nil { print("\(command)\n    \(mine.failure ?? "done")") }
        if let reason = refusal(mine) ?? mismatch(mine, command) {
            note(reason)
            // Before 3.18, nothing can set `last_insert_rowid()` back when a statement fails after some rows.
            let isOld = Connection.libraryVersionNumber < 3_018_000
            if isOld, mine.lastInsertRowID != files.native.connection.lastInsertRowID { throw Abandoned() }
            // SQLite itself keeps rows of a rewritten statement.
            if mine.failure == "20: datatype mismatch", Self.isRewritten(command) { throw Abandoned() }
            // SQLite 3.40 checks the type after REPLACE has deleted the other row, and does not undo that deletion.
            if reason == Self.wrongType, command.sql.contains("REPLACE ") { throw Abandoned() }
            return
        }
        defer { if mine.failure != nil, command.sql.contains("OR FAIL") { alignSequences() } }
        count.run += 1
        if oracleCase.enforcesForeignKeys { count.enforced += 1 }
        var theirs = files.native.run(command)
        if theirs.isEndless { throw EndlessWrite() }
        if theirs.isTooLong || mine.isTooLong { return }
        if oracleCase.enforcesForeignKeys { try alignKeys(mine, &theirs, command) }
        try compare(mine, theirs, command)
    }

    /// Aligns what the documentation lists as different where a foreign key refuses a write.
    private func alignKeys(_ mine: Outcome, _ theirs: inout Outcome, _ command: Command) throws {
        let isMine = mine.failure?.hasSuffix(": FOREIGN KEY constraint failed") ?? false
        let isTheirs = theirs.failure?.hasPrefix("787:") ?? false
        guard isMine || isTheirs else { return }
        // After REPLACE, SQLite does not check a key to the row's own table that has SET NULL.
        if theirs.failure == nil, command.sql.contains("REPLACE "), hasOwnKey("SET NULL") { throw Abandoned() }
        // Native SQLite forgets the violation of a key to the row's own table, if the statement may update a row instead.
        if theirs.failure == nil, command.sql.contains("DO UPDATE "), hasOwnKey("") { throw Abandoned() }
        // Of one row with an immediate and a deferred key, SQLite may keep the count of the deferred key's violation though it has
        // undone the row.
        if isTheirs, theirs.isInTransaction, hasMixedKeys { throw Abandoned() }
        // Before 3.18, nothing can set `last_insert_rowid()`.
        let isOld = Connection.libraryVersionNumber < 3_018_000
        if isOld, mine.lastInsertRowID != theirs.lastInsertRowID { throw Abandoned() }
        files.native.connection.lastInsertRowID = mine.lastInsertRowID
        theirs.lastInsertRowID = mine.lastInsertRowID
        // SQLite would apply an OR clause to the code of a constraint.
        let hasClause = ["OR IGNORE", "OR FAIL", "OR ROLLBACK"].contains { command.sql.contains($0) }
        if isTheirs, hasClause, mine.failure == "1: FOREIGN KEY constraint failed" { theirs.failure = mine.failure }
        // SQLite checks keys at the end of a statement, and here at the end of a row. A later row may violate another constraint.
        if !isTheirs, isMine, theirs.failure != nil { theirs.failure = mine.failure }
    }

    private func hasOwnKey(_ words: String) -> Bool {
        oracleCase.tables.contains { table in
            table.foreignKeys.contains { $0.contains("REFERENCES \(quoted(table.name))") && $0.contains(words) }
        }
    }

    private var hasMixedKeys: Bool {
        oracleCase.tables.contains { Set($0.foreignKeys.map { $0.contains("INITIALLY DEFERRED") }).count == 2 }
    }

    private func compare(_ mine: Outcome, _ theirs: Outcome, _ command: Command) throws {
        let order =
            command.order == .scan && theirs.failure == nil && files.native.scansInOrder(command, oracleCase)
            ? .total : command.order
        if let text = mine.difference(from: theirs, order: order, isLoose: command.isLoose) {
            throw difference("\(command)\n  \(text)")
        }
    }

    private func read(_ command: Command) throws {
        guard isForBorrowed(command) else { return }
        count.run += 1
        let theirs = files.native.run(command)
        if theirs.isTooLong { return }
        var mine = side(reader, keepsStatements: true).run(command)
        if mine.failure?.hasPrefix("516") == true {
            count.repeated += 1
            mine = side(reader, keepsStatements: true).run(command)
        }
        if let reason = refusal(mine) { return note(reason) }
        mine.changes = theirs.changes
        mine.lastInsertRowID = theirs.lastInsertRowID
        mine.isInTransaction = theirs.isInTransaction
        try compare(mine, theirs, command)
    }

    private func compareTables(always: Bool = false) throws {
        guard always || isThorough || position % 3 == 0 else { return }
        for table in oracleCase.tables {
            let command = Command(sql: table.contents, order: .total)
            let text = own.run(command).difference(from: files.native.run(command), order: .total, isLoose: false)
            guard let text else { continue }
            let last = position < oracleCase.operations.count ? "\(oracleCase.operations[position])" : "the end"
            throw difference("\(table.name) after \(last)\n  \(text)")
        }
    }

    private func loop(_ select: Command, _ writes: [Command], _ limit: Int) throws {
        let mine = own.loop(select, writes, limit: limit)
        // The loop has gone on after a statement was refused.
        if mine.contains(where: { refusal($0) != nil }) { throw Abandoned() }
        let theirs = files.native.loop(select, writes, limit: limit)
        count.run += 1
        for (number, (one, other)) in zip(mine, theirs).enumerated() {
            if let text = one.difference(from: other, order: .total, isLoose: false) {
                let what = number == 0 ? select : writes[(number - 1) % writes.count]
                throw difference("loop, \(number): \(what)\n  \(text)")
            }
        }
        if mine.count != theirs.count { throw difference("loop: lengths differ") }
    }

    private var movingTables: [String] { MigrationOverlay.installed(on: foreign.handle)?.movingTables ?? [] }

    // MARK: What is left out

    private static let verbs: Set<String> = [
        "select", "with", "values", "insert", "replace", "update", "delete", "begin", "commit", "end", "rollback",
        "savepoint", "release",
    ]

    /// Whether rows get other rowids one after the other, so that SQLite's choice of their order decides whether they
    /// collide.
    private func dependsOnOrder(_ command: Command) -> Bool {
        let outline = SQLScript(command.sql).outline()
        guard outline.kind == .update else { return false }
        let names = ["rowid", "oid", "_rowid_"] + oracleCase.tables.compactMap(\.rowIDColumn)
        return outline.assignments.flatMap(\.columns).contains { column in
            names.contains { SQLIdentifier.equal($0, column) }
        }
    }

    /// Whether a borrowed connection can run the statement. Schema changes are for connections without the overlay, and
    /// `main.T` has only the target's part.
    private func isForBorrowed(_ command: Command) -> Bool {
        let sql = command.sql.lowercased()
        let verb = String(sql.prefix { $0.isLetter })
        if dependsOnOrder(command) || sortsCompoundByRowID(sql) { return false }
        return Self.verbs.contains(verb) && !sql.hasPrefix("delete from sqlite_sequence") && !sql.contains("main.")
            && !sql.contains("pragma_")
            // With such versions, the engine must insert a row to set `last_insert_rowid()`, and a borrowed connection
            // counts that row.
            && !(Connection.libraryVersionNumber < 3_018_000 && sql.contains("changes()"))
            && !sql.contains("main\".")
            && !sql.replacing("not indexed", with: "").contains("indexed by")
    }

    /// SQLite looks for the terms of a compound's ORDER BY among the result's columns, and a virtual table's rowid is none of its columns.
    private func sortsCompoundByRowID(_ sql: String) -> Bool {
        let isCompound = [" union ", " except ", " intersect "].contains { sql.contains($0) }
        return isCompound && sql.contains("order by ") && ["rowid", "oid"].contains { sql.contains($0) }
    }

    /// Whether a table for which the condition holds moves, or has triggers for its foreign keys.
    private func hasTriggers(_ isMeant: (String) -> Bool) -> Bool {
        if movingTables.contains(where: isMeant) { return true }
        let rows = try? foreign.rows("SELECT DISTINCT tbl_name FROM sqlite_temp_master WHERE type = 'trigger'")
        return rows?.contains(where: isMeant) ?? false
    }

    private static let wrongType = "cannot store a value of the wrong type"

    /// Which of the documented refusals the outcome is; `nil` if it is none.
    private func refusal(_ outcome: Outcome) -> String? {
        guard let failure = outcome.failure else { return nil }
        if let range = failure.firstRange(of: " is moving, and ") {
            return String(failure[range.upperBound...].prefix { $0 != ":" })
        }
        for text in ["UPSERT not implemented for virtual table", "RETURNING is not available on virtual tables"]
        where failure.contains(text) {
            return text
        }
        // The error of a wrong type in a STRICT table may have another code, and come before other violations.
        if failure.contains("cannot store "), hasTriggers({ failure.contains(" column \($0).") }) {
            return Self.wrongType
        }
        return nil
    }

    private static func isRewritten(_ command: Command) -> Bool {
        command.sql.contains(" ON CONFLICT") || command.sql.contains(" RETURNING ")
    }

    /// The refusal of a rowid that is no number. With an OR clause, or in a transaction, native SQLite keeps the rows
    /// before it, against its documentation.
    private func mismatch(_ outcome: Outcome, _ command: Command) -> String? {
        guard outcome.failure == "20: datatype mismatch",
            command.sql.contains(" OR ") || command.sql.contains("REPLACE ") || Self.isRewritten(command)
                || hasClausesOrKeys,
            let target = SQLScript(command.sql).outline().target,
            hasTriggers({ SQLIdentifier.equal($0, target.name) })
        else { return nil }
        return "a rowid that is no number, with an OR clause"
    }

    private var hasClausesOrKeys: Bool {
        oracleCase.tables.contains { table in
            !table.foreignKeys.isEmpty || table.creation(named: "t", columns: table.columns).contains("ON CONFLICT")
        }
    }

    /// Aligns `sqlite_sequence`. If an INSERT OR FAIL fails, native SQLite does not count there the rows that stay.
    private func alignSequences() {
        let sql = "SELECT name, seq FROM sqlite_sequence"
        guard let rows = try? foreign.wrapped.fetchAll(sql) else { return }
        let changes = foreign.wrapped.changes
        for row in rows {
            var arguments = Arguments()
            arguments.positional = [row[1], row[0]]
            try? files.native.connection.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", arguments)
        }
        if files.native.connection.changes != changes { forgetChanges() }
    }

    private func note(_ reason: String) {
        // An earlier row of the statement may have set it.
        files.native.connection.lastInsertRowID = foreign.wrapped.lastInsertRowID
        count.refused[reason, default: 0] += 1
        forgetChanges()
    }

    /// Sets `changes()` to 0 on both sides.
    private func forgetChanges() {
        try? foreign.execute("DELETE FROM temp.scratch_changes WHERE 0")
        try? files.native.connection.execute("DELETE FROM temp.scratch_changes WHERE 0")
    }
}
