import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// If a table has triggers for INSERT, it begins to move only when the filter has said whether the moved rows fire
/// them.
@Suite struct TriggerChoiceTests {
    private static let schema = "CREATE TABLE messages(id INTEGER PRIMARY KEY, body TEXT);"
    private static let rows = """
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
        INSERT INTO messages SELECT i, 'word' || i || ' common' FROM n;
        """
    private static let index = """
        CREATE VIRTUAL TABLE f USING fts5(body, content='messages', content_rowid='id');
        CREATE TRIGGER added AFTER INSERT ON messages BEGIN INSERT INTO f(rowid, body) VALUES (NEW.id, NEW.body); END;
        CREATE TRIGGER removed AFTER DELETE ON messages BEGIN
            INSERT INTO f(f, rowid, body) VALUES ('delete', OLD.id, OLD.body); END;
        CREATE TRIGGER changed AFTER UPDATE ON messages BEGIN
            INSERT INTO f(f, rowid, body) VALUES ('delete', OLD.id, OLD.body);
            INSERT INTO f(rowid, body) VALUES (NEW.id, NEW.body); END;
        """
    /// What the index contains if it came with the source.
    private static let filling = """
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
        INSERT INTO f(rowid, body) SELECT i, 'word' || i || ' common' FROM n;
        """

    private static func begin(_ database: Database, _ source: String, fires: Bool?) throws {
        try database.addMigration(source: .file(source)) { table in
            guard table.name == "messages" else { return }
            table.sourceTable = "messages"
            table.firesTriggers = fires
        }
    }

    /// A source with rows; a target with the given objects; and the same natively, filled after the triggers were made.
    private struct Files {
        let folder = TemporaryFolder()
        let native: Connection
        let database: Database
        var source: String { folder.file("old.db") }
        var target: String { folder.file("new.db") }

        init(_ extra: String) throws {
            let old = try Connection(path: folder.file("old.db"))
            try old.execute(script: TriggerChoiceTests.schema + TriggerChoiceTests.rows)
            old.close()
            native = try Connection(path: folder.file("plain.db"))
            try native.execute(script: TriggerChoiceTests.schema + extra)
            database = try Database(path: folder.file("new.db"))
            try database.execute(TriggerChoiceTests.schema + extra)
        }
    }

    @Test(.enabled(if: SQLiteFeature.fullText5.isAvailable)) func aFullTextTableIsAskedAboutAndNothingIsStored() throws
    {
        let files = try Files(Self.index)
        let before = try [files.source, files.target].map(MovingFixture.objects)
        let error = #expect(throws: MigrationError.self) { try Self.begin(files.database, files.source, fires: nil) }
        #expect(error?.code == .triggersUndecided && error?.table == "messages")
        for words in ["(added)", "firesTriggers = true", "firesTriggers = false"] {
            #expect(error?.message.contains(words) == true, "\(words)")
        }
        #expect(try [files.source, files.target].map(MovingFixture.objects) == before)
        #expect(files.database.isMigrated)
    }

    /// Whatever the filter says, searches and writes of rows that have come act as with an index that was kept from the
    /// start.
    @Test(.enabled(if: SQLiteFeature.fullText5.isAvailable), arguments: [true, false])
    func whatIsSaidIsDone(_ fires: Bool) throws {
        let files = try Files(Self.index)
        let database = files.database
        try files.native.execute(script: Self.rows)
        if !fires { try database.execute(Self.filling) }
        try Self.begin(database, files.source, fires: fires)
        try database.stepMigration(rows: 10)
        for sql in [
            "UPDATE messages SET body = 'new words' WHERE id IN (3, 30)", "DELETE FROM messages WHERE id IN (4, 31)",
            "INSERT INTO messages VALUES (41, 'word41 common')",
        ] {
            try files.native.execute(sql)
            try database.execute(sql)
        }
        try finishMigration(database)
        for sql in [
            "SELECT rowid FROM f WHERE f MATCH 'common' ORDER BY rowid", "SELECT rowid FROM f WHERE f MATCH 'new'",
            "SELECT rowid, body FROM f WHERE f MATCH 'word30 OR word31 OR word32'",
        ] {
            #expect(try texts(database.fetchAll(sql)) == texts(files.native.fetchAll(sql)), "\(sql)")
        }
        try database.execute("INSERT INTO f(f) VALUES ('integrity-check')")
    }

    @Test(arguments: [
        "CREATE TRIGGER a AFTER INSERT ON messages WHEN NEW.id > 100 BEGIN SELECT 1; END",
        "CREATE TRIGGER a BEFORE INSERT ON messages BEGIN SELECT RAISE(ABORT, 'no') WHERE NEW.body IS NULL; END",
        "CREATE TRIGGER \"on\" INSERT ON \"Messages\" BEGIN SELECT 1; END",
    ])
    func everyTriggerForInsertIsAskedAbout(_ trigger: String) throws {
        let files = try Files(trigger)
        let error = #expect(throws: MigrationError.self) { try Self.begin(files.database, files.source, fires: nil) }
        #expect(error?.code == .triggersUndecided)
        try Self.begin(files.database, files.source, fires: false)
        try finishMigration(files.database)
        #expect(try MovingFixture.count("messages", in: files.target) == 40)
    }

    @Test(arguments: [
        "CREATE TRIGGER a AFTER DELETE ON messages BEGIN SELECT 1; END",
        "CREATE TRIGGER a BEFORE UPDATE OF body ON messages BEGIN INSERT INTO messages VALUES (NULL, 'x'); END",
        "CREATE TABLE other(x); CREATE TRIGGER a AFTER INSERT ON other BEGIN SELECT 1; END",
        "CREATE VIEW v AS SELECT * FROM messages; CREATE TRIGGER a INSTEAD OF INSERT ON v BEGIN SELECT 1; END",
        "CREATE TEMP TRIGGER a AFTER INSERT ON messages BEGIN SELECT 1; END",
    ])
    func noOtherIs(_ trigger: String) throws {
        let files = try Files(trigger)
        try Self.begin(files.database, files.source, fires: nil)
        try finishMigration(files.database)
        #expect(try MovingFixture.count("messages", in: files.target) == 40)
    }

    /// A trigger that is created while rows move does not fire for moved rows. A later call need not say so.
    @Test func whatMovesOrHasMovedIsNotAskedAbout() throws {
        let files = try Files("CREATE TABLE log(id)")
        let database = files.database
        try Self.begin(database, files.source, fires: nil)
        try database.stepMigration(rows: 10)
        try database.execute("CREATE TRIGGER a AFTER INSERT ON messages BEGIN INSERT INTO log VALUES (NEW.id); END")
        try Self.begin(database, files.source, fires: nil)
        try finishMigration(database)
        try Self.begin(database, files.source, fires: nil)
        #expect(try MovingFixture.count("log", in: files.target) == 0)
        #expect(try MovingFixture.count("messages", in: files.target) == 40)
    }

    /// What a whole file's triggers have written for its rows moves as rows, too.
    @Test func aWholeFileFiresNone() throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(
            script: Self.schema + "CREATE TABLE log(id INTEGER PRIMARY KEY);"
                + "CREATE TRIGGER a AFTER INSERT ON messages BEGIN INSERT INTO log VALUES (NEW.id); END;" + Self.rows
        )
        old.close()
        let database = try Database(path: folder.file("new.db"), movingAllOf: .file(folder.file("old.db")))
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM log") == 40)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM messages") == 40)
    }
}
