import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// Tables whose shape changes while they move. INSERT … SELECT of the same expressions fills the plain database.
@Suite struct MappedColumnTests {
    private struct Move {
        let folder = TemporaryFolder()
        let native: Connection
        let database: Database

        init(
            source: String,
            target: String,
            select: String,
            into columns: String = "",
            moved: Int64 = 0,
            _ map: @escaping @Sendable (inout TableMigration) -> Void
        ) throws {
            native = try Connection(path: folder.file("plain.db"))
            try native.execute(script: "\(source); \(target); INSERT INTO t\(columns) \(select)")
            let old = try Connection(path: folder.file("old.db"))
            try old.execute(script: source)
            old.close()
            database = try Database(path: folder.file("new.db"))
            try database.execute(target)
            try database.addMigration(source: .file(folder.file("old.db"))) { table in
                guard table.name == "t" else { return }
                table.sourceTable = "s"
                map(&table)
            }
            if moved > 0 { try database.stepMigration(rows: moved) }
        }

        func expectSame(_ sql: String, sourceLocation: SourceLocation = #_sourceLocation) throws {
            let isQuery = sql.hasPrefix("SELECT")
            let expected = Result { isQuery ? texts(try native.fetchAll(sql)) : try changed(native.execute(sql)) }
            let answer = Result { isQuery ? texts(try database.fetchAll(sql)) : try changed(database.execute(sql)) }
            switch (expected, answer) {
            case (.success(let expected), .success(let answer)):
                #expect(answer == expected, "\(sql)", sourceLocation: sourceLocation)
            case (.failure(let expected), .failure(let answer)):
                #expect("\(answer)" == "\(expected)", "\(sql)", sourceLocation: sourceLocation)
            default:
                Issue.record("\(sql): \(answer), natively \(expected)", sourceLocation: sourceLocation)
            }
        }

        private func changed(_: Void) -> [String] { [] }

        /// Runs the statements on both sides, then compares all rows, while rows move and after that.
        func run(_ statements: [String], order: String = "id") throws {
            let all = "SELECT *, rowid FROM t ORDER BY \(order)"
            try expectSame(all)
            for sql in statements {
                try expectSame(sql)
                try expectSame(all)
            }
            try database.stepMigration(rows: 1)
            try expectSame(all)
            try finishMigration(database)
            try expectSame(all)
            #expect(try database.fetchValue(String.self, "PRAGMA integrity_check") == "ok")
        }
    }

    @Test(arguments: [0, 2] as [Int64]) func columnsAreRenamedMadeDroppedAndAdded(_ moved: Int64) throws {
        let move = try Move(
            source: """
                CREATE TABLE s(id INTEGER PRIMARY KEY, first TEXT, last TEXT, born INTEGER, old TEXT);
                INSERT INTO s VALUES (1, 'Ada', 'Lovelace', 1815, 'x'), (3, 'Alan', 'Turing', 1912, NULL),
                    (4, 'Grace', NULL, 1906, 'y'), (9, 'Kurt', 'Gödel', '1906', 'z')
                """,
            target: """
                CREATE TABLE t(year TEXT, id INTEGER PRIMARY KEY, full_name TEXT COLLATE NOCASE, kind TEXT,
                    score REAL DEFAULT 1.5, note);
                CREATE INDEX by_name ON t(full_name); CREATE INDEX by_year ON t(year)
                """,
            select: "SELECT born, id, first || ' ' || last, 'it''s', 1.5, NULL FROM s",
            moved: moved
        ) {
            $0.columns["FULL_NAME"] = .expression("first || ' ' || last -- the whole")
            $0.columns["year"] = .column("born")
            $0.columns["kind"] = .value(.text("it's"))
            $0.unmatchedColumns = .ignored
        }
        try move.run([
            "SELECT id FROM t WHERE full_name = 'alan turing'",
            "SELECT id FROM t WHERE full_name > 'B' ORDER BY full_name",
            "SELECT id, typeof(year) FROM t WHERE year = '1906' ORDER BY id",
            "SELECT count(*) FROM t WHERE year = 1906",
            "SELECT year, count(*) FROM t GROUP BY year ORDER BY year", "SELECT max(full_name), min(year) FROM t",
            "SELECT id FROM t WHERE kind = 'it''s' AND score > 1 ORDER BY full_name DESC, id",
            "UPDATE t SET note = year WHERE full_name = 'ADA LOVELACE'", "DELETE FROM t WHERE year = 1912",
            "INSERT INTO t(full_name, year) VALUES ('Emmy Noether', 1882)",
            "UPDATE t SET id = 20 WHERE full_name IS NULL",
            "SELECT a.id, b.id FROM t a JOIN t b ON a.year = b.year ORDER BY 1, 2",
        ])
    }

