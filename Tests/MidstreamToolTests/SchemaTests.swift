import SQLiteConnection
import Testing

/// What `migrate` does with objects that belong to tables: indexes, triggers, views, and virtual tables.
@Suite struct SchemaTests {
    private let folder = TestFolder()
    private var old: String { folder.file("old.db") }
    private var new: String { folder.file("new.db") }

    private static let schema = """
        CREATE TABLE messages(id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT, n INT DEFAULT 7);
        CREATE INDEX by_body ON messages(body); CREATE TABLE log(id);
        CREATE VIEW recent AS SELECT * FROM messages WHERE id > 10;
        CREATE VIRTUAL TABLE words USING fts4(body);
        CREATE TRIGGER fill AFTER INSERT ON messages BEGIN INSERT INTO words(docid, body) VALUES (NEW.id, NEW.body); END;
        CREATE TRIGGER note AFTER DELETE ON messages BEGIN INSERT INTO log VALUES (OLD.id); END;
        CREATE TRIGGER raise BEFORE UPDATE OF n ON messages WHEN NEW.n < 0 BEGIN SELECT RAISE(ABORT, 'n'); END;
        CREATE TRIGGER ending AFTER DELETE ON log BEGIN DELETE FROM messages WHERE id = OLD.id; END;
        INSERT INTO messages(body) VALUES ('one'), ('two'), ('three'); INSERT INTO messages VALUES (100, 'gone', 1);
        DELETE FROM messages WHERE id = 100; DELETE FROM words WHERE docid = 100;
        PRAGMA user_version = 17; PRAGMA application_id = 5;
        """

    private func run(_ arguments: String...) throws -> Subprocess.Result {
        try Subprocess.run(BuiltTool.path, arguments)
    }

    private func schema(_ name: String) throws -> SQLiteValue? {
        try folder.value(
            name,
            "SELECT group_concat(type || name || coalesce(sql, ''), char(10)) FROM (SELECT * FROM sqlite_master ORDER BY type, name)"
        )
    }

    @Test func allTablesAreTheWholeSchema() throws {
        try folder.database("old.db", Self.schema)
        try folder.database("native.db", Self.schema)
        let result = try run("migrate", new, "--source", old, "--all-tables")
        #expect(result.status == 0, "\(result.error)")
        #expect(!result.output.contains("Not moved"), "\(result.output)")
        #expect(try schema("new.db") == schema("native.db"))
        for (query, value) in [
            ("PRAGMA user_version", 17), ("PRAGMA application_id", 5), ("SELECT seq FROM sqlite_sequence", 100),
            ("SELECT count(*) FROM log", 1), ("SELECT count(*) FROM messages", 3),
            ("SELECT docid FROM words WHERE words MATCH 'two'", 2), ("SELECT count(*) FROM words", 3),
        ] as [(String, Int64)] {
            #expect(try folder.value("new.db", query) == .integer(value), "\(query)")
        }
        #expect(try folder.value("new.db", "INSERT INTO messages(body) VALUES ('four') ") == nil)
        #expect(try folder.value("new.db", "SELECT docid FROM words WHERE words MATCH 'four'") == .integer(101))
        #expect(try folder.value("new.db", "PRAGMA integrity_check") == .text("ok"))
        // The second time, there is nothing to do.
        let again = try run("migrate", new, "--source", old, "--all-tables")
        #expect(again.status == 0 && again.output == "There is nothing to move.\n", "\(again)")
    }

    @Test func allTablesGoIntoAnEmptyFileButNotIntoOneThatHasTables() throws {
        try folder.database("old.db", Self.schema)
        try folder.database("new.db", "CREATE TABLE messages(id INTEGER PRIMARY KEY)")
        let before = try schema("old.db")
        let refused = try run("migrate", new, "--source", old, "--all-tables")
        #expect(refused.status == 1)
        for name in ["table log", "view recent", "virtual table words", "trigger note", "user_version"] {
            #expect(refused.error.contains(name), "\(refused.error)")
        }
        #expect(try schema("old.db") == before)
        try folder.database("empty.db", "CREATE TABLE x(y); DROP TABLE x;")
        let result = try run("migrate", folder.file("empty.db"), "--source", old, "--all-tables")
        #expect(result.status == 0, "\(result.error)")
        #expect(try folder.value("empty.db", "SELECT count(*) FROM messages") == .integer(3))
    }

    @Test(arguments: [["--where", "id > 1"], ["--map", "log.id=id"], ["--ignore-unmatched"], ["--fire-triggers"]])
    func optionsOfSingleTablesAreRefusedWithAllTables(_ options: [String]) throws {
        let result = try Subprocess.run(
            BuiltTool.path,
            ["migrate", new, "--source", old, "--all-tables"] + options
        )
        #expect(result.status == 64)
        #expect(result.error.contains("\(options[0]) is for single tables") && result.error.contains("--table"))
    }

