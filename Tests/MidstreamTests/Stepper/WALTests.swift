import SQLiteConnection
import Synchronization
import Testing

@testable import Midstream

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

private final class Flag: Sendable {
    let value = Mutex(false)
}

@Suite struct WALTests {
    @Test func theWALStaysShortAlthoughReadersComeAndGoWithoutAPause() async throws {
        let folder = TemporaryFolder()
        let database = try Database(path: folder.file("new.db"))
        try database.execute(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, x BLOB);"
                + "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) "
                + "INSERT INTO t SELECT i, zeroblob(3500) FROM n"
        )
        let isOver = Flag()
        var largest: Int64 = 0
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<3 {
                group.addTask {
                    while !isOver.value.withLock({ $0 }) {
                        _ = try await database.read { try $0.fetchValue(Int64.self, "SELECT sum(length(x)) FROM t") }
                    }
                }
            }
            // 50,000 pages, 200 MB, in all.
            for round in 0..<100 {
                try await database.write { try $0.execute("UPDATE t SET x = randomblob(3500 + ?)", [round % 7]) }
                var status = stat()
                stat(folder.file("new.db-wal"), &status)
                largest = max(largest, Int64(status.st_size))
            }
            isOver.value.withLock { $0 = true }
            try await group.waitForAll()
        }
        #expect(largest < 64 << 20, "the WAL grew to \(largest) bytes")
    }

    @Test func theWALStaysShortAlthoughStepsHaveAllTimeThereIs() throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x BLOB)")
        // The source has 120 MB.
        try old.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000) "
                + "INSERT INTO t SELECT i, zeroblob(3900) FROM n"
        )
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x BLOB)")
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "t" }
        var largest = 0
        while try !database.stepMigration(budget: .seconds(60)).isFinished {
            largest = max(largest, Files.size(folder.file("new.db-wal")))
        }
        #expect(largest < 64 << 20, "the WAL grew to \(largest) bytes")
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 30_000)
    }

    private func keeper() -> WALKeeper {
        let readers = ReaderPool(capacity: 1) { throw CancellationError() }
        return WALKeeper { readers.withoutReaders(for: $0, $1) }
    }

    @Test func stepsCopyForTheApplicationWhileTheyFollowEachOther() {
        let keeper = keeper()
        #expect(!keeper.committed(999))
        #expect(keeper.committed(1000))
        keeper.stepped(10)
        #expect(!keeper.committed(1500))
        #expect(keeper.isDueForSteps)
        usleep(300_000)
        // No further step comes.
        #expect(!keeper.committed(1009))
        #expect(keeper.committed(1010))
    }

    @Test func aLongWALIsShortenedWhenLittleIsLeftToCopy() {
        let keeper = keeper()
        keeper.stepped(10)
        _ = keeper.committed(10_000)
        #expect(!keeper.isLong)
        #expect(keeper.framesInTheWay == 10_000)
        _ = keeper.committed(12_500)
        #expect(keeper.isLong)
        let still = self.keeper()
        _ = still.committed(10_000)
        #expect(still.isLong)
    }

    /// This is for instance an old build, whose connection reads the file in its former journal mode.
    @Test func whoReadsInTheOldModeIsWaitedFor() async throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("new.db"))
        defer { old.close() }
        try old.execute(script: "CREATE TABLE t(x); INSERT INTO t VALUES (1); BEGIN; SELECT * FROM t;")
        var configuration = DatabaseConfiguration()
        configuration.busyTimeout = .milliseconds(50)
        let error = #expect(throws: SQLiteError.self) {
            _ = try Database(path: folder.file("new.db"), configuration: configuration)
        }
        #expect(error?.code == .busy)
        let threads = Threads()
        threads.start("new") { threads in
            let database = try Database(path: folder.file("new.db"))
            #expect(try database.fetchValue(String.self, "PRAGMA journal_mode") == "wal")
            threads.count("opened")
        }
        usleep(200_000)
        #expect(threads.count(of: "opened") == 0)
        try old.execute("COMMIT")
        await threads.join()
        #expect(threads.count(of: "opened") == 1)
    }

    /// What nobody can copy from the WAL into the file meanwhile keeps no step from moving rows.
    @Test func rowsMoveOnWhileSomebodyReadsForLong() throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(
            script: """
                CREATE TABLE t(id INTEGER PRIMARY KEY, body);
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)
                INSERT INTO t SELECT i, zeroblob(1500) FROM n;
                """
        )
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, body)")
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "t" }
        let reader = try Connection(path: folder.file("new.db"))
        try reader.execute("BEGIN")
        _ = try reader.fetchAll("SELECT count(*) FROM sqlite_master")
        var (vain, most) = (0, 0)
        while try database.readMigrationProgress().tables.first?.phase == .copying {
            let progress = try database.stepMigration()
            vain = progress.rowsMovedByStep > 0 || progress.tables.first?.phase != .copying ? 0 : vain + 1
            most = max(most, vain)
            if most > 100 { break }
        }
        // Among these steps are those that count the rows, and those that copy what they can from the WAL.
        #expect(most < 100)
        try reader.execute("COMMIT")
        try finishMigration(database)
    }

    /// Without patience, one of some hundred attempts fails.
    @Test func severalMayTurnAFileAtOnce() async {
        for _ in 0..<400 {
            let folder = TemporaryFolder()
            let threads = Threads()
            for name in ["a", "b", "c", "d"] {
                threads.start(name) { _ in
                    let connection = try Connection(path: folder.file("new.db"))
                    defer { connection.close() }
                    connection.setBusyTimeout(milliseconds: 5000)
                    try WALMode.set(connection, patience: .seconds(5))
                    try connection.execute("CREATE TABLE IF NOT EXISTS t(x)")
                }
            }
            await threads.join()
        }
    }
}
