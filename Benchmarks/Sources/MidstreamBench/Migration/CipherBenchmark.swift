import Midstream
import SQLiteConnection

/// Whole migrations from plain and encrypted files to plain and encrypted ones, and the cost of deriving keys.
func cipherBenchmark(_ options: Options, _ report: Report) throws {
    guard Connection.canEncrypt else {
        return Report.note(
            "cipher: left out, since SQLite does not encrypt; MIDSTREAM_SQLCIPHER=1 builds with SQLCipher"
        )
    }
    let folder = try WorkFolder(below: options.folder)
    let messages = Messages(rows: options.rows)
    var rows: [[String]] = []
    var plainTime: [Int: Double] = [:]
    for (source, target) in [(false, false), (false, true), (true, false), (true, true)] {
        let name = "\(source ? "encrypted" : "plain") to \(target ? "encrypted" : "plain")"
        Report.note("cipher: \(name)")
        try messages.make(folder.file("rows.db"), key: source ? Messages.key : nil)
        for budget in [0, 10] {
            try folder.copy("rows.db", to: "source.db")
            let run = try MigrationRun.make(
                source: folder.file("source.db"),
                target: folder.file("target.db"),
                budget: budget,
                isSourceEncrypted: source,
                isTargetEncrypted: target
            )
            if !source, !target { plainTime[budget] = run.time }
            rows.append([
                name, budget == 0 ? "INSERT … SELECT, DROP" : "steps of \(budget) ms", run.time.asTime,
                run.processorTime.asTime, Int64(Double(options.rows) / run.time).grouped,
                (run.time / (plainTime[budget] ?? run.time)).short, run.median.asTime, run.percentile99.asTime,
                Int64(run.peakMemory).asMegabytes,
            ])
            folder.remove("source.db")
            folder.remove("target.db")
        }
        folder.remove("rows.db")
    }
    report.section("cipher", "\(options.rows.grouped) messages, with keys from passphrases")
    report.table(
        ["files", "way", "time", "CPU", "rows/s", "times plain", "p50", "p99", "peak RSS"],
        rows
    )
    try keyTable(folder, report)
}

/// How long it takes to open connections to an encrypted file.
private func keyTable(_ folder: WorkFolder, _ report: Report) throws {
    let path = folder.file("keys.db")
    try Messages(rows: 100).make(path, key: Messages.key)
    func open(_ count: Int) throws -> Double {
        let start = ContinuousClock.now
        var connections: [Connection] = []
        for _ in 0..<count {
            connections.append(try Connection(path: path, options: OpenOptions(access: .readOnly, key: Messages.key)))
        }
        return (ContinuousClock.now - start).inSeconds
    }
    let (one, forty) = (try open(1), try open(40))
    report.section("keys", "connections to one encrypted file, opened one after the other, all of them kept open")
    report.table(["connections", "time"], [["1", one.asTime], ["40", forty.asTime]])
}
