import SQLiteConnection
import SQLiteFeatures
import Testing

@testable import Midstream

/// Tables without rowids, whose rows are told apart by their PRIMARY KEY.
@Suite struct KeyedTableTests {
    private static let schema =
        "CREATE TABLE t(a TEXT COLLATE NOCASE, b INTEGER, c, d DEFAULT 'd', PRIMARY KEY (a, b DESC)) WITHOUT ROWID; CREATE INDEX i ON t(c)"

    private static func pair(moved: Int64 = 0) throws -> Pair {
        try Pair(
            schema: schema,
            rows: """
                INSERT INTO t(a, b, c) WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 299)
                SELECT char(65 + i % 7, 97 + i % 3), i, i % 10 FROM n
                """,
            tables: ["t"],
            moved: moved
        )
    }

    private static let queries = [
        "SELECT * FROM t", "SELECT a, b FROM t WHERE a = 'CB' ORDER BY b", "SELECT * FROM t WHERE a = 'cb' AND b = 16",
        "SELECT * FROM t ORDER BY a, b DESC LIMIT 7", "SELECT * FROM t ORDER BY a DESC, b LIMIT 7 OFFSET 140",
        "SELECT c, count(*), min(a), max(b) FROM t GROUP BY c", "SELECT * FROM t WHERE c = 3 ORDER BY a, b",
        "SELECT count(*) FROM t", "SELECT count(*) FROM t WHERE c = 4", "SELECT DISTINCT a FROM t ORDER BY 1",
        "SELECT * FROM t WHERE (a, b) > ('D', 100) ORDER BY a, b LIMIT 9",
        "SELECT x.b FROM t x JOIN t y ON x.a = y.a AND y.b = x.b + 21 ORDER BY 1",
        "SELECT * FROM t WHERE b BETWEEN 100 AND 120", "SELECT max(a), min(b) FROM t WHERE a > 'C'",
    ]

    @Test(arguments: [0, 1, 150, 299] as [Int64]) func everythingIsAsNatively(_ moved: Int64) throws {
        let pair = try Self.pair(moved: moved)
        func compare() throws {
            for sql in Self.queries {
                #expect(texts(try pair.database.fetchAll(sql)) == texts(try pair.native.fetchAll(sql)), "\(sql)")
            }
        }
        try compare()
        for sql in [
            "UPDATE t SET c = 77 WHERE c = 5", "DELETE FROM t WHERE a = 'ab' AND b > 30",
            "UPDATE t SET b = b + 1000 WHERE c = 7",
            "INSERT INTO t(a, b, c) VALUES ('zz', 1, 2), ('Aa', -4, 3)",
            "INSERT OR REPLACE INTO t(a, b, c) VALUES ('bB', 1, 'new')",
            "INSERT OR IGNORE INTO t(a, b, c) VALUES ('Bb', 1, 'newer')", "UPDATE t SET a = 'ZZ' WHERE a = 'zz'",
        ] {
            let changes = try pair.database.write { db in
                try db.execute(sql)
                return db.changes
            }
            try pair.native.execute(sql)
            #expect(changes == pair.native.changes, "\(sql)")
            try compare()
        }
        for sql in [
            "INSERT INTO t(a, b, c) VALUES ('cc', 2, 0)", "INSERT INTO t(a) VALUES ('x')", "SELECT rowid FROM t",
        ] {
            let mine = #expect(throws: SQLiteError.self) { try pair.database.execute(sql) }
            let theirs = #expect(throws: SQLiteError.self) { try pair.native.execute(sql) }
            #expect(mine?.message == theirs?.message)
            #expect(mine?.code == theirs?.code)
        }
        try pair.finish()
        try compare()
        let left = try pair.database.fetchAll("SELECT name FROM sqlite_master WHERE name LIKE 'midstream%'")
        #expect(left.isEmpty)
    }

