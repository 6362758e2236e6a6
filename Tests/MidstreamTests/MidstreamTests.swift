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

@Suite struct ColumnNameTests {
    @Test(arguments: [
        "SELECT rowid FROM t", "SELECT oid, _rowid_, x FROM t", "SELECT t.rowid FROM t", "SELECT a.rowid FROM t AS a",
        "SELECT rowid AS r FROM t", "SELECT x rowid FROM t", "SELECT rowid + 1 FROM t", "SELECT count(*) FROM t",
        "SELECT COUNT( * ) FROM t AS q", "SELECT count(*) AS n FROM main.t", "SELECT max(rowid) FROM t",
        "SELECT * FROM t",
        "SELECT a.rowid, b.rowid FROM t a JOIN n b ON a.rowid = b.rowid", "SELECT main.t.id FROM t",
        "SELECT main.t.rowid FROM main.t",
    ])
    func resultColumnsOfAMovingTableHaveTheirNativeNames(_ sql: String) throws {
        let folder = TemporaryFolder()
        let script = "CREATE TABLE t(id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c');"
        let native = "CREATE TABLE n(y); INSERT INTO n VALUES (1), (2);"
        try Connection(path: folder.file("old.db")).execute(script: script)
        let plain = try Connection(path: folder.file("plain.db"))
        try plain.execute(script: script + native)
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x);" + native)
        try database.addMigration(source: .file(folder.file("old.db"))) { if $0.name == "t" { $0.sourceTable = "t" } }
        try database.stepMigration(rows: 1)
        let expected = try plain.fetchAll(sql)
        let rows = try database.fetchAll(sql)
        #expect(rows == expected)
        #expect(rows.first?.columns.names == expected.first?.columns.names)
    }
}
