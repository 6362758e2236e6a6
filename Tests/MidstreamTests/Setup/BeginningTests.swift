import Dispatch
import SQLiteConnection
import Testing

@testable import Midstream

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// What other processes do while a migration begins.
@Suite struct BeginningTests {
    /// Another process adds the same migration after this one has read the stored state, and before this one stores its
    /// own.
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

    /// A process that finds a migration which another process is about to begin begins it, too. It does not go on
    /// without the rows.
    @Test func whoeverAddsAMigrationSeesAllRows() async throws {
        for _ in 0..<60 {
            let fixture = try MovingFixture(rows: 50)
            let databases = try (0..<4).map { _ in try Database(path: fixture.target) }
            let threads = Threads()
            for (index, database) in databases.enumerated() {
                threads.start("\(index)") { threads in
                    try MovingFixture.addMigration(database, fixture.source)
                    let sum = try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts")
                    if sum != fixture.total { threads.note("\(index) sees \(String(describing: sum))") }
                }
            }
            await threads.join()
            for database in databases { database.close() }
        }
    }

    /// If the source had a claim that the target does not know any more, the claim would keep everybody out for ever.
    @Test func whoCancelsWhatIsAboutToBeginTakesNoClaimFromIt() async throws {
        for _ in 0..<30 {
            let fixture = try MovingFixture(rows: 20)
            let (one, other) = try (Database(path: fixture.target), Database(path: fixture.target))
            let threads = Threads()
            threads.start("one") { threads in
                defer { threads.end() }
                for _ in 0..<3 {
                    try MovingFixture.addMigration(one, fixture.source)
                    try finishMigration(one)
                }
            }
            threads.start("other") { threads in
                while !threads.isOver {
                    usleep(UInt32.random(in: 0..<5000))
                    do {
                        try other.cancelMigration()
                    } catch let error as MigrationError where error.code == .unsupported {
                        // All rows of the table have moved.
                    }
                }
            }
            await threads.join()
            try MovingFixture.addMigration(one, fixture.source)
            #expect(try one.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
            try finishMigration(one)
            #expect(try MovingFixture.count("accounts", in: fixture.target) == 20)
            for database in [one, other] { database.close() }
        }
    }

    /// A backup program may take the database files alone, or somebody may think that the other files are of no use.
    @Test(arguments: [0, 1, 2]) func aWALThatIsLeftBehindKeepsNothingClosed(_ which: Int) throws {
        let fixture = try MovingFixture(rows: 50)
        let database = try fixture.open()
        // The files are as when the process dies: they are copied while the database is open.
        let folder = TemporaryFolder()
        for (index, file) in [fixture.source, fixture.target].enumerated() {
            let name = folder.file(file.split(separator: "/").last.map(String.init) ?? "")
            Files.copyDatabase(file, to: name)
            if which == index || which == 2 { unlink(name + "-wal") }
        }
        database.close()
        let names = [fixture.source, fixture.target].map {
            folder.file($0.split(separator: "/").last.map(String.init) ?? "")
        }
        let copy = try Database(path: names[1])
        try MovingFixture.addMigration(copy, names[0])
        #expect(try copy.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
        try finishMigration(copy)
        #expect(try copy.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
    }

