import Midstream
import SQLiteConnection
import Testing

@Suite struct FirstMoveTests {
    @Test func aTableMovesFromOneFileToAnotherWhileItIsUsed() throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(
            script: """
                CREATE TABLE old_messages(id INTEGER PRIMARY KEY, sender TEXT, body TEXT UNIQUE);
                CREATE INDEX by_sender ON old_messages(sender);
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
                INSERT INTO old_messages SELECT i, 'user' || (i % 7), 'body ' || i FROM n;
                """
        )
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute(
            "CREATE TABLE messages(id INTEGER PRIMARY KEY, sender TEXT, body TEXT UNIQUE); CREATE INDEX by_sender ON messages(sender)"
        )
        try database.addMigration(source: .file(folder.file("old.db"))) { table in
            if table.name == "messages" { table.sourceTable = "old_messages" }
        }
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM messages") == 1000)
        try database.stepMigration(rows: 300)
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM messages") == 1000)
        #expect(try database.fetchValue(Int64.self, "SELECT sum(id) FROM messages") == 500500)
        #expect(try database.fetchValue(String.self, "SELECT body FROM messages WHERE id = 900") == "body 900")
        #expect(try database.fetchValue(String.self, "SELECT body FROM messages WHERE id = 100") == "body 100")
        #expect(
            try database.fetchAll("SELECT id FROM messages WHERE sender = 'user3' ORDER BY id DESC LIMIT 3")
                .map { $0[0] } == [.integer(997), .integer(990), .integer(983)]
        )
        try database.execute("UPDATE messages SET sender = 'x' WHERE id IN (5, 700)")
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM messages WHERE sender = 'x'") == 2)
        try database.execute("INSERT INTO messages(sender, body) VALUES ('new', 'hello')")
        #expect(try database.fetchValue(Int64.self, "SELECT max(id) FROM messages") == 1001)
        #expect(throws: SQLiteError.self) { try database.execute("INSERT INTO messages(body) VALUES ('body 800')") }
        try database.execute("DELETE FROM messages WHERE id > 998")
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM messages") == 998)
        var steps = 0
        while try !database.stepMigration().isFinished, steps < 100 { steps += 1 }
        #expect(database.isMigrated)
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM messages") == 998)
        #expect(try database.fetchAll("SELECT name FROM sqlite_master WHERE name LIKE 'midstream%'").isEmpty)
    }
}
