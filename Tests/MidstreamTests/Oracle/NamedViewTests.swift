import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// What decides how a statement runs need not be in the statement's own text. It may be in a view that the statement
/// names, in another name of a column, or in another pair of parentheses.
@Suite struct NamedViewTests {
    private static let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, a, n INTEGER, s TEXT, d REAL)"
    private static let rows = """
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) INSERT INTO t
        SELECT i, 'a' || i % 5, i % 7, CASE i % 4 WHEN 0 THEN '10' WHEN 1 THEN '2' WHEN 2 THEN '03' ELSE 'abc' END, i % 3 FROM n;
        UPDATE t SET s = '1.0', n = 1 WHERE id = 1
        """
    private static let extra = """
        CREATE TABLE other(x); INSERT INTO other VALUES (3), (30), (31); CREATE TABLE nn(x INTEGER, y);
        INSERT INTO nn VALUES (1, 1), (2, 5); CREATE TABLE child(x INTEGER PRIMARY KEY REFERENCES t(id), y);
        CREATE VIEW v5 AS SELECT id FROM t ORDER BY random() LIMIT 5; CREATE VIEW v55 AS SELECT id FROM v5;
        CREATE VIEW vr AS SELECT x FROM other ORDER BY random() LIMIT 1;
        CREATE VIEW vl AS SELECT last_insert_rowid() AS l;
        """

    private static func pair(_ extra: String = "") throws -> Pair {
        try Pair(schema: schema, rows: rows, extra: Self.extra + extra, tables: ["t"], moved: 7)
    }

    /// The view's rows are chosen once, and not once to promote rows and once more to write them.
    @Test(
        arguments: [
            ("DELETE FROM t WHERE id IN (SELECT id FROM v5)", 5), ("DELETE FROM t WHERE id IN v55", 5),
            ("UPDATE t SET a = 'z' WHERE id IN v5", 5), ("DELETE FROM t WHERE id = (SELECT x FROM vr)", 1),
            ("UPDATE t SET a = 'z' WHERE id IN (SELECT id FROM temporary)", 5),
            (
                "DELETE FROM t WHERE EXISTS (SELECT 1 FROM temporary AS x WHERE x.id = t.id AND x.id IN v55) OR id = 0",
                -1
            ),
        ] as [(String, Int64)],
        [true, false]
    )
    func aViewThatChoosesAtRandomIsReadOnce(_ statement: (sql: String, changes: Int64), _ isInBlock: Bool) throws {
        for _ in 0..<5 {
            let pair = try Self.pair()
            try pair.database.withoutTransaction { access in
                try access.execute("CREATE TEMP VIEW temporary AS SELECT id FROM t ORDER BY random() LIMIT 5")
                if isInBlock { try access.execute("BEGIN") }
                let before = try access.fetchValue(Int64.self, "SELECT count(*) FROM t")
                try access.execute(statement.sql)
                if statement.changes >= 0 {
                    #expect(access.changes == statement.changes)
                    let left = statement.sql.hasPrefix("DELETE") ? statement.changes : 0
                    #expect(try access.fetchValue(Int64.self, "SELECT count(*) FROM t") == (before ?? 0) - left)
                }
                if isInBlock { try access.execute("COMMIT") }
            }
        }
    }

    /// SQLite does not tell which view asks a table for no column.
    @Test(
        arguments: [
            ["DROP VIEW v", "CREATE VIEW v AS SELECT count(*) AS n FROM t", "SELECT n FROM v"],
            ["CREATE VIEW s AS SELECT x, (SELECT count(*) FROM t) AS n FROM other", "SELECT * FROM s"],
            ["CREATE VIEW s AS SELECT x FROM other WHERE EXISTS (SELECT 1 FROM t WHERE 1)", "SELECT * FROM s"],
            ["CREATE VIEW s AS SELECT 1 AS one FROM t", "SELECT sum(one) FROM s"],
            [
                "CREATE VIEW s AS SELECT count(*) AS n FROM T", "SELECT n FROM s",
                "UPDATE other SET x = (SELECT n FROM s)",
            ],
            ["CREATE VIEW s AS SELECT count(*) AS n FROM v", "CREATE VIEW u AS SELECT n FROM s", "SELECT n FROM u"],
            ["CREATE TEMP VIEW x AS SELECT n FROM main.v", "SELECT n FROM x"],
            ["CREATE TEMP VIEW x AS SELECT n FROM v", "SELECT n FROM x"],
        ],
        [true, false]
    ) func aViewThatAsksForNoColumnCountsAllRows(_ statements: [String], _ isInBlock: Bool) throws {
        let pair = try Self.pair("CREATE VIEW v AS SELECT count(*) AS n FROM t")
        try pair.database.withoutTransaction { access in
            if isInBlock { try access.execute("BEGIN") }
            for sql in statements {
                #expect(texts(try access.fetchAll(sql)) == texts(try pair.native.fetchAll(sql)), "\(sql)")
            }
            let all = "SELECT * FROM other ORDER BY 1"
            #expect(texts(try access.fetchAll(all)) == texts(try pair.native.fetchAll(all)))
            if isInBlock { try access.execute("COMMIT") }
        }
    }

    /// A statement in the cache goes by what its names meant when it was prepared.
    @Test(.needs(.rowValuesInQueries), arguments: [true, false], ["TEMP ", ""])
    func aViewThatIsMadeAnewIsLookedAtAnew(_ isInBlock: Bool, _ kind: String) throws {
        for statement in [
            "DELETE FROM t WHERE id = (SELECT x FROM tv)", "UPDATE t SET a = 'z' WHERE id = (SELECT x FROM tv)",
        ] {
            for _ in 0..<5 {
                let pair = try Self.pair()
                try pair.database.withoutTransaction { access in
                    if isInBlock { try access.execute("BEGIN") }
                    try access.execute("CREATE \(kind)VIEW tv AS SELECT 20 AS x")
                    try access.execute(statement)
                    try access.execute(
                        "DROP VIEW tv; CREATE \(kind)VIEW tv AS SELECT x FROM other ORDER BY random() LIMIT 1"
                    )
                    try access.execute(statement)
                    #expect(access.changes == 1, "\(statement)")
                    if isInBlock { try access.execute("COMMIT") }
                }
            }
        }
        let pair = try Self.pair()
        try pair.database.withoutTransaction { access in
            if isInBlock { try access.execute("BEGIN") }
            let second = "CREATE \(kind)VIEW tv AS SELECT id FROM t WHERE (s, n) IN (SELECT x, y FROM nn)"
            try access.execute("CREATE \(kind)VIEW tv AS SELECT id FROM t WHERE id < 3")
            #expect(try access.fetchAll("SELECT id FROM tv").count == 2)
            let wanted = try pair.native.fetchAll("SELECT id FROM t WHERE (s, n) IN (SELECT x, y FROM nn)").count
            #expect(wanted > 2)
            if isInBlock { try access.execute("SAVEPOINT s") }
            try access.execute("DROP VIEW tv; \(second)")
            #expect(try access.fetchAll("SELECT id FROM tv").count == wanted)
            if isInBlock {
                try access.execute("ROLLBACK TO s")
                #expect(try access.fetchAll("SELECT id FROM tv").count == 2)
                try access.execute("DROP VIEW tv; \(second)")
                #expect(try access.fetchAll("SELECT id FROM tv").count == wanted)
                try access.execute("COMMIT")
            }
        }
    }

    /// The attached file is an archive with a table of the same name. The application compares rows with it and
    /// exchanges rows.
    @Test(arguments: [false, true]) func aTableOfThatNameInAnAttachedFileIsAnother(_ enforces: Bool) throws {
        var configuration = DatabaseConfiguration()
        configuration.enforcesForeignKeys = enforces
        let pair = try Pair(
            schema: Self.schema,
            rows: Self.rows,
            extra: Self.extra,
            tables: ["t"],
            moved: 7,
            configuration: configuration
        )
        let setUp = """
            ATTACH ':memory:' AS aux; CREATE TABLE aux.t(id INTEGER PRIMARY KEY, a, n INTEGER);
            INSERT INTO aux.t VALUES (3, 'old', 1), (20, 'old', 2), (30, 'a1', 5), (99, 'gone', 3)
            """
        let updates = [
            "UPDATE aux.t SET a = main.t.a FROM main.t WHERE main.t.id = aux.t.id",
            "UPDATE main.t SET a = aux.t.a FROM aux.t WHERE main.t.id = aux.t.id",
        ]
        let statements =
            [
                "SELECT id FROM main.t WHERE NOT EXISTS (SELECT 1 FROM aux.t WHERE aux.t.id = main.t.id)",
                "SELECT aux.t.a, main.t.a FROM aux.t JOIN main.t ON aux.t.id = main.t.id ORDER BY main.t.id",
                "INSERT INTO t(id, a) SELECT aux.t.id, aux.t.a FROM aux.t LEFT JOIN main.t ON main.t.id = aux.t.id WHERE main.t.id IS NULL",
                "UPDATE t SET n = (SELECT aux.t.n FROM aux.t WHERE aux.t.id = main.t.id) WHERE id IN (SELECT id FROM aux.t)",
                "INSERT INTO aux.t SELECT id, a, n FROM main.t WHERE main.t.id > 37 AND main.t.id < 99",
            ] + (Connection.libraryVersionNumber >= 3_033_000 ? updates : [])
            + [
                "DELETE FROM aux.t WHERE aux.t.n = 1",
                "DELETE FROM t WHERE EXISTS (SELECT 1 FROM aux.t WHERE aux.t.id = main.t.id)",
            ]
        try pair.database.withoutTransaction { access in
            try access.execute(setUp)
            try pair.native.execute(script: setUp)
            for sql in statements {
                #expect(texts(try access.fetchAll(sql)) == texts(try pair.native.fetchAll(sql)), "\(sql)")
                for all in ["SELECT * FROM main.t ORDER BY id", "SELECT * FROM aux.t ORDER BY id"] {
                    #expect(texts(try access.fetchAll(all)) == texts(try pair.native.fetchAll(all)), "\(sql)")
                }
            }
        }
    }

    /// If there is a trigger, SQLite computes all rows before it inserts the first one.
    @Test func aViewThatTellsTheLastRowidTellsItRowByRow() throws {
        let pair = try Self.pair()
        let sql = "INSERT INTO t(a, n) SELECT x, l FROM other, vl"
        for statement in ["INSERT INTO other VALUES (5)", sql] {
            try pair.database.execute(statement)
            try pair.native.execute(statement)
        }
        let all = "SELECT * FROM t ORDER BY id"
        #expect(texts(try pair.database.fetchAll(all)) == texts(try pair.native.fetchAll(all)))
    }

    @Test func aViewOfAnAttachedFileIsReadOnce() throws {
        for sql in [
            "DELETE FROM t WHERE id = (SELECT x FROM m.av)", "UPDATE t SET a = 'z' WHERE id = (SELECT x FROM av)",
        ] {
            for _ in 0..<5 {
                let pair = try Self.pair()
                try pair.database.withoutTransaction { access in
                    try access.execute(
                        "ATTACH ':memory:' AS m; CREATE TABLE m.o(x); INSERT INTO m.o VALUES (3), (30), (31); "
                            + "CREATE VIEW m.av AS SELECT x FROM o ORDER BY random() LIMIT 1"
                    )
                    try access.execute(sql)
                    #expect(access.changes == 1, "\(sql)")
                }
            }
        }
    }

    /// SQLite evaluates VALUES for the guard trigger and once more for the row.
    @Test(
        arguments: [
            "INSERT OR REPLACE INTO t(id, a, s) VALUES (abs(random()) % 40 + 1, 'z', (SELECT count(*) FROM other) || 'q')",
            "INSERT OR IGNORE INTO t(id, a) VALUES (abs(random()) % 40 + 1, (SELECT max(x) FROM other))",
            "INSERT OR REPLACE INTO t(id, a) VALUES (abs(random()) % 40 + 1, 'z')",
        ],
        [true, false]
    )
    func aRowOfValuesIsMadeOnce(_ sql: String, _ isInBlock: Bool) throws {
        let pair = try Self.pair()
        try pair.database.withoutTransaction { access in
            if isInBlock { try access.execute("BEGIN") }
            for _ in 0..<10 { try access.execute(sql) }
            if isInBlock { try access.execute("COMMIT") }
        }
        try pair.finish()
        #expect(try texts(pair.database.fetchAll("SELECT count(*), count(DISTINCT id) FROM t")) == ["40|40"])
    }

    @Test func aConditionThatChoosesAtRandomIsEvaluatedOnce() throws {
        let pair = try Self.pair()
        for sql in [
            "SELECT count(*) FROM t WHERE id = abs(random()) % 40 + 1",
            "SELECT max(1) FROM t WHERE id IN (abs(random()) % 40 + 1)",
        ] {
            for _ in 0..<20 { #expect(try pair.database.fetchValue(Int64.self, sql) == 1, "\(sql)") }
        }
    }

    @Test(.needs(.updateFrom)) func anUpdateFromSuchAViewMeetsEachRowOnce() throws {
        let pair = try Self.pair()
        try pair.database.withoutTransaction { access in
            try access.execute("UPDATE t SET a = 'z' FROM v5 WHERE t.id = v5.id")
            #expect(access.changes == 5)
        }
    }

    /// A promotion inserts rows, and so does the list of the affected keys.
    @Test(
        arguments: [
            "DELETE FROM t WHERE id + 0 < last_insert_rowid()",
            "UPDATE t SET a = 'z' WHERE id + 0 < last_insert_rowid()",
            "DELETE FROM t WHERE EXISTS (SELECT 1 FROM vl WHERE t.id < l)",
            "UPDATE t SET a = 1 WHERE CASE WHEN id < last_insert_rowid() THEN 1 END",
            "UPDATE t SET a = last_insert_rowid() WHERE id > 3",
        ],
        [true, false]
    )
    func theLastRowidIsTheApplications(_ sql: String, _ isInBlock: Bool) throws {
        let pair = try Self.pair()
        let insert = "INSERT INTO child VALUES (30, 30)"
        try pair.native.execute(insert)
        try pair.native.execute(sql)
        try pair.database.withoutTransaction { access in
            if isInBlock { try access.execute("BEGIN") }
            try access.execute(insert)
            try access.execute(sql)
            if isInBlock { try access.execute("COMMIT") }
        }
        try Self.compare(pair)
    }

    private static func compare(_ pair: Pair) throws {
        let query = "SELECT * FROM t ORDER BY id"
        #expect(try texts(pair.database.fetchAll(query)) == texts(pair.native.fetchAll(query)))
    }

    /// SQLite takes any expression for such a comparison, and the other side's affinity with it.
    @Test(
        arguments: [
            "SELECT n AS q, id FROM t WHERE q = 3 AND s > n ORDER BY id",
            "SELECT n AS q, id FROM t WHERE q = 2 AND s >= n ORDER BY id",
            "SELECT id, d AS q FROM t WHERE a = q AND d IN ('1') ORDER BY id",
            "SELECT n AS q, count(*) FROM t WHERE q = 3 GROUP BY n",
            "SELECT n AS q, max(id) FROM t WHERE q > 1 GROUP BY q ORDER BY q",
            "SELECT (SELECT x.rowid FROM (SELECT 5 AS rowid) x) FROM t x WHERE x.id = 30",
            "SELECT (SELECT x.oid FROM (SELECT 5 AS oid) AS x) FROM t x WHERE x.id = 30",
        ]
    )
    func anotherNameOfAColumnIsThatColumn(_ sql: String) throws {
        let pair = try Self.pair()
        #expect(try texts(pair.database.fetchAll(sql)) == texts(pair.native.fetchAll(sql)))
    }

    @Test(
        .needs(.rowValuesInQueries),
        arguments: [
            "SELECT id FROM t WHERE ((s, n)) IN (SELECT x, y FROM nn)",
            "SELECT id FROM t WHERE (((s, n))) IN (SELECT x, y FROM nn)",
            "SELECT id FROM tv", "SELECT id FROM ttv WHERE id > 0",
            "DELETE FROM t WHERE ((s, n)) IN (SELECT x, y FROM nn)",
            "DELETE FROM t WHERE id IN (SELECT id FROM tv)",
        ]
    )
    func aRowValueIsComparedByBothSidesAffinities(_ sql: String) throws {
        let pair = try Self.pair()
        let views = """
            CREATE TEMP VIEW tv AS SELECT * FROM t WHERE (s, n) IN (SELECT x, y FROM nn); CREATE TEMP VIEW ttv AS SELECT * FROM tv
            """
        try pair.native.execute(script: views)
        try pair.database.withoutTransaction { access in
            try access.execute(views)
            #expect(try texts(access.fetchAll(sql)) == texts(pair.native.fetchAll(sql)))
        }
        try Self.compare(pair)
    }

    @Test(
        arguments: [
            "INSERT INTO t(id, a) VALUES (50, count(*))", "INSERT INTO t(id, a) VALUES (50, max('q'))",
            "INSERT INTO t(a) VALUES (sum(1))",
            "REPLACE INTO t(id, a) VALUES (30, group_concat('x'))",
            "INSERT INTO t(id, a) VALUES (50, coalesce(max(1), 2))",
            "INSERT INTO t(id, a) VALUES (50, abs(1) y)", "INSERT INTO t(id, a) VALUES ((50) x, 1)",
            "INSERT INTO t(id, a) VALUES (50, max(1, abs(-2)))", "INSERT INTO t(id, a) VALUES (min(50, 60), typeof(?))",
        ]
    )
    func theValuesOfARowAreNoQuery(_ sql: String) throws {
        let pair = try Self.pair()
        func code(_ body: () throws -> Void) -> ResultCode? {
            do { try body() } catch { return (error as? SQLiteError)?.code }
            return nil
        }
        let wanted = code { try pair.native.execute(sql) }
        #expect(code { try pair.database.execute(sql) } == wanted)
        try Self.compare(pair)
    }

    @Test(
        .needs(.pragmaFunctions),
        arguments: [
            "SELECT * FROM cols", "SELECT * FROM idx", "SELECT * FROM fkc", "SELECT * FROM dyn ORDER BY 1, 2",
            "SELECT name, pk FROM main.pragma_table_info('t')", "SELECT name FROM main.pragma_index_list('t')",
            "SELECT * FROM tcols", "SELECT count(*) FROM tfkc",
        ]
    )
    func aViewDescribesTheTableItself(_ sql: String) throws {
        let pair = try Self.pair(
            """
            CREATE INDEX ti ON t(n); CREATE VIEW cols AS SELECT name, type, dflt_value, pk FROM pragma_table_info('t');
            CREATE VIEW idx AS SELECT name FROM pragma_index_list('t'); CREATE VIEW fkc AS SELECT * FROM pragma_foreign_key_check;
            CREATE VIEW dyn AS SELECT m.name, c.name AS c, c.pk FROM sqlite_master AS m JOIN pragma_table_info(m.name) AS c
            WHERE m.name = 't'; INSERT INTO child VALUES (30, 30);
            """
        )
        let temporary = """
            CREATE TEMP VIEW tcols AS SELECT name, pk FROM pragma_table_info('t');
            CREATE TEMP VIEW tfkc AS SELECT * FROM pragma_foreign_key_check
            """
        try pair.native.execute(script: temporary)
        try pair.database.withoutTransaction { access in
            try access.execute(temporary)
            #expect(try texts(access.fetchAll(sql)) == texts(pair.native.fetchAll(sql)))
        }
    }
}
