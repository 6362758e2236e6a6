import Midstream
import SQLiteConnection
import Testing

/// A scan without ORDER BY gives rows in the order of the whole table, even if SQLite follows an index that has all
/// needed columns.
@Suite struct ScanOrderTests {
    private static let columns = "(id INTEGER PRIMARY KEY, a INTEGER, b TEXT COLLATE NOCASE, c, wide TEXT)"
    private static let indexes = [
        "CREATE INDEX %_a ON %(a)", "CREATE INDEX %_bc ON %(b DESC, c)", "CREATE INDEX %_ab ON %(a, b, c)",
        "CREATE INDEX %_half ON %(c) WHERE a > 3",
    ]
    private static let rows =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) INSERT INTO t "
        + "SELECT i, i * 37 % 11, CASE i % 3 WHEN 0 THEN 'B' WHEN 1 THEN 'a' ELSE 'b' END || i % 5, i * 7 % 13, 'w' || i FROM n"

    private static let queries = [
        "SELECT a FROM t", "SELECT b, c FROM t", "SELECT id, a FROM t", "SELECT rowid FROM t", "SELECT c FROM t",
        "SELECT a, b, c FROM t", "SELECT * FROM t", "SELECT wide FROM t", "SELECT a FROM t WHERE a + 0 > 3",
        "SELECT b FROM t WHERE c = 5", "SELECT a FROM t LIMIT 7", "SELECT a FROM t LIMIT 3 OFFSET 190",
        "SELECT 1 FROM t",
        "SELECT group_concat(a) FROM t", "SELECT a, count(*) FROM t", "SELECT b FROM t ORDER BY length(b)",
        "SELECT c FROM t WHERE a > 3", "SELECT x.a FROM t AS x", "SELECT a FROM (SELECT a, b FROM t)",
        "SELECT (SELECT a FROM t)",
        "SELECT a FROM v", "SELECT a FROM t NOT INDEXED", "SELECT group_concat(b) FROM t NOT INDEXED",
        "SELECT DISTINCT c FROM t", "SELECT a FROM t UNION ALL SELECT c FROM t",
    ]

    private func check(schema: String, source: String, _ differ: Set<String> = []) throws {
        let extra = "CREATE VIEW v AS SELECT a, c FROM t"
        for moved in [0, 1, 60, 199] as [Int64] {
            let folder = TemporaryFolder()
            let old = try Connection(path: folder.file("old.db"))
            try old.execute(script: source + ";" + Self.rows)
            old.close()
            let native = try Connection(path: folder.file("plain.db"))
            try native.execute(script: schema + ";" + Self.rows + ";" + extra)
            let database = try Database(path: folder.file("new.db"))
            try database.execute(schema + ";" + extra)
            try database.addMigration(source: .file(folder.file("old.db"))) {
                if $0.name == "t" { $0.sourceTable = "t" }
            }
            if moved > 0 { try database.stepMigration(rows: moved) }
            for sql in ["UPDATE t SET a = a + 1 WHERE id % 10 = 3", "DELETE FROM t WHERE id % 17 = 1"] {
                try database.execute(sql)
                try native.execute(sql)
            }
            for query in Self.queries where !differ.contains(query) {
                let (mine, theirs) = (texts(try database.fetchAll(query)), texts(try native.fetchAll(query)))
                #expect(mine == theirs, "\(moved) moved: \(query)")
            }
            #expect(database.migrationStatistics.drains(of: "t") == 0)
        }
    }

    private static func creation(_ options: String, _ indexes: [String]) -> String {
        (["CREATE TABLE t\(columns) \(options)"] + indexes.map { $0.replacing("%", with: "t") }).joined(separator: ";")
    }

    /// In SQLite 3.15, the order stays that of the rowid.
    @Test(.enabled(if: Connection.libraryVersionNumber >= 3_024_000)) func isThatOfACoveringIndex() throws {
        let schema = Self.creation("", Self.indexes)
        try check(schema: schema, source: schema)
    }

    @Test func isThatOfACoveringIndexOfATableWithoutRowIDs() throws {
        let schema = Self.creation("WITHOUT ROWID", Self.indexes)
        try check(schema: schema, source: schema, ["SELECT rowid FROM t"])
    }

    @Test func isThatOfTheTableWhereTheSourceHasNoSuchIndex() throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(script: "CREATE TABLE t\(Self.columns);" + Self.rows)
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute(Self.creation("", Self.indexes))
        try database.addMigration(source: .file(folder.file("old.db"))) { if $0.name == "t" { $0.sourceTable = "t" } }
        let byRowID = texts(try database.fetchAll("SELECT a FROM t ORDER BY id"))
        #expect(texts(try database.fetchAll("SELECT a FROM t")) == byRowID)
    }
}
