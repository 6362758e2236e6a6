import SQLiteConnection
import Testing

@testable import Midstream

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// What else may happen to the three files while a table moves on from the second to the third.
@Suite struct ChainOfFilesEdgeTests {
    private let folder = TemporaryFolder()

    private static let columns = "(id INTEGER PRIMARY KEY, name TEXT UNIQUE, n TEXT)"
    private static let rows = (1...9).map { "(\($0), 'n\($0)', '0\($0)')" }.joined(separator: ", ")
    private static let all = (1...9).map(String.init)
    private static let second: @Sendable (inout TableMigration) -> Void = { if $0.name == "b" { $0.sourceTable = "a" } }
    private static let third: @Sendable (inout TableMigration) -> Void = { if $0.name == "c" { $0.sourceTable = "b" } }

    private func source(_ file: String) -> MigrationSource { .file(folder.file(file)) }

    private func run(_ script: String, on file: String) throws {
        let connection = try Connection(path: folder.file(file))
        try connection.execute(script: script)
        connection.close()
    }

    private func openMiddle() throws -> Database { try Database(path: folder.file("new.db")) }

    private func begin(moved: Int64, retirement: SourceRetirement = .drop) throws {
        try run("CREATE TABLE a\(Self.columns); INSERT INTO a VALUES \(Self.rows)", on: "old.db")
        let middle = try openMiddle()
        try middle.execute("CREATE TABLE b\(Self.columns); CREATE TABLE other(x)")
        try middle.addMigration(source: source("old.db"), retirement: retirement, filter: Self.second)
        if moved > 0 { try middle.stepMigration(rows: moved) }
        middle.close()
    }

    private func openThird(_ columns: String = columns, retirement: SourceRetirement = .drop) throws -> Database {
        let database = try Database(path: folder.file("third.db"))
        try database.execute("CREATE TABLE IF NOT EXISTS c\(columns)")
        try database.addMigration(source: source("new.db"), retirement: retirement, filter: Self.third)
        return database
    }

    private func keys(_ database: Database, _ table: String) throws -> [String] {
        texts(try database.fetchAll("SELECT id FROM \(table) ORDER BY id"))
    }

    /// A process has taken back its claim on the middle file, and died before it could give back what it had taken over
    /// with the claim.
    @Test func theFirstSourceIsGivenBackByWhoFindsNoClaim() throws {
        try begin(moved: 3)
        let file = try #require(FilePath.lastingIdentity(folder.file("new.db")))
        try run(
            """
            CREATE TABLE c\(Self.columns);
            CREATE TABLE midstream_unreleased(id INTEGER PRIMARY KEY, moved INTEGER NOT NULL, source TEXT, file TEXT, writes INTEGER, retirement TEXT);
            INSERT INTO midstream_unreleased VALUES (77, -1, 'new.db', '\(file)', NULL, NULL)
            """,
            on: "third.db"
        )
        try run("UPDATE midstream_claims SET target_file = 'third.db', target_table = 'c'", on: "old.db")
        try Database(path: folder.file("third.db")).close()
        let middle = try openMiddle()
        #expect(try keys(middle, "b") == Self.all)
        try finishMigration(middle)
        middle.close()
        let left = try Connection(path: folder.file("third.db"))
        #expect(try left.fetchAll("SELECT 1 FROM sqlite_master WHERE name = 'midstream_unreleased'").isEmpty)
        let plain = try Connection(path: folder.file("new.db"))
        #expect(try plain.fetchValue(Int.self, "SELECT count(*) FROM b") == 9)
    }

    // MARK: The middle

    /// The reader reads the first source for the first time after both tables have moved. It would find a view in the
    /// table's place.
    @Test func aReaderOfTheMiddleKeepsWhatItSees() throws {
        try begin(moved: 3)
        let middle = try openMiddle()
        _ = try middle.fetchValue(Int.self, "SELECT count(*) FROM b")
        let database = try openThird()
        try middle.read { access in
            _ = try access.fetchAll("SELECT * FROM other")
            for _ in 0..<50 where try !database.stepMigration().isFinished {}
            #expect(texts(try access.fetchAll("SELECT id FROM b ORDER BY id")) == Self.all)
        }
        middle.close()
        try finishMigration(database)
        #expect(try keys(database, "c") == Self.all)
    }

