import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// Files that are brought to a declared schema.
@Suite struct DeclaredSchemaTests {
    private static let first = """
        CREATE TABLE messages(id INTEGER PRIMARY KEY, body TEXT, date TEXT);
        CREATE INDEX by_date ON messages(date);
        CREATE TABLE drafts(body);
        CREATE VIEW bodies AS SELECT body FROM messages;
        CREATE TRIGGER noted AFTER INSERT ON drafts BEGIN INSERT INTO messages(body) VALUES (NEW.body); END;
        """

    private static let rows = """
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
        INSERT INTO messages SELECT i, 'body ' || i, 'd' || i FROM n;
        """

    private func open() throws -> UpgradePair { try UpgradePair(Self.first + Self.rows) }

    private func ways(_ plan: SchemaPlan) -> [String] {
        plan.changes.map { "\($0.name) \($0.way) \($0.summary)" }
    }

    private func plan(_ sql: String, _ change: (inout SchemaOptions) -> Void = { _ in }) throws -> SchemaPlan {
        var options = SchemaOptions()
        options.rowsChangedAtOnce = 10
        change(&options)
        let pair = try open()
        return try withExtendedLifetime(pair) {
            try pair.database.plan(for: DatabaseSchema(sql: sql), options: options)
        }
    }

    /// A view that refuses writes is left of the table. A table in its place would take rows that nobody reads.
    @Test(arguments: [false, true]) func aDeclaredTableThatHasMovedAwayIsLeftAlone(_ allowsDrops: Bool) throws {
        let folder = TemporaryFolder()
        let old = try Database(path: folder.file("old.db"))
        let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE INDEX by_v ON t(v); CREATE TABLE u(x);"
        try old.execute(schema + "INSERT INTO t VALUES (1, 1)")
        let new = try Database(path: folder.file("new.db"))
        try new.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        func add() throws {
            try new.addMigration(source: .file(old.path)) { $0.sourceTable = $0.name == "t" ? "t" : nil }
        }
        try add()
        try finishMigration(new)
        var options = SchemaOptions()
        options.allowsDrops = allowsDrops
        for sql in [schema, schema + "CREATE TABLE w(y);", "CREATE TABLE u(x);"] {
            let plan = try old.upgrade(to: DatabaseSchema(sql: sql), options: options)
            #expect(plan.movedAway == (sql.contains("TABLE t(") ? ["t"] : []))
            #expect(throws: SQLiteError.self) { try old.execute("INSERT INTO t VALUES (1, 5)") }
        }
        try add()
        #expect(try new.fetchValue(Int.self, "SELECT sum(v) FROM t") == 1)
    }

    /// The options may stay as long as some users have the former names, and the next launch gives them, too.
    @Test func optionsMayNameWhatHasMovedAway() throws {
        let folder = TemporaryFolder()
        let old = try Database(path: folder.file("old.db"))
        try old.execute(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (1, 1); CREATE TABLE extra(y); CREATE TABLE u(x)"
        )
        let new = try Database(path: folder.file("new.db"))
        try new.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        try new.addMigration(source: .file(old.path)) { $0.sourceTable = $0.name == "t" ? "t" : nil }
        try finishMigration(new)
        var options = SchemaOptions()
        options.renamedTables = ["first": "t"]
        options.renamedColumns = ["t": ["value": "v"]]
        options.columns = ["t": ["v": .expression("abs(v)")]]
        let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE u(x);"
        let plan = try old.upgrade(to: DatabaseSchema(sql: schema), options: options)
        #expect(plan.isEmpty && plan.movedAway == ["t"])
        // The table is not created anew under its next name.
        options.renamedTables = ["t": "s"]
        options.renamedColumns = ["s": ["value": "v"]]
        options.columns = ["s": ["v": .expression("abs(v)")]]
        let renamed = DatabaseSchema(sql: schema.replacing("TABLE t", with: "TABLE s"))
        let next = try old.upgrade(to: renamed, options: options)
        #expect(next.isEmpty && next.movedAway == ["s"])
        // A misspelt name is reported.
        options.renamedColumns = ["r": ["value": "v"]]
        #expect(throws: MigrationError.self) { try old.plan(for: renamed, options: options) }
        options.renamedColumns = ["s": ["value": "w"]]
        #expect(throws: MigrationError.self) { try old.plan(for: renamed, options: options) }
        #expect(throws: SQLiteError.self) { try old.execute("INSERT INTO t VALUES (1, 5)") }
    }

