import Midstream
import SQLiteConnection
import Synchronization
import Testing

/// Tables whose rows come from several sources.
@Suite struct SeveralSourcesTests {
    private let folder = TemporaryFolder()

    private func file(_ name: String, _ sql: String) throws -> MigrationSource {
        let connection = try Connection(path: folder.file(name))
        try connection.execute(script: sql)
        connection.close()
        return .file(folder.file(name))
    }

    private static let table = "(id INTEGER PRIMARY KEY, name TEXT UNIQUE, n INTEGER)"

    private func open(_ sources: [MigrationSource], tables: [String]) throws -> Database {
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE IF NOT EXISTS t\(Self.table); CREATE INDEX IF NOT EXISTS i ON t(n)")
        for (source, table) in zip(sources, tables) {
            try database.addMigration(source: source) { if $0.name == "t" { $0.sourceTable = table } }
        }
        return database
    }

    @Test(arguments: [0, 1, 3, 5] as [Int64]) func threeFilesFeedOneTable(_ moved: Int64) throws {
        var sources: [MigrationSource] = []
        for shard in 0..<3 {
            let rows = (0..<8).map { "(\(shard + 3 * $0), 'r\(shard + 3 * $0)', \($0))" }.joined(separator: ", ")
            sources.append(
                try file(
                    "\(shard).db",
                    "CREATE TABLE s\(Self.table); CREATE INDEX i ON s(n); INSERT INTO s VALUES \(rows)"
                )
            )
        }
        let native = try Connection(path: ":memory:")
        try native.execute(script: "CREATE TABLE t\(Self.table); CREATE INDEX i ON t(n)")
        for id in 0..<24 { try native.execute("INSERT INTO t VALUES (\(id), 'r\(id)', \(id / 3))") }
        var database = try open(sources, tables: ["s", "s", "s"])
        let moves = Mutex<[MigrationEvent]>([])
        database.onMigrated { event in moves.withLock { $0.append(event) } }
        if moved > 0 { try database.stepMigration(rows: moved) }
        let all = "SELECT * FROM t ORDER BY id"
        for sql in [
            "UPDATE t SET n = n + 10 WHERE id % 5 = 1", "DELETE FROM t WHERE name IN ('r3', 'r7', 'r11')",
            "INSERT INTO t(name) VALUES ('new')", "UPDATE t SET name = 'r3' WHERE id = 0",
            "INSERT OR REPLACE INTO t VALUES (4, 'r5', NULL)", "UPDATE t SET id = 3 WHERE n = 7 AND id = 22",
        ] {
            try database.execute(sql)
            try native.execute(sql)
            for query in [
                all, "SELECT * FROM t", "SELECT count(*), max(id), min(n), max(name) FROM t",
                "SELECT id FROM t WHERE name = 'r5'", "SELECT n, count(*) FROM t GROUP BY n ORDER BY n",
                "SELECT id FROM t WHERE n BETWEEN 2 AND 4 ORDER BY n, id LIMIT 5", "SELECT * FROM t WHERE id = 8",
                "SELECT a.id FROM t a JOIN t b ON a.id = b.n ORDER BY 1",
            ] {
                #expect(
                    texts(try database.fetchAll(query)) == texts(try native.fetchAll(query)),
                    "\(query) after \(sql)"
                )
            }
        }
        // An application does this at each launch.
        database.close()
        database = try open(sources, tables: ["s", "s", "s"])
        database.onMigrated { event in moves.withLock { $0.append(event) } }
        #expect(texts(try database.fetchAll(all)) == texts(try native.fetchAll(all)))
        try finishMigration(database)
        #expect(texts(try database.fetchAll(all)) == texts(try native.fetchAll(all)))
        let told = moves.withLock { $0 }.filter { if case .tableMoved = $0 { true } else { false } }
        #expect(told.count == 1)
        #expect(try MovingFixture.objects(folder.file("new.db")).filter { $0.contains("midstream") } == [])
    }

    @Test func twoTablesOfOneFileFeedOne() throws {
        let source = try file(
            "old.db",
            "CREATE TABLE a\(Self.table); CREATE TABLE b\(Self.table); INSERT INTO a VALUES (1, 'x', 1); INSERT INTO b VALUES (2, 'y', 2)"
        )
        let database = try open([source, source], tables: ["a", "b"])
        #expect(texts(try database.fetchAll("SELECT * FROM t")) == ["1|x|1", "2|y|2"])
        #expect(try database.readMigrationProgress().tables.map(\.sourceTable) == ["a", "b"])
        // A change of the schema moves the rows of both tables.
        try database.execute("ALTER TABLE t ADD COLUMN z DEFAULT 'z'")
        #expect(texts(try database.fetchAll("SELECT * FROM t")) == ["1|x|1|z", "2|y|2|z"])
        try finishMigration(database)
        #expect(texts(try database.fetchAll("SELECT * FROM t")) == ["1|x|1|z", "2|y|2|z"])
    }

    @Test(arguments: ["(1, 'q', 0)", "(9, 'x', 0)"]) func sourcesWhoseKeysMeetAreRefused(_ row: String) throws {
        let first = try file("1.db", "CREATE TABLE s\(Self.table); INSERT INTO s VALUES (1, 'x', 1)")
        let second = try file("2.db", "CREATE TABLE s\(Self.table); INSERT INTO s VALUES (5, 'z', 1), \(row)")
        let before = try MovingFixture.objects(folder.file("2.db"))
        let database = try open([first], tables: ["s"])
        let error = #expect(throws: MigrationError.self) {
            try database.addMigration(source: second) { $0.sourceTable = "s" }
        }
        #expect(error?.code == .keyCollision)
        let message = error?.message ?? ""
        for words in ["table s of ", "1.db", "2.db", "rowid 1", row.hasPrefix("(9") ? "rowid 9" : "(rowid 1) and "] {
            #expect(message.contains(words), "\(message)")
        }
        #expect(!message.contains("midstream_"), "\(message)")
        #expect(try MovingFixture.objects(folder.file("2.db")) == before)
        #expect(texts(try database.fetchAll("SELECT * FROM t")) == ["1|x|1"])
        // With a condition, the keys do not meet.
        try database.addMigration(source: second) {
            $0.sourceTable = "s"
            $0.condition = "id = 5"
        }
        #expect(texts(try database.fetchAll("SELECT * FROM t")) == ["1|x|1", "5|z|1"])
    }

    @Test func aRolledBackDrainBringsAllSourcesBack() throws {
        let first = try file("1.db", "CREATE TABLE s\(Self.table); INSERT INTO s VALUES (1, 'x', 1)")
        let second = try file("2.db", "CREATE TABLE s\(Self.table); INSERT INTO s VALUES (2, 'y', 1)")
        let database = try open([first, second], tables: ["s", "s"])
        try database.withoutTransaction { database in
            try database.execute("BEGIN")
            try database.execute("ALTER TABLE t ADD COLUMN z")
            #expect(texts(try database.fetchAll("SELECT * FROM t")) == ["1|x|1|NULL", "2|y|1|NULL"])
            try database.execute("ROLLBACK")
            #expect(texts(try database.fetchAll("SELECT * FROM t")) == ["1|x|1", "2|y|1"])
            try database.execute("BEGIN; SAVEPOINT a; ALTER TABLE t ADD COLUMN z; ROLLBACK TO a")
            #expect(texts(try database.fetchAll("SELECT * FROM t")) == ["1|x|1", "2|y|1"])
            try database.execute("UPDATE t SET n = 7; COMMIT")
        }
        #expect(texts(try database.fetchAll("SELECT * FROM t")) == ["1|x|7", "2|y|7"])
        try finishMigration(database)
        #expect(texts(try database.fetchAll("SELECT * FROM t")) == ["1|x|7", "2|y|7"])
    }
}