    /// The filter is called in the midst of work for which these calls would wait.
    @Test func aFilterThatAsksItsOwnDatabaseIsTold() throws {
        let fixture = try MovingFixture(rows: 50)
        let database = try Database(path: fixture.target)
        let source = fixture.source
        let calls: [@Sendable (Database) throws -> Void] = [
            { _ = try $0.readMigrationProgress() }, { _ = try $0.stepMigration() }, { try $0.cancelMigration() },
            { try MovingFixture.addMigration($0, source) },
        ]
        for call in calls {
            let error = #expect(throws: MigrationError.self) {
                try database.addMigration(source: .file(source)) { _ in try call(database) }
            }
            #expect(error?.code == .misuse)
        }
        try database.addMigration(source: .file(source)) { table in
            if table.name == "accounts", !database.isMigrated { table.sourceTable = "old_accounts" }
        }
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
        try finishMigration(database)
        // This call comes to its end.
        try database.addMigration(source: .file(source), allowsNoTables: true) { _ in database.close() }
    }

    /// All readers wait for the migration that is being added, while its filter reads.
    @Test(.timeLimit(.minutes(1))) func aFilterReadsWhileAllReadersWaitForIt() async throws {
        let fixture = try MovingFixture(rows: 50)
        var configuration = DatabaseConfiguration()
        configuration.readerCount = 1
        let database = try Database(path: fixture.target, configuration: configuration)
        let source = fixture.source
        let isReading = DispatchSemaphore(value: 0)
        let isAsking = DispatchSemaphore(value: 0)
        let threads = Threads()
        threads.start("reader") { _ in
            try database.read { _ in
                isReading.signal()
                isAsking.wait()
                try MovingFixture.addMigration(database, source)
            }
        }
        threads.start("filter") { _ in
            isReading.wait()
            try database.addMigration(source: .file(source)) { table in
                isAsking.signal()
                usleep(50_000)
                guard table.name == "accounts" else { return }
                _ = try database.fetchAll("SELECT * FROM accounts")
                table.sourceTable = "old_accounts"
            }
        }
        await threads.join()
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
    }

    /// Another process moves the whole table after this one has read the stored state, and before this one stores its
    /// own.
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
        await threads.join()
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

    /// This file was to stay, so it is missed.
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

    /// Leaves the fixture's files as they are if the process dies while another connection holds the source: the
    /// beginning is cut short.
    ///
    /// - Parameter isClaimed: Whether the process dies later, when it has claimed the source.
    private func cutShort(
        _ fixture: MovingFixture,
        retirement: SourceRetirement = .drop,
        isClaimed: Bool = false
    ) async throws {
        let holder = try Connection(path: fixture.source)
        try holder.execute("PRAGMA journal_mode = WAL")
        Files.copyDatabase(fixture.source, to: fixture.source + "-kept")
        try holder.execute("BEGIN IMMEDIATE")
        let threads = Threads()
        threads.start("beginner") { [fixture] _ in
            let database = try Database(path: fixture.target)
            try MovingFixture.addMigration(database, fixture.source, retirement: retirement)
            database.close()
        }
        usleep(300_000)
        Files.copyDatabase(fixture.target, to: fixture.target + "-kept")
        try holder.execute("ROLLBACK")
        holder.close()
        await threads.join()
        for path in isClaimed ? [fixture.target] : [fixture.source, fixture.target] {
            Files.copyDatabase(path + "-kept", to: path)
        }
        let plain = try Connection(path: fixture.target)
        let isStarting = try plain.fetchValue(Int64.self, "SELECT phase FROM midstream_tables") == 0
        plain.close()
        try #require(isStarting)
    }

    /// Runs `body` while another file, which is no database, is in the source's place.
    private func withoutSource<Result>(_ fixture: MovingFixture, _ body: () throws -> Result) throws -> Result {
        Files.moveDatabase(fixture.source, to: fixture.source + "-aside")
        for _ in 0..<512 { Files.mark(fixture.source) }
        defer {
            Files.removeDatabase(fixture.source)
            Files.moveDatabase(fixture.source + "-aside", to: fixture.source)
        }
        return try body()
    }

    /// The process that began the migration has died. Without an error, a loop over steps would go on for ever.
    @Test(arguments: ["missing", "locked", "changed"])
    func stepsTellThatATableCannotBeginAndGoOnWhenItCan(_ way: String) async throws {
        let fixture = try MovingFixture(rows: 50)
        try await cutShort(fixture)
        let aside = fixture.source + "-aside"
        Files.moveDatabase(fixture.source, to: aside)
        let database = try Database(path: fixture.target)
        if way != "missing" { Files.moveDatabase(aside, to: fixture.source) }
        var holder: Connection?
        if way != "missing" { holder = try Connection(path: fixture.source) }
        if way == "locked" { try holder?.execute("BEGIN IMMEDIATE") }
        if way == "changed" { try holder?.execute("ALTER TABLE old_accounts ADD COLUMN z") }
        var outcomes: Set<MigrationProgress.Outcome> = []
        func steps() throws -> MigrationError? {
            let end = ContinuousClock.now + .seconds(20)
            while ContinuousClock.now < end {
                do {
                    let progress = try database.stepMigration()
                    if progress.isFinished { return nil }
                    if progress.tables.contains(where: { $0.phase == .starting }) { outcomes.insert(progress.outcome) }
                } catch let error as MigrationError {
                    return error
                }
                usleep(5000)
            }
            Issue.record("no end")
            return nil
        }
        let error = try steps()
        let codes: [String: MigrationError.Code] = ["changed": .sourceChanged, "locked": .locked]
        #expect(error?.code == codes[way, default: .sourceUnavailable], "\(String(describing: error))")
        #expect(outcomes == [.busy])
        if way == "locked" { try holder?.execute("COMMIT") }
        holder?.close()
        if way == "missing" { Files.moveDatabase(aside, to: fixture.source) }
        #expect(try steps() == nil)
        #expect(database.isMigrated)
        let sum = try database.fetchValue(Int64.self, "SELECT ifnull(sum(amount), 0) FROM accounts")
        #expect(sum == (way == "changed" ? 0 : fixture.total))
    }

    /// Otherwise the application would go on without the rows, and might write rows that have the same keys.
    @Test func whoAddsWhatCannotBeReachedYetIsTold() async throws {
        let fixture = try MovingFixture(rows: 50)
        try await cutShort(fixture)
        let database = try withoutSource(fixture) {
            let database = try Database(path: fixture.target)
            let error = #expect(throws: MigrationError.self) {
                try MovingFixture.addMigration(database, fixture.source)
            }
            #expect(error?.code == .sourceUnavailable)
            return database
        }
        try MovingFixture.addMigration(database, fixture.source)
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
    }

    /// Otherwise the source would have a claim that no target knows, and would be closed for ever.
    @Test func aSourceThatMayBeClaimedIsNotForgotten() async throws {
        let fixture = try MovingFixture(rows: 50)
        try await cutShort(fixture, isClaimed: true)
        try withoutSource(fixture) {
            let database = try Database(path: fixture.target)
            let error = #expect(throws: MigrationError.self) { try database.cancelMigration() }
            #expect(error?.code == .sourceUnavailable)
            #expect(try database.readMigrationProgress().tables.map(\.phase) == [.starting])
            database.close()
        }
        let database = try Database(path: fixture.target)
        try database.cancelMigration()
        try finishMigration(database)
        try Connection(path: fixture.source).execute("UPDATE old_accounts SET amount = 1")
        try MovingFixture.addMigration(database, fixture.source)
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == 50)
    }

    /// A missing source keeps nothing closed, even if the application says where the source is.
    @Test func aSourceThatIsLookedForKeepsNothingClosed() async throws {
        let fixture = try MovingFixture(rows: 50)
        try await cutShort(fixture)
        var configuration = DatabaseConfiguration()
        configuration.sourcePath = { [source = fixture.source] _ in source }
        try withoutSource(fixture) {
            let database = try Database(path: fixture.target, configuration: configuration)
            #expect(try database.readMigrationProgress().tables.map(\.phase) == [.starting])
        }
    }

    /// Two targets begin to take the same rows, and the process of one dies before it has claimed them.
    @Test func rowsThatAnotherTargetHasClaimedKeepNothingClosed() async throws {
        let fixture = try MovingFixture(rows: 50)
        try await cutShort(fixture)
        let faster = try Database(path: fixture.folder.file("faster.db"))
        try faster.execute("CREATE TABLE accounts\(MovingFixture.columns)")
        try MovingFixture.addMigration(faster, fixture.source)
        let database = try Database(path: fixture.target)
        #expect(database.isMigrated)
        let error = #expect(throws: MigrationError.self) { try MovingFixture.addMigration(database, fixture.source) }
        #expect(error?.code == .foreignState)
        try finishMigration(faster)
        #expect(try faster.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
    }

    /// Before the beginning goes on, a row of the target gets a key that a row of the source has.
    @Test func aRowThatCollidesByNowIsToldAndNothingBegins() async throws {
        let fixture = try MovingFixture(rows: 50)
        let before = try MovingFixture.objects(fixture.source)
        try await cutShort(fixture)
        let plain = try Connection(path: fixture.target)
        try plain.execute("INSERT INTO accounts VALUES (7, 'other', 1)")
        plain.close()
        let database = try Database(path: fixture.target)
        let error = #expect(throws: MigrationError.self) { try MovingFixture.addMigration(database, fixture.source) }
        #expect(error?.code == .keyCollision && error?.key == 7)
        #expect(try MovingFixture.objects(fixture.source) == before)
        #expect(try MovingFixture.objects(fixture.target).filter { $0.contains("midstream") } == [])
        #expect(texts(try database.fetchAll("SELECT * FROM accounts")) == ["7|other|1"])
        try database.execute("DELETE FROM accounts")
        try MovingFixture.addMigration(database, fixture.source)
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
    }

    /// When the source is fenced, its table is not the one that was checked. Values of the new table would be dropped
    /// with the source.
    @Test(
        arguments: [
            (
                "ALTER TABLE old_accounts ADD COLUMN z; UPDATE old_accounts SET z = id",
                MigrationError.Code.unequalTables
            ),
            ("ALTER TABLE old_accounts RENAME TO other", .missingTable),
            ("DROP TABLE old_accounts", .missingTable),
            (
                "DROP TABLE old_accounts; CREATE VIEW old_accounts AS SELECT 1 AS id, 2 AS owner, 3 AS amount",
                .missingTable
            ),
        ],
        [true, false]
    )
    func aSourceThatIsChangedWhileItIsAddedIsCheckedAgain(
        _ change: (sql: String, code: MigrationError.Code),
        _ isCutShort: Bool
    ) async throws {
        let fixture = try MovingFixture(rows: 50)
        let before = try MovingFixture.objects(fixture.target)
        if isCutShort { try await cutShort(fixture) }
        let old = try Connection(path: fixture.source)
        try old.execute("PRAGMA journal_mode = WAL")
        try old.execute("BEGIN IMMEDIATE")
        try old.execute(script: change.sql)
        if isCutShort { try old.execute("COMMIT") }
        var database = try Database(path: fixture.target)
        #expect(try database.readMigrationProgress().tables.isEmpty)
        let threads = Threads()
        threads.start("beginner") { [database] _ in
            let error = #expect(throws: MigrationError.self) {
                try MovingFixture.addMigration(database, fixture.source)
            }
            #expect(error?.code == change.code)
        }
        usleep(300_000)
        if !isCutShort { try old.execute("COMMIT") }
        await threads.join()
        #expect(try old.fetchAll("SELECT name FROM sqlite_master WHERE name LIKE 'midstream%'").isEmpty)
        old.close()
        #expect(try MovingFixture.objects(fixture.target) == before)
        database.close()
        database = try Database(path: fixture.target)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM accounts") == 0)
        if change.sql.contains("RENAME") {
            try database.addMigration(source: .file(fixture.source)) { table in
                if table.name == "accounts" { table.sourceTable = "other" }
            }
            #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
        }
    }

    /// No row of the source is in the target, so the database is as it was before.
    @Test(arguments: [SourceRetirement.drop, .deleteFileWhenEmpty])
    func aSourceThatIsGoneBeforeItIsFencedKeepsNothingClosed(_ retirement: SourceRetirement) async throws {
        let fixture = try MovingFixture(rows: 50)
        let before = try MovingFixture.objects(fixture.target)
        try await cutShort(fixture, retirement: retirement)
        Files.removeDatabase(fixture.source)
        var database = try Database(path: fixture.target)
        try database.execute("INSERT INTO accounts VALUES (7, 'other', 1)")
        #expect(try database.readMigrationProgress().tables.map(\.phase) == [.starting])
        let error = #expect(throws: MigrationError.self) {
            try MovingFixture.addMigration(database, fixture.source, retirement: retirement)
        }
        #expect(error?.code == .sourceUnavailable)
        try database.execute("DELETE FROM accounts")
        // The source comes back.
        Files.copyDatabase(fixture.source + "-kept", to: fixture.source)
        try MovingFixture.addMigration(database, fixture.source, retirement: retirement)
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
        database.close()
        // The source does not come back.
        Files.copyDatabase(fixture.target + "-kept", to: fixture.target)
        Files.removeDatabase(fixture.source)
        database = try Database(path: fixture.target)
        try database.cancelMigration()
        // Only a note stays, in case the source comes back after all.
        let rest = try MovingFixture.objects(fixture.target).filter { !$0.hasPrefix("table midstream_unreleased ") }
        #expect(rest == before)
        #expect(database.isMigrated)
    }

    /// The source had been claimed. Its migration is cancelled while the source is away, for instance on a volume that
    /// is not mounted.
    @Test(arguments: [SourceRetirement.drop, .deleteFileWhenEmpty], ["add", "add another", "cancel", "open"])
    func aSourceThatComesBackAfterItsMigrationWasCancelledIsFree(_ retirement: SourceRetirement, _ way: String)
        async throws
    {
        let fixture = try MovingFixture(rows: 50)
        let before = try MovingFixture.objects(fixture.target)
        try await cutShort(fixture, retirement: retirement, isClaimed: true)
        Files.moveDatabase(fixture.source, to: fixture.source + "-away")
        var database = try Database(path: fixture.target)
        try database.cancelMigration()
        Files.moveDatabase(fixture.source + "-away", to: fixture.source)
        switch way {
        case "add": try MovingFixture.addMigration(database, fixture.source)
        case "add another":
            try database.execute("CREATE TABLE others\(MovingFixture.columns)")
            try database.addMigration(source: .file(fixture.source)) { table in
                if table.name == "others" { table.sourceTable = "old_accounts" }
            }
            #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM others") == fixture.total)
        case "cancel": try database.cancelMigration()
        default:
            database.close()
            database = try Database(path: fixture.target)
        }
        if way == "add" {
            #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
        }
        try database.cancelMigration()
        try finishMigration(database)
        try database.execute("DROP TABLE IF EXISTS others")
        try Connection(path: fixture.source).execute("UPDATE old_accounts SET amount = 1")
        #expect(try MovingFixture.objects(fixture.target) == before)
    }

    /// The source has been claimed, and is away while the database is used. The file in its place says nothing of the
    /// claim.
    @Test(
        arguments: ["x", "CREATE TABLE old_accounts(id INTEGER PRIMARY KEY, more)"],
        ["open", "cancel", "note, open", "note, cancel", "note, add"]
    )
    func anotherFileInTheSourcesPlaceHasItsClaimNotForgotten(_ other: String, _ way: String) async throws {
        let fixture = try MovingFixture(rows: 50)
        try await cutShort(fixture, isClaimed: true)
        Files.moveDatabase(fixture.source, to: fixture.source + "-away")
        if way.hasPrefix("note") {
            let database = try Database(path: fixture.target)
            try database.cancelMigration()
            database.close()
        }
        let old = try Connection(path: fixture.source)
        try old.execute(other == "x" ? "CREATE TABLE x(x)" : other)
        old.close()
        var database = try Database(path: fixture.target)
        if way.hasSuffix("cancel") { try database.cancelMigration() }
        if way.hasSuffix("add") {
            #expect(throws: MigrationError.self) { try MovingFixture.addMigration(database, fixture.source) }
        }
        #expect(try database.stepMigration().isFinished)
        database.close()
        Files.removeDatabase(fixture.source)
        Files.moveDatabase(fixture.source + "-away", to: fixture.source)
        database = try Database(path: fixture.target)
        // Nobody is kept from the source any more.
        try Connection(path: fixture.source).execute("UPDATE old_accounts SET amount = amount")
        try MovingFixture.addMigration(database, fixture.source)
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
        try finishMigration(database)
        #expect(try MovingFixture.objects(fixture.target).filter { $0.contains("midstream") } == [])
    }

    /// While the claimed source is away, an old build makes a new file with the same tables.
    @Test(arguments: [SourceRetirement.drop, .deleteFileWhenEmpty, .keep], [0, 3])
    func aBeginningDoesNotGoOnInAnotherFile(_ retirement: SourceRetirement, _ rows: Int) async throws {
        let fixture = try MovingFixture(rows: 50)
        try await cutShort(fixture, retirement: retirement, isClaimed: true)
        Files.moveDatabase(fixture.source, to: fixture.source + "-away")
        try Connection(path: fixture.source).execute(
            script: """
                CREATE TABLE old_accounts\(MovingFixture.columns); CREATE INDEX old_by_owner ON old_accounts(owner);
                INSERT INTO old_accounts WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3)
                SELECT i + 1000, 'x', 1 FROM n WHERE i <= \(rows)
                """
        )
        do {
            // The new file's tables move under another migration id.
            let database = try Database(path: fixture.target)
            try MovingFixture.addMigration(database, fixture.source, retirement: retirement)
            #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM accounts") == rows)
            for _ in 0..<3 { try database.stepMigration() }
        }
        Files.removeDatabase(fixture.source)
        Files.moveDatabase(fixture.source + "-away", to: fixture.source)
        do {
            // What has moved from the new file is not taken for what was to move from the claimed one.
            let database = try? Database(path: fixture.target)
            try? database.map { try MovingFixture.addMigration($0, fixture.source, retirement: retirement) }
            for _ in 0..<20 { _ = try? database?.stepMigration() }
        }
        let old = try Connection(path: fixture.source)
        let left = try old.fetchValue(Int64.self, "SELECT sum(amount) FROM old_accounts") ?? 0
        let moved = try Connection(path: fixture.target).fetchValue(
            Int64.self,
            "SELECT sum(amount) FROM accounts WHERE id < 1000"
        )
        #expect(left == fixture.total || moved == fixture.total)
    }

    /// The claimed file was copied to another volume and deleted. File systems on disks then give its inode to the next
    /// file.
    @Test(arguments: ["open", "cancel"]) func aFileThatGetsTheInodeOfTheClaimedOneIsAnother(_ way: String) async throws
    {
        let fixture = try MovingFixture(rows: 50, in: TemporaryFolder(under: Files.diskFolder))
        try await cutShort(fixture, isClaimed: true)
        let claimed = FilePath.identity(fixture.source)
        Files.copyDatabase(fixture.source, to: fixture.source + "-away")
        Files.removeDatabase(fixture.source)
        for number in 0..<30 {
            let old = try Connection(path: fixture.source)
            try old.execute("CREATE TABLE x(x)")
            old.close()
            if FilePath.identity(fixture.source) == claimed { break }
            rename(fixture.source, fixture.folder.file("x\(number)"))
        }
        do {
            let database = try Database(path: fixture.target)
            if way == "cancel" { try database.cancelMigration() }
            #expect(try database.stepMigration().isFinished)
        }
        Files.copyDatabase(fixture.source + "-away", to: fixture.source)
        let database = try Database(path: fixture.target)
        try MovingFixture.addMigration(database, fixture.source)
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
        try finishMigration(database)
        #expect(try MovingFixture.objects(fixture.target).filter { $0.contains("midstream") } == [])
    }

    /// The file that was to be claimed is there, and has no claim.
    @Test func aFileThatWasNotClaimedIsForgottenWhenItIsBack() async throws {
        let fixture = try MovingFixture(rows: 50)
        let before = try MovingFixture.objects(fixture.target)
        let database = try Database(path: fixture.target)
        let holder = try Connection(path: fixture.source)
        try holder.execute("PRAGMA journal_mode = WAL")
        try holder.execute("BEGIN IMMEDIATE")
        let threads = Threads()
        threads.start("beginner") { _ in
            #expect(throws: MigrationError.self) { try MovingFixture.addMigration(database, fixture.source) }
        }
        usleep(300_000)
        Files.copyDatabase(fixture.target, to: fixture.target + "-kept")
        await threads.join()
        database.close()
        try holder.execute("ROLLBACK")
        holder.close()
        Files.removeDatabase(fixture.target)
        Files.copyDatabase(fixture.target + "-kept", to: fixture.target)
        try #require(try Connection(path: fixture.target).fetchValue("SELECT phase FROM midstream_tables") == 0)
        Files.moveDatabase(fixture.source, to: fixture.source + "-away")
        let away = try Database(path: fixture.target)
        try away.cancelMigration()
        #expect(try MovingFixture.objects(fixture.target).contains { $0.hasPrefix("table midstream_unreleased ") })
        away.close()
        Files.moveDatabase(fixture.source + "-away", to: fixture.source)
        _ = try Database(path: fixture.target)
        #expect(try MovingFixture.objects(fixture.target) == before)
    }

    /// If a file cannot be looked at, it may be there, with rows.
    @Test(arguments: [SourceRetirement.drop, .deleteFileWhenEmpty], [false, true])
    func aSourceThatCannotBeLookedAtIsNotTakenForOneThatIsGone(_ retirement: SourceRetirement, _ isAll: Bool) throws {
        let folder = TemporaryFolder()
        let (target, away) = (folder.file("new.db"), folder.file("away"))
        mkdir(folder.file("old"), 0o755)
        let source = folder.file("old/old.db")
        try Connection(path: source).execute(
            script: "CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1), (2)"
        )
        func open() throws -> Database {
            if isAll {
                return try Database(path: target, movingAllOf: .file(source), retirement: retirement)
            }
            let database = try Database(path: target)
            try database.execute("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY)")
            try database.addMigration(source: .file(source), retirement: retirement) { $0.sourceTable = $0.name }
            return database
        }
        func withoutFolder(_ body: () throws -> Void) rethrows {
            rename(folder.file("old"), away)
            symlink("old", folder.file("old"))
            defer {
                unlink(folder.file("old"))
                rename(away, folder.file("old"))
            }
            try body()
        }
        withoutFolder {
            let error = #expect(throws: MigrationError.self) { try open() }
            #expect(error?.code == .sourceUnavailable)
            #expect(error?.message.contains("cannot be accessed") == true)
        }
        let database = try open()
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 2)
        try database.stepMigration(rows: 1)
        database.close()
        if isAll {
            withoutFolder {
                let error = #expect(throws: MigrationError.self) { try open() }
                #expect(error?.code == .sourceUnavailable)
            }
        }
        let again = try open()
        try finishMigration(again)
        #expect(try again.fetchValue(Int.self, "SELECT count(*) FROM t") == 2)
    }

    /// The copy knows the same claim, but nothing that has come since.
    @Test(arguments: ["open", "cancel", "add"]) func aCopyOfTheTargetTakesNoClaimBackThatIsNotItsOwn(_ way: String)
        async throws
    {
        let fixture = try MovingFixture(rows: 50)
        try await cutShort(fixture, isClaimed: true)
        let copy = fixture.folder.file("copy.db")
        Files.copyDatabase(fixture.target, to: copy)
        Files.moveDatabase(fixture.source, to: fixture.source + "-away")
        let other = try Database(path: copy)
        try other.cancelMigration()
        other.close()
        Files.moveDatabase(fixture.source + "-away", to: fixture.source)
        let database = try Database(path: fixture.target)
        try MovingFixture.addMigration(database, fixture.source)
        try database.stepMigration(rows: 20)
        do {
            let other = try Database(path: copy)
            if way == "cancel" { try other.cancelMigration() }
            if way == "add" {
                let error = #expect(throws: MigrationError.self) {
                    try MovingFixture.addMigration(other, fixture.source)
                }
                #expect(error?.code == .foreignState)
            }
        }
        #expect(throws: SQLiteError.self) { try Connection(path: fixture.source).execute("DELETE FROM old_accounts") }
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
        try finishMigration(database)
        #expect(try MovingFixture.count("accounts", in: fixture.target) == 50)
    }

    /// The folder is missing as well, also when the path leads to it through a link.
    @Test(arguments: [true, false]) func aSourceThatIsAboutToBeginIsMissedWithItsFolder(_ isLink: Bool) async throws {
        let folder = TemporaryFolder()
        for name in ["old", "new"] { mkdir(folder.file(name), 0o755) }
        symlink("old", folder.file("link"))
        let (target, source) = (folder.file("new/new.db"), folder.file("old/old.db"))
        try Connection(path: source).execute(
            script: "CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1), (2)"
        )
        try Connection(path: target).execute("CREATE TABLE t(id INTEGER PRIMARY KEY)")
        @Sendable func add(_ database: Database) throws {
            let path = isLink ? folder.file("link/old.db") : folder.file("new/../old/old.db")
            try database.addMigration(source: .file(path), retirement: .deleteFileWhenEmpty) {
                $0.sourceTable = $0.name
            }
        }
        let holder = try Connection(path: source)
        try holder.execute("PRAGMA journal_mode = WAL")
        try holder.execute("BEGIN IMMEDIATE")
        let threads = Threads()
        threads.start("beginner") { _ in
            let database = try Database(path: target)
            #expect(throws: MigrationError.self) { try add(database) }
            database.close()
        }
        usleep(300_000)
        Files.copyDatabase(target, to: target + "-kept")
        await threads.join()
        holder.close()
        Files.copyDatabase(target + "-kept", to: target)
        rename(folder.file("old"), folder.file("away"))
        let database = try Database(path: target)
        let error = #expect(throws: MigrationError.self) { try add(database) }
        #expect(error?.code == .sourceUnavailable && error?.message.contains("cancelMigration") == true)
        rename(folder.file("away"), folder.file("old"))
        try add(database)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 2)
    }

    /// An error means that nothing has begun.
    @Test func aSourceThatIsHeldForTooLongKeepsNothingBegun() throws {
        let fixture = try MovingFixture(rows: 50)
        let before = try MovingFixture.objects(fixture.target)
        let database = try Database(path: fixture.target)
        let holder = try Connection(path: fixture.source)
        try holder.execute("PRAGMA journal_mode = WAL")
        try holder.execute("BEGIN IMMEDIATE")
        let error = #expect(throws: MigrationError.self) { try MovingFixture.addMigration(database, fixture.source) }
        #expect(error?.code == .locked)
        #expect(try MovingFixture.objects(fixture.target) == before)
        #expect(try database.stepMigration().isFinished)
        try holder.execute("ROLLBACK")
        try MovingFixture.addMigration(database, fixture.source)
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
    }

    /// Rows that do not fit come into the source. Nothing refuses them until the source is fenced.
    @Test(
        arguments: [
            (
                "o(k TEXT UNIQUE, a)", "t(id TEXT PRIMARY KEY, a) WITHOUT ROWID",
                "INSERT INTO o VALUES (NULL, 1), (NULL, 2)",
                MigrationError.Code.unequalTables
            ),
            (
                "o(k INTEGER UNIQUE, a)", "t(id INTEGER PRIMARY KEY, a)", "INSERT INTO o VALUES (NULL, 1)",
                .unequalTables
            ),
            (
                "o(k INTEGER UNIQUE, a)", "t(id INTEGER PRIMARY KEY, a)", "INSERT INTO o VALUES ('abc', 1)",
                .unequalTables
            ),
            (
                "o(k INTEGER PRIMARY KEY, a)", "t(id INTEGER PRIMARY KEY, a UNIQUE)", "INSERT INTO o VALUES (50, 'a1')",
                .keyCollision
            ),
        ]
    )
    func rowsThatDoNotFitAndComeWhileItIsAddedAreTold(
        _ source: String,
        _ target: String,
        _ write: String,
        _ code: MigrationError.Code
    ) async throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute("PRAGMA journal_mode = WAL")
        try old.execute("CREATE TABLE \(source)")
        try old.execute("CREATE INDEX by_a ON o(a)")
        try old.execute("INSERT INTO o VALUES (1, 'a1'), (2, 'a2'), (3, 'a3')")
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE \(target)")
        try old.execute("BEGIN IMMEDIATE")
        try old.execute(write)
        let threads = Threads()
        threads.start("beginner") { _ in
            let error = #expect(throws: MigrationError.self) {
                try database.addMigration(source: .file(folder.file("old.db"))) { table in
                    table.sourceTable = "o"
                    table.columns["id"] = .column("k")
                }
            }
            #expect(error?.code == code)
        }
        usleep(300_000)
        try old.execute("COMMIT")
        await threads.join()
        #expect(database.isMigrated)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 0)
        try old.execute("DELETE FROM o WHERE rowid > 3")
        try old.execute("UPDATE o SET a = a || '!'")
    }

    /// By then, the target's table is another one.
    @Test func aTargetThatIsChangedWhileItIsAddedIsCheckedAgain() async throws {
        let fixture = try MovingFixture(rows: 50)
        let database = try Database(path: fixture.target)
        let old = try Connection(path: fixture.source)
        try old.execute("PRAGMA journal_mode = WAL")
        try old.execute("BEGIN IMMEDIATE")
        let threads = Threads()
        threads.start("beginner") { threads in
            let error = #expect(throws: MigrationError.self) {
                try MovingFixture.addMigration(database, fixture.source)
            }
            #expect(error?.code == .unequalTables)
        }
        usleep(300_000)
        let plain = try Connection(path: fixture.target)
        try plain.execute("ALTER TABLE accounts ADD COLUMN z")
        plain.close()
        try old.execute("COMMIT")
        await threads.join()
        #expect(try MovingFixture.objects(fixture.target).filter { $0.contains("midstream") } == [])
        #expect(try old.fetchAll("SELECT name FROM sqlite_master WHERE name LIKE 'midstream%'").isEmpty)
    }

    @Test func aBeginningWaitsForOneWhoWritesTheSource() async throws {
        let fixture = try MovingFixture(rows: 20)
        let threads = Threads()
        let old = try Connection(path: fixture.source)
        // Without a WAL, a connection that looks at the file in that instant keeps this one from committing.
        old.setBusyTimeout(milliseconds: 5000)
        try old.execute("BEGIN IMMEDIATE")
        try old.execute("UPDATE old_accounts SET amount = 101")
        threads.start("writer") { [fixture] threads in
            let database = try fixture.open()
            let sum = try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts")
            if sum != 20 * 101 { threads.note("the sum is \(String(describing: sum))") }
        }
        usleep(300_000)
        try old.execute("COMMIT")
        await threads.join()
    }

    /// The table moves from one file to another and back, again and again. What a source has recorded of its former
    /// table does not count for the new one.
    @Test func whatHasMovedAndIsMadeAnewMovesAgain() throws {
        let folder = TemporaryFolder()
        let files = [folder.file("a.db"), folder.file("b.db")]
        let create = "CREATE TABLE t(id INTEGER PRIMARY KEY, a)"
        let first = try Connection(path: files[0])
        try first.execute(create)
        try first.execute("INSERT INTO t(a) VALUES ('x'), ('y'), ('z')")
        first.close()
        for leg in 0..<5 {
            let (source, target) = (files[leg % 2], files[(leg + 1) % 2])
            let plain = try Connection(path: target)
            try plain.execute("DROP VIEW IF EXISTS t")
            try plain.execute(create)
            plain.close()
            let database = try Database(path: target)
            try database.addMigration(source: .file(source)) { if $0.name == "t" { $0.sourceTable = "t" } }
            #expect(texts(try database.fetchAll("SELECT a FROM t ORDER BY id")) == ["x", "y", "z"], "leg \(leg)")
            try finishMigration(database)
            // This is the next launch.
            try database.addMigration(source: .file(source)) { if $0.name == "t" { $0.sourceTable = "t" } }
            #expect(texts(try database.fetchAll("SELECT a FROM t ORDER BY id")) == ["x", "y", "z"], "leg \(leg)")
            database.close()
        }
    }

    /// The record of the first move is no other source of the table.
    @Test(arguments: [nil, ["t"]]) func whatMovesAgainCanBeCancelledBesideAnotherMove(_ names: [String]?) throws {
        let folder = TemporaryFolder()
        let create = "(id INTEGER PRIMARY KEY, a)"
        let source = folder.file("old.db")
        let old = try Connection(path: source)
        try old.execute("CREATE TABLE o\(create)")
        try old.execute("INSERT INTO o VALUES (1, 1), (2, 2)")
        old.close()
        let other = try Connection(path: folder.file("other.db"))
        try other.execute("CREATE TABLE o2\(create)")
        try other.execute(
            "WITH RECURSIVE i(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM i WHERE x < 50) INSERT INTO o2 SELECT x, x FROM i"
        )
        other.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t\(create); CREATE TABLE t2\(create)")
        func add() throws {
            try database.addMigration(source: .file(source)) { if $0.name == "t" { $0.sourceTable = "o" } }
        }
        try database.addMigration(source: .file(folder.file("other.db"))) {
            if $0.name == "t2" { $0.sourceTable = "o2" }
        }
        try add()
        for _ in 0..<12 { try database.stepMigration(rows: 1, of: "t") }
        try #require(try database.readMigrationProgress().tables.contains { $0.name == "t" && $0.phase == .done })
        try Connection(path: source).execute(
            script: "DROP VIEW o; CREATE TABLE o\(create); INSERT INTO o VALUES (3, 3)"
        )
        try add()
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 3)
        try database.cancelMigration(of: names)
        try finishMigration(database)
        #expect(try Connection(path: source).fetchValue(Int.self, "SELECT count(*) FROM o") == 3)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 0)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t2") == (names == nil ? 0 : 50))
    }

    /// If a chain has ended, tables that are made anew under its tables' names are not part of it.
    @Test func whatIsMadeAnewAfterAChainMovesAgain() throws {
        let folder = TemporaryFolder()
        let (first, middle, last) = (folder.file("a.db"), folder.file("b.db"), folder.file("c.db"))
        let create = "CREATE TABLE t(id INTEGER PRIMARY KEY, a)"
        for file in [first, middle, last] { try Connection(path: file).execute(create) }
        try Connection(path: first).execute("INSERT INTO t(a) VALUES ('x'), ('y'), ('z')")
        func add(_ database: Database, _ source: String) throws {
            try database.addMigration(source: .file(source)) { $0.sourceTable = $0.name }
        }
        let begun = try Database(path: middle)
        try add(begun, first)
        try begun.stepMigration(rows: 1)
        begun.close()
        let onward = try Database(path: last)
        try add(onward, middle)
        try finishMigration(onward)
        #expect(try onward.fetchValue(Int.self, "SELECT count(*) FROM t") == 3)
        for file in [first, middle] { try Connection(path: file).execute(script: "DROP VIEW t; \(create)") }
        try Connection(path: first).execute("INSERT INTO t VALUES (7, 'new')")
        let database = try Database(path: middle)
        try add(database, first)
        #expect(texts(try database.fetchAll("SELECT * FROM t")) == ["7|new"])
        try finishMigration(database)
        try add(database, first)
        #expect(texts(try database.fetchAll("SELECT * FROM t")) == ["7|new"] && database.isMigrated)
    }

    /// A source's table was dropped when its rows had moved, and made anew while other tables still move. It is another
    /// table then.
    @Test(arguments: [true, false]) func whatIsMadeAnewBesideAnotherMoveMovesAgain(_ isSameFile: Bool) throws {
        let folder = TemporaryFolder()
        let create = "(id INTEGER PRIMARY KEY, kind)"
        let database = try Database(path: folder.file("new.db"))
        let old = isSameFile ? database : try Database(path: folder.file("old.db"))
        let source = isSameFile ? MigrationSource.sameDatabase : .file(folder.file("old.db"))
        try old.execute("CREATE TABLE s\(create); CREATE TABLE large\(create)")
        func fill(_ table: String, _ rows: ClosedRange<Int>, kind: Int) throws {
            for id in rows { try old.execute("INSERT INTO \(table) VALUES (?, ?)", [id, kind]) }
        }
        try fill("s", 1...4, kind: 1)
        try fill("large", 1...50, kind: 0)
        try database.execute("CREATE TABLE m\(create); CREATE TABLE first\(create); CREATE TABLE second\(create)")
        if !isSameFile { old.close() }
        func add(_ name: String, from table: String, _ condition: String?) throws {
            try database.addMigration(source: source) {
                guard $0.name == name else { return }
                $0.sourceTable = table
                $0.condition = condition
            }
        }
        try add("m", from: "large", nil)
        try add("first", from: "s", "kind = 1")
        for _ in 0..<12 { try database.stepMigration(rows: 1, of: "first") }
        try #require(try database.readMigrationProgress().tables.contains { $0.name == "first" && $0.phase == .done })

        let again = isSameFile ? database : try Database(path: folder.file("old.db"))
        if !isSameFile { try again.execute("DROP VIEW s") }
        try again.execute("CREATE TABLE s\(create)")
        for id in 101...106 { try again.execute("INSERT INTO s VALUES (?, ?)", [id, id < 103 ? 2 : id < 105 ? 3 : 1]) }
        if !isSameFile { again.close() }
        try add("second", from: "s", "kind = 2")
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM second") == 2)
        // These are the same two tables as before.
        try add("first", from: "s", "kind = 1")
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM first") == 6)
        try finishMigration(database)
        let count = try Connection(path: isSameFile ? folder.file("new.db") : folder.file("old.db"))
        // The rows of the third kind belong to no migration.
        #expect(try count.fetchValue(Int.self, "SELECT count(*) FROM s") == 6)
        #expect(
            try database.fetchAll("SELECT (SELECT count(*) FROM first), (SELECT count(*) FROM second)").map(\.values)
                == [[6, 2]]
        )
    }

    /// As many rows belong to no migration as had moved from the former table of that name.
    @Test func rowsOfATableThatIsMadeAnewAreNotCountedAsMoved() throws {
        let folder = TemporaryFolder()
        let create = "(id INTEGER PRIMARY KEY, kind)"
        let database = try Database(path: folder.file("new.db"))
        for name in ["s", "large", "m", "first", "second"] { try database.execute("CREATE TABLE \(name)\(create)") }
        for id in 1...50 { try database.execute("INSERT INTO large VALUES (?, 0)", [id]) }
        for id in 1...4 { try database.execute("INSERT INTO s VALUES (?, 1)", [id]) }
        func add(_ name: String, from table: String, _ condition: String?) throws {
            try database.addMigration(source: .sameDatabase) {
                guard $0.name == name else { return }
                $0.sourceTable = table
                $0.condition = condition
            }
        }
        try add("m", from: "large", nil)
        try add("first", from: "s", "kind = 1")
        for _ in 0..<12 { try database.stepMigration(rows: 1, of: "first") }
        try database.execute("CREATE TABLE s\(create)")
        for id in 11...16 { try database.execute("INSERT INTO s VALUES (?, ?)", [id, id < 13 ? 2 : 3]) }
        try add("second", from: "s", "kind = 2")
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM s WHERE kind = 3") == 4)
    }

    /// The filter is asked about a table that is created later, and nothing else begins again with it.
    @Test func whatAnotherProcessHasCancelledDoesNotBeginAgain() throws {
        let fixture = try MovingFixture(rows: 50)
        let old = try Connection(path: fixture.source)
        try old.execute("CREATE TABLE later(x)")
        try old.execute("INSERT INTO later VALUES (1)")
        let first = try Database(path: fixture.target)
        try first.addMigration(source: .file(fixture.source)) { table in
            table.sourceTable = table.name == "accounts" ? "old_accounts" : "later"
        }
        try first.stepMigration(rows: 20)
        let second = try Database(path: fixture.target)
        try second.cancelMigration()
        try finishMigration(second)
        try first.execute("CREATE TABLE other(x)")
        #expect(try first.readMigrationProgress().tables.map(\.name) == ["other"])
        try first.execute("CREATE TABLE another(y)")
        try old.execute("UPDATE old_accounts SET amount = 1 WHERE id = 1")
        #expect(try old.fetchValue(Int64.self, "SELECT count(*) FROM old_accounts") == 50)
        old.close()
        try finishMigration(first)
        #expect(try first.fetchValue(Int64.self, "SELECT count(*) FROM other") == 1)
    }

    /// An old build that makes the source's table anew has removed the fence. The rows have moved all the same.
    @Test func whatWasKeptDoesNotMoveAgain() throws {
        let fixture = try MovingFixture(rows: 20)
        for launch in 0..<3 {
            let database = try Database(path: fixture.target)
            try MovingFixture.addMigration(database, fixture.source, retirement: .keep)
            try finishMigration(database)
            if launch == 0 { try database.execute("DELETE FROM accounts") }
            #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM accounts") == 0)
            database.close()
            let old = try Connection(path: fixture.source)
            try old.execute(
                script: """
                    CREATE TABLE copy\(MovingFixture.columns); INSERT INTO copy SELECT * FROM old_accounts;
                    DROP TABLE old_accounts; ALTER TABLE copy RENAME TO old_accounts
                    """
            )
            old.close()
        }
    }
}
