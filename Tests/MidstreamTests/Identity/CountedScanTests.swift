import Midstream
import SQLiteConnection
import Testing

/// Scans whose rows are counted, since nobody looks at them, and looked at after all.
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
}
