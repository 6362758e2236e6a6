import Midstream
import SQLiteConnection
import Testing

/// `addMigration` returns which tables move, and refuses a filter that chooses none.
@Suite struct ChosenTablesTests {
    private let folder = TemporaryFolder()
    private var source: MigrationSource { .file(folder.file("old.db")) }

    /// Makes a source with tables `a` and `b`, and a target with the same tables.
    private func open() throws -> Database {
        let schema = "CREATE TABLE a(id INTEGER PRIMARY KEY); CREATE TABLE b(id INTEGER PRIMARY KEY);"
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(script: schema + "INSERT INTO a VALUES (1), (2); INSERT INTO b VALUES (1), (2)")
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute(schema)
        return database
    }

    @Test func aNameThatNoTableHasIsAnErrorThatLeavesNothing() throws {
        let database = try open()
        try database.execute("CREATE TABLE c(id INTEGER PRIMARY KEY)")
        let before = try MovingFixture.objects(folder.file("old.db")) + MovingFixture.objects(folder.file("new.db"))
        let error = #expect(throws: MigrationError.self) {
            try database.addMigration(source: source) { if $0.name == "aa" { $0.sourceTable = "a" } }
        }
        #expect(error?.code == .missingTable)
        #expect(error?.message.contains("a, b, c") == true && error?.message.contains("allowsNoTables: true") == true)
        #expect(
            try MovingFixture.objects(folder.file("old.db")) + MovingFixture.objects(folder.file("new.db")) == before
        )
        // The filter is not asked about later tables, either.
        try database.execute("CREATE TABLE aa(id INTEGER PRIMARY KEY)")
        #expect(try database.readMigrationProgress().tables.isEmpty)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM aa") == 0)
    }

    @Test func theTablesThatMoveAreTold() throws {
        let database = try open()
        func add() throws -> [String] {
            try database.addMigration(source: source) { $0.sourceTable = $0.name }
        }
        #expect(try add() == ["a", "b"])
        #expect(try add() == ["a", "b"])
        while try database.stepMigration(of: "a").tables.contains(where: { $0.name == "a" && $0.phase != .done }) {}
        #expect(try add() == ["b"])
        try finishMigration(database)
        #expect(try add() == [])
    }

    /// These calls are made at each launch of a version whose users' tables have moved.
    @Test(arguments: [SourceRetirement.drop, .keep, .deleteFileWhenEmpty])
    func tablesThatHaveMovedCountAsChosen(_ retirement: SourceRetirement) throws {
        let database = try open()
        func add(_ database: Database) throws -> [String] {
            try database.addMigration(source: source, retirement: retirement) { $0.sourceTable = $0.name }
        }
        #expect(try add(database) == ["a", "b"])
        try finishMigration(database)
        database.close()
        let again = try Database(path: folder.file("new.db"))
        #expect(try add(again) == [])
        #expect(try again.fetchValue(Int.self, "SELECT count(*) FROM a") == 2)
    }

    /// If the application says so, its tables may be created later.
    @Test func tablesMayBeCreatedLater() throws {
        let database = try open()
        let begun = try database.addMigration(source: source, allowsNoTables: true) {
            if $0.name == "later" { $0.sourceTable = "a" }
        }
        #expect(begun == [])
        try database.execute("CREATE TABLE later(id INTEGER PRIMARY KEY)")
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM later") == 2)
        #expect(try database.readMigrationProgress().tables.map(\.name) == ["later"])
    }

    @Test func aDatabaseWithoutTablesIsToldApart() throws {
        _ = try open()
        let empty = try Database(path: folder.file("empty.db"))
        let error = #expect(throws: MigrationError.self) {
            try empty.addMigration(source: source) { $0.sourceTable = $0.name }
        }
        #expect(error?.message.contains("has no tables yet") == true)
    }
}
