import Midstream
import MidstreamTesting
import SQLiteConnection

/// A migration from its beginning to its end, with one fault in it.
///
/// Whatever fails must fail with the fault's own error, and must succeed when the fault is over. Every row must be as
/// it was, or as the transaction makes it, both in the same `Database` and in one that is opened afterwards.
final class FaultRun {
    private let workload: CrashWorkload
    private let expected: [[String]]
    private let kind: FaultKind
    private let course: FaultKind.Course

    private var database: Database?
    /// How many transactions have taken effect.
    private var done = 0
    /// Whether the fault can strike no more.
    private var isOver = false
    private(set) var problems: [String] = []
    /// How many errors the fault has caused.
    private(set) var errors = 0
    /// What the run is doing, for messages.
    private var act = ""

    static let transactionCount = 12

    init(_ workload: CrashWorkload, _ expected: [[String]], _ kind: FaultKind, _ course: FaultKind.Course) {
        self.workload = workload
        self.expected = expected
        self.kind = kind
        self.course = course
    }

    /// - Returns: Whether the fault has struck.
    func run(_ number: Int) -> Bool {
        let files = ["", "-wal", "-journal", "-shm"].map { workload.source + $0 }
        kind.start(number, isPersistent: course.isPersistent, files: course == .lastingInSource ? Set(files) : nil)
        live()
        kind.end()
        isOver = true
        database?.close()
        database = nil
        do {
            if problems.isEmpty {
                let mayBeUnfenced = workload.scenario == .keep && course == .lastingInSource
                problems = try workload.problemsOfFiles(
                    expected[Self.transactionCount],
                    mayBeUnfenced: mayBeUnfenced
                )
            }
        } catch {
            problems.append("in the end: \(error)")
        }
        return kind.failures > 0
    }

    private func live() {
        for (number, transaction) in workload.transactions.prefix(Self.transactionCount).enumerated() {
            attempt("step \(number)") { try $0.stepMigration(rows: CrashWorkload.rowsPerStep) }
            attempt("transaction \(number)", changes: true) { try transaction.run(on: $0) }
            if number % 3 == 0 { readInBlock() }
            attempt("read \(number)") { try self.expectRows(of: $0.fetchAll(self.workload.dumpSQL)) }
            switch number {
            case 3: useBlob()
            case 5: alterOtherTable()
            case 7: reopen()
            case 8: drain()
            case 9: writeInSpite()
            default: break
            }
            if !problems.isEmpty { return }
        }
        if workload.scenario.isCancelled {
            attempt("cancel") { try $0.cancelMigration() }
            finish()
            attempt("begin again") { try self.workload.addMigrations($0) }
        }
        finish()
    }

    private func finish() {
        for step in 0..<1000 {
            var isFinished = false
            attempt("last step \(step)") { isFinished = try $0.stepMigration().isFinished }
            if isFinished || !problems.isEmpty { return }
        }
        problems.append("the migration does not come to its end")
    }

    // MARK: What the application does

    private func readInBlock() {
        attempt("read in a write block") { database in
            try database.write { try self.expectRows(of: $0.fetchAll(self.workload.dumpSQL)) }
        }
    }

    /// Reads a value through a handle, and writes the same bytes through one.
    private func useBlob() {
        for isWritable in [false, true] {
            attempt("blob, \(isWritable ? "written" : "read")") { database in
                try database.write { access in
                    try access.withBlob(
                        table: self.workload.secondTable,
                        column: "owner",
                        rowID: 217,
                        isWritable: isWritable
                    ) { blob in
                        let bytes = try blob.read(count: blob.count, at: 0)
                        if isWritable { try blob.write(bytes, at: 0) }
                    }
                }
            }
        }
    }

    /// Runs a statement for which Midstream takes the overlay down. The block goes on if the statement fails.
    private func alterOtherTable() {
        attempt("ALTER TABLE") { database in
            var failure: (any Error)?
            try database.write { access in
                do { try access.execute("ALTER TABLE extra ADD COLUMN y\(self.done)") } catch { failure = error }
                try self.expectRows(of: access.fetchAll(self.workload.dumpSQL))
            }
            if let failure { throw failure }
        }
    }

    /// Runs a statement that needs all rows in one place. The block goes on if the statement fails.
    private func drain() {
        attempt("drain") { database in
            var failure: (any Error)?
            try database.write { access in
                do {
                    try access.execute("CREATE INDEX IF NOT EXISTS by_amount ON accounts(amount)")
                } catch { failure = error }
                try self.expectRows(of: access.fetchAll(self.workload.dumpSQL))
            }
            if let failure { throw failure }
        }
    }

