import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// SQLite compares a text with a number as a number. So several rows of a unique key, `'1'`, `' 1'` and `'1.0'`, may be
/// equal to one number.
@Suite struct NumberKeyTests {
    private static let rows =
        "INSERT OR IGNORE INTO t(a, b, c, n) VALUES ('1', 3, '2', 1), (' 1', 2, 'ab', 1), ('1.0', 2, 'aa', 1), (1, 1, 'c', 2), "
        + "('2', 2, 'q', 2), ('2 ', 1, 'z', 1), ('3', 3, 'a', 3), ('x', 1, 'y', 1)"

    private static let queries =
        [
            "SELECT max(c) FROM t WHERE a = CAST(1 AS NUMERIC)", "SELECT min(c) FROM t WHERE a = CAST(1 AS NUMERIC)",
            "SELECT c FROM t WHERE a = CAST(1 AS NUMERIC) ORDER BY c",
            "SELECT c FROM t WHERE a = CAST(1 AS NUMERIC) ORDER BY c DESC",
            "SELECT c FROM t WHERE a = CAST(1 AS NUMERIC) ORDER BY c DESC LIMIT 1",
            "SELECT b, c FROM t WHERE a = CAST(1 AS NUMERIC) ORDER BY b, c",
            "SELECT o.n, (SELECT max(t.c) FROM t WHERE t.a = o.n) FROM o ORDER BY o.n",
            "SELECT o.n, c FROM o LEFT JOIN t ON t.a = o.n ORDER BY o.n, c DESC",
            "SELECT b, count(*) FROM t, o WHERE t.a = o.n GROUP BY b ORDER BY b",
            "SELECT DISTINCT b FROM t, o WHERE t.a = o.n ORDER BY b",
            "SELECT b, group_concat(c) FROM (SELECT b, c FROM t WHERE a = CAST(1 AS NUMERIC) ORDER BY b, c) GROUP BY b",
            "SELECT count(*), sum(k) FROM (SELECT a, count(*) AS k FROM t WHERE a = CAST(1 AS NUMERIC) GROUP BY a)",
            "SELECT (SELECT group_concat(c) FROM (SELECT c FROM t WHERE a = o.n ORDER BY c)) FROM o ORDER BY o.n",
            "SELECT c FROM t WHERE a = CAST(1 AS NUMERIC) AND b = CAST('2' AS NUMERIC) ORDER BY c",
        ]
        + (SQLiteFeature.windows.isAvailable
            ? ["SELECT row_number() OVER (ORDER BY c), c FROM t WHERE a = CAST(1 AS NUMERIC)"] : [])

    private static let changes = [
        "UPDATE o SET m = (SELECT max(t.c) FROM t WHERE t.a = o.n)",
        "UPDATE t SET c = c || (SELECT max(z.c) FROM t AS z WHERE z.a = t.n)",
        "DELETE FROM t WHERE a = CAST(1 AS NUMERIC) AND c > 'b'",
    ]

    @Test(
        arguments: [
            "(a TEXT PRIMARY KEY, b, c TEXT, n NUMERIC) WITHOUT ROWID",
            "(a PRIMARY KEY, b, c TEXT, n NUMERIC) WITHOUT ROWID",
            "(a BLOB PRIMARY KEY DESC, b, c TEXT, n NUMERIC) WITHOUT ROWID",
            "(a TEXT COLLATE RTRIM PRIMARY KEY, b, c TEXT, n NUMERIC) WITHOUT ROWID",
            "(a TEXT, b TEXT, c TEXT, n NUMERIC, PRIMARY KEY (a, b)) WITHOUT ROWID",
            "(a TEXT, b TEXT, c TEXT UNIQUE, n NUMERIC, PRIMARY KEY (b, a), UNIQUE (a, c)) WITHOUT ROWID",
            "(a TEXT PRIMARY KEY, b, c TEXT, n NUMERIC)", "(a TEXT, b, c TEXT, n NUMERIC, UNIQUE (a, b))",
            "(id INTEGER PRIMARY KEY, a TEXT, b, c TEXT, n NUMERIC, UNIQUE (a, c, b))",
        ],
        [0, 2, 5] as [Int64]
    )
    func severalRowsMayBeEqualToOne(_ definition: String, _ moved: Int64) throws {
        let pair = try Pair(
            schema: "CREATE TABLE t\(definition)",
            rows: Self.rows,
            extra: "CREATE TABLE o(n NUMERIC, m); INSERT INTO o(n) VALUES (1), (2), (3)",
            tables: ["t"],
            moved: moved
        )
        let (native, database) = (pair.native, pair.database)
        func compare() throws {
            for query in Self.queries {
                #expect(texts(try database.fetchAll(query)) == texts(try native.fetchAll(query)), "\(query)")
            }
        }
        try compare()
        for change in Self.changes {
            try native.execute(change)
            try database.execute(change)
            try compare()
        }
        #expect(database.migrationStatistics.drains(of: "t") == 0)
        try pair.finish()
        for query in ["SELECT a, b, c, n FROM t ORDER BY n, c", "SELECT n, m FROM o ORDER BY n"] {
            #expect(texts(try database.fetchAll(query)) == texts(try native.fetchAll(query)), "\(query), in the end")
        }
    }
}
