import SQLiteConnection
import Testing

@testable import Midstream

/// Tables that are built beside the live one, and adopted by it.
struct BuildTests {
    private let folder = TemporaryFolder()

    /// A table with indexes, in two files.
    private struct Shape: CustomTestStringConvertible, Sendable {
        var table: String
        var indexes: [String] = []
        /// The source's, where those are others.
        var sourceIndexes: [String]?
        var testDescription: String { "\(table) \(indexes)" }
    }

    private static let columns = "n INTEGER, s TEXT, r REAL, v, u TEXT"
    private static let shapes: [Shape] = [
        Shape(table: "(id INTEGER PRIMARY KEY, \(columns))", indexes: ["i ON t(n, s)"]),
        Shape(table: "(id INTEGER PRIMARY KEY AUTOINCREMENT, \(columns), UNIQUE (u))", indexes: ["i ON t(s DESC, n)"]),
        Shape(table: "(\(columns))", indexes: ["i ON t(v, r DESC, s COLLATE NOCASE)"]),
        Shape(
            table: "(id INTEGER PRIMARY KEY, \(columns))",
            indexes: ["i ON t(n) WHERE s > 'b'", "j ON t(n + 1, lower(s))"]
        ),
        Shape(table: "(id INTEGER PRIMARY KEY, \(columns))", indexes: ["i ON t(r)", "j ON t(v)"], sourceIndexes: []),
        Shape(table: "(k TEXT PRIMARY KEY, id, \(columns))", indexes: ["i ON t(n)"]),
        Shape(
            table: "(id INTEGER, \(columns), PRIMARY KEY (s, id)) WITHOUT ROWID",
            indexes: ["i ON t(n DESC, s)", "j ON t(v)"]
        ),
        Shape(
            table: "(id INTEGER PRIMARY KEY, \(columns), g AS (n * 2) STORED, h AS (s || 'x'), CHECK (id > 0))",
            indexes: ["i ON t(g, h)", "j ON t(h COLLATE NOCASE)"]
        ),
        Shape(
            table: "(id INTEGER PRIMARY KEY, \(columns.replacingNulls))",
            indexes: ["i ON t(n, s)", "j ON t(r DESC)"]
        ),
        Shape(
            table: "(id INTEGER PRIMARY KEY, \(columns))",
            indexes: ["i ON t(n, n, id)", "j ON t(u)"],
            sourceIndexes: ["j ON t(u)"]
        ),
        // Of few values, so that many entries differ by their rowids alone.
        Shape(table: "(id INTEGER PRIMARY KEY, \(columns))", indexes: ["i ON t(s)", "j ON t(r, s)"]),
        // By the names that the engine's own tables have; INTEGER columns that have texts; keys that descend.
        Shape(table: "(c1 INTEGER PRIMARY KEY, \(columns), c0 DEFAULT 3)", indexes: ["i ON t(c0)", "j ON t(c1, u)"]),
        Shape(
            table: "(id INTEGER PRIMARY KEY, \(columns), c1 DEFAULT 5, x INTEGER COLLATE NOCASE UNIQUE)",
            indexes: ["i ON t(c1, n)"]
        ),
        Shape(
            table: "(id INTEGER, \(columns), x UNIQUE, PRIMARY KEY (id DESC)) WITHOUT ROWID",
            indexes: ["i ON t(s COLLATE RTRIM, id)", "j ON t(u DESC, n)"]
        ),
    ]

    private static let rows = 400

