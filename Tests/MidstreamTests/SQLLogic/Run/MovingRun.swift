import Midstream
import SQLText
import SQLiteConnection

/// A script on tables that move: each answer must be the one that SQLite alone has given.
final class MovingRun {
    /// A record that took much longer than natively.
    struct Slow: Sendable {
        var line: Int
        var seconds: Double
        var native: Double
    }

    private let script: LogicScript
    private let native: NativeRun
    private let mode: LogicMode
    private let files: MovingFiles
    /// Which half of the queries goes to a reading connection.
    private let turn: Int
    private var position: Int
    /// Whether there are TEMP objects and the like, which only the writing connection has.
    private var needsWriter = false

    private(set) var failures: [LogicFailure] = []
    private(set) var slow: [Slow] = []
    /// How many records ran while tables moved.
    private(set) var recordCount = 0
    /// The time that records took, without that of steps and set-up.
    private(set) var seconds = 0.0
    private(set) var nativeSeconds = 0.0

    /// Of the record that is next.
    var line: Int { position < script.records.count ? script.records[position].line : 0 }
    var roundCount: Int { files.rounds }
    var roundsLeftOut: Int { files.roundsLeftOut }
    var drainCount: Int { files.drainCount }
    var tableCount: Int { files.tablesMoved }

    init(_ script: LogicScript, _ native: NativeRun, _ mode: LogicMode, turn: Int = 0) throws {
        self.script = script
        self.native = native
        self.mode = mode
        self.turn = turn
        position = LogicStart.position(in: script, native, isEarly: mode.startsEarly)
        files = try MovingFiles(script.records[..<position], mode)
    }

    func run() throws {
        while position < script.records.count {
            let record = script.records[position]
            try files.prepare(for: record) { needsWriter ? try temporaryNames() : [] }
            if readsByReader(record) { try runByReader(record) } else { try runByWriter() }
        }
        let contents = try files.finish()
        guard contents != native.contents else { return }
        let position = zip(contents, native.contents).prefix { $0 == $1 }.count
        func line(_ lines: [String]) -> String { position < lines.count ? lines[position] : "nothing more" }
        fail(
            LogicRecord(line: 0, sql: "all tables and their rows, in the end", expectation: .success),
            expected: line(native.contents),
            got: line(contents)
        )
    }

    /// The names of the writing connection's TEMP objects, in lower case.
    private func temporaryNames() throws -> Set<String> {
        try database.withoutTransaction { access in
            Set(
                try access.fetchAll("SELECT lower(name) FROM sqlite_temp_master").map { try $0.get(0, as: String.self) }
            )
        }
    }

    private func readsByReader(_ record: LogicRecord) -> Bool {
        guard record.isQuery, !needsWriter, (position + turn) % 2 == 0 else { return false }
        let outline = SQLScript(record.sql).outline()
        // What these count belongs to the connection that writes.
        let counters = ["changes", "total_changes", "last_insert_rowid"]
        return outline.kind == .select
            && !outline.functionCalls.contains { counters.contains(SQLIdentifier.lowercased($0.name)) }
    }

    private func runByReader(_ record: LogicRecord) throws {
        do {
            let (answer, seconds) = try database.read { try timed(record, $0) }
            note(record, answer, seconds)
        } catch let error as MigrationError where error.code == .refusedStatement {
            // A reader cannot drain a table.
            return try runByWriter()
        }
        position += 1
    }

    /// Runs a record, and those after it until no transaction is open.
    private func runByWriter() throws {
        try database.withoutTransaction { access in
            repeat {
                let record = script.records[position]
                do {
                    let (answer, seconds) = try timed(record, access)
                    note(record, answer, seconds)
                } catch let error as MigrationError {
                    fail(record, expected: native.answers[position], got: "\(error)")
                }
                if !record.isQuery {
                    if !isPlainWrite(record) { files.noteChange() }
                    needsWriter = needsWriter || LogicStart.belongsToConnection(record)
                }
                position += 1
            } while access.isInTransaction && position < script.records.count
        }
    }

    private var database: Database { files.database }

    private func isPlainWrite(_ record: LogicRecord) -> Bool {
        SQLScript(record.sql).allSatisfy { [.insert, .update, .delete, .empty].contains($0.kind) }
    }

    private func timed(_ record: LogicRecord, _ side: some LogicSide) throws -> (LogicAnswer, seconds: Double) {
        let start = CPUTime.now
        let answer = try side.answer(record)
        return (answer, CPUTime.now - start)
    }

    private func note(_ record: LogicRecord, _ answer: LogicAnswer, _ seconds: Double) {
        recordCount += 1
        self.seconds += seconds
        nativeSeconds += native.seconds[position]
        if seconds > 0.02, seconds > 10 * native.seconds[position] {
            slow.append(Slow(line: record.line, seconds: seconds, native: native.seconds[position]))
        }
        if answer.digest != native.answers[position] {
            fail(record, expected: native.answers[position], got: "\(answer)")
        }
    }

    private func fail(_ record: LogicRecord, expected: String, got: String) {
        failures.append(
            LogicFailure(
                script: script.name,
                line: record.line,
                mode: "\(mode)",
                sql: record.sql,
                expected: expected,
                got: got
            )
        )
    }
}
