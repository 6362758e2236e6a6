import SQLiteConnection
import Synchronization
import Testing

@Suite struct `Connections` {
    @Test func `count changes`() throws {
        let connection = try memory()
        try connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        try connection.execute("INSERT INTO t(v) VALUES (1), (2), (3)")
        #expect(connection.changes == 3)
        #expect(connection.lastInsertRowID == 3)
        try connection.execute("DELETE FROM t WHERE id > 1")
        #expect(connection.changes == 2)
        #expect(connection.totalChanges == 5)
        connection.lastInsertRowID = 77
        if Connection.libraryVersionNumber >= 3_018_000 {
            #expect(try connection.fetchValue(Int.self, "SELECT last_insert_rowid()") == 77)
        }
    }

    @Test func `a transaction commits, or is rolled back when its body throws`() throws {
        struct Failure: Error {}
        let connection = try memory()
        try connection.execute("CREATE TABLE t(v)")
        let result = try connection.transaction(.immediate) {
            try connection.execute("INSERT INTO t VALUES (1)")
            #expect(connection.isInTransaction)
            return 5
        }
        #expect(result == 5)
        #expect(throws: Failure.self) {
            try connection.transaction {
                try connection.execute("INSERT INTO t VALUES (2)")
                throw Failure()
            }
        }
        #expect(!connection.isInTransaction)
        #expect(try connection.fetchAll("SELECT v FROM t").map { $0[0] } == [1])
        #expect(throws: SQLiteError.self) { try connection.transaction { try connection.transaction {} } }
        #expect(!connection.isInTransaction)
    }

    @Test func `a transaction that SQLite rolled back passes its error on`() throws {
        let connection = try memory()
        try connection.execute("CREATE TABLE t(v UNIQUE ON CONFLICT ROLLBACK)")
        try connection.execute("INSERT INTO t VALUES (1)")
        let error = try sqliteError {
            try connection.transaction { try connection.execute("INSERT INTO t VALUES (1)") }
        }
        #expect(error.code.primary == .constraint)
        #expect(!connection.isInTransaction)
    }

    @Test(arguments: ["s", "with space", "quo\"te", "mark\"\u{301}", "'", "select"])
    func `savepoints nest, and roll back alone`(name: String) throws {
        struct Failure: Error {}
        let connection = try memory()
        try connection.execute("CREATE TABLE t(v)")
        try connection.savepoint(name) {
            try connection.execute("INSERT INTO t VALUES (1)")
            try? connection.savepoint(name) {
                try connection.execute("INSERT INTO t VALUES (2)")
                throw Failure()
            }
            try connection.savepoint(name) { try connection.execute("INSERT INTO t VALUES (3)") }
        }
        #expect(!connection.isInTransaction)
        #expect(try connection.fetchAll("SELECT v FROM t ORDER BY v").map { $0[0] } == [1, 3])
    }

    @Test func `a lock that another connection holds is waited for`() throws {
        let folder = try TemporaryFolder()
        let (first, second) = (try Connection(path: folder.file("a.db")), try Connection(path: folder.file("a.db")))
        try first.execute("CREATE TABLE t(v)")
        try first.execute("BEGIN IMMEDIATE")
        #expect(try sqliteError { try second.execute("BEGIN IMMEDIATE") }.code.primary == .busy)

        var calls: [Int] = []
        second.setBusyHandler {
            calls.append($0)
            return $0 < 3
        }
        #expect(throws: SQLiteError.self) { try second.execute("BEGIN IMMEDIATE") }
        #expect(calls == [0, 1, 2, 3])

        second.setBusyHandler { _ in
            try? first.execute("COMMIT")
            return true
        }
        try second.execute("BEGIN IMMEDIATE")
        try second.execute("COMMIT")

        try first.execute("BEGIN IMMEDIATE")
        second.setBusyTimeout(milliseconds: 50)
        let clock = ContinuousClock()
        let start = clock.now
        #expect(throws: SQLiteError.self) { try second.execute("BEGIN IMMEDIATE") }
        #expect(clock.now - start >= .milliseconds(40))
        second.setBusyHandler(nil)
        #expect(throws: SQLiteError.self) { try second.execute("BEGIN IMMEDIATE") }
        try first.execute("COMMIT")
    }

    @Test func `a read that cannot become a write has a code of its own`() throws {
        let folder = try TemporaryFolder()
        let (first, second) = (try Connection(path: folder.file("a.db")), try Connection(path: folder.file("a.db")))
        try first.execute("PRAGMA journal_mode = WAL")
        try first.execute("CREATE TABLE t(v)")
        try second.execute("BEGIN")
        _ = try second.fetchAll("SELECT * FROM t")
        try first.execute("INSERT INTO t VALUES (1)")
        #expect(try sqliteError { try second.execute("INSERT INTO t VALUES (2)") }.code == .busySnapshot)
    }

    @Test func `a running statement is interrupted from another thread`() async throws {
        final class Flag: Sendable { let isUp = Mutex(false) }
        let running = Flag()
        try await withThrowingTaskGroup(of: Void.self) { group in
            let connection = try memory()
            let handle = connection.interruptHandle
            try connection.createFunction("began", argumentCount: 0) { _, _ in running.isUp.withLock { $0 = true } }
            group.addTask {
                while !running.isUp.withLock({ $0 }) { await Task.yield() }
                handle.interrupt()
            }
            let error = try sqliteError {
                try connection.execute(
                    """
                    WITH RECURSIVE c(n) AS (SELECT 1 FROM (SELECT began()) UNION ALL SELECT n + 1 FROM c)
                    SELECT max(n) FROM c WHERE began() IS NULL
                    """
                )
            }
            #expect(error.code == .interrupt)
            connection.close()
            handle.interrupt()
        }
    }

    @Test func `a held statement runs after close, and the rest is refused`() throws {
        let folder = try TemporaryFolder()
        let connection = try Connection(path: folder.file("a.db"))
        try connection.execute(script: "CREATE TABLE t(v); INSERT INTO t VALUES (1), (2)")
        connection.setBusyHandler { _ in false }
        connection.setAuthorizer { _ in .allow }
        let statement = try connection.prepare("SELECT v FROM t")
        #expect(try statement.step())
        connection.close()
        connection.close()
        #expect(try statement.step())
        #expect(statement.int64(at: 0) == 2)
        #expect(try !statement.step())
        #expect(try sqliteError { try connection.execute("SELECT 1") }.message == "the connection is closed")
        #expect(throws: SQLiteError.self) { try connection.execute(script: "SELECT 1") }
        #expect(throws: SQLiteError.self) { try connection.checkpoint(mode: .passive) }
        #expect(throws: SQLiteError.self) { try connection.createFunction("f", argumentCount: 0) { _, _ in } }
        #expect(throws: SQLiteError.self) { try connection.createModule("m", VirtualTableModule()) }
        #expect(throws: SQLiteError.self) { try connection.configure(.triggers, false) }
        #expect(throws: SQLiteError.self) { try connection.sync(schema: "main") }
        #expect(connection.changes == 0)
        #expect(!connection.isInTransaction)
        #expect(!connection.hasBusyStatement)
        #expect(connection.fileName(schema: "main") == nil)
        connection.setBusyTimeout(milliseconds: 1)
        connection.setAutomaticCheckpoint(frames: 0)
        connection.setAuthorizer(nil)
        connection.lastInsertRowID = 1
    }

    @Test func `a statement may outlive its connection`() throws {
        var connection: Connection? = try memory()
        connection?.setBusyHandler { _ in true }
        let statement = try #require(try connection?.prepare("SELECT 1"))
        connection = nil
        #expect(try statement.step())
        #expect(statement.int64(at: 0) == 1)
    }

    @Test func `a checkpoint says what it copied`() throws {
        let folder = try TemporaryFolder()
        let connection = try Connection(path: folder.file("a.db"))
        try connection.execute("CREATE TABLE t(v)")
        #expect(try connection.checkpoint(mode: .passive) == (-1, -1))
        try connection.execute("PRAGMA journal_mode = WAL")
        connection.setAutomaticCheckpoint(frames: 0)
        try connection.execute("INSERT INTO t VALUES (1)")
        let passive = try connection.checkpoint(mode: .passive)
        #expect(passive.log > 0)
        #expect(passive.copied == passive.log)
        #expect(try connection.checkpoint(mode: .truncate) == (0, 0))
        #expect(throws: SQLiteError.self) { try connection.checkpoint(schema: "nowhere", mode: .passive) }

        let reader = try Connection(path: folder.file("a.db"))
        try reader.execute("BEGIN")
        _ = try reader.fetchAll("SELECT * FROM t")
        try connection.execute("INSERT INTO t VALUES (2)")
        #expect(try sqliteError { _ = try connection.checkpoint(mode: .truncate) }.code == .busy)
        let partial = try connection.checkpoint(mode: .passive)
        #expect(partial.copied <= partial.log)
        try connection.execute("BEGIN IMMEDIATE")
        try connection.execute("INSERT INTO t VALUES (3)")
        #expect(try sqliteError { _ = try connection.checkpoint(mode: .passive) }.code.primary == .locked)
        try connection.execute("COMMIT")
        try connection.sync(schema: "main")
    }

    @Test func `settings are switched`() throws {
        let connection = try memory()
        try connection.configure(.foreignKeys, true)
        #expect(try connection.fetchValue(Int.self, "PRAGMA foreign_keys") == 1)
        try connection.configure(.foreignKeys, false)
        #expect(try connection.fetchValue(Int.self, "PRAGMA foreign_keys") == 0)
        try connection.execute(
            script: "CREATE TABLE t(v); CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM t; END"
        )
        try connection.configure(.triggers, false)
        try connection.execute("INSERT INTO t VALUES (1)")
        #expect(try connection.fetchValue(Int.self, "SELECT count(*) FROM t") == 1)
    }

    @Test func `busy statements are seen`() throws {
        let connection = try memory()
        let statement = try connection.prepare("SELECT 1")
        #expect(!connection.hasBusyStatement)
        #expect(try statement.step())
        #expect(connection.hasBusyStatement)
        statement.reset()
        #expect(!connection.hasBusyStatement)
    }
}
