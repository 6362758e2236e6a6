import Midstream
import SQLiteConnection
import Testing

// The code of Docs/Upgrades.md, sections 4 to 6.

private func upgradesFromVersionNumbers() -> SchemaUpgrades {
    var upgrades = SchemaUpgrades()
    upgrades.add("1", version: 1) { access in
        try access.execute(
            """
            CREATE TABLE messages(id INTEGER PRIMARY KEY, body TEXT);
            CREATE TABLE settings(key TEXT PRIMARY KEY, value);
            """
        )
    }
    upgrades.add("2", version: 2) { access in
        try access.rebuild("messages") { table in
            table.schema = "CREATE TABLE messages(id INTEGER PRIMARY KEY, body TEXT NOT NULL, sent REAL)"
            table.columns["body"] = .expression("coalesce(body, '')")
            table.columns["sent"] = .defaultValue
        }
    }
    upgrades.add("3", version: 3) { access in
        try access.rebuild("messages") { table in
            table.schema = "CREATE TABLE messages(id INTEGER PRIMARY KEY, text TEXT NOT NULL, sent REAL)"
            table.columns["text"] = .column("body")
            table.indexes.append("CREATE INDEX messages_by_time ON messages(sent)")
        }
    }
    // This is needed only for a version that is kept elsewhere than in PRAGMA user_version.
    upgrades.versionBefore = { access in
        let tables = "SELECT count(*) FROM sqlite_master WHERE name = 'settings'"
        guard try access.fetchValue(Int.self, tables) == 1 else { return nil }
        return try access.fetchValue(
            Int64.self,
            "SELECT CAST(value AS INTEGER) FROM settings WHERE key = 'db_version'"
        )
    }
    return upgrades
}

private func upgradesFromNamedMigrations() -> SchemaUpgrades {
    var upgrades = SchemaUpgrades()
    upgrades.add("createMessages") { access in
        try access.execute("CREATE TABLE messages(id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT)")
    }
    upgrades.add("addAuthor") { access in
        try access.execute("ALTER TABLE messages ADD COLUMN author TEXT")
    }
    // This step is new with Midstream.
    upgrades.add("authorIsRequired") { access in
        try access.rebuild("messages") { table in
            table.schema = """
                CREATE TABLE messages(id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT, author TEXT NOT NULL)
                """
            table.columns["author"] = .expression("coalesce(author, 'unknown')")
        }
    }
    return upgrades
}

private struct Person: Codable {
    var id: Int64?
    var name: String
    var email: String?
    var age: Int
}

private struct Note: Codable {
    var id: Int64?
    var person: Int64
    var text: String
}

private func declaredSchema() throws -> (DatabaseSchema, SchemaOptions) {
    var people = try TableDescription("people", of: Person.self, primaryKey: ["id"])
    people["age"]?.defaultValue = .integer(0)
    people["email"]?.isUnique = true
    var notes = try TableDescription("notes", of: Note.self, primaryKey: ["id"])
    notes["person"]?.references = "people(id) ON DELETE CASCADE"
    notes.indexes = [IndexDescription("notes_by_person", on: ["person"])]
    var options = SchemaOptions()
    options.renamedColumns = ["notes": ["content": "text"]]
    options.columns = ["notes": ["text": .expression("coalesce(content, '')")]]
    return (DatabaseSchema([people, notes]), options)
}

