import Dispatch
@testable import Midstream
import MidstreamTesting
import SQLiteConnection
import Synchronization
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// The source stays until nobody can read it any more.
@Suite struct RetirementTests {
    /// Steps until the table has moved and the migration waits for a reader.
    static func stepUntilWaiting(_ database: Database) throws -> Bool {
        for _ in 0..<1000 {
            let progress = try database.stepMigration()
            if progress.outcome == .waitingForReaders { return true }
            if progress.isFinished { return false }
        }
        return false
    }

    @Test func itWaitsForAReaderOfThisProcess() async throws {
        let fixture = try MovingFixture(rows: 500)
        let database = try fixture.open()
        try MigrationFreezer(database).move(toPercent: 50)
        let (begun, release) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let threads = Threads()
        threads.start("reader") { threads in
            try database.read { access in
                let before = try access.fetchOne(ReaderTests.aggregates)
                begun.signal()
                release.wait()
                if try access.fetchOne(ReaderTests.aggregates) != before { threads.note("not repeatable") }
            }
        }
        try await onThread {
            begun.wait()
            let waits = try Self.stepUntilWaiting(database)
            // Newer readers and writers are not held up.
            try database.execute("UPDATE accounts SET amount = amount + 0 WHERE id = 400")
            let count = try database.fetchValue(Int.self, "SELECT count(*) FROM accounts")
            let again = try database.stepMigration().outcome
            let left = try MovingFixture.count("old_accounts", in: fixture.source)
            release.signal()
            #expect(waits && count == 500 && again == .waitingForReaders && left == 500)
        }
        await threads.join()
        try finishMigration(database, steps: 20)
        #expect(try MovingFixture.count("old_accounts", in: fixture.source) == 0)
        #expect(try MovingFixture.objects(fixture.source).contains { $0.hasPrefix("view old_accounts") })
    }

