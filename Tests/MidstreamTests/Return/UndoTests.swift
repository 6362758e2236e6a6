import Dispatch
import MidstreamTesting
import SQLiteC
import SQLiteConnection
import SQLiteFeatures
import Synchronization
import Testing

@testable import Midstream

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// A cancelled migration brings every row back.
@Suite struct UndoTests {
    /// Tables of all kinds of keys, each with the same four other columns.
    enum Kind: String, CaseIterable, Sendable {
        case rowID, autoIncrement, implicitRowID, withoutRowID, sameFile, condition

        var columns: String {
            switch self {
            case .rowID, .sameFile, .condition: "(id INTEGER PRIMARY KEY, a TEXT, b TEXT COLLATE NOCASE UNIQUE, c)"
            case .autoIncrement: "(id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT, b TEXT COLLATE NOCASE UNIQUE, c)"
            case .implicitRowID: "(id INTEGER, a TEXT, b TEXT COLLATE NOCASE UNIQUE, c)"
            case .withoutRowID:
                "(id INTEGER NOT NULL, a TEXT COLLATE NOCASE NOT NULL, b TEXT UNIQUE, c, PRIMARY KEY (a, id DESC)) WITHOUT ROWID"
            }
        }

        /// All columns, and the rowid if it is no column.
        var dump: String {
            switch self {
            case .implicitRowID: "SELECT rowid, id, a, b, typeof(c), c FROM t ORDER BY rowid"
            case .withoutRowID: "SELECT id, a, b, typeof(c), c FROM t ORDER BY a, id DESC"
            default: "SELECT id, a, b, typeof(c), c FROM t ORDER BY id"
            }
        }
    }

    private struct World {
        let folder = TemporaryFolder()
        let kind: Kind
        let native: Connection
        var database: Database

        var target: String { folder.file("new.db") }
        var source: String { folder.file("old.db") }

        init(_ kind: Kind) throws {
            self.kind = kind
            native = try Connection(path: ":memory:")
            let rows = """
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120)
                SELECT i, 'k' || (i % 7), CASE WHEN i % 5 THEN 'b' || i END, CASE i % 3 WHEN 0 THEN i WHEN 1 THEN 'text' ELSE x'00ff' END FROM n
                """
            try native.execute("CREATE TABLE t\(kind.columns)")
            try native.execute("INSERT INTO t(id, a, b, c) \(rows)")
            let old = try Connection(path: kind == .sameFile ? folder.file("new.db") : folder.file("old.db"))
            try old.execute("CREATE TABLE old_t\(kind.columns)")
            try old.execute("INSERT INTO old_t(id, a, b, c) \(rows)")
            if kind == .condition { try old.execute("INSERT INTO old_t VALUES (100001, 'other', 'other', 0)") }
            old.close()
            database = try Database(path: folder.file("new.db"))
            try database.execute("CREATE TABLE t\(kind.columns)")
            try add()
        }

        func add() throws {
            try database.addMigration(source: kind == .sameFile ? .sameDatabase : .file(source)) { [kind] table in
                guard table.name == "t" else { return }
                table.sourceTable = "old_t"
                if kind == .condition { table.condition = "id <= 100000" }
            }
        }

        var isReturning: Bool {
            (try? database.readMigrationProgress().tables.first?.phase) == .copying
        }

        mutating func reopen() throws {
            database.close()
            database = try Database(path: target)
            try add()
        }

        func compare(_ comment: Comment) throws {
            let expected = try texts(native.fetchAll(kind.dump))
            #expect(try texts(database.fetchAll(kind.dump)) == expected, comment)
            let count = "SELECT count(*) FROM t"
            #expect(
                try database.fetchValue(Int64.self, count) == native.fetchValue(Int64.self, count),
                comment
            )
            let narrowed = "SELECT count(*), group_concat(id) FROM (SELECT id FROM t WHERE a = 'k3' ORDER BY id)"
            #expect(try texts(database.fetchAll(narrowed)) == texts(native.fetchAll(narrowed)), comment)
        }

        /// Runs a random statement on both sides, and compares the outcome.
        func write(_ random: inout SeededGenerator, _ comment: Comment) throws {
            let (i, j) = (Int.random(in: 1...160, using: &random), Int.random(in: 1...160, using: &random))
            let statement =
                switch Int.random(in: 0..<9, using: &random) {
                case 0: "UPDATE t SET c = c || 'x' WHERE id BETWEEN \(i) AND \(i + 3)"
                case 1: "UPDATE t SET b = 'B\(j)' WHERE id = \(i)"
                case 2: "DELETE FROM t WHERE id = \(i)"
                case 3: "INSERT OR REPLACE INTO t(id, a, b, c) VALUES (\(i), 'k\(j % 7)', 'b\(j)', \(j).5)"
                case 4: "INSERT OR IGNORE INTO t(id, a, b, c) VALUES (\(1000 + i), 'k\(j % 7)', NULL, NULL)"
                case 5: "UPDATE OR IGNORE t SET id = id + 200 WHERE id = \(i)"
                case 6: "INSERT INTO t(id, a, b, c) VALUES (\(i), 'K\(j % 7)', 'n\(j)', 'v')"
                case 7 where kind != .withoutRowID: "INSERT INTO t(a, b, c) VALUES ('k\(i % 7)', 'r\(i * j)', x'01')"
                default: "DELETE FROM t WHERE a = 'k\(i % 7)' AND id % 5 = \(j % 5)"
                }
            func outcome(_ body: () throws -> Void) -> String {
                do {
                    try body()
                    return "done"
                } catch let error as SQLiteError {
                    return error.message
                } catch {
                    return "\(error)"
                }
            }
            let expected = outcome { try native.execute(statement) }
            #expect(outcome { try database.execute(statement) } == expected, "\(comment): \(statement)")
        }

