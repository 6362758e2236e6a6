import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// If a statement wants each value once, the union table asks the two sides for their values, not for their rows.
@Suite struct DistinctScanTests {
    private static let schema = """
        CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, b TEXT, c TEXT COLLATE NOCASE, d, e REAL); CREATE INDEX ta ON t(a);
        CREATE INDEX tab ON t(a, b); CREATE INDEX tb ON t(b DESC, a); CREATE INDEX tc ON t(c); CREATE INDEX td ON t(d);
        CREATE INDEX te ON t(e)
        """
    private static let rows = """
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) INSERT INTO t
        SELECT i, CASE WHEN i % 19 THEN i * 37 % 11 END, 'b' || i % 5, CASE i % 2 WHEN 0 THEN 'X' ELSE 'x' END || i % 3,
        CASE i % 4 WHEN 0 THEN i % 3 WHEN 1 THEN i % 3 + 0.0 ELSE 't' || i % 3 END, CASE i % 3 WHEN 0 THEN 0.0 ELSE i % 7 END FROM n
        """
    private static let queries = [
        "SELECT DISTINCT a FROM t", "SELECT DISTINCT a, b FROM t", "SELECT DISTINCT b, a FROM t",
        "SELECT DISTINCT b FROM t",
        "SELECT DISTINCT c FROM t", "SELECT DISTINCT d FROM t", "SELECT DISTINCT e FROM t", "SELECT DISTINCT id FROM t",
        "SELECT DISTINCT a FROM t WHERE a > 3", "SELECT DISTINCT a FROM t WHERE a BETWEEN 2 AND 7",
        "SELECT DISTINCT a FROM t WHERE a IN (1, 2, 30)", "SELECT DISTINCT a FROM t WHERE a IS NULL",
        "SELECT DISTINCT a FROM t WHERE a = 3", "SELECT DISTINCT a FROM t WHERE id > 50",
        "SELECT DISTINCT a FROM t WHERE rowid % 2", "SELECT DISTINCT a FROM t WHERE a % 2",
        "SELECT DISTINCT a FROM t LIMIT 3",
        "SELECT DISTINCT a FROM t LIMIT 3 OFFSET 2", "SELECT DISTINCT a FROM t ORDER BY a DESC",
        "SELECT DISTINCT a, b FROM t ORDER BY a DESC, b DESC", "SELECT DISTINCT a, b FROM t ORDER BY b, a",
        "SELECT DISTINCT b FROM t WHERE b > 'b1'", "SELECT DISTINCT b FROM t WHERE b > 1",
        "SELECT DISTINCT b FROM t WHERE b LIKE 'b%'", "SELECT DISTINCT a FROM t WHERE b = 'b2'",
        "SELECT count(DISTINCT a) FROM t", "SELECT count(DISTINCT a), sum(a) FROM t",
        "SELECT sum(DISTINCT a), count(*) FROM t",
        "SELECT count(DISTINCT a) FROM t WHERE b = 'b2'", "SELECT b, count(DISTINCT a) FROM t GROUP BY b",
        "SELECT count(*) FROM (SELECT DISTINCT a FROM t)", "SELECT sum(x) FROM (SELECT DISTINCT a AS x, b FROM t)",
        "SELECT x FROM u WHERE x IN (SELECT DISTINCT a FROM t)",
        "SELECT x FROM u WHERE EXISTS (SELECT DISTINCT a FROM t WHERE a = x)",
        "SELECT DISTINCT t.a FROM u, t WHERE t.a = u.x", "SELECT DISTINCT t.a, u.x FROM u, t WHERE t.a > u.x",
        "SELECT DISTINCT y.a FROM t AS x JOIN t AS y ON y.a = x.a",
        "SELECT DISTINCT a FROM t UNION ALL SELECT DISTINCT a FROM t",
        "SELECT DISTINCT a FROM t GROUP BY a, b", "SELECT DISTINCT a + 0 FROM t", "SELECT DISTINCT a, a FROM t",
        "SELECT a FROM v", "SELECT DISTINCT a FROM t NOT INDEXED", "SELECT DISTINCT a FROM t AS x WHERE x.oid > 100",
        "WITH w AS (SELECT DISTINCT a FROM t) SELECT * FROM w", "SELECT length(group_concat(DISTINCT a)) FROM t",
        "SELECT DISTINCT a FROM t WHERE a > (SELECT min(x) FROM u)", "SELECT DISTINCT a COLLATE NOCASE FROM t",
    ]
    private static let changes = [
        "UPDATE t SET a = a + 1 WHERE id % 10 = 3", "DELETE FROM t WHERE id % 17 = 1",
        "UPDATE t SET a = 100 WHERE id = 150",
        "INSERT INTO t(a, b) VALUES (200, 'new'), (3, 'b2')", "DELETE FROM t WHERE a = 5",
        "UPDATE t SET id = -id WHERE id = 180",
    ]
    private static let extra =
        "CREATE TABLE u(x); INSERT INTO u VALUES (1), (5), (7), (NULL); CREATE VIEW v AS SELECT DISTINCT a FROM t"

