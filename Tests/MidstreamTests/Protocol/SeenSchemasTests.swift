import MidstreamTesting
import SQLiteConnection
import Testing

@testable import Midstream

/// Opening a database whose files have the schemas that they had when all tables were looked at last.
@Suite struct SeenSchemasTests {
    private let folder = TemporaryFolder()
    private var source: String { folder.file("old.db") }
    private var target: String { folder.file("new.db") }

    private func plain(_ path: String, _ sql: String) throws {
        let connection = try Connection(path: path)
        try connection.execute(script: sql)
        connection.close()
    }

    /// Lets tables `t` and `u` begin to move; `u` has rowids that are no column's.
    private func begin(retirement: SourceRetirement = .drop) throws {
        for name in ["t(id INTEGER PRIMARY KEY, a)", "u(a, b)"] {
            for path in [source, target] { try plain(path, "CREATE TABLE \(name)") }
        }
        try plain(source, "INSERT INTO t(a) VALUES (1), (2), (3); INSERT INTO u(a) VALUES (1), (2), (3)")
        let database = try Database(path: target)
        defer { database.close() }
        try database.addMigration(source: .file(source), retirement: retirement) { $0.sourceTable = $0.name }
    }

    /// Whether a database that is opened makes its overlay with the first statement, since nothing has changed.
    private func isAsSeen() throws -> Bool {
        let database = try Database(path: target)
        defer { database.close() }
        let isAsSeen = database.writer.overlay.isEmpty
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 3)
        try database.execute("UPDATE u SET b = 7 WHERE rowid = 3")
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM u WHERE b = 7") == 1)
        return isAsSeen
    }

    private func openingFails(_ code: MigrationError.Code, _ words: String) {
        let error = #expect(throws: MigrationError.self) { try Database(path: target).close() }
        #expect(error?.code == code)
        #expect(error?.message.contains(words) == true, "\(error?.message ?? "no error")")
    }

    @Test func openingLooksAtNoTableAsLongAsNoSchemaHasChanged() throws {
        try begin()
        #expect(try isAsSeen())
        #expect(try isAsSeen())
    }

    /// A program without Midstream changes files that have the numbers which are stored.
    @Test(arguments: [
        ("new.db", "ALTER TABLE t ADD COLUMN c", MigrationError.Code.unequalTables, "got the column c"),
        ("new.db", "DROP TRIGGER midstream_delete_", .unequalTables, "lost its triggers"),
        ("old.db", "ALTER TABLE u RENAME COLUMN a TO z", .unequalTables, "got the column a"),
        ("old.db", "DROP TABLE u", .sourceChanged, "is gone"),
    ])
    func openingTellsWhatHasChanged(_ file: String, _ sql: String, _ code: MigrationError.Code, _ words: String) throws
    {
        guard !sql.contains("RENAME COLUMN") || Connection.libraryVersionNumber >= 3_025_000 else { return }
        try begin()
        try plain(folder.file(file), try whole(sql))
        openingFails(code, words)
    }

    /// The name of a guard trigger ends with the table's number.
    private func whole(_ sql: String) throws -> String {
        guard sql.hasSuffix("_") else { return sql }
        let connection = try Connection(path: target)
        defer { connection.close() }
        let name = sql.split(separator: " ").last.map(String.init) ?? ""
        let whole = try connection.fetchValue(
            String.self,
            "SELECT name FROM sqlite_master WHERE substr(name, 1, length(?1)) = ?1",
            [name]
        )
        return "DROP TRIGGER \(whole ?? "")"
    }

    /// What others change in the midst of a step is not taken for known by the step.
    @Test func aStepDoesNotKnowWhatHasChangedSinceItBegan() throws {
        try begin()
        let database = try Database(path: target)
        try database.engine.withStepper { stepper in
            _ = try stepper.load()
            #expect(try stepper.isCurrent())
            try plain(target, "CREATE TABLE v(id INTEGER PRIMARY KEY)")
            #expect(try stepper.stored().tables.count == 2)
            #expect(try !stepper.isCurrent())
            _ = try stepper.load()
            #expect(try stepper.isCurrent())
        }
        database.close()
    }

    /// The application's own tables come and go: then each table is looked at, and nothing is wrong.
    @Test(arguments: ["new.db", "old.db"])
    func openingLooksAtAllTablesWhereASchemaHasChanged(_ file: String) throws {
        try begin()
        try plain(folder.file(file), "CREATE TABLE v(id INTEGER PRIMARY KEY)")
        #expect(try !isAsSeen())
    }

    /// What steps change themselves, in both files, is known; what others change after them is seen.
    @Test(arguments: [SourceRetirement.drop, .keep])
    func aTableThatHasMovedLeavesTheOtherAsItWas(_ retirement: SourceRetirement) throws {
        try begin(retirement: retirement)
        let database = try Database(path: target)
        while try database.fetchValue(Int64.self, "SELECT count(*) FROM midstream_tables WHERE phase = 4") == 0 {
            try database.stepMigration(of: "t")
        }
        database.close()
        #expect(try isAsSeen())
        try plain(source, "DROP TABLE u")
        openingFails(.sourceChanged, "is gone")
    }
}
