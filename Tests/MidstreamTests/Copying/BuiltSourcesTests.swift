import MidstreamTesting
import SQLiteConnection
import Testing

@testable import Midstream

/// Tables that are built of several sources: in another file each, in one file, or in the middle of a chain.
@Suite struct BuiltSourcesTests {
    private let folder = TemporaryFolder()
    private static let rows = 300
    private static let table = "t(id INTEGER PRIMARY KEY, n INTEGER, s TEXT UNIQUE, b)"
    private static let keyed =
        "t(id INTEGER, n INTEGER, s TEXT COLLATE NOCASE UNIQUE, b, PRIMARY KEY (s, id DESC)) WITHOUT ROWID"
    private static let index = "CREATE INDEX i ON t(n, b)"

    private func plain<Result>(_ file: String, _ body: (Connection) throws -> Result) throws -> Result {
        let connection = try Connection(path: folder.file(file))
        defer { connection.close() }
        return try body(connection)
    }

    /// The rows whose ids have that remainder, or of a third source none.
    private static func fill(_ table: String, _ remainder: Int, of count: Int) -> String {
        "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < \(rows)) INSERT INTO \(table) "
            + "SELECT i, i * 7919 % 101, hex(i * 104729 % 10007), CASE WHEN i % 3 THEN i % 5 END FROM c "
            + "WHERE i % \(count) = \(remainder)"
    }

    private enum Layout: CaseIterable {
        case twoFiles, threeFiles, oneFile, ownFile, twoFilesKeyed, threeFilesKeyed, ownFileKeyed

        var table: String {
            [.twoFilesKeyed, .threeFilesKeyed, .ownFileKeyed].contains(self)
                ? BuiltSourcesTests.keyed : BuiltSourcesTests.table
        }
        var isOwnFile: Bool { self == .ownFile || self == .ownFileKeyed }
    }

