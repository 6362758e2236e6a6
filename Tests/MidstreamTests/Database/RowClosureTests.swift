import Dispatch
import Midstream
import SQLiteConnection
import SQLiteFeatures
import Synchronization
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// What the closures that are given rows may throw or do.
@Suite struct RowClosureTests {
    private func pair(_ table: String = "CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER, name TEXT)") throws -> Pair {
        try Pair(
            schema: table,
            rows: "INSERT INTO t VALUES (5, 1, NULL), (6, 2, 'b'), (7, 3, 'c')",
            extra: "CREATE TABLE log(n)",
            tables: ["t"],
            moved: 1
        )
    }

    private struct Own: Error {}

    /// A transaction that the body of a loop begins is the application's, even if the loop fails.
    @Test(arguments: [
        "SELECT id FROM t", "SELECT abs(CASE id WHEN 5 THEN 1 ELSE -9223372036854775807 - 1 END) FROM t",
    ])
    func aTransactionThatTheBodyOfALoopBeginsGoesOn(_ sql: String) throws {
        let pair = try pair()
        try pair.database.withoutTransaction { db in
            for begin in ["BEGIN", "SAVEPOINT s"] {
                #expect(throws: (any Error).self) {
                    try db.forEachRow(sql) { _ in
                        if db.isInTransaction { return true }
                        try db.execute(begin)
                        try db.execute("INSERT INTO log VALUES (1)")
                        if sql == "SELECT id FROM t" { throw Own() }
                        return true
                    }
                }
                #expect(db.isInTransaction)
                try db.execute("INSERT INTO log VALUES (2)")
                try db.execute("COMMIT")
            }
        }
        #expect(texts(try pair.database.fetchAll("SELECT n FROM log")) == ["1", "2", "1", "2"])
    }

    /// What the body of a loop has committed is reported as committed, whatever becomes of the loop.
    @Test func aTransactionThatTheBodyOfALoopEndsIsNoLoss() throws {
        let pair = try pair()
        var seen: (any Error)?
        try pair.database.write { db in
            try db.execute("INSERT INTO log VALUES (1)")
            do {
                try db.forEachRow("SELECT id FROM t") { _ in
                    try db.execute("COMMIT")
                    throw Own()
                }
            } catch {
                seen = error
            }
        }
        #expect(seen is Own)
        #expect(try pair.database.fetchValue(Int.self, "SELECT count(*) FROM log") == 1)
    }

    /// The loop over a statement that promotes rows has a transaction of its own.
    @Test(.needs(.returning), arguments: [false, true]) func aTransactionThatFollowsTheLoopsOwnGoesOn(_ throwsOwn: Bool)
        throws
    {
        let pair = try pair()
        try pair.database.withoutTransaction { db in
            #expect(throws: (any Error).self) {
                try db.forEachRow("UPDATE t SET n = n + 1 WHERE id > 1 RETURNING id") { _ in
                    try db.execute("ROLLBACK")
                    try db.execute("BEGIN")
                    try db.execute("INSERT INTO log VALUES (1)")
                    if throwsOwn { throw Own() }
                    return false
                }
            }
            #expect(db.isInTransaction)
            try db.execute("INSERT INTO log VALUES (2)")
            try db.execute("ROLLBACK")
        }
        #expect(try pair.database.fetchValue(Int.self, "SELECT count(*) FROM log") == 0)
    }

    private struct Named: Decodable { var name: String }

    /// That a value cannot be decoded does not mean that the table refuses the value.
    @Test(.needs(.returning)) func aStatementRunsOnceWhateverIsThrownOfItsRows() throws {
        let pair = try pair()
        #expect(throws: (any Error).self) {
            try pair.database.withoutTransaction {
                _ = try $0.fetchOne(Named.self, "UPDATE t SET n = n + 1, name = NULL WHERE id = 7 RETURNING name")
            }
        }
        #expect(throws: (any Error).self) {
            try pair.database.withoutTransaction { access in
                try access.forEachRow("INSERT INTO t(n) VALUES (70) RETURNING id") { row in
                    _ = try row.read(String.self, at: 0)
                    return true
                }
            }
        }
        #expect(texts(try pair.database.fetchAll("SELECT n FROM t WHERE id >= 7 ORDER BY n")) == ["4", "70"])
        #expect(throws: SQLiteError.self) { try pair.database.fetchValue(String.self, "SELECT count(*) FROM t") }
        #expect(throws: SQLiteError.self) {
            try pair.database.read { _ = try $0.fetchValue(String.self, "SELECT count(*) FROM t") }
        }
        #expect(pair.database.migrationStatistics.drained.isEmpty)
    }

    private struct Numbered: Decodable { var id: Int64 }

    /// The write is committed when the statement ends, and here the statement does not reach its last row.
    @Test(.needs(.returning)) func aWriteOfWhichOneRowIsTakenTellsThatItIsNotCommitted() throws {
        let schema =
            "CREATE TABLE p(id INTEGER PRIMARY KEY); "
            + "CREATE TABLE c(id INTEGER PRIMARY KEY, p REFERENCES p DEFERRABLE INITIALLY DEFERRED)"
        let folder = TemporaryFolder()
        var configuration = DatabaseConfiguration()
        configuration.enforcesForeignKeys = true
        let database = try Database(path: folder.file("new.db"), configuration: configuration)
        try database.execute(schema)
        let sql = "INSERT INTO c(p) VALUES (999) RETURNING id"
        let calls: [(DatabaseAccess) throws -> Void] = [
            { _ = try $0.fetchValue(Int64.self, sql) }, { _ = try $0.fetchOne(sql) },
            { _ = try $0.fetchOne(Numbered.self, sql) }, { try $0.forEachRow(sql) { _ in false } },
        ]
        for call in calls {
            let error = #expect(throws: SQLiteError.self) { try database.withoutTransaction(call) }
            #expect(error.map { ResultCode.constraint ~= $0.code } == true)
        }
        let plain = try Connection(path: folder.file("plain.db"))
        try plain.configure(.foreignKeys, true)
        try plain.execute(script: schema)
        #expect(throws: SQLiteError.self) { try plain.fetchValue(Int64.self, sql) }
        #expect(throws: SQLiteError.self) { try plain.fetchOne(sql) }
        #expect(throws: SQLiteError.self) { try plain.fetchOne(Numbered.self, sql) }
        try database.execute("INSERT INTO p VALUES (999)")
        try database.withoutTransaction { access in
            #expect(try access.fetchValue(Int64.self, sql) == 1)
            try access.forEachRow(sql) { _ in false }
        }
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM c") == 2)
    }

    /// Each of the two blocks has what the other one waits for.
    @Test(.timeLimit(.minutes(1))) func aBlockThatReadsWritesWhileOneThatWritesReads() async throws {
        let folder = TemporaryFolder()
        var configuration = DatabaseConfiguration()
        configuration.readerCount = 1
        let database = try Database(path: folder.file("new.db"), configuration: configuration)
        try database.execute("CREATE TABLE log(n)")
        let isReading = DispatchSemaphore(value: 0)
        let isWriting = DispatchSemaphore(value: 0)
        let threads = Threads()
        threads.start("reads") { _ in
            try database.read { access in
                isReading.signal()
                isWriting.wait()
                try database.write { try $0.execute("INSERT INTO log VALUES (1)") }
            }
        }
        threads.start("writes") { _ in
            isReading.wait()
            try database.write { access in
                isWriting.signal()
                usleep(50_000)
                _ = try database.fetchAll("SELECT * FROM log")
                try access.execute("INSERT INTO log VALUES (2)")
            }
        }
        await threads.join()
        #expect(try database.fetchValue(Int64.self, "SELECT sum(n) FROM log") == 3)
    }

    @Test(.needs(.strict)) func savepointsOfALoopOverAQueryAreTheApplications() throws {
        let pair = try pair("CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER, name TEXT) STRICT")
        try pair.database.write { access in
            try access.execute("SAVEPOINT s")
            try access.execute("INSERT INTO log VALUES (1)")
            try access.forEachRow("SELECT count(*) FROM t") { _ in
                try access.execute("SAVEPOINT s")
                try access.execute("INSERT INTO log VALUES (2)")
                return true
            }
            try access.execute("ROLLBACK TO s")
        }
        #expect(texts(try pair.database.fetchAll("SELECT n FROM log")) == ["1"])
    }

    @Test func aFilterDoesNotWrite() throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(script: "CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY); CREATE TABLE log(n)")
        let error = #expect(throws: MigrationError.self) {
            try database.addMigration(source: .file(folder.file("old.db"))) { table in
                _ = try database.fetchAll("SELECT * FROM log")
                try database.execute("INSERT INTO log VALUES (1)")
                table.sourceTable = table.name
            }
        }
        #expect(error?.code == .misuse)
        try database.execute("INSERT INTO log VALUES (2)")
        #expect(texts(try database.fetchAll("SELECT n FROM log")) == ["2"])
    }

    /// The cancellation meets no statement that it could interrupt.
    @Test func aWriteOfACancelledTaskIsRolledBack() async throws {
        let folder = TemporaryFolder()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(n)")
        let (begun, hasBegun) = AsyncStream.makeStream(of: Void.self)
        let isCancelled = Mutex(false)
        let task = Task {
            try await database.write { access in
                hasBegun.finish()
                while !isCancelled.withLock({ $0 }) {}
                try access.execute("INSERT INTO t VALUES (1)")
            }
        }
        for await _ in begun {}
        task.cancel()
        isCancelled.withLock { $0 = true }
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 0)
    }

    @Test func readersThatWaitEndWhenTheDatabaseIsClosed() async {
        for _ in 0..<100 {
            let folder = TemporaryFolder()
            await #expect(throws: Never.self) {
                var configuration = DatabaseConfiguration()
                configuration.readerCount = 1
                let database = try Database(path: folder.file("new.db"), configuration: configuration)
                await withTaskGroup(of: Void.self) { group in
                    for _ in 0..<6 { group.addTask { _ = try? await database.read { try $0.fetchOne("SELECT 1") } } }
                    database.close()
                }
            }
        }
    }
}
