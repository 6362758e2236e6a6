import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// Triggers on moving tables and on views of them do what they do natively. If a trigger touches no moving table, its
/// table goes on moving.
@Suite struct TriggerTests {
    private static let schema = """
        CREATE TABLE t(id INTEGER PRIMARY KEY, k INTEGER, name TEXT UNIQUE);
        CREATE INDEX t_k ON t(k);
        """
    private static let rows =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) "
        + "INSERT INTO t SELECT i, i % 7, 'name ' || i FROM n"

    /// Runs the statements on both sides. After each one, compares what it shows and what is stored.
    private func compare(
        _ extra: String,
        _ statements: [String],
        drains: Bool,
        foreignKeys: Bool = false,
        tables: [String] = ["t", "log"]
    ) throws {
        var configuration = DatabaseConfiguration()
        configuration.enforcesForeignKeys = foreignKeys
        let pair = try Pair(
            schema: Self.schema,
            rows: Self.rows,
            extra: "CREATE TABLE log(what);" + extra,
            tables: ["t"],
            moved: 10,
            configuration: configuration
        )
        pair.database.onMigrated { if case .failed(let error) = $0 { Issue.record(error) } }
        try pair.database.withoutTransaction { access in
            // The first statement makes both sides have changed and inserted the same.
            for statement in ["INSERT INTO log VALUES ('begun')"] + statements {
                let failure = Self.failure { try access.execute(statement) }
                let theirs = Self.failure { try pair.native.execute(script: statement) }
                #expect(failure == theirs, "\(statement)")
                #expect(access.changes == pair.native.changes, "\(statement)")
                #expect(access.lastInsertRowID == pair.native.lastInsertRowID, "\(statement)")
                #expect(access.isInTransaction == pair.native.isInTransaction, "\(statement)")
                for table in tables {
                    let all = "SELECT rowid, * FROM \(table) ORDER BY rowid"
                    let (mine, theirs) = (texts(try access.fetchAll(all)), texts(try pair.native.fetchAll(all)))
                    #expect(mine == theirs, "\(statement)")
                }
            }
        }
        #expect((pair.database.migrationStatistics.drains(of: "t") > 0) == drains)
        #expect(pair.database.migrationStatistics.refusals == 0)
        try pair.finish()
        let schema = "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite%' ORDER BY 1, 2"
        #expect(texts(try pair.database.fetchAll(schema)) == texts(try pair.native.fetchAll(schema)))
    }

    private static func failure(_ body: () throws -> Void) -> String? {
        do {
            try body()
            return nil
        } catch {
            return (error as? SQLiteError)?.message ?? "\(error)"
        }
    }

    // MARK: On other tables

    /// Views and triggers may ask for `changes()` even if the application does not trust the schema.
    @Test func theyAskForChangesInASchemaThatIsNotTrusted() throws {
        try compare(
            """
            CREATE TABLE other(x);
            CREATE VIEW counted AS SELECT changes() AS c, total_changes() > 0 AS d;
            CREATE VIEW sizes AS SELECT count(*) AS n, max(name) AS m FROM t;
            CREATE TRIGGER a AFTER INSERT ON other BEGIN
                INSERT INTO log SELECT changes() || ' ' || c || d FROM counted; END
            """,
            [
                "PRAGMA trusted_schema = OFF", "UPDATE t SET k = 5 WHERE id > 30", "INSERT INTO other VALUES (1)",
                "INSERT INTO log SELECT c || d FROM counted", "INSERT INTO log SELECT n || m FROM sizes",
                "DELETE FROM t WHERE id IN (3, 33)", "INSERT INTO other VALUES (2), (3)",
            ],
            drains: false
        )
    }

    /// They ask through a view, or in a TEMP trigger.
    @Test func theyAskForChangesWhereMainsTriggersDoNotSaySo() throws {
        try compare(
            """
            CREATE TABLE p(x); INSERT INTO p VALUES (1), (2), (3); CREATE TABLE o(x); CREATE TABLE q(x);
            CREATE VIEW counted AS SELECT changes() AS c;
            CREATE TRIGGER a AFTER INSERT ON o BEGIN UPDATE p SET x = x + 1; INSERT INTO log SELECT c FROM counted; END
            """,
            [
                "INSERT INTO o VALUES (1)",
                """
                CREATE TEMP TRIGGER b AFTER INSERT ON q BEGIN UPDATE p SET x = x + 1 WHERE x < 4;
                INSERT INTO log VALUES (changes()); END
                """,
                "CREATE TABLE more(x)", "UPDATE t SET k = 5 WHERE id > 35", "INSERT INTO q VALUES (1)",
                "INSERT INTO o VALUES (2)",
            ],
            drains: false
        )
    }

    /// Only the schema of `temp` changes.
    @Test func theyAskForChangesByAViewOfTemp() throws {
        try compare(
            "CREATE TABLE p(x); INSERT INTO p VALUES (1), (2), (3); CREATE TABLE q(x);",
            [
                "CREATE TEMP VIEW counted AS SELECT CHANGES() AS c",
                """
                CREATE TEMP TRIGGER b AFTER INSERT ON q BEGIN UPDATE p SET x = x + 1;
                INSERT INTO log SELECT c FROM counted; END
                """,
                "UPDATE t SET k = 5 WHERE id > 35", "INSERT INTO q VALUES (1)", "INSERT INTO q VALUES (2), (3)",
            ],
            drains: false
        )
    }

    /// SQLite refuses a program that writes such a union table before it asks the authorizer.
    @Test(
        arguments: [
            "UPDATE u SET a = a + 100 WHERE id = NEW.x", "DELETE FROM u WHERE id = NEW.x",
            "INSERT INTO u VALUES (NEW.x + 100, 1)",
        ],
        [true, false]
    )
    func temporaryOnesWriteTablesWithoutRowIDs(_ program: String, _ isInTransaction: Bool) throws {
        let pair = try Pair(
            schema: "CREATE TABLE u(id INTEGER PRIMARY KEY, a) WITHOUT ROWID",
            rows: "INSERT INTO u VALUES (1, 1), (2, 2), (3, 3), (7, 7)",
            extra: "CREATE TABLE other(x)",
            tables: ["u"],
            moved: 2
        )
        let statements =
            ["CREATE TEMP TRIGGER a AFTER INSERT ON other BEGIN \(program); END"]
            + (isInTransaction ? ["BEGIN"] : []) + ["INSERT INTO other VALUES (7)", "INSERT INTO other VALUES (2)"]
            + (isInTransaction ? ["COMMIT"] : [])
        for sql in statements { try pair.native.execute(sql) }
        try pair.database.withoutTransaction { db in for sql in statements { try db.execute(sql) } }
        let all = "SELECT * FROM u ORDER BY id"
        #expect(texts(try pair.database.fetchAll(all)) == texts(try pair.native.fetchAll(all)))
    }

    /// An untrusted schema still allows views and triggers that can do no harm.
    @Test func theyWriteAndReadWhereTheSchemaIsNotTrusted() throws {
        let pair = try Pair(
            schema: "CREATE TABLE u(id INTEGER PRIMARY KEY, a)",
            rows: "INSERT INTO u VALUES (1, 1), (2, 2), (3, 3), (7, 7)",
            extra: "CREATE TABLE other(x); CREATE VIEW v AS SELECT * FROM u WHERE a > 1",
            tables: ["u"],
            moved: 2
        )
        let statements = [
            "PRAGMA trusted_schema = 0", "CREATE TEMP VIEW w AS SELECT * FROM u",
            "CREATE TEMP TRIGGER r AFTER INSERT ON other BEGIN INSERT INTO other SELECT a FROM w WHERE NEW.x = 1; END",
            "INSERT INTO other SELECT a FROM v", "INSERT INTO other VALUES (1)",
            "CREATE TEMP TRIGGER a AFTER INSERT ON other BEGIN UPDATE u SET a = 9 WHERE id = NEW.x; END",
            "INSERT INTO other VALUES (7)",
        ]
        try pair.database.withoutTransaction { db in
            for sql in statements {
                try pair.native.execute(sql)
                try db.execute(sql)
            }
        }
        for sql in ["SELECT * FROM u ORDER BY id", "SELECT * FROM other"] {
            #expect(texts(try pair.database.fetchAll(sql)) == texts(try pair.native.fetchAll(sql)))
        }
    }

    // MARK: On the table itself

    @Test(arguments: [
        """
        CREATE TRIGGER a AFTER INSERT ON t BEGIN INSERT INTO log VALUES ('+' || NEW.id || NEW.name); END;
        CREATE TRIGGER b BEFORE INSERT ON t BEGIN INSERT INTO log VALUES ('before ' || NEW.id || ifnull(NEW.name, '')); END;
        CREATE TRIGGER c AFTER DELETE ON t BEGIN INSERT INTO log VALUES ('-' || OLD.id || OLD.name); END;
        CREATE TRIGGER d BEFORE UPDATE ON t WHEN NEW.k IS NOT OLD.k BEGIN INSERT INTO log VALUES (OLD.k || '>' || NEW.k); END
        """,
        """
        CREATE TRIGGER a AFTER UPDATE OF k ON t BEGIN INSERT INTO log VALUES (OLD.id || ' ' || changes()); END;
        CREATE TRIGGER b AFTER DELETE ON t BEGIN
            UPDATE log SET what = what || '.'; INSERT INTO log VALUES (changes()), (last_insert_rowid()); END;
        CREATE TRIGGER c AFTER INSERT ON t BEGIN
            INSERT INTO log VALUES (changes() || ' ' || last_insert_rowid()); END
        """,
        """
        CREATE TRIGGER a BEFORE DELETE ON t WHEN OLD.k = 2 BEGIN SELECT RAISE(IGNORE); END;
        CREATE TRIGGER b BEFORE UPDATE ON t WHEN NEW.name = 'no' BEGIN SELECT RAISE(ABORT, 'not that'); END;
        CREATE TRIGGER c AFTER UPDATE ON t WHEN NEW.k = 100 BEGIN SELECT RAISE(FAIL, 'failed'); END;
        CREATE TRIGGER d AFTER INSERT ON t WHEN NEW.k = 3 BEGIN SELECT RAISE(ROLLBACK, 'back'); END
        """,
    ])
    func thatReadOnlyTheirRowsLetTheTableGoOnMoving(_ triggers: String) throws {
        try compare(
            triggers,
            [
                "UPDATE t SET k = k + 1 WHERE id IN (5, 25, 35)", "DELETE FROM t WHERE id BETWEEN 8 AND 14",
                "INSERT INTO t(k, name) VALUES (1, 'a'), (2, 'b')",
                "INSERT OR REPLACE INTO t VALUES (30, 1, 'name 31')",
                "INSERT OR IGNORE INTO t VALUES (32, 1, 'x')", "INSERT INTO t VALUES (33, 1, 'x')",
                "UPDATE t SET name = 'no' WHERE id = 36", "UPDATE t SET k = 100 WHERE k = 4",
                "PRAGMA recursive_triggers = ON", "REPLACE INTO t VALUES (34, 1, 'name 37')",
                "BEGIN", "UPDATE t SET name = name || '!' WHERE id > 20", "SAVEPOINT s", "DELETE FROM t WHERE k = 5",
                "ROLLBACK TO s", "UPDATE t SET id = id + 100 WHERE id = 29", "INSERT INTO t(k, name) VALUES (3, 'z')",
                "DELETE FROM t",
            ],
            drains: false
        )
    }

    /// A name that only begins like the engine's own names is not one of them.
    @Test(arguments: ["midstream_sync", "midstream_insert_all", "midstream_fence_7", "sync"])
    func thatAreNamedLikeTheEnginesOwnAreTheApplications(_ name: String) throws {
        let programs = [
            ("ON other", "UPDATE t SET name = 'z' || id WHERE id = NEW.x", true),
            ("ON other", "DELETE FROM t WHERE id >= NEW.x", true),
            ("ON other", "INSERT INTO log SELECT count(*) FROM t", true),
            ("ON other", "INSERT OR REPLACE INTO t VALUES (NEW.x, 7, 'new')", true),
            ("ON t", "INSERT INTO log VALUES ('+' || NEW.id)", false),
        ]
        for (table, program, drains) in programs {
            try compare(
                "CREATE TABLE other(x); CREATE TRIGGER \(name) AFTER INSERT \(table) BEGIN \(program); END",
                ["INSERT INTO other VALUES (35)", "INSERT INTO t VALUES (70, 1, 'y')", "DROP TRIGGER \(name)"],
                drains: drains
            )
        }
        try compare(
            "CREATE TRIGGER \(name) AFTER DELETE ON t BEGIN INSERT INTO log VALUES ('-' || OLD.id); END",
            ["DELETE FROM t"],
            drains: false
        )
    }

    @Test(arguments: ["", "UPDATE t SET name = 'x' || id WHERE id = NEW.id + 1;"])
    func thatAskForChangesGetThoseOfTheStatementBefore(_ step: String) throws {
        try compare(
            "CREATE TRIGGER a BEFORE UPDATE OF k ON t BEGIN INSERT INTO log VALUES (changes()); \(step) END",
            [
                "INSERT INTO log VALUES (1), (2), (3)", "UPDATE t SET k = 1 WHERE id IN (5, 25, 35)",
                "DELETE FROM log WHERE rowid < 1", "UPDATE t SET k = 2 WHERE id = 36",
            ],
            drains: !step.isEmpty
        )
    }

    @Test(arguments: [
        "INSERT INTO log SELECT n FROM (SELECT count(*) AS n FROM t)",
        "UPDATE t SET name = 'x' || id WHERE id = OLD.id + 1",
        "INSERT INTO log SELECT n FROM v", "DELETE FROM t WHERE id = OLD.id + 2",
        "INSERT INTO log SELECT \"T\".name FROM \"T\" WHERE id = OLD.id + 1",
        "INSERT INTO log VALUES (OLD.id); INSERT OR REPLACE INTO t VALUES (OLD.id + 1, 0, 'r')",
    ])
    func thatTouchTheTableDrainIt(_ step: String) throws {
        try compare(
            "CREATE VIEW v AS SELECT count(*) AS n FROM t;"
                + "CREATE TRIGGER a AFTER UPDATE OF k ON t BEGIN \(step); END",
            ["UPDATE t SET k = 1 WHERE id IN (5, 25, 35)", "UPDATE t SET k = 2 WHERE id = 38"],
            drains: true
        )
    }

    @Test func thatTellTheOrderOfChosenRowsDrainTheTable() throws {
        try compare(
            "CREATE TRIGGER a AFTER DELETE ON t BEGIN INSERT INTO log VALUES (OLD.id); END",
            ["DELETE FROM t WHERE k > 3 AND random() IS NOT NULL"],
            drains: true
        )
    }

    @Test func thatFireOneAnotherDrainWhatTheyComeTo() throws {
        try compare(
            """
            CREATE TABLE other(x);
            CREATE TRIGGER a AFTER DELETE ON t BEGIN INSERT INTO other VALUES (OLD.k); END;
            CREATE TRIGGER b AFTER INSERT ON other BEGIN UPDATE t SET name = name || '*' WHERE k = NEW.x; END;
            """,
            ["DELETE FROM t WHERE id IN (3, 33)"],
            drains: true,
            tables: ["t", "log", "other"]
        )
    }

    @Test func ofTheConnectionAloneFireAsNatively() throws {
        try compare(
            "CREATE TABLE other(x)",
            [
                "CREATE TEMP TRIGGER a AFTER INSERT ON other BEGIN UPDATE t SET k = NEW.x WHERE id > 35; END",
                "INSERT INTO other VALUES (77)",
            ],
            drains: true
        )
    }

    @Test func ofTheConnectionAloneThatWereThereBeforeTheMigrationStay() throws {
        let folder = TemporaryFolder()
        try Connection(path: folder.file("old.db")).execute(script: Self.schema + ";" + Self.rows)
        let database = try Database(path: folder.file("new.db"))
        try database.execute(Self.schema + "CREATE TABLE log(what); CREATE VIEW v AS SELECT id FROM t")
        try database.execute("CREATE TEMP TRIGGER a AFTER INSERT ON t BEGIN INSERT INTO log VALUES (NEW.id); END")
        try database.execute("CREATE TEMP TRIGGER b INSTEAD OF DELETE ON v BEGIN INSERT INTO log VALUES (OLD.id); END")
        try database.addMigration(source: .file(folder.file("old.db"))) { if $0.name == "t" { $0.sourceTable = "t" } }
        try database.execute("INSERT INTO t(k) VALUES (1)")
        #expect(database.migrationStatistics.drained == ["t": [.temporaryTrigger: 1]])
        // A change by another connection makes this connection read the schema again.
        try Connection(path: folder.file("new.db")).execute("CREATE TABLE more(x)")
        try database.execute("INSERT INTO t(k) VALUES (2)")
        try database.execute("DELETE FROM v WHERE id = 40")
        #expect(texts(try database.fetchAll("SELECT what FROM log ORDER BY rowid")) == ["41", "42", "40"])
    }

    /// The view has a trigger of its own as well, or none.
    @Test(arguments: ["TEMP TRIGGER", "TRIGGER temp.", "TRIGGER \"TEMP\"."], [true, false])
    func ofTheConnectionAloneThatAreMadeOnAViewStay(_ words: String, _ hasOwn: Bool) throws {
        let own = "CREATE TRIGGER a INSTEAD OF INSERT ON v BEGIN INSERT INTO log VALUES ('own'); END;"
        let name = words.hasSuffix(".") ? "b" : " b"
        try compare(
            "CREATE VIEW v AS SELECT id FROM t;" + (hasOwn ? own : ""),
            [
                "CREATE \(words)\(name) INSTEAD OF INSERT ON v BEGIN INSERT INTO log VALUES (new.id); END",
                "INSERT INTO v VALUES (80)", "INSERT INTO v VALUES (81)",
            ],
            drains: true
        )
    }

    // MARK: On views

    private static let view = """
        CREATE VIEW v(number, label) AS SELECT id, name FROM t WHERE k < 5;
        CREATE VIEW w AS SELECT number FROM v;
        """

    @Test(arguments: ["", "main."])
    func insteadOfWritesOfAViewAreCarriedOut(_ schema: String) throws {
        try compare(
            Self.view + """
                CREATE TRIGGER a INSTEAD OF INSERT ON v BEGIN INSERT INTO t VALUES (NEW.number, 1, NEW.label); END;
                CREATE TRIGGER b INSTEAD OF UPDATE OF label ON v BEGIN
                    UPDATE t SET name = NEW.label WHERE id = OLD.number; INSERT INTO log VALUES (OLD.label); END;
                CREATE TRIGGER c INSTEAD OF DELETE ON w BEGIN DELETE FROM t WHERE id = OLD.number; END
                """,
            [
                "INSERT INTO \(schema)v VALUES (50, 'fifty'), (NULL, 'next')", "INSERT INTO \(schema)w VALUES (1)",
                "UPDATE \(schema)v SET label = label || '!' WHERE number > 30", "UPDATE \(schema)v SET number = 1",
                "DELETE FROM \(schema)w WHERE number IN (2, 32)", "DELETE FROM \(schema)v WHERE number = 1",
            ],
            drains: true
        )
    }

    @Test func aViewThatReadsNoColumnHasARowForEachOfTheTable() throws {
        try compare(
            "CREATE VIEW v(one) AS SELECT 1 FROM t; CREATE VIEW w(n) AS SELECT count(*) FROM t;",
            [
                "BEGIN", "CREATE TRIGGER b INSTEAD OF UPDATE ON w BEGIN INSERT INTO log VALUES (OLD.n); END",
                "UPDATE w SET n = 1", "ROLLBACK", "UPDATE w SET n = 1",
                "CREATE TRIGGER a INSTEAD OF DELETE ON v BEGIN INSERT INTO log VALUES (OLD.one); END",
                "DELETE FROM v WHERE one = 1",
            ],
            drains: true
        )
    }

    @Test func aViewWithoutATriggerIsNotWrittenAndDrainsNothing() throws {
        try compare(
            Self.view + "CREATE TRIGGER a INSTEAD OF INSERT ON v BEGIN INSERT INTO log VALUES (NEW.label); END",
            [
                "INSERT INTO v VALUES (1, 'x')", "INSERT INTO v SELECT id, name FROM t WHERE id > 38 ORDER BY id",
                "INSERT INTO w VALUES (1)",
            ],
            drains: false
        )
    }

    @Test(arguments: ["", "main."])
    func aTriggerOfAViewIsTheViewsOwn(_ schema: String) throws {
        try compare(
            Self.view,
            [
                "CREATE TRIGGER \(schema)a INSTEAD OF INSERT ON v BEGIN INSERT INTO log VALUES (NEW.label); END",
                "INSERT INTO v VALUES (1, 'x')", "CREATE INDEX other ON log(what)", "INSERT INTO v VALUES (1, 'y')",
                "DROP TRIGGER a", "INSERT INTO v VALUES (1, 'z')", "BEGIN",
                "CREATE TRIGGER b INSTEAD OF INSERT ON v BEGIN INSERT INTO log VALUES (NEW.number); END",
                "INSERT INTO v VALUES (1, 'x')", "ROLLBACK", "INSERT INTO v VALUES (2, 'x')",
            ],
            drains: false
        )
    }

    // MARK: Foreign keys

    @Test func ofOneOfTwoMovingTablesDrainItOnceInATransaction() throws {
        var configuration = DatabaseConfiguration()
        configuration.enforcesForeignKeys = true
        let pair = try Pair(
            schema: Self.schema + "CREATE TABLE u(id INTEGER PRIMARY KEY);",
            rows: Self.rows,
            extra: "CREATE TABLE child(t REFERENCES t(id) ON DELETE CASCADE)",
            tables: ["t", "u"],
            configuration: configuration
        )
        try pair.database.write { access in
            try access.execute("INSERT INTO child VALUES (40), (39)")
            try access.execute("DELETE FROM t WHERE id = 39")
            #expect(texts(try access.fetchAll("SELECT t FROM child")) == ["40"])
            try access.execute("DROP TABLE child")
        }
        #expect(pair.database.migrationStatistics.drained == ["t": [.foreignKey: 1]])
        try pair.finish()
    }

    @Test func rowsThatBreakAForeignKeyFromTheStartMove() throws {
        try compare(
            """
            CREATE TABLE parent(id INTEGER PRIMARY KEY); INSERT INTO parent VALUES (1), (2);
            CREATE TABLE child(t INTEGER REFERENCES t(id) DEFERRABLE INITIALLY DEFERRED, p REFERENCES parent(id));
            """,
            [
                "BEGIN", "INSERT INTO child VALUES (99, 1)", "UPDATE t SET k = 1 WHERE id = 40",
                "INSERT INTO child VALUES (1, 99)", "COMMIT", "INSERT INTO t VALUES (99, 1, 'late')", "COMMIT",
                "DELETE FROM t WHERE id = 99", "DROP TABLE t",
            ],
            drains: true,
            foreignKeys: true,
            tables: ["child"]
        )
    }

    /// Programs that the watch cannot leave empty.
    private static let programs = [
        "WHEN NEW.a NOT IN (SELECT k FROM n) BEGIN INSERT INTO log VALUES (NEW.id); END",
        "WHEN NEW.a IN n BEGIN INSERT INTO log VALUES (NEW.id); END",
        "WHEN (NEW.a, 9) = (SELECT k, 9 FROM n) BEGIN INSERT INTO log VALUES (NEW.id); END",
        "WHEN (NEW.a, 9) > (VALUES ('w', 1)) BEGIN INSERT INTO log VALUES (NEW.id); END",
        "WHEN CASE (NEW.a, 9) WHEN (SELECT max(k), 9 FROM n) THEN 1 END BEGIN INSERT INTO log VALUES (NEW.id); END",
        "WHEN (SELECT count(*) FROM n WHERE k = NEW.a) > 0 BEGIN INSERT INTO log VALUES (NEW.id); END",
        "BEGIN SELECT RAISE(ABORT, 'no') WHERE NEW.id NOT IN (SELECT k FROM n WHERE k <> 7) AND NEW.id < 9; END",
        "BEGIN DELETE FROM log; END", "BEGIN DELETE FROM log WHERE id IS NULL OR id > 0; END",
        "BEGIN DELETE FROM t WHERE id = NEW.id - 8; END",
        // Another trigger fires because of these.
        "BEGIN UPDATE m SET x = 2; END", "BEGIN UPDATE m SET id = 5; END",
    ]

    @Test(arguments: programs) func aTriggerDoesNotFireForARowThatMoves(_ program: String) throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a)",
            rows: "INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'z'), (4, 'x')",
            extra: """
                CREATE TABLE n(k PRIMARY KEY) WITHOUT ROWID; INSERT INTO n VALUES ('x'), (1);
                CREATE TABLE log(id); INSERT INTO log VALUES (100);
                CREATE TABLE m(id INTEGER PRIMARY KEY, x); INSERT INTO m VALUES (1, 1);
                CREATE TRIGGER q AFTER UPDATE ON m BEGIN DELETE FROM log; END; CREATE TRIGGER r AFTER INSERT ON t \(program)
                """,
            tables: ["t"],
            moved: 1
        )
        for sql in [
            "UPDATE t SET a = 'w' WHERE id = 2", "INSERT OR IGNORE INTO t VALUES (3, 'q')",
            "DELETE FROM t WHERE id = 4",
        ] {
            try pair.database.execute(sql)
            try pair.native.execute(sql)
        }
        func compare() throws {
            for sql in ["SELECT * FROM t", "SELECT * FROM log", "SELECT * FROM m"] {
                #expect(texts(try pair.database.fetchAll(sql)) == texts(try pair.native.fetchAll(sql)), "\(sql)")
            }
        }
        try compare()
        for sql in ["INSERT INTO t VALUES (9, 'v')", "INSERT INTO t VALUES (10, 'x')"] {
            try pair.database.execute(sql)
            try pair.native.execute(sql)
        }
        try compare()
        try pair.finish()
        try compare()
    }
}