    @Test func aBorrowedConnectionOfBeforeWritesNothing() throws {
        try begin(moved: 3)
        let foreign = try ForeignConnection(folder.file("new.db"))
        let overlay = try MigrationOverlay.install(on: foreign.handle)
        let database = try openThird()
        for _ in 0..<2 {
            for sql in ["DELETE FROM b WHERE id = 8", "UPDATE b SET n = 1 WHERE id = 8", "DELETE FROM b WHERE id = 1"] {
                #expect(throws: (any Error).self, "\(sql)") { try foreign.wrapped.execute(sql) }
            }
            try overlay.refresh()
            #expect(texts(try foreign.wrapped.fetchAll("SELECT id FROM b ORDER BY id")) == Self.all)
        }
        #expect(try keys(database, "c") == Self.all)
    }

    @Test(arguments: [true, false]) func theMiddlesOwnTableMayNotTakeTheRowsToo(_ isWhole: Bool) throws {
        try begin(moved: 3)
        let middle = try openMiddle()
        if isWhole { try finishMigration(middle) }
        let database = try openThird()
        try middle.execute("CREATE TABLE d\(Self.columns)")
        let error = #expect(throws: MigrationError.self) {
            try middle.addMigration(source: .sameDatabase) { if $0.name == "d" { $0.sourceTable = "b" } }
        }
        #expect(error?.code == .misuse)
        middle.close()
        try finishMigration(database)
        #expect(try keys(database, "c") == Self.all)
    }

    /// The middle file's program adds its migration at each launch.
    @Test(arguments: [SourceRetirement.drop, .keep], [true, false])
    func theMiddleIsLaunchedAsBefore(_ retirement: SourceRetirement, _ isWhole: Bool) throws {
        try begin(moved: 3, retirement: retirement)
        if isWhole {
            let middle = try openMiddle()
            try finishMigration(middle)
            middle.close()
        }
        func launch() throws {
            let middle = try openMiddle()
            try middle.addMigration(source: source("old.db"), retirement: retirement, filter: Self.second)
            middle.close()
        }
        let database = try openThird(retirement: retirement)
        try launch()
        #expect(try Database(path: folder.file("new.db")).isMigrated == isWhole)
        try finishMigration(database)
        database.close()
        try launch()
        #expect(try openMiddle().isMigrated)
        #expect(try keys(openThird(retirement: retirement), "c") == Self.all)
        let left = try MovingFixture.objects(folder.file("new.db")).filter { $0.contains("midstream_conflict") }
        #expect(left.isEmpty)
    }

    /// A file whose own source still has to be retired is not deleted with the file's last table.
    @Test func aMiddleWithWorkLeftIsNotDeleted() throws {
        try begin(moved: 0, retirement: .deleteFileWhenEmpty)
        let middle = try openMiddle()
        try middle.execute("DROP TABLE other")
        for _ in 0..<50 where try middle.readMigrationProgress().tables.first?.phase == .copying {
            try middle.stepMigration(rows: 100)
        }
        #expect(try middle.readMigrationProgress().tables.first?.phase == .copied)
        middle.close()
        let database = try openThird(retirement: .deleteFileWhenEmpty)
        try finishMigration(database)
        #expect(Files.exists(folder.file("new.db")))
        try finishMigration(openMiddle())
        #expect(!Files.exists(folder.file("old.db")))
    }

    // MARK: The third file

    @Test func aKeyOfAnotherSourceIsACollision() throws {
        try begin(moved: 3)
        try run("CREATE TABLE x\(Self.columns); INSERT INTO x VALUES (9, 'x9', 'x')", on: "x.db")
        let database = try Database(path: folder.file("third.db"))
        try database.execute("CREATE TABLE c\(Self.columns)")
        try database.addMigration(source: source("x.db")) { $0.sourceTable = "x" }
        let error = #expect(throws: MigrationError.self) {
            try database.addMigration(source: source("new.db"), filter: Self.third)
        }
        #expect(error?.code == .keyCollision)
        #expect(try keys(database, "c") == ["9"])
        try finishMigration(database)
        let middle = try openMiddle()
        try finishMigration(middle)
        #expect(try keys(middle, "b") == Self.all)
    }

    @Test(arguments: [0, 3] as [Int64]) func oneTableTakesWhatIsToCome(_ moved: Int64) throws {
        try begin(moved: moved)
        let database = try Database(path: folder.file("third.db"))
        try database.execute("CREATE TABLE c\(Self.columns); CREATE TABLE d\(Self.columns)")
        #expect(throws: MigrationError.self) {
            try database.addMigration(source: source("new.db")) { $0.sourceTable = "b" }
        }
        try database.addMigration(source: source("new.db"), filter: Self.third)
        #expect(try keys(database, "c") == Self.all && keys(database, "d").isEmpty)
        // No other file can take the rows either.
        let fourth = try Database(path: folder.file("fourth.db"))
        try fourth.execute("CREATE TABLE c\(Self.columns)")
        #expect(throws: MigrationError.self) {
            try fourth.addMigration(source: source("new.db"), filter: Self.third)
        }
        fourth.close()
        try Database(path: folder.file("fourth.db")).close()
        try finishMigration(database)
        #expect(try keys(database, "c") == Self.all)
    }

    @Test func withinAFileOneTableTakesWhatIsToComeToo() throws {
        try begin(moved: 0)
        let database = try openMiddle()
        try database.execute("CREATE TABLE c\(Self.columns); CREATE TABLE d\(Self.columns)")
        let error = #expect(throws: MigrationError.self) {
            try database.addMigration(source: .sameDatabase) { if "cd".contains($0.name) { $0.sourceTable = "b" } }
        }
        #expect(error?.code == .foreignState)
        #expect(try keys(database, "b") == Self.all)
    }

    /// SQLite attaches at most ten files.
    @Test func whatIsRefusedLeavesNothingAttached() throws {
        try begin(moved: 3)
        let database = try Database(path: folder.file("third.db"))
        try database.execute("CREATE TABLE c\(Self.columns); INSERT INTO c(id) VALUES (9)")
        for _ in 0..<12 {
            let error = #expect(throws: MigrationError.self) {
                try database.addMigration(source: source("new.db"), filter: Self.third)
            }
            #expect(error?.code == .keyCollision)
        }
        try database.execute("DELETE FROM c")
        try database.addMigration(source: source("new.db"), filter: Self.third)
        try finishMigration(database)
        #expect(try keys(database, "c") == Self.all)
    }

    /// The last table refuses rows, so the policy of the last move counts.
    @Test func thePolicyIsThatOfTheLastMove() throws {
        try begin(moved: 3)
        let database = try Database(path: folder.file("third.db"))
        try database.execute(
            "CREATE TABLE c(id INTEGER PRIMARY KEY, name TEXT UNIQUE, n TEXT CHECK (id NOT IN (2, 8)))"
        )
        try database.addMigration(source: source("new.db")) { table in
            Self.third(&table)
            table.refusedRows = .setAside
        }
        try finishMigration(database)
        #expect(try keys(database, "c") == Self.all.filter { !["2", "8"].contains($0) })
    }

    /// Two processes add a migration that is refused to one of them at the moment, and not to the other.
    @Test(arguments: [true, false]) func whatOneWithdrawsIsNotTakenFromTheOther(_ isChain: Bool) async throws {
        for round in 0..<8 {
            for file in ["old.db", "new.db", "third.db"] { Files.removeDatabase(folder.file(file)) }
            if isChain {
                try begin(moved: Int64(round))
            } else {
                try run("CREATE TABLE b\(Self.columns); INSERT INTO b VALUES \(Self.rows)", on: "new.db")
            }
            let toggling = try Database(path: folder.file("third.db"))
            try toggling.execute("CREATE TABLE c\(Self.columns)")
            let (path, source) = (folder.file("third.db"), source("new.db"))
            let (adders, other) = (Threads(), Threads())
            other.start("collisions") { threads in
                while !threads.isOver {
                    try? toggling.execute("INSERT INTO c(id, name) VALUES (9, 'toggle')")
                    usleep(500)
                    try? toggling.execute("DELETE FROM c WHERE name = 'toggle'")
                    usleep(2500)
                }
            }
            for number in 0..<2 {
                adders.start("adder \(number)") { _ in
                    for _ in 0..<5 {
                        let database = try Database(path: path)
                        defer { database.close() }
                        do {
                            try database.addMigration(source: source, filter: Self.third)
                        } catch let error as MigrationError {
                            guard error.code == .keyCollision else { throw error }
                        }
                    }
                }
            }
            await adders.join()
            other.end()
            await other.join()
            try? toggling.execute("DELETE FROM c WHERE name = 'toggle'")
            toggling.close()
            let database = try Database(path: path)
            try database.addMigration(source: source, filter: Self.third)
            #expect(try keys(database, "c") == Self.all)
            try finishMigration(database)
            #expect(try keys(database, "c") == Self.all)
            database.close()
        }
    }
}
