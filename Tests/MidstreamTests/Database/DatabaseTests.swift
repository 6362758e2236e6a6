@testable import Midstream
import SQLiteC
import SQLiteConnection
import Synchronization
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

@Suite struct DatabaseTests {
    @Test(arguments: [
        "UPDATE accounts SET amount = 1 WHERE id = 3", "DELETE FROM accounts WHERE id = 3", "DELETE FROM accounts",
        "INSERT INTO accounts VALUES (900, 'x', 1)", "INSERT OR REPLACE INTO accounts VALUES (3, 'x', 1)",
    ])
    func whoReadsCannotWriteAMovingTable(_ sql: String) throws {
        let fixture = try MovingFixture(rows: 10)
        let database = try fixture.open()
        try database.stepMigration(rows: 1)
        for error in [
            #expect(throws: SQLiteError.self, performing: { try database.fetchAll(sql) }),
            #expect(throws: SQLiteError.self, performing: { try database.read { try $0.execute(sql) } }),
        ] {
            #expect(error?.code == .readOnly && error?.message == "attempt to write a readonly database")
        }
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
    }

    @Test func whoReadsCannotDeleteWhatAForeignKeyTies() throws {
        let fixture = try MovingFixture(rows: 10)
        let plain = try Connection(path: fixture.target)
        try plain.execute("CREATE TABLE child(a REFERENCES accounts(id))")
        plain.close()
        var configuration = DatabaseConfiguration()
        configuration.enforcesForeignKeys = true
        let database = try Database(path: fixture.target, configuration: configuration)
        try MovingFixture.addMigration(database, fixture.source)
        try database.stepMigration(rows: 1)
        let error = #expect(throws: SQLiteError.self) { try database.fetchAll("DELETE FROM accounts WHERE id = 3") }
        #expect(error?.code == .readOnly)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM accounts") == 10)
    }

    /// The timeout may be of any length.
    @Test(arguments: [Duration.seconds(Int64.max / 4), .seconds(Int64.max), .seconds(-5), .zero])
    func aBusyTimeoutIsAsLongAsSQLiteTakes(_ timeout: Duration) throws {
        let fixture = try MovingFixture(rows: 10)
        var configuration = DatabaseConfiguration()
        configuration.busyTimeout = timeout
        let database = try Database(path: fixture.target, configuration: configuration)
        try MovingFixture.addMigration(database, fixture.source)
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM accounts") == 10)
    }

    @Test(.timeLimit(.minutes(1))) func progressEndsWithTheDatabase() async throws {
        let fixture = try MovingFixture(rows: 10)
        let database = try fixture.open()
        let progress = database.migrationProgress
        var seen = 0
        for await _ in progress {
            seen += 1
            database.close()
        }
        #expect(seen == 1)
        for await _ in database.migrationProgress { seen += 1 }
        #expect(seen == 1)
        var dropped: Database? = try fixture.open()
        let left = try #require(dropped?.migrationProgress)
        dropped = nil
        for await _ in left { seen += 1 }
        #expect(seen == 2)
    }

    #if os(Linux)
        /// A shared cache locks whole tables, and readers of the process hold these locks.
        @Test func aCacheThatTheProcessSharesIsNotUsed() throws {
            sqlite3_enable_shared_cache(1)
            defer { sqlite3_enable_shared_cache(0) }
            let fixture = try MovingFixture(rows: 300)
            let database = try fixture.open()
            try database.read { db in
                #expect(try db.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
                try database.stepMigration(rows: 100)
                #expect(try db.fetchValue(Int64.self, "SELECT count(*) FROM accounts") == 300)
            }
            try finishMigration(database)
            #expect(try MovingFixture.count("accounts", in: fixture.target) == 300)
        }
    #endif

    struct Message: Codable, Equatable {
        var id: Int64?
        var body: String
        var isRead: Bool
    }

    static func messages(moved: Int64 = 0) throws -> Pair {
        try Pair(
            schema:
                "CREATE TABLE messages(id INTEGER PRIMARY KEY, body TEXT NOT NULL, isRead INTEGER NOT NULL DEFAULT 0)",
            rows: "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) "
                + "INSERT INTO messages SELECT i, 'body ' || i, i % 2 FROM n",
            tables: ["messages"],
            moved: moved
        )
    }

