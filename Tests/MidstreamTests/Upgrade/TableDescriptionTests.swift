import Midstream
import MidstreamTesting
import SQLiteConnection
import SQLiteFeatures
import Testing

/// Schemas that are described in Swift, or by record types.
@Suite struct TableDescriptionTests {
    private struct Message: Codable {
        var id: Int64?
        var sender: String
        var body: String
        var sent: Double?
        var isRead: Bool
    }

    @Test func aTableIsMadeOfARecordType() throws {
        let folder = TemporaryFolder()
        var messages = try TableDescription("messages", of: Message.self, primaryKey: ["id"])
        messages["isRead"]?.defaultValue = .integer(0)
        messages["body"]?.collation = "NOCASE"
        messages["sender"]?.references = "people(name) ON DELETE CASCADE"
        messages.indexes = [IndexDescription("by_time", on: ["sent DESC", "id"], condition: "isRead = 0")]
        #expect(
            messages.statements == [
                """
                CREATE TABLE "messages"(
                    "id" INTEGER PRIMARY KEY,
                    "sender" TEXT NOT NULL REFERENCES people(name) ON DELETE CASCADE,
                    "body" TEXT NOT NULL COLLATE "NOCASE",
                    "sent" REAL,
                    "isRead" INTEGER NOT NULL DEFAULT 0
                )
                """,
                "CREATE INDEX \"by_time\" ON \"messages\"(sent DESC, id) WHERE isRead = 0",
            ]
        )
        let database = try Database(path: folder.file("app.db"))
        try database.upgrade(to: DatabaseSchema([messages]))
        try database.insert(Message(id: nil, sender: "a", body: "b", sent: nil, isRead: true), into: "messages")
        #expect(try database.fetchAll(Message.self, "SELECT * FROM messages WHERE body = 'B'").map(\.id) == [1])
        #expect(try database.plan(for: DatabaseSchema([messages])).isEmpty)
        messages["size"] = ColumnDescription("size", "INTEGER", defaultValue: .integer(7))
        let plan = try database.upgrade(to: DatabaseSchema([messages]))
        #expect(plan.changes.map(\.summary) == ["alter, since column size comes"])
    }

    @Test(.needs(.partialIndexes)) func whatIsDescribedMayEndInAComment() throws {
        let folder = TemporaryFolder()
        var first = TableDescription(
            "first",
            columns: [
                ColumnDescription("id", "INTEGER"), ColumnDescription("a", "TEXT"), ColumnDescription("b", "TEXT"),
            ],
            primaryKey: ["id"]
        )
        first["a"]?.references = "second(id) -- some other"
        first.indexes = [
            IndexDescription("i", on: ["a -- the first", "b -- the last"], condition: "b > 'x' -- no others"),
            IndexDescription("j", on: ["b"], condition: "a > 'x' -- no others"),
        ]
        let second = TableDescription("second", columns: [ColumnDescription("id", "INTEGER")], primaryKey: ["id"])
        let schema = DatabaseSchema([first, second])
        let database = try Database(path: folder.file("app.db"))
        #expect(try database.upgrade(to: schema).changes.map(\.name) == ["first", "second"])
        #expect(texts(try database.fetchAll("SELECT name FROM sqlite_master WHERE type = 'index'")) == ["i", "j"])
        #expect(try database.plan(for: schema).isEmpty)
        // The descriptions also serve as texts that are compared.
        var upgrades = SchemaUpgrades()
        upgrades.add("all") { try $0.upgrade(to: schema) }
        upgrades.freshSchema = { try $0.upgrade(to: schema) }
        let comparison = TemporaryFolder()
        #expect(try UpgradeComparison(upgrades).differences(inFolder: comparison.path).isEmpty)
    }

    @Test func everyPartOfADescriptionIsMade() throws {
        var table = TableDescription(
            "odd \"table\"",
            columns: [
                ColumnDescription("a b", "TEXT", defaultValue: .text("it's\0")), ColumnDescription("c", ""),
                ColumnDescription("d", "REAL", isNotNull: true, defaultValue: .real(0.1)),
                ColumnDescription("e", "BLOB", defaultValue: .blob([0, 255])),
            ],
            primaryKey: ["a b", "c"]
        )
        table.uniqueKeys = [["d", "e"]]
        table.checks = ["d > 0"]
        table.isWithoutRowID = true
        table["c"]?.isUnique = true
        table["e"]?.check = "e <> ''"
        let connection = try Connection(path: ":memory:")
        for sql in table.statements { try connection.execute(sql) }
        try connection.execute("INSERT INTO \"odd \"\"table\"\"\"(c) VALUES (1)")
        #expect(
            try connection.fetchOne("SELECT hex(\"a b\"), d, hex(e) FROM \"odd \"\"table\"\"\"")?.values == [
                .text("6974277300"), .real(0.1), .text("00FF"),
            ]
        )
    }

    @Test func aKeyThatIsNoColumnIsRefused() throws {
        let table = TableDescription("t", columns: [ColumnDescription("id", "INTEGER")], primaryKey: ["idd"])
        let pair = try UpgradePair("CREATE TABLE other(x)")
        #expect(throws: SQLiteError.self) { try pair.database.plan(for: DatabaseSchema([table])) }
    }

    @Test func expressionsMayEndWithAComment() throws {
        var table = TableDescription("t", columns: [ColumnDescription("id", "INTEGER")])
        table.checks = ["id > 0 -- positive"]
        table["id"]?.check = "id < 9 -- small"
        let connection = try Connection(path: ":memory:")
        for sql in table.statements { try connection.execute(sql) }
        #expect(throws: SQLiteError.self) { try connection.execute("INSERT INTO t VALUES (9)") }
    }

    @Test func theShortcutIsComparedWithTheSteps() throws {
        var upgrades = SchemaUpgrades()
        upgrades.add("first", version: 1) { access in
            try access.execute("CREATE TABLE a(id INTEGER PRIMARY KEY, x); CREATE TABLE settings(key, value)")
            try access.execute("INSERT INTO settings VALUES ('size', 1)")
        }
        upgrades.add("second", version: 2) { access in
            try access.execute("ALTER TABLE a ADD COLUMN y TEXT DEFAULT 'y'; CREATE INDEX by_y ON a(y)")
            try access.rebuild("settings") { table in
                table.schema = "CREATE TABLE settings(key TEXT PRIMARY KEY, value)"
            }
        }
        let same =
            "CREATE TABLE settings(value, key TEXT PRIMARY KEY); CREATE TABLE A(id integer primary key, y TEXT default 'y', x);"
            + "CREATE INDEX by_y ON a(y); INSERT INTO settings(key, value) VALUES ('size', 1)"
        upgrades.freshSchema = { try $0.execute(same) }
        let folder = TemporaryFolder()
        #expect(try differences(upgrades, folder).isEmpty)
        upgrades.freshSchema = {
            try $0.execute(same.replacing("'size', 1", with: "'size', 2").replacing("'y', x", with: "'z', x"))
        }
        let other = TemporaryFolder()
        #expect(
            try differences(upgrades, other) == [
                "a: rebuild, since column y has another default", "settings: other rows",
            ]
        )
    }

    @Test(.needs(.fullText5)) func virtualTablesAreComparedToo() throws {
        func lines(_ chain: String, _ fresh: String) throws -> [String] {
            var upgrades = SchemaUpgrades()
            upgrades.add("all", version: 1) { try $0.execute("CREATE TABLE a(x);" + chain) }
            upgrades.freshSchema = { try $0.execute("CREATE TABLE a(x);" + fresh) }
            let folder = TemporaryFolder()
            return try differences(upgrades, folder)
        }
        let (plain, porter) = (
            "CREATE VIRTUAL TABLE f USING fts5(x)", "CREATE VIRTUAL TABLE f USING fts5(x, tokenize='porter')"
        )
        #expect(try lines(plain, plain).isEmpty)
        #expect(try lines(plain, porter) == ["f: another virtual table"])
        #expect(try lines("", plain).contains("f: a virtual table that is not there in both"))
        #expect(try lines(plain, "").contains("f: a virtual table that is not there in both"))
        #expect(try lines("CREATE TABLE midstream_x(y)", "") == ["midstream_x: create"])
    }

    private func differences(_ upgrades: SchemaUpgrades, _ folder: TemporaryFolder) throws -> [String] {
        try UpgradeComparison(upgrades).differences(inFolder: folder.path)
    }
}