    /// Lets the sources' tables begin to move, and makes the same table natively.
    private func begin(_ layout: Layout) throws -> (database: Database, native: Connection) {
        let count = layout == .threeFiles || layout == .threeFilesKeyed ? 3 : 2
        let native = try Connection(path: folder.file("native.db"))
        try native.execute("CREATE TABLE \(layout.table)")
        try native.execute(Self.index)
        try plain("new.db") { connection in
            try connection.execute("CREATE TABLE \(layout.table)")
            try connection.execute(Self.index)
        }
        for source in 0..<count {
            try native.execute(Self.fill("t", source, of: count))
            let (file, name) = place(of: source, layout)
            try plain(file) { connection in
                try connection.execute("CREATE TABLE \(layout.table.replacing("t(id", with: "\(name)(id"))")
                // The index of one alone would be walked through.
                if name == "t" { try connection.execute(Self.index) }
                try connection.execute(Self.fill(name, source, of: count))
            }
        }
        let database = try Database(path: folder.file("new.db"))
        for source in 0..<count {
            let (file, name) = place(of: source, layout)
            try database.addMigration(source: layout.isOwnFile ? .sameDatabase : .file(folder.file(file))) { table in
                if table.name == "t" { table.sourceTable = name }
            }
        }
        try database.buildsAllTables()
        return (database, native)
    }

    private func place(of source: Int, _ layout: Layout) -> (file: String, table: String) {
        switch layout {
        case .twoFiles, .threeFiles, .twoFilesKeyed, .threeFilesKeyed: ("old\(source).db", "t")
        case .oneFile: ("old.db", "t\(source)")
        case .ownFile, .ownFileKeyed: ("new.db", "t\(source)")
        }
    }

    private func isBuilt() throws -> Bool {
        try plain("new.db") {
            try $0.fetchOne("SELECT 1 FROM sqlite_master WHERE name LIKE 'midstream\\_build\\_%' ESCAPE '\\'") != nil
        }
    }

    private func isGivenUp(_ database: Database) throws -> Bool {
        guard try database.fetchOne("SELECT 1 FROM main.sqlite_master WHERE name = 'midstream_builds'") != nil else {
            return false
        }
        return try database.fetchOne("SELECT 1 FROM main.midstream_builds WHERE part < 0") != nil
    }

    private func expectEqual(_ native: Connection) throws {
        let moved = try Connection(path: folder.file("new.db"))
        #expect(try moved.fetchValue(String.self, "PRAGMA integrity_check") == "ok")
        for order in ["id, s", "n, b, id, s", "s, id"] {
            let rows = "SELECT * FROM t ORDER BY \(order)"
            #expect(try moved.fetchAll(rows) == native.fetchAll(rows), "\(order)")
        }
        let own = "SELECT name FROM sqlite_master WHERE name LIKE 'midstream\\_%' ESCAPE '\\'"
        #expect(try moved.fetchAll(own).isEmpty)
    }

    @Test(arguments: Layout.allCases, [1, 7, 100])
    private func whatIsBuiltOfSeveralSourcesIsWhatSQLiteMakes(_ layout: Layout, _ rowsPerStep: Int64) throws {
        let (database, native) = try begin(layout)
        var (steps, wasBuilt, hasWritten) = (0, false, 0)
        while try !database.stepMigration(rows: rowsPerStep).isFinished {
            steps += 1
            try #require(steps < 5000)
            guard try isBuilt() else { continue }
            wasBuilt = true
            #expect(try !isGivenUp(database))
            let texts = [
                "UPDATE t SET b = \(steps) WHERE id IN (7, 8, 9, 100)", "DELETE FROM t WHERE id % 50 = 3",
                "INSERT INTO t VALUES (1001, 5, 'new', NULL), (150000, 5, 'newer', 1)",
                "UPDATE t SET s = s || 'x' WHERE n = 11", "UPDATE t SET s = lower(s) WHERE n BETWEEN 20 AND 30",
                "INSERT OR REPLACE INTO t VALUES (12, 1, 'replaced', 2)",
            ]
            guard hasWritten < texts.count, steps % 3 == 0 else { continue }
            for connection in [0, 1] {
                if connection == 0 {
                    try database.execute(texts[hasWritten])
                } else {
                    try native.execute(texts[hasWritten])
                }
            }
            hasWritten += 1
            #expect(
                try database.fetchAll("SELECT * FROM t ORDER BY id, s")
                    == native.fetchAll("SELECT * FROM t ORDER BY id, s")
            )
        }
        #expect(wasBuilt)
        database.close()
        try expectEqual(native)
    }

    /// A table moves on that has rows to come: what is superseded of its source is its own by then.
    @Test(arguments: [0, 3, 12], [(5, false), (40, false), (5, true), (40, true)])
    func theMiddleOfAChainIsBuiltWithItsSource(_ before: Int, _ way: (rowsPerStep: Int64, isKeyed: Bool)) throws {
        let (rowsPerStep, table) = (way.rowsPerStep, way.isKeyed ? Self.keyed : Self.table)
        let native = try Connection(path: folder.file("native.db"))
        try native.execute(script: "CREATE TABLE \(table); \(Self.index); \(Self.fill("t", 0, of: 1))")
        try plain("new.db") { connection in
            for name in ["s", "m", "t"] {
                try connection.execute("CREATE TABLE \(table.replacing("t(id", with: "\(name)(id"))")
            }
            try connection.execute(script: "\(Self.index); \(Self.fill("s", 0, of: 1))")
        }
        let database = try Database(path: folder.file("new.db"))
        try database.addMigration(source: .sameDatabase) { if $0.name == "m" { $0.sourceTable = "s" } }
        func write(_ text: String, _ table: String) throws {
            try database.execute(text.replacing("t ", with: "\(table) "))
            try native.execute(text)
        }
        for _ in 0..<before { try database.stepMigration(rows: 5) }
        for text in [
            "UPDATE t SET b = 50 WHERE id % 7 = 0", "DELETE FROM t WHERE id % 11 = 0",
            "INSERT INTO t VALUES (77, 1, 'seven', 7), (900, 9, 'nine', NULL)",
        ] { try write(text, "m") }
        try database.addMigration(source: .sameDatabase) { if $0.name == "t" { $0.sourceTable = "m" } }
        try database.buildsAllTables()
        var (steps, wasBuilt) = (0, false)
        while try !database.stepMigration(rows: rowsPerStep).isFinished {
            steps += 1
            try #require(steps < 2000)
            #expect(try !isGivenUp(database))
            guard try isBuilt() else { continue }
            wasBuilt = true
            if steps % 4 == 0, steps < 40 {
                try write("UPDATE t SET n = n + 1 WHERE id IN (\(steps), 77, \(steps * 7))", "t")
                try write("DELETE FROM t WHERE id = \(steps + 100)", "t")
            }
        }
        #expect(wasBuilt || before > 0)
        database.close()
        try expectEqual(native)
    }

    /// Of a source whose rowid is a column of the key, SQLite seeks a range by the first column alone, and would read all rows that share it.
    @Test(arguments: [0, 1]) func aRangeNamesWhatItsKeysShare(_ other: Int) throws {
        let table = "t(kind INTEGER, id INTEGER, n, PRIMARY KEY (kind, id)) WITHOUT ROWID"
        try plain("new.db") { try $0.execute(script: "CREATE TABLE \(table); CREATE INDEX i ON t(n)") }
        for source in 0..<2 {
            try plain("old\(source).db") { connection in
                let isOther = source == other
                try connection.execute(
                    "CREATE TABLE \(isOther ? "t(id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, n, UNIQUE (kind, id))" : table)"
                )
                for id in 0..<40 {
                    try connection.execute(
                        "INSERT INTO t(kind, id, n) VALUES (1, ?, ?)",
                        [2 * id + source, id * 7919 % 101]
                    )
                }
            }
        }
        let database = try Database(path: folder.file("new.db"))
        for source in 0..<2 {
            try database.addMigration(source: .file(folder.file("old\(source).db"))) { $0.sourceTable = $0.name }
        }
        try database.buildsAllTables()
        while try !isBuilt() { try database.stepMigration(rows: 7) }
        let shared = try database.engine.withStepper { stepper in
            let build = try #require(stepper.memory(Copying.State.self).builds.values.compactMap(\.build).first)
            return build.range(
                after: .columns([.integer(1), .integer(4)]),
                through: .columns([.integer(1), .integer(9)])
            )
            .shared
        }
        #expect(shared == 1)
        while try !database.stepMigration(rows: 7).isFinished { #expect(try !isGivenUp(database)) }
        let rows = try database.fetchAll("SELECT id FROM t ORDER BY id").map { try $0.get(0, as: Int.self) }
        #expect(rows == Array(0..<80))
        database.close()
        #expect(try plain("new.db") { try $0.fetchValue(String.self, "PRAGMA integrity_check") } == "ok")
    }

    /// One more move begins while the table is built.
    @Test(arguments: [1, 5, 20, 60])
    func anotherSourceBeginsTheBuildAnew(_ before: Int) throws {
        let (database, native) = try begin(.twoFiles)
        for _ in 0..<before { try database.stepMigration(rows: 10) }
        try plain("more.db") { connection in
            try connection.execute("CREATE TABLE \(Self.table)")
            try connection.execute("INSERT INTO t VALUES (5000, 1, 'more', 2), (6000, 1, 'still more', 2)")
        }
        try native.execute("INSERT INTO t VALUES (5000, 1, 'more', 2), (6000, 1, 'still more', 2)")
        try database.addMigration(source: .file(folder.file("more.db"))) { $0.sourceTable = $0.name }
        var steps = 0
        while try !database.stepMigration(rows: 20).isFinished {
            steps += 1
            try #require(steps < 5000)
            #expect(try !isGivenUp(database))
        }
        database.close()
        try expectEqual(native)
    }

    /// All sources are drained where a statement needs that, and the build goes.
    @Test(arguments: Layout.allCases, [1, 5, 20, 60])
    private func drainingTakesTheBuildBack(_ layout: Layout, _ before: Int) throws {
        let (database, native) = try begin(layout)
        for _ in 0..<before { try database.stepMigration(rows: 10) }
        for text in ["UPDATE t SET b = 99 WHERE id IN (1, 2, 3, 4)", "ALTER TABLE t ADD COLUMN z DEFAULT 5"] {
            try database.execute(text)
            try native.execute(text)
        }
        while try !database.stepMigration(rows: 20).isFinished { #expect(try !isBuilt()) }
        database.close()
        try expectEqual(native)
    }

    /// Its rows come when it is there again.
    @Test func aSourceThatIsNotThereKeepsNoOtherFromMoving() throws {
        let (first, native) = try begin(.twoFiles)
        first.close()
        let database = try Database(path: folder.file("new.db"))
        try database.buildsAllTables()
        Files.moveDatabase(folder.file("old1.db"), to: folder.file("away.db"))
        for _ in 0..<100 {
            let error = #expect(throws: MigrationError.self) { try database.stepMigration(rows: 20) }
            #expect(error?.code == .sourceUnavailable)
        }
        let moved = try plain("new.db") { try $0.fetchValue(Int.self, "SELECT count(*) FROM t WHERE id % 2 = 0") }
        #expect(moved == Self.rows / 2)
        Files.moveDatabase(folder.file("away.db"), to: folder.file("old1.db"))
        while try !database.stepMigration(rows: 20).isFinished {}
        database.close()
        try expectEqual(native)
    }

    /// A row that the target refuses is told of with its own source.
    @Test(arguments: [0, 1]) func aRowIsRefusedOfItsSource(_ source: Int) throws {
        let table = "t(id INTEGER PRIMARY KEY, n INTEGER, s TEXT UNIQUE, b CHECK (b IS NOT 77))"
        try plain("new.db") { try $0.execute(script: "CREATE TABLE \(table); \(Self.index)") }
        for other in 0..<2 {
            try plain("old\(other).db") { connection in
                try connection.execute("CREATE TABLE old\(other)\(Self.table.dropFirst())")
                try connection.execute(Self.fill("old\(other)", other, of: 2))
                if other == source { try connection.execute("UPDATE old\(other) SET b = 77 WHERE id IN (100, 101)") }
            }
        }
        let database = try Database(path: folder.file("new.db"))
        for other in 0..<2 {
            try database.addMigration(source: .file(folder.file("old\(other).db"))) { table in
                table.sourceTable = "old\(other)"
                table.refusedRows = .setAside
            }
        }
        try database.buildsAllTables()
        var wasBuilt = false
        while try !database.stepMigration(rows: 20).isFinished {
            if try isBuilt() { wasBuilt = true }
            #expect(try !isGivenUp(database))
        }
        #expect(wasBuilt)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == Self.rows - 1)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t WHERE id = \(100 + source)") == 0)
        database.close()
        let check = try plain("new.db") { try $0.fetchValue(String.self, "PRAGMA integrity_check") }
        #expect(check == "ok")
    }
}