    /// Whether SQLite tells a virtual table that values must be distinct, so that the scan follows an index for them.
    private static var tellsDistinct: Bool { Connection.libraryVersionNumber >= 3_038_000 }

    /// The rows in their order, if the query asks for one. If it does not, SQLite may choose another index.
    private static func comparable(_ rows: [Row], of query: String) -> [String] {
        query.contains("ORDER BY") || query.contains("LIMIT") ? texts(rows) : texts(rows).sorted()
    }

    private struct Files {
        let folder = TemporaryFolder()
        let native: Connection
        let database: Database

        init(target: String, moved: Int64, with filter: @escaping @Sendable (inout TableMigration) -> Void = { _ in })
            throws
        {
            let old = try Connection(path: folder.file("old.db"))
            try old.execute(script: schema + ";" + rows)
            old.close()
            native = try Connection(path: folder.file("plain.db"))
            try native.execute(script: target + ";" + extra)
            database = try Database(path: folder.file("new.db"))
            try database.execute(target + ";" + extra)
            try database.addMigration(source: .file(folder.file("old.db"))) { table in
                if table.name == "t" { table.sourceTable = "t" }
                filter(&table)
            }
            if moved > 0 { try database.stepMigration(rows: moved) }
        }

        func check(_ when: String) throws {
            for query in queries where tellsDistinct || !query.contains("LIMIT") {
                let theirs = comparable(try native.fetchAll(query), of: query)
                #expect(try comparable(database.fetchAll(query), of: query) == theirs, "\(when): \(query), by a reader")
                let mine = try database.write { try comparable($0.fetchAll(query), of: query) }
                #expect(mine == theirs, "\(when): \(query), by a writer")
            }
        }
    }

    @Test(arguments: [0, 1, 60, 199] as [Int64]) func givesTheValuesOfBothSides(_ moved: Int64) throws {
        let files = try Files(target: Self.schema, moved: moved)
        try files.native.execute(script: Self.rows)
        try files.check("\(moved) moved")
        for change in Self.changes {
            try files.native.execute(change)
            try files.database.execute(change)
            try files.check("\(moved) moved, \(change)")
        }
        try files.database.stepMigration(rows: 30)
        try files.check("30 more")
        #expect(files.database.migrationStatistics.drains(of: "t") == 0)
        try finishMigration(files.database)
        try files.check("moved")
    }

    /// The source has values that are equal there and differ in the target, and it has no index for them.
    @Test(arguments: [0, 60] as [Int64]) func columnsOfOtherKinds(_ moved: Int64) throws {
        let target = """
            CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b INTEGER, c TEXT, d TEXT, e INTEGER); CREATE INDEX ta ON t(a);
            CREATE INDEX tab ON t(a, b); CREATE INDEX tb ON t(b DESC, a); CREATE INDEX tc ON t(c); CREATE INDEX td ON t(d);
            CREATE INDEX te ON t(e)
            """
        let files = try Files(target: target, moved: moved)
        try files.native.execute(
            script: "ATTACH '\(files.folder.file("copy.db"))' AS s; CREATE TABLE s.t AS SELECT * FROM t"
        )
        let copy = try Connection(path: files.folder.file("copy.db"))
        try copy.execute(script: "DROP TABLE t; " + Self.schema + ";" + Self.rows)
        try files.native.execute("INSERT INTO main.t SELECT * FROM s.t")
        try files.native.execute("DETACH s")
        try files.check("\(moved) moved")
        try finishMigration(files.database)
        try files.check("moved")
    }

