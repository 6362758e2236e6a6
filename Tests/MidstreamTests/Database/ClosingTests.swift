import Dispatch
import Midstream
import SQLiteConnection
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

@Suite struct ClosingTests {
    /// The process's open files in the folder.
    private func openFiles(in folder: String) -> [String] {
        var found: [String] = []
        for descriptor in 0..<4096 {
            var buffer = [CChar](repeating: 0, count: 4096)
            let count = readlink("/proc/self/fd/\(descriptor)", &buffer, buffer.count - 1)
            guard count > 0 else { continue }
            let path = String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
            if path.hasPrefix(folder) { found.append(path) }
        }
        return found
    }

    #if os(Linux)
        @Test(arguments: [true, false])
        func aDatabaseThatIsLetGoClosesItsFiles(isClosedByHand: Bool) throws {
            let folder = TemporaryFolder()
            try Connection(path: folder.file("old.db")).execute(
                script: "CREATE TABLE t(id INTEGER PRIMARY KEY, k UNIQUE); INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)"
            )
            do {
                let database = try Database(path: folder.file("new.db"))
                try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, k UNIQUE)")
                try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "t" }
                try database.stepMigration(rows: 1)
                try database.execute("UPDATE t SET k = k + 10 WHERE k = 3")
                #expect(try database.fetchValue(Int64.self, "SELECT sum(k) FROM t") == 16)
                #expect(!openFiles(in: folder.path).isEmpty)
                if isClosedByHand { database.close() }
            }
            #expect(openFiles(in: folder.path) == [])
        }

        /// The filter is called while the stepper is in use.
        @Test func aDatabaseThatAFilterClosesClosesItsFiles() throws {
            let fixture = try MovingFixture(rows: 50)
            let database = try Database(path: fixture.target)
            try database.addMigration(source: .file(fixture.source), allowsNoTables: true) { _ in database.close() }
            // The writer is closed when it has done its present work.
            for _ in 0..<500 where !openFiles(in: fixture.folder.path).isEmpty { usleep(10_000) }
            #expect(openFiles(in: fixture.folder.path) == [])
            let error = #expect(throws: MigrationError.self) { try database.stepMigration() }
            #expect(error?.code == .misuse)
        }
    #endif

    @Test func autoMigrationOfAClosedDatabaseDoesNothing() throws {
        let fixture = try MovingFixture(rows: 50)
        let database = try Database(path: fixture.target)
        try MovingFixture.addMigration(database, fixture.source)
        database.close()
        let threads = Threads()
        database.startAutoMigration {
            threads.count("asked")
            return true
        }
        usleep(50_000)
        #expect(threads.count(of: "asked") == 0)
    }

    /// A writer waits for the filter, because it wants to show the filter the table that it has made.
    @Test(.timeLimit(.minutes(1))) func aFilterClosesItsDatabaseWhileAWriterWaitsForIt() async throws {
        let fixture = try MovingFixture(rows: 50)
        let database = try Database(path: fixture.target)
        try MovingFixture.addMigration(database, fixture.source)
        let isAsked = DispatchSemaphore(value: 0)
        let threads = Threads()
        threads.start("writer") { _ in
            isAsked.wait()
            try? database.execute("CREATE TABLE other(x)")
        }
        threads.start("filter") { _ in
            try database.addMigration(source: .file(fixture.source), allowsNoTables: true) { _ in
                isAsked.signal()
                usleep(200_000)
                database.close()
            }
        }
        await threads.join()
        // The writer closes when it has done its present work.
        for _ in 0..<500 where (try? database.stepMigration()) != nil { usleep(10_000) }
        #expect(throws: MigrationError.self) { try database.stepMigration() }
    }

    /// Otherwise the timer would make steps, and fail, for ever.
    @Test func aTimerThatStartsWhileTheDatabaseIsClosedEnds() async throws {
        for _ in 0..<40 {
            let fixture = try MovingFixture(rows: 5)
            let database = try Database(path: fixture.target)
            try MovingFixture.addMigration(database, fixture.source)
            let threads = Threads()
            threads.start("closer") { _ in database.close() }
            threads.start("starter") { threads in
                database.startAutoMigration {
                    threads.count("asked")
                    return true
                }
            }
            await threads.join()
            // A step that is running may end.
            usleep(20_000)
            let asked = threads.count(of: "asked")
            usleep(50_000)
            #expect(threads.count(of: "asked") == asked)
        }
    }

    /// Otherwise the block's transaction would be rolled back, and nobody would be told.
    @Test func aBlockThatClosesItsDatabaseIsCommitted() async throws {
        let folder = TemporaryFolder()
        for isAsync in [false, true] {
            let path = folder.file("\(isAsync).db")
            let database = try Database(path: path)
            try database.execute("CREATE TABLE t(x)")
            let body: @Sendable (DatabaseAccess) throws -> Void = { access in
                try access.execute("INSERT INTO t VALUES (1)")
                database.close()
                try access.execute("INSERT INTO t VALUES (2)")
            }
            if isAsync { try await database.write(body) } else { try onCurrentThread(database, body) }
            #expect(throws: (any Error).self) { try database.execute("INSERT INTO t VALUES (3)") }
            let plain = try Connection(path: path)
            defer { plain.close() }
            #expect(try plain.fetchValue(Int.self, "SELECT sum(x) FROM t") == 3)
        }
    }

    /// The migration waits for the block to end, and the block must not wait for the migration.
    @Test(arguments: ["write", "read", "ask"]) func aBlockMayCloseWhileAMigrationBegins(_ kind: String) async throws {
        let fixture = try MovingFixture(rows: 20)
        var configuration = DatabaseConfiguration()
        // Without a WAL, a reader keeps others from committing.
        configuration.journalMode = .unchanged
        let database = try Database(path: fixture.target, configuration: configuration)
        let threads = Threads()
        threads.start("block") { [target = fixture.target] _ in
            let body: (DatabaseAccess) throws -> Void = { access in
                if kind == "write" { try access.execute("UPDATE accounts SET amount = 0") }
                _ = try access.fetchAll("SELECT * FROM accounts")
                Files.mark(target + "-written")
                usleep(300_000)
                if kind == "ask" { _ = try database.readMigrationProgress() } else { database.close() }
            }
            if kind == "write" { try database.write(body) } else { try database.read(body) }
        }
        #expect(waitForFile(fixture.target + "-written"))
        let start = ContinuousClock.now
        // The migration may begin before the database is closed.
        try? MovingFixture.addMigration(database, fixture.source)
        #expect(ContinuousClock.now - start < .seconds(4))
        await threads.join()
        let again = try fixture.open()
        #expect(try again.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
    }

    private func onCurrentThread(_ database: Database, _ body: (DatabaseAccess) throws -> Void) throws {
        try database.write(body)
    }
}
