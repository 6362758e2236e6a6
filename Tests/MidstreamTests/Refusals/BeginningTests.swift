import Midstream
import SQLiteConnection
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// What others do while a migration begins.
@Suite struct BeginningTests {
    /// Another process adds the same migration between the look at what is stored and the storing.
    @Test func twoThatAddTheSameMigrationAtOnceBeginOne() throws {
        let fixture = try MovingFixture(rows: 50)
        let first = try Database(path: fixture.target)
        let second = try Database(path: fixture.target)
        let source = fixture.source
        try first.addMigration(source: .file(source)) { table in
            if table.name == "accounts" { table.sourceTable = "old_accounts" }
            if try second.readMigrationProgress().tables.isEmpty { try MovingFixture.addMigration(second, source) }
        }
        #expect(try first.readMigrationProgress().tables.count == 1)
        first.close()
        second.close()
        let database = try fixture.open()
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
        try finishMigration(database)
        #expect(try MovingFixture.count("accounts", in: fixture.target) == 50)
    }

    /// Another process moves the table from beginning to end between the look at what is stored and the storing.
    @Test func whatHasMovedWhileItIsAddedIsNotBegunAgain() async throws {
        let fixture = try MovingFixture(rows: 50, isSameFile: true)
        let database = try Database(path: fixture.target)
        let other = try Connection(path: fixture.target)
        try other.execute("BEGIN IMMEDIATE")
        let threads = Threads()
        threads.start("beginner") { _ in
            try database.addMigration(source: .sameDatabase) { table in
                if table.name == "accounts" { table.sourceTable = "old_accounts" }
            }
        }
        usleep(300_000)
        try other.execute("INSERT INTO accounts SELECT * FROM old_accounts")
        try other.execute("DROP TABLE old_accounts")
        try other.execute("COMMIT")
        #expect(await threads.join() == [])
        #expect(try database.stepMigration().isFinished)
        #expect(try MovingFixture.objects(fixture.target).filter { $0.contains("midstream") } == [])
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
    }

    /// Another process has moved the last table, and deletes the file while this one adds the same migration.
    @Test func aSourceThatIsDeletedWhileItIsAddedHasMoved() throws {
        let fixture = try MovingFixture(rows: 50)
        let database = try Database(path: fixture.target)
        try database.addMigration(source: .file(fixture.source), retirement: .deleteFileWhenEmpty) { table in
            if table.name == "accounts" { table.sourceTable = "old_accounts" }
            Files.removeDatabase(fixture.source)
        }
        #expect(try database.readMigrationProgress().tables.isEmpty)
        #expect(try database.stepMigration().isFinished)
    }

    /// A file that is to stay is missed.
    @Test func aSourceThatGoesWhileItIsAddedIsAnError() throws {
        let fixture = try MovingFixture(rows: 50)
        let database = try Database(path: fixture.target)
        let error = #expect(throws: MigrationError.self) {
            try database.addMigration(source: .file(fixture.source)) { table in
                if table.name == "accounts" { table.sourceTable = "old_accounts" }
                Files.removeDatabase(fixture.source)
            }
        }
        #expect(error?.code == .sourceUnavailable)
        #expect(error?.message.contains("there is no source file") == true)
    }

    /// Somebody holds the source, so that the beginning is cut short; before it goes on, a row gets a key of the source's.
    @Test(arguments: [true, false]) func aRowThatCollidesByNowIsToldAndNothingBegins(_ reopens: Bool) throws {
        let fixture = try MovingFixture(rows: 50)
        let before = try MovingFixture.objects(fixture.source)
        var database = try Database(path: fixture.target)
        let holder = try Connection(path: fixture.source)
        try holder.execute("BEGIN IMMEDIATE")
        #expect(throws: (any Error).self) { try MovingFixture.addMigration(database, fixture.source) }
        let plain = try Connection(path: fixture.target)
        let isStarting = try plain.fetchValue(Int64.self, "SELECT phase FROM midstream_tables") == 0
        try #require(isStarting)
        try plain.execute("INSERT INTO accounts VALUES (7, 'other', 1)")
        plain.close()
        try holder.execute("ROLLBACK")
        holder.close()
        if reopens {
            database.close()
            database = try Database(path: fixture.target)
        }
        let error = #expect(throws: MigrationError.self) { try MovingFixture.addMigration(database, fixture.source) }
        #expect(error?.code == .keyCollision && error?.key == 7)
        #expect(try MovingFixture.objects(fixture.source) == before)
        #expect(try MovingFixture.objects(fixture.target).filter { $0.contains("midstream") } == [])
        #expect(texts(try database.fetchAll("SELECT * FROM accounts")) == ["7|other|1"])
        try database.execute("DELETE FROM accounts")
        try MovingFixture.addMigration(database, fixture.source)
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
    }

    @Test func aBeginningWaitsForOneWhoWritesTheSource() async throws {
        let fixture = try MovingFixture(rows: 20)
        let threads = Threads()
        let old = try Connection(path: fixture.source)
        try old.execute("BEGIN IMMEDIATE")
        try old.execute("UPDATE old_accounts SET amount = 101")
        threads.start("writer") { [fixture] threads in
            let database = try fixture.open()
            let sum = try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts")
            if sum != 20 * 101 { threads.note("the sum is \(String(describing: sum))") }
        }
        usleep(300_000)
        try old.execute("COMMIT")
        #expect(await threads.join() == [])
    }
}
