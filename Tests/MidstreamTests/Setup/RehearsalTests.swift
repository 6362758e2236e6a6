import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// Midstream reports rows on which an expression fails before their table begins to move.
@Suite struct RehearsalTests {
    private static let smallest = "-9223372036854775807 - 1"

    struct Sample: Sendable, CustomTestStringConvertible {
        var name: String
        /// The definition of the target's table `t`.
        var target: String
        var mapping: String?
        /// What fails, in the words of the error.
        var what: String
        var testDescription: String { name }
    }

    static let samples: [Sample] =
        [
            Sample(
                name: "mapping",
                target: "CREATE TABLE t(id INTEGER PRIMARY KEY, n, v)",
                mapping: "abs(n)",
                what: "the expression for column v"
            ),
            Sample(
                name: "mapped column",
                target: "CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER)",
                mapping: "abs(n)",
                what: "column n"
            ),
            Sample(
                name: "check",
                target: "CREATE TABLE t(id INTEGER PRIMARY KEY, n CHECK (abs(n) >= 0))",
                what: "CHECK ( abs ( n ) >= 0 )"
            ),
            Sample(
                name: "table's check",
                target: "CREATE TABLE t(id INTEGER PRIMARY KEY, n, CHECK (abs(t.n) >= 0 /* ) */))",
                what: "CHECK ( abs ( t . n ) >= 0 )"
            ),
            Sample(
                name: "partial index",
                target: "CREATE TABLE t(id INTEGER PRIMARY KEY, n); CREATE INDEX i ON t(id) WHERE abs(n) > 1",
                what: "an expression of index i"
            ),
        ]
        + SQLiteFeature.indexesOnExpressions.ifAvailable([
            Sample(
                name: "index on an expression",
                target: "CREATE TABLE t(id INTEGER PRIMARY KEY, n); CREATE INDEX i ON t(abs(n) DESC)",
                what: "an expression of index i"
            )
        ])
        + SQLiteFeature.generatedColumns.ifAvailable([
            Sample(
                name: "stored generated column",
                target: "CREATE TABLE t(id INTEGER PRIMARY KEY, n, g AS (abs(n)) STORED)",
                what: "column g"
            ),
            Sample(
                name: "generated column",
                target: "CREATE TABLE t(id INTEGER PRIMARY KEY, n, g AS (abs(n)))",
                what: "column g"
            ),
        ])

    private func add(_ sample: Sample, to database: Database, from path: String) throws {
        try database.addMigration(source: .file(path)) { table in
            table.sourceTable = "s"
            table.unmatchedColumns = .ignored
            guard let mapping = sample.mapping else { return }
            table.columns[sample.target.contains("v)") ? "v" : "n"] = .expression(mapping)
        }
    }