    @Test(arguments: [-0.0, 0, 0.1 + 0.2, 1e22, -.infinity, .infinity]) func aRealIsTheSameInEachRow(_ real: Double)
        throws
    {
        let move = try Move(
            source: "CREATE TABLE s(id INTEGER PRIMARY KEY); INSERT INTO s VALUES (1), (2)",
            target: "CREATE TABLE t(id INTEGER PRIMARY KEY, x)",
            select: "SELECT id, NULL FROM s",
            moved: 1
        ) { $0.columns["x"] = .value(.real(real)) }
        let found = try move.database.fetchAll("SELECT x FROM t").map { try $0.get(0, as: Double.self).bitPattern }
        #expect(found == [real.bitPattern, real.bitPattern])
    }

    /// What a column of one affinity makes of values that a column of another affinity stored.
    @Test(arguments: ["INTEGER", "TEXT", "REAL", "NUMERIC", "BLOB", ""], ["INTEGER", "TEXT", "REAL", "NUMERIC", ""])
    func columnsAreOfAnotherType(_ from: String, _ to: String) throws {
        let values = [
            "1", "'1'", "'01'", "1.0", "'1.0'", "1.5", "'1.5'", "'1e2'", "'x'", "''", "NULL", "x'31'",
            "9223372036854775807",
            "'9223372036854775807'", "9223372036854775808.0", "-9223372036854775808", "'-9223372036854775808.0'",
            "1e300",
            "' 2 '", "2", "'9007199254740993'", "0.1", "-0.0", "9e999", "'1e400'", "'12abc'",
        ]
        .filter {
            to != "REAL" || SQLiteFeature.largestIntegersInRealColumns.isAvailable
                || !$0.contains("00719") && !$0.contains("92233")
        }
        let rows = values.enumerated().map { "(\($0 + 1), \($1))" }.joined(separator: ", ")
        let move = try Move(
            source: "CREATE TABLE s(id INTEGER PRIMARY KEY, x \(from)); INSERT INTO s VALUES \(rows)",
            target: "CREATE TABLE t(id INTEGER PRIMARY KEY, x \(to), y \(to)); CREATE INDEX i ON t(x)",
            select: "SELECT id, x, x FROM s",
            moved: 4
        ) { $0.columns["y"] = .expression("x") }
        try move.expectSame("SELECT id, typeof(x), quote(x), typeof(y), quote(y) FROM t")
        try move.expectSame("SELECT id, x FROM t ORDER BY x, id")
        try move.expectSame("SELECT id, y FROM t ORDER BY y, id")
        try move.expectSame("SELECT x, count(*) FROM t GROUP BY x")
        for value in values {
            for comparison in ["=", "<", ">=", "IS"] {
                try move.expectSame("SELECT id FROM t WHERE x \(comparison) \(value) ORDER BY id")
                try move.expectSame("SELECT id FROM t WHERE y \(comparison) \(value) ORDER BY id")
            }
            try move.expectSame("SELECT b.id FROM t a JOIN t b ON a.x = b.y WHERE a.id = 3 ORDER BY b.id")
        }
        try move.run(["UPDATE t SET x = 7 WHERE x = 1", "DELETE FROM t WHERE y > 'a'"])
    }