    @Test func whatIsThereIsNotChanged() throws {
        let other = """
            create table "MESSAGES" (ID integer not null primary key /* the key */, Date varchar(10), [body] text);
            """
        #expect(try plan(Self.first).description == "nothing to change")
        let plan = try plan(other)
        #expect(ways(plan) == ["MESSAGES rebuild rebuild, since column id is NOT NULL"])
        let same = """
            create table "MESSAGES" (ID integer primary key /* the key */, Date varchar(10), [body] text);
            create index By_Date on messages (DATE);
            """
        let unchanged = try self.plan(same)
        #expect(unchanged.isEmpty)
        #expect(unchanged.undeclared.sorted() == ["bodies", "drafts", "noted"])
    }

    /// Names that begin like the engine's own: such indexes and triggers are the application's, such tables are
    /// refused.
    @Test func namesLikeTheEnginesOwnAreNotLost() throws {
        let first = """
            CREATE TABLE t(id INTEGER PRIMARY KEY, a, u);
            CREATE UNIQUE INDEX midstream_ux ON t(u); CREATE INDEX midstream_backup_5 ON t(a);
            CREATE TABLE log(x); CREATE TABLE midstream_notes(x);
            CREATE TRIGGER midstream_sync AFTER INSERT ON t BEGIN INSERT INTO log VALUES (NEW.id); END;
            """
        let second = first.replacing("a, u", with: "a NOT NULL DEFAULT 1, u")
        for rowsAtOnce in [0, 1000] {
            let pair = try UpgradePair(
                first + "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) "
                    + "INSERT INTO t SELECT i, i, 'u' || i FROM n;"
            )
            var options = SchemaOptions()
            options.rowsChangedAtOnce = rowsAtOnce
            try pair.database.upgrade(to: DatabaseSchema(sql: second), options: options)
            func check() throws {
                #expect(throws: SQLiteError.self) { try pair.database.execute("INSERT INTO t(u) VALUES ('u30')") }
                try pair.database.execute("INSERT INTO t(u) VALUES ('new ' || hex(randomblob(8)))")
                #expect(
                    try pair.database.fetchValue(Int64.self, "SELECT max(x) FROM log")
                        == pair.database.fetchValue(Int64.self, "SELECT max(id) FROM t")
                )
            }
            try check()
            try finishMigration(pair.database)
            try check()
            let names =
                "SELECT name FROM sqlite_master WHERE type IN ('index', 'trigger') AND name LIKE 'midstream%' ORDER BY 1"
            #expect(
                texts(try pair.database.fetchAll(names)) == ["midstream_backup_5", "midstream_sync", "midstream_ux"]
            )
            #expect(try pair.database.plan(for: DatabaseSchema(sql: second)).isEmpty)
        }
        let error = #expect(throws: MigrationError.self) { _ = try plan("CREATE TABLE Midstream_refused_t(x)") }
        #expect(error?.code == .misuse && error?.table == "Midstream_refused_t")
    }

    @Test func theCheapestExactWayIsTaken() throws {
        func changed(_ from: String, _ to: String, _ change: (inout SchemaOptions) -> Void = { _ in }) throws
            -> [String]
        {
            ways(try plan(Self.first.replacing(from, with: to), change))
        }
        #expect(
            try changed("date TEXT)", "date TEXT, read INTEGER NOT NULL DEFAULT 0)") == [
                "messages statements alter, since column read comes"
            ]
        )
        #expect(
            try changed("date TEXT)", "date TEXT, code UNIQUE)") == [
                "messages rebuild rebuild, since column code comes, other UNIQUE constraints"
            ]
        )
        #expect(
            try changed("date TEXT)", "date TEXT, at DEFAULT CURRENT_TIMESTAMP)") == [
                "messages rebuild rebuild, since column at comes"
            ]
        )
        #expect(
            try changed("body TEXT", "body TEXT COLLATE NOCASE") == [
                "messages rebuild rebuild, since column body has another collation"
            ]
        )
        #expect(
            try changed("date TEXT)", "date INTEGER)") == [
                "messages rebuild rebuild, since column date has type INTEGER instead of TEXT"
            ]
        )
        #expect(try changed("(date)", "(date, id)") == ["messages rebuild rebuild, since index by_date comes"])
        #expect(
            try changed("drafts(body)", "drafts(body, more)") == ["drafts statements alter, since column more comes"]
        )
        #expect(
            try changed("drafts(body)", "drafts(body NOT NULL)") == [
                "drafts rebuild rebuild, since column body is NOT NULL"
            ]
        )
        #expect(
            try changed("SELECT body", "SELECT body AS b") == [
                "bodies statements drop, to be made anew", "bodies statements create",
            ]
        )
        #expect(
            try changed("NEW.body", "NEW.body || 1") == [
                "noted statements drop, to be made anew", "noted statements create",
            ]
        )
        #expect(try changed("CREATE INDEX by_date ON messages(date);", "") == [])
        #expect(
            try changed("CREATE INDEX by_date ON messages(date);", "") { $0.allowsDrops = true } == [
                "by_date statements drop"
            ]
        )
        #expect(try changed("", "") == [])
    }

    @Test(arguments: ["", " ; -- nothing", "CREATE TABLE sqlite_sequence(name, seq)"])
    func aSchemaThatDeclaresNothingIsRefused(_ sql: String) throws {
        let error = #expect(throws: MigrationError.self) { _ = try plan(sql) { $0.allowsDrops = true } }
        #expect(error?.code == .misuse && error?.message.contains("declares nothing") == true)
    }

    @Test func dropsAreMadeOnlyWhenTheyAreAllowed() throws {
        let sql = "CREATE TABLE messages(id INTEGER PRIMARY KEY, body TEXT NOT NULL)"
        let kept = try plan(sql)
        #expect(kept.changes.map(\.name) == ["messages"])
        #expect(kept.changes[0].sql[0].contains("date TEXT"))
        #expect(kept.undeclared.sorted() == ["bodies", "by_date", "drafts", "messages.date", "noted"])
        let dropped = try plan(sql) { $0.allowsDrops = true }
        #expect(
            ways(dropped) == [
                "bodies statements drop", "noted statements drop", "drafts statements drop",
                "messages rebuild rebuild, since column body is NOT NULL, column date goes",
            ]
        )
        #expect(dropped.undeclared.isEmpty)
    }

    @Test(arguments: [0, 1000]) func theFileIsAsDeclaredAfterIt(_ rows: Int) throws {
        let pair = try open()
        let sql = """
            CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE letters(
                id INTEGER PRIMARY KEY, text TEXT NOT NULL CHECK (text <> ''), author INTEGER REFERENCES people(id), date TEXT);
            CREATE INDEX by_date ON letters(date, id);
            CREATE TABLE drafts(body, more);
            CREATE VIEW bodies AS SELECT text FROM letters;
            CREATE TRIGGER noted AFTER INSERT ON drafts BEGIN INSERT INTO letters(text) VALUES (NEW.body); END;
            """
        var options = SchemaOptions()
        options.rowsChangedAtOnce = rows
        options.renamedTables = ["messages": "letters"]
        options.renamedColumns = ["letters": ["body": "text"]]
        let plan = try pair.database.upgrade(to: DatabaseSchema(sql: sql), options: options)
        #expect(plan.changes.contains { $0.name == "letters" && $0.way == .rebuild })
        #expect(try pair.database.upgrade(to: DatabaseSchema(sql: sql), options: options).isEmpty)
        // SQLite alone makes these changes.
        try pair.native.execute(
            script: "DROP VIEW bodies; DROP TRIGGER noted; ALTER TABLE messages RENAME TO old; DROP TABLE drafts;"
        )
        try pair.native.execute("DROP INDEX by_date")
        try pair.native.execute(script: sql)
        try pair.native.execute(
            script: "INSERT INTO letters(id, text, date) SELECT id, body, date FROM old; DROP TABLE old;"
        )
        for sql in [
            "INSERT INTO drafts(body) VALUES ('d')", "UPDATE letters SET author = 3 WHERE date = 'd7'",
            "INSERT INTO letters(text) VALUES ('')", "DELETE FROM letters WHERE id > 30",
        ] {
            try pair.execute(sql)
            try pair.database.stepMigration(rows: 5)
        }
        try finishMigration(pair.database)
        pair.expectSame()
    }

    @Test func aTableThatMovesIsRebuiltAndNotDrained() throws {
        let pair = try open()
        var options = SchemaOptions()
        options.rowsChangedAtOnce = 0
        let sql = "CREATE TABLE messages(id INTEGER PRIMARY KEY, body TEXT NOT NULL, date TEXT)"
        try pair.database.upgrade(to: DatabaseSchema(sql: sql), options: options)
        try pair.database.stepMigration(rows: 5)
        let again = "CREATE TABLE messages(id INTEGER PRIMARY KEY, body TEXT NOT NULL, date TEXT, flag DEFAULT 1)"
        let plan = try pair.database.upgrade(to: DatabaseSchema(sql: again), options: options)
        #expect(plan.changes.map(\.way) == [.rebuild])
        #expect(pair.database.migrationStatistics.drained.isEmpty)
        #expect(try pair.database.fetchValue(Int.self, "SELECT sum(flag) FROM messages") == 40)
        try finishMigration(pair.database)
        #expect(try pair.database.fetchValue(Int.self, "SELECT sum(flag) FROM messages") == 40)
    }

    /// In a table without rows, no row lacks a value.
    @Test(arguments: [0, 1000]) func anEmptyTableGetsAColumnWithoutDefault(_ rows: Int) throws {
        let pair = try UpgradePair(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE INDEX by_a ON t(a); CREATE TABLE u(x); INSERT INTO u VALUES (1);"
        )
        var options = SchemaOptions()
        options.rowsChangedAtOnce = rows
        let new = "CREATE TABLE t(id INTEGER PRIMARY KEY, a, code TEXT NOT NULL)"
        let schema = DatabaseSchema(sql: new + "; CREATE INDEX by_a ON t(a); CREATE TABLE u(x)")
        let plan = try pair.database.plan(for: schema, options: options)
        #expect(ways(plan) == ["t rebuild rebuild, since column code comes"])
        #expect(plan.description.hasSuffix("\n    its rows are copied in the transaction"))
        #expect(try pair.database.upgrade(to: schema, options: options).rebuilt == plan.rebuilt)
        try pair.rebuildNatively("t", new, "id, a", from: "id, a")
        for values in ["1, 2, NULL", "1, 2, 'c'"] { try pair.execute("INSERT INTO t VALUES (\(values))") }
        let next = DatabaseSchema(sql: new.replacing(")", with: ", more NOT NULL)"))
        let error = #expect(throws: MigrationError.self) { try pair.database.upgrade(to: next, options: options) }
        #expect(error?.message.contains("say by SchemaOptions.columns") == true)
        try pair.finish()
    }

    /// A table that has no rows yet may have rows to come.
    @Test func aTableThatIsEmptyAsYetGetsNoColumnWithoutDefault() throws {
        let pair = try open()
        var options = SchemaOptions()
        options.rowsChangedAtOnce = 0
        let sql = "CREATE TABLE messages(id INTEGER PRIMARY KEY, body TEXT NOT NULL, date TEXT)"
        try pair.database.upgrade(to: DatabaseSchema(sql: sql), options: options)
        let next = DatabaseSchema(sql: sql.replacing("date TEXT)", with: "date TEXT, code NOT NULL)"))
        let error = #expect(throws: MigrationError.self) { try pair.database.upgrade(to: next, options: options) }
        #expect(error?.code == .unequalTables)
        try finishMigration(pair.database)
        #expect(try pair.database.fetchValue(Int.self, "SELECT count(*) FROM messages") == 40)
    }

    @Test func aPlanTellsHowRowsCome() throws {
        let old = "CREATE TABLE t(id INTEGER PRIMARY KEY, k INTEGER NOT NULL UNIQUE, a TEXT);"
        let rows =
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) INSERT INTO t SELECT i, i, i FROM n;"
        func words(
            _ new: String,
            after first: String? = nil,
            _ change: (inout SchemaOptions) -> Void = { _ in }
        ) throws -> String? {
            let pair = try UpgradePair(old + rows)
            var options = SchemaOptions()
            options.rowsChangedAtOnce = 0
            if let first { try pair.database.upgrade(to: DatabaseSchema(sql: first), options: options) }
            change(&options)
            let plan = try pair.database.plan(for: DatabaseSchema(sql: new), options: options)
            let done = try pair.database.upgrade(to: DatabaseSchema(sql: new), options: options)
            #expect(plan.changes.map(\.way) == [.rebuild])
            #expect(plan.rebuilt.isEmpty || plan.rebuilt == done.rebuilt)
            #expect(try pair.database.fetchValue(Int.self, "SELECT count(*) FROM t") == 40)
            let prefix = "    its rows "
            let line = plan.description.split(separator: "\n").last { $0.hasPrefix(prefix) }
            return line.map { String($0.dropFirst(prefix.count)) }
        }
        let stricter = old.replacing("a TEXT", with: "a TEXT NOT NULL")
        #expect(try words(stricter) == "move in steps")
        #expect(try words(stricter) { $0.rowsChangedAtOnce = 39 } == "move in steps")
        #expect(try words(stricter) { $0.rowsChangedAtOnce = 40 } == "are copied in the transaction")
        // Rows that are set aside need a move.
        let setAside = try words(stricter) {
            $0.rowsChangedAtOnce = 40
            $0.refusedRows = .setAside
        }
        #expect(setAside == "move in steps")
        let unique = old.replacing("a TEXT", with: "a TEXT UNIQUE")
        #expect(
            try words(unique)
                == "are copied in the transaction, since source table t has no index on (a), but the target has a unique index "
                + "there: each insert would search the whole source table. Create one in the source first"
        )
        #expect(try words(unique) { $0.rowsChangedAtOnce = 40 } == "are copied in the transaction")
        // The rehearsal has checked whether each row has a key of the new kind.
        let other = "CREATE TABLE t(id INTEGER NOT NULL UNIQUE, k INTEGER PRIMARY KEY, a TEXT);"
        #expect(try words(other) != nil)
        #expect(try words(other) { $0.rowsChangedAtOnce = 40 } == "are copied in the transaction")
        #expect(try words(old.replacing("TEXT", with: "TEXT COLLATE NOCASE"), after: stricter) != nil)
    }

    /// The columns are reported before a user's row is refused.
    @Test func columnsThatBecomeNotNullAreToldOfWhereNothingFillsThem() throws {
        let pair = try UpgradePair(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b TEXT NOT NULL, old TEXT); INSERT INTO t VALUES (1, 'a', 'b', 'c')"
        )
        let schema = DatabaseSchema(
            sql: "CREATE TABLE t(ID INTEGER PRIMARY KEY NOT NULL, A TEXT NOT NULL, b TEXT NOT NULL, new TEXT NOT NULL)"
        )
        var options = SchemaOptions()
        options.renamedColumns = ["t": ["old": "new"]]
        func plan() throws -> SchemaPlan { try pair.database.plan(for: schema, options: options) }
        #expect(try plan().changes.flatMap(\.unfilledColumns) == ["A", "new"])
        let words = "\n    rows with NULL in A do not fit, unless the column is made of something else\n"
        #expect(try plan().description.contains(words))
        options.columns = ["t": ["a": .expression("coalesce(a, '')"), "new": .expression("coalesce(old, '')")]]
        #expect(try plan().changes.flatMap(\.unfilledColumns).isEmpty)
        #expect(try !plan().description.contains("do not fit"))
    }

    @Test func whatMustBeSaidIsAskedFor() throws {
        func refused(_ sql: String) throws -> MigrationError? {
            #expect(throws: MigrationError.self) { try plan(sql) }
        }
        let new = "CREATE TABLE messages(id INTEGER PRIMARY KEY, code TEXT NOT NULL)"
        #expect(try refused(new)?.message.contains("say by SchemaOptions.columns") == true)
        #expect(try refused("INSERT INTO messages VALUES (1)")?.code == .misuse)
        #expect(try refused("CREATE TEMP TABLE t(a)")?.code == .misuse)
        #expect(throws: SQLiteError.self) { try plan("CREATE TABLE t(a") }
        let given = try plan(new) { $0.columns = ["messages": ["code": .expression("'c' || id")]] }
        #expect(given.changes.map(\.way) == [.rebuild])
    }
}
