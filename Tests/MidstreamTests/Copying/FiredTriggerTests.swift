import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// With `firesTriggers`, each row that comes into the target fires its triggers for INSERT once, however it comes.
@Suite struct FiredTriggerTests {
    private static let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, k INTEGER, name TEXT UNIQUE);"
    private static let rows =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60) "
        + "INSERT INTO t SELECT i, i % 7, 'name ' || i FROM n"
    private static let tables = """
        CREATE TABLE log(what); CREATE TABLE tags(k INTEGER PRIMARY KEY); CREATE TABLE totals(n INTEGER, seen INTEGER);
        INSERT INTO totals VALUES (0, 0);
        """

    /// A source with the rows, a target with tables and triggers, and a plain database into which the rows are inserted
    /// when its triggers are there.
    private struct Files {
        let folder = TemporaryFolder()
        let native: Connection
        let database: Database
        var source: String { folder.file("old.db") }

        init(_ triggers: String, schema: String = FiredTriggerTests.schema, rows: String = FiredTriggerTests.rows)
            throws
        {
            let old = try Connection(path: folder.file("old.db"))
            try old.execute(script: schema + rows)
            old.close()
            native = try Connection(path: folder.file("plain.db"))
            try native.execute(script: schema + FiredTriggerTests.tables + triggers + ";" + rows)
            database = try Database(path: folder.file("new.db"))
            try database.execute(schema + FiredTriggerTests.tables + triggers)
        }

        func begin(refusedRows: RefusedRowPolicy = .stop) throws {
            try database.addMigration(source: .file(source)) { table in
                guard table.name == "t" else { return }
                table.sourceTable = "t"
                table.firesTriggers = true
                table.refusedRows = refusedRows
            }
        }
    }

    private static let triggers = """
        CREATE TRIGGER a AFTER INSERT ON t BEGIN INSERT INTO log VALUES ('+' || NEW.id || NEW.name); END;
        CREATE TRIGGER b BEFORE INSERT ON t WHEN NEW.k > 2 BEGIN INSERT INTO log VALUES ('before ' || NEW.name); END;
        CREATE TRIGGER c AFTER INSERT ON t BEGIN
            INSERT OR IGNORE INTO tags VALUES (NEW.k);
            UPDATE totals SET n = n + 1 WHERE NEW.k IN (SELECT k FROM tags); END;
        CREATE TRIGGER d AFTER DELETE ON t BEGIN INSERT INTO log VALUES ('-' || OLD.id); END;
        CREATE TRIGGER e AFTER INSERT ON log BEGIN UPDATE totals SET seen = seen + 1; END
        """

    @Test func eachRowFiresThemOnceHoweverItComes() throws {
        let files = try Files(Self.triggers)
        try files.begin()
        let database = files.database
        try database.stepMigration(rows: 10)
        // So that both have inserted the same.
        try database.execute("CREATE TABLE own(x); INSERT INTO own VALUES (1), (2)")
        try files.native.execute(script: "CREATE TABLE own(x); INSERT INTO own VALUES (1), (2)")
        func run(_ statements: [String]) throws {
            try database.withoutTransaction { access in
                for statement in statements {
                    #expect(throws: Never.self, "\(statement)") { try access.execute(statement) }
                    #expect(throws: Never.self, "\(statement)") { try files.native.execute(script: statement) }
                    #expect(access.changes == files.native.changes, "\(statement)")
                    #expect(access.lastInsertRowID == files.native.lastInsertRowID, "\(statement)")
                }
            }
        }
        try run([
            "UPDATE t SET k = 20 WHERE id IN (5, 25, 35)", "DELETE FROM t WHERE id BETWEEN 8 AND 14",
            "INSERT OR REPLACE INTO t VALUES (40, 30, 'name 41')", "BEGIN", "UPDATE t SET k = 21 WHERE id > 55",
            "SAVEPOINT s", "UPDATE t SET k = 22 WHERE id = 50", "ROLLBACK TO s", "COMMIT",
        ])
        if SQLiteFeature.upsert.isAvailable {
            try run(["INSERT INTO t(k, name) VALUES (1, 'a') ON CONFLICT DO NOTHING"])
        }
        #expect(database.migrationStatistics.drains(of: "t") == 0)
        #expect(throws: CancellationError.self) {
            try database.write { access in
                try access.execute("UPDATE t SET k = 23")
                throw CancellationError()
            }
        }
        try database.stepMigration(rows: 7)
        // Drained.
        try run(["UPDATE t SET k = 0 WHERE id = 3", "CREATE INDEX t_k ON t(k)"])
        #expect(database.migrationStatistics.drains(of: "t") == 1)
        try finishMigration(database)
        for query in [
            "SELECT * FROM t ORDER BY id", "SELECT what FROM log ORDER BY 1", "SELECT * FROM tags",
            "SELECT * FROM totals",
        ] {
            #expect(texts(try database.fetchAll(query)) == texts(try files.native.fetchAll(query)), "\(query)")
        }
    }

    /// Which rows are meant is asked before any of them fires what the question is about.
    @Test(arguments: [
        "id % (SELECT count(*) FROM log) = 0", "id > (SELECT count(*) FROM log)", "(SELECT count(*) FROM log) < 20",
        "(EXISTS (SELECT 1 FROM log WHERE what = '+20name 20')) = (id = 22)", "id IN (SELECT count(*) * 2 FROM seen)",
        "k NOT IN (SELECT substr(what, 2, 1) FROM log)",
    ])
    func theyDoNotChangeWhichRowsAreMeant(_ condition: String) throws {
        let trigger =
            "CREATE VIEW seen AS SELECT what FROM log JOIN t ON what = '+' || id || name;"
            + "CREATE TRIGGER a AFTER INSERT ON t BEGIN INSERT INTO log VALUES ('+' || NEW.id || NEW.name); END"
        for write in ["UPDATE t SET name = name || '!'", "DELETE FROM t"] {
            let files = try Files(trigger)
            // As if no row that has yet to come had been inserted.
            try files.native.execute("DELETE FROM log WHERE rowid > 10")
            try files.begin()
            try files.database.stepMigration(rows: 10)
            try files.native.execute("\(write) WHERE \(condition)")
            #expect(files.native.changes > 0)
            try files.database.write { access in
                try access.execute("\(write) WHERE \(condition)")
                #expect(access.changes == files.native.changes)
            }
            let all = "SELECT * FROM t ORDER BY id"
            #expect(texts(try files.database.fetchAll(all)) == texts(try files.native.fetchAll(all)))
            #expect(files.database.migrationStatistics.drains(of: "t") == 0)
        }
    }

    @Test func aRolledBackPromotionHasFiredNone() throws {
        let files = try Files(Self.triggers)
        try files.begin()
        try files.database.stepMigration(rows: 10)
        let before = try files.database.fetchValue(Int.self, "SELECT count(*) FROM log")
        #expect(throws: CancellationError.self) {
            try files.database.write { access in
                try access.execute("UPDATE t SET k = 23")
                throw CancellationError()
            }
        }
        #expect(try files.database.fetchValue(Int.self, "SELECT count(*) FROM log") == before)
    }

    @Test func noneIsFiredWhereTheFilterSaysSo() throws {
        let files = try Files(Self.triggers)
        try files.database.addMigration(source: .file(files.source)) { table in
            guard table.name == "t" else { return }
            table.sourceTable = "t"
            table.firesTriggers = false
        }
        try finishMigration(files.database)
        #expect(try files.database.fetchValue(Int.self, "SELECT count(*) FROM log") == 0)
    }

    @Test func theMoveOfAReopenedDatabaseGoesOnFiring() throws {
        let files = try Files(Self.triggers)
        try files.begin()
        try files.database.stepMigration(rows: 10)
        files.database.close()
        let database = try Database(path: files.folder.file("new.db"))
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM log WHERE what LIKE '+%'") == 60)
    }

    @Test func aFullTextTableIsFilled() throws {
        let files = try Files("")
        for connection in [files.folder.file("new.db"), files.folder.file("plain.db")].map({ try? Connection(path: $0) }
        ) {
            try connection?.execute(
                script: "CREATE VIRTUAL TABLE words USING fts4(name);"
                    + "CREATE TRIGGER a AFTER INSERT ON t BEGIN INSERT INTO words(docid, name) VALUES (NEW.id, NEW.name); END"
            )
        }
        try files.begin()
        try files.database.stepMigration(rows: 20)
        try files.database.execute("UPDATE t SET k = 0 WHERE id = 44")
        try finishMigration(files.database)
        let query = "SELECT docid, name FROM words WHERE words MATCH 'name' ORDER BY docid"
        #expect(try files.database.fetchAll(query).count == 60)
    }

    @Test func severalSourcesFireThemAlike() throws {
        let folder = TemporaryFolder()
        for (name, first) in [("a.db", 1), ("b.db", 100)] {
            let old = try Connection(path: folder.file(name))
            try old.execute(
                script:
                    "CREATE TABLE t(id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (\(first), 1), (\(first + 1), 2)"
            )
            old.close()
        }
        let database = try Database(path: folder.file("new.db"))
        try database.execute(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, x); CREATE TABLE log(what);"
                + "CREATE TRIGGER a AFTER INSERT ON t BEGIN INSERT INTO log VALUES (NEW.id); UPDATE log SET what = what; END"
        )
        for name in ["a.db", "b.db"] {
            try database.addMigration(source: .file(folder.file(name))) { table in
                guard table.name == "t" else { return }
                table.sourceTable = "t"
                table.firesTriggers = true
            }
        }
        try database.execute("UPDATE t SET x = x + 1 WHERE id IN (2, 101)")
        #expect(database.migrationStatistics.drains(of: "t") == 0)
        try finishMigration(database)
        #expect(texts(try database.fetchAll("SELECT what FROM log ORDER BY 1")) == ["1", "2", "100", "101"])
    }

    // MARK: Rows that a trigger refuses

    private static let refusing =
        "CREATE TRIGGER a BEFORE INSERT ON t WHEN NEW.id = 30 BEGIN SELECT RAISE(ABORT, 'not that'); END;"
        + "CREATE TRIGGER b BEFORE INSERT ON t BEGIN INSERT INTO log VALUES (NEW.id); END"

    @Test func aRowThatOneRefusesStopsTheMigration() throws {
        let files = try Files(Self.refusing, rows: "")
        let old = try Connection(path: files.source)
        try old.execute(script: Self.rows)
        old.close()
        try files.begin()
        let error = #expect(throws: MigrationError.self) { try files.database.stepMigration(rows: 60) }
        #expect(error?.code == .rowRefused && error?.key == 30)
        #expect(error?.cause?.message == "not that")
        #expect(try files.database.fetchValue(Int.self, "SELECT count(*) FROM t") == 60)
        #expect(try files.database.fetchValue(Int.self, "SELECT count(*) FROM log") == 29)
        try files.database.execute("DELETE FROM t WHERE id = 30")
        try finishMigration(files.database)
        #expect(try files.database.fetchValue(Int.self, "SELECT count(*) FROM log") == 59)
    }

    @Test func aRowThatOneRefusesIsSetAside() throws {
        let files = try Files(Self.refusing, rows: "")
        let old = try Connection(path: files.source)
        try old.execute(script: Self.rows)
        old.close()
        try files.begin(refusedRows: .setAside)
        try finishMigration(files.database)
        #expect(try files.database.fetchValue(Int.self, "SELECT count(*) FROM t") == 59)
        #expect(try files.database.fetchValue(Int.self, "SELECT count(*) FROM log") == 59)
        #expect(texts(try files.database.fetchAll("SELECT * FROM midstream_refused_t")) == ["not that|30|30|2|name 30"])
    }

    /// What its triggers write has CHECKs as well, so that it cannot come over for an UPDATE with these off.
    @Test func aRowThatACheckRefusesComesWithNone() throws {
        let files = try Files(
            "CREATE TABLE audit(k CHECK (k > 0)); CREATE TRIGGER a AFTER INSERT ON t BEGIN INSERT INTO audit VALUES (NEW.k); END",
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, k INTEGER CHECK (k > 0), name TEXT UNIQUE);",
            rows: ""
        )
        let old = try Connection(path: files.source)
        try old.execute(script: "PRAGMA ignore_check_constraints = 1; \(Self.rows); UPDATE t SET k = -id WHERE k = 0")
        old.close()
        try files.begin()
        let error = #expect(throws: SQLiteError.self) {
            try files.database.execute("UPDATE t SET name = 'x' WHERE id = 28")
        }
        #expect(error?.code == .constraintCheck)
        try files.database.execute("UPDATE t SET name = 'y' WHERE id = 29; DELETE FROM t WHERE id % 7 = 0")
        try finishMigration(files.database)
        #expect(try files.database.fetchValue(Int.self, "SELECT count(*) FROM t") == 52)
        #expect(texts(try files.database.fetchAll("SELECT count(*), min(k) FROM audit")) == ["52|1"])
    }

    // MARK: What is refused

    @Test(arguments: [
        "CREATE TRIGGER a AFTER INSERT ON t BEGIN UPDATE t SET k = 1 WHERE id = NEW.id; END",
        "CREATE TRIGGER a AFTER INSERT ON t BEGIN INSERT INTO log SELECT count(*) FROM t; END",
        "CREATE VIEW v AS SELECT id FROM t; CREATE TRIGGER a AFTER INSERT ON t BEGIN INSERT INTO log SELECT id FROM v; END",
        "CREATE TRIGGER a AFTER INSERT ON log BEGIN INSERT INTO tags SELECT max(id) FROM t; END;"
            + "CREATE TRIGGER b AFTER INSERT ON t BEGIN INSERT INTO log VALUES (1); END",
        "CREATE TRIGGER a BEFORE INSERT ON t BEGIN SELECT RAISE(IGNORE); END",
        "CREATE TRIGGER a AFTER INSERT ON t WHEN NEW.k = 3 BEGIN SELECT RAISE(FAIL, 'x'); END",
        "CREATE TRIGGER a AFTER INSERT ON log BEGIN SELECT RAISE (ROLLBACK, 'x'); END;"
            + "CREATE TRIGGER b AFTER INSERT ON t BEGIN INSERT INTO log VALUES (1); END",
        "CREATE TRIGGER a AFTER INSERT ON t BEGIN INSERT OR FAIL INTO log VALUES (1); END",
        "CREATE TABLE u(x UNIQUE ON CONFLICT ROLLBACK); CREATE TRIGGER a AFTER INSERT ON t BEGIN INSERT INTO u VALUES (1); END",
        "CREATE TABLE u(x REFERENCES tags); CREATE TRIGGER a AFTER INSERT ON t BEGIN INSERT INTO u VALUES (NEW.k); END",
        "CREATE TRIGGER a AFTER INSERT ON t BEGIN INSERT INTO log VALUES (shout(NEW.name)); END",
    ])
    func aTriggerThatCannotFireExactly(_ triggers: String) throws {
        let files = try Files(triggers, rows: "")
        let old = try Connection(path: files.source)
        try old.execute(script: Self.rows)
        old.close()
        let error = #expect(throws: MigrationError.self) { try files.begin() }
        #expect(error?.code == .unsupported && error?.table == "t")
        #expect(
            error?.message.contains(triggers.contains("VIEW") ? "by way of v" : "trigger a ") == true,
            "\(error?.message ?? "")"
        )
        #expect(files.database.isMigrated)
        #expect(try MovingFixture.objects(files.folder.file("new.db")).filter { $0.contains("midstream") } == [])
    }

    @Test func aTargetWhoseConstraintsSettleConflicts() throws {
        let files = try Files("", schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, k, name UNIQUE ON CONFLICT REPLACE);")
        let error = #expect(throws: MigrationError.self) { try files.begin() }
        #expect(error?.code == .unsupported && error?.message.contains("ON CONFLICT") == true)
    }

    @Test func aLaterMoveOfATableThatOneTouches() throws {
        let files = try Files(Self.triggers)
        try files.begin()
        let old = try Connection(path: files.folder.file("more.db"))
        try old.execute(script: "CREATE TABLE log(what); INSERT INTO log VALUES ('x')")
        old.close()
        let error = #expect(throws: MigrationError.self) {
            try files.database.addMigration(source: .file(files.folder.file("more.db"))) {
                if $0.name == "log" { $0.sourceTable = "log" }
                $0.firesTriggers = false
            }
        }
        #expect(error?.code == .unsupported && error?.message.contains("table log, which moves") == true)
        try finishMigration(files.database)
    }

    @Test func oneThatAnotherConnectionCreatesMeanwhileStopsTheMigration() throws {
        let files = try Files("")
        try files.begin()
        try files.database.stepMigration(rows: 10)
        let other = try Connection(path: files.folder.file("new.db"))
        try other.execute("CREATE TRIGGER a AFTER INSERT ON t BEGIN UPDATE t SET k = 100 WHERE id = NEW.id; END")
        for _ in 0..<2 {
            let error = #expect(throws: MigrationError.self) { try files.database.stepMigration(rows: 10) }
            #expect(error?.code == .unsupported && error?.message.contains("trigger a ") == true)
        }
        #expect(throws: MigrationError.self) { try files.database.execute("UPDATE t SET k = 1 WHERE id = 40") }
        try other.execute("DROP TRIGGER a")
        try files.database.execute("UPDATE t SET k = 1 WHERE id = 40")
        try finishMigration(files.database)
        #expect(try files.database.fetchValue(Int.self, "SELECT count(*) FROM t WHERE k = 100") == 0)
    }

    @Test func aMoveThatHasFiredThemIsNotUndone() throws {
        let files = try Files(Self.triggers)
        try files.begin()
        try files.database.stepMigration(rows: 10)
        let error = #expect(throws: MigrationError.self) { try files.database.cancelMigration() }
        #expect(error?.code == .unsupported && error?.message.contains("fired its triggers") == true)
        try finishMigration(files.database)
        #expect(try files.database.fetchValue(Int.self, "SELECT count(*) FROM log WHERE what LIKE '+%'") == 60)
    }

    @Test func creatingATriggerDrainsTheTable() throws {
        let files = try Files(Self.triggers)
        try files.begin()
        try files.database.execute("CREATE TRIGGER z AFTER INSERT ON log BEGIN INSERT INTO tags VALUES (NULL); END")
        #expect(files.database.migrationStatistics.drains(of: "t") == 1)
        #expect(try files.database.fetchValue(Int.self, "SELECT count(*) FROM log WHERE what LIKE '+%'") == 60)
        #expect(try files.database.fetchValue(Int.self, "SELECT count(*) FROM tags") == 7)
    }

    @Test(arguments: [true, false])
    func aTableThatMovesOnFiresThoseOfEachTableThatItsRowsComeTo(_ firstFires: Bool) throws {
        let folder = TemporaryFolder()
        let database = try Database(path: folder.file("new.db"))
        try database.execute(
            """
            CREATE TABLE a(id INTEGER PRIMARY KEY, x); CREATE TABLE b(id INTEGER PRIMARY KEY, x);
            CREATE TABLE c(id INTEGER PRIMARY KEY, x); INSERT INTO a VALUES (1, 1), (2, 2), (3, 3);
            CREATE TABLE log(what);
            CREATE TRIGGER b_insert AFTER INSERT ON b BEGIN INSERT INTO log VALUES ('into b ' || NEW.id); END;
            CREATE TRIGGER c_insert AFTER INSERT ON c BEGIN INSERT INTO log VALUES ('into c ' || NEW.id); END;
            """
        )
        try database.addMigration(source: .sameDatabase) {
            guard $0.name == "b" else { return }
            $0.sourceTable = "a"
            $0.firesTriggers = firstFires
        }
        try database.stepMigration(rows: 1)
        try database.addMigration(source: .sameDatabase) {
            guard $0.name == "c" else { return }
            $0.sourceTable = "b"
            $0.firesTriggers = true
        }
        try finishMigration(database)
        #expect(
            texts(try database.fetchAll("SELECT what FROM log ORDER BY 1"))
                == (firstFires ? ["into b 1", "into b 2", "into b 3"] : []) + ["into c 1", "into c 2", "into c 3"]
        )
    }

    /// A row that one table refuses is none of another's.
    @Test func aRefusedRowKeepsNoOtherTable() throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20) INSERT INTO"
        try old.execute(
            script: """
                CREATE TABLE t(id INTEGER PRIMARY KEY, a); \(rows) t SELECT i, i FROM n;
                CREATE TABLE u(id INTEGER PRIMARY KEY, a); \(rows) u SELECT i, i FROM n
                """
        )
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute(
            """
            CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE TABLE u(id INTEGER PRIMARY KEY, a CHECK (a <> 1)); CREATE TABLE log(x);
            CREATE TRIGGER ft AFTER INSERT ON t BEGIN INSERT INTO log VALUES (NEW.id); END;
            CREATE TRIGGER fu AFTER INSERT ON u BEGIN INSERT INTO log VALUES (NEW.id); END;
            """
        )
        try database.addMigration(source: .file(folder.file("old.db"))) { table in
            guard table.name != "log" else { return }
            table.sourceTable = table.name
            table.firesTriggers = true
        }
        #expect(throws: SQLiteError.self) { try database.execute("UPDATE u SET a = 1 WHERE id = 1") }
        try database.execute("UPDATE t SET a = 2 WHERE id = 3")
        for _ in 0..<10 {
            do {
                try database.stepMigration()
            } catch let error as MigrationError {
                #expect(error.code == .rowRefused, "\(error)")
            }
        }
        let moving = try database.readMigrationProgress().tables.filter { $0.phase == .copying }
        #expect(moving.map(\.name) == ["u"])
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM log") == 20)
    }
}