    @Test func aMigrationGoesOnAfterReopening() throws {
        let pair = try Self.pair(moved: 120)
        try pair.database.execute("DELETE FROM t WHERE c = 1")
        pair.database.close()
        let database = try Database(path: pair.target)
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 270)
        try database.stepMigration(rows: 10)
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 270)
        try finishMigration(database)
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 270)
        #expect(try database.fetchValue(String.self, "PRAGMA integrity_check") == "ok")
    }

    @Test func rowsMoveBetweenTablesWithRowIDsAndWithout() throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(
            script: """
                CREATE TABLE k(a TEXT, b INTEGER, c, UNIQUE (a, b));
                INSERT INTO k VALUES ('x', 1, 10), ('y', 2, 20), ('x', 0, 30);
                CREATE TABLE n(id INTEGER PRIMARY KEY, c) WITHOUT ROWID;
                INSERT INTO n VALUES (7, 'seven'), (-3, 'minus three');
                """
        )
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute(
            "CREATE TABLE k(a TEXT, b INTEGER, c, PRIMARY KEY (a, b)) WITHOUT ROWID; CREATE TABLE n(id INTEGER PRIMARY KEY, c)"
        )
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = $0.name }
        try database.execute("UPDATE k SET c = 31 WHERE b = 0; INSERT INTO n(c) VALUES ('eight')")
        try database.stepMigration(rows: 1)
        #expect(texts(try database.fetchAll("SELECT * FROM k")) == ["x|0|31", "x|1|10", "y|2|20"])
        #expect(texts(try database.fetchAll("SELECT * FROM n")) == ["-3|minus three", "7|seven", "8|eight"])
        try finishMigration(database)
        #expect(texts(try database.fetchAll("SELECT * FROM k")) == ["x|0|31", "x|1|10", "y|2|20"])
        #expect(texts(try database.fetchAll("SELECT * FROM n")) == ["-3|minus three", "7|seven", "8|eight"])
    }

    @Test func keysThatAreNoUnicodeArePromotedAsTheyAre() throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(a TEXT PRIMARY KEY, c) WITHOUT ROWID",
            rows: "INSERT INTO t VALUES (CAST(x'fe' AS TEXT), 1), (CAST(x'ff' AS TEXT), 2), (CAST(x'61ff' AS TEXT), 3)",
            tables: ["t"]
        )
        for sql in ["UPDATE t SET c = c + 10 WHERE c > 1", "DELETE FROM t WHERE c = 12"] {
            try pair.database.execute(sql)
            try pair.native.execute(sql)
        }
        let all = "SELECT hex(a), c FROM t"
        #expect(texts(try pair.database.fetchAll(all)) == texts(try pair.native.fetchAll(all)))
        try pair.finish()
        #expect(texts(try pair.database.fetchAll(all)) == texts(try pair.native.fetchAll(all)))
    }

    @Test func aRowWhoseKeyChangesItsLetterCaseUnderAScanComesOnce() throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(a TEXT COLLATE NOCASE PRIMARY KEY, c) WITHOUT ROWID",
            rows: "INSERT INTO t VALUES ('a', 1), ('b', 2), ('c', 3)",
            tables: ["t"]
        )
        var seen: [String] = []
        try pair.database.write { db in
            try db.forEachRow("SELECT a FROM t ORDER BY a") { row in
                seen.append(row.text(at: 0))
                if seen.count == 1 { try db.execute("UPDATE t SET a = 'B' WHERE a = 'b'") }
                return true
            }
        }
        #expect(seen == ["a", "B", "c"] || seen == ["a", "b", "c"])
    }

    @Test func aRowThatIsRefusedIsToldByItsKey() throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute("CREATE TABLE t(a TEXT, b INTEGER, c, PRIMARY KEY (a, b)) WITHOUT ROWID")
        try old.execute("INSERT INTO t VALUES ('x', 1, 10), ('x', 2, NULL), ('y', 1, 30)")
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(a TEXT, b INTEGER, c NOT NULL, PRIMARY KEY (a, b)) WITHOUT ROWID")
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "t" }
        let error = #expect(throws: MigrationError.self) { try finishMigration(database) }
        #expect(error?.code == .rowRefused)
        #expect(error?.keyColumns == [.text("x"), .integer(2)])
        try database.execute("DELETE FROM t WHERE c IS NULL")
        try finishMigration(database)
        #expect(texts(try database.fetchAll("SELECT * FROM t")) == ["x|1|10", "y|1|30"])
    }

    /// The source's definition, the target's, and what is wrong with the two.
    private static let refusals: [(source: String, target: String, code: MigrationError.Code, words: String)] = [
        ("t(a, b)", "t(a, b, PRIMARY KEY (a)) WITHOUT ROWID", .unequalTables, "unique index on (a)"),
        ("t(a UNIQUE, b)", "t(a, b, PRIMARY KEY (a)) WITHOUT ROWID", .unequalTables, "NULL"),
        ("t(a PRIMARY KEY, b) WITHOUT ROWID", "t(a, b)", .unequalTables, "WITHOUT ROWID"),
        ("t(a PRIMARY KEY, b) WITHOUT ROWID", "t(a INTEGER PRIMARY KEY, b)", .unequalTables, "the same type"),
        ("t(a INTEGER PRIMARY KEY, b) WITHOUT ROWID", "t(a INTEGER PRIMARY KEY, b)", .unequalTables, "an integer in a"),
        (
            "t(a, b, PRIMARY KEY (a COLLATE NOCASE)) WITHOUT ROWID",
            "t(a, b, PRIMARY KEY (a COLLATE NOCASE)) WITHOUT ROWID", .unsupported, "collation"
        ),
    ]

    @Test(arguments: refusals.indices) func whatCannotBeKnownByItsKeyIsRefused(_ number: Int) throws {
        let refusal = Self.refusals[number]
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute("CREATE TABLE \(refusal.source)")
        try? old.execute("INSERT INTO t VALUES (NULL, 1)")
        try? old.execute("INSERT INTO t VALUES ('x', 1)")
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE \(refusal.target)")
        let error = #expect(throws: MigrationError.self) {
            try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "t" }
        }
        #expect(error?.code == refusal.code)
        #expect(error?.message.contains(refusal.words) == true, "\(error?.message ?? "")")
        #expect(try database.fetchAll("SELECT name FROM sqlite_master WHERE name LIKE 'midstream%'").isEmpty)
    }

    /// Names that mean something else within another FROM.
    @Test(arguments: [
        ("oid", "line"), ("line", "rowid"), ("_rowid_", "oid"), ("k0", "k1"), ("k1", "k0"), ("key", "only"),
        ("midstream_k1", "midstream_k0"), ("midstream_key1", "midstream_key0"),
    ])
    func keysMayHaveAnyNames(_ first: String, _ second: String) throws {
        let pair = try Pair(
            schema:
                "CREATE TABLE t(\(first) INTEGER, \(second) TEXT, v, PRIMARY KEY (\(first), \(second) DESC)) WITHOUT ROWID",
            rows: """
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
                INSERT INTO t SELECT i / 3, 'x' || (i % 3), i FROM n
                """,
            tables: ["t"],
            moved: 7
        )
        func compare(_ when: String) throws {
            for query in [
                "SELECT * FROM t ORDER BY 1, 2", "SELECT * FROM t WHERE \(first) = 9 ORDER BY 2",
                "SELECT count(*) FROM t",
                "SELECT count(*) FROM t WHERE v <> ''", "SELECT \(first), count(*) FROM t GROUP BY 1",
                "SELECT DISTINCT \(first) FROM t ORDER BY 1", "SELECT * FROM t ORDER BY v",
            ] {
                #expect(
                    texts(try pair.database.fetchAll(query)) == texts(try pair.native.fetchAll(query)),
                    "\(when): \(query)"
                )
            }
        }
        for sql in [
            "UPDATE t SET v = 'paid' WHERE \(first) = 9", "DELETE FROM t WHERE \(first) = 12",
            "INSERT INTO t VALUES (12, 'x1', 'again')", "UPDATE t SET \(second) = 'y' || v WHERE \(first) = 15",
            "INSERT OR REPLACE INTO t VALUES (16, 'x2', 'replaced')", "DELETE FROM t WHERE v > 50 AND \(second) = 'x0'",
        ] {
            try pair.native.execute(sql)
            try pair.database.execute(sql)
            try compare(sql)
        }
        try pair.database.stepMigration(rows: 25)
        try compare("on")
        try pair.finish()
        try compare("moved")
        #expect(pair.database.migrationStatistics.drains(of: "t") == 0)
    }

    /// Keys for which SQLite seeks the keys after a given one by the first column alone.
    private static let groupedKeys = [
        ("(id INTEGER, a INTEGER, b, PRIMARY KEY (a DESC, id)) WITHOUT ROWID", nil),
        ("(id INTEGER, a INTEGER, b, PRIMARY KEY (b, a DESC, id)) WITHOUT ROWID", nil),
        (
            "(id INTEGER, a INTEGER, b, PRIMARY KEY (a, id)) WITHOUT ROWID",
            "(id INTEGER PRIMARY KEY, a INTEGER NOT NULL, b)"
        ),
    ]

    /// A batch does not go through all rows that equal its own rows in the first columns.
    @Test(arguments: groupedKeys, [true, false])
    func manyRowsMayBeAlikeInTheFirstColumnsOfTheirKeys(_ tables: (target: String, source: String?), _ returns: Bool)
        throws
    {
        let folder = TemporaryFolder()
        let (native, old) = (try Connection(path: ":memory:"), try Connection(path: folder.file("old.db")))
        for connection in [native, old] {
            try connection.execute("CREATE TABLE t\(tables.source ?? tables.target)")
            if tables.source != nil { try connection.execute("CREATE UNIQUE INDEX ti ON t(a, id)") }
            try connection.execute(
                "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) INSERT INTO t(id, a, b) SELECT i, i % 7 / 3, 1 FROM n"
            )
        }
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t\(tables.target)")
        try database.addMigration(source: .file(folder.file("old.db"))) {
            ($0.sourceTable, $0.verification) = ("t", .complete)
        }
        for _ in 0..<10 { try database.stepMigration(rows: 750) }
        for connection in [native.execute, { _ = try database.execute($0, $1) }] {
            try connection("UPDATE t SET id = id + 100000 WHERE id % 30 = 0", [])
            try connection("DELETE FROM t WHERE id % 50 = 1", [])
        }
        if returns { try database.cancelMigration() }
        var steps = 0
        while try !database.stepMigration().isFinished, steps < 6000 { steps += 1 }
        #expect(steps < 6000)
        let rows = "SELECT a, id, b FROM t ORDER BY a, id"
        let found = try Connection(path: folder.file(returns ? "old.db" : "new.db")).fetchAll(rows)
        #expect(texts(found) == texts(try native.fetchAll(rows)))
    }

    @Test(arguments: groupedKeys) func theRowsOfABatchAreSoughtByAllColumns(_ tables: (target: String, source: String?))
        throws
    {
        let connection = try Connection(path: ":memory:")
        try connection.execute("CREATE TABLE t\(tables.target)")
        try connection.execute("CREATE TABLE s\(tables.source ?? tables.target)")
        if tables.source != nil { try connection.execute("CREATE UNIQUE INDEX si ON s(a, id)") }
        let reader = SchemaReader(connection: connection, schema: "main")
        let (target, source) = (try #require(try reader.table("t")), try #require(try reader.table("s")))
        let migration = MigrationRecord(id: 1, sourcePath: nil)
        let record = TableRecord(id: 2, migration: 1, target: "t", source: "s", phase: .copying, copied: 0, settled: 0)
        let sql = MoveSQL(record: record, migration: migration, target: target, source: source)
        for text in sql.createTables { try connection.execute(text) }
        try RowHash.define(on: connection)
        let shared = target.primaryKey.count - 1
        let range = KeyRange(first: .after, second: .through, shared: shared)
        let before = KeyRange(first: .before, second: .from, shared: shared)
        let names = tables.target.contains("(b, a") ? "b=? AND a=? AND " : "a=? AND "
        for (text, ends) in [
            (sql.upperKey(isBounded: true, sharing: shared, isPending: true), 1),
            (sql.copyRange(range, withLedger: true, undoing: .statement), 2), (sql.pendingKeys(range), 2),
            (VerificationSQL(sql).equalRows(range, withLedger: true, hashes: true), 2),
            (VerificationSQL(sql).settledHashes(range), 2), (sql.sliceStart(isEnded: true, sharing: shared), 1),
            (sql.countSlice(before, hashes: true), 2), (sql.forgetSettled(range), 2),
        ] {
            let plan = try connection.fetchAll("EXPLAIN QUERY PLAN \(text)").map { try $0.get(3, as: String.self) }
            let sought = plan.contains { line in
                (text.hasPrefix("DELETE") || line.contains(names))
                    && line.split(separator: "?", omittingEmptySubsequences: false).count > shared + ends
            }
            #expect(sought, "\(text): \(plan)")
            #expect(!plan.contains { $0.contains("TEMP B-TREE") }, "\(text): \(plan)")
        }
    }

    /// A source with rows that a condition leaves out. Their keys are ones that no row of the target can have.
    struct Strangers: Sendable, CustomTestStringConvertible {
        var source: String
        var target: String
        var condition: String
        var testDescription: String { "\(source) to \(target)" }
    }

    private static let strangers = [
        Strangers(
            source: "(k TEXT UNIQUE, v)",
            target: "(k TEXT PRIMARY KEY, v) WITHOUT ROWID",
            condition: "k IS NOT NULL"
        ),
        Strangers(
            source: "(v, k TEXT, w INTEGER, UNIQUE (w, k))",
            target: "(k TEXT, w INTEGER, v, PRIMARY KEY (w, k)) WITHOUT ROWID",
            condition: "k IS NOT NULL AND w IS NOT NULL"
        ),
        Strangers(
            source: "(v, k TEXT, w INTEGER, UNIQUE (w, k DESC))",
            target: "(k TEXT, w INTEGER, v, PRIMARY KEY (w, k DESC)) WITHOUT ROWID",
            condition: "k IS NOT NULL AND w IS NOT NULL"
        ),
        Strangers(
            source: "(k INT UNIQUE, v)",
            target: "(k INTEGER PRIMARY KEY, v)",
            condition: "typeof(k) = 'integer'"
        ),
        Strangers(
            source: "(k INT, v, UNIQUE (k), PRIMARY KEY (v)) WITHOUT ROWID",
            target: "(k INTEGER PRIMARY KEY, v)",
            condition: "typeof(k) = 'integer' AND k < 400"
        ),
    ]

    @Test(arguments: strangers, [0, 1, 7, 60, nil] as [Int64?])
    func rowsBeyondAConditionMayHaveKeysThatNoRowCanHave(_ kind: Strangers, _ rows: Int64?) throws {
        let folder = TemporaryFolder()
        let isInteger = kind.target.contains("k INTEGER")
        let hasTwo = kind.target.contains("w INTEGER")
        let fill = """
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900)
            INSERT INTO s(\(hasTwo ? "k, v, w" : "k, v")) SELECT CASE WHEN i % 9 = 0 THEN \(isInteger ? "i - 300" : "'k' || i")
                WHEN i % 9 = 1 THEN \(isInteger ? "'z' || i" : "NULL") WHEN i % 9 = 2 THEN \(isInteger ? "i - 302 + 0.5" : "NULL")
                WHEN i = 300 THEN \(isInteger ? "9e18 * 2" : "NULL") WHEN i = 301 THEN \(isInteger ? "x'01'" : "NULL") END, 'v' || i
                \(hasTwo ? ", CASE WHEN i % 2 THEN i / 50 END" : "") FROM n;
            """
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(script: "CREATE TABLE s\(kind.source); CREATE INDEX sv ON s(v);" + fill)
        old.close()
        let native = try Connection(path: folder.file("plain.db"))
        try native.execute(
            script: "CREATE TABLE t\(kind.target); CREATE INDEX v ON t(v); CREATE TABLE s\(kind.source);" + fill
        )
        let columns = hasTwo ? "k, v, w" : "k, v"
        try native.execute("INSERT INTO t(\(columns)) SELECT \(columns) FROM s WHERE \(kind.condition)")
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t\(kind.target); CREATE INDEX v ON t(v)")
        try database.addMigration(source: .file(folder.file("old.db"))) { table in
            guard table.name == "t" else { return }
            table.sourceTable = "s"
            table.condition = kind.condition
        }
        func compare(_ comment: Comment) throws {
            for query in [
                "SELECT * FROM t ORDER BY v", "SELECT count(*) FROM t", "SELECT max(k), min(k) FROM t",
                "SELECT k FROM t WHERE v > 'v3' ORDER BY v",
            ] {
                let expected = texts(try native.fetchAll(query))
                #expect(texts(try database.fetchAll(query)) == expected, comment)
            }
        }
        try compare("before")
        if let rows { try database.stepMigration(rows: rows) } else { try database.stepMigration() }
        try compare("after the first step")
        var statements = ["UPDATE t SET v = v || '!' WHERE rowid % 2", "DELETE FROM t WHERE v LIKE 'v%7%'"]
        if isInteger {
            statements += [
                "INSERT INTO t(v) VALUES ('new')", "INSERT OR REPLACE INTO t VALUES (6, 'six'), (-291, 'first')",
            ]
        } else {
            statements[0] = "UPDATE t SET v = v || '!' WHERE length(k) = 3"
            statements.append("INSERT OR REPLACE INTO t(\(columns)) VALUES ('k9', 'nine'\(hasTwo ? ", 0" : ""))")
        }
        for statement in statements {
            try native.execute(statement)
            try database.execute(statement)
            try compare("\(statement)")
        }
        try finishMigration(database)
        try compare("in the end")
        #expect(try database.fetchValue(String.self, "PRAGMA integrity_check") == "ok")
    }

    /// Otherwise no rowid would be left to choose.
    @Test(arguments: ["id INTEGER PRIMARY KEY", "id INTEGER PRIMARY KEY AUTOINCREMENT", "id INT UNIQUE"])
    func aRowWithTheLargestRowIDOfAllMayBeLeftOut(_ key: String) throws {
        let move = try SmallMove(
            source: "CREATE TABLE t(\(key), v); INSERT INTO t VALUES (1, 'a'), (7, 'b'), (\(Int64.max), 'none')",
            target: "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, v)"
        ) { $0.condition = "id < 1000" }
        let database = move.database
        try database.execute("DELETE FROM t WHERE id = 7; INSERT INTO t(v) VALUES ('c')")
        try finishMigration(database)
        try database.execute("INSERT INTO t(v) VALUES ('d')")
        #expect(texts(try database.fetchAll("SELECT * FROM t ORDER BY id")) == ["1|a", "8|c", "9|d"])
    }

    /// The table's unique indexes have more columns than a trigger passes on.
    @Test func aKeyThatBothSidesHaveIsNoticedInAWideTable() throws {
        let folder = TemporaryFolder()
        let columns = (0..<101).map { "c\($0) UNIQUE" }.joined(separator: ", ")
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(
            script: "CREATE TABLE t(k TEXT PRIMARY KEY, \(columns)) WITHOUT ROWID; INSERT INTO t(k) VALUES ('a'), ('b')"
        )
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute(
            "CREATE TABLE t(k TEXT PRIMARY KEY, \(columns)) WITHOUT ROWID; INSERT INTO t(k) VALUES ('b')"
        )
        let error = #expect(throws: MigrationError.self) {
            try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = $0.name }
        }
        #expect(error?.code == .keyCollision)
    }
}