    /// A process slept in the middle of a retirement, which another process has brought to its end. The new table may
    /// already move.
    @Test(arguments: [false, true]) func aTableThatIsMadeAnewIsNotRetired(_ movesAgain: Bool) throws {
        let fixture = try MovingFixture(rows: 50)
        let database = try fixture.open()
        let (migration, record) = try database.engine.withStepper { stepper in
            let (migrations, records) = try stepper.load()
            return try (#require(migrations.first), #require(records.first))
        }
        try finishMigration(database)
        let old = try Connection(path: fixture.source)
        try old.execute("DROP VIEW old_accounts")
        try old.execute("CREATE TABLE old_accounts\(MovingFixture.columns)")
        try old.execute("INSERT INTO old_accounts VALUES (1, 'new', 1)")
        let other = try Database(path: fixture.folder.file("other.db"))
        if movesAgain {
            try other.execute("CREATE TABLE accounts\(MovingFixture.columns)")
            try other.addMigration(source: .file(fixture.source)) { $0.sourceTable = "old_accounts" }
        }
        try database.engine.withStepper { stepper in
            try stepper.attach(migration)
            let claims = Claims(connection: stepper.connection, migration: migration)
            var known = try claims.all()
            let kept = try claims.release(record, moved: 50, isDamaged: false, among: &known)
            #expect(kept == nil)
        }
        #expect(try old.fetchValue(Int64.self, "SELECT count(*) FROM old_accounts") == 1)
        old.close()
        guard movesAgain else { return }
        try finishMigration(other)
        #expect(try MovingFixture.count("accounts", in: fixture.folder.file("other.db")) == 1)
    }

    /// The source's table has been dropped, and the target could not be told so.
    @Test func whatIsMadeAnewBeforeTheTargetKnowsThatItIsDroppedMoves() throws {
        let fixture = try MovingFixture(rows: 50)
        let database = try fixture.open()
        while try database.readMigrationProgress().tables.first?.phase != .retiring {
            _ = try database.engine.withStepper { stepper in
                let (migrations, records) = try stepper.load()
                let (migration, record) = try (#require(migrations.first), #require(records.first))
                guard record.phase == .copied else { return try stepper.step(.rows(50, table: nil)).moved }
                // A process that is killed between the two commits leaves this.
                let plain = try Connection(path: fixture.target)
                try plain.execute("UPDATE midstream_tables SET phase = 3")
                try stepper.attach(migration)
                let claims = Claims(connection: stepper.connection, migration: migration)
                try stepper.connection.transaction {
                    var known = try claims.all()
                    _ = try claims.release(record, moved: 50, isDamaged: false, among: &known)
                }
                return 0
            }
        }
        let old = try Connection(path: fixture.source)
        try old.execute("DROP VIEW old_accounts")
        try old.execute("CREATE TABLE old_accounts\(MovingFixture.columns)")
        try old.execute("INSERT INTO old_accounts VALUES (1001, 'new', 1)")
        old.close()
        try MovingFixture.addMigration(database, fixture.source)
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM accounts") == 51)
        try finishMigration(database)
        #expect(try MovingFixture.count("accounts", in: fixture.target) == 51)
    }

    /// Another file gets the path of a file from which everything has moved, while other files still move.
    @Test func whatIsSaidOfAFileEndsWithItsMoves() throws {
        let folder = TemporaryFolder()
        let (source, create) = (folder.file("import.db"), "(id INTEGER PRIMARY KEY, n)")
        try Connection(path: folder.file("other.db")).execute(
            script: "CREATE TABLE u\(create); INSERT INTO u VALUES (1, 1), (2, 2), (3, 3)"
        )
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t\(create); CREATE TABLE u\(create)")
        try database.addMigration(source: .file(folder.file("other.db"))) { if $0.name == "u" { $0.sourceTable = "u" } }
        for (retirement, name) in [(SourceRetirement.drop, "first"), (.keep, "second"), (.keep, "third")] {
            Files.removeDatabase(source)
            try Connection(path: source).execute(
                script: "CREATE TABLE \(name)\(create); INSERT INTO \(name)(n) VALUES ('\(name)')"
            )
            try database.execute("DELETE FROM t")
            try database.addMigration(source: .file(source), retirement: retirement) {
                if $0.name == "t" { $0.sourceTable = name }
            }
            #expect(texts(try database.fetchAll("SELECT n FROM t")) == [name])
            for _ in 0..<12 { try database.stepMigration(rows: 1, of: "t") }
            #expect(try database.readMigrationProgress().tables.allSatisfy { $0.name != "t" || $0.phase == .done })
            #expect(try MovingFixture.count(name, in: source) == (retirement == .keep ? 1 : 0))
        }
        try finishMigration(database)
    }

    /// All rows of the table have moved, and a reader from before keeps the table from being retired.
    @Test(
        arguments: [SourceRetirement.drop, .keep],
        [false, true].flatMap { [($0, "DROP TABLE o"), ($0, "ALTER TABLE o RENAME TO other")] }
    )
    func aSourceThatGoesBeforeItIsRetired(_ retirement: SourceRetirement, _ change: (isSameFile: Bool, sql: String))
        throws
    {
        let isSameFile = change.isSameFile
        let folder = TemporaryFolder()
        let (target, source) = (folder.file("new.db"), folder.file(isSameFile ? "new.db" : "old.db"))
        let old = try Connection(path: source)
        try old.execute("CREATE TABLE o(id INTEGER PRIMARY KEY, a)")
        try old.execute("INSERT INTO o VALUES (1, 1), (2, 2)")
        let new = try Connection(path: target)
        try new.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        func add(_ database: Database) throws {
            try database.addMigration(source: isSameFile ? .sameDatabase : .file(source), retirement: retirement) {
                if $0.name == "t" { $0.sourceTable = "o" }
            }
        }
        let database = try Database(path: target)
        try add(database)
        try new.execute("BEGIN")
        _ = try new.fetchAll("SELECT * FROM t")
        var left = 10
        while left > 0, try database.stepMigration(rows: 10).tables.first?.phase != .copied { left -= 1 }
        try new.execute("COMMIT")
        #expect(!database.isMigrated)
        try old.execute(change.sql)
        try finishMigration(database)
        database.close()
        let next = try Database(path: target)
        for _ in 0..<2 {
            // A table that has its name back is the one whose rows have moved.
            if change.sql.hasPrefix("ALTER"),
                try old.fetchOne("SELECT 1 FROM sqlite_master WHERE name = 'other'") != nil
            {
                try old.execute("ALTER TABLE other RENAME TO o")
            }
            try add(next)
            #expect(next.isMigrated)
            #expect(texts(try next.fetchAll("SELECT * FROM t ORDER BY id")) == ["1|1", "2|2"])
        }
    }

    private static func hold(_ database: Database, _ ready: String, _ release: String, _ threads: Threads) throws {
        try database.read { access in
            let before = try access.fetchOne(ReaderTests.aggregates)
            Files.mark(ready)
            if !waitForFile(release) { threads.note("nobody released the reader") }
            if try access.fetchOne(ReaderTests.aggregates) != before { threads.note("not repeatable") }
        }
    }

    private static func holdInAnotherProcess(_ path: String, _ ready: String, _ release: String) async {
        await #expect(processExitsWith: .success) { [path, ready, release] in
            let database = try Database(path: path)
            let threads = Threads()
            try RetirementTests.hold(database, ready, release, threads)
            ReaderTests.checkInvariants(try database.fetchOne(ReaderTests.aggregates), 500, threads, "after")
            try await threads.joinInChild()
        }
    }

    @Test func itWaitsForAReaderOfAnotherProcess() async throws {
        let fixture = try MovingFixture(rows: 500)
        let (path, ready, release) = (fixture.target, fixture.folder.file("ready"), fixture.folder.file("release"))
        let database = try fixture.open()
        try MigrationFreezer(database).move(toPercent: 50)
        async let reader: Void = Self.holdInAnotherProcess(path, ready, release)
        try await onThread {
            guard waitForFile(ready) else { return }
            let waits = try Self.stepUntilWaiting(database)
            let left = try MovingFixture.count("old_accounts", in: fixture.source)
            Files.mark(release)
            #expect(waits && left == 500)
        }
        await reader
        try finishMigration(database, steps: 20)
        #expect(try MovingFixture.objects(fixture.source).contains { $0.hasPrefix("view old_accounts") })
    }

    @Test func aConnectionThatSleptThroughItGoesOn() throws {
        let fixture = try MovingFixture(rows: 300)
        let database = try fixture.open()
        let sleeper = try fixture.open()
        #expect(try sleeper.fetchValue(Int.self, "SELECT count(*) FROM accounts") == 300)
        try sleeper.execute("UPDATE accounts SET amount = amount + 0 WHERE id = 250")
        try finishMigration(database)
        #expect(try sleeper.fetchOne(ReaderTests.aggregates)?[0] == .integer(300))
        try sleeper.execute("INSERT INTO accounts(owner, amount) VALUES ('x', 1)")
        try sleeper.write { try $0.execute("DELETE FROM accounts WHERE id IN (1, 250, 301)") }
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM accounts") == 298)
        #expect(sleeper.isMigrated)
    }

    @Test(arguments: [SourceRetirement.drop, .keep, .deleteFileWhenEmpty])
    func whatBecomesOfTheSource(_ retirement: SourceRetirement) throws {
        let fixture = try MovingFixture(rows: 40)
        let database = try Database(path: fixture.target)
        try MovingFixture.addMigration(database, fixture.source, retirement: retirement)
        try finishMigration(database)
        switch retirement {
        case .drop: #expect(try MovingFixture.objects(fixture.source).contains { $0.hasPrefix("view old_accounts") })
        case .keep:
            #expect(try MovingFixture.count("old_accounts", in: fixture.source) == 40)
            let old = try Connection(path: fixture.source)
            #expect(throws: SQLiteError.self) { try old.execute("DELETE FROM old_accounts") }
        case .deleteFileWhenEmpty: #expect(!Files.exists(fixture.source))
        }
        // An application does this at each launch.
        try MovingFixture.addMigration(database, fixture.source, retirement: retirement)
        #expect(database.isMigrated)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM accounts") == 40)
    }

    @Test func aFileWithAnotherTableIsNotDeleted() throws {
        let fixture = try MovingFixture(rows: 40)
        let old = try Connection(path: fixture.source)
        try old.execute(script: "CREATE TABLE other(x); INSERT INTO other VALUES (1)")
        old.close()
        let database = try Database(path: fixture.target)
        try MovingFixture.addMigration(database, fixture.source, retirement: .deleteFileWhenEmpty)
        try finishMigration(database)
        #expect(try MovingFixture.count("other", in: fixture.source) == 1)
        #expect(database.isMigrated)
    }

    /// The volume may not be mounted, or somebody may have moved the file away for a moment.
    @Test(arguments: [SourceRetirement.drop, .keep, .deleteFileWhenEmpty])
    func aSourceThatIsNotThereWhenItIsDueIsRetiredWhenItIsBack(_ retirement: SourceRetirement) throws {
        // How many steps there are after the last row depends on readers.
        let tried = try (1...3).count { try retireLater(retirement, after: $0) }
        #expect(tried > 0)
    }

    /// - Returns: Whether the source was due after so many steps, and not yet retired.
    private func retireLater(_ retirement: SourceRetirement, after steps: Int) throws -> Bool {
        let fixture = try MovingFixture(rows: 40)
        var database = try Database(path: fixture.target)
        try MovingFixture.addMigration(database, fixture.source, retirement: retirement)
        try database.stepMigration(rows: 40)
        for _ in 1..<steps { try database.stepMigration() }
        database.close()
        guard try MovingFixture.count("midstream_tables WHERE phase IN (2, 3)", in: fixture.target) == 1 else {
            return false
        }
        Files.copyDatabase(fixture.source, to: fixture.source + "-away")
        Files.removeDatabase(fixture.source)
        database = try Database(path: fixture.target)
        let kept = Collected()
        database.onMigrated { if case .sourceKept(_, _, let reason) = $0 { kept.add(reason) } }
        try finishMigration(database)
        #expect(kept.all.count == 1 && kept.all[0].hasPrefix("its file is missing"))
        database.close()
        Files.copyDatabase(fixture.source + "-away", to: fixture.source)
        database = try Database(path: fixture.target)
        try database.execute("DELETE FROM accounts WHERE id = 3")
        for _ in 0..<2 { try MovingFixture.addMigration(database, fixture.source, retirement: retirement) }
        #expect(database.isMigrated)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM accounts") == 39)
        #expect(try MovingFixture.objects(fixture.target).filter { $0.contains("midstream") } == [])
        #expect(Files.exists(fixture.source) == (retirement != .deleteFileWhenEmpty))
        if retirement == .keep { #expect(try MovingFixture.count("old_accounts", in: fixture.source) == 40) }
        if retirement == .drop { #expect(try MovingFixture.count("old_accounts", in: fixture.source) == 0) }
        return true
    }

    /// The file is copied to another disk and back. The file that is open has no name meanwhile.
    @Test(arguments: ["wal", "delete"]) func aSourceThatIsAwayWhileItIsOpenIsRetiredWhenItIsBack(_ mode: String) throws
    {
        let fixture = try MovingFixture(rows: 40)
        let begun = try Database(path: fixture.target)
        try MovingFixture.addMigration(begun, fixture.source)
        begun.close()
        try Connection(path: fixture.source).execute("PRAGMA journal_mode = \(mode)")
        let database = try Database(path: fixture.target)
        let reader = try Connection(path: fixture.target)
        try reader.execute("BEGIN")
        _ = try reader.fetchAll("SELECT * FROM accounts")
        for _ in 0..<1000 where try database.stepMigration().outcome != .waitingForReaders {}
        Files.copyDatabase(fixture.source, to: fixture.source + "-away")
        Files.removeDatabase(fixture.source)
        try reader.execute("COMMIT")
        let kept = Collected()
        database.onMigrated { if case .sourceKept(_, _, let reason) = $0 { kept.add(reason) } }
        try finishMigration(database)
        #expect(kept.all.count == 1 && kept.all[0].hasPrefix("its file is missing"))
        Files.copyDatabase(fixture.source + "-away", to: fixture.source)
        for _ in 0..<2 { try MovingFixture.addMigration(database, fixture.source) }
        #expect(database.isMigrated)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM accounts") == 40)
        #expect(try MovingFixture.count("old_accounts", in: fixture.source) == 0)
        #expect(try MovingFixture.objects(fixture.target).filter { $0.contains("midstream") } == [])
    }

    /// What that connection would write into a deleted file would be nowhere.
    @Test func aFileThatSomebodyHasOpenIsNotDeleted() throws {
        let fixture = try MovingFixture(rows: 40)
        let database = try Database(path: fixture.target)
        let kept = Collected()
        database.onMigrated { if case .sourceFileKept(_, let reason) = $0 { kept.add(reason) } }
        func add() throws {
            try MovingFixture.addMigration(database, fixture.source, retirement: .deleteFileWhenEmpty)
        }
        try add()
        let old = try Connection(path: fixture.source)
        #expect(try old.fetchValue(Int.self, "SELECT count(*) FROM old_accounts") == 40)
        var outcomes: Set<MigrationProgress.Outcome> = []
        while true {
            let progress = try database.stepMigration()
            if progress.isFinished { break }
            outcomes.insert(progress.outcome)
        }
        #expect(outcomes.contains(.waitingForReaders))
        #expect(kept.all.count == 1)
        #expect(kept.all[0].hasPrefix("another connection has it open"))
        try add()
        #expect(kept.all.count == 2)
        try old.execute("CREATE TABLE settings(x)")
        try old.execute("INSERT INTO settings VALUES (7)")
        old.close()
        try add()
        #expect(try MovingFixture.count("settings", in: fixture.source) == 1)
        #expect(kept.all.count == 3 && kept.all.last?.contains("table settings") == true)
        let other = try Connection(path: fixture.source)
        try other.execute("DROP TABLE settings")
        other.close()
        try add()
        #expect(!Files.exists(fixture.source) && !Files.exists(fixture.source + "-wal"))
        #expect(kept.all.count == 3)
    }

    @Test func whoHasItOpenFromBeforeIsRefusedToWriteAFileThatIsGone() throws {
        let fixture = try MovingFixture(rows: 40)
        let database = try Database(path: fixture.target)
        try MovingFixture.addMigration(database, fixture.source, retirement: .deleteFileWhenEmpty)
        // The connection has read nothing, and so holds no lock.
        let old = try Connection(path: fixture.source)
        try finishMigration(database)
        #expect(!Files.exists(fixture.source))
        #expect(throws: SQLiteError.self) { try old.execute("CREATE TABLE settings(x)") }
        #expect(throws: SQLiteError.self) { try old.execute("PRAGMA journal_mode = WAL; CREATE TABLE settings(x)") }
    }

    /// A process slept in the middle of a retirement, while another one deleted the file.
    @Test func aFileThatIsMadeAnewIsNotDeleted() throws {
        let fixture = try MovingFixture(rows: 40)
        func open() throws -> Database {
            let database = try Database(path: fixture.target)
            try MovingFixture.addMigration(database, fixture.source, retirement: .deleteFileWhenEmpty)
            return database
        }
        try open().close()
        // With a WAL, a connection that has the file open keeps others from deleting it.
        let plain = try Connection(path: fixture.source)
        try plain.execute("PRAGMA journal_mode = DELETE")
        plain.close()
        let (slow, fast) = (try open(), try open())
        try slow.stepMigration(rows: 10)
        let migration = try #require(try slow.engine.withStepper { try $0.load().migrations.first })
        try finishMigration(fast)
        #expect(!Files.exists(fixture.source))
        let old = try Connection(path: fixture.source)
        try old.execute("CREATE TABLE fresh(x)")
        old.close()
        try slow.engine.withStepper { try Retirement(stepper: $0, migration: migration).leaveSource() }
        #expect(Files.exists(fixture.source))
        #expect(try MovingFixture.count("fresh", in: fixture.source) == 0)
    }

    /// With a WAL, SQLite does not notice that the file is gone.
    @Test func aFileThatGetsAWALAgainIsNotDeleted() async throws {
        let folder = TemporaryFolder()
        // The file has another path each time: a connection that has a file open removes journals by the file's path.
        let current = Mutex(folder.file("none.db"))
        let threads = Threads()
        threads.start("old build") { threads in
            while !threads.isOver {
                let path = current.withLock { $0 }
                guard Files.exists(path),
                    let old = try? Connection(path: path, options: OpenOptions(access: .readWrite))
                else { continue }
                old.setBusyTimeout(milliseconds: 100)
                let mode = try? old.fetchValue(String.self, "PRAGMA journal_mode = WAL")
                guard mode == "wal", (try? old.fetchValue(Int.self, "SELECT count(*) FROM t")) != nil else { continue }
                threads.count("in a WAL")
                usleep(2000)
                let isThere = Files.exists(path)
                if (try? old.execute("INSERT INTO t VALUES (1)")) != nil, !isThere {
                    threads.note("a row was written into a file that is gone")
                }
            }
        }
        try await onThread {
            defer { threads.end() }
            for number in 0..<300 {
                let path = folder.file("\(number).db")
                try Connection(path: path).execute("CREATE TABLE t(x)")
                current.withLock { $0 = path }
                usleep(UInt32.random(in: 0..<3000))
                let connection = try Connection(path: folder.file("new.db"))
                connection.setBusyTimeout(milliseconds: 5000)
                try connection.attach(path, as: "old")
                connection.setBusyTimeout(milliseconds: 20)
                _ = try? SourceFile.delete(path, attachedTo: connection, as: "old", lockingBy: "t") { true }
            }
        }
        await threads.join()
        #expect(threads.count(of: "in a WAL") > 0)
    }

    /// Idle connections still have the file attached.
    @Test func theProcessItselfLetsGoOfAFileThatIsToBeDeleted() throws {
        let fixture = try MovingFixture(rows: 40)
        let database = try Database(path: fixture.target)
        try MovingFixture.addMigration(database, fixture.source, retirement: .deleteFileWhenEmpty)
        try database.execute("UPDATE accounts SET amount = amount WHERE id < 5")
        let counts = try database.read { outer in
            let sql = "SELECT count(*) FROM accounts"
            return [try outer.fetchValue(Int.self, sql), try database.fetchValue(Int.self, sql)]
        }
        #expect(counts == [40, 40])
        let kept = Collected()
        database.onMigrated { if case .sourceFileKept(_, let reason) = $0 { kept.add(reason) } }
        try finishMigration(database)
        #expect(!Files.exists(fixture.source) && kept.all.isEmpty)
    }

    /// The rows that were set aside exist in this file only.
    @Test func aFileWithRowsThatWereSetAsideIsNotDeleted() throws {
        let folder = TemporaryFolder()
        let files = ["a.db", "b.db", "c.db"].map(folder.file)
        for (path, constraint) in zip(files, ["", "NOT NULL", "NOT NULL"]) {
            let connection = try Connection(path: path)
            try connection.execute(script: "CREATE TABLE t(id INTEGER PRIMARY KEY, x \(constraint))")
            if path == files[0] { try connection.execute("INSERT INTO t VALUES (1, 'a'), (2, NULL), (3, 'c')") }
            connection.close()
        }
        for (from, to) in zip(files, files.dropFirst()) {
            let database = try Database(path: to)
            try database.addMigration(source: .file(from), retirement: .deleteFileWhenEmpty) { table in
                guard table.name == "t" else { return }
                table.sourceTable = "t"
                table.refusedRows = .setAside
            }
            try finishMigration(database)
            #expect(database.isMigrated)
        }
        #expect(!Files.exists(files[0]))
        let middle = try Connection(path: files[1])
        #expect(texts(try middle.fetchAll("SELECT id, x FROM midstream_refused_t")) == ["2|NULL"])
        // As at the next launch of the application that uses the last file.
        let database = try Database(path: files[2])
        try database.addMigration(source: .file(files[1]), retirement: .deleteFileWhenEmpty) { table in
            if table.name == "t" { table.sourceTable = "t" }
        }
        #expect(database.isMigrated)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 2)
    }

    @Test(arguments: [SourceRetirement.drop, .keep])
    func tablesOfOneFileAreFencedUntilTheyAreGone(_ retirement: SourceRetirement) throws {
        let folder = TemporaryFolder()
        let database = try Database(path: folder.file("one.db"))
        for name in ["a", "b"] {
            try database.execute("CREATE TABLE old_\(name)(id INTEGER PRIMARY KEY, x INT)")
            try database.execute("CREATE TABLE \(name)(id INTEGER PRIMARY KEY, x INT)")
            try database.execute("INSERT INTO old_\(name) VALUES (1, 1), (2, 2), (3, 3)")
        }
        func add() throws {
            try database.addMigration(source: .sameDatabase, retirement: retirement) { table in
                if table.name == "a" || table.name == "b" { table.sourceTable = "old_" + table.name }
            }
        }
        try add()
        for _ in 0..<10 where try database.readMigrationProgress().tables.first?.phase != .done {
            try database.stepMigration(rows: 10, of: "a")
        }
        #expect(try database.readMigrationProgress().tables.first?.phase == .done)
        #expect(throws: SQLiteError.self) { try database.execute("DELETE FROM old_b") }
        try add()
        try finishMigration(database)
        try add()
        #expect(database.isMigrated)
        #expect(
            try database.fetchValue(Int.self, "SELECT (SELECT count(*) FROM a) * 10 + (SELECT count(*) FROM b)") == 33
        )
        if retirement == .keep {
            let error = #expect(throws: SQLiteError.self) { try database.execute("DELETE FROM old_a") }
            #expect(error?.message.hasPrefix("table old_a is moving to table a of") == true)
        } else {
            #expect(try MovingFixture.objects(database.path).filter { $0.contains("midstream") } == [])
        }
    }
}