    @Test(arguments: [
        (
            "id INTEGER PRIMARY KEY, a TEXT COLLATE NOCASE UNIQUE, UNIQUE (a COLLATE BINARY)",
            "id INTEGER PRIMARY KEY, a TEXT UNIQUE",
            "INSERT INTO t(a) VALUES ('A'); INSERT INTO t(a) VALUES ('b')"
        ),
        ("id INTEGER PRIMARY KEY, a TEXT UNIQUE", "id INTEGER, a TEXT UNIQUE", "INSERT INTO t(a) VALUES ('b')"),
        ("id INT UNIQUE, a TEXT UNIQUE", "id INTEGER PRIMARY KEY, a TEXT UNIQUE", "INSERT INTO t(a) VALUES ('q')"),
        ("id INTEGER PRIMARY KEY, a TEXT UNIQUE", "id INTEGER, a TEXT PRIMARY KEY", "REPLACE INTO t VALUES (7, 'b')"),
        (
            "id INTEGER PRIMARY KEY, a TEXT UNIQUE NOT NULL", "a TEXT PRIMARY KEY, id INTEGER UNIQUE",
            "UPDATE t SET a = 'b' WHERE a = 'c'"
        ),
    ])
    func keysMayBeOthers(_ source: String, _ target: String, _ statements: String) throws {
        for moved in [0, 1] as [Int64] {
            let move = try Move(
                source: "CREATE TABLE s(\(source)); INSERT INTO s(id, a) VALUES (2, 'c'), (1, 'b'), (5, 'd')",
                target: "CREATE TABLE t(\(target))",
                select: "SELECT id, a FROM s",
                into: "(id, a)",
                moved: moved
            ) { _ in }
            for sql in statements.split(separator: "; ") { try move.expectSame(String(sql)) }
            try move.expectSame("SELECT id, a FROM t ORDER BY a, id")
            try finishMigration(move.database)
            try move.expectSame("SELECT id, a FROM t ORDER BY a, id")
        }
    }

    @Test func aNewKeyIsTheRowID() throws {
        let move = try Move(
            source: "CREATE TABLE s(a TEXT); INSERT INTO s(rowid, a) VALUES (3, 'c'), (5, 'e'), (6, 'f')",
            target: "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT)",
            select: "SELECT rowid, a FROM s",
            moved: 1
        ) { $0.unmatchedColumns = .ignored }
        try move.run([
            "INSERT INTO t(a) VALUES ('g')", "UPDATE t SET a = 'E' WHERE id = 5", "DELETE FROM t WHERE id = 6",
        ])
    }

    @Test(.needs(.generatedColumns)) func aGeneratedColumnIsAddedOverRenamedOnes() throws {
        let move = try Move(
            source: "CREATE TABLE s(id INTEGER PRIMARY KEY, x TEXT); INSERT INTO s VALUES (1, '1'), (2, 'b'), (3, 'C')",
            target: """
                CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, v TEXT AS (lower(a) || id), w INTEGER AS (a = 1) STORED);
                CREATE INDEX i ON t(v)
                """,
            select: "SELECT id, x FROM s",
            into: "(id, a)",
            moved: 1
        ) { $0.columns["a"] = .column("x") }
        try move.run([
            "SELECT id FROM t WHERE v = 'c3'", "SELECT id FROM t WHERE w", "UPDATE t SET a = 'z' WHERE v > 'b'",
        ])
    }

