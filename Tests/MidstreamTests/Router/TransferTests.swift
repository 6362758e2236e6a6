import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// `INSERT INTO x SELECT * FROM y` of equal definitions copies rows as they are stored, whichever of the two moves.
@Suite struct TransferTests {
    /// Definitions of both tables, where `%` is the name, and rows of `y`.
    private static let definitions: [(columns: String, indexes: String, needs: SQLiteFeature?)] = [
        ("(a, b)", "", nil), ("(a, b)", "CREATE INDEX %_a ON %(a)", nil),
        ("(a, b)", "CREATE UNIQUE INDEX %_b ON %(b)", nil),
        ("(a, b UNIQUE)", "", nil), ("(a INTEGER PRIMARY KEY, b)", "", nil),
        ("(a INTEGER PRIMARY KEY AUTOINCREMENT, b)", "", nil),
        ("(a INTEGER PRIMARY KEY, b CHECK (b < 1000))", "", nil),
        ("(a, b CHECK (b < 1000))", "CREATE INDEX %_a ON %(a)", nil),
        ("(a, b, PRIMARY KEY(a, b)) WITHOUT ROWID", "", nil),
        ("(a PRIMARY KEY, b CHECK (b < 1000)) WITHOUT ROWID", "", nil),
        ("(a INTEGER PRIMARY KEY, b, c AS (b + 1), d AS (a || b) STORED)", "", .generatedColumns),
        ("(a, b, c AS (b + 1))", "", .generatedColumns),
        ("(a, b, c AS (b + 1))", "CREATE INDEX %_a ON %(a)", .generatedColumns),
        ("(a INTEGER PRIMARY KEY, b INT CHECK (b < 1000)) STRICT", "", .strict),
    ]

    private static let statements = [
        "INSERT INTO x SELECT * FROM y", "INSERT INTO main.x SELECT * FROM y AS q",
        "INSERT OR IGNORE INTO x SELECT * FROM main.y",
        "REPLACE INTO x SELECT * FROM y", "INSERT INTO x SELECT * FROM y WHERE 1", "INSERT INTO x SELECT ALL * FROM y",
        "INSERT INTO x(a, b) SELECT * FROM y", "INSERT INTO x SELECT a, b FROM y",
        "INSERT INTO x SELECT * FROM y NOT INDEXED",
        "INSERT INTO x SELECT * FROM (SELECT * FROM y)",
    ]

    private static func looks(_ columns: String) -> [String] {
        ["x", "y"].map { "SELECT \(columns.contains("WITHOUT") ? "" : "rowid, ")* FROM \($0) ORDER BY 1, 2" }
            + ["SELECT count(*) FROM sqlite_master WHERE name = 'sqlite_sequence'"]
    }

    @Test(
        arguments: definitions.indices.filter { definitions[$0].needs?.isAvailable ?? true },
        [["x"], ["y"], ["x", "y"]]
    )
    func aTableIsCopiedAsItIsStored(_ number: Int, _ moving: [String]) throws {
        let (columns, indexes, _) = Self.definitions[number]
        let all = Self.statements
        for (place, statement) in all.enumerated() where place == 0 || place % 5 == number % 5 {
            for rows in [0, 2] {
                let schema = ["x", "y"].map { "CREATE TABLE \($0)\(columns); \(indexes.replacing("%", with: $0))" }
                    .joined(separator: ";")
                let isKeyed = columns.contains("WITHOUT")
                let insert =
                    "PRAGMA ignore_check_constraints = 1; INSERT INTO y(\(isKeyed ? "" : "rowid, ")a, b) VALUES "
                let values = [(3, 30), (7, 2000), (20, 10)].map { isKeyed ? "(\($0), \($1))" : "(\($0), \($0), \($1))" }
                let filled =
                    insert + values.joined(separator: ", ") + ";"
                    + (rows == 0 ? "" : "INSERT INTO x(a, b) VALUES (1, 1), (2, 2);")
                    + "PRAGMA ignore_check_constraints = 0"
                let run = try TransferRun(schema: schema, rows: filled, moving: Set(moving))
                for text in [statement, statement] {
                    let wanted = Result { try run.native.execute(text) }
                    let found = Result { try run.database.execute(text) }
                    let name = "\(columns) \(indexes), \(moving), \(rows) rows: \(text)"
                    switch (wanted, found) {
                    case (.success, .success): break
                    case (.failure(let wanted as SQLiteError), .failure(let found as SQLiteError)):
                        #expect(found.message == wanted.message && found.code == wanted.code, "\(name)")
                    default: Issue.record("\(name): \(found), natively \(wanted)")
                    }
                    for look in Self.looks(columns) {
                        #expect(try texts(run.database.fetchAll(look)) == texts(run.native.fetchAll(look)), "\(name)")
                    }
                }
                #expect(["x", "y"].allSatisfy { run.database.migrationStatistics.drains(of: $0) == 0 })
            }
        }
    }

    /// If the two definitions differ, the target stores what native SQLite would store.
    @Test(arguments: [
        "x(a, b DEFAULT 5); CREATE INDEX x_a ON x(a)", "x(a, b COLLATE NOCASE); CREATE INDEX x_a ON x(a)",
        "x(a, b INT); CREATE INDEX x_a ON x(a)",
        "x(a, b NOT NULL); CREATE INDEX x_a ON x(a)", "x(a, b); CREATE INDEX x_a ON x(b)", "x(a, b)",
        "x(a, b); CREATE INDEX x_a ON x(a DESC)",
        "x(a, b CHECK (b < 9)); CREATE INDEX x_a ON x(a)",
        "x(a, b); CREATE INDEX x_a ON x(a); CREATE TRIGGER g AFTER INSERT ON x BEGIN SELECT 1; END",
        "x(c, d); CREATE INDEX x_a ON x(c)",
    ])
    func aTableOfAnotherDefinitionIsNot(_ target: String) throws {
        let y = "CREATE TABLE y(a, b); CREATE INDEX y_a ON y(a);"
        let run = try TransferRun(
            schema: y,
            rows: "INSERT INTO y(rowid, a, b) VALUES (5, 5, 5), (9, 6, 6)",
            moving: ["y"],
            extra: "CREATE TABLE \(target)"
        )
        for connection in [{ try run.native.execute($0) }, { try run.database.execute($0) }]
            as [(String) throws -> Void]
        {
            try connection("INSERT INTO x SELECT * FROM y")
        }
        #expect(
            try texts(run.database.fetchAll("SELECT rowid, * FROM x"))
                == texts(run.native.fetchAll("SELECT rowid, * FROM x"))
        )
    }
}

/// A pair whose source has the rows of the moving tables. The rows of the others are in the target from the start.
private struct TransferRun {
    let folder = TemporaryFolder()
    let native: Connection
    let database: Database

    init(schema: String, rows: String, moving: Set<String>, extra: String = "") throws {
        native = try Connection(path: folder.file("plain.db"))
        try native.execute(script: "\(schema); \(rows); \(extra)")
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(script: "\(schema); \(rows)")
        old.close()
        let new = try Connection(path: folder.file("new.db"))
        try new.execute(script: "\(schema); \(rows); \(extra)")
        for table in moving {
            try new.execute("DELETE FROM \(table)")
        }
        new.close()
        database = try Database(path: folder.file("new.db"))
        try database.addMigration(source: .file(folder.file("old.db"))) {
            if moving.contains($0.name) { $0.sourceTable = $0.name }
            $0.firesTriggers = false
        }
        try database.stepMigration(rows: 1)
    }
}
