import Midstream
import MidstreamTesting
import SQLiteConnection
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Readers and writers beside a stepper, from its first step until everything of the migration is gone. They see each
/// row exactly once, in the snapshot with which a transaction began.
@Suite struct ReaderTests {
    static let aggregates = "SELECT count(*), sum(amount), sum(id * amount) FROM accounts"

    /// Checks what holds at every moment, since each transaction keeps it so.
    static func checkInvariants(_ row: Row?, _ rows: Int, _ threads: Threads, _ reader: String) {
        guard let row, row[0] == .integer(Int64(rows)), row[1] == .integer(Int64(rows) * 100) else {
            return threads.note("\(reader): \(row.map { "\($0[0]) rows, sum \($0[1])" } ?? "nothing")")
        }
    }

    /// Reads the same rows two and three times in one transaction.
    static func readLong(_ database: Database, _ rows: Int, _ threads: Threads, _ reader: String) throws {
        try database.read { access in
            let first = try access.fetchOne(aggregates)
            checkInvariants(first, rows, threads, reader)
            let owners = try access.fetchAll("SELECT owner, count(*), sum(amount) FROM accounts GROUP BY owner")
            for _ in 0..<3 {
                if try access.fetchOne(aggregates) != first { threads.note("\(reader): not repeatable") }
                let row = try access.fetchOne("SELECT count(*), sum(amount) FROM accounts WHERE owner = 'o3'")
                let before = owners.first { $0[0] == .text("o3") }
                if row?[0] != before?[1] || row?[1] != before?[2] { threads.note("\(reader): index and scan differ") }
            }
        }
    }

    /// A transaction that leaves the count and the sum unchanged.
    static func transfer(_ access: DatabaseAccess, _ random: inout SeededGenerator, _ rows: Int) throws {
        let (a, b) = (
            Int64.random(in: 1...Int64(rows), using: &random), Int64.random(in: 1...Int64(rows), using: &random)
        )
        let amount = Int64.random(in: 1...50, using: &random)
        switch Int.random(in: 0..<4, using: &random) {
        case 0:
            // The row goes out at one place, and in at another.
            guard let row = try access.fetchOne("SELECT owner, amount FROM accounts WHERE id = ?", [a]) else { return }
            try access.execute("DELETE FROM accounts WHERE id = ?", [a])
            try access.execute("INSERT INTO accounts(owner, amount) VALUES (?, ?)", [row[0], row[1]])
        case 1:
            try access.execute(
                "UPDATE accounts SET amount = amount + CASE id % 2 WHEN 0 THEN 1 ELSE -1 END WHERE id IN (2, 3)"
            )
            // One of the two may have been deleted.
            if access.changes == 1 { throw Imbalance() }
            try access.execute("REPLACE INTO accounts SELECT * FROM accounts WHERE id = ?", [b])
        default:
            try access.execute("UPDATE accounts SET amount = amount - ? WHERE id = ?", [amount, a])
            let taken = access.changes
            try access.execute("UPDATE accounts SET amount = amount + ? WHERE id = ?", [amount, b])
            if access.changes != taken { throw Imbalance() }
        }
    }

    /// One of the two accounts is gone, so the transaction is rolled back.
    struct Imbalance: Error {}

    static func transfer(_ database: Database, _ random: inout SeededGenerator, _ rows: Int) throws {
        do {
            try database.write { try transfer($0, &random, rows) }
        } catch is Imbalance {
            // The transaction is undone.
        }
    }

    @Test func readersOfOneProcessSeeEachRowExactlyOnce() async throws {
        let fixture = try MovingFixture(rows: 1200)
        let rows = fixture.rows
        let database = try fixture.open()
        let second = try fixture.open()
        let threads = Threads()
        threads.loop("single statements") { threads in
            Self.checkInvariants(try database.fetchOne(Self.aggregates), rows, threads, "single statements")
            let count = try database.fetchValue(Int.self, "SELECT count(*) FROM accounts")
            if count != rows { threads.note("count(*) is \(count ?? -1)") }
        }
        threads.loop("long transactions") { try Self.readLong(database, rows, $0, "long transactions") }
        threads.loop("second database") { try Self.readLong(second, rows, $0, "second database") }
        threads.start("writer") { threads in
            var random = SeededGenerator(seed: 11)
            while !threads.isOver {
                try Self.transfer(database, &random, rows)
                threads.count("writer")
            }
        }
        let names = ["single statements", "long transactions", "second database", "writer"]
        try await onThread {
            for _ in 0..<30 { try database.stepMigration(rows: 20) }
            // The move waits half way for readers that would otherwise be too slow for it.
            for _ in 0..<3000 where names.contains(where: { threads.count(of: $0) <= 5 }) { usleep(10_000) }
            while try !database.stepMigration(rows: 20).isFinished {}
        }
        threads.end()
        await threads.join()
        for name in names {
            #expect(threads.count(of: name) > 5, "\(name)")
        }
        #expect(try MovingFixture.objects(fixture.target).filter { $0.contains("midstream") } == [])
        #expect(database.isMigrated && second.isMigrated)
    }

