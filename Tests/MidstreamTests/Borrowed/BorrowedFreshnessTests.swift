import Midstream
import SQLiteC
import SQLiteConnection
import SQLiteFeatures
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Connections that other code opened learn of what others do to the file, or report that they have not.
@Suite struct BorrowedFreshnessTests {
    private static let schema = """
        CREATE TABLE a(id INTEGER PRIMARY KEY, n INTEGER); CREATE TABLE b(id INTEGER PRIMARY KEY, n INTEGER)
        """
    private static let rows = """
        INSERT INTO a WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) SELECT i, i FROM n;
        INSERT INTO b SELECT * FROM a
        """

    private static func pair(_ extra: String = "", tables: Set<String> = ["a"], moved: Int64 = 40) throws -> Pair {
        try Pair(schema: schema, rows: rows, extra: extra, tables: tables, moved: moved)
    }

    @Test func stepsBetweenStatementsAreSeen() throws {
        let pair = try Self.pair(moved: 0)
        let foreign = try ForeignConnection(pair.target)
        try foreign.install()
        let sum = try foreign.wrapped.prepare("SELECT count(*), sum(n) FROM a")
        for step in Int64(0)..<40 {
            try pair.database.stepMigration(rows: 10)
            try foreign.execute("UPDATE a SET n = n + 1 WHERE id = \(300 - step * 3)")
            var row = ""
            while try sum.step() { row = "\(sum.int64(at: 0))|\(sum.int64(at: 1))" }
            sum.reset()
            #expect(row == "300|\(45150 + step + 1)")
        }
        withExtendedLifetime(sum) {}
    }

    enum Obstacle: CaseIterable, Sendable {
        case columnOfTheSource, nameOfTheSource, sourceOfAnotherMove, temporaryTable, interruption
    }