    @Test(arguments: samples) func rowsOnWhichAnExpressionFailsAreCounted(_ sample: Sample) throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(
            script: """
                CREATE TABLE s(id INTEGER PRIMARY KEY, n);
                INSERT INTO s VALUES (1, 1), (3, \(Self.smallest)), (4, -4), (7, \(Self.smallest)), (8, NULL), (9, \(Self.smallest)),
                    (12, \(Self.smallest)), (13, 5);
                """
        )
        let before = try MovingFixture.objects(folder.file("old.db"))
        let database = try Database(path: folder.file("new.db"))
        try database.execute(sample.target)
        let error = #expect(throws: MigrationError.self) {
            try add(sample, to: database, from: folder.file("old.db"))
        }
        #expect(error?.code == .rowRefused && error?.table == "t" && error?.key == 3)
        let words = "\(sample.what) of table t fails on 4 rows of source table s (rowids 3, 7, 9, …): integer overflow."
        #expect(error?.message.hasPrefix(words) == true, "\(error?.message ?? "")")
        #expect(error?.cause?.message == "integer overflow")
        // Nothing has begun.
        #expect(database.isMigrated)
        #expect(try MovingFixture.objects(folder.file("old.db")) == before)
        try database.execute("INSERT INTO t(id) VALUES (100)")
        try database.execute("DELETE FROM t")
        // The remedy: the rows are changed in the source.
        try old.execute(script: "DELETE FROM s WHERE id = 3; UPDATE s SET n = id WHERE n < -100")
        let native = try Connection(path: folder.file("plain.db"))
        try native.execute(script: sample.target)
        try native.execute("ATTACH ? AS o", [folder.file("old.db")])
        let names = sample.target.contains("v)") ? "id, n, v" : "id, n"
        let values = sample.target.contains("v)") ? "id, n, abs(n)" : sample.mapping == nil ? "id, n" : "id, abs(n)"
        try native.execute("INSERT INTO t(\(names)) SELECT \(values) FROM o.s")
        try add(sample, to: database, from: folder.file("old.db"))
        let sql = "SELECT * FROM t ORDER BY id"
        #expect(texts(try database.fetchAll(sql)) == texts(try native.fetchAll(sql)))
        try finishMigration(database)
        #expect(texts(try database.fetchAll(sql)) == texts(try native.fetchAll(sql)))
    }

    /// Rows that the condition leaves out do not matter.
    @Test func rowsThatDoNotBelongAreNotLookedAt() throws {
        let move = try SmallMove(
            source: "CREATE TABLE s(id INTEGER PRIMARY KEY, n); INSERT INTO s VALUES (1, 1), (2, \(Self.smallest))",
            target: "CREATE TABLE t(id INTEGER PRIMARY KEY, n)",
            from: "s"
        ) { table in
            table.condition = "n > 0"
            table.columns["n"] = .expression("abs(n)")
        }
        #expect(texts(try move.database.fetchAll("SELECT * FROM t")) == ["1|1"])
        try finishMigration(move.database)
    }

    @Test func rowsWithoutRowidsAreToldByTheirKeys() throws {
        let error = #expect(throws: MigrationError.self) {
            _ = try SmallMove(
                source: """
                    CREATE TABLE s(a TEXT, b INTEGER, n, PRIMARY KEY (a, b)) WITHOUT ROWID;
                    INSERT INTO s VALUES ('x', 1, 1), ('it''s', 2, \(Self.smallest)), ('y', 3, \(Self.smallest));
                    """,
                target: "CREATE TABLE t(a TEXT, b INTEGER, n, PRIMARY KEY (a, b)) WITHOUT ROWID",
                from: "s"
            ) { $0.columns["n"] = .expression("abs(n)") }
        }
        #expect(
            error?.message.contains("2 rows of source table s (keys ('it''s', 2), ('y', 3)): integer overflow") == true
        )
        #expect(error?.keyColumns == [.text("it's"), .integer(2)])
    }

    /// A rebuild whose new shape fails on rows of the former shape. Some of these rows have yet to come from a third
    /// table.
    @Test(arguments: [0, 3] as [Int64]) func aRebuildLooksAtRowsThatHaveYetToComeFromElsewhere(_ moved: Int64) throws {
        let pair = try UpgradePair(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, n); "
                + "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, \(Self.smallest)), (6, 6)"
        )
        func rebuild(_ column: String, _ mapping: String) throws {
            try pair.database.write { access in
                _ = try access.rebuild("t") { table in
                    table.schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, \(column))"
                    table.columns[column] = .expression(mapping)
                    table.unmatchedColumns = .ignored
                    table.rowsCopiedAtOnce = 0
                }
            }
        }
        try rebuild("m", "n")
        try pair.database.stepMigration(rows: moved)
        let error = #expect(throws: MigrationError.self) { try rebuild("k", "abs(m)") }
        #expect(error?.code == .rowRefused && error?.message.contains("1 row of table t (rowid 5)") == true)
        try pair.database.execute("UPDATE t SET m = 0 WHERE id = 5")
        try rebuild("k", "abs(m)")
        try finishMigration(pair.database)
        #expect(texts(try pair.database.fetchAll("SELECT k FROM t")) == ["1", "2", "3", "4", "0", "6"])
    }

    struct Unfit: Sendable, CustomTestStringConvertible {
        var columns: String
        var words: String
        var testDescription: String { columns }
    }

    static let unfit =
        [
            Unfit(
                columns: "a NOT NULL, b",
                words: "2 rows of table t (rowids 4, 6) do not fit the table's new shape: NULL in column a"
            ),
            Unfit(
                columns: "a, b CHECK (b <> 9)",
                words: "1 row of table t (rowid 9) does not fit the table's new shape: CHECK ( b <> 9 ) not met"
            ),
            Unfit(
                columns: "a TEXT NOT NULL, b INTEGER CHECK (b < 8)",
                words: "5 rows of table t (rowids 4, 6, 8, …) do not fit"
            ),
        ]

    /// The test uses a table whose rows would move, and one whose rows would be copied.
    @Test(arguments: unfit, [0, 1000])
    func rowsThatDoNotFitANewShapeAreCounted(_ unfit: Unfit, _ rows: Int) throws {
        let pair = try UpgradePair(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10) "
                + "INSERT INTO t SELECT i, CASE WHEN i IN (4, 6) THEN NULL ELSE i END, i FROM n"
        )
        let new = "CREATE TABLE t(id INTEGER PRIMARY KEY, \(unfit.columns))"
        var options = SchemaOptions()
        options.rowsChangedAtOnce = rows
        for act in [pair.database.plan(for:options:), pair.database.upgrade(to:options:)] {
            let error = #expect(throws: MigrationError.self) { _ = try act(DatabaseSchema(sql: new), options) }
            #expect(
                error?.code == .rowRefused && error?.message.hasPrefix(unfit.words) == true,
                "\(String(describing: error))"
            )
        }
        #expect(pair.database.isMigrated)
        // The remedy: the rows are changed, or set aside.
        var mended = options
        mended.refusedRows = .setAside
        #expect(try !pair.database.plan(for: DatabaseSchema(sql: new), options: mended).isEmpty)
        try pair.execute("UPDATE t SET a = 0 WHERE a IS NULL")
        try pair.execute("UPDATE t SET b = 0 WHERE b > 7")
        try pair.database.upgrade(to: DatabaseSchema(sql: new), options: options)
        try pair.rebuildNatively("t", new, "id, a, b", from: "id, a, b")
        try pair.finish()
    }

    /// A rebuild accepts what its plan accepts.
    @Test(
        arguments: [
            "lower(a", "myfunc(a)", "(SELECT 1)", "random()", "count(*)", "?1", ":a", "a LIKE 1", "datetime('now')",
            "abs(b)",
            "a; DROP TABLE t", "a) FROM t --",
        ]
    )
    func aPlanIsARehearsal(_ mapping: String) throws {
        let pair = try UpgradePair(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b); INSERT INTO t VALUES (1, 'a', 1), (2, 'b', \(Self.smallest))"
        )
        let schema = DatabaseSchema(sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b, c)")
        for rows in [0, 1000] {
            var options = SchemaOptions()
            options.rowsChangedAtOnce = rows
            options.columns = ["t": ["c": .expression(mapping)]]
            let foreseen = #expect(throws: MigrationError.self) {
                try pair.database.plan(for: schema, options: options)
            }
            let error = #expect(throws: MigrationError.self) { try pair.database.upgrade(to: schema, options: options) }
            #expect(foreseen?.code == error?.code && foreseen?.message == error?.message)
            #expect(error?.message.contains("midstream_") == false, "\(String(describing: error))")
        }
        #expect(try pair.database.fetchValue(Int.self, "SELECT count(*) FROM t") == 2)
    }
}