    @Test func conditionsAndTablesWithoutRowIDs() throws {
        let keyed =
            "CREATE TABLE t(a INTEGER, b TEXT, c TEXT, PRIMARY KEY (a, b DESC)) WITHOUT ROWID; CREATE INDEX tc ON t(c, a)"
        let rows = """
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) INSERT INTO t
            SELECT i % 10, 'b' || i, 'c' || i % 7 FROM n
            """
        for condition in [nil, "c <> 'c3'"] {
            let folder = TemporaryFolder()
            let old = try Connection(path: folder.file("old.db"))
            try old.execute(script: keyed + ";" + rows)
            old.close()
            let native = try Connection(path: ":memory:")
            try native.execute(script: keyed + ";" + rows)
            if let condition { try native.execute("DELETE FROM t WHERE NOT (\(condition))") }
            let database = try Database(path: folder.file("new.db"))
            try database.execute(keyed)
            try database.addMigration(source: .file(folder.file("old.db"))) { table in
                table.sourceTable = "t"
                table.condition = condition
            }
            for step in 0..<4 {
                for query in [
                    "SELECT DISTINCT a FROM t", "SELECT DISTINCT c FROM t", "SELECT DISTINCT c, a FROM t",
                    "SELECT DISTINCT b FROM t",
                    "SELECT DISTINCT a FROM t WHERE a > 4", "SELECT DISTINCT a, b FROM t WHERE a = 3",
                    "SELECT count(DISTINCT c) FROM t",
                ] {
                    let theirs = Self.comparable(try native.fetchAll(query), of: query)
                    #expect(try Self.comparable(database.fetchAll(query), of: query) == theirs, "\(step): \(query)")
                }
                for sql in ["UPDATE t SET c = 'n' WHERE a = 3 AND b < 'b5'", "DELETE FROM t WHERE a = 4"]
                where step == 1 {
                    try database.execute(sql)
                    try native.execute(sql)
                }
                try database.stepMigration(rows: 40)
            }
        }
    }