    @Test func aTableBringsItsTriggersAndWhatStaysIsNamed() throws {
        try folder.database("old.db", Self.schema)
        let result = try run("migrate", new, "--source", old, "--table", "messages")
        #expect(result.status == 0, "\(result.error)")
        #expect(
            result.output.contains(
                "Not moved, and still in \(old): view recent, virtual table words, trigger fill, trigger note, trigger ending."
            ),
            "\(result.output)"
        )
        #expect(
            try folder.value("new.db", "SELECT group_concat(name) FROM (SELECT name FROM sqlite_master ORDER BY 1)")
                == .text("by_body,messages,raise,sqlite_sequence")
        )
        // An object that only the source's table has is not dropped.
        #expect(
            result.output.contains("source table messages stays: trigger fill, trigger note would be dropped"),
            "\(result.output)"
        )
        #expect(try folder.value("old.db", "SELECT count(*) FROM messages") == .integer(3))
        let given = try run(
            "migrate",
            new,
            "--source",
            old,
            "--table",
            "messages",
            "--give-up",
            "fill",
            "--give-up",
            "note"
        )
        #expect(given.status == 0, "\(given.error)")
        #expect(try folder.value("old.db", "SELECT count(*) FROM messages") == .integer(0))
    }

    @Test func triggersComeWhoseOtherTablesComeAsWell() throws {
        try folder.database("old.db", Self.schema)
        let result = try run("migrate", new, "--source", old, "--table", "m=messages", "--table", "log", "--json")
        #expect(result.status == 0, "\(result.error)")
        #expect(
            try folder.value(
                "new.db",
                "SELECT group_concat(name) FROM (SELECT name FROM sqlite_master WHERE type = 'trigger' ORDER BY 1)"
            )
                == .text("note,raise")
        )
        #expect(result.output.contains(#""left":[{"type":"view","name":"recent"}"#), "\(result.output)")
        _ = try folder.value("new.db", "DELETE FROM m WHERE id = 2")
        #expect(try folder.value("new.db", "SELECT max(id) FROM log WHERE id = 2") == .integer(2))
    }

    @Test func triggersOfATableMoveWithinAFile() throws {
        try folder.database("new.db", Self.schema + "DROP TRIGGER ending; DROP VIEW recent;")
        let result = try run("migrate", new, "--source", new, "--table", "m=messages")
        #expect(result.status == 0, "\(result.error)")
        #expect(
            try folder.value(
                "new.db",
                "SELECT group_concat(name || tbl_name) FROM (SELECT * FROM sqlite_master WHERE type = 'trigger' ORDER BY 1)"
            ) == .text("m_fillm,m_notem,m_raisem")
        )
        #expect(try folder.value("new.db", "SELECT count(*) FROM sqlite_master WHERE name = 'messages'") == .integer(0))
        #expect(!result.output.contains("Not moved"), "\(result.output)")
    }

    @Test func aNameThatIsGivenUpAndNotThereIsTold() throws {
        try folder.database("old.db", Self.schema)
        let names = ["NOTE", "recent", "words", "messages", "user_version", "nite"].flatMap { ["--give-up", $0] }
        let arguments = ["migrate", new, "--source", old, "--table", "log", "--dry-run"]
        let result = try Subprocess.run(BuiltTool.path, arguments + names)
        #expect(result.status == 0)
        #expect(result.error == "midstream: --give-up nite: there is nothing of that name in \(old)\n")
    }

    @Test func aTriggerThatIsGivenUpDoesNotStay() throws {
        try folder.database("old.db", Self.schema + "DROP TRIGGER ending; DROP TRIGGER fill; DROP VIEW recent;")
        let arguments = ["migrate", new, "--source", old, "--table", "messages", "--give-up", "note"]
        for option in [["--dry-run"], []] {
            let result = try Subprocess.run(BuiltTool.path, arguments + option)
            #expect(result.status == 0 && !result.output.contains("trigger note"), "\(result)")
        }
        #expect(try folder.value("old.db", "SELECT count(*) FROM sqlite_master WHERE name = 'note'") == .integer(0))
    }

    /// A table that was added to the source after all rows had moved has no place in the target.
    @Test(arguments: [["--keep-source"], []]) func aTableThatCameLaterIsGivenUp(_ options: [String]) throws {
        try folder.database("old.db", Self.schema)
        let arguments = ["migrate", new, "--source", old, "--all-tables"]
        #expect(try Subprocess.run(BuiltTool.path, arguments + ["--keep-source"]).status == 0)
        _ = try folder.value("old.db", "CREATE TABLE late(a)")
        let refused = try Subprocess.run(BuiltTool.path, arguments + options)
        #expect(refused.status == 1 && refused.error.contains(": table late"), "\(refused)")
        #expect(refused.error.contains("lacks some of the content of"), "\(refused)")
        #expect(refused.error.hasSuffix("Create that there, or name it by --give-up NAME\n"), "\(refused)")
        for option in [["--dry-run"], []] {
            let given = try Subprocess.run(BuiltTool.path, arguments + options + ["--give-up", "late"] + option)
            #expect(given.status == 0 && !given.output.contains("Not moved"), "\(given)")
            #expect(given.output.contains("log: table log of \(old) has moved already") == !option.isEmpty, "\(given)")
        }
    }

    // MARK: Tables that are named

    @Test func aNamedTableMovesOrIsRefused() throws {
        try folder.database("old.db", Self.schema)
        try folder.database(
            "new.db",
            "CREATE TABLE log(id); CREATE VIRTUAL TABLE words USING fts4(body); CREATE VIEW v AS SELECT 1; "
                + "CREATE INDEX i ON log(id)"
        )
        let before = try folder.dump("old.db")
        for (table, message) in [
            ("words", "words is a virtual table of the target"), ("words_content", "words_content is a table that"),
            ("v=log", "v is the name of a view of the target"), ("i=log", "i is the name of an index of the target"),
        ] {
            for option in [["--dry-run"], []] {
                let arguments = ["migrate", new, "--source", old, "--table", "log", "--table", table] + option
                let result = try Subprocess.run(BuiltTool.path, arguments)
                #expect(result.status == 1 && result.error.contains(message), "\(result)")
            }
        }
        #expect(try folder.dump("old.db") == before)
    }

    @Test func aTableThatHasMovedIsSaidTo() throws {
        try folder.database("old.db", Self.schema)
        let arguments = ["migrate", new, "--source", old, "--table", "log", "--keep-source"]
        #expect(try Subprocess.run(BuiltTool.path, arguments).status == 0)
        let rehearsal = try Subprocess.run(BuiltTool.path, arguments + ["--table", "messages", "--dry-run"])
        #expect(rehearsal.output.contains("log: table log of \(old) has moved already\n"), "\(rehearsal)")
        #expect(rehearsal.output.contains("messages: table messages of \(old) can move\n"), "\(rehearsal)")
        let again = try Subprocess.run(BuiltTool.path, arguments)
        #expect(again.status == 0 && again.output.hasPrefix("log: table log of \(old) has moved already\n"), "\(again)")
        let json = try Subprocess.run(BuiltTool.path, arguments + ["--json"])
        #expect(json.output.contains(#""movedBefore":["log"]"#), "\(json)")
    }

    /// The rehearsal asks for what the table's migration began with.
    @Test func aRehearsalOfATableThatMovesSaysSo() throws {
        try folder.database("old.db", Self.schema)
        let arguments = [new, "--source", old, "--table", "messages"]
        #expect(try Subprocess.run(BuiltTool.path, ["sql"] + arguments + [".step rows 1"]).status == 0)
        let result = try Subprocess.run(BuiltTool.path, ["migrate"] + arguments + ["--dry-run", "--json"])
        #expect(result.status == 0 && result.output.contains(#""state":"moving""#), "\(result)")
        let kept = try Subprocess.run(BuiltTool.path, ["migrate"] + arguments + ["--dry-run", "--keep-source"])
        #expect(kept.status == 1 && kept.error.contains("and now --keep-source was asked for"), "\(kept)")
    }

    // MARK: Rehearsals

    @Test(arguments: [
        ["--all-tables"], ["--table", "messages"], ["--table", "m=messages", "--table", "log", "--where", "id > 1"],
    ])
    func aRehearsalChangesNothing(_ options: [String]) throws {
        try folder.database("old.db", Self.schema)
        let before = try folder.dump("old.db")
        let result = try Subprocess.run(BuiltTool.path, ["migrate", new, "--source", old, "--dry-run"] + options)
        #expect(result.status == 0, "\(result.error)")
        #expect(
            result.output.contains("table messages of \(old) can move")
                && result.output.hasSuffix("Nothing has been changed.\n")
        )
        #expect(
            result.output.contains("Would stay in \(old): view recent") == (options[0] == "--table"),
            "\(result.output)"
        )
        #expect(folder.names == ["old.db"])
        #expect(try folder.dump("old.db") == before)
        let moved = try Subprocess.run(BuiltTool.path, ["migrate", new, "--source", old] + options)
        #expect(moved.status == 0, "\(moved.error)")
    }

    @Test func aRehearsalIsRefusedForTheSameReasons() throws {
        try folder.database("old.db", Self.schema + "CREATE TABLE w(rowid, oid, _rowid_);")
        try folder.database(
            "new.db",
            "CREATE TABLE messages(id INTEGER PRIMARY KEY, body, n, more); CREATE TABLE log(id);"
        )
        let (first, second) = (try folder.dump("old.db"), try folder.dump("new.db"))
        for options in [
            ["--all-tables"], ["--table", "messages"], ["--table", "log", "--where", "nothing > 1"], ["--table", "w"],
            ["--table", "nothing"], ["--table", "log", "--table", "w"],
        ] {
            let arguments = ["migrate", new, "--source", old] + options
            let rehearsal = try Subprocess.run(BuiltTool.path, arguments + ["--dry-run"])
            #expect(rehearsal.status == 1, "\(options)")
            #expect(try folder.dump("old.db") == first && folder.dump("new.db") == second)
            #expect(rehearsal.error == (try Subprocess.run(BuiltTool.path, arguments)).error)
            #expect(try folder.dump("old.db") == first && folder.dump("new.db") == second)
        }
        let log = try run("migrate", new, "--source", old, "--table", "log", "--dry-run")
        #expect(log.status == 0, "\(log.error)")
        #expect(try run("migrate", new, "--dry-run").status == 64)
    }
}