        /// Checks the source by SQLite alone.
        func checkReturned(_ comment: Comment) throws {
            #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 0, comment)
            database.close()
            let old = try Connection(path: kind == .sameFile ? target : source)
            let dump = kind.dump.replacing(
                "FROM t ",
                with: "FROM old_t \(kind == .condition ? "WHERE id <= 100000 " : "")"
            )
            #expect(try texts(old.fetchAll(dump)) == texts(native.fetchAll(kind.dump)), comment)
            #expect(try old.fetchValue(String.self, "PRAGMA integrity_check") == "ok", comment)
            if kind == .condition {
                #expect(try old.fetchValue(Int.self, "SELECT count(*) FROM old_t WHERE id > 100000") == 1, comment)
            }
            // The next rowid is the one that the whole table would choose.
            if kind != .withoutRowID {
                try old.execute("DELETE FROM old_t WHERE id > 100000")
                try old.execute("INSERT INTO old_t(a) VALUES ('next')")
                try native.execute("INSERT INTO t(a) VALUES ('next')")
                #expect(old.lastInsertRowID == native.lastInsertRowID, comment)
            }
            for path in [target, source] where Files.exists(path) {
                #expect(try MovingFixture.objects(path).filter { $0.contains("midstream") } == [], comment)
            }
        }
    }

    @Test(arguments: Kind.allCases)
    func everyRowComesBackWithAllChanges(_ kind: Kind) throws {
        for seed in 0..<12 as Range<UInt64> {
            var random = SeededGenerator(seed: seed)
            var world = try World(kind)
            let comment: Comment = "\(kind), seed \(seed)"
            let part = [0, 1, 30, 75, 119, 120][Int(seed) % 6]
            if part > 0 { try world.database.stepMigration(rows: Int64(part)) }
            for _ in 0..<Int.random(in: 0...20, using: &random) { try world.write(&random, comment) }
            try world.compare(comment)
            try world.database.cancelMigration(of: ["t"])
            var steps = 0
            while !world.database.isMigrated, steps < 2000 {
                steps += 1
                // There are ever fewer writes. If rows are asked for one by one, the writes would otherwise stay ahead.
                if steps < 60, world.isReturning, Int.random(in: 0..<2, using: &random) == 0 {
                    try world.write(&random, comment)
                }
                if steps < 60, Int.random(in: 0..<8, using: &random) == 0 { try world.reopen() }
                switch Int.random(in: 0..<3, using: &random) {
                case 0: try world.database.stepMigration(rows: Int64.random(in: 1...9, using: &random))
                case 1 where steps > 30: try world.database.stepMigration()
                default: try world.database.stepMigration(budget: .microseconds(1))
                }
                if world.isReturning { try world.compare(comment) }
            }
            #expect(world.database.isMigrated, comment)
            try world.checkReturned(comment)
        }
    }

    @Test func writersNeverKeepItFromEnding() async throws {
        let fixture = try MovingFixture(rows: 400)
        let database = try fixture.open()
        try MigrationFreezer(database).move(toPercent: 60)
        try database.cancelMigration()
        let threads = Threads()
        threads.start("writer") { threads in
            // The thread writes until the table is gone from its database.
            while !threads.isOver {
                try database.write { access in
                    guard try access.fetchValue(Int64.self, "SELECT count(*) FROM accounts") != 0 else { return }
                    try access.execute("UPDATE accounts SET amount = amount - 1 WHERE id = 7")
                    try access.execute("UPDATE accounts SET amount = amount + 1 WHERE id = 399")
                }
                threads.count("writes")
            }
        }
        threads.start("reader") { threads in
            while !threads.isOver {
                try database.read { access in
                    let row = try access.fetchOne("SELECT count(*), sum(amount) FROM accounts")
                    if row?[0] == .integer(0) { return }
                    if row?[0] != .integer(400) || row?[1] != .integer(40_000) {
                        threads.note("read \(String(describing: row))")
                    }
                    if try access.fetchOne("SELECT count(*), sum(amount) FROM accounts") != row {
                        threads.note("not repeatable")
                    }
                }
            }
        }
        try await onThread {
            var steps = 0
            while !database.isMigrated, steps < 5000 {
                try database.stepMigration()
                steps += 1
            }
            threads.end()
            #expect(database.isMigrated)
        }
        await threads.join()
        let old = try Connection(path: fixture.source)
        #expect(try texts(old.fetchAll("SELECT count(*), sum(amount) FROM old_accounts")) == ["400|40000"])
        #expect(
            try old.fetchValue(Int64.self, "SELECT 200 - amount FROM old_accounts WHERE id = 399")
                == old.fetchValue("SELECT amount FROM old_accounts WHERE id = 7")
        )
    }

    /// One commit gives rows to the source, and another one makes the target forget them. Others may write in between.
    @Test func aRowThatIsWrittenWhenTheSourceHasItAlreadyReturnsAgain() throws {
        let fixture = try MovingFixture(rows: 200)
        let database = try fixture.open()
        try database.stepMigration(rows: 150)
        try database.cancelMigration()
        // This connection does not wait while a step goes on.
        let other = try ForeignConnection(fixture.target)
        try other.install()
        var (written, problems) = (0, [String]())
        try database.engine.withStepper { stepper in
            stepper.connection.setCommitHandler { schema, _ in
                guard schema.hasPrefix(MigrationRecord.schemaPrefix), written < 20 else { return }
                do {
                    try other.execute("UPDATE accounts SET amount = amount + 1")
                    written += 1
                } catch {
                    problems.append("\(error)")
                }
            }
        }
        for _ in 0..<200 where written < 20 { try database.stepMigration(rows: 10) }
        #expect(written == 20 && problems == [])
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM accounts") == 200)
        try finishMigration(database)
        #expect(other.close() == 0)
        let source = try Connection(path: fixture.source)
        defer { source.close() }
        #expect(
            try texts(source.fetchAll("SELECT count(*), sum(amount) FROM old_accounts")) == ["200|\(20_000 + 20 * 200)"]
        )
    }

    /// To SQLite, 1 and 1.0 are equal, and so are 0.0 and -0.0.
    @Test func aRowWhoseTypeChangesWhenTheSourceHasItAlreadyReturnsAgain() throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a)",
            rows:
                "INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 90) SELECT i, i % 2 FROM n",
            tables: ["t"],
            moved: 60
        )
        try pair.database.cancelMigration()
        let other = try ForeignConnection(pair.target)
        try other.install()
        var (written, problems) = (0, [String]())
        try pair.database.engine.withStepper { stepper in
            stepper.connection.setCommitHandler { schema, _ in
                guard schema.hasPrefix(MigrationRecord.schemaPrefix), written < 5 else { return }
                do {
                    try other.execute(
                        "UPDATE t SET a = \(["a + 0.0", "-a", "abs(a)", "CAST(a AS INTEGER)", "a * -1.0"][written])"
                    )
                    written += 1
                } catch {
                    problems.append("\(error)")
                }
            }
        }
        for _ in 0..<200 where written < 5 { try pair.database.stepMigration(rows: 10) }
        #expect(written == 5 && problems == [])
        try finishMigration(pair.database)
        #expect(other.close() == 0)
        let source = try Connection(path: pair.source)
        defer { source.close() }
        #expect(try texts(source.fetchAll("SELECT DISTINCT typeof(a) FROM t")) == ["real"])
    }

    @Test func aReaderFromBeforeIsWaitedFor() async throws {
        let fixture = try MovingFixture(rows: 300)
        let database = try fixture.open()
        try MigrationFreezer(database).move(toPercent: 50)
        let (begun, release) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let threads = Threads()
        threads.start("reader") { threads in
            try database.read { access in
                let before = try access.fetchAll("SELECT * FROM accounts ORDER BY id")
                begun.signal()
                release.wait()
                if try access.fetchAll("SELECT * FROM accounts ORDER BY id") != before {
                    threads.note("not repeatable")
                }
            }
        }
        try await onThread {
            begun.wait()
            try database.execute("UPDATE accounts SET amount = amount + 1")
            try database.cancelMigration()
            var outcome = MigrationProgress.Outcome.worked
            for _ in 0..<50 where outcome != .waitingForReaders { outcome = try database.stepMigration().outcome }
            let old = try Connection(path: fixture.source)
            let changed: Int64? = try old.fetchValue("SELECT count(*) FROM old_accounts WHERE amount <> 100")
            release.signal()
            #expect(outcome == .waitingForReaders && changed == 0)
        }
        await threads.join()
        try finishMigration(database, steps: 100)
        #expect(try MovingFixture.count("old_accounts WHERE amount = 101", in: fixture.source) == 300)
    }

    @Test func theSourceStaysClosedForAReaderFromBeforeTheEnd() async throws {
        let fixture = try MovingFixture(rows: 40)
        let database = try fixture.open()
        try MigrationFreezer(database).move(toPercent: 50)
        try database.cancelMigration()
        // All rows are back, and the target does not know yet that the last one is.
        try database.stepMigration(rows: 1)
        let (begun, release) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let threads = Threads()
        threads.start("reader") { threads in
            try database.read { access in
                _ = try access.fetchOne("SELECT count(*) FROM sqlite_master")
                begun.signal()
                release.wait()
                let row = try access.fetchOne("SELECT count(*), sum(amount) FROM accounts")
                if row?[0] != .integer(40) || row?[1] != .integer(4000) {
                    threads.note("read \(String(describing: row))")
                }
            }
        }
        try await onThread {
            begun.wait()
            var outcome = MigrationProgress.Outcome.worked
            for _ in 0..<50 where outcome != .waitingForReaders { outcome = try database.stepMigration().outcome }
            #expect(outcome == .waitingForReaders)
            let old = try Connection(path: fixture.source)
            #expect(throws: SQLiteError.self) { try old.execute("UPDATE old_accounts SET amount = 0") }
            release.signal()
        }
        await threads.join()
        try finishMigration(database, steps: 100)
        try Connection(path: fixture.source).execute("UPDATE old_accounts SET amount = 0")
    }

    /// Moves all rows back, while a reader of the target keeps the source closed.
    private func returnAllButTheFence(_ fixture: MovingFixture, _ database: Database, _ reader: Connection) throws {
        try database.execute("CREATE TABLE other(x)")
        try MigrationFreezer(database).move(toPercent: 50)
        try database.cancelMigration()
        func hasReturned() throws -> Bool { try database.readMigrationProgress().tables.map(\.phase) == [.copied] }
        for _ in 0..<50 where try !hasReturned() {
            if reader.isInTransaction { try reader.execute("COMMIT") }
            try database.execute("INSERT INTO other VALUES (1)")
            try reader.execute("BEGIN")
            _ = try reader.fetchAll("SELECT * FROM other")
            for _ in 0..<6 where try !hasReturned() { try database.stepMigration(rows: 7) }
        }
        try #require(try hasReturned())
    }

    /// By then, the target has none of the rows any more.
    @Test func aTableThatHasReturnedCannotBeginBeforeItsSourceIsOpen() throws {
        let fixture = try MovingFixture(rows: 40)
        let database = try fixture.open()
        let plain = try Connection(path: fixture.target)
        try returnAllButTheFence(fixture, database, plain)
        for isOpenedAnew in [false, true] {
            let database = isOpenedAnew ? try Database(path: fixture.target) : database
            let error = #expect(throws: MigrationError.self) {
                try MovingFixture.addMigration(database, fixture.source)
            }
            #expect(error?.code == .misuse)
        }
        try plain.execute("COMMIT")
        try MovingFixture.addMigration(database, fixture.source)
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
        try finishMigration(database)
        #expect(try MovingFixture.count("accounts", in: fixture.target) == 40)
    }

    /// By then, all rows are in the source, and a connection that writes the source keeps no step waiting.
    @Test(arguments: ["absent", "locked"]) func aSourceThatCannotBeOpenedYetKeepsNobodyWaiting(_ why: String) throws {
        let fixture = try MovingFixture(rows: 40)
        let database = try fixture.open()
        let reader = try Connection(path: fixture.target)
        try returnAllButTheFence(fixture, database, reader)
        let (source, away) = (fixture.source, fixture.source + ".away")
        let plain = try Connection(path: source)
        if why == "locked" { try plain.execute("BEGIN IMMEDIATE") }
        try reader.execute("COMMIT")
        let start = ContinuousClock.now
        if why == "locked" {
            for _ in 0..<3 { #expect(try database.stepMigration().outcome == .busy) }
        }
        database.close()
        if why == "absent" {
            plain.close()
            Files.moveDatabase(source, to: away)
        }
        let again = try Database(path: fixture.target)
        #expect(try again.fetchValue(Int.self, "SELECT count(*) FROM accounts") == 0)
        #expect(ContinuousClock.now - start < .seconds(4))
        if why == "absent" {
            #expect(throws: MigrationError.self) { try again.stepMigration() }
            Files.moveDatabase(away, to: source)
        } else {
            try plain.execute("COMMIT")
        }
        try finishMigration(again)
        let opened = try Connection(path: source)
        try opened.execute("UPDATE old_accounts SET amount = 0")
        #expect(opened.changes == 40)
    }

    /// The rowid then has another name, and its old name is that of a column.
    @Test func rowsDoNotReturnToATableWhoseRowIDIsHidden() throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER, a)",
            rows:
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60) INSERT INTO t SELECT i, i FROM n",
            tables: ["t"],
            moved: 20
        )
        for sql in ["UPDATE t SET a = -a WHERE id % 3 = 0", "DELETE FROM t WHERE id % 10 = 0"] {
            try pair.native.execute(sql)
            try pair.database.execute(sql)
        }
        try pair.database.cancelMigration()
        try pair.database.stepMigration(rows: 1)
        let foreign = try Connection(path: pair.source)
        try foreign.execute("ALTER TABLE t ADD COLUMN rowid DEFAULT 9")
        let error = #expect(throws: MigrationError.self) { try finishMigration(pair.database) }
        #expect(error?.code == .sourceChanged)
        guard SQLiteFeature.dropColumn.isAvailable else { return }
        try foreign.execute("ALTER TABLE t DROP COLUMN rowid")
        try finishMigration(pair.database)
        let rows = "SELECT rowid, * FROM t ORDER BY rowid"
        #expect(texts(try foreign.fetchAll(rows)) == texts(try pair.native.fetchAll(rows)))
    }

    /// A step has several transactions, and its statements are made before the first one.
    @Test(arguments: [
        ("old_t", "ADD COLUMN rowid DEFAULT 2", "DROP COLUMN rowid", SQLiteFeature.dropColumn),
        ("t", "RENAME COLUMN a TO b", "RENAME COLUMN b TO a", SQLiteFeature.renameColumn),
    ])
    func aSchemaThatChangesInTheMidstOfAStepIsSeen(
        _ table: String,
        _ change: String,
        _ back: String,
        _ feature: SQLiteFeature
    ) throws {
        guard feature.isAvailable else { return }
        let folder = TemporaryFolder()
        let foreign = try Connection(path: folder.file("new.db"))
        for name in ["t", "old_t"] { try foreign.execute("CREATE TABLE \(name)(id INTEGER, a)") }
        for id in 1...60 as ClosedRange<Int64> { try foreign.execute("INSERT INTO old_t VALUES (?1, 'a' || ?1)", [id]) }
        func rows(_ table: String) throws -> [String] {
            texts(try foreign.fetchAll("SELECT rowid, * FROM \(table) ORDER BY rowid"))
        }
        let expected = try rows("old_t")
        let database = try Database(path: folder.file("new.db"))
        try database.addMigration(source: .sameDatabase) { if $0.name == "t" { $0.sourceTable = "old_t" } }
        try database.stepMigration(rows: 40)
        try database.cancelMigration()
        try database.engine.withStepper { stepper in
            let (migrations, records) = try stepper.load()
            var hasChanged = false
            _ = try Undo(stepper: stepper, migration: migrations[0]).advance(records[0], atMost: .max) { _ in
                if !hasChanged { try! foreign.execute("ALTER TABLE \(table) \(change)") }
                hasChanged = true
                return false
            }
        }
        let error = #expect(throws: MigrationError.self) { try finishMigration(database) }
        #expect(error?.code == (table == "t" ? .unequalTables : .sourceChanged))
        try foreign.execute("ALTER TABLE \(table) \(back)")
        try finishMigration(database)
        #expect(try rows("old_t") == expected)
        #expect(try rows("t").isEmpty)
    }

    /// The source has no row that shows that both would get it: there is none, or rows are changed in the target.
    @Test(arguments: [0, 20], [nil, "x = 1"])
    func nobodyElseTakesRowsThatAreComingBack(_ rows: Int64, _ condition: String?) throws {
        try refuseOthers(nil, condition, rows: rows, found: rows + 1)
    }

    /// Nobody else takes a part of the rows either: the row that belongs to both parts is the last one to come.
    @Test func nobodyElseTakesAPartWhileRowsAreComingBack() throws {
        try refuseOthers("x < 2", "id > 90", rows: 20, found: 1)
    }

    /// - Parameters:
    ///   - own: The condition of the target from which a row of its own returns.
    ///   - condition: The condition of another target, which `found` rows meet in the end.
    private func refuseOthers(_ own: String?, _ condition: String?, rows: Int64, found: Int64) throws {
        let folder = TemporaryFolder()
        let source = try Connection(path: folder.file("old.db"))
        try source.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
        for id in 0..<rows { try source.execute("INSERT INTO t VALUES (?, 0)", [id]) }
        let databases = try ["new.db", "other.db"].map { try Database(path: folder.file($0)) }
        for database in databases { try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)") }
        func add(to database: Database, _ condition: String?) throws {
            try database.addMigration(source: .file(folder.file("old.db"))) {
                $0.sourceTable = "t"
                $0.condition = condition
            }
        }
        try add(to: databases[0], own)
        _ = try databases[0].stepMigration(rows: rows / 2)
        try databases[0].execute("INSERT INTO t VALUES (100, 0); UPDATE t SET x = 1")
        try databases[0].cancelMigration()
        // Until rows begin to return, the source's rows tell.
        let stage = "SELECT undo_stage FROM midstream_claims"
        while try own != nil && source.fetchValue(Int64.self, stage) == nil {
            _ = try databases[0].stepMigration(rows: 1)
        }
        var refusals = 0
        while try databases[0].readMigrationProgress().tables.first?.phase == .copying {
            let error = #expect(throws: MigrationError.self) { try add(to: databases[1], condition) }
            #expect(error?.code == .foreignState)
            _ = try databases[0].stepMigration(rows: 1)
            refusals += 1
        }
        #expect(refusals > 0)
        try finishMigration(databases[0])
        #expect(try source.fetchValue(Int64.self, "SELECT count(*) FROM t") == rows + 1)
        try add(to: databases[1], condition)
        try finishMigration(databases[1])
        #expect(try databases[1].fetchValue(Int64.self, "SELECT count(*) FROM t") == found)
    }

    /// One of the processes finds that the other has brought all rows back by then. That is no error.
    @Test func severalMayCancelAtOnce() async throws {
        let fixture = try MovingFixture(rows: 3)
        try fixture.open().close()
        let threads = Threads()
        for name in ["a", "b"] {
            threads.start(name) { _ in
                let database = try Database(path: fixture.target)
                for _ in 0..<60 {
                    try database.cancelMigration()
                    while try !database.stepMigration().isFinished {}
                    do {
                        try MovingFixture.addMigration(database, fixture.source)
                    } catch let error as MigrationError where error.code == .misuse {
                        // The table is already being moved back.
                    }
                }
            }
        }
        await threads.join()
        let database = try fixture.open()
        try finishMigration(database)
        #expect(try MovingFixture.count("accounts", in: fixture.target) == 3)
    }

    // MARK: What cannot return

    @Test func aTableThatHasMovedCannotReturn() throws {
        let fixture = try MovingFixture(rows: 20)
        let database = try fixture.open()
        let held = try Connection(path: fixture.target)
        try held.execute("BEGIN")
        _ = try held.fetchAll("SELECT count(*) FROM sqlite_master")
        _ = try RetirementTests.stepUntilWaiting(database)
        let error = #expect(throws: MigrationError.self) { try database.cancelMigration(of: ["accounts"]) }
        #expect(error?.message.contains("all of its rows have moved") == true)
        try held.execute("COMMIT")
        try finishMigration(database)
        #expect(throws: MigrationError.self) { try database.cancelMigration(of: ["accounts"]) }
        #expect(throws: MigrationError.self) { try database.cancelMigration(of: ["nothing"]) }
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM accounts") == 20)
    }

    /// SQLite fails to delete several such rows by their keys at once.
    @Test(arguments: [0, 1, 2, 3] as [Int64]) func rowsReturnWhoseKeysDifferInTrailingSpaces(_ moved: Int64) throws {
        let pair = try Pair(
            schema: """
                CREATE TABLE t(id TEXT COLLATE RTRIM, a, b, PRIMARY KEY (id, b DESC)) WITHOUT ROWID;
                CREATE INDEX tb ON t(b)
                """,
            rows: "INSERT INTO t VALUES (' ', 1, 6), ('', 3, 1), (' ', 1, 0), ('z', 4, 2)",
            tables: ["t"],
            moved: moved
        )
        for sql in ["UPDATE t SET a = -a WHERE b = 1", "DELETE FROM t WHERE b = 6"] where moved == 1 {
            try pair.native.execute(sql)
            try pair.database.execute(sql)
        }
        try pair.database.cancelMigration()
        try pair.finish()
        let rows = "SELECT quote(id), a, b FROM t ORDER BY id, b"
        let old = try Connection(path: pair.source)
        #expect(try texts(old.fetchAll(rows)) == texts(pair.native.fetchAll(rows)))
        #expect(try texts(old.fetchAll("PRAGMA integrity_check")) == ["ok"])
    }

    /// By the damaged index, the target's table has a row.
    @Test func anIndexThatIsDamagedDoesNotHaveItGoOnForEver() throws {
        let folder = TemporaryFolder()
        let (old, new) = (folder.file("old.db"), folder.file("new.db"))
        try Connection(path: old).execute(
            script: "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b); INSERT INTO t VALUES (1, 1, 'one'), (2, 2, 'two')"
        )
        let plain = try Connection(path: new)
        try plain.execute(
            script:
                "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b); CREATE INDEX ta ON t(a); INSERT INTO t VALUES (9, 9, 9)"
        )
        try plain.execute("PRAGMA writable_schema = 1")
        try plain.execute(
            script:
                "CREATE TABLE kept AS SELECT * FROM sqlite_master WHERE name = 'ta'; DELETE FROM sqlite_master WHERE name = 'ta'"
        )
        plain.close()
        let other = try Connection(path: new)
        try other.execute("PRAGMA writable_schema = 1")
        try other.execute(script: "DELETE FROM t; INSERT INTO sqlite_master SELECT * FROM kept; DROP TABLE kept")
        other.close()
        let database = try Database(path: new)
        try database.addMigration(source: .file(old)) { $0.sourceTable = $0.name }
        try database.cancelMigration()
        for rows: Int64? in [2, nil] {
            let error = #expect(throws: SQLiteError.self) {
                for _ in 0..<400 {
                    if let rows { try database.stepMigration(rows: rows) } else { try database.stepMigration() }
                }
            }
            #expect(error?.code == .corrupt && error?.message.contains("REINDEX") == true)
        }
        try database.execute("REINDEX t")
        try finishMigration(database)
        #expect(try MovingFixture.count("t", in: old) == 2)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 0)
    }

    @Test func rowsThatTheSourceRefusesStayAndAreTold() throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x INT CHECK (x < 100))")
        try old.execute("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x INT)")
        try database.addMigration(source: .file(folder.file("old.db"))) { if $0.name == "t" { $0.sourceTable = "t" } }
        try database.stepMigration(rows: 2)
        try database.execute("UPDATE t SET x = 500 WHERE id = 2")
        try database.cancelMigration()
        let error = #expect(throws: MigrationError.self) { try finishMigration(database, steps: 50) }
        #expect(error?.code == .rowRefused && error?.key == 2)
        // The error is reported each time that a step is tried.
        var told = 0
        for _ in 0..<1000 where told < 250 {
            do { try database.stepMigration() } catch {
                #expect((error as? MigrationError)?.code == .rowRefused, "\(error)")
                told += 1
            }
        }
        #expect(told == 250)
        #expect(try texts(database.fetchAll("SELECT * FROM t")) == ["1|1", "2|500", "3|3"])
        try database.execute("UPDATE t SET x = 50 WHERE id = 2")
        try finishMigration(database, steps: 50)
        let after = try Connection(path: folder.file("old.db"))
        #expect(try texts(after.fetchAll("SELECT * FROM t")) == ["1|1", "2|50", "3|3"])
    }

    /// `abs()` has no value for the smallest integer. The other rows return.
    @Test(arguments: ["index", "check", "condition"]) func rowsThatAFunctionFailsOnStayAndAreTold(_ place: String)
        throws
    {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        let check = place == "check" ? " CHECK (abs(x) >= 0)" : ""
        try old.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x INT\(check))")
        if place == "index" { try old.execute("CREATE INDEX by_abs ON t(abs(x))") }
        for id in 1...9 { try old.execute("INSERT INTO t VALUES (?, ?)", [id, id]) }
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x INT); CREATE TABLE other(y)")
        let other = try Connection(path: folder.file("other.db"))
        try other.execute("CREATE TABLE other(y)")
        for y in 1...5 { try other.execute("INSERT INTO other VALUES (?)", [y]) }
        other.close()
        try database.addMigration(source: .file(folder.file("old.db"))) { table in
            guard table.name == "t" else { return }
            table.sourceTable = "t"
            if place == "condition" { table.condition = "abs(x) < 100" }
        }
        try database.addMigration(source: .file(folder.file("other.db"))) { table in
            if table.name == "other" { table.sourceTable = "other" }
        }
        try database.stepMigration(rows: 6, of: "t")
        try database.execute("UPDATE t SET x = -9223372036854775807 - 1 WHERE id IN (2, 8)")
        let all = try texts(database.fetchAll("SELECT * FROM t"))
        try database.cancelMigration(of: ["t"])
        let error = #expect(throws: MigrationError.self) { try finishMigration(database, steps: 50) }
        #expect(error?.code == .rowRefused && error?.key == 2)
        #expect(try texts(database.fetchAll("SELECT * FROM t")) == all)
        // Other tables move on.
        for _ in 0..<20 { _ = try? database.stepMigration() }
        #expect(try database.readMigrationProgress().tables.allSatisfy { $0.name == "t" || $0.phase != .copying })
        let plain = try Connection(path: folder.file("old.db"))
        #expect(try texts(plain.fetchAll("SELECT id FROM t WHERE x > 0")) == ["1", "3", "4", "5", "6", "7", "9"])
        try database.execute("UPDATE t SET x = 50 WHERE id IN (2, 8)")
        try finishMigration(database, steps: 50)
        #expect(try texts(plain.fetchAll("SELECT * FROM t WHERE id IN (2, 8)")) == ["2|50", "8|50"])
        #expect(try plain.fetchValue(Int.self, "SELECT count(*) FROM t") == 9)
    }

    /// The INTEGER PRIMARY KEY of the source is no key of the target.
    @Test func aRowWhoseRowIDIsNoNumberStaysAndIsTold() throws {
        let move = try SmallMove(
            source:
                "CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT UNIQUE); INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
            target: "CREATE TABLE t(id INTEGER, k TEXT PRIMARY KEY) WITHOUT ROWID"
        )
        let database = move.database
        let old = try Connection(path: move.folder.file("old.db"))
        try database.stepMigration(rows: 2)
        try database.execute("UPDATE t SET id = 'none' WHERE k = 'b'; UPDATE t SET id = 7 WHERE k = 'a'")
        try database.cancelMigration()
        let error = #expect(throws: MigrationError.self) { try finishMigration(database, steps: 50) }
        #expect(error?.code == .rowRefused && error?.keyColumns == [.text("b")] && error?.cause?.code == .mismatch)
        #expect(texts(try database.fetchAll("SELECT * FROM t ORDER BY k")) == ["7|a", "none|b", "3|c"])
        try database.execute("UPDATE t SET id = 9 WHERE k = 'b'")
        try finishMigration(database, steps: 50)
        #expect(texts(try old.fetchAll("SELECT * FROM t ORDER BY k")) == ["7|a", "9|b", "3|c"])
    }

    /// Rows that the condition leaves out may have keys that no row of the table can have.
    @Test(arguments: [1, 100, 600] as [Int64], ["a, b", "b, a", "k"])
    func rowsReturnBesideOthersWhoseKeysNoneCanHave(_ moved: Int64, _ key: String) throws {
        let folder = TemporaryFolder()
        let isInteger = key == "k"
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(
            script: """
                CREATE TABLE t(\(isInteger ? "k INT UNIQUE, v" : "a INTEGER, b TEXT, v, UNIQUE (\(key))"));
                INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 1499)
                    SELECT \(isInteger ? "CASE WHEN i % 3 THEN 'z' || i ELSE i END" : "i / 500, CASE WHEN i % 3 THEN NULL ELSE 'b' || i END"), i FROM n
                """
        )
        let all = "SELECT * FROM t ORDER BY v"
        let before = texts(try old.fetchAll(all))
        let database = try Database(path: folder.file("new.db"))
        try database.execute(
            isInteger
                ? "CREATE TABLE t(k INTEGER PRIMARY KEY, v)"
                : "CREATE TABLE t(a INTEGER, b TEXT, v, PRIMARY KEY (\(key))) WITHOUT ROWID"
        )
        try database.addMigration(source: .file(folder.file("old.db"))) { table in
            guard table.name == "t" else { return }
            table.sourceTable = "t"
            table.condition = isInteger ? "typeof(k) = 'integer'" : "b IS NOT NULL"
        }
        try database.stepMigration(rows: moved)
        try database.cancelMigration()
        try finishMigration(database, steps: 500)
        #expect(texts(try old.fetchAll(all)) == before)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 0)
    }

    @Test func rowsBeyondTheConditionStayAndAreTold() throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x INT)")
        try old.execute("INSERT INTO t VALUES (1, 1), (2, 2), (30, 3)")
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x INT)")
        try database.execute("CREATE TABLE u(id INTEGER PRIMARY KEY, x INT)")
        try database.addMigration(source: .file(folder.file("old.db"))) { table in
            guard ["t", "u"].contains(table.name) else { return }
            table.sourceTable = "t"
            table.condition = table.name == "t" ? "id < 10" : "id >= 10"
        }
        try database.execute("INSERT INTO t VALUES (40, 40)")
        try database.cancelMigration(of: ["t"])
        let error = #expect(throws: MigrationError.self) {
            for _ in 0..<50 { try database.stepMigration(rows: 5, of: "t") }
        }
        #expect(error?.code == .rowRefused && error?.key == 40)
        #expect(try texts(database.fetchAll("SELECT * FROM t")) == ["1|1", "2|2", "40|40"])
        #expect(try texts(database.fetchAll("SELECT * FROM u")) == ["30|3"])
        try database.execute("DELETE FROM t WHERE id = 40")
        try finishMigration(database, steps: 50)
        let after = try Connection(path: folder.file("old.db"))
        #expect(try texts(after.fetchAll("SELECT * FROM t")) == ["1|1", "2|2", "30|3"])
        #expect(try texts(database.fetchAll("SELECT * FROM u")) == ["30|3"])
    }

    @Test func aStatementThatNeedsAllRowsInOnePlaceIsRefused() throws {
        let fixture = try MovingFixture(rows: 20)
        let database = try fixture.open()
        try database.stepMigration(rows: 5)
        try database.cancelMigration()
        let error = #expect(throws: MigrationError.self) {
            try database.execute("ALTER TABLE accounts ADD COLUMN extra")
        }
        #expect(error?.code == .refusedStatement)
        try database.execute("UPDATE accounts SET amount = 1")
        try finishMigration(database, steps: 50)
        #expect(try MovingFixture.count("old_accounts WHERE amount = 1", in: fixture.source) == 20)
    }

    /// A row that is written to the source would have one column's value under the other column's name, and might be
    /// another row.
    @Test(arguments: [
        ["s(a TEXT PRIMARY KEY, v) WITHOUT ROWID", "t(a TEXT PRIMARY KEY, a2 TEXT, v) WITHOUT ROWID"],
        ["s(a TEXT PRIMARY KEY, v) WITHOUT ROWID", "t(a2 TEXT, a TEXT PRIMARY KEY, v) WITHOUT ROWID"],
        ["s(a INT UNIQUE, v)", "t(a INTEGER PRIMARY KEY, a2 INT, v)"],
        ["s(a INTEGER PRIMARY KEY, v)", "t(a INTEGER PRIMARY KEY, v, a2 INT)"],
    ])
    func twoColumnsOfOneCannotBeTurnedRound(_ tables: [String]) throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(script: "CREATE TABLE \(tables[0]); INSERT INTO s(a, v) VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE \(tables[1])")
        try database.addMigration(source: .file(folder.file("old.db"))) { table in
            guard table.name == "t" else { return }
            table.sourceTable = "s"
            table.columns["a2"] = .column("a")
        }
        try database.stepMigration(rows: 1)
        try database.execute("UPDATE t SET a2 = 77 WHERE a = 2")
        let error = #expect(throws: MigrationError.self) { try database.cancelMigration() }
        #expect(error?.code == .unsupported && error?.message.contains("both take column a") == true)
        try finishMigration(database)
        #expect(texts(try database.fetchAll("SELECT a, a2, v FROM t ORDER BY a")) == ["1|1|a", "2|77|b", "3|3|c"])
    }

    /// If a row has no rowid for the source, SQLite would choose one, perhaps that of a row that has yet to return.
    /// Such a row stays; the others return.
    @Test func aRowWithoutTheRowIDOfTheSourceStaysAndIsTold() throws {
        let move = try SmallMove(
            source:
                "CREATE TABLE t(pk INTEGER PRIMARY KEY, k TEXT NOT NULL UNIQUE, v); INSERT INTO t VALUES (1, 'b', 1), (2, 'c', 2)",
            target: "CREATE TABLE t(k TEXT PRIMARY KEY, pk INTEGER, v) WITHOUT ROWID"
        )
        let database = move.database
        let old = try Connection(path: move.folder.file("old.db"))
        try database.stepMigration(rows: 1)
        try database.execute(
            "INSERT INTO t(k, v) VALUES ('a', 0), ('d', 3); INSERT INTO t VALUES ('e', 9, 4); UPDATE t SET v = v + 10"
        )
        try database.cancelMigration()
        let error = #expect(throws: MigrationError.self) { try finishMigration(database, steps: 50) }
        #expect(error?.code == .rowRefused && error?.keyColumns == [.text("a")])
        let all = "SELECT pk, k, v FROM t ORDER BY k"
        #expect(texts(try old.fetchAll(all)) == ["1|b|11", "2|c|12", "9|e|14"])
        #expect(texts(try database.fetchAll(all)) == ["NULL|a|10", "1|b|11", "2|c|12", "NULL|d|13", "9|e|14"])
        try database.execute("UPDATE t SET pk = 100 + v WHERE pk IS NULL")
        try finishMigration(database, steps: 50)
        #expect(texts(try old.fetchAll(all)) == ["110|a|10", "1|b|11", "2|c|12", "113|d|13", "9|e|14"])
    }

    /// The other rows return, however many rows the source refuses.
    @Test func refusedRowsKeepNoOthers() throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(
            script: """
                CREATE TABLE t(id INTEGER PRIMARY KEY, v NOT NULL);
                INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT i, i FROM n
                """
        )
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        try database.addMigration(source: .file(folder.file("old.db"))) { if $0.name == "t" { $0.sourceTable = "t" } }
        while try database.readMigrationProgress().tables[0].movedRows < 1000 { try database.stepMigration(rows: 250) }
        try database.execute("UPDATE t SET v = NULL WHERE id <= 600")
        try database.cancelMigration()
        for _ in 0..<3 { #expect(throws: MigrationError.self) { try finishMigration(database, steps: 100) } }
        database.close()
        // A new process begins with batches as small as those in the beginning.
        let again = try Database(path: folder.file("new.db"))
        try again.execute("INSERT INTO t VALUES (2000, 'new'); UPDATE t SET v = 'changed' WHERE id = 900")
        for _ in 0..<3 { #expect(throws: MigrationError.self) { try finishMigration(again, steps: 100) } }
        #expect(
            texts(try old.fetchAll("SELECT id, v FROM t WHERE id > 1000 OR id = 900 ORDER BY id")) == [
                "900|changed", "2000|new",
            ]
        )
        try again.execute("UPDATE t SET v = 0 WHERE v IS NULL")
        try finishMigration(again, steps: 500)
        #expect(texts(try old.fetchAll("SELECT count(*), sum(v = 0) FROM t")) == ["1001|600"])
    }

    /// The source's own rowid is then a column like any other.
    @Test(arguments: [0, 2] as [Int64]) func rowsReturnByAKeyThatIsNoRowIDThere(_ moved: Int64) throws {
        let move = try SmallMove(
            source:
                "CREATE TABLE t(n INTEGER PRIMARY KEY, id INT UNIQUE, v); INSERT INTO t VALUES (1, 30, 'a'), (2, 20, 'b'), (3, 10, 'c')",
            target: "CREATE TABLE t(id INTEGER PRIMARY KEY, n INT, v)"
        )
        let database = move.database
        let old = try Connection(path: move.folder.file("old.db"))
        try database.stepMigration(rows: moved)
        try database.execute("UPDATE t SET v = v || '!' WHERE id > 10; INSERT INTO t VALUES (40, 4, 'd')")
        try database.cancelMigration()
        try finishMigration(database, steps: 50)
        #expect(texts(try old.fetchAll("SELECT * FROM t ORDER BY n")) == ["1|30|a!", "2|20|b!", "3|10|c", "4|40|d"])
    }

    /// Midstream reads and moves rows without the application's function. But the first row that is to return would
    /// fail for ever.
    @Test(.needs(.indexesOnExpressions), arguments: ["index", "check"])
    func aSourceThatOnlyTheApplicationCanWriteIsRefused(_ place: String) throws {
        let folder = TemporaryFolder()
        let foreign = try ForeignConnection(folder.file("old.db"))
        sqlite3_create_function_v2(
            foreign.handle,
            "of_the_application",
            1,
            SQLITE_UTF8 | SQLITE_DETERMINISTIC,
            nil,
            { context, _, _ in sqlite3_result_int(context, 1) },
            nil,
            nil,
            nil
        )
        try foreign.execute(
            place == "index"
                ? "CREATE TABLE t(id INTEGER PRIMARY KEY, x)"
                : "CREATE TABLE t(id INTEGER PRIMARY KEY, x CHECK (of_the_application(x)))"
        )
        if place == "index" { try foreign.execute("CREATE INDEX i ON t(of_the_application(x))") }
        try foreign.execute("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
        #expect(foreign.close() == SQLITE_OK)
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "t" }
        try database.stepMigration(rows: 2)
        let error = #expect(throws: MigrationError.self) { try database.cancelMigration() }
        #expect(error?.code == .unsupported)
        #expect(error?.message.contains("of_the_application") == true)
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, "SELECT sum(x) FROM t") == 6)
    }

    @Test func columnsThatCannotBeTurnedRoundAreNamed() throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(
            script: "CREATE TABLE t(id INTEGER PRIMARY KEY, x INT, y INT); INSERT INTO t VALUES (1, 2, 3), (2, 3, 4)"
        )
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x INT)")
        try database.addMigration(source: .file(folder.file("old.db"))) { table in
            guard table.name == "t" else { return }
            table.sourceTable = "t"
            table.unmatchedColumns = .ignored
        }
        try database.stepMigration(rows: 1)
        let error = #expect(throws: MigrationError.self) { try database.cancelMigration() }
        #expect(error?.code == .unsupported && error?.message.contains("column y") == true)
        #expect(try database.readMigrationProgress().tables.first?.isReturning == false)
    }

    @Test func eventsTellOfIt() throws {
        let fixture = try MovingFixture(rows: 50)
        let database = try fixture.open()
        let seen = EventLog()
        database.onMigrated(seen.add)
        try database.stepMigration(rows: 30)
        try database.cancelMigration()
        let progress = try database.readMigrationProgress()
        #expect(progress.tables.first?.isReturning == true && progress.movedRows == 30)
        try finishMigration(database, steps: 50)
        #expect(seen.texts == ["returned accounts", "database"])
        // An application adds the migration again at the next launch.
        try MovingFixture.addMigration(database, fixture.source)
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM accounts") == 50)
    }

    /// Rows that were written before they had moved return like the other rows.
    @Test func progressSinksByEachRowThatReturns() throws {
        let fixture = try MovingFixture(rows: 50)
        let database = try fixture.open()
        try database.stepMigration(rows: 20)
        try database.execute("UPDATE accounts SET amount = amount WHERE id > 40 OR id < 5")
        let moved = try database.readMigrationProgress().movedRows
        #expect(moved == 30)
        try database.cancelMigration()
        #expect(try database.readMigrationProgress().movedRows == moved)
        var before = moved
        for _ in 0..<100 {
            let progress = try database.stepMigration(rows: 4)
            if progress.isFinished { break }
            let left = try Connection(path: fixture.target).fetchValue(Int64.self, "SELECT count(*) FROM accounts")
            #expect(progress.movedRows == left)
            #expect(progress.movedRows <= before)
            before = progress.movedRows
        }
        #expect(try database.readMigrationProgress().isFinished)
    }

    /// A value that came as '007' is 7 in the target, and nobody knows any more what it was.
    @Test(arguments: [
        ("TEXT", "INTEGER", false), ("", "REAL", false), ("BLOB", "TEXT", false), ("INTEGER", "NUMERIC", true),
    ])
    func columnsThatConvertValuesDoNotReturn(_ source: String, _ target: String, _ returns: Bool) throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a \(source))")
        try old.execute(
            "INSERT INTO t VALUES (1, '007'), (2, 9007199254740993), (3, '1e3'), (4, NULL), (5, x'00'), (6, 1.5)"
        )
        let before = texts(try old.fetchAll("SELECT id, typeof(a), a FROM t"))
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a \(target))")
        try database.addMigration(source: .file(folder.file("old.db"))) { if $0.name == "t" { $0.sourceTable = "t" } }
        try database.stepMigration(rows: 3)
        if returns {
            try database.cancelMigration()
        } else {
            let error = #expect(throws: MigrationError.self) { try database.cancelMigration() }
            #expect(error?.code == .unsupported && error?.message.contains("column a has another type") == true)
        }
        try finishMigration(database, steps: 200)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == (returns ? 0 : 6))
        guard returns else { return }
        let back = try Connection(path: folder.file("old.db"))
        defer { back.close() }
        #expect(try texts(back.fetchAll("SELECT id, typeof(a), a FROM t")) == before)
    }

    @Test(.needs(.generatedColumns)) func aColumnThatOnlyTheSourceMakesDoesNotReturn() throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, g INTEGER AS (a * 2) STORED)")
        try old.execute("INSERT INTO t(id, a) VALUES (1, 1), (2, 2)")
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, g INTEGER)")
        try database.addMigration(source: .file(folder.file("old.db"))) { if $0.name == "t" { $0.sourceTable = "t" } }
        try database.execute("UPDATE t SET g = 7 WHERE id = 1")
        let error = #expect(throws: MigrationError.self) { try database.cancelMigration() }
        #expect(error?.code == .unsupported)
        try finishMigration(database)
        #expect(texts(try database.fetchAll("SELECT id, a, g FROM t")) == ["1|1|7", "2|2|4"])
    }

    // MARK: Beside others who change what returns

    /// Cancels a migration while a block of another database writes, and tells how the cancellation ended.
    private func cancelling(
        _ database: Database,
        while other: Database,
        _ body: @escaping @Sendable (DatabaseAccess) throws -> Void
    ) async throws -> MigrationError? {
        let threads = Threads()
        let error = Mutex<MigrationError?>(nil)
        try await other.write { access in
            try body(access)
            threads.start("canceller") { _ in
                do {
                    try database.cancelMigration()
                } catch let refusal as MigrationError {
                    error.withLock { $0 = refusal }
                }
            }
            usleep(300_000)
        }
        await threads.join()
        return error.withLock(\.self)
    }

    /// Another process rebuilds the table between the reading of the stored state and the cancellation's commit: the
    /// table's rows are then in three places.
    @Test(arguments: [
        "a TEXT, b TEXT COLLATE NOCASE UNIQUE, c CHECK (c <> -5)", "a TEXT, b TEXT COLLATE NOCASE UNIQUE, c, d",
    ])
    func aTableThatIsRebuiltMeanwhileDoesNotReturn(_ columns: String) async throws {
        let world = try World(.rowID)
        try world.database.stepMigration(rows: 40)
        let other = try Database(path: world.target)
        let error = try await cancelling(world.database, while: other) { access in
            _ = try access.rebuild("t") { table in
                table.schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, \(columns))"
                if columns.hasSuffix("d") { table.columns["d"] = .expression("a || b") }
                table.rowsCopiedAtOnce = 0
            }
        }
        #expect(error?.code == .unsupported)
        #expect(try world.database.fetchValue(Int.self, "SELECT count(*) FROM t") == 120)
        try finishMigration(world.database, steps: 500)
        #expect(try world.database.fetchValue(Int.self, "SELECT count(*) FROM t") == 120)
    }

    /// The target tells its rows apart by their rowids. In the source, the rowid is the column `id`, which is an
    /// ordinary column in the target.
    @Test(arguments: [0, 2] as [Int64], ["id = rowid", "id = 94", "id = NULL", ""])
    func aRowReturnsUnderTheKeyThatItIsKnownBy(_ moved: Int64, _ mend: String) throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute("CREATE TABLE a(id INTEGER PRIMARY KEY, v)")
        try old.execute("INSERT INTO a VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE b(id INTEGER, v)")
        try database.addMigration(source: .file(folder.file("old.db"))) { if $0.name == "b" { $0.sourceTable = "a" } }
        try database.stepMigration(rows: moved)
        try database.execute("INSERT INTO b(id, v) VALUES (94, 'new')")
        try database.cancelMigration(of: ["b"])
        let refused = #expect(throws: MigrationError.self) { try finishMigration(database) }
        #expect(refused?.code == .rowRefused && refused?.key == 4, "\(String(describing: refused))")
        #expect(texts(try database.fetchAll("SELECT rowid, * FROM b WHERE v = 'new'")) == ["4|94|new"])
        #expect(try old.fetchValue(Int.self, "SELECT count(*) FROM a WHERE v = 'new'") == 0)
        // Nothing of the row is in the source, whatever becomes of the row.
        if mend.isEmpty {
            try database.execute("DELETE FROM b WHERE rowid = 4")
        } else {
            try database.execute("UPDATE b SET \(mend) WHERE rowid = 4")
        }
        if mend.isEmpty || mend == "id = rowid" {
            try finishMigration(database)
        } else {
            #expect(throws: MigrationError.self) { try finishMigration(database) }
            try database.execute("DELETE FROM b WHERE rowid = 4")
            try finishMigration(database)
        }
        let last = mend == "id = rowid" ? ["4|new"] : []
        #expect(texts(try old.fetchAll("SELECT * FROM a ORDER BY id")) == ["1|a", "2|b", "3|c"] + last)
    }

    /// Rows that are written into a file which has no name any more are lost with the file.
    @Test(arguments: [0, 1, 130, 260] as [Int64], [true, false])
    func rowsReturnIntoTheFileThatOthersFind(_ returned: Int64, _ isReplaced: Bool) throws {
        let fixture = try MovingFixture(rows: 500)
        let database = try fixture.open()
        try database.stepMigration(rows: 260)
        try database.execute(
            "UPDATE accounts SET amount = amount + 5 WHERE id % 2; UPDATE accounts SET amount = amount - 5 WHERE id % 2 = 0"
        )
        try database.cancelMigration()
        var left = returned
        while left > 0 { left -= try max(1, database.stepMigration(rows: left).rowsMovedByStep) }
        let old = try Connection(path: fixture.source)
        let checkpoint = try old.checkpoint(mode: .truncate)
        #expect(checkpoint.log == checkpoint.copied)
        old.close()
        Files.moveDatabase(fixture.source, to: fixture.source + ".away")
        if isReplaced {
            Files.copyDatabase(fixture.source + ".away", to: fixture.source)
        } else {
            let error = #expect(throws: MigrationError.self) { try finishMigration(database, steps: 50) }
            #expect(error?.code == .sourceUnavailable)
            Files.moveDatabase(fixture.source + ".away", to: fixture.source)
        }
        try finishMigration(database)
        database.close()
        let after = try Connection(path: fixture.source)
        #expect(
            texts(try after.fetchAll("SELECT count(*), sum(amount), sum(amount * (id % 2)) FROM old_accounts"))
                == ["500|50000|26250"]
        )
        #expect(try after.fetchValue(String.self, "PRAGMA integrity_check") == "ok")
        #expect(try MovingFixture.count("accounts", in: fixture.target) == 0)
    }

    /// Brings all rows back.
    ///
    /// - Returns: A reader from before, in a transaction, which keeps the source from being opened.
    private func readerThatIsWaitedFor(_ database: Database, _ target: String) throws -> Connection {
        let reader = try Connection(path: target)
        var isBack = false
        for _ in 0..<100 where !isBack {
            try reader.execute("BEGIN")
            _ = try reader.fetchAll("SELECT * FROM sqlite_master")
            isBack = try database.stepMigration(rows: 10).tables.first?.phase == .copied
            if !isBack { try reader.execute("COMMIT") }
        }
        #expect(isBack)
        return reader
    }

    /// All rows are back, and the source waits for a reader. A backup of the source from before has no claim that tells
    /// what it lacks.
    @Test(arguments: [false, true]) func aSourceFromBeforeIsNotOpened(_ isReopened: Bool) throws {
        let folder = TemporaryFolder()
        let (target, source, backup) = (folder.file("new.db"), folder.file("old.db"), folder.file("backup.db"))
        let old = try Connection(path: source)
        try old.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, n)")
        try old.execute("INSERT INTO t VALUES (1, 0), (2, 0), (3, 0)")
        old.close()
        Files.copy(source, to: backup)
        var database = try Database(path: target)
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, n)")
        try database.addMigration(source: .file(source)) { $0.sourceTable = $0.name }
        try database.stepMigration(rows: 2)
        try database.execute("UPDATE t SET n = 1; INSERT INTO t VALUES (4, 4)")
        try database.cancelMigration()
        let reader = try readerThatIsWaitedFor(database, target)
        if isReopened { database.close() }
        Files.moveDatabase(source, to: source + ".away")
        Files.moveDatabase(backup, to: source)
        try reader.execute("COMMIT")
        let error = #expect(throws: MigrationError.self) {
            if isReopened { database = try Database(path: target) }
            try finishMigration(database, steps: 50)
        }
        #expect(error?.code == .foreignState, "\(String(describing: error))")
        database.close()
        Files.removeDatabase(source)
        Files.moveDatabase(source + ".away", to: source)
        database = try Database(path: target)
        try finishMigration(database)
        let after = try Connection(path: source)
        #expect(texts(try after.fetchAll("SELECT * FROM t ORDER BY id")) == ["1|1", "2|1", "3|1", "4|4"])
        try after.execute("INSERT INTO t VALUES (5, 5)")
    }

    /// The process has died after it had opened the source to writers, and before the target had forgotten the move.
    /// The source may have been used and deleted since.
    @Test(arguments: ["deleted", "back", "back unopened", "backup", "another", "another table"])
    func aSourceThatGoesWhenItHasBeenOpenedKeepsNothingBack(_ way: String) throws {
        let folder = TemporaryFolder()
        let (target, source) = (folder.file("new.db"), folder.file("old.db"))
        let old = try Connection(path: source)
        try old.execute("CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, n)")
        try old.execute("INSERT INTO t VALUES (1, 0), (2, 0), (3, 0)")
        old.close()
        var database = try Database(path: target)
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, n)")
        func add() throws { try database.addMigration(source: .file(source)) { $0.sourceTable = $0.name } }
        try add()
        try database.stepMigration(rows: 2)
        try database.execute("UPDATE t SET n = 1; INSERT INTO t VALUES (9, 9); DELETE FROM t WHERE id = 9")
        let backup = try Connection(path: source)
        _ = try backup.checkpoint(mode: .truncate)
        backup.close()
        Files.copy(source, to: folder.file("backup.db"))
        try database.cancelMigration()
        let reader = try readerThatIsWaitedFor(database, target)
        database.close()
        try reader.execute("COMMIT")
        let file = try #require(FilePath.lastingIdentity(source))
        try reader.execute(script: "BEGIN; UPDATE midstream_tables SET undo_stage = 9223372036854775807")
        try reader.execute("UPDATE midstream_returns SET file = ?", [file])
        try reader.execute("COMMIT")
        if way == "back" {
            let old = try Connection(path: source)
            for event in ["insert", "update", "delete"] {
                let name = try old.fetchValue(
                    String.self,
                    "SELECT name FROM sqlite_master WHERE name LIKE 'midstream_fence_\(event)%'"
                )
                try old.execute("DROP TRIGGER \(#require(name))")
            }
            try old.execute(script: "DROP TABLE midstream_claims; UPDATE sqlite_sequence SET seq = 9")
        }
        Files.moveDatabase(source, to: source + ".away")
        if way.hasPrefix("another") {
            let name = way == "another" ? "t" : "x"
            try Connection(path: source).execute("CREATE TABLE \(name)(id INTEGER PRIMARY KEY AUTOINCREMENT, n)")
        }
        database = try Database(path: target)
        try finishMigration(database)
        if way.hasPrefix("another") { Files.removeDatabase(source) }
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 0)
        try database.execute("INSERT INTO t VALUES (100, 0); DELETE FROM t")
        if way == "deleted" {
            try Connection(path: folder.file("next.db")).execute(
                script: "CREATE TABLE t(id INTEGER PRIMARY KEY, n); INSERT INTO t VALUES (5, 5)"
            )
            try database.addMigration(source: .file(folder.file("next.db"))) { $0.sourceTable = $0.name }
            #expect(try database.fetchValue(Int.self, "SELECT n FROM t") == 5)
            return
        }
        if way == "backup" {
            Files.moveDatabase(folder.file("backup.db"), to: source)
            let error = #expect(throws: MigrationError.self) { try add() }
            #expect(error?.code == .foreignState)
            Files.removeDatabase(source)
        }
        database.close()
        Files.moveDatabase(source + ".away", to: source)
        database = try Database(path: target)
        let after = try Connection(path: source)
        try after.execute("INSERT INTO t(n) VALUES (10)")
        #expect(try MovingFixture.objects(target).filter { $0.contains("midstream") } == [])
        let last = way == "back" ? 10 : 101
        #expect(texts(try after.fetchAll("SELECT * FROM t")) == ["1|1", "2|1", "3|1", "\(last)|10"])
        try add()
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 4)
    }

    /// A connection that has the file open from before reads what has returned as well, and does not write what was
    /// there before.
    @Test(arguments: [true, false], ["WAL", "DELETE"])
    func whatReturnsIntoAFileThatWasReplacedIsSeen(_ isCancelledBefore: Bool, _ mode: String) throws {
        let folder = TemporaryFolder()
        let (source, copy) = (folder.file("old.db"), folder.file("copy.db"))
        let old = try Connection(path: source)
        try old.execute("PRAGMA journal_mode = \(mode)")
        try old.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, n)")
        try old.execute(
            "WITH RECURSIVE i(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM i WHERE x < 100) INSERT INTO t SELECT x, 0 FROM i"
        )
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, n)")
        try database.addMigration(source: .file(source), retirement: .keep) { $0.sourceTable = $0.name }
        try database.stepMigration(rows: 30)
        let change = "UPDATE t SET n = n + 1 WHERE id IN (5, 50)"
        try database.execute(change)
        if isCancelledBefore { try database.cancelMigration() }
        _ = try old.checkpoint(mode: .truncate)
        old.close()
        Files.copy(source, to: copy)
        Files.removeDatabase(source)
        Files.moveDatabase(copy, to: source)
        if !isCancelledBefore { try database.cancelMigration() }
        let all = "SELECT count(*), sum(n) FROM t"
        #expect(texts(try database.fetchAll(all)) == ["100|2"])
        try database.execute("INSERT INTO t VALUES (0, 0), (-1, 0)")
        for _ in 0..<12 {
            try database.stepMigration(rows: 1)
            for _ in 0..<2 { #expect(try database.read { texts(try $0.fetchAll(all)) } == ["102|2"]) }
        }
        try database.execute(change)
        try database.execute("DELETE FROM t WHERE id = -1")
        #expect(try database.read { texts(try $0.fetchAll(all)) } == ["101|4"])
        try finishMigration(database)
        database.close()
        let after = try Connection(path: source)
        #expect(texts(try after.fetchAll(all)) == ["101|4"])
        #expect(
            texts(try after.fetchAll("SELECT id, n FROM t WHERE n > 0 OR id < 1 ORDER BY id")) == [
                "0|0", "5|2", "50|2",
            ]
        )
    }

    /// A step sets rows aside between the reading of the stored state and the cancellation's commit.
    @Test func aTableWhoseRowsAreSetAsideMeanwhileDoesNotReturn() async throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        try old.execute("INSERT INTO t VALUES (1, 1), (2, NULL), (3, 3)")
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a NOT NULL)")
        try database.addMigration(source: .file(folder.file("old.db"))) { table in
            guard table.name == "t" else { return }
            table.sourceTable = "t"
            table.refusedRows = .setAside
        }
        let threads = Threads()
        let blocker = try Connection(path: folder.file("new.db"))
        try blocker.execute("BEGIN IMMEDIATE")
        threads.start("canceller") { _ in
            let error = #expect(throws: MigrationError.self) { try database.cancelMigration() }
            #expect(error?.message.contains("set aside") == true)
        }
        usleep(300_000)
        // A step of another process would have left this.
        try blocker.execute("CREATE TABLE midstream_refused_t(midstream_reason, midstream_rowid, id, a)")
        try blocker.execute("INSERT INTO midstream_refused_t VALUES ('', 2, 2, NULL)")
        try blocker.execute("UPDATE midstream_tables SET refused_rows_table = 'midstream_refused_t', watermark = 2")
        try blocker.execute("COMMIT")
        await threads.join()
        #expect(try database.readMigrationProgress().tables.map(\.isReturning) == [false])
    }
}