    /// For these joins, SQLite remembers by their keys which rows of the right table have matched. It says that it does
    /// not use the keys.
    @Test(
        .needs(.rightJoin),
        arguments: [
            "id INTEGER PRIMARY KEY, a, b TEXT)", "id, a, b TEXT, PRIMARY KEY (id)) WITHOUT ROWID",
            "id, a, b TEXT, PRIMARY KEY (b, id)) WITHOUT ROWID",
        ]
    ) func rightJoins(_ columns: String) throws {
        let join = "other RIGHT JOIN t ON other.y = t.b WHERE other.x IS NULL"
        let pair = try Pair(
            schema: "CREATE TABLE t(\(columns); CREATE INDEX tb ON t(b); CREATE INDEX ta ON t(a)",
            rows: """
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
                INSERT INTO t SELECT i, i % 5, 'b' || i % 4 FROM n
                """,
            extra: """
                CREATE TABLE other(x, y); INSERT INTO other VALUES (1, 'b1'), (3, 'b2'), (3, 'b2'); CREATE TABLE lst(x);
                CREATE VIEW v AS SELECT DISTINCT t.b FROM \(join)
                """,
            tables: ["t"],
            moved: 9
        )
        for sql in [
            "SELECT DISTINCT t.b FROM \(join) ORDER BY t.b", "SELECT * FROM v ORDER BY b",
            "SELECT count(DISTINCT t.b) FROM \(join)",
            "SELECT DISTINCT t.a FROM other FULL JOIN t ON other.x = t.a WHERE other.x IS NULL ORDER BY t.a",
            "INSERT INTO lst SELECT DISTINCT t.b FROM \(join)", "UPDATE t SET a = -1 WHERE b IN (SELECT * FROM v)",
            "DELETE FROM t WHERE b IN (SELECT DISTINCT t.b FROM \(join))",
        ] {
            #expect(
                try texts(pair.database.write { try $0.fetchAll(sql) }) == texts(pair.native.fetchAll(sql)),
                "\(sql)"
            )
            for look in ["SELECT * FROM t ORDER BY id", "SELECT x FROM lst ORDER BY x"] {
                #expect(try texts(pair.database.fetchAll(look)) == texts(pair.native.fetchAll(look)), "\(sql): \(look)")
            }
        }
    }

    /// Rows that the loop has promoted or changed are neither missed nor given twice.
    @Test func aLoopOverItMayWrite() throws {
        for change in [
            "UPDATE t SET e = 1 WHERE a = ?", "UPDATE t SET b = b || 'x' WHERE a = ?", "DELETE FROM t WHERE a = ?",
            "UPDATE t SET e = 1 WHERE a > ?", "INSERT OR REPLACE INTO t(id, a) SELECT id, a FROM t WHERE a = ? + 1",
        ] {
            let files = try Files(target: Self.schema, moved: 60)
            try files.native.execute(script: Self.rows)
            let wanted = texts(try files.native.fetchAll("SELECT DISTINCT a FROM t"))
            var found: [String] = []
            try files.database.write { access in
                try access.forEachRow("SELECT DISTINCT a FROM t") { row in
                    let value = try row.read(Int64?.self, at: 0)
                    found.append(value.map { "\($0)" } ?? "NULL")
                    if let value { try access.execute(change, [value]) }
                    return true
                }
            }
            #expect(found == wanted, "\(change)")
        }
    }

    /// Nor does the scan give a value that no row has any more, or that no row has yet.
    @Test(
        .enabled(if: tellsDistinct),
        arguments: [
            "id INTEGER PRIMARY KEY, a INTEGER, b TEXT); CREATE INDEX ta ON t(a)",
            "id INTEGER, a INTEGER, b TEXT, PRIMARY KEY (a, id)) WITHOUT ROWID",
        ],
        ["DELETE FROM t WHERE id = -1", "UPDATE t SET b = 'm' WHERE id IN (25, 45, 99)"]
    ) func aLoopOverItSeesWhatItHasWritten(columns: String, earlier: String) throws {
        for query in [
            "SELECT DISTINCT a FROM t", "SELECT DISTINCT a FROM t WHERE a > 1 AND a < 90",
        ] {
            for change in [
                "DELETE FROM t WHERE a = 50", "UPDATE t SET a = 50 WHERE a IN (40, 60)",
                "UPDATE t SET b = 'n' WHERE a = 50",
                "DELETE FROM t WHERE a BETWEEN 40 AND 60", "ROLLBACK TO before",
                "INSERT INTO t VALUES (300, 45, 'n'), (301, 25, 'n'), (302, 55, 'n')",
                "UPDATE t SET a = 55 WHERE id % 3 = 0 AND a = 50",
            ] {
                let pair = try Pair(
                    schema: "CREATE TABLE t(\(columns)",
                    rows: """
                        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100)
                        INSERT INTO t SELECT i, 10 * (i % 10), 'b' FROM n
                        """,
                    tables: ["t"],
                    moved: 1
                )
                let before = [
                    earlier, "SAVEPOINT before", "UPDATE t SET a = 30 WHERE a = 70",
                    "DELETE FROM t WHERE a = 50 AND id < 50",
                ]
                var theirs: [String] = []
                try pair.native.execute("BEGIN")
                for sql in before { try pair.native.execute(sql) }
                let statement = try pair.native.prepare(query)
                while try statement.step() {
                    theirs.append("\(statement.int64(at: 0))")
                    if theirs.count == 3 { try pair.native.execute(change) }
                }
                var mine: [String] = []
                try pair.database.write { access in
                    _ = try access.fetchAll(query)
                    for sql in before { try access.execute(sql) }
                    try access.forEachRow(query) { row in
                        mine.append("\(try row.read(Int64.self, at: 0))")
                        if mine.count == 3 { try access.execute(change) }
                        return true
                    }
                }
                #expect(mine == theirs, "\(query): \(change)")
            }
        }
    }
}