    /// Without the old overlay, what other code runs next would find only a part of the rows.
    @Test(arguments: Obstacle.allCases) func anOverlayThatCannotBeRenewedStaysAsItWas(_ obstacle: Obstacle) throws {
        guard obstacle != .columnOfTheSource || SQLiteFeature.renameColumn.isAvailable else { return }
        let pair = try Self.pair("CREATE TABLE c(id INTEGER PRIMARY KEY, n INTEGER)")
        let foreign = try ForeignConnection(pair.target)
        let overlay = try foreign.install()
        let count = "SELECT count(*) FROM a"
        #expect(try foreign.rows(count) == ["300"])
        let old = try Connection(path: pair.source)
        let more = pair.folder.file("more.db")
        var mend = {}
        switch obstacle {
        case .columnOfTheSource:
            try old.execute("ALTER TABLE a RENAME COLUMN n TO z")
            mend = { try! old.execute("ALTER TABLE a RENAME COLUMN z TO n") }
        case .nameOfTheSource:
            try old.execute("ALTER TABLE a RENAME TO z")
            mend = { try! old.execute("ALTER TABLE z RENAME TO a") }
        case .sourceOfAnotherMove:
            try Connection(path: more).execute(
                script: "CREATE TABLE c(id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO c VALUES (1, 1)"
            )
            try pair.database.addMigration(source: .file(more)) { if $0.name == "c" { $0.sourceTable = "c" } }
            rename(more, more + ".away")
            mend = { rename(more + ".away", more) }
        case .temporaryTable:
            try foreign.execute("CREATE TEMP VIEW v AS SELECT 1; CREATE TEMP TABLE c(x)")
            try Connection(path: more).execute(
                script: "CREATE TABLE c(id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO c VALUES (1, 1)"
            )
            try pair.database.addMigration(source: .file(more)) { if $0.name == "c" { $0.sourceTable = "c" } }
            mend = { try! foreign.execute("DROP TABLE temp.c") }
        case .interruption: break
        }
        try Connection(path: pair.target).execute("CREATE TABLE other(x)")
        if obstacle == .interruption {
            var number: Int32 = 1
            while true {
                sqlite3_progress_handler(foreign.handle, number, { _ in 1 }, nil)
                let isOver = (try? overlay.refresh()) != nil
                sqlite3_progress_handler(foreign.handle, 0, nil, nil)
                #expect((try? foreign.rows(count)) ?? ["300"] == ["300"])
                if isOver { break }
                #expect(
                    (try? foreign.execute("UPDATE a SET n = n + 1 WHERE id = 290")) == nil
                        || foreign.wrapped.changes == 1
                )
                number += number / 8 + 1
            }
            #expect(number > 50)
        } else {
            #expect(throws: (any Error).self) { try overlay.refresh() }
            for sql in [
                "UPDATE a SET n = 5 WHERE id = 200", "DELETE FROM a WHERE id = 201", "INSERT INTO a(n) VALUES (7)",
            ] {
                #expect(throws: (any Error).self) { try foreign.execute(sql) }
            }
            #expect(throws: (any Error).self) { try foreign.rows(count) }
            mend()
            try overlay.refresh()
        }
        #expect(try foreign.rows(count) == ["300"])
        try foreign.execute("UPDATE a SET n = 5 WHERE id = 200")
        #expect(foreign.wrapped.changes == 1)
        #expect(foreign.close() == SQLITE_OK)
    }

    /// The overlay is back before the next of the connection's own statements.
    @Test func whatTakesTheOverlayDownPutsItBack() throws {
        let pair = try Self.pair()
        let foreign = try ForeignConnection(pair.target)
        let overlay = try foreign.install()
        for sql in [
            "ALTER TABLE b ADD COLUMN z", "BEGIN; ALTER TABLE b ADD COLUMN y", "COMMIT", "ALTER TABLE b RENAME TO c",
        ] {
            try overlay.execute(sql)
            #expect(try foreign.rows("SELECT count(*) FROM a") == ["300"], "\(sql)")
        }
    }

    @Test func aTableThatHasMovedIsRightWithoutRefreshing() throws {
        let pair = try Self.pair()
        let foreign = try ForeignConnection(pair.target, as: .grdb)
        let overlay = try foreign.install()
        #expect(try foreign.rows("SELECT sum(n) FROM a") == ["45150"])
        try pair.finish()
        #expect(pair.database.isMigrated)
        #expect(try foreign.rows("SELECT sum(n) FROM a") == ["45150"])
        try foreign.execute(
            "UPDATE a SET n = 0 WHERE id < 3; INSERT INTO a(n) VALUES (7); DELETE FROM a WHERE id = 300"
        )
        #expect(try foreign.rows("SELECT count(*), max(id), sum(n) FROM a") == ["300|301|44854"])
        #expect(overlay.movingTables == ["a"])
        try overlay.refresh()
        #expect(overlay.movingTables == [])
        #expect(try foreign.rows("SELECT count(*), max(id), sum(n) FROM a") == ["300|301|44854"])
        #expect(try foreign.rows("SELECT count(*) FROM sqlite_temp_master WHERE name = 'a'") == ["0"])
        #expect(foreign.close() == SQLITE_OK)
    }

    private static let selfReadingInserts = [
        "INSERT INTO a(n) SELECT n FROM a WHERE id > 290 LIMIT 40",
        "INSERT INTO a(n) SELECT n FROM a WHERE id > 290 ORDER BY id LIMIT 100",
        "INSERT OR REPLACE INTO a(id, n) SELECT id + 1, n + 1 FROM a WHERE id BETWEEN 10 AND 30",
        "WITH x(i) AS (VALUES (1), (2)) INSERT INTO a(n) SELECT n FROM a, x WHERE id > 294 LIMIT 40",
        "INSERT INTO a(id, n) VALUES ((SELECT max(id) FROM a) + 1, 1), ((SELECT max(id) FROM a) + 5, 2)",
        "INSERT INTO a SELECT id + 300, n FROM a",
    ]

    /// Midstream cannot begin a transaction of other code again with the overlay that fits.
    @Test(arguments: ["BEGIN", "BEGIN IMMEDIATE", "SAVEPOINT s"], selfReadingInserts)
    func anInsertFindsNoRowsOfItsOwnInATableThatHasMoved(_ begin: String, _ insert: String) throws {
        let pair = try Self.pair(tables: ["a", "b"])
        let foreign = try ForeignConnection(pair.target)
        let overlay = try foreign.install()
        while try !pair.database.stepMigration(rows: 100, of: "a").isFinished {
            let a = try pair.database.readMigrationProgress().tables.first { $0.name == "a" }
            if a?.phase ?? .done == .done { break }
        }
        let sums = "SELECT count(*), sum(id), sum(n) FROM a"
        let expected = try {
            try pair.native.execute(insert)
            return try texts(pair.native.fetchAll(sums))
        }()
        for end in ["ROLLBACK", "COMMIT"] {
            let isSavepoint = begin.hasPrefix("SAVEPOINT")
            let statement =
                switch (isSavepoint, end) {
                case (false, _): end
                case (true, "COMMIT"): "RELEASE s"
                case (true, _): "ROLLBACK TO s; RELEASE s"
                }
            try foreign.execute(begin)
            // A statement that reads the table keeps the table in the overlay.
            let reading = try foreign.wrapped.prepare("SELECT n FROM a WHERE id <= 300")
            #expect(try reading.step())
            let error = #expect(throws: SQLiteError.self) { try overlay.execute(insert) }
            #expect(error?.code.primary == .locked)
            var rest = 0
            while try reading.step() { rest += 1 }
            #expect(rest == 299)
            reading.reset()
            try overlay.execute(insert)
            #expect(texts(try overlay.fetchAll(sums)) == expected)
            #expect(try foreign.rows(sums) == expected)
            #expect(texts(try overlay.fetchAll("SELECT count(*) FROM b")) == ["300"])
            try foreign.execute(statement)
        }
        #expect(try foreign.rows(sums) == expected)
        try overlay.refresh()
        #expect(overlay.movingTables == ["b"])
        #expect(try foreign.rows(sums) == expected)
        #expect(foreign.close() == SQLITE_OK)
    }

    /// SQLite lets go of a union table with the last statement that reads it.
    @Test(arguments: ["BEGIN; %; ROLLBACK", "SAVEPOINT s; %; ROLLBACK TO s; RELEASE s"])
    func aUnionMayGoAsStatementsAreForgotten(_ script: String) throws {
        let pair = try Self.pair()
        let foreign = try ForeignConnection(pair.target)
        let overlay = try foreign.install()
        try overlay.execute(script.replacing("%", with: "CREATE TABLE x(y); INSERT INTO b SELECT id + 1000, n FROM a"))
        #expect(try foreign.rows("SELECT count(*), (SELECT count(*) FROM b) FROM a") == ["300|0"])
        #expect(foreign.close() == SQLITE_OK)
    }

    /// A deadline goes on interrupting what comes after the statement, even the rollback.
    @Test(arguments: [1, 2, 10, 100]) func whatIsInterruptedLeavesNoTransactionOpen(_ instructions: Int32) throws {
        let pair = try Self.pair()
        let foreign = try ForeignConnection(pair.target)
        let overlay = try foreign.install()
        let left = UnsafeMutablePointer<Int>.allocate(capacity: 1)
        defer { left.deallocate() }
        var interrupted = 0
        for number in 0..<Sample.size(400) {
            left.initialize(to: 1 + number * 7919 % (4000 / Int(instructions)))
            sqlite3_progress_handler(
                foreign.handle,
                instructions,
                { context in
                    guard let left = context?.assumingMemoryBound(to: Int.self) else { return 0 }
                    left.pointee -= 1
                    return left.pointee <= 0 ? 1 : 0
                },
                left
            )
            do {
                try overlay.execute("UPDATE a SET n = n + 1 WHERE id BETWEEN 200 AND 299")
            } catch { interrupted += 1 }
            sqlite3_progress_handler(foreign.handle, 0, nil, nil)
            #expect(sqlite3_get_autocommit(foreign.handle) != 0, "\(number)")
            if sqlite3_get_autocommit(foreign.handle) == 0 { try foreign.execute("ROLLBACK") }
        }
        #expect(interrupted > 0)
        #expect(foreign.close() == SQLITE_OK)
    }

    @Test func aMigrationThatBeginsLaterIsFoundOrReported() throws {
        let pair = try Self.pair(tables: ["a"])
        let foreign = try ForeignConnection(pair.target)
        let overlay = try foreign.install()
        #expect(try foreign.rows("SELECT count(*) FROM a") == ["300"])
        try pair.database.addMigration(source: .file(pair.source)) { table in
            if table.name == "b" { table.sourceTable = "b" }
        }
        let error = #expect(throws: SQLiteError.self) {
            _ = try foreign.rows("SELECT count(*) FROM a JOIN b USING (id)")
        }
        #expect(error?.message.contains("MigrationOverlay.refresh") == true)
        #expect(throws: SQLiteError.self) { try foreign.execute("INSERT INTO b(n) VALUES (1)") }
        try overlay.refresh()
        #expect(overlay.movingTables == ["a", "b"])
        #expect(try foreign.rows("SELECT count(*) FROM a JOIN b USING (id)") == ["300"])
        #expect(foreign.close() == SQLITE_OK)
    }

    /// No statement acts on the target's part alone.
    @Test(
        arguments: [
            "UPDATE a SET n = 0", "DELETE FROM a", "UPDATE a SET n = 0 WHERE id = 250", "DELETE FROM a WHERE id = 250",
            "INSERT INTO a(n) VALUES (1)", "INSERT OR REPLACE INTO a VALUES (250, 0)",
        ],
        [false, true]
    )
    func nothingIsWrittenBeforeItIsKnownWhatMoves(_ statement: String, _ isInTransaction: Bool) throws {
        let pair = try Self.pair(tables: ["b"])
        let foreign = try ForeignConnection(pair.target)
        let overlay = try foreign.install()
        #expect(try foreign.rows("SELECT count(*) FROM a") == ["0"])
        try pair.database.addMigration(source: .file(pair.source)) { table in
            if table.name == "a" { table.sourceTable = "a" }
        }
        try pair.database.stepMigration(rows: 40)
        if isInTransaction { try foreign.execute("BEGIN") }
        #expect(throws: SQLiteError.self) { try foreign.execute(statement) }
        if isInTransaction { try foreign.execute("COMMIT") }
        try overlay.refresh()
        #expect(try foreign.rows("SELECT count(*), sum(n) FROM a") == ["300|45150"])
        try foreign.execute(statement)
        #expect(foreign.close() == SQLITE_OK)
    }

    @Test func aChangedSchemaIsReported() throws {
        let pair = try Self.pair()
        let foreign = try ForeignConnection(pair.target)
        let overlay = try foreign.install()
        let other = try ForeignConnection(pair.target)
        try other.execute("CREATE TABLE unrelated(x); CREATE INDEX un ON unrelated(x)")
        #expect(try foreign.rows("SELECT count(*) FROM a") == ["300"])
        try other.execute("CREATE VIEW v AS SELECT count(*) AS c FROM a")
        #expect(throws: SQLiteError.self) { _ = try foreign.rows("SELECT count(*) FROM a") }
        #expect(throws: SQLiteError.self) { try foreign.execute("DELETE FROM a WHERE id = 100") }
        try overlay.refresh()
        #expect(try foreign.rows("SELECT c FROM v") == ["300"])
        try other.execute("CREATE TRIGGER tr AFTER INSERT ON a BEGIN DELETE FROM unrelated; END")
        #expect(throws: SQLiteError.self) { _ = try foreign.rows("SELECT count(*) FROM a") }
        let error = #expect(throws: MigrationError.self) { try overlay.refresh() }
        #expect(error?.code == .unsupported)
        #expect(throws: SQLiteError.self) { _ = try foreign.rows("SELECT count(*) FROM a") }
        try other.execute("DROP TRIGGER tr")
        #expect(try foreign.rows("SELECT count(*) FROM a") == ["300"])
        #expect(foreign.close() == SQLITE_OK)
    }

    @Test func refreshRestoresWhatTempStoreRemoves() throws {
        let pair = try Self.pair()
        let foreign = try ForeignConnection(pair.target)
        let overlay = try foreign.install()
        try foreign.execute("PRAGMA temp_store = MEMORY")
        try overlay.refresh()
        #expect(try foreign.rows("SELECT count(*) FROM a") == ["300"])
        #expect(foreign.close() == SQLITE_OK)
    }

    @Test(arguments: [
        "CREATE TRIGGER tr AFTER INSERT ON a BEGIN SELECT 1; END",
        "CREATE TABLE c(x); CREATE TRIGGER tr AFTER INSERT ON c BEGIN DELETE FROM a WHERE id = NEW.x; END",
        "CREATE TABLE c(x); CREATE VIEW w AS SELECT n FROM a; "
            + "CREATE TRIGGER tr AFTER INSERT ON c BEGIN INSERT INTO c SELECT n FROM w; END",
    ])
    func programsThatWouldSeeAPartAreRefused(extra: String) throws {
        let pair = try Self.pair(extra)
        let foreign = try ForeignConnection(pair.target)
        let error = #expect(throws: MigrationError.self) { try foreign.install() }
        #expect(error?.code == .unsupported)
        #expect(MigrationOverlay.installed(on: foreign.handle) == nil)
        #expect(try foreign.rows("SELECT count(*) FROM sqlite_temp_master") == ["0"])
        #expect(foreign.close() == SQLITE_OK)
    }

    /// SQLite's backup gives a new file a small schema version, from which it grows once more.
    @Test func noTwoMovesNameTheSameFunction() throws {
        for back in 0..<24 {
            let folder = TemporaryFolder()
            let create = "CREATE TABLE a(id INTEGER PRIMARY KEY); CREATE TABLE b(id INTEGER PRIMARY KEY)"
            try Connection(path: folder.file("old.db")).execute(script: create)
            let database = try Database(path: folder.file("new.db"))
            try database.execute(create)
            func begin(_ table: String) throws -> [Substring] {
                let plain = try Connection(path: folder.file("new.db"))
                let version: Int = try plain.fetchValue("PRAGMA schema_version") ?? 0
                if table == "b" { try plain.execute("PRAGMA schema_version = \(max(1, version - back))") }
                try database.addMigration(source: .file(folder.file("old.db"))) {
                    if $0.name == table { $0.sourceTable = table }
                }
                let sql = "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?"
                return try plain.fetchAll(sql, [table]).compactMap {
                    try $0.get(0, as: String.self).split(separator: "midstream_guard_").last?.prefix { $0.isNumber }
                }
            }
            let (first, second) = (try begin("a"), try begin("b"))
            #expect(first.count == 3 && Set(first).count == 1 && Set(second).count == 1)
            #expect(first[0] != second[0], "\(back)")
        }
    }

    /// The steps use SQLite's own functions.
    @Test(.enabled(if: Connection.libraryVersionNumber >= 3_030_000), arguments: ["condition", "column", "none"])
    func functionsThatAreDefinedAnewAreRefusedWhereTheMigrationNamesThem(_ place: String) throws {
        let move = try SmallMove(
            source: "CREATE TABLE t(id INTEGER PRIMARY KEY, c TEXT); INSERT INTO t VALUES (1, 'Ada'), (2, 'Zoe')",
            target: "CREATE TABLE t(id INTEGER PRIMARY KEY, c TEXT)"
        ) { table in
            if place == "condition" { table.condition = "Lower(c) = 'ada'" }
            if place == "column" { table.columns["c"] = .expression("lower(c)") }
        }
        let foreign = try ForeignConnection(move.folder.file("new.db"))
        try foreign.wrapped.createFunction("lower", argumentCount: 1) { $1.set("other") }
        if place == "none" {
            try foreign.install()
            #expect(try foreign.rows("SELECT count(*) FROM t") == ["2"])
        } else {
            let error = #expect(throws: MigrationError.self) { try foreign.install() }
            #expect(error?.code == .unsupported && error?.message.contains("lower") == true)
        }
        #expect(foreign.close() == SQLITE_OK)
    }

    /// The steps would decide by another meaning of the name whether a row is in an index, and which value a generated
    /// column has.
    @Test(
        .enabled(if: Connection.libraryVersionNumber >= 3_030_000),
        arguments: [
            "CREATE INDEX i ON t(lower(c))", "CREATE INDEX i ON t(id) WHERE lower(c) > 'a'", "CHECK (lower(c) <> 'b')",
            "CREATE UNIQUE INDEX i ON t(c COLLATE NOCASE)", "TEXT COLLATE nocase", "CREATE INDEX i ON t(c)",
            "CREATE INDEX i ON t(upper(c))",
        ]
    )
    func whatIsDefinedAnewIsRefusedWhereTheTableNamesIt(_ definition: String) throws {
        let isIndex = definition.hasPrefix("CREATE")
        let schema =
            "CREATE TABLE t(id INTEGER PRIMARY KEY, c \(isIndex ? "" : definition))" + (isIndex ? ";" + definition : "")
        let move = try SmallMove(source: schema + "; INSERT INTO t VALUES (1, 'Ada'), (2, 'Zoe')", target: schema)
        let foreign = try ForeignConnection(move.folder.file("new.db"))
        try foreign.wrapped.createFunction("lower", argumentCount: 1, flags: .deterministic) { $1.set("other") }
        let code = sqlite3_create_collation_v2(foreign.handle, "NOCASE", SQLITE_UTF8, nil, { _, _, _, _, _ in 0 }, nil)
        #expect(code == SQLITE_OK)
        if ["CREATE INDEX i ON t(c)", "CREATE INDEX i ON t(upper(c))"].contains(definition) {
            try foreign.install()
            #expect(try foreign.rows("SELECT count(*) FROM t") == ["2"])
        } else {
            let error = #expect(throws: MigrationError.self) { try foreign.install() }
            let name = definition.contains("lower") ? "function lower" : "collation nocase"
            #expect(error?.code == .unsupported && error?.message.contains(name) == true)
        }
        #expect(foreign.close() == SQLITE_OK)
    }

    /// On such a connection, a column that the source generates as it is read has other values.
    @Test(.needs(.generatedColumns), arguments: ["lower(c)", "c = 'ADA' COLLATE nocase"], [false, true])
    func whatIsDefinedAnewIsRefusedWhereTheSourceGeneratesAColumnByIt(_ expression: String, _ isStored: Bool) throws {
        let source = "CREATE TABLE t(id INTEGER PRIMARY KEY, c, g AS (\(expression)) \(isStored ? "STORED" : ""))"
        let move = try SmallMove(
            source: source + "; INSERT INTO t(id, c) VALUES (1, 'Ada'), (2, 'Zoe')",
            target: "CREATE TABLE t(id INTEGER PRIMARY KEY, c, g)"
        )
        let foreign = try ForeignConnection(move.folder.file("new.db"))
        try foreign.wrapped.createFunction("lower", argumentCount: 1, flags: .deterministic) { $1.set("other") }
        let code = sqlite3_create_collation_v2(foreign.handle, "NOCASE", SQLITE_UTF8, nil, { _, _, _, _, _ in 0 }, nil)
        #expect(code == SQLITE_OK)
        if isStored {
            try foreign.install()
        } else {
            let error = #expect(throws: MigrationError.self) { try foreign.install() }
            #expect(error?.code == .unsupported)
        }
        #expect(foreign.close() == SQLITE_OK)
    }

    @Test func savepointsThatAreRolledBackAreNoticed() throws {
        let pair = try Self.pair()
        let foreign = try ForeignConnection(pair.target)
        try foreign.install()
        try foreign.execute("BEGIN; SAVEPOINT s; UPDATE a SET n = -1 WHERE id > 250; DELETE FROM a WHERE id = 200")
        #expect(try foreign.rows("SELECT count(*), min(n) FROM a") == ["299|-1"])
        let held = try foreign.wrapped.prepare("SELECT id, n FROM a ORDER BY id")
        for _ in 0..<100 { #expect(try held.step()) }
        try foreign.execute("ROLLBACK TO s")
        var rest: [Int64] = []
        while try held.step() { rest.append(held.int64(at: 0)) }
        #expect(rest == Array(101...300))
        try foreign.execute("INSERT INTO a(n) VALUES (5)")
        #expect(try foreign.rows("SELECT count(*), max(id), min(n) FROM a") == ["301|301|1"])
        try foreign.execute("ROLLBACK")
        #expect(try foreign.rows("SELECT count(*), max(id) FROM a") == ["300|300"])
        withExtendedLifetime(held) {}
    }

    @Test func aBusyHandlerIsEnoughWhileOthersWrite() async throws {
        var configuration = DatabaseConfiguration()
        configuration.busyTimeout = .seconds(60)
        let pair = try Pair(schema: Self.schema, rows: Self.rows, tables: ["a"], configuration: configuration)
        let foreign = try ForeignConnection(pair.target, as: .sqliteSwift)
        try foreign.install()
        let threads = Threads()
        threads.loop("steps") { [database = pair.database] _ in
            try database.stepMigration(rows: 1)
            // This holds the lock for as long as a step of the timer does.
            try database.write { access in
                try access.execute("UPDATE b SET n = n + 1 WHERE id <= 20")
                usleep(3000)
            }
            // On one core, a handler that only sleeps never gets a lock that is always taken.
            usleep(1000)
        }
        var failures: [String] = []
        var id = 0
        while id < 300 || threads.count(of: "steps") < 30 {
            id += 1
            for sql in [
                "UPDATE a SET n = n + 1 WHERE id = \(id)", "INSERT INTO a(n) VALUES (0)", "DELETE FROM a WHERE n = 0",
            ] {
                do { try foreign.execute(sql) } catch { failures.append("\(error)") }
            }
        }
        threads.end()
        await threads.join()
        #expect(failures == [])
        #expect(threads.count(of: "steps") > 5)
        #expect(try foreign.rows("SELECT count(*), sum(n) FROM a") == ["300|45450"])
        #expect(foreign.close() == SQLITE_OK)
    }

    @Test func theEndOfAnotherTableOfTheSourceEndsAStatementOnceAtMost() throws {
        let pair = try Self.pair("CREATE TABLE other(x); INSERT INTO other VALUES (1)", tables: ["a", "b"])
        let foreign = try ForeignConnection(pair.target)
        try foreign.install()
        let sql = "SELECT count(*) FROM b WHERE id > (SELECT count(*) FROM other) AND id IN (SELECT 7 * x FROM other)"
        #expect(try foreign.rows(sql) == ["1"])
        try pair.database.stepMigration(rows: 400, of: "a")
        for _ in 0..<20 { try pair.database.stepMigration(rows: 1) }
        let first = try? foreign.rows(sql)
        if let first { #expect(first == ["1"]) }
        #expect(try foreign.rows(sql) == ["1"])
        #expect(foreign.close() == SQLITE_OK)
    }
}
