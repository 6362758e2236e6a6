import Midstream
import SQLiteConnection
import Testing

// Upgrades of the schema.

private struct Failure: Error {}

extension ApplicationTest {
    private static func ofUpgrades(
        _ name: String,
        _ body: @escaping @Sendable (Database) async throws -> Void
    ) -> ApplicationTest {
        ApplicationTest(
            name,
            schema: """
                CREATE TABLE chats(id INTEGER PRIMARY KEY, title TEXT NOT NULL, muted INTEGER DEFAULT 0);
                CREATE TABLE messages(
                    id INTEGER PRIMARY KEY AUTOINCREMENT, chat INTEGER REFERENCES chats(id) ON DELETE CASCADE,
                    code TEXT UNIQUE, body TEXT, sent INTEGER);
                CREATE INDEX messages_by_chat ON messages(chat, sent);
                CREATE TABLE tags(name TEXT, message INTEGER, PRIMARY KEY(name, message)) WITHOUT ROWID;
                CREATE TABLE log(what);
                CREATE VIEW newest AS SELECT chat, max(sent) AS sent FROM messages GROUP BY chat;
                CREATE TRIGGER message_deleted AFTER DELETE ON messages BEGIN
                    DELETE FROM tags WHERE message = OLD.id;
                END;
                """,
            tables: ["chats", "messages", "tags"],
            rows: { connection in
                for id in 1...20 { try connection.execute("INSERT INTO chats VALUES (?, ?, 0)", [id, "chat \(id)"]) }
                for id in 1...200 {
                    try connection.execute(
                        "INSERT INTO messages VALUES (?, ?, ?, ?, ?)",
                        [id, id % 20 + 1, "c\(id)", "body \(id)", id * 10]
                    )
                    try connection.execute("INSERT INTO tags VALUES (?, ?)", ["tag \(id % 7)", id])
                }
            },
            body: body
        )
    }

    private static let rebuilt = """
        CREATE TABLE messages(
            id INTEGER PRIMARY KEY AUTOINCREMENT, chat INTEGER NOT NULL REFERENCES chats(id) ON DELETE CASCADE,
            code TEXT UNIQUE, body TEXT NOT NULL COLLATE NOCASE DEFAULT '', sent_at REAL, size INTEGER DEFAULT 7)
        """

    /// Steps as an application has gathered them over the years.
    private static func steps(
        rowsCopiedAtOnce: Int,
        last: @escaping @Sendable (DatabaseAccess) throws -> Void = { _ in }
    ) -> SchemaUpgrades {
        var upgrades = SchemaUpgrades()
        upgrades.add("messages may be pinned", version: 1) { access in
            try access.execute("ALTER TABLE messages ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0")
            try access.execute("UPDATE messages SET pinned = 1 WHERE sent % 70 = 0")
            #expect(access.changes == 28)
        }
        upgrades.add("chats are counted", version: 2) { access in
            try access.execute("ALTER TABLE chats ADD COLUMN icon BLOB")
            try access.execute("CREATE TABLE counts AS SELECT chat, count(*) AS n FROM messages GROUP BY chat")
        }
        upgrades.add("messages are complete", version: 3) { access in
            try access.rebuild("messages") { table in
                table.schema = rebuilt
                table.columns["sent_at"] = .expression("sent / 1000.0")
                table.columns["size"] = .defaultValue
                table.unmatchedColumns = .ignored
                table.indexes = ["CREATE INDEX messages_by_chat ON messages(chat, sent_at)"]
                table.rowsCopiedAtOnce = rowsCopiedAtOnce
            }
            try access.execute("DROP VIEW newest")
            try access.execute("CREATE VIEW newest AS SELECT chat, max(sent_at) AS at FROM messages GROUP BY chat")
            try last(access)
        }
        return upgrades
    }

