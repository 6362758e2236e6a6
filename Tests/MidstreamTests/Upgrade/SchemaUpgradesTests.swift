import Midstream
import SQLiteConnection
import Testing

/// Steps of a schema, and the records of these steps.
@Suite struct SchemaUpgradesTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.file("app.db") }

    private struct Failure: Error {}

    private static let steps: [(String, Int64, @Sendable (DatabaseAccess) throws -> Void)] = [
        (
            "first", 1,
            { try $0.execute("CREATE TABLE a(id INTEGER PRIMARY KEY, x); INSERT INTO a(x) VALUES (1), (2)") }
        ),
        ("second", 2, { try $0.execute("ALTER TABLE a ADD COLUMN y DEFAULT 'y'; CREATE TABLE b(z)") }),
        (
            "third", 3,
            { access in
                try access.rebuild("a") { table in
                    table.schema = "CREATE TABLE a(id INTEGER PRIMARY KEY, x TEXT NOT NULL, y DEFAULT 'y')"
                }
            }
        ),
    ]

    /// Three steps; the last of them rebuilds a table.
    private static func upgrades(from first: Int = 0, upTo count: Int = 3) -> SchemaUpgrades {
        var upgrades = SchemaUpgrades()
        for (name, version, body) in steps.prefix(count).dropFirst(first) {
            upgrades.add(name, version: version, body)
        }
        return upgrades
    }

    private func open(_ body: (Connection) throws -> Void = { _ in }) throws -> Database {
        let connection = try Connection(path: path)
        try body(connection)
        connection.close()
        return try Database(path: path)
    }

    private func rows(_ database: Database) throws -> [String] {
        texts(try database.fetchAll("SELECT id, x, typeof(x), y FROM a ORDER BY id"))
    }

    private let newest = ["1|1|text|y", "2|2|text|y"]

    @Test(arguments: 0...3) func eachStepRunsOnceFromEveryVersion(_ version: Int) throws {
        let database = try open()
        #expect(try database.upgrade(Self.upgrades(upTo: version)).steps.count == version)
        let report = try database.upgrade(Self.upgrades())
        #expect(report.steps == Array(["first", "second", "third"].dropFirst(version)))
        #expect(report.rebuilt.map(\.name) == (version < 3 ? ["a"] : []))
        #expect(try rows(database) == newest)
        #expect(try database.fetchValue(Int.self, "PRAGMA user_version") == 3)
        #expect(try database.upgrade(Self.upgrades()).steps.isEmpty)
        database.close()
        #expect(try Database(path: path).upgrade(Self.upgrades()).steps.isEmpty)
    }

    @Test func aStepThatFailsIsUndoneAndThoseBeforeItStay() throws {
        let database = try open()
        var upgrades = Self.upgrades(upTo: 2)
        upgrades.add("fails") { access in
            try access.execute("DELETE FROM a; CREATE TABLE c(x)")
            throw Failure()
        }
        #expect(throws: Failure.self) { try database.upgrade(upgrades) }
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM a") == 2)
        #expect(try database.fetchValue(Int.self, "PRAGMA user_version") == 2)
        #expect(try database.upgrade(Self.upgrades()).steps == ["third"])
    }

    @Test(arguments: ["COMMIT", "ROLLBACK", "COMMIT; BEGIN", "ROLLBACK; BEGIN IMMEDIATE; CREATE TABLE c(x)"])
    func aStepThatEndsItsTransactionIsNotRecorded(_ end: String) throws {
        let database = try open()
        try database.upgrade(Self.upgrades())
        var ending = Self.upgrades()
        ending.add("ends its transaction") { try $0.execute(end) }
        let error = #expect(throws: MigrationError.self) { try database.upgrade(ending) }
        #expect(error?.code == .misuse)
        #expect(error?.message.contains("ends its transaction") == true)
        #expect(try database.fetchAll("SELECT name FROM midstream_upgrades").count == 3)
        #expect(try database.fetchAll("SELECT 1 FROM sqlite_master WHERE name = 'c'").isEmpty)
        #expect(try database.upgrade(Self.upgrades()).steps.isEmpty)
    }

    @Test(arguments: ["user_version", "grdb", "key"]) func filesOfOtherWaysAreTakenOver(_ way: String) throws {
        let database = try open { connection in
            try connection.execute(
                script: "CREATE TABLE a(id INTEGER PRIMARY KEY, x); INSERT INTO a(x) VALUES (1), (2);"
                    + "ALTER TABLE a ADD COLUMN y DEFAULT 'y'; CREATE TABLE b(z);"
            )
            switch way {
            case "user_version": try connection.execute("PRAGMA user_version = 2")
            case "grdb":
                try connection.execute(
                    script: "CREATE TABLE grdb_migrations(identifier TEXT NOT NULL PRIMARY KEY);"
                        + "INSERT INTO grdb_migrations VALUES ('first'), ('second');"
                )
            default:
                try connection.execute(
                    script: "CREATE TABLE settings(key, value); INSERT INTO settings VALUES ('db', 2)"
                )
            }
        }
        var upgrades = Self.upgrades()
        if way == "key" {
            upgrades.versionBefore = {
                try $0.fetchValue(Int64.self, "SELECT value FROM settings WHERE key = 'db'")
            }
        }
        #expect(try database.upgrade(upgrades).steps == ["third"])
        #expect(try rows(database) == newest)
        // The closure is asked once.
        upgrades.versionBefore = { _ in throw Failure() }
        #expect(try database.upgrade(upgrades).steps.isEmpty)
    }

    @Test func aFileOfANewerBuildIsRefusedOrHandedOver() throws {
        let database = try open()
        var newer = Self.upgrades()
        newer.add("fourth", version: 4) { try $0.execute("CREATE TABLE c(x)") }
        try database.upgrade(newer)
        let error = #expect(throws: MigrationError.self) { try database.upgrade(Self.upgrades()) }
        #expect(error?.code == .newerSchema)
        #expect(error?.message.contains("(fourth)") == true)
        var retiring = Self.upgrades()
        retiring.retiredSteps = ["fourth"]
        #expect(try database.upgrade(retiring).steps.isEmpty)
        var handling = Self.upgrades()
        handling.onNewerSchema = { access, names in
            #expect(names == ["fourth"])
            try access.execute("DROP TABLE c")
        }
        #expect(try database.upgrade(handling).steps.isEmpty)
        #expect(try database.fetchValue(Int.self, "PRAGMA user_version") == 3)
        #expect(try database.upgrade(Self.upgrades()).steps.isEmpty)
        #expect(try database.upgrade(newer).steps == ["fourth"])
    }

    /// The file may be handed over, fresh, or one of another way. A build that still has the step finds that it has
    /// run.
    @Test(arguments: ["newer", "fresh", "version"]) func aRetiredStepRunsNoSecondTime(_ way: String) throws {
        var retiring = Self.upgrades(from: 1)
        retiring.retiredSteps = ["first"]
        let database = try open { connection in
            if way != "version" { return }
            try connection.execute(
                script: "CREATE TABLE a(id INTEGER PRIMARY KEY, x); INSERT INTO a(x) VALUES (1), (2);"
                    + "ALTER TABLE a ADD COLUMN y DEFAULT 'y'; CREATE TABLE b(z); PRAGMA user_version = 2;"
            )
        }
        var newer = Self.upgrades()
        newer.add("fourth") { try $0.execute("CREATE TABLE c(x)") }
        if way == "newer" { try database.upgrade(newer) }
        retiring.onNewerSchema = { access, _ in try access.execute("DROP TABLE c") }
        retiring.freshSchema = {
            try $0.execute(
                "CREATE TABLE a(id INTEGER PRIMARY KEY, x TEXT NOT NULL, y DEFAULT 'y'); CREATE TABLE b(z);"
                    + "INSERT INTO a(x) VALUES (1), (2)"
            )
        }
        try database.upgrade(retiring)
        #expect(try database.upgrade(retiring).steps.isEmpty)
        #expect(try database.upgrade(newer).steps == ["fourth"])
        #expect(try rows(database) == newest)
    }

    @Test func aNewerVersionNumberIsRefused() throws {
        let database = try open { try $0.execute("PRAGMA user_version = 9") }
        let error = #expect(throws: MigrationError.self) { try database.upgrade(Self.upgrades()) }
        #expect(error?.code == .newerSchema)
    }

    /// A build that has gone back to counting versions leaves such a file.
    @Test func aNewerVersionNumberOfARecordedFileIsRefused() throws {
        let database = try open()
        try database.upgrade(Self.upgrades())
        try database.execute("PRAGMA user_version = 4")
        let error = #expect(throws: MigrationError.self) { try database.upgrade(Self.upgrades()) }
        #expect(error?.code == .newerSchema)
        #expect(error?.message.contains("(version 4)") == true)
        var handling = Self.upgrades()
        handling.onNewerSchema = { _, names in #expect(names == ["version 4"]) }
        #expect(try database.upgrade(handling).steps.isEmpty)
        #expect(try database.fetchValue(Int.self, "PRAGMA user_version") == 3)
        #expect(try database.upgrade(Self.upgrades()).steps.isEmpty)
    }

    @Test func aFreshFileMayTakeTheShortcut() throws {
        let database = try open()
        var upgrades = Self.upgrades()
        upgrades.freshSchema = {
            try $0.execute("CREATE TABLE a(id INTEGER PRIMARY KEY, x TEXT NOT NULL, y DEFAULT 'y')")
        }
        let report = try database.upgrade(upgrades)
        #expect(report.isFresh)
        #expect(report.steps.isEmpty)
        #expect(try database.fetchValue(Int.self, "PRAGMA user_version") == 3)
        #expect(try !database.upgrade(upgrades).isFresh)
    }

    @Test func aRehearsalChangesNothing() throws {
        let database = try open()
        try database.upgrade(Self.upgrades(upTo: 2))
        let before = try MovingFixture.objects(path)
        let report = try database.rehearse(Self.upgrades())
        #expect(report.steps == ["third"])
        #expect(report.rebuilt.map(\.name) == ["a"])
        #expect(try MovingFixture.objects(path) == before)
        #expect(texts(try database.fetchAll("SELECT typeof(x) FROM a")) == ["integer", "integer"])
        #expect(try database.upgrade(Self.upgrades()).steps == ["third"])
        #expect(try rows(database) == newest)
    }

    @Test func theRecordsMoveWithAWholeFile() throws {
        let database = try open()
        var upgrades = Self.upgrades()
        upgrades.add("without a version") { try $0.execute("CREATE TABLE c(x)") }
        try database.upgrade(upgrades)
        try finishMigration(database)
        database.close()
        let moved = try Database(path: folder.file("moved.db"), movingAllOf: .file(path))
        #expect(try moved.upgrade(upgrades).steps.isEmpty)
        try finishMigration(moved)
        #expect(try rows(moved) == newest)
        try Database.wipeSource(atPath: path, movedTo: folder.file("moved.db"))
    }

    @Test func stepsThatMakeNoSequenceAreRefused() throws {
        let database = try open()
        var twice = Self.upgrades()
        twice.add("first") { _ in }
        #expect(throws: MigrationError.self) { try database.upgrade(twice) }
        var falling = Self.upgrades()
        falling.add("fourth", version: 2) { _ in }
        #expect(throws: MigrationError.self) { try database.upgrade(falling) }
    }

    @Test func theVersionDoesNotSink() throws {
        let pair = try UpgradePair("CREATE TABLE x(a)")
        func upgrades(_ versions: [Int64]) -> SchemaUpgrades {
            var upgrades = SchemaUpgrades()
            for version in versions { upgrades.add("step \(version)", version: version) { _ in } }
            return upgrades
        }
        for versions in [[1, 3], [1, 2, 3]] as [[Int64]] {
            try pair.database.upgrade(upgrades(versions))
            #expect(try pair.database.fetchValue(Int.self, "PRAGMA user_version") == 3)
        }
    }
}
