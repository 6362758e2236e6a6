import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// Objects of a file that are not declared go on working, or are reported.
@Suite struct UndeclaredObjectsTests {
    private static func n(_ count: Int, _ insert: String) -> String {
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(count)) \(insert) FROM n;"
    }

    private func options(_ change: (inout SchemaOptions) -> Void = { _ in }) -> SchemaOptions {
        var options = SchemaOptions()
        options.rowsChangedAtOnce = 0
        change(&options)
        return options
    }

    private func rows(_ pair: UpgradePair, _ sql: String) throws -> [String] { texts(try pair.database.fetchAll(sql)) }

    private func refusal(_ pair: UpgradePair, _ sql: String, _ options: SchemaOptions) -> String {
        let error = #expect(throws: MigrationError.self) {
            try pair.database.upgrade(to: DatabaseSchema(sql: sql), options: options)
        }
        pair.expectSame()
        return error?.message ?? ""
    }

    // MARK: Values

    /// In tables that are not STRICT, ANY is a type of numbers.
    @Test(.needs(.strict)) func valuesOfAnyTypeStayWhatTheyAre() throws {
        let folder = TemporaryFolder()
        let database = try Database(path: folder.file("app.db"))
        try database.execute(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a ANY, b TEXT) STRICT; INSERT INTO t VALUES (1, '01', 'x'), (2, 1e3, 'y')"
        )
        func contents() throws -> [String] {
            texts(try database.fetchAll("SELECT id, quote(a), typeof(a), quote(c) FROM t"))
        }
        let sql = "CREATE TABLE t(id INTEGER PRIMARY KEY, c DATETIME)"
        try database.upgrade(to: DatabaseSchema(sql: sql))
        #expect(try contents() == ["1|'01'|text|NULL", "2|1000.0|real|NULL"])
        try database.execute("UPDATE t SET c = '2026-01-02', a = '007' WHERE id = 1")
        // The way back, where the declared column is no longer ANY.
        try database.upgrade(to: DatabaseSchema(sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, b TEXT) STRICT"))
        #expect(try contents() == ["1|'007'|text|'2026-01-02'", "2|1000.0|real|NULL"])
    }

    // MARK: Names

    @Test func aTemporaryTableOfTheNameIsToldAndNotChanged() throws {
        let folder = TemporaryFolder()
        let database = try Database(path: folder.file("app.db"))
        try database.execute("CREATE TABLE cache(x)")
        var options = SchemaOptions()
        options.allowsDrops = true
        try database.write { access in
            try access.execute("CREATE TEMP TABLE cache(y); INSERT INTO temp.cache VALUES (1)")
            for sql in [
                "CREATE TABLE z(a)", "CREATE TABLE cache(x, z)", "CREATE TABLE cache(x); CREATE INDEX i ON cache(x)",
            ] {
                let error = #expect(throws: MigrationError.self) {
                    try access.upgrade(to: DatabaseSchema(sql: sql), options: options)
                }
                #expect(error?.code == .misuse && error?.table == "cache")
            }
            #expect(throws: MigrationError.self) {
                try access.rebuild("cache") { $0.schema = "CREATE TABLE cache(x INT)" }
            }
            #expect(try access.fetchValue(Int.self, "SELECT count(*) FROM temp.cache") == 1)
            #expect(try access.fetchValue(Int.self, "SELECT count(*) FROM main.cache") == 0)
        }
    }

    @Test func whatAnotherLibraryHasRecordedIsNotDropped() throws {
        let folder = TemporaryFolder()
        let database = try Database(path: folder.file("app.db"))
        try database.execute("CREATE TABLE grdb_migrations(identifier TEXT NOT NULL PRIMARY KEY); CREATE TABLE gone(x)")
        var options = SchemaOptions()
        options.allowsDrops = true
        let plan = try database.upgrade(to: DatabaseSchema(sql: "CREATE TABLE z(a)"), options: options)
        #expect(plan.changes.map(\.name) == ["z", "gone"] && plan.undeclared == ["grdb_migrations"])
    }

    @Test(.needs(.renameColumn), arguments: [false, true]) func whatNamesARenamedColumnGoesOnNamingIt(_ moves: Bool)
        throws
    {
        // On a moving table, this trigger would have the table drained: CREATE TRIGGER needs that.
        let other =
            "CREATE TRIGGER other AFTER DELETE ON log BEGIN UPDATE t SET body = OLD.what || 1 WHERE id = 1; END;"
        let pair = try UpgradePair(
            """
            CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT, extra DEFAULT 3);
            CREATE UNIQUE INDEX i ON t("body"); CREATE TABLE log(what);
            CREATE VIEW v AS SELECT body FROM t;
            CREATE TRIGGER tr AFTER UPDATE ON t BEGIN INSERT INTO log VALUES (NEW.body); END;
            """ + (moves ? "" : other) + Self.n(30, "INSERT INTO t(id, body) SELECT i, 'b' || i")
        )
        if moves {
            try pair.database.write { access in
                _ = try access.rebuild("t") { table in
                    table.schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT, extra INTEGER DEFAULT 3)"
                    table.rowsCopiedAtOnce = 0
                }
            }
            try pair.database.stepMigration(rows: 5)
        }
        let sql = "CREATE TABLE t(id INTEGER PRIMARY KEY, text TEXT NOT NULL); CREATE TABLE log(what)"
        let options = options { $0.renamedColumns = ["t": ["body": "text"]] }
        let plan = try pair.database.upgrade(to: DatabaseSchema(sql: sql), options: options)
        #expect(plan.undeclared.sorted() == ["i"] + (moves ? [] : ["other"]) + ["t.extra", "tr", "v"])
        #expect(plan.rebuilt.map(\.way) == [.online])
        #expect(pair.database.migrationStatistics.drained.isEmpty)
        try pair.database.stepMigration(rows: 5)
        try pair.database.execute("UPDATE t SET text = 'x' WHERE id = 25")
        #expect(throws: SQLiteError.self) { try pair.database.execute("UPDATE t SET text = 'x' WHERE id = 3") }
        try pair.database.execute("DELETE FROM log")
        #expect(try rows(pair, "SELECT what FROM log") == (moves ? [] : ["x1"]))
        #expect(try rows(pair, "SELECT text FROM v WHERE text = 'x'") == ["x"])
        try finishMigration(pair.database)
        #expect(try rows(pair, "SELECT count(*), sum(extra) FROM t") == ["30|90"])
        #expect(try pair.database.plan(for: DatabaseSchema(sql: sql), options: options).isEmpty)
    }

    /// This holds whatever the application has set. SQLite before 3.26 renames none of these.
    @Test(arguments: [0, 1]) func whatNamesARenamedTableGoesOnNamingIt(_ legacy: Int) throws {
        let child = "CREATE TABLE child(id INTEGER PRIMARY KEY, parent REFERENCES people(id));"
        let view = "CREATE VIEW v AS SELECT name FROM people;"
        let trigger = "CREATE TRIGGER tr AFTER INSERT ON log BEGIN DELETE FROM people WHERE name = NEW.what; END;"
        let own = "CREATE TRIGGER own AFTER DELETE ON people BEGIN UPDATE people SET name = name || 1; END;"
        let options = options { $0.renamedTables = ["people": "persons"] }
        let sql = "CREATE TABLE persons(id INTEGER PRIMARY KEY, name TEXT); CREATE TABLE log(what);"
        for follower in [child, view, trigger, own] {
            let pair = try UpgradePair(
                "CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT); CREATE TABLE log(what); \(follower) "
                    + "INSERT INTO people VALUES (1, 'a'), (2, 'b');"
            )
            try pair.database.withoutTransaction { try $0.execute("PRAGMA legacy_alter_table = \(legacy)") }
            if Connection.libraryVersionNumber < 3_026_000 {
                #expect(refusal(pair, sql, options).contains("is not declared, and names table people"))
                // A declared object follows the new name.
                let declared = sql + follower.replacing("people", with: "persons")
                try pair.database.upgrade(to: DatabaseSchema(sql: declared), options: options)
            } else {
                try pair.database.upgrade(to: DatabaseSchema(sql: sql), options: options)
            }
            try finishMigration(pair.database)
            let texts = try rows(pair, "SELECT sql FROM sqlite_master WHERE sql LIKE '%people%'")
            #expect(texts.isEmpty)
            if follower == view { #expect(try rows(pair, "SELECT * FROM v") == ["a", "b"]) }
            try pair.database.execute("INSERT INTO log VALUES ('a')")
            try pair.database.execute("DELETE FROM persons WHERE name = 'a'")
            let left = follower == own ? "b1" : "b"
            #expect(try rows(pair, "SELECT name FROM persons") == [left])
            let setting = try pair.database.withoutTransaction {
                try $0.fetchValue(Int.self, "PRAGMA legacy_alter_table")
            }
            #expect(setting == (Connection.libraryVersionNumber < 3_026_000 ? nil : legacy))
        }
    }

    /// Each of these names columns of two tables that are rebuilt.
    @Test(.needs(.renameColumn)) func whatNamesRenamedColumnsOfSeveralTablesGoesOnNamingThem() throws {
        let pair = try UpgradePair(
            """
            CREATE TABLE a(id INTEGER PRIMARY KEY, x TEXT); CREATE TABLE b(id INTEGER PRIMARY KEY, y TEXT);
            CREATE TABLE log(what); CREATE TABLE c(z);
            CREATE VIEW v(p, q) AS SELECT a.x, b.y FROM a JOIN b ON a.id = b.id;
            CREATE TRIGGER of_view INSTEAD OF DELETE ON v BEGIN UPDATE a SET x = 'gone' WHERE x = OLD.p; END;
            CREATE TRIGGER of_c AFTER INSERT ON c BEGIN INSERT INTO log SELECT x || y FROM a JOIN b USING (id); END;
            CREATE TRIGGER of_a AFTER UPDATE ON a BEGIN INSERT INTO log SELECT NEW.x || y FROM b; END;
            INSERT INTO a VALUES (1, 'one'); INSERT INTO b VALUES (1, 'two');
            """
        )
        let sql =
            "CREATE TABLE a(id INTEGER PRIMARY KEY, x2 TEXT NOT NULL); CREATE TABLE b(id INTEGER PRIMARY KEY, y2 TEXT NOT NULL);"
        let options = options {
            $0.renamedColumns = ["a": ["x": "x2"], "b": ["y": "y2"]]
            $0.columns = [
                "a": ["x2": .expression("coalesce(x, '')")], "b": ["y2": .expression("coalesce(y, '')")],
            ]
        }
        let plan = try pair.database.upgrade(to: DatabaseSchema(sql: sql), options: options)
        #expect(plan.changes.filter { $0.way == .rebuild }.map(\.name) == ["a", "b"])
        #expect(plan.undeclared.sorted() == ["c", "log", "of_a", "of_c", "of_view", "v"])
        #expect(try rows(pair, "SELECT * FROM v") == ["one|two"])
        try pair.database.execute("INSERT INTO c VALUES (1)")
        try pair.database.execute("DELETE FROM v")
        #expect(try rows(pair, "SELECT what FROM log") == ["onetwo", "gonetwo"])
        #expect(try rows(pair, "SELECT x2 FROM a") == ["gone"])
        #expect(try pair.database.plan(for: DatabaseSchema(sql: sql), options: options).isEmpty)
    }

    @Test(.needs(.renameColumn), .needs(.generatedColumns)) func aGeneratedColumnFollowsARename() throws {
        let pair = try UpgradePair(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT, g AS (body || 'x')); INSERT INTO t VALUES (1, 'a');"
                + "CREATE TABLE c(x REFERENCES t(body));"
        )
        let options = options { $0.renamedColumns = ["t": ["body": "text"]] }
        let schema = DatabaseSchema(sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, text TEXT NOT NULL)")
        try pair.database.upgrade(to: schema, options: options)
        #expect(try rows(pair, "SELECT text, g FROM t") == ["a|ax"])
        #expect(try rows(pair, "SELECT \"to\" FROM pragma_foreign_key_list('c')") == ["text"])
    }

    @Test(.needs(.renameColumn)) func whatDoesNotCompileAnyMoreIsNamed() throws {
        let base = "CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT); INSERT INTO t VALUES (1, 'a');"
        let view = try UpgradePair(
            "CREATE TABLE a(x); CREATE VIEW a_view AS SELECT x FROM a; CREATE TRIGGER tr "
                + "INSTEAD OF INSERT ON a_view BEGIN INSERT INTO a VALUES (NEW.x); END;"
        )
        let changed = "CREATE TABLE a(x); CREATE VIEW a_view AS SELECT x AS y FROM a"
        #expect(refusal(view, changed, options()).contains("trigger tr is not declared"))
        let key = try UpgradePair(base)
        #expect(refusal(key, "CREATE TABLE t(body TEXT PRIMARY KEY)", options()).contains("column id of table t"))
        let required = try UpgradePair("CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT NOT NULL)")
        #expect(refusal(required, "CREATE TABLE t(id INTEGER PRIMARY KEY)", options()).contains("without default"))
    }

    @Test func aTriggerOfAViewThatChangesIsKept() throws {
        let pair = try UpgradePair(
            "CREATE TABLE a(x); CREATE VIEW v AS SELECT x FROM a; CREATE TRIGGER tr "
                + "INSTEAD OF INSERT ON v BEGIN INSERT INTO a VALUES (NEW.x); END;"
        )
        let schema = DatabaseSchema(sql: "CREATE TABLE a(x); CREATE VIEW v AS SELECT x, 1 AS y FROM a")
        #expect(try pair.database.upgrade(to: schema).undeclared == ["tr"])
        try pair.database.execute("INSERT INTO v(x) VALUES (5)")
        #expect(try rows(pair, "SELECT * FROM v") == ["5|1"])
        #expect(try pair.database.upgrade(to: schema).isEmpty)
    }

    @Test func constraintsOfKeptColumnsAreKept() throws {
        let pair = try UpgradePair(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT, k, UNIQUE (body, k)); CREATE TABLE p(a, b, PRIMARY KEY (a, b));"
                + "INSERT INTO t VALUES (1, 'a', 'k'); INSERT INTO p VALUES (1, 2);"
        )
        let sql = "CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT NOT NULL); CREATE TABLE p(b NOT NULL)"
        try pair.database.upgrade(to: DatabaseSchema(sql: sql), options: options())
        #expect(throws: SQLiteError.self) { try pair.database.execute("INSERT INTO t VALUES (2, 'a', 'k')") }
        #expect(throws: SQLiteError.self) { try pair.database.execute("INSERT INTO p(a, b) VALUES (1, 2)") }
        #expect(try pair.database.plan(for: DatabaseSchema(sql: sql), options: options()).isEmpty)
    }

    // MARK: Other tables

    /// A declared CHECK may contain a text or a function with the name of a column that is not declared.
    @Test(arguments: [
        "CHECK (state IN ('sent', 'draft'))", "CHECK (length(state) < 9)", "CHECK ( LENGTH(\"state\")<9 )",
    ])
    func aDeclaredConstraintIsNotKeptBesideItself(_ check: String) throws {
        let pair = try UpgradePair(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, state TEXT, sent REAL, length INTEGER, \(check)); INSERT INTO t VALUES (1, 'sent', 2, 3)"
        )
        let declared = check.contains("LENGTH") ? "CHECK (length(state) < 9)" : check
        let schema = DatabaseSchema(sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, state TEXT, \(declared))")
        for _ in 0..<3 {
            let plan = try pair.database.upgrade(to: schema, options: options())
            #expect(plan.isEmpty, "\(plan)")
        }
        #expect(try rows(pair, "SELECT * FROM t") == ["1|sent|2.0|3"])
    }

    @Test func tablesOfVirtualTablesAreLeftAlone() throws {
        let pair = try UpgradePair(
            "CREATE VIRTUAL TABLE docs USING fts4(body); INSERT INTO docs VALUES ('one word'); CREATE TABLE other(x);"
                + "CREATE TRIGGER tr AFTER INSERT ON other BEGIN INSERT INTO docs(body) VALUES (NEW.x); END;"
        )
        let sql =
            "CREATE TABLE another(x); CREATE TRIGGER tr AFTER INSERT ON another BEGIN INSERT INTO docs(body) VALUES (NEW.x); END"
        let options = options {
            $0.allowsDrops = true
            $0.renamedTables = ["other": "another"]
        }
        let plan = try pair.database.upgrade(to: DatabaseSchema(sql: sql), options: options)
        #expect(!plan.changes.contains { $0.name.hasPrefix("docs") })
        #expect(plan.undeclared == ["docs"])
        try pair.database.execute("INSERT INTO another VALUES ('other words')")
        #expect(
            try rows(pair, "SELECT body FROM docs WHERE docs MATCH 'word OR words'") == ["one word", "other words"]
        )
    }

    @Test func theSourceOfAMoveIsLeftAlone() throws {
        let pair = try UpgradePair(
            "CREATE TABLE old(id INTEGER PRIMARY KEY, a); CREATE TABLE new(id INTEGER PRIMARY KEY, a);"
                + Self.n(300, "INSERT INTO old SELECT i, i")
        )
        try pair.database.addMigration(source: .sameDatabase) { $0.sourceTable = $0.name == "new" ? "old" : nil }
        try pair.database.stepMigration(rows: 10)
        let new = "CREATE TABLE new(id INTEGER PRIMARY KEY, a);"
        let options = options { $0.allowsDrops = true }
        let plan = try pair.database.upgrade(to: DatabaseSchema(sql: new), options: options)
        #expect(plan.isEmpty)
        #expect(plan.undeclared == ["old"])
        let changed = DatabaseSchema(sql: new + "CREATE TABLE old(id INTEGER PRIMARY KEY, a TEXT)")
        let error = #expect(throws: MigrationError.self) { try pair.database.upgrade(to: changed, options: options) }
        #expect(error?.message.contains("are moving to table new") == true)
        try finishMigration(pair.database)
        #expect(try pair.database.fetchValue(Int.self, "SELECT count(*) FROM new") == 300)
    }

    @Test func theSourceOfAnotherFilesMoveIsLeftAlone() throws {
        let pair = try UpgradePair(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a);" + Self.n(100, "INSERT INTO t SELECT i, i")
        )
        let other = try Database(path: pair.folder.file("new.db"))
        try other.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        try other.addMigration(source: .file(pair.path)) { $0.sourceTable = $0.name }
        try other.stepMigration(rows: 30)
        let sql = "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT)"
        #expect(throws: MigrationError.self) {
            try pair.database.upgrade(to: DatabaseSchema(sql: sql), options: options())
        }
        let plan = try pair.database.upgrade(
            to: DatabaseSchema(sql: "CREATE TABLE u(a)"),
            options: options { $0.allowsDrops = true }
        )
        #expect(plan.undeclared == ["t"])
        try finishMigration(other)
        #expect(try other.fetchValue(Int.self, "SELECT count(*) FROM t") == 100)
    }

    @Test func whatCannotBeReadHarmsNothingElse() throws {
        let pair = try UpgradePair(
            "CREATE TABLE gone(x); CREATE TABLE other(y); CREATE VIEW broken AS SELECT x FROM gone; CREATE TABLE t(a TEXT);"
                + "CREATE TRIGGER tr AFTER INSERT ON other BEGIN INSERT INTO gone VALUES (1); END; DROP TABLE gone;"
        )
        let sql = "CREATE TABLE other(y); CREATE TABLE t(a TEXT NOT NULL, b); CREATE TABLE u(x)"
        let plan = try pair.database.upgrade(to: DatabaseSchema(sql: sql), options: options())
        #expect(plan.changes.map(\.name).sorted() == ["t", "u"])
        #expect(plan.undeclared == ["broken", "tr"])
        let options = options {
            $0.renamedColumns = ["t": ["a": "c"]]
            $0.allowsDrops = true
            $0.rowsChangedAtOnce = 1000
        }
        let broken = "CREATE VIEW broken AS SELECT x FROM gone; CREATE TABLE other(y); "
        try pair.database.upgrade(to: DatabaseSchema(sql: broken + "CREATE TABLE t(c TEXT NOT NULL)"), options: options)
        #expect(try rows(pair, "SELECT name FROM sqlite_master WHERE type = 'table'") == ["other", "t"])
    }

    @Test func functionsOfTheApplicationMayBeInOtherTables() throws {
        let pair = try UpgradePair(
            "CREATE TABLE t(a TEXT); CREATE TABLE u(b); CREATE TRIGGER tr AFTER INSERT ON t BEGIN SELECT unknown(NEW.a); END;"
        )
        let plan = try pair.database.upgrade(to: DatabaseSchema(sql: "CREATE TABLE u(b NOT NULL)"), options: options())
        #expect(plan.changes.map(\.name) == ["u"])
    }

    @Test func anIndexMayGoToAnotherTable() throws {
        let pair = try UpgradePair("CREATE TABLE a(x); CREATE TABLE b(x); CREATE INDEX i ON a(x);")
        let schema = DatabaseSchema(sql: "CREATE TABLE b(x); CREATE TABLE a(x); CREATE INDEX i ON b(x)")
        try pair.database.upgrade(to: schema)
        #expect(try rows(pair, "SELECT tbl_name FROM sqlite_master WHERE name = 'i'") == ["b"])
    }

    /// A table that is not declared is left alone, and so are its indexes.
    @Test func anIndexOfAnUndeclaredTableIsNotTakenFromIt() throws {
        let pair = try UpgradePair("CREATE TABLE a(x); CREATE TABLE b(x); CREATE UNIQUE INDEX i ON a(x);")
        let sql = "CREATE TABLE b(x); CREATE INDEX i ON b(x)"
        let message = refusal(pair, sql, options())
        #expect(message.contains("index i of table a is not declared"))
        #expect(try rows(pair, "SELECT tbl_name FROM sqlite_master WHERE name = 'i'") == ["a"])
        try pair.database.upgrade(to: DatabaseSchema(sql: sql), options: options { $0.allowsDrops = true })
        #expect(try rows(pair, "SELECT tbl_name FROM sqlite_master WHERE name = 'i'") == ["b"])
    }

    @Test func aViewMayBecomeATable() throws {
        let pair = try UpgradePair("CREATE TABLE a(x); CREATE VIEW v AS SELECT x FROM a;")
        try pair.database.upgrade(to: DatabaseSchema(sql: "CREATE TABLE a(x); CREATE TABLE v(x)"))
        #expect(try rows(pair, "SELECT type FROM sqlite_master WHERE name = 'v'") == ["table"])
        let back = DatabaseSchema(sql: "CREATE TABLE a(x); CREATE VIEW v AS SELECT x FROM a")
        #expect(throws: MigrationError.self) { try pair.database.upgrade(to: back) }
        try pair.database.upgrade(to: back, options: options { $0.allowsDrops = true })
        #expect(try rows(pair, "SELECT type FROM sqlite_master WHERE name = 'v'") == ["view"])
    }
}
