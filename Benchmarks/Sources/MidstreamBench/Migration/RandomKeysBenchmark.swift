internal import SQLiteConnection

/// Tables whose indexes have their entries in an order that differs from that of the rows.
struct RandomKeysBenchmark {
    /// A table of that kind.
    private struct Kind {
        var name: String
        var table: String
        var indexes: [String]
        /// Whether the source has the indexes too.
        var isSourceIndexed = true
        /// The rows that the application has updated when the steps begin, as a condition.
        var written = ""

        var schema: [String] { [table] + indexes }
    }

    private static let byConversation = "CREATE INDEX by_conversation ON messages(conversation, created_at)"
    private static let columns =
        "id INTEGER PRIMARY KEY, uuid TEXT NOT NULL, conversation INTEGER NOT NULL, created_at INTEGER NOT NULL, "
        + "a INTEGER NOT NULL, b INTEGER NOT NULL, c TEXT NOT NULL, body TEXT NOT NULL"
    private static let kinds =
        [
            Kind(
                name: "a random uuid and an index",
                table: "CREATE TABLE messages(\(columns), UNIQUE (uuid))",
                indexes: [byConversation]
            ),
            Kind(
                name: "five indexes in no order",
                table: "CREATE TABLE messages(\(columns), UNIQUE (uuid))",
                indexes: ["a", "b", "c", "b, c"].map {
                    "CREATE INDEX by_\($0.split { ", ".contains($0) }.joined()) ON messages(\($0))"
                }
            ),
            Kind(
                name: "the first, without them in the source",
                table: "CREATE TABLE messages(\(columns))",
                indexes: ["CREATE INDEX by_uuid ON messages(uuid)", byConversation],
                isSourceIndexed: false
            ),
        ]
        + [1000, 100, 10].map { share in
            Kind(
                name: "the first, one row in \(share) written",
                table: "CREATE TABLE messages(\(columns), UNIQUE (uuid))",
                indexes: [byConversation],
                written: "id % \(share) = 0"
            )
        }
        + [200].map { share in
            Kind(
                name: "two columns as key, without rowids, 1 in \(share) written",
                table:
                    "CREATE TABLE messages(\(columns.replacing("INTEGER PRIMARY KEY", with: "INTEGER NOT NULL")), PRIMARY KEY (conversation, uuid)) WITHOUT ROWID",
                indexes: [byConversation],
                written: "id % \(share) = 0"
            )
        }

    static func run(_ options: Options, _ report: Report) throws {
        var lines: [[String]] = []
        for kind in kinds {
            let folder = try WorkFolder(below: options.folder)
            Report.note("random: making \(options.rows.grouped) rows with \(kind.name)")
            try make(folder.file("rows.db"), kind, options.rows)
            var first: MigrationRun?
            var ways = [("INSERT … SELECT, DROP", 0, "")]
            if !kind.written.isEmpty { ways.append(("the same, and REPLACE of the written rows", 0, kind.written)) }
            ways += [("steps of 10 ms", 10, kind.written), ("steps of 1 s", 1000, kind.written)]
            for (name, budget, written) in ways {
                try folder.copy("rows.db", to: "source.db")
                let run = try MigrationRun.make(
                    source: folder.file("source.db"),
                    target: folder.file("target.db"),
                    budget: budget,
                    schema: kind.schema,
                    written: written
                )
                folder.remove("source.db")
                folder.remove("target.db")
                let base = first ?? run
                first = base
                lines.append([
                    kind.name, name, run.time.asTime, Int64(run.rows / run.time).grouped, (run.time / base.time).short,
                    run.percentile99.asTime, max(run.longestMove, run.longestOther).asTime,
                    Int64(run.peakWAL).asMegabytes, Int64(run.peakMemory).asMegabytes, (run.pages / base.pages).short,
                ])
            }
        }
        report.section("random", "\(options.rows.grouped) rows of 250 bytes, from one file to another")
        report.table(
            [
                "table", "way", "time", "rows/s", "times one go", "p99", "longest step", "peak WAL", "peak RSS",
                "pages, times one go",
            ],
            lines
        )
    }

    private static func make(_ path: String, _ kind: Kind, _ rows: Int64) throws {
        let connection = try Connection(path: path)
        defer { connection.close() }
        try connection.execute("PRAGMA journal_mode = OFF")
        try connection.execute("PRAGMA synchronous = OFF")
        try connection.execute(kind.table)
        try connection.transaction {
            try connection.execute(
                """
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
                INSERT INTO messages SELECT i, lower(hex(randomblob(16))), abs(random()) % 1000, 1700000000 + i,
                    abs(random()) % 1000000, random(), hex(randomblob(6)), hex(zeroblob(75)) FROM n
                """,
                [rows]
            )
            if kind.isSourceIndexed { for text in kind.indexes { try connection.execute(text) } }
        }
        try connection.execute("PRAGMA journal_mode = WAL")
    }
}