    /// Runs a statement that changes nothing in the end. The block goes on if the statement fails.
    private func writeInSpite() {
        let table = workload.secondTable
        attempt("write that is caught") { database in
            var failure: (any Error)?
            try database.write { access in
                for sql in [
                    "UPDATE \(table) SET amount = amount WHERE id > 150 AND owner IS NOT NULL",
                    "DELETE FROM \(table) WHERE id < 0",
                ] {
                    do { try access.execute(sql) } catch { failure = failure ?? error }
                }
                try self.expectRows(of: access.fetchAll(self.workload.dumpSQL))
            }
            if let failure { throw failure }
        }
    }

    private func reopen() {
        database?.close()
        database = nil
        attempt("open again") { _ in }
    }

    // MARK: Trying

    private struct WrongRows: Error, CustomStringConvertible {
        let description: String
    }

    /// Does one thing. It must succeed, or fail only because of the fault and succeed when the fault is over.
    ///
    /// - Parameter changes: Whether this is the next transaction.
    private func attempt(_ name: String, changes: Bool = false, _ body: (Database) throws -> Void) {
        guard problems.isEmpty else { return }
        act = name
        for _ in 0..<3 {
            let failuresBefore = kind.failures
            do {
                try body(opened())
                if changes { done += 1 }
                return
            } catch let wrong as WrongRows {
                return report("\(wrong)")
            } catch {
                guard isExpected(error) else { return report("not the fault's error: \(error)") }
                // Only a write shows that a file was opened for reading.
                let isLate = kind == .readOnly && errors == 0 && kind.failures > 0
                guard kind.failures > failuresBefore || course.isPersistent && !isOver || isLate else {
                    return report("fails although the fault is over: \(error)")
                }
            }
            errors += 1
            let before = done
            endFault(mayHaveChanged: changes)
            if done > before || !problems.isEmpty { return }
        }
        report("is tried in vain")
    }

    private func report(_ problem: String) { problems.append("\(act): \(problem)") }

    private func opened() throws -> Database {
        if let database { return database }
        let opened = try workload.open()
        database = opened
        return opened
    }

    private func isExpected(_ error: any Error) -> Bool {
        let code =
            switch error {
            case let error as SQLiteError: error.code
            case let error as MigrationError where error.code == .sourceUnavailable || error.code == .locked:
                error.cause?.code
            default: nil as ResultCode?
            }
        guard let code else { return false }
        // If SQLCipher cannot read a file's salt, it assumes that the file has none, and then finds the key wrong.
        if code == .notADatabase, workload.scenario == .encrypted { return kind == .file(.read) }
        return kind.errors.contains { $0 ~= code }
    }

    /// Checks the rows after an error: while the fault lasts, all that can be read is right; when the fault is over,
    /// everything can be read and is right.
    private func endFault(mayHaveChanged: Bool) {
        let allowed = mayHaveChanged ? [done, done + 1] : [done]
        // The rows of a table that has returned are read as a whole only when the table moves again.
        if course.isPersistent, !isOver, !workload.scenario.isCancelled, let database {
            for round in 0..<2 {
                if let rows = try? database.fetchAll(workload.dumpSQL) { settle(rows, allowed, "while it lasts") }
                if round == 0 { _ = try? database.stepMigration(rows: 1) }
            }
        }
        kind.end()
        isOver = true
        if course.reopens {
            database?.close()
            database = nil
        }
        do {
            let database = try opened()
            if workload.scenario.isCancelled { try workload.addMigrations(database) }
            settle(try database.fetchAll(workload.dumpSQL), allowed, "after it")
            settle(
                try database.withoutTransaction { try $0.fetchAll(workload.dumpSQL) },
                [done],
                "after it, on the connection that writes"
            )
        } catch {
            report("fails after the fault: \(error)")
        }
    }

    /// Finds out in which of the allowed states the rows are.
    private func settle(_ rows: [Row], _ allowed: [Int], _ when: String) {
        guard let found = try? CrashWorkload.dump(rows) else { return report("rows cannot be told \(when)") }
        guard let state = allowed.last(where: { expected[$0] == found }) else {
            return report("\(when): " + Self.difference(found, expected[allowed.last ?? 0]))
        }
        if when != "while it lasts" { done = state }
    }

    private func expectRows(of rows: [Row]) throws {
        let found = try CrashWorkload.dump(rows)
        guard found != expected[done] else { return }
        throw WrongRows(description: Self.difference(found, expected[done]))
    }

    private static func difference(_ found: [String], _ expected: [String]) -> String {
        let surplus = Set(found).subtracting(expected).sorted()
        let missing = Set(expected).subtracting(found).sorted()
        return "\(found.count) rows for \(expected.count); surplus \(surplus.count): \(surplus.prefix(3)), "
            + "missing \(missing.count): \(missing.prefix(3))"
    }
}
