internal import CBaseline
internal import SQLiteConnection

/// Decoding rows into structs: plain C, typed reads, `Row`, and `Codable`, side by side.
///
/// Each way opens the file on a connection of its own, whose cache holds the whole file. A repetition reads all rows
/// and frees them. The ways take turns, so that other work of the machine affects them alike.
func decodeBenchmark(_ options: Options, _ report: Report) throws {
    let rows = 100_000
    let repetitions = 41
    let folder = try WorkFolder(below: options.folder)
    let path = folder.file("decode.db")
    Report.note("decode")
    try fill(path, rows: rows)

    let sql = "SELECT id, time, score, sender, text, token FROM messages"
    guard let baseline = baseline_decode_open(path, sql) else {
        throw SQLiteError(code: .cannotOpen, message: "the baseline cannot read \(path)")
    }
    defer { baseline_decode_close(baseline) }
    let connection = try Connection(path: path)
    try connection.execute("PRAGMA cache_size = -200000")

    let ways: [(name: String, run: () throws -> Int64)] = [
        ("C", { baseline_decode_run(baseline) }),
        ("typed reads", { sum(try typed(connection, sql)) }),
        ("read(at:)", { sum(try converted(connection, sql)) }),
        ("Row", { sum(try connection.fetchAll(sql)) }),
        ("Codable", { sum(try connection.fetchAll(Message.self, sql)) }),
    ]
    let expected = try ways[0].run()
    for way in ways where try way.run() != expected {
        throw SQLiteError(code: .error, message: "\(way.name) read something else")
    }

    var cell = Cell(ways: ways.count, countsProcessorTime: options.processorTime)
    for _ in 0..<repetitions { try cell.measure { _ = try ways[$0].run() } }

    report.section("decode", "\(Int64(rows).grouped) rows of 6 columns into structs")
    report.table(
        ["way", "ns a row", "times C"],
        ways.indices.map { way in
            [
                ways[way].name, (cell.median(of: way) * 1e9 / Double(rows)).fixed(0), cell.ratio(of: way, to: 0).short,
            ]
        }
    )
}

private struct Message: Codable {
    var id: Int64
    var time: Int64
    var score: Double
    var sender: String
    var text: String
    var token: [UInt8]
}

private func fill(_ path: String, rows: Int) throws {
    let connection = try Connection(path: path)
    try connection.execute(
        """
        CREATE TABLE messages(
            id INTEGER PRIMARY KEY, time INTEGER NOT NULL, score REAL NOT NULL, sender TEXT NOT NULL,
            text TEXT NOT NULL, token BLOB NOT NULL)
        """
    )
    try connection.transaction {
        try connection.execute(
            """
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
            INSERT INTO messages
            SELECT i, 1700000000000 + 977 * i, i / 7.0, printf('user%08d', i),
                printf('message number %010d of the benchmark', i), randomblob(16)
            FROM n
            """,
            [rows]
        )
    }
}

private func typed(_ connection: Connection, _ sql: String) throws -> [Message] {
    let statement = try connection.cachedStatement(sql)
    defer { statement.reset() }
    var messages: [Message] = []
    while try statement.step() {
        messages.append(
            Message(
                id: statement.int64(at: 0),
                time: statement.int64(at: 1),
                score: statement.double(at: 2),
                sender: statement.text(at: 3),
                text: statement.text(at: 4),
                token: statement.blob(at: 5)
            )
        )
    }
    return messages
}

private func converted(_ connection: Connection, _ sql: String) throws -> [Message] {
    let statement = try connection.cachedStatement(sql)
    defer { statement.reset() }
    var messages: [Message] = []
    while try statement.step() {
        messages.append(
            Message(
                id: try statement.read(at: 0),
                time: try statement.read(at: 1),
                score: try statement.read(at: 2),
                sender: try statement.read(at: 3),
                text: try statement.read(at: 4),
                token: try statement.read(at: 5)
            )
        )
    }
    return messages
}

private func sum(_ messages: [Message]) -> Int64 {
    messages.reduce(0) {
        $0 + $1.id + $1.time + Int64($1.score) + Int64($1.sender.utf8.count + $1.text.utf8.count + $1.token.count)
    }
}

private func sum(_ rows: [Row]) -> Int64 {
    rows.reduce(0) { total, row in
        row.values.reduce(total) { total, value in
            switch value {
            case .null: total
            case .integer(let integer): total + integer
            case .real(let double): total + Int64(double)
            case .text(let text): total + Int64(text.utf8.count)
            case .blob(let bytes): total + Int64(bytes.count)
            }
        }
    }
}