    /// Works with the newest schema.
    private static func useNewest(_ database: Database) throws {
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM messages WHERE size = 7") == 200)
        #expect(try database.fetchValue(Double.self, "SELECT at FROM newest WHERE chat = 5") == 1.84)
        #expect(try database.fetchValue(Int.self, "SELECT sum(n) FROM counts") == 200)
        try database.write { access in
            try access.execute("UPDATE messages SET body = 'CHANGED' WHERE id IN (3, 100, 199)")
            #expect(
                try access.fetchAll(Int64.self, "SELECT id FROM messages WHERE body = 'changed' ORDER BY id") == [
                    3, 100, 199,
                ]
            )
            try access.execute("INSERT INTO messages(chat, code, body) VALUES (1, 'new', 'b')")
            #expect(access.lastInsertRowID == 201)
            #expect(throws: SQLiteError.self) {
                try access.execute("INSERT INTO messages(chat, code, body) VALUES (1, 'c150', 'b')")
            }
            #expect(throws: SQLiteError.self) { try access.execute("UPDATE messages SET body = NULL WHERE id = 7") }
            try access.execute("DELETE FROM messages WHERE chat = 4")
            #expect(access.changes == 10)
        }
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM tags") == 190)
    }

    static let upgrades: [ApplicationTest] =
        [0, 1000].map { rows in
            ofUpgrades("Steps bring a file to the newest schema, \(rows) rows are copied at once") {
                (database: Database) throws in
                let report = try database.upgrade(steps(rowsCopiedAtOnce: rows))
                #expect(report.steps.count == 3)
                #expect(try database.upgrade(steps(rowsCopiedAtOnce: rows)).steps.isEmpty)
                #expect(try database.fetchValue(Int.self, "PRAGMA user_version") == 3)
                try useNewest(database)
            }
        } + [
            ofUpgrades("A step that fails leaves nothing, and the next launch goes on") { (database: Database) throws in
                let failing = steps(rowsCopiedAtOnce: 0) { access in
                    try access.execute("DELETE FROM messages")
                    throw Failure()
                }
                #expect(throws: Failure.self) { try database.upgrade(failing) }
                #expect(try database.fetchValue(Int.self, "SELECT sum(pinned) FROM messages") == 28)
                #expect(try database.upgrade(steps(rowsCopiedAtOnce: 0)).steps == ["messages are complete"])
                try useNewest(database)
            },
            ofUpgrades("A rehearsal changes nothing") { (database: Database) throws in
                #expect(try database.rehearse(steps(rowsCopiedAtOnce: 0)).steps.count == 3)
                #expect(try database.fetchValue(Int.self, "SELECT count(sent) FROM messages") == 200)
                #expect(throws: SQLiteError.self) { try database.fetchAll("SELECT icon FROM chats") }
            },
            ofUpgrades("A declared schema is planned and made") { (database: Database) throws in
                let schema = DatabaseSchema(
                    sql: """
                        CREATE TABLE chats(id INTEGER PRIMARY KEY, title TEXT NOT NULL, muted INTEGER DEFAULT 0, icon BLOB);
                        \(rebuilt);
                        CREATE INDEX messages_by_size ON messages(size);
                        CREATE TABLE tags(name TEXT, message INTEGER, PRIMARY KEY(message, name)) WITHOUT ROWID;
                        CREATE TABLE drafts(chat INTEGER PRIMARY KEY, text);
                        CREATE VIEW newest AS SELECT chat, max(sent_at) AS at FROM messages GROUP BY chat;
                        CREATE TRIGGER message_deleted AFTER DELETE ON messages BEGIN
                            DELETE FROM tags WHERE message = OLD.id;
                        END;
                        """
                )
                var options = SchemaOptions()
                options.rowsChangedAtOnce = 0
                options.allowsDrops = true
                options.columns = ["messages": ["sent_at": .expression("sent / 1000.0"), "size": .defaultValue]]
                let plan = try database.plan(for: schema, options: options)
                #expect(plan.changes.contains { $0.name == "messages" && $0.way == .rebuild })
                try database.upgrade(to: schema, options: options)
                #expect(try database.plan(for: schema, options: options).isEmpty)
                try database.execute("CREATE TABLE counts AS SELECT chat, count(*) AS n FROM messages GROUP BY chat")
                try useNewest(database)
            },
        ]
}