    /// Otherwise the values that the source stores would be lost without a word.
    @Test(.needs(.generatedColumns)) func aStoredColumnThatIsGeneratedNowIsToldOf() throws {
        let (source, target) = (
            "CREATE TABLE s(id INTEGER PRIMARY KEY, a, v)", "CREATE TABLE t(id INTEGER PRIMARY KEY, a, v AS (a + 1))"
        )
        let error = #expect(throws: MigrationError.self) {
            try Move(source: source, target: target, select: "SELECT id, a FROM s", into: "(id, a)") { _ in }
        }
        #expect(error?.code == .unequalTables)
        let move = try Move(
            source: "\(source); INSERT INTO s VALUES (1, 1, 5)",
            target: target,
            select: "SELECT id, a FROM s",
            into: "(id, a)"
        ) { $0.unmatchedColumns = .ignored }
        try move.run(["SELECT v FROM t"])
    }

    /// SQLite compares an expression that is always text by the source's index on that expression.
    @Test(.needs(.indexesOnExpressions)) func aConditionOnAMadeColumnUsesTheSourcesIndex() throws {
        let move = try Move(
            source: """
                CREATE TABLE s(id INTEGER PRIMARY KEY, first TEXT, last TEXT);
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
                INSERT INTO s SELECT i, 'f' || i, 'l' || i FROM n; CREATE INDEX names ON s(first || ' ' || last)
                """,
            target: "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT UNIQUE)",
            select: "SELECT id, first || ' ' || last FROM s"
        ) { $0.columns["name"] = .expression("first || ' ' || last") }
        let one = "SELECT id FROM t WHERE name = 'f777 l777'"
        try move.expectSame(one)
        try move.expectSame("SELECT id FROM t WHERE name || '' = 'f777 l777'")
        #expect(try ScanPlans(of: one, in: move.database).sides.contains { $0.contains("INDEX names") })
        try move.expectSame("INSERT INTO t(name) VALUES ('f777 l777')")
        try move.expectSame("INSERT INTO t(name) VALUES (777)")
        try move.expectSame("SELECT id FROM t WHERE name = 777")
        try move.expectSame("SELECT count(*), max(name) FROM t")
    }

    @Test func mappingsAreKeptInTheFile() throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(
            script: "CREATE TABLE s(id INTEGER PRIMARY KEY, a TEXT); INSERT INTO s VALUES (1, 'x'), (2, 'y')"
        )
        old.close()
        do {
            let database = try Database(path: folder.file("new.db"))
            try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, b TEXT, at TEXT DEFAULT CURRENT_TIMESTAMP)")
            try database.addMigration(source: .file(folder.file("old.db"))) {
                $0.sourceTable = "s"
                $0.columns["b"] = .expression("upper(a)")
                $0.columns["at"] = .defaultValue
            }
        }
        let database = try Database(path: folder.file("new.db"))
        #expect(texts(try database.fetchAll("SELECT id, b FROM t")) == ["1|X", "2|Y"])
        let times = texts(try database.fetchAll("SELECT DISTINCT at FROM t"))
        #expect(times.count == 1)
        try finishMigration(database)
        #expect(texts(try database.fetchAll("SELECT id, b FROM t")) == ["1|X", "2|Y"])
        #expect(texts(try database.fetchAll("SELECT DISTINCT at FROM t")) == times)
        #expect(try MovingFixture.objects(folder.file("new.db")).filter { $0.contains("midstream") } == [])
    }

    // MARK: Refusals

    @Test(
        arguments: [
            ("a TEXT, b", "a TEXT", nil, .unequalTables, "the target lacks b"),
            ("a TEXT", "a TEXT, c", nil, .unequalTables, "the source lacks c"),
            ("a TEXT", "a TEXT, c", .column("nowhere"), .unequalTables, "is mapped to column nowhere"),
            ("a TEXT, b, c", "a TEXT, c", .column("b"), .unequalTables, "the target lacks c"),
            // A type, a function, a collation, a table and the end of a CASE are no columns.
            ("a TEXT, text", "a TEXT, c", .expression("CAST(a AS text)"), .unequalTables, "the target lacks text"),
            ("a TEXT, lower", "a TEXT, c", .expression("lower(a)"), .unequalTables, "the target lacks lower"),
            (
                "a TEXT, nocase", "a TEXT, c", .expression("a = 'x' COLLATE nocase"), .unequalTables,
                "the target lacks nocase"
            ),
            (
                "a TEXT, \"end\"", "a TEXT, c", .expression("CASE WHEN a THEN 1 ELSE 2 END"), .unequalTables,
                "the target lacks end"
            ),
            ("a TEXT", "a TEXT, c", .expression("b || 1"), .unequalTables, "the expression for column c"),
            ("a TEXT", "a TEXT, c", .expression("random()"), .unsupported, "must depend on the source's row alone"),
            (
                "a TEXT", "a TEXT, c", .expression("datetime('now')"), .unsupported,
                "must depend on the source's row alone"
            ),
            ("a TEXT", "a TEXT, c", .expression("1) FROM (SELECT 1"), .unequalTables, "the expression for column c"),
            ("a TEXT", "a TEXT, c DEFAULT (random())", .defaultValue, .unsupported, "may differ from row to row"),
            (
                "a TEXT, c TEXT", "a TEXT, c INTEGER PRIMARY KEY", nil, .unequalTables,
                "the INTEGER PRIMARY KEY of target table t"
            ),
            ("a, c", "a, c UNIQUE", nil, .unequalTables, "has no index on"),
            ("a, c TEXT UNIQUE", "a, c TEXT UNIQUE COLLATE NOCASE", nil, .unequalTables, "has no index on"),
            ("a, c TEXT UNIQUE", "a, c INTEGER UNIQUE", nil, .unequalTables, "has no index on"),
            ("a, c TEXT UNIQUE", "a, c TEXT UNIQUE", .expression("c || 'x'"), .unequalTables, "has no index on"),
        ] as [(String, String, ColumnMapping?, MigrationError.Code, String)]
    )
    func whatDoesNotFitIsRefused(
        _ source: String,
        _ target: String,
        _ mapping: ColumnMapping?,
        _ code: MigrationError.Code,
        _ message: String
    ) throws {
        let error = #expect(throws: MigrationError.self) {
            try Move(
                source: "CREATE TABLE s(\(source))",
                target: "CREATE TABLE t(\(target))",
                select: "SELECT 1 WHERE 0",
                into: "(a)"
            ) {
                if let mapping { $0.columns["c"] = mapping }
            }
        }
        #expect(error?.code == code)
        #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
    }

    @Test func aSourceWithoutRowIDsHasNoneToTake() throws {
        let error = #expect(throws: MigrationError.self) {
            try Move(
                source: "CREATE TABLE s(a TEXT PRIMARY KEY) WITHOUT ROWID",
                target: "CREATE TABLE t(a TEXT PRIMARY KEY, c) WITHOUT ROWID",
                select: "SELECT a, 1 FROM s"
            ) {
                $0.columns["c"] = .column("rowid")
            }
        }
        #expect(error?.code == .unequalTables && error?.message.contains("is mapped to column rowid") == true)
    }

    @Test func aMappingOfNoColumnIsRefused() throws {
        let error = #expect(throws: MigrationError.self) {
            try Move(source: "CREATE TABLE s(a)", target: "CREATE TABLE t(a)", select: "SELECT * FROM s") {
                $0.columns["b"] = .column("a")
            }
        }
        #expect(error?.code == .misuse)
    }

    @Test(arguments: ["'x'), ('x'", "'x'), ('X'"]) func rowsThatWouldCollideAreRefused(_ values: String) throws {
        let error = #expect(throws: MigrationError.self) {
            try Move(
                source:
                    "CREATE TABLE s(c TEXT); CREATE INDEX i ON s(c COLLATE NOCASE); INSERT INTO s VALUES (\(values))",
                target: "CREATE TABLE t(c TEXT COLLATE NOCASE UNIQUE)",
                select: "SELECT 'q'"
            ) { _ in }
        }
        #expect(error?.code == .keyCollision && error?.key == 1, "\(error?.message ?? "")")
    }
}