    private static func fill(_ connection: Connection, _ shape: Shape) throws {
        let hasKey = shape.table.contains("k TEXT")
        let isNotNull = shape.table.contains("NOT NULL") || shape.table.contains("PRIMARY KEY (s")
        let key = shape.table.hasPrefix("(n") ? "" : shape.table.hasPrefix("(c1") ? "c1, " : "id, "
        for id in 1...rows {
            func orNull(_ isNull: Bool, _ value: String) -> String { isNull && !isNotNull ? "NULL" : value }
            let values = [
                orNull(id % 5 == 0, "\(id * 7919 % 97)"), orNull(id % 7 == 0, "'\(["a", "B", "b", "c"][id % 4])'"),
                id % 3 == 0 ? "\(id % 9)" : "\(Double(id % 13) / 4)",
                orNull(id % 4 == 0, id % 4 == 1 ? "'x\(id % 10)'" : id % 4 == 2 ? "\(id % 10)" : "x'0\(id % 10)'"),
                "'\(id * 104_729 % 10_007)'",
            ]
            try connection.execute(
                "INSERT INTO t(\(hasKey ? "k, " : "")\(key)n, s, r, v, u) VALUES (\(hasKey ? "'k\(id * 7919 % 10_007)', " : "")"
                    + "\(key.isEmpty ? "" : "\(id), ")\(values.joined(separator: ", ")))"
            )
        }
        guard shape.table.contains("x ") else { return }
        try connection.execute(
            "UPDATE t SET x = CASE id % 3 WHEN 0 THEN id WHEN 1 THEN (CASE id % 2 WHEN 0 THEN 'a' ELSE 'B' END) || id END"
        )
    }

    private static func create(_ path: String, _ shape: Shape, _ indexes: [String]) throws -> Connection {
        let connection = try Connection(path: path)
        try connection.execute("CREATE TABLE t\(shape.table)")
        for index in indexes { try connection.execute("CREATE INDEX \(index)") }
        return connection
    }

    private static let isModern = Connection.libraryVersionNumber >= 3_031_000

    /// What is written while the table is built.
    private static let writes = [
        "UPDATE t SET s = 'z', n = n + 1 WHERE u IN (SELECT u FROM t ORDER BY u LIMIT 7)",
        "DELETE FROM t WHERE u IN (SELECT u FROM t ORDER BY u DESC LIMIT 5)",
        "UPDATE t SET u = 'other' || u WHERE n = 11",
    ]

    @Test(arguments: shapes.indices, [1, 7, 100])
    func whatIsAdoptedIsWhatSQLiteMakes(_ number: Int, _ rowsPerStep: Int64) throws {
        let shape = Self.shapes[number]
        if shape.table.contains(" AS "), !Self.isModern { return }
        let source = try Self.create(folder.file("old.db"), shape, shape.sourceIndexes ?? shape.indexes)
        try Self.fill(source, shape)
        let native = try Self.create(folder.file("native.db"), shape, shape.indexes)
        try Self.fill(native, shape)
        _ = try Self.create(folder.file("new.db"), shape, shape.indexes)
        let database = try Database(path: folder.file("new.db"))
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = $0.name }
        try database.buildsAllTables()
        var (steps, wasBuilt) = (0, false)
        var writes = Self.writes
        while try !database.stepMigration(rows: rowsPerStep).isFinished {
            steps += 1
            let hidden = "SELECT 1 FROM main.sqlite_master WHERE name LIKE 'midstream\\_build\\_%' ESCAPE '\\'"
            if try database.fetchOne(hidden) != nil {
                wasBuilt = true
            }
            if try database.fetchOne("SELECT 1 FROM main.sqlite_master WHERE name = 'midstream_builds'") != nil {
                let isGivenUp = "SELECT count(*) FROM main.midstream_builds WHERE part < 0"
                #expect(try database.fetchValue(Int.self, isGivenUp) == 0)
            }
            if steps.isMultiple(of: 3), !writes.isEmpty {
                let text = writes.removeFirst()
                try database.execute(text)
                try native.execute(text)
            }
            let whole = "SELECT count(*), sum(n), group_concat(u) FROM (SELECT n, u FROM t ORDER BY u)"
            if steps < 60 { #expect(try database.fetchOne(whole) == native.fetchOne(whole)) }
            if steps > 20_000 { Issue.record("it does not end"); break }
        }
        #expect(wasBuilt)
        database.close()
        let adopted = try Connection(path: folder.file("new.db"))
        #expect(try adopted.fetchAll("PRAGMA integrity_check").map { try $0.get(0, as: String.self) } == ["ok"])
        let names = try adopted.fetchAll("SELECT name FROM sqlite_master").map { try $0.get(0, as: String.self) }
        #expect(!names.contains { $0.hasPrefix("midstream") })
        let order = !shape.table.contains("WITHOUT ROWID") ? "rowid" : shape.table.contains("(s, id)") ? "s, id" : "id"
        func same(_ sql: String) throws {
            #expect(try adopted.fetchAll(sql) == native.fetchAll(sql), "\(sql)")
        }
        if !shape.table.contains("WITHOUT ROWID") { try same("SELECT rowid, * FROM t ORDER BY rowid") }
        try same("SELECT *, typeof(n), typeof(s), typeof(r), typeof(v) FROM t NOT INDEXED ORDER BY \(order)")
        // Before, an index that has not all columns is used for no scan.
        for index in try !Self.isModern
            ? [] : native.fetchAll("PRAGMA index_list(t)").map({ try $0.get(1, as: String.self) })
        {
            if index == "i", shape.indexes.contains(where: { $0.contains("WHERE") }) {
                try same("SELECT u FROM t INDEXED BY i WHERE s > 'b' ORDER BY n, \(order)")
            } else {
                try same("SELECT u FROM t INDEXED BY \(index)")
            }
        }
        // It goes on as any table does.
        try adopted.execute("DELETE FROM t WHERE n % 2")
        try adopted.execute("UPDATE t SET n = -1, s = 'new', u = u || 'new'")
        #expect(try adopted.fetchAll("PRAGMA integrity_check").map { try $0.get(0, as: String.self) } == ["ok"])
    }
}