/// The guide's examples do what the guide says.
@Suite struct UpgradeGuideTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.file("app.db") }

    private func open(_ sql: String) throws -> Database {
        let connection = try Connection(path: path)
        try connection.execute(script: sql)
        connection.close()
        return try Database(path: path)
    }

    @Test(arguments: ["", "PRAGMA user_version = 1", "INSERT INTO settings VALUES ('db_version', '1')"])
    func aChainOfVersionNumbers(_ version: String) throws {
        let old = """
            CREATE TABLE messages(id INTEGER PRIMARY KEY, body TEXT); CREATE TABLE settings(key TEXT PRIMARY KEY, value);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
            INSERT INTO messages SELECT i, nullif('m' || i, 'm3') FROM n;
            """
        let database = try open(version.isEmpty ? "" : old + version)
        let steps = try database.upgrade(upgradesFromVersionNumbers()).steps
        #expect(steps == (version.isEmpty ? ["1", "2", "3"] : ["2", "3"]))
        let rows = "SELECT id, text, sent FROM messages WHERE id IN (3, 2999) ORDER BY id"
        #expect(texts(try database.fetchAll(rows)) == (version.isEmpty ? [] : ["3||NULL", "2999|m2999|NULL"]))
        try finishMigration(database)
        #expect(texts(try database.fetchAll(rows)) == (version.isEmpty ? [] : ["3||NULL", "2999|m2999|NULL"]))
        #expect(try database.fetchValue(Int.self, "PRAGMA user_version") == 3)
    }

    @Test func namedMigrations() throws {
        let database = try open(
            """
            CREATE TABLE grdb_migrations(identifier TEXT NOT NULL PRIMARY KEY);
            INSERT INTO grdb_migrations VALUES ('createMessages'), ('addAuthor');
            CREATE TABLE "messages" ("id" INTEGER PRIMARY KEY AUTOINCREMENT, "body" TEXT);
            ALTER TABLE messages ADD COLUMN author TEXT;
            INSERT INTO messages(body, author) VALUES ('a', 'x'), ('b', NULL);
            """
        )
        #expect(try database.upgrade(upgradesFromNamedMigrations()).steps == ["authorIsRequired"])
        #expect(texts(try database.fetchAll("SELECT * FROM messages")) == ["1|a|x", "2|b|unknown"])
    }

    @Test func modelTypes() throws {
        let database = try open(
            """
            CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT NOT NULL);
            CREATE TABLE notes(id INTEGER PRIMARY KEY, person INTEGER, content TEXT);
            INSERT INTO people VALUES (1, 'Ann'); INSERT INTO notes VALUES (1, 1, NULL);
            """
        )
        let (schema, options) = try declaredSchema()
        let plan = try database.upgrade(to: schema, options: options)
        #expect(plan.changes.map(\.name).sorted() == ["notes", "people"])
        #expect(try database.plan(for: schema, options: options).isEmpty)
        #expect(texts(try database.fetchAll("SELECT id, person, text FROM notes")) == ["1|1|"])
        #expect(try database.fetchAll(Person.self, "SELECT * FROM people").map(\.age) == [0])
        // The next version, with the same options.
        let next = DatabaseSchema(
            sql: schema.statements.joined(separator: ";").replacing(
                "\"text\" TEXT",
                with: "\"text\" TEXT CHECK (text <> 'x')"
            )
        )
        #expect(try database.upgrade(to: next, options: options).changes.map(\.name) == ["notes"])
        #expect(texts(try database.fetchAll("SELECT id, person, text FROM notes")) == ["1|1|"])
    }

    @Test func aForgottenMappingIsToldOfBeforeAnythingIsDone() throws {
        let database = try open(
            """
            CREATE TABLE notes(id INTEGER PRIMARY KEY, person INTEGER, content TEXT);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
            INSERT INTO notes SELECT i, 1, CASE WHEN i % 1000 > 0 THEN 'n' END FROM n;
            """
        )
        let (schema, declared) = try declaredSchema()
        var options = declared
        options.columns = [:]
        for act in [database.plan(for:options:), database.upgrade(to:options:)] {
            let error = #expect(throws: MigrationError.self) { _ = try act(schema, options) }
            #expect(error?.code == .rowRefused && error?.table == "notes" && error?.key == 1000)
            let words =
                "3 rows of table notes (rowids 1000, 2000, 3000) do not fit the table's new shape: NULL in column text"
            #expect(error?.message.hasPrefix(words) == true, "\(String(describing: error))")
        }
        #expect(try database.fetchValue(Int.self, "SELECT count(content) FROM notes") == 2997)
        #expect(database.isMigrated)
        try database.upgrade(to: schema, options: declared)
        try finishMigration(database)
        let counts = "SELECT count(*), sum(text = ''), sum(text = 'n') FROM notes"
        #expect(texts(try database.fetchAll(counts)) == ["3000|3|2997"])
    }

    @Test func theGuideHasThisCode() throws {
        let source = String(decoding: Files.bytes(#filePath), as: UTF8.self)
        let folder = #filePath.split(separator: "/").dropLast(4).joined(separator: "/")
        let guide = String(decoding: Files.bytes("/\(folder)/Docs/Upgrades.md"), as: UTF8.self)
        func words(_ text: some StringProtocol) -> String {
            String(text).replacing("private ", with: "").split { $0.isWhitespace }.joined(separator: " ")
        }
        let own = words(source)
        let start = try #require(guide.ranges(of: "\n## 4. ").first?.upperBound)
        let end = try #require(guide.ranges(of: "\n## 7. ").first?.lowerBound)
        let blocks = guide[start..<end].split(separator: "```swift\n").dropFirst().map { $0.split(separator: "```")[0] }
        #expect(blocks.count == 3)
        for block in blocks { #expect(own.contains(words(block)), "\(block)") }
    }
}