    @Test func readersSeeEachRowOnceWhileTheTimerSteps() async throws {
        let fixture = try MovingFixture(rows: 2000)
        let rows = fixture.rows
        let database = try fixture.open()
        let threads = Threads()
        threads.loop("long transactions") { try Self.readLong(database, rows, $0, "long transactions") }
        threads.loop("single statements") { threads in
            Self.checkInvariants(try database.fetchOne(Self.aggregates), rows, threads, "single statements")
        }
        database.startAutoMigration(pace: MigrationPace(budget: .milliseconds(2), interval: .milliseconds(3)))
        for await progress in database.migrationProgress where progress.isFinished { break }
        threads.end()
        await threads.join()
        #expect(database.isMigrated)
    }

    private static func readInAnotherProcess(_ path: String, _ rows: Int, _ ready: String) async {
        await #expect(processExitsWith: .success) { [path, rows, ready] in
            // This process has no code of the migration: what the file stores is enough.
            let database = try Database(path: path)
            let threads = Threads()
            for name in ["one", "two"] {
                threads.loop(name) { threads in
                    try ReaderTests.readLong(database, rows, threads, name)
                    ReaderTests.checkInvariants(try database.fetchOne(ReaderTests.aggregates), rows, threads, name)
                }
            }
            Files.mark(ready)
            while !database.isMigrated { try ReaderTests.readLong(database, rows, threads, "main") }
            threads.end()
            try await threads.joinInChild()
        }
    }

    private static func moveInAnotherProcess(_ path: String, _ source: String, _ rows: Int, seed: UInt64) async {
        await #expect(processExitsWith: .success) { [path, source, rows, seed] in
            var configuration = DatabaseConfiguration()
            configuration.busyTimeout = .seconds(30)
            let database = try Database(path: path, configuration: configuration)
            try MovingFixture.addMigration(database, source)
            var random = SeededGenerator(seed: seed)
            let threads = Threads()
            while try !database.stepMigration(rows: 7).isFinished {
                try ReaderTests.transfer(database, &random, rows)
                ReaderTests.checkInvariants(try database.fetchOne(ReaderTests.aggregates), rows, threads, "mover")
            }
            try await threads.joinInChild()
        }
    }

    @Test func readersOfAnotherProcessSeeEachRowExactlyOnce() async throws {
        let fixture = try MovingFixture(rows: 700)
        let (path, rows) = (fixture.target, fixture.rows)
        let ready = fixture.folder.file("ready")
        let database = try fixture.open()
        async let reader: Void = Self.readInAnotherProcess(path, rows, ready)
        let stepper = Task {
            try await onThread {
                guard waitForFile(ready) else { return }
                var random = SeededGenerator(seed: 5)
                while try !database.stepMigration(rows: 10).isFinished { try Self.transfer(database, &random, rows) }
            }
        }
        try await stepper.value
        await reader
        #expect(database.isMigrated)
    }

    @Test func twoProcessesMoveTheSameTableAndWriteIt() async throws {
        let fixture = try MovingFixture(rows: 700)
        let (path, source, rows) = (fixture.target, fixture.source, fixture.rows)
        try fixture.open().close()
        async let first: Void = Self.moveInAnotherProcess(path, source, rows, seed: 1)
        async let second: Void = Self.moveInAnotherProcess(path, source, rows, seed: 2)
        _ = await (first, second)
        let plain = try Connection(path: path)
        let row = try plain.fetchOne(Self.aggregates)
        #expect(row?[0] == .integer(Int64(rows)) && row?[1] == .integer(fixture.total))
        #expect(try MovingFixture.objects(path).filter { $0.contains("midstream") } == [])
    }

    /// Without a WAL, nobody may read at the moment of a commit. Six readers that take 60 ms each, without a rest
    /// between them, leave no such moment to a step that keeps new readers out for only 5 ms.
    @Test func stepsAreLetInWithoutAWALBesideReadersThatOverlap() async throws {
        let fixture = try MovingFixture(rows: 50)
        var configuration = DatabaseConfiguration()
        configuration.journalMode = .unchanged
        let database = try Database(path: fixture.target, configuration: configuration)
        try MovingFixture.addMigration(database, fixture.source)
        let (threads, path) = (Threads(), fixture.target)
        for number in 1...6 {
            threads.start("reader \(number)") { threads in
                let reader = try Connection(path: path)
                reader.setBusyTimeout(milliseconds: 60_000)
                while !threads.isOver {
                    try reader.execute("BEGIN")
                    _ = try reader.fetchValue(Int.self, "SELECT count(*) FROM accounts")
                    usleep(60_000)
                    try reader.execute("COMMIT")
                }
            }
        }
        let isFinished = try await onThread {
            let deadline = ContinuousClock.now + .seconds(60)
            while try !database.stepMigration(rows: 25).isFinished {
                if .now > deadline { return false }
                usleep(2000)
            }
            return true
        }
        threads.end()
        await threads.join()
        #expect(isFinished)
    }

    @Test func connectionsWithoutTheOverlayAreRefused() throws {
        let fixture = try MovingFixture(rows: 50)
        let database = try fixture.open()
        try MigrationFreezer(database).move(toPercent: 40)
        let plain = try Connection(path: fixture.target)
        for sql in [
            "INSERT INTO accounts(owner, amount) VALUES ('x', 1)", "INSERT INTO accounts VALUES (45, 'x', 1)",
            "UPDATE accounts SET id = 45 WHERE id = 1", "UPDATE accounts SET owner = 'y' WHERE id = 1",
            "DELETE FROM accounts WHERE id = 1", "DELETE FROM accounts", "REPLACE INTO accounts VALUES (2, 'z', 1)",
        ] {
            let error = #expect(throws: SQLiteError.self) { try plain.execute(sql) }
            #expect(error?.message.contains("no such function") == true, "\(sql)")
        }
        let old = try Connection(path: fixture.source)
        for sql in [
            "INSERT INTO old_accounts(owner, amount) VALUES ('x', 1)", "DELETE FROM old_accounts",
            "UPDATE old_accounts SET amount = 0 WHERE id = 45", "REPLACE INTO old_accounts VALUES (45, 'x', 1)",
        ] {
            let error = #expect(throws: SQLiteError.self) { try old.execute(sql) }
            #expect(
                error?.message == "table old_accounts is moving to table accounts of new.db: write it there",
                "\(sql)"
            )
        }
        try finishMigration(database)
        let error = #expect(throws: SQLiteError.self) { try old.execute("INSERT INTO old_accounts(amount) VALUES (1)") }
        #expect(error?.message == "table old_accounts is moving to table accounts of new.db: write it there")
        // The connection knows the old schema until it reads something.
        _ = try plain.fetchValue(Int.self, "SELECT count(*) FROM sqlite_master")
        try plain.execute("INSERT INTO accounts(owner, amount) VALUES ('x', 1)")
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM accounts") == 51)
    }

    @Test func writersOfTheProcessNeverMeetAStep() async throws {
        let fixture = try MovingFixture(rows: 2000)
        let database = try fixture.open()
        let threads = Threads()
        threads.start("deferred writer") { threads in
            var number: Int64 = 0
            while !threads.isOver {
                number += 1
                try database.withoutTransaction { access in
                    try access.execute("BEGIN")
                    let sum = try access.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts WHERE owner = 'o4'")
                    try access.execute("UPDATE accounts SET amount = amount + 0 WHERE id = ?", [number % 2000 + 1])
                    if try access.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts WHERE owner = 'o4'") != sum {
                        threads.note("a transaction saw another's writes")
                    }
                    try access.execute("COMMIT")
                    // A cursor is open while single statements commit.
                    try access.forEachRow("SELECT id FROM accounts WHERE owner = 'o5' LIMIT 3") { statement in
                        try access.execute(
                            "UPDATE accounts SET amount = amount + 0 WHERE id = ?",
                            [statement.int64(at: 0)]
                        )
                        return true
                    }
                }
                threads.count("transactions")
            }
        }
        try await onThread {
            var steps = 0
            while try !database.stepMigration(rows: 40).isFinished {
                steps += 1
                // The writer must have had its share, however slow the machine is.
                for _ in 0..<20_000 where threads.count(of: "transactions") < min(10, steps / 4) { usleep(500) }
            }
        }
        threads.end()
        await threads.join()
        #expect(threads.count(of: "transactions") > 5)
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
    }
}
