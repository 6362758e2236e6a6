import SQLText
import SQLiteConnection

/// A script on plain SQLite: what each answer is before anything moves, and whether it is what the script expects.
struct NativeRun: Sendable {
    /// The digest of each record's answer.
    var answers: [String] = []
    /// Whether a transaction is open after each record.
    private(set) var isInTransaction: [Bool] = []
    private(set) var seconds: [Double] = []
    /// Records that SQLite itself does not answer as the script expects.
    private(set) var failures: [LogicFailure] = []
    /// What the file holds in the end.
    var contents: [String] = []

    init(_ script: LogicScript) throws {
        let connection = try Connection(path: ":memory:")
        defer { connection.close() }
        var labels: [String: String] = [:]
        for record in script.records {
            let start = CPUTime.now
            let answer = try connection.answer(record)
            seconds.append(CPUTime.now - start)
            answers.append(answer.digest)
            isInTransaction.append(connection.isInTransaction)
            var failure = LogicFailure(
                script: script.name,
                line: record.line,
                mode: "native",
                sql: record.sql,
                expected: "\(record.expectation)",
                got: "\(answer)"
            )
            if !answer.meets(record.expectation) {
                failures.append(failure)
            } else if case .query(let query) = record.expectation, let label = query.label {
                let known = labels[label, default: answer.digest]
                labels[label] = known
                guard known != answer.digest else { continue }
                failure.expected = "as \(label) before: \(known)"
                failures.append(failure)
            }
        }
        if connection.isInTransaction { try connection.execute("ROLLBACK") }
        contents = try LogicContents.read(connection)
    }
}
