import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// A declared schema gives tables and columns other names, and columns other values.
@Suite struct SchemaRenamesTests {
    private func options(
        tables: [String: String] = [:],
        columns: [String: [String: String]] = [:],
        _ change: (inout SchemaOptions) -> Void = { _ in }
    ) -> SchemaOptions {
        var options = SchemaOptions()
        options.allowsDrops = true
        options.rowsChangedAtOnce = 0
        options.renamedTables = tables
        options.renamedColumns = columns
        change(&options)
        return options
    }

    private func rows(_ pair: UpgradePair, _ sql: String) throws -> [String] { texts(try pair.database.fetchAll(sql)) }

    private func expectRefusal(
        _ pair: UpgradePair,
        _ sql: String,
        _ options: SchemaOptions,
        _ words: String,
        _ location: SourceLocation = #_sourceLocation
    ) {
        let error = #expect(throws: MigrationError.self, sourceLocation: location) {
            try pair.database.upgrade(to: DatabaseSchema(sql: sql), options: options)
        }
        #expect(error?.message.contains(words) == true, "\(error?.message ?? "")", sourceLocation: location)
        pair.expectSame(location)
    }

    /// The new column has nothing of the column that had its name and now has another.
    @Test(arguments: ["alter", "rebuild", "value"], ["", " NOT NULL DEFAULT ''"])
    func aNewColumnMayTakeTheNameOfARenamedOne(_ way: String, _ constraint: String) throws {
        let pair = try UpgradePair(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, title TEXT\(constraint), n TEXT); "
                + "INSERT INTO t VALUES (1, 'old 1', '7'), (2, 'old 2', '8')"
        )
        let type = way == "rebuild" ? "INTEGER" : "TEXT"
        let sql =
            "CREATE TABLE t(id INTEGER PRIMARY KEY, subject TEXT\(constraint), title TEXT\(constraint), n \(type))"
        let options = options(columns: ["t": ["title": "subject"]]) {
            if way == "value" { $0.columns = ["t": ["title": .value("x")]] }
        }
        let order = DatabaseSchema(sql: sql)
        try pair.database.upgrade(to: order, options: options)
        let title = way == "value" ? "x" : constraint.isEmpty ? "NULL" : ""
        let select = "SELECT id, subject, ifnull(title, 'NULL'), typeof(n) FROM t ORDER BY id"
        let n = way == "rebuild" ? "integer" : "text"
        #expect(try rows(pair, select) == ["1|old 1|\(title)|\(n)", "2|old 2|\(title)|\(n)"])
        try finishMigration(pair.database)
        #expect(try rows(pair, select) == ["1|old 1|\(title)|\(n)", "2|old 2|\(title)|\(n)"])
        #expect(try pair.database.upgrade(to: order, options: options).isEmpty)
    }

    /// In a declared trigger, a name means the column that the declaration gives this name, even if the trigger's text
    /// stays the same.
    @Test(.needs(.renameColumn)) func aDeclaredTriggerMayNameANewColumnOfARenamedOnesName() throws {
        let trigger = "CREATE TRIGGER tr AFTER UPDATE OF title ON t BEGIN INSERT INTO log VALUES (NEW.title); END;"
        let pair = try UpgradePair(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, title TEXT, n TEXT); CREATE TABLE log(what); \(trigger) "
                + "INSERT INTO t VALUES (1, 'old', NULL)"
        )
        let options = options(columns: ["t": ["title": "subject"]]) {
            $0.columns = ["t": ["n": .expression("coalesce(n, '')")]]
        }
        let schema = DatabaseSchema(
            sql:
                "CREATE TABLE t(id INTEGER PRIMARY KEY, subject TEXT, title TEXT, n TEXT NOT NULL); CREATE TABLE log(what); \(trigger)"
        )
        try pair.database.upgrade(to: schema, options: options)
        #expect(try pair.database.plan(for: schema, options: options).isEmpty)
        try pair.database.execute("UPDATE t SET title = 'new'; UPDATE t SET subject = 'other'")
        #expect(try rows(pair, "SELECT what FROM log") == ["new"])
    }

    /// A function may have the former name of a column.
    @Test func aMappingMayCallAFunctionOfARenamedColumnsName() throws {
        let pair = try UpgradePair("CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT); INSERT INTO t VALUES (1, 'abc')")
        let options = options(columns: ["t": ["length": "size"]]) {
            $0.columns = ["t": ["letters": .expression("length(body)")]]
        }
        let sql = "CREATE TABLE t(id INTEGER PRIMARY KEY, size INTEGER, body TEXT, letters INTEGER)"
        try pair.database.upgrade(to: DatabaseSchema(sql: sql), options: options)
        #expect(try rows(pair, "SELECT letters FROM t") == ["3"])
    }

    /// A mapping may name its table by the name before the upgrade or by the one after it.
    @Test(arguments: ["people", "persons"]) func aMappingMayNameARenamedTable(_ name: String) throws {
        let pair = try UpgradePair(
            "CREATE TABLE persons(id INTEGER PRIMARY KEY, name TEXT); INSERT INTO persons VALUES (1, 'a')"
        )
        let options = options(tables: ["persons": "people"]) {
            $0.columns = ["people": ["label": .expression("upper(\(name).name)")]]
        }
        let sql = "CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT, label TEXT)"
        try pair.database.upgrade(to: DatabaseSchema(sql: sql), options: options)
        #expect(try rows(pair, "SELECT name, label FROM people") == ["a|A"])
    }

    @Test func tablesThatTakeEachOthersNamesAreRenamedInOrder() throws {
        let pair = try UpgradePair(
            "CREATE TABLE a(x); INSERT INTO a VALUES ('a'); CREATE TABLE b(x); INSERT INTO b VALUES ('b');"
        )
        let schema = DatabaseSchema(sql: "CREATE TABLE b(x); CREATE TABLE c(x)")
        let options = options(tables: ["a": "b", "b": "c"])
        for _ in 0..<2 {
            try pair.database.upgrade(to: schema, options: options)
            #expect(try rows(pair, "SELECT b.x, c.x FROM b, c") == ["a|b"])
        }
    }

    @Test(.needs(.renameColumn)) func columnsThatTakeEachOthersNamesAreRenamedInOrder() throws {
        let pair = try UpgradePair("CREATE TABLE t(a, b); INSERT INTO t VALUES ('a', 'b');")
        let options = options(columns: ["t": ["a": "b", "b": "c"]])
        for constraint in ["", ", CHECK (b <> '')"] {
            let schema = DatabaseSchema(sql: "CREATE TABLE t(b, c\(constraint))")
            try pair.database.upgrade(to: schema, options: options)
            #expect(try rows(pair, "SELECT b, c FROM t") == ["a|b"])
        }
    }

    @Test func namesThatCannotBeGivenAreRefused() throws {
        let pair = try UpgradePair("CREATE TABLE a(x, y); INSERT INTO a VALUES (1, 2); CREATE TABLE b(x);")
        let both = "CREATE TABLE a(x, y); CREATE TABLE b(x)"
        expectRefusal(pair, both, options(tables: ["a": "b", "b": "a"]), "in a circle")
        expectRefusal(pair, both, options(columns: ["a": ["x": "y", "y": "x"]]), "in a circle")
        expectRefusal(pair, "CREATE TABLE b(x)", options(tables: ["a": "b"]), "is a table of that name")
        expectRefusal(pair, "CREATE TABLE a(y)", options(columns: ["a": ["x": "y"]]), "is a column of that name")
        expectRefusal(pair, "CREATE TABLE c(x)", options(tables: ["aa": "c"]), "there is no table aa")
        expectRefusal(pair, "CREATE TABLE a(z, y)", options(columns: ["a": ["xx": "z"]]), "there is no column xx")
        expectRefusal(pair, "CREATE TABLE c(x)", options(tables: ["a": "cc"]), "does not declare")
        expectRefusal(pair, "CREATE TABLE a(z, y)", options(columns: ["a": ["x": "zz"]]), "does not declare")
        expectRefusal(pair, both, options(columns: ["c": ["x": "y"]]), "does not declare")
        // The names are right for a file that has neither.
        let fresh = try Database(path: pair.folder.file("fresh.db"))
        try fresh.upgrade(
            to: DatabaseSchema(sql: "CREATE TABLE c(z)"),
            options: options(tables: ["a": "c"], columns: ["c": ["x": "z"]])
        )
    }

    @Test func aRenamedColumnHasItsDeclaredSpelling() throws {
        struct Note: Codable { var id: Int64?, bodyText: String? }
        for type in ["TEXT", "TEXT NOT NULL"] {
            let pair = try UpgradePair(
                "CREATE TABLE notes(id INTEGER PRIMARY KEY, content \(type)); INSERT INTO notes VALUES (1, 'a');"
            )
            let options = options(columns: ["notes": ["content": "bodyText"]])
            let schema = DatabaseSchema([try TableDescription("notes", of: Note.self, primaryKey: ["id"])])
            try pair.database.upgrade(to: schema, options: options)
            #expect(try pair.database.fetchOne(Note.self, "SELECT * FROM notes")?.bodyText == "a")
        }
    }

    @Test(.needs(.renameColumn)) func aRenamedColumnKeepsItsIndex() throws {
        let pair = try UpgradePair("CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT); CREATE INDEX i ON t(body);")
        let schema = DatabaseSchema(sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, Text TEXT); CREATE INDEX i ON t(Text)")
        let plan = try pair.database.upgrade(to: schema, options: options(columns: ["t": ["body": "Text"]]))
        #expect(plan.changes.map(\.way) == [.statements])
        #expect(try pair.database.plan(for: schema).isEmpty)
    }

    @Test func aRenamedTableKeepsItsIndex() throws {
        let pair = try UpgradePair(
            "CREATE TABLE people(name TEXT); CREATE INDEX i ON people(name); INSERT INTO people VALUES ('a');"
        )
        let schema = DatabaseSchema(sql: "CREATE TABLE Parents(name TEXT); CREATE INDEX i ON Parents(name)")
        let plan = try pair.database.upgrade(to: schema, options: options(tables: ["people": "Parents"]))
        #expect(plan.changes.map(\.summary) == ["rename table people"])
        #expect(try pair.database.plan(for: schema).isEmpty)
    }

    // MARK: Values

    private func notes() throws -> UpgradePair {
        try UpgradePair(
            "CREATE TABLE notes(id INTEGER PRIMARY KEY, content TEXT); INSERT INTO notes VALUES (1, 'a'), (2, NULL);"
        )
    }

    /// The next version has the same options and another schema. SQLite takes a name in quotes for a string if no
    /// column has it.
    @Test(arguments: ["content", "\"content\""]) func optionsServeTheNextVersionToo(_ name: String) throws {
        let pair = try notes()
        let options = options(columns: ["notes": ["content": "text"]]) {
            $0.columns = ["notes": ["text": .expression("coalesce(\(name), '')")]]
        }
        for constraint in ["", ", CHECK (length(text) < 100)"] {
            let sql = "CREATE TABLE notes(id INTEGER PRIMARY KEY, text TEXT NOT NULL\(constraint))"
            try pair.database.upgrade(to: DatabaseSchema(sql: sql), options: options)
            #expect(try rows(pair, "SELECT * FROM notes") == ["1|a", "2|"])
        }
        try finishMigration(pair.database)
        #expect(try rows(pair, "SELECT * FROM notes") == ["1|a", "2|"])
    }

    @Test func aConversionIsMadeOnce() throws {
        let pair = try UpgradePair(
            "CREATE TABLE prices(id INTEGER PRIMARY KEY, amount REAL); INSERT INTO prices VALUES (1, 12.5);"
        )
        let options = options { $0.columns = ["prices": ["amount": .expression("CAST(amount * 100 AS INTEGER)")]] }
        for more in ["", ", note COLLATE NOCASE", ", note COLLATE NOCASE, CHECK (amount >= 0)"] {
            let sql = "CREATE TABLE prices(id INTEGER PRIMARY KEY, amount INTEGER\(more))"
            try pair.database.upgrade(to: DatabaseSchema(sql: sql), options: options)
            #expect(try rows(pair, "SELECT id, amount FROM prices") == ["1|1250"])
        }
    }

    /// ALTER TABLE could rename the column, but could not convert its values.
    @Test func aRenamedColumnIsConverted() throws {
        let pair = try notes()
        let options = options(columns: ["notes": ["content": "text"]]) {
            $0.columns = ["notes": ["text": .expression("coalesce(content, '')")]]
        }
        let schema = DatabaseSchema(sql: "CREATE TABLE notes(id INTEGER PRIMARY KEY, text TEXT)")
        try pair.database.upgrade(to: schema, options: options)
        #expect(try rows(pair, "SELECT text FROM notes") == ["a", ""])
        #expect(try pair.database.upgrade(to: schema, options: options).isEmpty)
    }

    @Test(arguments: [false, true]) func triggersAndIndexesOfConvertedColumnsAreMade(_ allowsDrops: Bool) throws {
        let pair = try UpgradePair(
            """
            CREATE TABLE notes(id INTEGER PRIMARY KEY, content TEXT); CREATE TABLE log(what);
            CREATE INDEX i ON notes(content); CREATE INDEX other ON notes(content, id);
            CREATE TRIGGER tr AFTER UPDATE ON notes BEGIN INSERT INTO log VALUES (NEW.content); END;
            CREATE TRIGGER tr2 AFTER UPDATE ON notes BEGIN INSERT INTO log VALUES (NEW.id); END;
            CREATE TRIGGER tr3 AFTER DELETE ON notes BEGIN INSERT INTO log VALUES (OLD.id); END;
            INSERT INTO notes VALUES (1, 'a'), (2, NULL);
            """
        )
        let schema = DatabaseSchema(
            sql: """
                CREATE TABLE notes(id INTEGER PRIMARY KEY, text TEXT NOT NULL); CREATE TABLE log(what);
                CREATE INDEX i ON notes(text);
                CREATE TRIGGER tr AFTER UPDATE ON notes BEGIN INSERT INTO log VALUES (NEW.text); END;
                CREATE TRIGGER tr3 AFTER DELETE ON notes BEGIN INSERT INTO log VALUES (OLD.id); END;
                """
        )
        let options = options(columns: ["notes": ["content": "text"]]) {
            $0.columns = ["notes": ["text": .expression("coalesce(content, '')")]]
            // Without RENAME COLUMN, undeclared objects cannot follow the new name.
            $0.allowsDrops = allowsDrops || !SQLiteFeature.renameColumn.isAvailable
        }
        let undeclared = options.allowsDrops ? [] : ["other", "tr2"]
        #expect(try pair.database.upgrade(to: schema, options: options).undeclared.sorted() == undeclared)
        try pair.database.execute("UPDATE notes SET text = text || 'x'")
        try pair.database.execute("DELETE FROM notes WHERE id = 2")
        let logged = undeclared.isEmpty ? ["2", "ax", "x"] : ["1", "2", "2", "ax", "x"]
        #expect(try rows(pair, "SELECT what FROM log").sorted() == logged)
        #expect(try pair.database.plan(for: schema, options: options).isEmpty)
    }
}
