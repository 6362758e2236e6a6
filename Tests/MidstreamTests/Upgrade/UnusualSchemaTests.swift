import Midstream
import SQLText
import SQLiteConnection
import SQLiteFeatures
import Testing

/// Schemas that SQLite accepts, and that few applications have.
@Suite struct UnusualSchemaTests {
    private func upgrade(
        _ before: String,
        to after: String,
        _ change: (inout SchemaOptions) -> Void = { _ in }
    ) throws -> (pair: UpgradePair, plan: SchemaPlan) {
        let pair = try UpgradePair(before)
        var options = SchemaOptions()
        change(&options)
        let plan = try pair.database.upgrade(to: DatabaseSchema(sql: after), options: options)
        return (pair, plan)
    }

    private func rows(_ pair: UpgradePair, _ sql: String) throws -> [String] { texts(try pair.database.fetchAll(sql)) }

    private static let thousands = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)"

    /// Only tables that the module makes are its own, whatever other tables are called.
    @Test(.needs(.fullText5)) func aTableIsNoShadowForItsNameAlone() throws {
        let search = "CREATE VIRTUAL TABLE search USING fts5(body);"
        let before =
            search
            + "CREATE TABLE search_history(q TEXT); INSERT INTO search_history VALUES ('x'); CREATE TABLE other(a);"
        let (pair, plan) = try upgrade(before, to: search + "CREATE TABLE history(q TEXT)") {
            $0.renamedTables = ["search_history": "history"]
        }
        #expect(plan.undeclared == ["other"])
        #expect(try rows(pair, "SELECT q FROM history") == ["x"])
        // The way back, at each launch.
        var options = SchemaOptions()
        options.renamedTables = ["history": "search_history"]
        let schema = DatabaseSchema(sql: search + "CREATE TABLE search_history(q TEXT)")
        for _ in 0..<2 { try pair.database.upgrade(to: schema, options: options) }
        #expect(try rows(pair, "SELECT q FROM search_history") == ["x"])
        options = SchemaOptions()
        options.allowsDrops = true
        try pair.database.upgrade(to: DatabaseSchema(sql: search), options: options)
        try pair.database.execute("INSERT INTO search(body) VALUES ('one')")
        #expect(try rows(pair, "SELECT body FROM search WHERE search MATCH 'one'") == ["one"])
        #expect(
            try rows(pair, "SELECT count(*) FROM main.sqlite_master WHERE name IN ('search_history', 'other')") == ["0"]
        )
    }

    /// Without that table, whose name is like those of the module's own tables, the module cannot be asked.
    @Test func theContentOfAFullTextTableIsDeclaredLikeAnyOther() throws {
        let plain = try Connection(path: ":memory:")
        guard (try? plain.execute("CREATE VIRTUAL TABLE f USING fts4(a)")) != nil else { return }
        let schema = "CREATE TABLE s_docs(body TEXT); CREATE VIRTUAL TABLE s USING fts4(content=\"s_docs\");"
        let (pair, _) = try upgrade("CREATE TABLE other(a)", to: schema)
        #expect(try rows(pair, "SELECT count(*) FROM s_docs") == ["0"])
        try pair.database.execute("INSERT INTO s_docs VALUES ('one'); INSERT INTO s(docid, body) VALUES (1, 'one')")
        #expect(try rows(pair, "SELECT body FROM s WHERE s MATCH 'one'") == ["one"])
    }

    @Test func aTextThatIsCutOffIsAnError() throws {
        let pair = try UpgradePair("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        for sql in [
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a UNIQUE ON CONFLICT",
            "CREATE TABLE t(id INTEGER PRIMARY KEY ON CONFLICT",
        ] {
            #expect(throws: (any Error).self) { try pair.database.write { try $0.rebuild("t") { $0.schema = sql } } }
        }
    }

    @Test func aVersionThatSQLiteCannotKeepIsRefused() throws {
        let pair = try UpgradePair("PRAGMA user_version = 3")
        var upgrades = SchemaUpgrades()
        upgrades.add("late", version: 202_401_151_230) { _ in }
        let error = #expect(throws: MigrationError.self) { try pair.database.upgrade(upgrades) }
        #expect(error?.code == .misuse)
        #expect(try pair.database.fetchValue(Int.self, "PRAGMA user_version") == 3)
    }

    @Test(arguments: [
        "CHECK (a > 0) UNIQUE (b)", "CONSTRAINT f FOREIGN KEY (a) REFERENCES p(id) CONSTRAINT u UNIQUE (b)",
        "CHECK (a > 0) CHECK (b > 0) UNIQUE (b)", "UNIQUE (b) CHECK (a > 0)", "CHECK (a > 0) CHECK (b > 0)",
    ])
    func constraintsMayStandWithoutCommas(_ constraints: String) throws {
        let (before, after) = (
            "CREATE TABLE t(a INT, b INT, \(constraints))", "CREATE TABLE t(a INT, b INT NOT NULL, \(constraints))"
        )
        let (pair, plan) = try upgrade(
            before + "; \(Self.thousands) INSERT INTO t SELECT i, i FROM n",
            to: after
        )
        #expect(plan.rebuilt.map(\.way) == [.online])
        try pair.rebuildNatively("t", after, "rowid, a, b", from: "rowid, a, b")
        try pair.execute("INSERT INTO t VALUES (4000, 5)")
        try pair.finish()
    }

    /// A refused row stops its table, and nothing else. Nor are all rows moved at once.
    @Test func aTriggerThatComesDoesNotDrainWhatItTouches() throws {
        let trigger = "CREATE TRIGGER tr AFTER INSERT ON log BEGIN UPDATE t SET a = 'x' WHERE id = NEW.x; END;"
        let (pair, plan) = try upgrade(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT); CREATE TABLE log(x);"
                + "\(Self.thousands) INSERT INTO t SELECT i, nullif(i, 7) FROM n",
            to:
                "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT CHECK (a IS NOT NULL OR rowid < 0)); CREATE TABLE log(x);"
                + trigger
        )
        #expect(plan.rebuilt.map(\.way) == [.online])
        #expect(pair.database.migrationStatistics.drained.isEmpty)
        #expect(try rows(pair, "SELECT count(*), count(a) FROM t") == ["3000|2999"])
        try pair.database.execute("DELETE FROM t WHERE id = 7")
        try pair.database.execute("INSERT INTO log VALUES (8)")
        #expect(try rows(pair, "SELECT a FROM t WHERE id IN (7, 8)") == ["x"])
        try finishMigration(pair.database)
    }

    @Test(.needs(.generatedColumns), .needs(.jsonFunctions)) func aGeneratedColumnThatFailsIsNotReadInVain() throws {
        let before = """
            CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT); INSERT INTO t(body) VALUES ('not json');
            ALTER TABLE t ADD COLUMN k AS (json_extract(body, '$.k'));
            """
        let after =
            "CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT, k AS (json_extract(body, '$.k')), n INTEGER NOT NULL DEFAULT 0);"
        let (pair, plan) = try upgrade(before, to: after)
        #expect(plan.changes.map(\.way) == [.statements])
        #expect(try rows(pair, "SELECT id, body, n FROM t") == ["1|not json|0"])
    }

    @Test(arguments: [true, false]) func aTableIsRenamedBesideAViewThatIsBroken(_ mends: Bool) throws {
        let before =
            "CREATE TABLE gone(x); CREATE VIEW broken AS SELECT x FROM gone; CREATE TABLE a(x); INSERT INTO a VALUES (1); DROP TABLE gone;"
        let (pair, _) = try upgrade(
            before,
            to: "CREATE TABLE b(x);" + (mends ? "CREATE VIEW broken AS SELECT x FROM b;" : "")
        ) {
            $0.allowsDrops = !mends
            $0.renamedTables = ["a": "b"]
        }
        #expect(try rows(pair, mends ? "SELECT x FROM broken" : "SELECT x FROM b") == ["1"])
        // Older versions of SQLite rename a table without checking views.
        guard Connection.libraryVersionNumber >= 3_026_000 else { return }
        let undeclared = try UpgradePair(before)
        var options = SchemaOptions()
        options.renamedTables = ["a": "b"]
        let error = #expect(throws: MigrationError.self) {
            try undeclared.database.plan(for: DatabaseSchema(sql: "CREATE TABLE b(x)"), options: options)
        }
        #expect(error?.message.contains("view broken is not declared") == true)
    }

    @Test func aDefaultMayEndInAComment() throws {
        let (pair, _) = try upgrade(
            "CREATE TABLE t(id INTEGER PRIMARY KEY); \(Self.thousands) INSERT INTO t SELECT i FROM n",
            to: "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT NOT NULL DEFAULT ('x' -- none yet\n), UNIQUE (a, id))"
        )
        #expect(try rows(pair, "SELECT a FROM t WHERE id = 2") == ["x"])
        try pair.database.execute("INSERT INTO t(id) VALUES (5000)")
        try finishMigration(pair.database)
        #expect(try rows(pair, "SELECT count(*) FROM t WHERE a = 'x'") == ["3001"])
    }

    @Test func whatIsInTempIsNotDroppedInThePlaceOfOthers() throws {
        let pair = try UpgradePair(
            "CREATE TABLE t(a); CREATE TABLE log(a); CREATE TRIGGER tr AFTER INSERT ON t BEGIN INSERT INTO log VALUES (1); END"
        )
        let other = try Connection(path: pair.folder.file("other.db"))
        try other.execute("CREATE TABLE t(a)")
        other.close()
        try pair.database.execute("ATTACH '\(pair.folder.file("other.db"))' AS e")
        var options = SchemaOptions()
        options.allowsDrops = true
        try pair.database.write { access in
            try access.execute("CREATE TEMP TRIGGER tr AFTER INSERT ON log BEGIN SELECT 1; END")
            try access.execute("CREATE TEMP TRIGGER far AFTER INSERT ON e.t BEGIN SELECT 1; END")
            try access.upgrade(
                to: DatabaseSchema(sql: "CREATE TABLE t(a INTEGER); CREATE TABLE log(a)"),
                options: options
            )
            #expect(
                texts(try access.fetchAll("SELECT name FROM sqlite_temp_master WHERE type = 'trigger' ORDER BY name"))
                    == ["far", "tr"]
            )
            #expect(texts(try access.fetchAll("SELECT name FROM main.sqlite_master WHERE type = 'trigger'")).isEmpty)
        }
    }

    @Test func anExpressionMayNameItsTable() throws {
        let (pair, _) = try upgrade(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT); \(Self.thousands) INSERT INTO t SELECT i, nullif(i, 7) FROM n",
            to: "CREATE TABLE t(id INTEGER PRIMARY KEY, text TEXT NOT NULL)"
        ) {
            $0.renamedColumns = ["t": ["body": "text"]]
            $0.columns = ["t": ["text": .expression("coalesce(t.body, main.\"T\".id || '')")]]
        }
        #expect(try rows(pair, "SELECT text FROM t WHERE id IN (7, 8)") == ["7", "8"])
        try finishMigration(pair.database)
        let error = #expect(throws: MigrationError.self) {
            try pair.database.write { access in
                try access.rebuild("t") {
                    $0.schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, b TEXT)"
                    $0.columns["b"] = .column("txet")
                }
            }
        }
        #expect(error?.message.contains("midstream") == false)
    }

    @Test(.needs(.partialIndexes)) func anIndexMayNameItsTableWithItsSchema() throws {
        let indexes = "CREATE INDEX i ON t(a) WHERE main.t.b > 0; CREATE UNIQUE INDEX u ON t('a') WHERE b > 0;"
        let after = "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT COLLATE NOCASE, b NOT NULL)"
        let (pair, plan) = try upgrade(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b); \(indexes) \(Self.thousands) INSERT INTO t SELECT i, i, i FROM n",
            to: after + ";" + indexes
        )
        #expect(plan.rebuilt.map(\.way) == [.online])
        try pair.rebuildNatively("t", after, "id, a, b", from: "id, a, b")
        try pair.finish()
    }

    /// To Swift, an accented letter equals the letter with a separate accent; to SQLite it does not.
    @Test(
        .needs(.partialIndexes),
        arguments: [
            "CREATE TABLE t(a TEXT DEFAULT 'é')", "CREATE TABLE t(a TEXT, CHECK (a <> 'é'))",
            "CREATE TABLE t(a TEXT); CREATE VIEW v AS SELECT 'é' AS a FROM t", "CREATE TABLE t(a TEXT, é)",
            "CREATE TABLE t(a TEXT); CREATE INDEX i ON t(a) WHERE a = 'é'",
        ]
    )
    func textsAreComparedByTheirBytes(_ schema: String) throws {
        let changed = DatabaseSchema(sql: schema.replacing("é", with: "e\u{301}"))
        let pair = try UpgradePair(schema)
        #expect(try pair.database.plan(for: DatabaseSchema(sql: schema)).isEmpty)
        #expect(try !pair.database.upgrade(to: changed).isEmpty)
        let texts = try rows(pair, "SELECT 1 FROM sqlite_master WHERE instr(CAST(sql AS BLOB), x'65CC81')")
        #expect(texts == ["1"])
        #expect(try pair.database.plan(for: changed).isEmpty)
    }

    @Test func aNewKeyIsTheRowIDAndNoColumnOfThatName() throws {
        let (pair, _) = try upgrade(
            "CREATE TABLE t(rowid INTEGER, x); INSERT INTO t VALUES (7, 'a'), (7, 'b')",
            to: "CREATE TABLE t(rowid INTEGER, x, id INTEGER PRIMARY KEY)"
        )
        try finishMigration(pair.database)
        #expect(try rows(pair, "SELECT id, rowid, x FROM t ORDER BY id") == ["1|7|a", "2|7|b"])
    }
}