/// The ends of tables that a database reports.
private final class EventLog: Sendable {
    private let entries = Mutex<[String]>([])

    var texts: [String] { entries.withLock { $0 } }

    @Sendable func add(_ event: MigrationEvent) {
        let text =
            switch event {
            case .tableReturned(let table): "returned \(table)"
            case .tableMoved(let table): "moved \(table)"
            case .databaseMoved: "database"
            default: "other"
            }
        entries.withLock { $0.append(text) }
    }

    // MARK: Nothing has come

    /// While no row has come, the source has all rows, whatever the target's columns are made of.
    @Test(arguments: ["nothing", "row", "step"]) func whatCannotBeTurnedRoundReturnsWhileNoRowHasCome(_ come: String)
        throws
    {
        let rows = "INSERT INTO t VALUES (1, 2, 3), (2, 3, 4)"
        let move = try SmallMove(
            source: "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b); \(rows)",
            target: """
                CREATE TABLE log(x); CREATE TABLE t(id INTEGER PRIMARY KEY, a, c);
                CREATE TRIGGER new_t AFTER INSERT ON t BEGIN INSERT INTO log VALUES (NEW.id); END;
                """
        ) { table in
            if table.name == "log" { return table.sourceTable = nil }
            table.firesTriggers = true
            table.columns["c"] = .expression("b + 1")
        }
        let database = move.database
        if come == "row" { try database.execute("INSERT INTO t VALUES (9, 9, 9)") }
        if come == "step" { try database.stepMigration(rows: 1) }
        guard come == "nothing" else {
            let error = #expect(throws: MigrationError.self) { try database.cancelMigration() }
            #expect(error?.code == .unsupported)
            return try finishMigration(database)
        }
        try database.cancelMigration()
        for _ in 0..<100 where !database.isMigrated { try database.stepMigration() }
        #expect(database.isMigrated)
        #expect(try MovingFixture.objects(move.folder.file("new.db")).filter { $0.contains("midstream") } == [])
        #expect(try MovingFixture.objects(move.folder.file("old.db")).filter { $0.contains("midstream") } == [])
        #expect(try database.fetchAll("SELECT * FROM t").isEmpty)
        let plain = try Connection(path: move.folder.file("old.db"))
        try plain.execute("INSERT INTO t VALUES (3, 4, 5)")
        #expect(try plain.fetchValue(String.self, "SELECT group_concat(id || a || b) FROM t") == "123,234,345")
    }
}