    @Test func recordsGoInAndOutOfAMovingTable() throws {
        let pair = try Self.messages(moved: 50)
        try pair.database.insert(Message(id: nil, body: "new", isRead: true), into: "messages")
        let read = try pair.database.fetchAll(
            Message.self,
            "SELECT * FROM messages WHERE id IN (10, 90, 101) ORDER BY id"
        )
        #expect(
            read == [
                Message(id: 10, body: "body 10", isRead: false), Message(id: 90, body: "body 90", isRead: false),
                Message(id: 101, body: "new", isRead: true),
            ]
        )
    }

    @Test func aReadBlockSeesOneSnapshotWhileOthersWriteAndRowsMove() throws {
        let pair = try Self.messages()
        try pair.database.read { access in
            let before = try access.fetchValue(Int64.self, "SELECT count(*) FROM messages")
            try pair.database.execute("DELETE FROM messages WHERE id > 50")
            try pair.database.stepMigration(rows: 20)
            #expect(try access.fetchValue(Int64.self, "SELECT count(*) FROM messages") == before)
            #expect(
                try access.fetchValue(Int64.self, "SELECT count(id) FROM messages WHERE body LIKE 'body%'") == before
            )
        }
        #expect(try pair.database.fetchValue(Int64.self, "SELECT count(id) FROM messages") == 50)
    }

    @Test func aWriteBlockThatThrowsLeavesNothing() throws {
        struct Refusal: Error {}
        let pair = try Self.messages(moved: 10)
        #expect(throws: Refusal.self) {
            try pair.database.write { access in
                try access.execute("UPDATE messages SET body = 'x'")
                throw Refusal()
            }
        }
        #expect(try pair.database.fetchValue(Int64.self, "SELECT count(*) FROM messages WHERE body = 'x'") == 0)
        #expect(try pair.database.fetchValue(Int64.self, "SELECT count(*) FROM messages") == 100)
    }

    @Test func asynchronousBlocksReadAndWrite() async throws {
        let pair = try Self.messages(moved: 30)
        let database = pair.database
        try await database.write { try $0.execute("UPDATE messages SET isRead = 2 WHERE id BETWEEN 20 AND 40") }
        let counts = try await withThrowingTaskGroup(of: Int64?.self) { group in
            for _ in 0..<50 {
                group.addTask {
                    try await database.read {
                        try $0.fetchValue(Int64.self, "SELECT count(*) FROM messages WHERE isRead = 2")
                    }
                }
            }
            return try await group.reduce(into: Set<Int64?>()) { $0.insert($1) }
        }
        #expect(counts == [21])
    }

    @Test func aCancelledTaskEndsItsStatement() async throws {
        let pair = try Self.messages()
        let database = pair.database
        let task = Task {
            try await database.read {
                try $0.fetchValue(
                    Int64.self,
                    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
                )
            }
        }
        try await Task.sleep(for: .milliseconds(50))
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM messages") == 100)
    }

    @Test func aBlockThatWritesCannotBeginAnother() throws {
        let pair = try Self.messages()
        try pair.database.write { _ in
            #expect(throws: MigrationError.self) { try pair.database.write { _ in } }
            #expect(throws: MigrationError.self) {
                try pair.database.addMigration(source: .file(pair.source), allowsNoTables: true) { _ in }
            }
        }
    }

    @Test func autoMigrationEndsWithItsCallbacks() async throws {
        let pair = try Self.messages()
        let events = Mutex<[String]>([])
        pair.database.onMigrated { event in
            events.withLock { events in
                switch event {
                case .tableMoved(let name): events.append(name)
                case .databaseMoved: events.append("all")
                default: events.append("\(event)")
                }
            }
        }
        let progress = pair.database.migrationProgress
        pair.database.startAutoMigration(pace: MigrationPace(budget: .milliseconds(5), interval: .milliseconds(5)))
        var last: MigrationProgress?
        for await step in progress { last = step }
        #expect(last?.isFinished == true)
        #expect(pair.database.isMigrated)
        #expect(events.withLock { $0 } == ["messages", "all"])
        #expect(try pair.database.fetchValue(Int64.self, "SELECT count(*) FROM messages") == 100)
    }

    /// Steps that have little to do follow each other without an interval.
    @Test func stepsOfAutoMigrationFillTheirBudget() async throws {
        let pair = try Pair(
            schema: "CREATE TABLE messages(id INTEGER PRIMARY KEY, body TEXT UNIQUE)",
            rows: "INSERT INTO messages VALUES (1, 'a'), (2, 'b'), (3, 'c')",
            tables: ["messages"]
        )
        // Each part of a build is a separate step.
        try pair.database.buildsAllTables()
        // The sequence of progress gives a slow reader the newest step alone, so a handler counts.
        let steps = Mutex(0)
        pair.database.onMigrationProgress { _ in steps.withLock { $0 += 1 } }
        let progress = pair.database.migrationProgress
        pair.database.startAutoMigration(pace: MigrationPace(budget: .seconds(60), interval: .seconds(3600)))
        for await _ in progress {}
        #expect(steps.withLock { $0 } > 1)
        #expect(pair.database.isMigrated)
    }

    /// The callback of a migration's end begins another migration, and lets it make steps, too.
    @Test(arguments: [true, false]) func autoMigrationGoesOnWithWhatIsBegunAtItsEnd(isStartedAnew: Bool) async throws {
        let fixture = try MovingFixture(rows: 50)
        let database = try fixture.open()
        try database.execute("CREATE TABLE later(id INTEGER PRIMARY KEY, x)")
        let path = fixture.folder.file("later.db")
        try Connection(path: path).execute(
            script: "CREATE TABLE later(id INTEGER PRIMARY KEY, x); INSERT INTO later VALUES (1, 'a'), (2, 'b')"
        )
        let pace = MigrationPace(budget: .milliseconds(5), interval: .milliseconds(5))
        database.onMigrated { [weak database] event in
            guard case .tableMoved("accounts") = event, let database else { return }
            _ = try? database.addMigration(source: .file(path)) { if $0.name == "later" { $0.sourceTable = "later" } }
            if isStartedAnew { database.startAutoMigration(pace: pace) }
        }
        database.startAutoMigration(pace: pace)
        let deadline = ContinuousClock.now + .seconds(30)
        while try MovingFixture.count("later", in: fixture.target) != 2, ContinuousClock.now < deadline { usleep(5000) }
        #expect(try MovingFixture.count("later", in: fixture.target) == 2)
    }

    /// The block's earlier writes are lost, and its later writes must not be committed without them.
    @Test(arguments: ["INSERT OR ROLLBACK INTO t VALUES (20, 'b')", "INSERT INTO t VALUES (30, 'c')"])
    func aBlockWhoseTransactionIsRolledBackIsNotCommitted(_ failing: String) throws {
        let folder = TemporaryFolder()
        let database = try Database(path: folder.file("new.db"))
        try database.execute(
            """
            CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (20, 'a');
            CREATE TRIGGER r BEFORE INSERT ON t WHEN new.id = 30 BEGIN SELECT RAISE(ROLLBACK, 'no'); END
            """
        )
        var caught: [SQLiteError?] = []
        let error = #expect(throws: SQLiteError.self) {
            try database.write { access in
                try access.execute("INSERT INTO t VALUES (1, 'first')")
                for sql in [failing, "INSERT INTO t VALUES (2, 'second')"] {
                    do { try access.execute(sql) } catch { caught.append(error as? SQLiteError) }
                }
            }
        }
        #expect(caught.count == 2 && caught[1]?.code == caught[0]?.code)
        #expect(error?.code == caught[0]?.code && error?.message.contains("has been rolled back") == true)
        #expect(throws: SQLiteError.self) { try database.write { access in try? access.execute(failing) } }
        #expect(try database.fetchValue(String.self, "SELECT group_concat(id) FROM t") == "20")
        try database.write { try $0.execute("INSERT INTO t VALUES (3, 'third')") }
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 2)
    }

    /// While a statement runs that has been interrupted, SQLite does not roll back to a savepoint.
    @Test(arguments: [true, false]) func whatCannotBeUndoneIsNotCommitted(_ isInBlock: Bool) throws {
        let folder = TemporaryFolder()
        let database = try Database(path: folder.file("a.db"))
        try database.execute("CREATE TABLE t(x); CREATE TABLE z(x); INSERT INTO z VALUES (1), (2)")
        func undo(_ access: DatabaseAccess) throws {
            try access.execute("INSERT INTO t VALUES (0)")
            try access.forEachRow("SELECT x FROM z") { _ in
                try? access.protected {
                    try access.connection.execute("INSERT INTO t VALUES (1)")
                    access.connection.interruptHandle.interrupt()
                    throw CancellationError()
                }
                return false
            }
        }
        if isInBlock {
            #expect(throws: SQLiteError.self) { try database.write { try undo($0) } }
        } else {
            try database.withoutTransaction { access in
                try access.execute("BEGIN")
                try undo(access)
                #expect(throws: SQLiteError.self) { try access.execute("COMMIT") }
                #expect(!access.isInTransaction)
                try access.execute("INSERT INTO z VALUES (3)")
            }
        }
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 0)
        try database.execute("INSERT INTO t VALUES (2)")
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 1)
    }

    /// A reader that waited for a connection of the pool would wait for itself.
    @Test func readsWithinReadsHaveConnectionsOfTheirOwn() throws {
        let folder = TemporaryFolder()
        var configuration = DatabaseConfiguration()
        configuration.readerCount = 1
        let database = try Database(path: folder.file("new.db"), configuration: configuration)
        try database.execute("CREATE TABLE t(x); INSERT INTO t VALUES (1)")
        for _ in 0..<3 {
            let value = try database.read { _ in
                try database.read { _ in try database.fetchValue(Int.self, "SELECT x FROM t") }
            }
            #expect(value == 1)
        }
        #expect(try database.fetchValue(Int.self, "SELECT x FROM t") == 1)
    }
}
