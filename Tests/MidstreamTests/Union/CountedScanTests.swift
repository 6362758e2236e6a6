import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// Scans whose rows are only counted, since no column is asked for, and whose rows are read after all.
@Suite struct CountedScanTests {
    private static let queries = [
        "SELECT (SELECT count(*) FROM t), 3",
        "SELECT rowid FROM t ORDER BY rowid LIMIT 3 OFFSET 50",
        "SELECT rowid FROM t ORDER BY rowid",
        "SELECT EXISTS (SELECT 1 FROM t)",
        "SELECT count(*) FROM t WHERE a = 1",
        "SELECT count(*) FROM t WHERE a = 1.0",
        "SELECT count(*) FROM t WHERE a > 0",
        "SELECT count(*) FROM t WHERE a = 1 AND id > 100",
        "SELECT count(*) FROM t WHERE a = 5",
        "SELECT (SELECT count(*) FROM t WHERE a = 2), 3",
        "SELECT a FROM t WHERE a = 1 LIMIT 3 OFFSET 40",
        "SELECT a, count(*) FROM t WHERE a = 1",
        "SELECT count(*) FROM t AS x JOIN t AS y ON x.a = y.a WHERE x.id < 5",
        "SELECT rowid FROM t WHERE a = 1 ORDER BY rowid LIMIT 10 OFFSET 100",
        "SELECT 1 FROM t WHERE a = 0 LIMIT 300",
        "SELECT EXISTS (SELECT 1 FROM t WHERE a = 1)",
        "SELECT count(*) FROM t WHERE id BETWEEN 20 AND 500",
        "SELECT id FROM t WHERE id > 3 LIMIT 2 OFFSET 500",
        "SELECT id FROM t WHERE id > 30 LIMIT 40 OFFSET 33",
    ]

    @Test(arguments: [0, 40, 350, 599], [false, true])
    func theyGiveWhatNativeScansGive(_ moved: Int64, _ hasLedger: Bool) throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, b TEXT); CREATE INDEX i ON t(a, b)",
            rows: "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600) "
                + "INSERT INTO t SELECT i, i % 3, 'x' || (i * 7 % 11) FROM n",
            tables: ["t"],
            moved: moved
        )
        if hasLedger {
            for sql in ["UPDATE t SET b = 'y' WHERE id % 13 = 0", "DELETE FROM t WHERE id % 17 = 0"] {
                try pair.database.execute(sql)
                try pair.native.execute(sql)
            }
        }
        for sql in Self.queries {
            let expected = texts(try pair.native.fetchAll(sql))
            #expect(texts(try pair.database.fetchAll(sql)) == expected, "\(sql)")
            try pair.database.withoutTransaction { access in
                let rows = texts(try access.fetchAll(sql))
                #expect(rows == expected, "\(sql)")
            }
        }
    }

    /// The rows that a loop has yet to see are those that still exist.
    @Test(
        arguments: [
            "SELECT 'x' FROM t", "SELECT a FROM t WHERE a = 1", "SELECT 'x' FROM t LIMIT 500",
            "SELECT 'x' FROM t AS x, (SELECT 1)",
        ],
        [
            "DELETE FROM t WHERE id > 60", "INSERT INTO t(id, a) VALUES (1000, 1), (1001, 1)",
            "UPDATE t SET a = 2 WHERE id > 70",
        ]
    )
    func aLoopThatWritesSeesWhatIsThere(_ query: String, _ write: String) throws {
        for moved in [0, 30, 80] as [Int64] {
            let pair = try Pair(
                schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER); CREATE INDEX i ON t(a)",
                rows: "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) "
                    + "INSERT INTO t SELECT i, i % 3 FROM n",
                tables: ["t"],
                moved: moved
            )
            var expected = 0
            let statement = try pair.native.prepare(query)
            while try statement.step() {
                expected += 1
                if expected == 3 || expected == 40 { try? pair.native.execute(write) }
            }
            try pair.database.withoutTransaction { access in
                var rows = 0
                try access.forEachRow(query) { _ in
                    rows += 1
                    if rows == 3 || rows == 40 { try? access.execute(write) }
                    return true
                }
                #expect(rows == expected, "\(moved) moved")
            }
        }
    }

    /// SQLite puts a column's value in place of the column, and the rowid's column has several names.
    @Test(
        arguments: [
            "SELECT * FROM t WHERE rowid = 5 AND b > oid", "SELECT * FROM t WHERE id = 5 AND b > t.'id'",
            "SELECT * FROM t WHERE rowid = 5 AND c > oid", "SELECT * FROM t WHERE _rowid_ = 5 AND b > id",
            "SELECT * FROM t WHERE oid = 5 AND c > rowid AND c > _rowid_", "SELECT * FROM t WHERE id = 5 AND id < b",
        ]
    )
    func aColumnIsOneByAllItsNames(_ sql: String) throws {
        for moved in [0, 1] as [Int64] {
            let pair = try Pair(
                schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, b TEXT, c)",
                rows: "INSERT INTO t VALUES (1, '1', 1), (5, '10', '3'), (7, '2', 2)",
                tables: ["t"],
                moved: moved
            )
            let expected = texts(try pair.native.fetchAll(sql))
            #expect(texts(try pair.database.fetchAll(sql)) == expected)
            try pair.database.withoutTransaction { access in
                let rows = texts(try access.fetchAll(sql))
                #expect(rows == expected)
            }
        }
    }

    /// A word that begins a join may be a name where no join can stand. SQLite reads it as a name, and goes on.
    @Test(
        .needs(.rowValuesInQueries),
        arguments: [
            "SELECT id FROM t WHERE (name NOT GLOB left) AND b > a AND a = 1",
            "SELECT id FROM t WHERE (name NOT LIKE left) AND (name, b) IN (SELECT x, y FROM u)",
            "SELECT id, CAST(a AS) FROM t WHERE (b, name) IN (SELECT y, x FROM u)",
        ]
    )
    func whatTheOutlineCannotReadIsComparedBySQLite(_ sql: String) throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, b TEXT, name TEXT, left TEXT)",
            rows: "INSERT INTO t VALUES (1, 1, '05', 'n', 'm'), (2, 1, '2', '02', 'x'), (3, 2, '2', '2', 'z')",
            extra: "CREATE TABLE u(x INTEGER, y INTEGER); INSERT INTO u VALUES (2, 2)",
            tables: ["t"]
        )
        #expect(texts(try pair.database.fetchAll(sql)) == texts(try pair.native.fetchAll(sql)))
    }
}
