internal import Midstream
internal import SQLText

/// Runs a script on a database whose tables may be moving.
///
/// The whole script runs on the connection that writes, so that transactions, savepoints and temporary tables span
/// statements. For a step, the runner lets go of the connection, which is possible only between transactions.
final class ScriptRunner {
    private let database: Database
    private let printer: any ScriptPrinter
    private let bails: Bool
    private let keys: FileKeys
    private var reader: ScriptReader
    private var isOver = false
    /// Whether any statement or command has failed.
    private(set) var hasFailed = false
    /// Whether the script may have made objects that only its own connection has, such as TEMP tables.
    private var hasOwnObjects = false

    init(_ database: Database, _ reader: ScriptReader, _ printer: any ScriptPrinter, keys: FileKeys, bails: Bool) {
        self.database = database
        self.reader = reader
        self.printer = printer
        self.keys = keys
        self.bails = bails
    }

    /// - Throws: An error if the script cannot be read. Errors of statements are shown, and the script goes on.
    func run() throws {
        while !isOver {
            guard let step = try database.withoutTransaction({ try runStatements($0) }) else { continue }
            perform(step.command, step.text, line: step.line) { try makeSteps(step.command) }
        }
    }

    private typealias Step = (command: DotCommand, text: String, line: Int)

    /// Runs statements until the script ends, or until it asks for a step.
    private func runStatements(_ access: DatabaseAccess) throws -> Step? {
        while !isOver, let item = try reader.next() {
            switch item {
            case .statement(let sql, let line): run(sql, line: line, access)
            case .unreadable(let sql, let line):
                printer.fail(sql, line: line, ScriptText.failure)
                noteFailure()
            case .command(let text, let line):
                guard let command = parse(text, line: line) else { continue }
                if command.makesSteps, !access.isInTransaction { return (command, text, line) }
                perform(command, text, line: line) { try runInPlace(command) }
            }
        }
        isOver = true
        return nil
    }

    // MARK: Statements

    private func run(_ sql: String, line: Int, _ access: DatabaseAccess) {
        do {
            try checkParameters(of: sql)
            if try !runOnReader(sql, access) {
                try access.forEachRow(sql, onStart: printer.begin) { statement in
                    printer.row(statement)
                    return true
                }
            }
            printer.end(sql, changes: access.changes, lastInsertRowID: access.lastInsertRowID)
        } catch {
            printer.fail(sql, line: line, error)
            noteFailure()
        }
    }

    private static let contentFunctions = ["snippet", "highlight", "bm25", "offsets", "matchinfo"]
    /// Words that occur in every statement which makes something that only its own connection has.
    private static let ownWords = ["temp", "attach", "pragma"]

    /// Runs a query on a reader, if the writer would have to drain tables for it and a reader would not: a query of
    /// what full-text tables tell of their content. The script must have made nothing that only its own connection has.
    ///
    /// - Returns: Whether the query was such a query, and has been run.
    private func runOnReader(_ sql: String, _ access: DatabaseAccess) throws -> Bool {
        let lower = SQLIdentifier.lowercased(sql)
        if Self.ownWords.contains(where: lower.contains) { hasOwnObjects = true }
        guard !hasOwnObjects, !access.isInTransaction, Self.contentFunctions.contains(where: lower.contains),
            SQLScript(sql).outline().kind == .select,
            try database.readMigrationProgress().tables.contains(where: { $0.phase == .copying })
        else { return false }
        try database.read { reader in
            try reader.forEachRow(sql, onStart: printer.begin) { statement in
                printer.row(statement)
                return true
            }
        }
        return true
    }

    /// - Throws: ``CommandFailure`` for a statement with a parameter, since a script cannot give it a value.
    private func checkParameters(of sql: String) throws(CommandFailure) {
        guard sql.utf8.contains(where: { ":@$?".utf8.contains($0) }) else { return }
        let outline = SQLScript(sql).outline()
        guard outline.kind != .explain, let parameter = outline.parameters.first else { return }
        throw CommandFailure(
            "parameter \(parameter.name ?? "?") has no value, since a script has none to give: write the value in its place"
        )
    }

    private func noteFailure() {
        hasFailed = true
        if bails { isOver = true }
    }

    // MARK: Dot commands

    private func parse(_ text: String, line: Int) -> DotCommand? {
        do {
            return try DotCommand(text)
        } catch {
            printer.fail(command: text, line: line, error)
            noteFailure()
            return nil
        }
    }

    private func perform(_ command: DotCommand, _ text: String, line: Int, _ body: () throws -> Void) {
        do {
            try body()
        } catch {
            printer.fail(command: text, line: line, error)
            noteFailure()
        }
    }

    private func runInPlace(_ command: DotCommand) throws {
        switch command {
        case .step, .drain:
            throw CommandFailure("no step can be made while a transaction is open: COMMIT or ROLLBACK first")
        case .status: printer.status(status(try database.readMigrationProgress()))
        case .help: printer.help()
        case .quit:
            printer.quit()
            isOver = true
        }
    }

    private func makeSteps(_ command: DotCommand) throws {
        let progress: MigrationProgress
        var moved: Int64 = 0
        switch command {
        case .step(rows: nil): progress = try database.stepMigration()
        case .step(let rows?): progress = try database.stepMigration(rows: rows)
        default: progress = try drain { moved += $0 }
        }
        moved = max(moved, progress.rowsMovedByStep)
        printer.step(
            command == .drain ? "drain" : "step",
            moved: moved,
            outcome: progress.outcome.rawValue,
            status(progress)
        )
    }

    /// How many steps in a row may find nothing to do: half a minute of them.
    private static let mostIdleSteps = 3000

    private func drain(_ onMoved: (Int64) -> Void) throws -> MigrationProgress {
        var idleSteps = 0
        while true {
            let progress = try database.stepMigration(rows: .max)
            onMoved(progress.rowsMovedByStep)
            if progress.isFinished { return progress }
            idleSteps = progress.outcome == .worked ? 0 : idleSteps + 1
            guard idleSteps <= Self.mostIdleSteps else {
                throw CommandFailure(
                    progress.outcome == .waitingForReaders
                        ? "all rows have moved, but another connection still reads an earlier state: end its "
                            + "transaction"
                        : "another connection keeps writing the target: end its transaction"
                )
            }
            if idleSteps > 0 { SystemCalls.sleep(milliseconds: 10) }
        }
    }

    private func status(_ progress: MigrationProgress) -> MigrationStatus {
        MigrationStatus(progress, target: database.path, keys: keys)
    }
}
