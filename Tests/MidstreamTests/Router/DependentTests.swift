import SQLiteConnection
import SQLiteFeatures
import Synchronization
import Testing

@testable import Midstream

/// Constructs around a moving table. Each gives what it gives natively, whether Midstream sees through it or drains the
/// table.
@Suite struct DependentTests {
    private static let schema = """
        CREATE TABLE t(id INTEGER PRIMARY KEY, k INTEGER, name TEXT, UNIQUE (k, id));
        CREATE INDEX t_k ON t(k);
        CREATE UNIQUE INDEX t_name ON t(name);
        """
    private static let rows =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60) "
        + "INSERT INTO t SELECT i, i % 7, 'name ' || i FROM n"

    /// Runs the statements on both sides, and compares what the last one gives. Then ends the migration, and compares
    /// what that statement gives once more.
    private func compare(
        extra: String,
        statements: [String],
        last: String,
        moved: Int64,
        drains: Bool,
        configuration: DatabaseConfiguration = DatabaseConfiguration()
    ) throws {
        let pair = try Pair(
            schema: Self.schema,
            rows: Self.rows,
            extra: extra,
            tables: ["t"],
            moved: moved,
            configuration: configuration
        )
        let drained = Mutex(0)
        pair.database.onMigrated { if case .drained = $0 { drained.withLock { $0 += 1 } } }
        for statement in statements {
            try pair.native.execute(script: statement)
            try pair.database.execute(statement)
        }
        let expected = texts(try pair.native.fetchAll(last))
        #expect(texts(try pair.database.fetchAll(last)) == expected)
        #expect(drained.withLock { $0 > 0 } == drains)
        try pair.finish()
        #expect(texts(try pair.database.fetchAll(last)) == expected)
        #expect(
            texts(try pair.database.fetchAll("SELECT * FROM t ORDER BY id"))
                == texts(try pair.native.fetchAll("SELECT * FROM t ORDER BY id"))
        )
    }

    /// SQLite chooses the rows that the subquery gives: it may follow an index in one statement, and none in another.
    @Test(.needs(.rowValuesInQueries), arguments: [0, 30, 59] as [Int64], [1, 2, 3])
    func aSubqueryWithLimitIsEvaluatedOnce(_ moved: Int64, _ limit: Int) throws {
        for write in ["DELETE FROM t", "UPDATE t SET id = -id"] {
            let pair = try Pair(
                schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a INT, c INT); CREATE INDEX t_ca ON t(c, a)",
                rows: "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60) "
                    + "INSERT INTO t SELECT i, i % 3, i % 4 FROM n",
                tables: ["t"],
                moved: moved
            )
            try pair.database.write { access in
                try access.execute("\(write) WHERE (a, c) IN (SELECT DISTINCT a, c FROM t LIMIT \(limit))")
                // Each pair of values is that of five rows.
                #expect(access.changes == 5 * limit)
            }
            #expect(pair.database.migrationStatistics.drains(of: "t") == 0)
            try pair.finish()
        }
    }

    @Test(arguments: [0, 30, 59])
    func viewsAndViewsOverViewsSeeTheWholeTable(moved: Int64) throws {
        try compare(
            extra:
                "CREATE VIEW v AS SELECT k, count(*) AS n FROM t GROUP BY k; CREATE VIEW w AS SELECT sum(n) AS s FROM v;"
                + "CREATE VIEW x(a) AS SELECT main.t.name FROM main.t INDEXED BY t_k WHERE k = 3",
            statements: ["UPDATE t SET k = 3 WHERE id IN (1, 60)"],
            last: "SELECT (SELECT s FROM w), (SELECT count(*) FROM x), (SELECT n FROM v WHERE k = 3)",
            moved: moved,
            drains: false
        )
    }

    @Test(arguments: [0, 30])
    func triggersOfTheApplicationFireAsNatively(moved: Int64) throws {
        try compare(
            extra: """
                CREATE TABLE log(what);
                CREATE TRIGGER deleted AFTER DELETE ON t BEGIN INSERT INTO log VALUES ('-' || OLD.name); END;
                CREATE TRIGGER added AFTER INSERT ON t BEGIN
                    INSERT INTO log SELECT '+' || NEW.name || (SELECT count(*) FROM t);
                END
                """,
            statements: [
                "DELETE FROM t WHERE id IN (5, 55)", "INSERT INTO t(k, name) VALUES (1, 'a'), (2, 'b')",
                "INSERT OR REPLACE INTO t VALUES (50, 1, 'name 7')",
            ],
            last: "SELECT group_concat(what) FROM log",
            moved: moved,
            drains: true
        )
    }

    @Test(arguments: [
        "INSERT INTO log SELECT count(*) FROM t", "INSERT INTO log SELECT n FROM counted",
        "SELECT RAISE(IGNORE) WHERE (SELECT count(*) FROM t) < 60",
        "DELETE FROM log WHERE EXISTS (SELECT 1 FROM t LIMIT 1 OFFSET 59)",
    ])
    func aTriggerOfAnotherTableCountsTheWholeTable(_ step: String) throws {
        try compare(
            extra: """
                CREATE TABLE log(what); INSERT INTO log VALUES ('first');
                CREATE TABLE other(x);
                CREATE VIEW counted AS SELECT count(*) AS n FROM t;
                CREATE TRIGGER added BEFORE INSERT ON other BEGIN \(step); END
                """,
            statements: ["INSERT INTO other VALUES (1)", "INSERT INTO other VALUES (2)"],
            last: "SELECT (SELECT group_concat(what) FROM log), (SELECT count(*) FROM other)",
            moved: 30,
            drains: true
        )
    }

    @Test(arguments: [false, true]) func foreignKeysAreFoundHoweverLikeCompares(_ isCaseSensitive: Bool) throws {
        let connection = try Connection(path: ":memory:")
        try connection.execute(
            script:
                "CREATE TABLE t(id INTEGER PRIMARY KEY); CREATE TABLE Child(t REFERENCES t(id)); CREATE TABLE other(x)"
        )
        try connection.execute("PRAGMA case_sensitive_like = \(isCaseSensitive ? "ON" : "OFF")")
        let found = try SchemaReader(connection: connection, schema: "main").foreignKeyNeighbors()
        #expect(found == ["t": ["child"], "child": ["t"]])
    }

    @Test(arguments: [0, 30])
    func foreignKeysHoldAsNatively(moved: Int64) throws {
        var configuration = DatabaseConfiguration()
        configuration.enforcesForeignKeys = true
        try compare(
            extra: """
                CREATE TABLE child(id INTEGER PRIMARY KEY, t INTEGER REFERENCES t(id) ON DELETE CASCADE);
                """,
            statements: ["INSERT INTO child(t) VALUES (2), (58), (59)", "DELETE FROM t WHERE id IN (2, 58)"],
            last: "SELECT count(*), sum(t) FROM child",
            moved: moved,
            drains: false,
            configuration: configuration
        )
    }

    @Test(
        arguments: [
            "ALTER TABLE t ADD COLUMN extra DEFAULT 7", "CREATE INDEX more ON t(name, k)",
            "CREATE UNIQUE INDEX one ON t(id, k)",
            "CREATE TRIGGER trig AFTER INSERT ON t BEGIN DELETE FROM t WHERE id = 3; END", "DROP INDEX t_k", "VACUUM",
            "REINDEX t", "CREATE TABLE copy AS SELECT * FROM t WHERE id > 50",
            "CREATE VIEW later AS SELECT count(*) FROM t", "PRAGMA temp_store = MEMORY", "ANALYZE t", "ANALYZE",
        ] + SQLiteFeature.renameColumn.ifAvailable(["ALTER TABLE t RENAME COLUMN k TO kk"])
    )
    func changesOfTheSchemaWhileATableMovesAreTheNativeOnes(_ statement: String) throws {
        let pair = try Pair(schema: Self.schema, rows: Self.rows, tables: ["t"], moved: 20)
        try pair.native.execute(script: statement)
        try pair.database.execute(statement)
        for sql in ["INSERT INTO t(name) VALUES ('later')", "UPDATE t SET name = 'n' || id WHERE id IN (2, 40)"] {
            try pair.native.execute(sql)
            try pair.database.execute(sql)
        }
        for sql in [
            "SELECT * FROM t ORDER BY id",
            "SELECT name FROM sqlite_master WHERE name NOT LIKE 'midstream%' AND name NOT LIKE 'sqlite%' ORDER BY 1",
        ] {
            #expect(texts(try pair.database.fetchAll(sql)) == texts(try pair.native.fetchAll(sql)))
        }
        try pair.finish()
        #expect(
            texts(try pair.database.fetchAll("SELECT * FROM t ORDER BY id"))
                == texts(try pair.native.fetchAll("SELECT * FROM t ORDER BY id"))
        )
    }

    @Test(arguments: [
        "CREATE TABLE IF NOT EXISTS t(x)", "CREATE INDEX IF NOT EXISTS t_k ON t(k)",
        "CREATE UNIQUE INDEX IF NOT EXISTS t_name ON t(name)", "DROP INDEX t_k",
    ])
    func statementsOfEachLaunchDrainNothing(_ statement: String) throws {
        let pair = try Pair(schema: Self.schema, rows: Self.rows, tables: ["t"], moved: 20)
        try pair.database.execute(statement)
        #expect(try pair.database.readMigrationProgress().tables.first?.phase == .copying)
        #expect(try pair.database.fetchValue(Int64.self, "SELECT count(id) FROM t") == 60)
    }

    @Test func aKeyIsUniqueAlsoWhenAnotherOneIsDropped() throws {
        let pair = try Pair(
            schema:
                "CREATE TABLE t(id INTEGER PRIMARY KEY, a, c); CREATE UNIQUE INDEX ua ON t(a); CREATE UNIQUE INDEX uc ON t(c)",
            rows: "INSERT INTO t VALUES (1, 'a1', 'c1'), (2, 'a2', 'c2')",
            tables: ["t"],
            moved: 1
        )
        try pair.database.execute("DROP INDEX uc")
        #expect(throws: SQLiteError.self) { try pair.database.execute("INSERT INTO t(a, c) VALUES ('a2', 'c9')") }
        try pair.database.execute("INSERT INTO t(a, c) VALUES ('a3', 'c2')")
        try pair.finish()
        #expect(try pair.database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 3)
    }

    /// The guard triggers do not pass on the columns of the new index then, or they pass on those of an index that has
    /// gone.
    @Test(
        arguments: [
            "CREATE UNIQUE INDEX ua ON t(a)", "DROP INDEX ub", "DROP INDEX ub; CREATE UNIQUE INDEX ua ON t(a)",
            "DROP INDEX ub; CREATE UNIQUE INDEX ub ON t(b, a)", "DROP INDEX ub; CREATE UNIQUE INDEX ub ON t(b)",
        ],
        [false, true]
    )
    func aKeyIsUniqueWhereAnotherProgramChangesTheIndexes(_ change: String, _ isInBlock: Bool) throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b); CREATE UNIQUE INDEX ub ON t(b)",
            rows: "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60) "
                + "INSERT INTO t SELECT i, i, -i FROM n",
            tables: ["t"],
            moved: 20
        )
        try pair.database.execute("UPDATE t SET a = a WHERE id = 30")
        try pair.native.execute(script: change)
        try Connection(path: pair.target).execute(script: change)
        for sql in [
            "INSERT INTO t VALUES (101, 40, 40)", "INSERT INTO t VALUES (102, 1000, -41)",
            "UPDATE t SET a = 42 WHERE id = 1",
            "INSERT OR REPLACE INTO t VALUES (103, 43, -1043)", "UPDATE OR IGNORE t SET b = -44 WHERE id = 50",
            "INSERT OR IGNORE INTO t VALUES (7, 1001, -1001)",
        ] {
            let run: (DatabaseAccess) throws -> Void = { try $0.execute(sql) }
            let outcomes = [
                Result { try pair.native.execute(sql) },
                Result { try isInBlock ? pair.database.write(run) : pair.database.execute(sql) },
            ].map { outcome in
                if case .failure(let error) = outcome { (error as? SQLiteError)?.message ?? "\(error)" } else { "done" }
            }
            #expect(outcomes[1] == outcomes[0], "\(sql)")
        }
        try pair.finish()
        #expect(
            texts(try pair.database.fetchAll("SELECT * FROM t ORDER BY id"))
                == texts(try pair.native.fetchAll("SELECT * FROM t ORDER BY id"))
        )
    }

    @Test func aKeyThatRowsDoNotHaveIsDroppedBeforeTheyMove() throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a)",
            rows: "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'b')",
            tables: ["t"],
            moved: 1
        )
        try Connection(path: pair.target).execute("CREATE UNIQUE INDEX ua ON t(a)")
        let error = #expect(throws: MigrationError.self) { try pair.finish() }
        #expect(error?.code == .rowRefused)
        try pair.database.execute("DROP INDEX ua")
        try pair.finish()
        #expect(try pair.database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 3)
    }

    @Test func aChangeOfTheSchemaThatIsRolledBackLeavesTheTableMoving() throws {
        let pair = try Pair(schema: Self.schema, rows: Self.rows, tables: ["t"], moved: 20)
        try pair.database.withoutTransaction { access in
            try access.execute("BEGIN")
            try access.execute("SAVEPOINT s")
            try access.execute("ALTER TABLE t ADD COLUMN extra")
            try access.execute("UPDATE t SET extra = 1")
            try access.execute("ROLLBACK TO s")
            #expect(try access.fetchValue(Int64.self, "SELECT count(*) FROM t") == 60)
            try access.execute("UPDATE t SET k = 100 WHERE id > 55")
            #expect(try access.fetchValue(Int64.self, "SELECT count(*) FROM t WHERE k = 100") == 5)
            try access.execute("ROLLBACK")
            #expect(try access.fetchValue(Int64.self, "SELECT count(*) FROM t WHERE k = 100") == 0)
            #expect(try access.fetchValue(Int64.self, "SELECT count(*) FROM t") == 60)
        }
        try pair.finish()
        #expect(try pair.database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 60)
    }

    @Test(arguments: [
        "DROP TABLE other", "DROP TABLE IF EXISTS other", "DROP INDEX old_index", "DROP VIEW old_view", "REINDEX other",
        "ALTER TABLE other ADD COLUMN y", "ANALYZE other", "REINDEX old_index", "DROP TRIGGER IF EXISTS old_trigger",
        "DROP TRIGGER old_trigger", "CREATE INDEX i ON other(x)", "PRAGMA table_info(other)",
        "PRAGMA index_info(old_index)",
        "REINDEX", "REINDEX NOCASE", "ANALYZE",
    ])
    func theSchemaOfTheSourceIsNotChanged(_ statement: String) throws {
        let folder = TemporaryFolder()
        try Connection(path: folder.file("old.db")).execute(
            script: """
                CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT COLLATE NOCASE UNIQUE); INSERT INTO t VALUES (1, 'a'), (2, 'b');
                CREATE TABLE other(x); CREATE INDEX old_index ON other(x); CREATE VIEW old_view AS SELECT 1;
                CREATE TRIGGER old_trigger AFTER INSERT ON other BEGIN SELECT 1; END
                """
        )
        let native = try Connection(path: ":memory:")
        let database = try Database(path: folder.file("new.db"))
        for sql in ["CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT COLLATE NOCASE UNIQUE)"] {
            try database.execute(sql)
            try native.execute(sql)
        }
        try database.addMigration(source: .file(folder.file("old.db"))) { if $0.name == "t" { $0.sourceTable = "t" } }
        func outcome(_ body: () throws -> [Row]) -> [String] {
            do { return texts(try body()) } catch { return [(error as? SQLiteError)?.message ?? "\(error)"] }
        }
        let theirs = outcome { try native.fetchAll(statement) }
        for isDrained in [false, true] {
            let mine = try database.withoutTransaction { access in
                try access.execute("BEGIN")
                // The source stays attached until the transaction ends.
                if isDrained { try access.execute("PRAGMA foreign_key_check") }
                defer { try? access.execute("ROLLBACK") }
                return outcome { try access.fetchAll(statement) }
            }
            #expect(mine == theirs)
        }
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 2)
    }

    @Test(arguments: [
        "SELECT * FROM other", "INSERT INTO other VALUES (1)", "UPDATE other SET x = 1", "DELETE FROM other",
        "SELECT (SELECT count(*) FROM other) FROM t", "SELECT count(*) FROM other",
    ])
    func aTableOfTheSourceThatTheTargetDoesNotHaveIsNotSeen(_ statement: String) throws {
        let folder = TemporaryFolder()
        try Connection(path: folder.file("old.db")).execute(
            script: "CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1), (2); CREATE TABLE other(x)"
        )
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY)")
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "t" }
        let error = #expect(throws: SQLiteError.self) { try database.execute(statement) }
        #expect(error?.message == "no such table: other")
        #expect(error?.code == .error)
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 2)
    }

    /// The sources stay attached until the transaction ends in which the last table's move has ended.
    @Test(arguments: [
        ["ALTER TABLE u RENAME TO u2", "ALTER TABLE t RENAME TO t2"], ["ALTER TABLE t ADD COLUMN b", "DROP TABLE u"],
        ["DROP TABLE t", "DROP TABLE u"], ["ALTER TABLE u RENAME TO u2"],
    ])
    func aNameThatATransactionTakesFromTheTargetIsNotTheSources(_ changes: [String]) throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY); CREATE TABLE u(id INTEGER PRIMARY KEY)",
            rows: "INSERT INTO t VALUES (1), (2); INSERT INTO u VALUES (3), (4)",
            extra: "CREATE TABLE other(x)",
            tables: ["t", "u"]
        )
        try pair.database.write { access in
            for change in changes + ["SAVEPOINT s", "INSERT INTO other VALUES (1)", "ROLLBACK TO s"] {
                try access.execute(change)
            }
            for sql in ["SELECT * FROM u", "INSERT INTO other SELECT id FROM u", "DELETE FROM u"] {
                let error = #expect(throws: SQLiteError.self) { try access.execute(sql) }
                #expect(error?.message == "no such table: u")
            }
        }
        try pair.finish()
        #expect(try pair.database.fetchValue(Int64.self, "SELECT count(*) FROM other") == 0)
        #expect(throws: SQLiteError.self) { try pair.database.execute("SELECT * FROM u") }
    }

    /// This happens if a whole file has moved, and the application has dropped one of its views.
    @Test(arguments: [
        "SELECT * FROM v", "SELECT count(*) FROM v", "REPLACE INTO t SELECT x FROM v", "DELETE FROM t WHERE id IN v",
        "DELETE FROM v WHERE x = 1",
    ])
    func aViewOfTheSourceThatTheTargetDoesNotHaveIsNotSeen(_ statement: String) throws {
        let folder = TemporaryFolder()
        let tables = "CREATE TABLE t(id INTEGER PRIMARY KEY); CREATE TABLE other(x)"
        try Connection(path: folder.file("old.db")).execute(
            script: "\(tables); INSERT INTO t VALUES (1), (2); CREATE VIEW v AS SELECT x FROM other"
        )
        let database = try Database(path: folder.file("new.db"))
        try database.execute(tables)
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = $0.name }
        let error = #expect(throws: SQLiteError.self) { try database.execute(statement) }
        #expect(error?.message == "no such table: v")
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 2)
    }

    @Test(
        arguments: [
            ("ALTER TABLE t ADD COLUMN extra DEFAULT 7", "ALTER TABLE t DROP COLUMN extra"),
            ("ALTER TABLE t RENAME TO u", "ALTER TABLE u RENAME TO t"),
            ("DROP TABLE t; CREATE TABLE t(id INTEGER PRIMARY KEY, k INTEGER, name TEXT)", nil),
        ]
            + SQLiteFeature.renameColumn.ifAvailable([
                ("ALTER TABLE t RENAME COLUMN k TO kk", "ALTER TABLE t RENAME COLUMN kk TO k")
            ])
    )
    func aTableThatAnotherConnectionChangesIsNeitherReadNorMoved(_ change: String, _ remedy: String?) throws {
        let pair = try Pair(schema: Self.schema, rows: Self.rows, tables: ["t"], moved: 20)
        try Connection(path: pair.target).execute(script: change)
        let errors = [
            #expect(throws: MigrationError.self) { _ = try pair.database.fetchAll("SELECT * FROM t") },
            #expect(throws: MigrationError.self) { try pair.database.execute("DELETE FROM t WHERE id = 50") },
        ]
        for error in errors { #expect(error?.code == .unequalTables && error?.table == "t") }
        // A stepper that has not looked at the table yet refuses as well.
        #expect(throws: MigrationError.self) {
            try Database(path: pair.target).stepMigration()
        }
        guard let remedy, SQLiteFeature.dropColumn.isAvailable || !remedy.contains("DROP") else { return }
        try Connection(path: pair.target).execute(script: remedy)
        #expect(
            texts(try pair.database.fetchAll("SELECT * FROM t ORDER BY id"))
                == texts(try pair.native.fetchAll("SELECT * FROM t ORDER BY id"))
        )
        try pair.finish()
    }

    @Test(arguments: [
        "CREATE VIEW late AS SELECT count(*) AS n FROM t", "CREATE INDEX late ON t(k, name)", "DROP INDEX t_k",
        "CREATE TRIGGER late AFTER UPDATE ON t BEGIN DELETE FROM t WHERE id = NEW.id + 1; END",
        "CREATE TRIGGER late AFTER UPDATE ON t BEGIN INSERT INTO log VALUES (NEW.id); END",
    ])
    func whatAnotherConnectionAddsIsNoticed(_ change: String) throws {
        let pair = try Pair(
            schema: Self.schema,
            rows: Self.rows,
            extra: "CREATE TABLE log(x)",
            tables: ["t"],
            moved: 20
        )
        _ = try pair.database.fetchAll("SELECT * FROM t")
        try Connection(path: pair.target).execute(change)
        try pair.native.execute(change)
        let statements = ["UPDATE t SET k = 1 WHERE id IN (3, 40)", "DELETE FROM t WHERE k = 2"]
        for sql in statements {
            try pair.database.execute(sql)
            try pair.native.execute(sql)
        }
        var queries = ["SELECT * FROM t ORDER BY id", "SELECT * FROM log"]
        if change.contains("VIEW") { queries.append("SELECT n FROM late") }
        for sql in queries {
            #expect(texts(try pair.database.fetchAll(sql)) == texts(try pair.native.fetchAll(sql)))
        }
        try pair.finish()
    }

    @Test func aTableThatWasDroppedIsGoneAlsoOnTheSameConnection() throws {
        let pair = try Pair(schema: Self.schema, rows: Self.rows, tables: ["t"], moved: 20)
        try pair.database.withoutTransaction { access in
            try access.execute("BEGIN")
            try access.execute("DROP TABLE t")
            #expect(throws: SQLiteError.self) { try access.fetchAll("SELECT * FROM t") }
            try access.execute("ROLLBACK")
            #expect(try access.fetchValue(Int64.self, "SELECT count(id) FROM t") == 60)
            try access.execute("DROP TABLE t")
            #expect(throws: SQLiteError.self) { try access.fetchAll("SELECT * FROM t") }
        }
    }

    @Test func droppingAMovingTableDropsAllOfIt() throws {
        let pair = try Pair(schema: Self.schema, rows: Self.rows, tables: ["t"], moved: 20)
        try pair.database.execute("DROP TABLE t")
        #expect(throws: SQLiteError.self) { try pair.database.fetchAll("SELECT * FROM t") }
        try pair.finish()
        #expect(texts(try pair.database.fetchAll("SELECT name FROM sqlite_master")) == [])
    }

    @Test func aTransactionOfAnotherProcessAddsAMigrationThatThisOneNotices() throws {
        let folder = TemporaryFolder()
        let here = try Database(path: folder.file("new.db"))
        try here.execute(Self.schema)
        try Connection(path: folder.file("old.db")).execute(script: Self.schema + ";" + Self.rows)
        #expect(try here.fetchValue(Int64.self, "SELECT count(*) FROM t") == 0)
        let there = try Database(path: folder.file("new.db"))
        try there.addMigration(source: .file(folder.file("old.db"))) { if $0.name == "t" { $0.sourceTable = "t" } }
        #expect(try here.fetchValue(Int64.self, "SELECT count(*) FROM t") == 60)
        try here.execute("UPDATE t SET name = 'x' WHERE id = 60")
        #expect(try there.fetchValue(String.self, "SELECT name FROM t WHERE id = 60") == "x")
        #expect(try here.write { try $0.fetchValue(Int64.self, "SELECT sum(id) FROM t") } == 1830)
        while try !there.stepMigration().isFinished {}
        #expect(try here.fetchValue(Int64.self, "SELECT sum(id) FROM t") == 1830)
        try here.execute("DELETE FROM t WHERE id = 60")
        try here.write { try $0.execute("DELETE FROM t WHERE id = 59") }
        #expect(try there.fetchValue(Int64.self, "SELECT count(*) FROM t") == 58)
    }

    @Test func aViewsOtherTablesAreNotFoundAmongTemporaryOnes() throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a)",
            rows: "INSERT INTO t VALUES (1, 'x'), (2, 'y')",
            extra: """
                CREATE TABLE n(id INTEGER, b); INSERT INTO n VALUES (1, 'main');
                CREATE VIEW v AS WITH c AS (SELECT 1 AS one) SELECT t.a, n.b, one FROM t JOIN n ON n.id = t.id JOIN c
                """,
            tables: ["t"],
            moved: 1
        )
        try pair.database.withoutTransaction { access in
            for sql in ["CREATE TEMP TABLE n(id INTEGER, b)", "INSERT INTO temp.n VALUES (2, 'temp')"] {
                try access.execute(sql)
                try pair.native.execute(sql)
            }
            for sql in ["SELECT * FROM v", "SELECT * FROM n", "SELECT count(*) FROM v JOIN n"] {
                #expect(texts(try access.fetchAll(sql)) == texts(try pair.native.fetchAll(sql)), "\(sql)")
            }
        }
    }
}