// MARK: -

/// What others do while tables are built.
struct BuildBesideOthersTests {
    private let folder = TemporaryFolder()
    private static let rows = 300
    private static let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER, s TEXT UNIQUE, b)"
    /// By what rows are told apart.
    private static let schemas = [
        schema, "CREATE TABLE t(id INTEGER, n INTEGER, s TEXT UNIQUE, b, PRIMARY KEY (id DESC)) WITHOUT ROWID",
        "CREATE TABLE t(id INTEGER, n INTEGER, s TEXT COLLATE NOCASE UNIQUE, b, PRIMARY KEY (s, id DESC)) WITHOUT ROWID",
    ]
    private static let index = "CREATE INDEX i ON t(n, b)"
    private static let fill =
        "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < \(rows)) INSERT INTO t "
        + "SELECT i, i * 7919 % 101, hex(i * 104729 % 10007), CASE WHEN i % 3 THEN i % 5 END FROM c"

    private func begin(_ settings: [String] = [], _ schema: String = schema) throws -> Database {
        for (file, isFilled) in [("old.db", true), ("new.db", false)] {
            let connection = try Connection(path: folder.file(file))
            for setting in settings { try connection.execute(setting) }
            try connection.execute(schema)
            try connection.execute(Self.index)
            if isFilled { try connection.execute(Self.fill) }
        }
        let database = try Database(path: folder.file("new.db"))
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = $0.name }
        try database.buildsAllTables()
        return database
    }

    /// A program without Midstream.
    private func other<Result>(_ body: (Connection) throws -> Result) throws -> Result {
        let connection = try Connection(path: folder.file("new.db"))
        defer { connection.close() }
        return try body(connection)
    }

    private func check() throws -> [String] {
        try other { try $0.fetchAll("PRAGMA integrity_check").map { try $0.get(0, as: String.self) } }
    }

    private var hidden: Int {
        get throws {
            try other {
                try $0.fetchValue(
                    Int.self,
                    "SELECT count(*) FROM sqlite_master WHERE name LIKE 'midstream\\_build\\_%' ESCAPE '\\'"
                ) ?? 0
            }
        }
    }

    private func expectNotGivenUp(_ database: Database) throws {
        let builds = "SELECT 1 FROM main.sqlite_master WHERE name = 'midstream_builds'"
        guard try database.fetchOne(builds) != nil else { return }
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM main.midstream_builds WHERE part = -1") == 0)
    }

    private func finish(_ database: Database, rows: Int = rows, mayGiveUp: Bool = false) throws {
        var steps = 0
        while try !database.stepMigration(rows: 40).isFinished {
            steps += 1
            try #require(steps < 1000)
            if !mayGiveUp { try expectNotGivenUp(database) }
        }
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == rows)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t NOT INDEXED") == rows)
        database.close()
        #expect(try check() == ["ok"])
        #expect(try hidden == 0)
    }

    /// Whatever the files are like, other programs find them sound at each moment.
    @Test(
        arguments: [
            [], ["PRAGMA auto_vacuum = FULL"], ["PRAGMA auto_vacuum = INCREMENTAL"], ["PRAGMA encoding = 'UTF-16le'"],
            ["PRAGMA page_size = 512"], ["PRAGMA page_size = 65536"],
        ]
    )
    func filesAreSoundAtEachStep(_ settings: [String]) throws {
        let database = try begin(settings)
        var steps = 0
        while try !database.stepMigration(rows: 25).isFinished {
            steps += 1
            #expect(try check() == ["ok"])
            #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t WHERE n >= 0") == Self.rows)
            try #require(steps < 1000)
        }
        #expect(steps > 12)
        try finish(database)
    }

    @Test(
        arguments: [
            "CREATE INDEX j ON t(b)", "DROP INDEX i", "ALTER TABLE t ADD COLUMN more DEFAULT 7",
            "CREATE TABLE other(a); INSERT INTO other VALUES (1)", "CREATE VIEW v AS SELECT n FROM t", "DROP TABLE t",
        ],
        [2, 9, 16]
    )
    func theSchemaMayChange(_ change: String, _ before: Int) throws {
        let database = try begin()
        for _ in 0..<before { try database.stepMigration(rows: 40) }
        #expect(try hidden > 0)
        for text in change.split(separator: ";") { try database.execute(String(text)) }
        if change.hasPrefix("DROP TABLE") {
            database.close()
            #expect(try check() == ["ok"])
            return
        }
        if change.hasPrefix("ALTER") {
            #expect(try database.fetchValue(Int.self, "SELECT sum(more) FROM t") == 7 * Self.rows)
        }
        try finish(database)
    }

    @Test(arguments: [2, 9, 16], ["VACUUM", "REINDEX", "ANALYZE", "PRAGMA wal_checkpoint(TRUNCATE)"])
    func otherProgramsMayLookAfterTheFile(_ before: Int, _ command: String) throws {
        let database = try begin()
        for _ in 0..<before { try database.stepMigration(rows: 40) }
        try other { try $0.execute(command) }
        #expect(try check() == ["ok"])
        try database.execute("UPDATE t SET n = 1000 WHERE id = 5")
        try finish(database)
    }

    @Test(arguments: [2, 9, 16]) func whatIsBuiltGoesWhenTheMigrationIsCancelled(_ before: Int) throws {
        let database = try begin()
        for _ in 0..<before { try database.stepMigration(rows: 40) }
        try database.execute("UPDATE t SET n = 1000 WHERE id = 5")
        try database.execute("DELETE FROM t WHERE id = 6")
        try database.cancelMigration()
        #expect(try hidden == 0)
        while try !database.stepMigration().isFinished {}
        #expect(try check() == ["ok"])
        let old = try Connection(path: folder.file("old.db"))
        #expect(try old.fetchValue(Int.self, "SELECT count(*) FROM t") == Self.rows - 1)
        #expect(try old.fetchValue(Int.self, "SELECT n FROM t WHERE id = 5") == 1000)
    }

    /// Within its own transaction, a connection cannot adopt anything.
    @Test(arguments: [2, 9, 16]) func whatIsBuiltGoesWhenTheTableIsDrained(_ before: Int) throws {
        let database = try begin()
        for _ in 0..<before { try database.stepMigration(rows: 40) }
        try database.execute("CREATE TEMP TRIGGER x AFTER INSERT ON main.t BEGIN SELECT 1; END")
        #expect(!database.migrationStatistics.drained.isEmpty)
        try finish(database)
    }

    /// Each gets its part, be it built before the other or after.
    @Test func tablesThatShareASourceAreBuilt() throws {
        let old = try Connection(path: folder.file("old.db"))
        for text in [Self.schema, Self.index, Self.fill] { try old.execute(text) }
        let database = try Database(path: folder.file("new.db"))
        for name in ["even", "odd"] {
            try database.execute("CREATE TABLE \(name)(id INTEGER PRIMARY KEY, n INTEGER, s TEXT UNIQUE, b)")
            try database.execute("CREATE INDEX \(name)_n ON \(name)(n, b)")
        }
        try database.addMigration(source: .file(folder.file("old.db"))) { table in
            table.sourceTable = "t"
            table.condition = table.name == "even" ? "id % 2 = 0" : "id % 2 = 1"
        }
        try database.buildsAllTables()
        var (built, steps): (Set<String>, Int) = ([], 0)
        while try !database.stepMigration(rows: 40).isFinished {
            steps += 1
            try #require(steps < 1000)
            try expectNotGivenUp(database)
            if try hidden > 0 {
                let sql = "SELECT target FROM main.midstream_tables WHERE id IN (SELECT id FROM main.midstream_builds)"
                built.formUnion(try database.fetchAll(sql).map { try $0.get(0) })
            }
            if steps == 5 || steps == 20 {
                try database.execute("UPDATE even SET b = 7, s = s || 'x' WHERE id < 40")
                try database.execute("UPDATE odd SET b = 8 WHERE id > 250")
                try database.execute("DELETE FROM odd WHERE id = 5")
            }
        }
        #expect(built == ["even", "odd"])
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM even WHERE id % 2 = 0") == Self.rows / 2)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM odd WHERE id % 2 = 1") == Self.rows / 2 - 1)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM even WHERE b = 7 AND s GLOB '*x'") == 19)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM odd WHERE b = 8") == 25)
        database.close()
        #expect(try check() == ["ok"])
        #expect(try hidden == 0)
    }

    /// However much has been written, nothing of it is compared while others wait, as long as nobody writes.
    @Test(arguments: [0, 5, 20], schemas)
    func manyWrittenRowsAreNotBroughtInAtOnce(_ before: Int, _ schema: String) throws {
        let database = try begin([], schema)
        for _ in 0..<before { try database.stepMigration(rows: 40) }
        let many = Int(Building.mostCompared) + 1
        try database.execute(
            "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < \(many)) "
                + "INSERT INTO t(id, n, s) SELECT i + 1000, i, 'new' || i FROM c"
        )
        var wasMerged = false
        while try hidden > 0 || !database.stepMigration(rows: 2000).isFinished {
            try database.stepMigration(rows: 2000)
            if try hidden > 0 {
                let merges = "SELECT max(count) FROM main.midstream_builds WHERE expected = 0 AND part > 2"
                if try database.fetchValue(Int.self, merges) ?? 0 > 0 { wasMerged = true }
            }
            try expectNotGivenUp(database)
        }
        #expect(wasMerged)
        try finish(database, rows: Self.rows + many)
    }

    /// However large the table is, no slice reads more of it than its rows.
    @Test(
        arguments: schemas + [
            "CREATE TABLE t(id INTEGER, n INTEGER, s TEXT UNIQUE, b, PRIMARY KEY (n DESC, id)) WITHOUT ROWID"
        ]
    )
    func whatIsMergedIsSoughtByItsKey(_ schema: String) throws {
        let database = try begin([], schema)
        while try hidden == 0 { try database.stepMigration(rows: 40) }
        let plans = try database.engine.withStepper { stepper in
            let (migrations, tables) = try stepper.stored()
            let sql = try stepper.sql(for: tables[0], migrations[0])
            let building = Building(Copying(stepper: stepper, migration: migrations[0], sql: sql))
            let build = try #require(building.copying.state.builds[tables[0].id]?.build)
            let slices = [true, false].map {
                Merging(building, build).rowsToMerge(KeyRange(first: .after, second: .through), $0)
            }
            // Once, when the table adopts the build, SQLite 3.15 scans for a key of several columns.
            let atLast = Connection.libraryVersionNumber >= 3_040_000 ? [Merging(building, build).deleteOutdated] : []
            return try (slices + atLast).map { text in
                try stepper.connection.fetchAll("EXPLAIN QUERY PLAN \(text)").map { try $0.get(3, as: String.self) }
            }
        }
        for plan in plans {
            let seeks = plan.filter { $0.contains("midstream_built") || $0.contains("midstream_build_") }
            #expect(!seeks.isEmpty && !seeks.contains { $0.hasPrefix("SCAN") && !$0.contains("merged") }, "\(plan)")
        }
    }

    /// Values wander from row to row, NULLs come and go, rows are there for a while, until the live table adopts what was built.
    @Test(arguments: 1...21, [0, 2000]) func whatIsWrittenAllTheWhileIsMerged(_ seed: Int, _ nulls: Int64) throws {
        let schema = Self.schemas[seed % Self.schemas.count]
        let database = try begin([], schema)
        try database.buildsAllTables(mostNulls: nulls)
        let native = try Connection(path: folder.file("native.db"))
        for text in [schema, Self.index, Self.fill] { try native.execute(text) }
        let dice = Dice(seed: UInt64(seed), number: 0)
        var (steps, wasMerged, late) = (0, false, 8)
        while try !database.stepMigration(rows: Int64(dice.between(5, 60))).isFinished {
            steps += 1
            try #require(steps < 2000)
            if steps > 5, try hidden > 0 {
                // What is written then comes late.
                let isRead = "SELECT stage FROM main.midstream_builds WHERE part = 0"
                if late > 0, try database.fetchValue(Int.self, isRead) == 2 {
                    late -= 1
                    for text in ["UPDATE t SET b = \(late) WHERE id <= 20", "DELETE FROM t WHERE id = \(late + 30)"] {
                        try database.execute(text)
                        try native.execute(text)
                    }
                }
                let merges = "SELECT max(count) FROM main.midstream_builds WHERE expected = 0 AND part > 2"
                if try database.fetchValue(Int.self, merges) ?? 0 > 0 { wasMerged = true }
            }
            for _ in 0..<(steps < 200 ? dice.below(4) : 0) {
                let id = dice.between(1, Self.rows + 5)
                let text = dice.pick([
                    "UPDATE t SET n = n + 1, b = NULL WHERE id = \(id)", "UPDATE t SET b = \(id % 7) WHERE id = \(id)",
                    "DELETE FROM t WHERE id = \(id)", "INSERT OR IGNORE INTO t VALUES (\(id), 5, 'new \(id)', NULL)",
                    "INSERT OR REPLACE INTO t SELECT \(id), n, s, b FROM t WHERE id = \(dice.between(1, Self.rows))",
                    "UPDATE OR IGNORE t SET s = (SELECT s FROM t WHERE id = \(id)) || 'x' WHERE id = \(id / 2)",
                    "INSERT OR IGNORE INTO t VALUES (\(id + 1000), 5, 'new \(id)', \(id))",
                    "DELETE FROM t WHERE id > 1000", "UPDATE OR IGNORE t SET id = id + 2000 WHERE id = \(id)",
                    "UPDATE OR IGNORE t SET s = lower(s) WHERE id = \(id)",
                ])
                try database.execute(text)
                try native.execute(text)
            }
        }
        #expect(wasMerged || nulls == 0)
        database.close()
        #expect(try check() == ["ok"])
        #expect(try hidden == 0)
        let whole = "SELECT * FROM t ORDER BY id, s"
        #expect(try other { try $0.fetchAll(whole) } == native.fetchAll(whole))
    }

    /// The table and its indexes have the same texts then, and the rows other values.
    @Test(arguments: [2, 4, 6, 8, 12]) func anotherMappingBeginsTheBuildAnew(_ before: Int) throws {
        let database = try begin()
        for _ in 0..<before { try database.stepMigration(rows: 40) }
        _ = try database.write { try $0.rebuild("t") { $0.columns["n"] = .expression("n + 1000") } }
        while try !database.stepMigration(rows: 40).isFinished {}
        database.close()
        let native = try Connection(path: folder.file("native.db"))
        for text in [Self.schema, Self.index, Self.fill] { try native.execute(text) }
        try native.execute("UPDATE t SET n = n + 1000")
        let whole = "SELECT * FROM t ORDER BY id"
        #expect(try other { try $0.fetchAll(whole) } == native.fetchAll(whole))
        #expect(try check() == ["ok"])
    }

    /// Batches pass the rows that the application has written, which a build would have to copy.
    @Test(arguments: [(70, true), (80, false), (300, false)])
    func aTableOfWhichMuchIsWrittenIsNotBuilt(_ written: Int, _ isToBeBuilt: Bool) throws {
        let database = try begin()
        try database.execute("UPDATE t SET b = b WHERE id <= \(written)")
        var wasBuilt = false
        while try !database.stepMigration(rows: 40).isFinished { wasBuilt = try wasBuilt || hidden > 0 }
        #expect(wasBuilt == isToBeBuilt)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == Self.rows)
        database.close()
        #expect(try check() == ["ok"])
    }

    /// Each merge leaves more than may come in while others wait. At last they wait all the same, and the build is not lost.
    @Test(arguments: schemas) func whoeverWritesFasterThanItIsMergedWaitsOnce(_ schema: String) throws {
        let database = try begin([], schema)
        let native = try Connection(path: folder.file("native.db"))
        for text in [schema, Self.index, Self.fill] { try native.execute(text) }
        var (number, merges) = (0, 0)
        while try !database.stepMigration(rows: 40).isFinished {
            number += 1
            try #require(number < 2000)
            try expectNotGivenUp(database)
            guard try hidden > 0 else { continue }
            for text in ["UPDATE t SET b = \(number % 7) WHERE id <= 12", "DELETE FROM t WHERE id = \(number + 40)"] {
                try database.execute(text)
                try native.execute(text)
            }
            let count = "SELECT max(count) FROM main.midstream_builds WHERE expected = 0 AND part > 2"
            merges = max(merges, try database.fetchValue(Int.self, count) ?? 0)
        }
        #expect(merges == 8)
        database.close()
        #expect(try check() == ["ok"])
        let whole = "SELECT * FROM t ORDER BY id"
        #expect(try other { try $0.fetchAll(whole) } == native.fetchAll(whole))
    }

    /// A row that is merged may have the value of one that could not leave any more. It comes later, and the merge does not begin anew.
    @Test(arguments: schemas) func valuesMayWanderWhileRowsAreMerged(_ schema: String) throws {
        let database = try begin([], schema)
        let native = try Connection(path: folder.file("native.db"))
        for text in [schema, Self.index, Self.fill] { try native.execute(text) }
        func write(_ text: String) throws {
            try database.execute(text)
            try native.execute(text)
        }
        func stage(_ part: Int) throws -> Int? {
            try hidden > 0
                ? database.fetchValue(Int.self, "SELECT stage FROM main.midstream_builds WHERE part = \(part)") : nil
        }
        var (hasWritten, hasWandered, merges) = (false, false, 0)
        while try !database.stepMigration(rows: 7).isFinished {
            try expectNotGivenUp(database)
            guard try hidden > 0 else { continue }
            let count = "SELECT count FROM main.midstream_builds WHERE part = 3"
            merges = max(merges, try database.fetchValue(Int.self, count) ?? 0)
            if try !hasWritten && stage(0) == 2 {
                hasWritten = true
                try write("UPDATE t SET b = 1, n = 3 WHERE id BETWEEN 5 AND 70")
            }
            // All rows have left, and the first ones come.
            if try !hasWandered && stage(3) == 1 {
                hasWandered = true
                // By each of the keys, one that comes late.
                let row = schema == Self.schema ? 69 : 6
                let last = "(SELECT max(s) FROM t WHERE id > 100)"
                let other = try native.fetchValue(Int.self, "SELECT id FROM t WHERE s = \(last)") ?? 0
                try write("UPDATE t SET b = s WHERE id = \(other)")
                try write("UPDATE t SET s = 'other' WHERE id = \(other)")
                try write("UPDATE t SET s = (SELECT b FROM t WHERE id = \(other)) WHERE id = \(row)")
            }
        }
        #expect(hasWandered && merges == 1)
        database.close()
        #expect(try check() == ["ok"])
        let whole = "SELECT * FROM t ORDER BY id, s"
        #expect(try other { try $0.fetchAll(whole) } == native.fetchAll(whole))
    }

    /// The source's index lacks an entry, or has one too many, of which its table tells nothing.
    @Test(arguments: ["DELETE FROM broken WHERE n = 50", "INSERT INTO broken VALUES (50, 1, 999)"])
    func aDamagedIndexOfTheSourceIsNotAdopted(_ damage: String) throws {
        let database = try begin()
        let old = try Connection(path: folder.file("old.db"))
        let root = try #require(
            try old.fetchValue(Int64.self, "SELECT rootpage FROM sqlite_master WHERE name = 'i'")
        )
        try old.setImposter(schema: "main", isOn: true, root: root)
        try old.execute(script: "CREATE TABLE broken(n, b, r, PRIMARY KEY (n, b, r)) WITHOUT ROWID")
        try old.setImposter(schema: "main", isOn: false, root: 0)
        try old.execute(damage)
        old.close()
        // The rows are counted by it once more.
        let error = #expect(throws: MigrationError.self) { try finish(database, mayGiveUp: true) }
        #expect(error?.code == .sourceChanged)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t NOT INDEXED") == Self.rows)
        #expect(try check() == ["ok"])
    }

    /// Many entries with NULLs come in slices. Until all are there, SQLite's own check may find them wrong.
    @Test(arguments: ["", "DELETE FROM t WHERE id % 3 = 0", "UPDATE t SET b = 9 WHERE id % 6 = 0"], [1, 40])
    func entriesWithNullsComeInSlices(_ write: String, _ rows: Int64) throws {
        let database = try begin()
        try database.buildsAllTables(mostNulls: 0)
        let hasBegun = "SELECT 1 FROM main.midstream_builds WHERE part = 3 AND nulls = 1"
        var (steps, wasSeen) = (0, false)
        while try !database.stepMigration(rows: rows).isFinished {
            steps += 1
            try #require(steps < 5000)
            if try !wasSeen && hidden > 0 && database.fetchOne(hasBegun) != nil {
                wasSeen = true
                if !write.isEmpty { try database.execute(write) }
            }
        }
        #expect(wasSeen)
        try finish(database, rows: write.hasPrefix("DELETE") ? Self.rows * 2 / 3 : Self.rows)
    }

    /// A checksum that a build has begun is nothing to who inserts the rows.
    @Test(arguments: [3, 9, 1000]) func aTableThatIsComparedAsAWholeIsDrained(_ before: Int) throws {
        for (file, isFilled) in [("old.db", true), ("new.db", false)] {
            let connection = try Connection(path: folder.file(file))
            for text in [Self.schema, Self.index] + (isFilled ? [Self.fill] : []) { try connection.execute(text) }
        }
        let database = try Database(path: folder.file("new.db"))
        try database.addMigration(source: .file(folder.file("old.db"))) {
            ($0.sourceTable, $0.verification) = ($0.name, .complete)
        }
        try database.buildsAllTables()
        for _ in 0..<before where try !database.stepMigration(rows: 40).isFinished {}
        if before < 100 {
            #expect(try hidden > 0)
            try database.execute("CREATE TEMP TRIGGER x AFTER INSERT ON main.t BEGIN SELECT 1; END")
        }
        try finish(database)
    }

    /// They count, and move nothing.
    @Test func stepsOfNoRowsLeaveABuildAsItIs() throws {
        let database = try begin()
        let isGivenUp = "SELECT count(*) FROM main.midstream_builds WHERE part < 0"
        for step in 0..<1000 {
            try database.stepMigration(rows: 0)
            if try database.stepMigration(rows: 40).isFinished { break }
            try #require(step < 900)
            if try hidden > 0 { #expect(try database.fetchValue(Int.self, isGivenUp) == 0) }
        }
        try finish(database)
    }

    /// An index that another program makes while a table is built is built with it.
    @Test func aBuildBeginsAnewWithAnotherIndex() throws {
        let database = try begin()
        for _ in 0..<9 { try database.stepMigration(rows: 40) }
        try other { try $0.execute("CREATE INDEX j ON t(b)") }
        for _ in 0..<3 { try database.stepMigration(rows: 40) }
        #expect(try database.fetchOne("SELECT 1 FROM main.midstream_builds WHERE part = 4") != nil)
        try finish(database)
    }

    @Test func progressGrowsWhileATableIsBuilt() throws {
        let database = try begin()
        var moved: [Int64] = []
        while true {
            let progress = try database.stepMigration(rows: 40)
            guard !progress.isFinished, let table = progress.tables.first else { break }
            if let total = table.totalRows { #expect(table.movedRows <= total) }
            moved.append(table.movedRows)
        }
        #expect(moved == moved.sorted())
        #expect(Set(moved).count > 15)
    }
}

extension String {
    fileprivate var replacingNulls: String {
        split(separator: ",").map { $0 + " NOT NULL" }.joined(separator: ",")
    }
}
