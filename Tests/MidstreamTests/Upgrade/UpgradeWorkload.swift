import Midstream
import SQLiteConnection
import Testing

/// An application that launches with a file of some version, upgrades it, and goes on working while rows move. It does
/// the same each time, so its writes can be counted in one run, and a later run can die at one of them.
struct UpgradeWorkload {
    let folder: String
    /// The version of the file before the launch.
    let version: Int

    static let newest = 4
    var path: String { folder + "/app.db" }
    /// One byte for each transaction that was reported committed.
    var committed: String { folder + "/committed" }

    // MARK: Steps

    private static let second = """
        CREATE TABLE messages(
            id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL DEFAULT '', code TEXT UNIQUE, size INTEGER DEFAULT 2)
        """
    private static let third = "CREATE TABLE notes(id INTEGER PRIMARY KEY, text TEXT COLLATE NOCASE)"
    private static let fourth = """
        CREATE TABLE messages(
            id INTEGER PRIMARY KEY AUTOINCREMENT, content TEXT NOT NULL DEFAULT '', code TEXT UNIQUE, size TEXT, flag DEFAULT 1)
        """

    static var upgrades: SchemaUpgrades {
        var upgrades = SchemaUpgrades()
        upgrades.add("first", version: 1) { try $0.execute(firstSchema) }
        upgrades.add("messages have a size", version: 2) { access in
            try access.rebuild("messages") { table in
                table.schema = second
                table.columns["size"] = .defaultValue
                table.rowsCopiedAtOnce = 0
            }
        }
        upgrades.add("notes", version: 3) { access in
            try access.execute("ALTER TABLE log ADD COLUMN more DEFAULT 'm'")
            try access.rebuild("notes") { $0.schema = third }
        }
        upgrades.add("messages have content", version: 4) { access in
            try access.rebuild("messages") { table in
                table.schema = fourth
                table.columns["content"] = .column("body")
                table.columns["flag"] = .value(.integer(1))
                table.triggers = [lastTrigger]
                table.rowsCopiedAtOnce = 0
            }
        }
        return upgrades
    }

    private static let firstSchema = """
        CREATE TABLE messages(id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT, code TEXT UNIQUE);
        CREATE INDEX by_code ON messages(code, id);
        CREATE TRIGGER noted AFTER DELETE ON messages BEGIN INSERT INTO log(what) VALUES (OLD.body); END;
        CREATE TABLE notes(id INTEGER PRIMARY KEY, text TEXT);
        CREATE TABLE log(what);
        """
    private static let lastTrigger =
        "CREATE TRIGGER noted AFTER DELETE ON messages BEGIN INSERT INTO log(what) VALUES (OLD.content); END"

    private static let rows = """
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120)
            INSERT INTO messages(body, code) SELECT 'body ' || i, 'c' || i FROM n;
        DELETE FROM messages WHERE id IN (5, 120);
        INSERT INTO notes(text) VALUES ('a'), ('b');
        """

    /// The same steps, done offline by SQLite alone.
    static func upgradeNatively(_ connection: Connection, from version: Int, to newest: Int = newest) throws {
        for step in version + 1..<newest + 1 {
            switch step {
            case 1: try connection.execute(script: firstSchema)
            case 2: try UpgradePair.rebuild(connection, "messages", second, "id, body, code", from: "id, body, code")
            case 3:
                try connection.execute("ALTER TABLE log ADD COLUMN more DEFAULT 'm'")
                try UpgradePair.rebuild(connection, "notes", third, "id, text", from: "id, text")
            default:
                try connection.execute("DROP TRIGGER noted")
                try UpgradePair.rebuild(
                    connection,
                    "messages",
                    fourth,
                    "id, content, code, size",
                    from: "id, body, code, size"
                )
                try connection.execute(lastTrigger)
            }
        }
    }

    // MARK: Before

    /// Makes the file at the old version. Small pages make many places to die at.
    func prepare() throws {
        Files.removeDatabase(path)
        let connection = try Connection(path: path)
        try connection.execute("PRAGMA page_size = 1024")
        try Self.makeOld(connection, version)
        connection.close()
    }

    private static func makeOld(_ connection: Connection, _ version: Int) throws {
        guard version > 0 else { return }
        try upgradeNatively(connection, from: 0, to: 1)
        try connection.execute(script: rows)
        try upgradeNatively(connection, from: 1, to: version)
        try connection.execute("PRAGMA user_version = \(version)")
    }

