import Midstream
import SQLiteConnection
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// A program dies as it writes a source without a WAL. A connection that may write the file has to roll the journal
/// back, and all connections only read the source.
@Suite struct HotJournalTests {
    private static func fixture() throws -> MovingFixture {
        let fixture = try MovingFixture(rows: 400)
        let database = try fixture.open()
        try database.stepMigration(rows: 100)
        database.close()
        try makeOther(in: fixture.source)
        return fixture
    }

    private static func makeOther(in path: String) throws {
        let plain = try Connection(path: path)
        #expect(try plain.fetchValue(String.self, "PRAGMA journal_mode = DELETE") == "delete")
        try plain.execute("CREATE TABLE other(x)")
        try plain.execute(
            "INSERT INTO other WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) SELECT 1000 FROM n"
        )
        plain.close()
    }

    /// An old build writes a table of the source that does not move, and is killed.
    private static func die(writing source: String) async {
        await #expect(processExitsWith: .exitCode(7)) { [source] in
            let plain = try Connection(path: source)
            try plain.execute("PRAGMA cache_size = 1")
            try plain.execute("BEGIN")
            try plain.execute("UPDATE other SET x = 2000")
            _exit(7)
        }
        #expect(Files.size(source + "-journal") > 0)
    }

    private static func read(_ database: Database, _ query: String, _ isInBlock: Bool) throws -> Int64? {
        if isInBlock { return try database.read { try $0.fetchValue(Int64.self, query) } }
        return try database.withoutTransaction { try $0.fetchValue(Int64.self, query) }
    }

    private static func write(_ database: Database, _ statement: String, _ isInBlock: Bool) throws {
        if isInBlock { return try database.write { try $0.execute(statement) } }
        try database.withoutTransaction { try $0.execute(statement) }
    }

    @Test func itKeepsNoDatabaseFromBeingOpened() async throws {
        let fixture = try Self.fixture()
        await Self.die(writing: fixture.source)
        let database = try Database(path: fixture.target)
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
        try finishMigration(database)
        #expect(try MovingFixture.count("other WHERE x = 1000", in: fixture.source) == 3000)
    }

    @Test(arguments: [
        "SELECT sum(amount) FROM accounts", "SELECT amount * 400 FROM accounts WHERE id = 300",
        "SELECT max(amount) * 400 FROM accounts WHERE owner >= 'o'",
    ])
    func itKeepsNobodyFromReading(_ query: String) async throws {
        let fixture = try Self.fixture()
        let database = try Database(path: fixture.target)
        #expect(try database.fetchValue(Int64.self, query) == fixture.total)
        for isInBlock in [false, true] {
            await Self.die(writing: fixture.source)
            #expect(try Self.read(database, query, isInBlock) == fixture.total)
        }
    }

    /// The connection was opened by other code, and does not announce its statements.
    @Test func itKeepsNoConnectionOfOtherCodeFromReading() async throws {
        let fixture = try Self.fixture()
        let other = try ForeignConnection(fixture.target)
        try MigrationOverlay.install(on: other.handle)
        for statement in [
            "UPDATE accounts SET amount = 100 WHERE id = 300", "INSERT INTO accounts VALUES (500, 'o', 0)",
        ] {
            await Self.die(writing: fixture.source)
            #expect(try other.wrapped.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
            await Self.die(writing: fixture.source)
            // The statement finds its row, or fails once.
            if (try? other.wrapped.execute(statement)) == nil { try other.wrapped.execute(statement) }
        }
    }

    /// The hot journal is the target's, and somebody looks how far the migration is.
    @Test func itKeepsNobodyFromReadingTheProgress() async throws {
        let fixture = try MovingFixture(rows: 40)
        var configuration = DatabaseConfiguration()
        configuration.journalMode = .unchanged
        let database = try Database(path: fixture.target, configuration: configuration)
        try MovingFixture.addMigration(database, fixture.source)
        database.close()
        try Self.makeOther(in: fixture.target)
        await Self.die(writing: fixture.target)
        #expect(try Database.readMigrationProgress(ofFile: fixture.target).tables.count == 1)
    }

    @Test(arguments: [
        "UPDATE accounts SET amount = amount + 1 WHERE id > 350", "DELETE FROM accounts WHERE id = 399",
        "INSERT INTO accounts VALUES (1000, 'o', 100)", "INSERT INTO accounts SELECT id + 1000, owner, 1 FROM accounts",
    ])
    func itKeepsNobodyFromWriting(_ statement: String) async throws {
        let fixture = try Self.fixture()
        let database = try Database(path: fixture.target)
        let native = try Connection(path: fixture.folder.file("native.db"))
        try native.execute("CREATE TABLE accounts\(MovingFixture.columns)")
        let rows = "SELECT id, owner, amount FROM accounts ORDER BY id"
        for row in try database.fetchAll(rows) {
            try native.execute("INSERT INTO accounts VALUES (?, ?, ?)", [row[0], row[1], row[2]])
        }
        for isInBlock in [false, true] {
            await Self.die(writing: fixture.source)
            let statement = isInBlock ? statement.replacing("1000", with: "5000") : statement
            try Self.write(database, statement, isInBlock)
            try native.execute(statement)
            #expect(try database.fetchAll(rows).map(\.values) == native.fetchAll(rows).map(\.values))
        }
    }
}
