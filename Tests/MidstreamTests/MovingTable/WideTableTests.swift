import Midstream
import SQLiteConnection
import Testing

/// Tables with as many columns as SQLite accepts. That is more than the depth that an expression may have.
@Suite struct WideTableTests {
    private static func schema(_ count: Int) -> String {
        "CREATE TABLE wide(id INTEGER PRIMARY KEY, \((1..<count).map { "c\($0)" }.joined(separator: ", ")))"
    }

    @Test(arguments: [1001, 1999], [false, true])
    func aTableOfManyColumnsMovesAndReturns(_ count: Int, _ returns: Bool) throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(Self.schema(count))
        for id in 1...20 {
            let values = (1..<count).map { "\(id * 10_000 + $0)" }
            try old.execute("INSERT INTO wide VALUES (\(id), \(values.joined(separator: ", ")))")
        }
        let database = try Database(path: folder.file("new.db"))
        try database.execute(Self.schema(count))
        try database.addMigration(source: .file(folder.file("old.db"))) { table in
            table.sourceTable = "wide"
            table.verification = .complete
        }
        try database.stepMigration(rows: 8)
        try database.execute("UPDATE wide SET c999 = -1, c7 = c8 WHERE id IN (3, 15)")
        let expected = try database.fetchAll("SELECT * FROM wide ORDER BY id")
        #expect(expected.count == 20)
        if returns { try database.cancelMigration() }
        try finishMigration(database)
        #expect(
            try
                (returns
                ? old.fetchAll("SELECT * FROM wide ORDER BY id") : database.fetchAll("SELECT * FROM wide ORDER BY id"))
                == expected
        )
    }

    @Test func oneThatCannotBeComparedIsRefused() throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(Self.schema(2000))
        let database = try Database(path: folder.file("new.db"))
        try database.execute(Self.schema(2000))
        let error = #expect(throws: MigrationError.self) {
            try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "wide" }
        }
        #expect(error?.code == .unsupported)
    }
}