    /// What the tables contain after each number of transactions, by SQLite alone.
    func expectations() throws -> [[String]] {
        let connection = try Connection(path: ":memory:")
        try Self.makeOld(connection, version)
        try Self.upgradeNatively(connection, from: version)
        var dumps = [try Self.dump(connection.fetchAll(Self.dumpSQL))]
        for sql in Self.transactions {
            try connection.transaction { try connection.execute(script: sql) }
            dumps.append(try Self.dump(connection.fetchAll(Self.dumpSQL)))
        }
        return dumps
    }

    static let transactions = [
        "INSERT INTO messages(content, code) VALUES ('new', 'n1'); UPDATE messages SET size = 'x' WHERE id IN (2, 99)",
        "DELETE FROM messages WHERE id IN (3, 50, 118)",
        "UPDATE notes SET text = 'B' WHERE text = 'A'",
        "UPDATE messages SET content = 'changed' WHERE code = 'c77'; INSERT INTO log(what) VALUES (1)",
        "INSERT OR REPLACE INTO messages(id, content, code) VALUES (60, 'r', 'c61')",
        "DELETE FROM messages WHERE id BETWEEN 80 AND 90",
    ]

    static let dumpSQL = """
        SELECT 'm', id, content, code, size || typeof(size), flag FROM messages
        UNION ALL SELECT 'n', id, text, 0, 0, 0 FROM notes UNION ALL SELECT 'l', rowid, what, more, 0, 0 FROM log ORDER BY 1, 2
        """

    static func dump(_ rows: [Row]) -> [String] { texts(rows) }

    // MARK: The run

    func run(after done: Int = 0) throws {
        let database = try Database(path: path)
        try database.upgrade(Self.upgrades)
        for sql in Self.transactions.dropFirst(done) {
            try database.stepMigration(rows: 15)
            try database.write { try $0.execute(sql) }
            Files.mark(committed)
        }
        for _ in 0..<1000 where try !database.stepMigration().isFinished {}
        try #require(database.isMigrated, "the rebuilds do not come to their end")
        database.close()
    }

    // MARK: After

    /// Checks what a process that died has left, then goes on to the end, and checks what is there then.
    func check(_ expected: [[String]], losesLast: Bool, _ comment: Comment) throws {
        try checkIsWholeStep(comment)
        let reported = Files.size(committed)
        let database = try Database(path: path)
        try database.upgrade(Self.upgrades)
        let found = try Self.dump(database.fetchAll(Self.dumpSQL))
        let allowed = (losesLast ? 0 : reported)...min(reported + 1, expected.count - 1)
        guard let done = allowed.last(where: { expected[$0] == found }) else {
            let nearest = expected[min(reported + 1, expected.count - 1)]
            let (surplus, missing) = (Set(found).subtracting(nearest), Set(nearest).subtracting(found))
            Issue.record("\(comment): surplus \(surplus.sorted().prefix(5)), missing \(missing.sorted().prefix(5))")
            return
        }
        database.close()
        try run(after: done)
        let plain = try Connection(path: path)
        defer { plain.close() }
        #expect(try Self.dump(plain.fetchAll(Self.dumpSQL)) == expected.last, comment)
        #expect(try plain.fetchValue(String.self, "PRAGMA integrity_check") == "ok", comment)
        let native = try Connection(path: ":memory:")
        try Self.upgradeNatively(native, from: 0)
        #expect(try UpgradePair.schema(plain) == UpgradePair.schema(native), comment)
    }

    /// Checks that the file is of one version, whichever: version number, records and columns.
    private func checkIsWholeStep(_ comment: Comment) throws {
        let plain = try Connection(path: path)
        defer { plain.close() }
        let version = try plain.fetchValue(Int.self, "PRAGMA user_version") ?? -1
        let native = try Connection(path: ":memory:")
        try Self.upgradeNatively(native, from: 0, to: max(0, version))
        for table in ["messages", "notes", "log"] {
            let columns = "PRAGMA table_info(\(table))"
            #expect(try texts(plain.fetchAll(columns)) == texts(native.fetchAll(columns)), comment)
        }
        let hasRecords = try plain.fetchOne("SELECT 1 FROM sqlite_master WHERE name = 'midstream_upgrades'") != nil
        if hasRecords {
            #expect(try plain.fetchValue(Int.self, "SELECT count(*) FROM midstream_upgrades") == version, comment)
        }
    }
}
