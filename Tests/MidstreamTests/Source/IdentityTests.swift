import MidstreamTesting
import SQLiteConnection
import Testing

@testable import Midstream

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Files that are copied, restored, replaced, moved or lost.
@Suite struct IdentityTests {
    /// A trigger of the source that is named like a fence is no fence.
    @Test func aTriggerNamedLikeAFenceIsTheApplications() throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(
            script: """
                CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1, 1), (2, 2); CREATE TABLE log(x);
                CREATE TRIGGER midstream_fence_log AFTER INSERT ON t BEGIN INSERT INTO log VALUES (NEW.id); END
                """
        )
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "t" }
        #expect(throws: SQLiteError.self) { try old.execute("INSERT INTO t VALUES (3, 3)") }
        try database.stepMigration(rows: 1)
        try database.cancelMigration()
        try finishMigration(database)
        try old.execute("INSERT INTO t VALUES (3, 3)")
        #expect(try old.fetchValue(Int64.self, "SELECT x FROM log") == 3)
    }

    /// Moves a half of the rows, and closes the database.
    private func halfMoved(_ rows: Int = 100) throws -> MovingFixture {
        let fixture = try MovingFixture(rows: rows)
        let database = try fixture.open()
        try MigrationFreezer(database).move(toPercent: 50)
        try database.execute("UPDATE accounts SET amount = amount + 0 WHERE id = 90")
        database.close()
        return fixture
    }

    private func moveToEnd(_ database: Database) throws -> MigrationError? {
        do {
            try finishMigration(database)
            return nil
        } catch let error as MigrationError {
            return error
        }
    }

    @Test func aCopyOfTheTargetDoesNotTakeTheSourceFromTheOriginal() throws {
        let fixture = try halfMoved()
        let copy = fixture.folder.file("copy.db")
        Files.copyDatabase(fixture.target, to: copy)
        let copied = try Database(path: copy)
        #expect(try copied.fetchValue(Int.self, "SELECT count(*) FROM accounts") == 100)
        #expect(try moveToEnd(copied)?.code == .foreignState)
        #expect(try copied.fetchValue(Int.self, "SELECT count(*) FROM accounts") == 100)
        #expect(try MovingFixture.count("old_accounts", in: fixture.source) == 100)
        let original = try fixture.open()
        #expect(try moveToEnd(original) == nil)
        #expect(try original.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
    }

    @Test func aTargetFromBeforeTheMigrationIsRefusedWhileItMoves() throws {
        let fixture = try MovingFixture(rows: 100)
        let backup = fixture.folder.file("backup.db")
        Files.copyDatabase(fixture.target, to: backup)
        let database = try fixture.open()
        try MigrationFreezer(database).move(toPercent: 50)
        database.close()
        Files.copyDatabase(backup, to: fixture.target)
        let error = #expect(throws: MigrationError.self) { try fixture.open() }
        #expect(error?.code == .foreignState)
        #expect(try MovingFixture.count("old_accounts", in: fixture.source) == 100)
    }

    @Test(arguments: [SourceRetirement.drop, .keep])
    func aTargetFromBeforeTheMigrationIsRefusedWhenItHasEnded(_ retirement: SourceRetirement) throws {
        let fixture = try MovingFixture(rows: 100)
        let backup = fixture.folder.file("backup.db")
        Files.copyDatabase(fixture.target, to: backup)
        let database = try Database(path: fixture.target)
        try MovingFixture.addMigration(database, fixture.source, retirement: retirement)
        #expect(try moveToEnd(database) == nil)
        try MovingFixture.addMigration(database, fixture.source, retirement: retirement)
        database.close()
        Files.copyDatabase(backup, to: fixture.target)
        let restored = try Database(path: fixture.target)
        let error = #expect(throws: MigrationError.self) {
            try MovingFixture.addMigration(restored, fixture.source, retirement: retirement)
        }
        #expect(error?.code == .foreignState)
    }

    @Test func aTargetFromTheMiddleIsRefusedWhenTheSourceIsGone() throws {
        let fixture = try halfMoved()
        let backup = fixture.folder.file("backup.db")
        Files.copyDatabase(fixture.target, to: backup)
        let database = try fixture.open()
        #expect(try moveToEnd(database) == nil)
        database.close()
        Files.copyDatabase(backup, to: fixture.target)
        let error = #expect(throws: MigrationError.self) { try Database(path: fixture.target) }
        #expect(error?.code == .sourceChanged)
    }

    /// Rows that are back in the source are in none of these targets, so each of these would show only a part of the
    /// table.
    @Test(arguments: [false, true], [0, 1])
    func aTargetFromBeforeItsRowsReturnedIsRefused(isInPlace: Bool, stage: Int) throws {
        let fixture = try halfMoved(2000)
        let original = try fixture.open()
        let backup = fixture.folder.file("backup.db")
        if stage > 0 { try original.cancelMigration() }
        Files.copyDatabase(fixture.target, to: backup)
        // A target that is open does not go on, either.
        let open = isInPlace || stage > 0 ? nil : try Database(path: backup)
        try original.execute("UPDATE accounts SET amount = 50")
        try original.execute("DELETE FROM accounts WHERE id BETWEEN 1500 AND 1599")
        if stage == 0 { try original.cancelMigration() }
        try original.stepMigration(rows: 300)
        try original.stepMigration(rows: 300)
        #expect(try original.fetchValue(Int.self, "SELECT count(*) FROM accounts") == 1900)
        if isInPlace {
            original.close()
            Files.removeDatabase(fixture.target)
            Files.copyDatabase(backup, to: fixture.target)
        }
        let error = #expect(throws: MigrationError.self) {
            try Database(path: isInPlace ? fixture.target : backup)
        }
        #expect(error?.code == .foreignState)
        if let open { #expect(try moveToEnd(open)?.code == .foreignState) }
        #expect(try MovingFixture.count("old_accounts", in: fixture.source) ?? 0 >= 600)
        if isInPlace { return }
        try finishMigration(original)
        #expect(try MovingFixture.count("old_accounts WHERE amount = 50", in: fixture.source) == 1900)
    }

    /// The copy is from the time when all rows were back and the source was about to be opened to writers.
    @Test func aCopyDoesNotTakeTheFenceDownWhenRowsHaveReturned() throws {
        let fixture = try halfMoved()
        let original = try fixture.open()
        let copy = fixture.folder.file("copy.db")
        try original.cancelMigration()
        try original.stepMigration(rows: 20)
        Files.copyDatabase(fixture.target, to: copy)
        let edited = try Connection(path: copy)
        try edited.execute("UPDATE midstream_tables SET phase = 2")
        edited.close()
        let error = #expect(throws: MigrationError.self) { try Database(path: copy) }
        #expect(error?.code == .foreignState)
        let other = try Connection(path: fixture.source)
        #expect(throws: SQLiteError.self) { try other.execute("DELETE FROM old_accounts") }
        other.close()
        try finishMigration(original)
        #expect(try MovingFixture.count("old_accounts", in: fixture.source) == 100)
    }

    /// The ledger that the target has hides the rows that have returned since.
    @Test func aTargetOfTheSameStageGoesOnReturning() throws {
        let fixture = try halfMoved(2000)
        var database = try fixture.open()
        try database.cancelMigration()
        try database.stepMigration(rows: 300)
        let backup = fixture.folder.file("backup.db")
        Files.copyDatabase(fixture.target, to: backup)
        try database.stepMigration(rows: 300)
        database.close()
        Files.removeDatabase(fixture.target)
        Files.copyDatabase(backup, to: fixture.target)
        database = try fixture.open()
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
        try finishMigration(database)
        #expect(try MovingFixture.count("old_accounts", in: fixture.source) == 2000)
    }

    /// The target has forgotten rows that this source does not have.
    @Test(arguments: [0, 1]) func aSourceFromBeforeRowsReturnedIsRefused(returned: Int) throws {
        let fixture = try halfMoved(2000)
        let backup = fixture.folder.file("backup.db")
        do {
            let database = try fixture.open()
            defer { database.close() }
            try database.execute("UPDATE accounts SET amount = 50")
            if returned == 0 { Files.copyDatabase(fixture.source, to: backup) }
            try database.cancelMigration()
            try database.stepMigration(rows: 300)
            if returned == 1 { Files.copyDatabase(fixture.source, to: backup) }
            try database.stepMigration(rows: 300)
        }
        let last = fixture.folder.file("last.db")
        Files.copyDatabase(fixture.source, to: last)
        Files.removeDatabase(fixture.source)
        Files.copyDatabase(backup, to: fixture.source)
        let error = #expect(throws: MigrationError.self) { try Database(path: fixture.target) }
        #expect(error?.code == .foreignState)
        #expect(error?.message.contains("was restored from a backup") == true)
        Files.removeDatabase(fixture.source)
        Files.copyDatabase(last, to: fixture.source)
        try finishMigration(fixture.open())
        #expect(try MovingFixture.count("old_accounts WHERE amount = 50", in: fixture.source) == 2000)
    }

    /// All rows have returned, and the process ended before it could open the source to writers.
    @Test func aSourceFromBeforeAllRowsReturnedIsRefused() async throws {
        let fixture = try halfMoved(200)
        let begun = try fixture.open()
        try begun.execute("UPDATE accounts SET amount = 50")
        begun.close()
        await #expect(processExitsWith: .success) {
            [target = fixture.target as String, source = fixture.source as String] in
            try FailingVFS.register()
            let (former, backup, last) = (target + "-former", source + "-backup", source + "-last")
            Files.copyDatabase(target, to: former)
            Files.copyDatabase(source, to: backup)
            var refused = 0
            for number in 1...60 {
                Files.copyDatabase(former, to: target)
                Files.copyDatabase(backup, to: source)
                let database = try Database(path: target)
                try database.cancelMigration()
                FailingVFS.fail(FileFault(.sync, number: number, isPersistent: true))
                for _ in 0..<20 { _ = try? database.stepMigration(rows: 100) }
                FailingVFS.clear()
                database.close()
                let state = try Connection(path: target)
                let isOver = try state.fetchOne("SELECT 1 FROM sqlite_master WHERE name = 'midstream_tables'") == nil
                let isEnded = try !isOver && state.fetchOne("SELECT 1 FROM midstream_tables WHERE phase = 2") != nil
                state.close()
                if isEnded {
                    Files.copyDatabase(source, to: last)
                    Files.copyDatabase(backup, to: source)
                    var code: MigrationError.Code?
                    do { _ = try Database(path: target) } catch let error as MigrationError {
                        code = error.code
                    }
                    precondition(code == .foreignState, "sync \(number): \(code.map { "\($0)" } ?? "no error")")
                    refused += 1
                    Files.copyDatabase(last, to: source)
                    try finishMigration(Database(path: target))
                    let returned = try MovingFixture.count("old_accounts WHERE amount = 50", in: source) ?? 0
                    precondition(returned == 200, "sync \(number): \(returned) rows")
                }
                if isOver { break }
            }
            precondition(refused > 0, "no death left the source closed")
        }
    }

    /// Two processes may choose the same id in the same millisecond.
    @Test(arguments: ["s", "other"]) func theNumberOfAnotherTargetsMoveIsNotItsOwn(_ table: String) throws {
        let folder = TemporaryFolder()
        try Connection(path: folder.file("old.db"))
            .execute(script: "CREATE TABLE s(id INTEGER PRIMARY KEY); CREATE TABLE other(id INTEGER PRIMARY KEY)")
        let migration = MigrationRecord(id: 6, sourcePath: "old.db")
        func claims(_ target: String) throws -> Claims {
            let connection = try Connection(path: folder.file(target))
            try connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY)")
            try connection.attach(folder.file("old.db"), as: migration.schema)
            return Claims(connection: connection, migration: migration)
        }
        func record(_ source: String) -> TableRecord {
            TableRecord(id: 7, migration: 6, target: "t", source: source, phase: .starting, copied: 0, settled: 0)
        }
        let (first, second) = (try claims("a.db"), try claims("b.db"))
        try first.stake(record("s"))
        #expect(throws: Claims.NumberTaken.self) { try second.stake(record(table)) }
        #expect(try second.isTaken(record(table), among: second.all()))
        #expect(try !first.isTaken(record("s"), among: first.all()))
        try first.stake(record("s"))
        #expect(try first.all().map(\.targetFile) == ["a.db"])
    }

    @Test func whoWithdrawsTakesDownNoFenceOfATableThatHasGotTheName() throws {
        let folder = TemporaryFolder()
        let plain = try Connection(path: folder.file("old.db"))
        try plain.execute(
            script: "CREATE TABLE s(id INTEGER PRIMARY KEY, x); CREATE TABLE other(id INTEGER PRIMARY KEY, x)"
        )
        try plain.execute("INSERT INTO s VALUES (1, 1)")
        let migration = MigrationRecord(id: 6, sourcePath: "old.db")
        let connection = try Connection(path: folder.file("new.db"))
        try connection.attach(folder.file("old.db"), as: migration.schema)
        let claims = Claims(connection: connection, migration: migration)
        let records = ["s", "other"].enumerated().map { index, name in
            TableRecord(
                id: Int64(index),
                migration: 6,
                target: name,
                source: name,
                phase: .starting,
                copied: 0,
                settled: 0
            )
        }
        for record in records { try claims.stake(record) }
        try plain.execute(
            script: "ALTER TABLE s RENAME TO z; ALTER TABLE other RENAME TO s; ALTER TABLE z RENAME TO other"
        )
        try claims.withdraw(records[1])
        #expect(throws: SQLiteError.self) { try plain.execute("UPDATE other SET x = 2") }
        try plain.execute("INSERT INTO s VALUES (1, 1)")
    }

    /// A row that comes before the first of the moves has fenced the table would move into both targets.
    @Test(arguments: [true, false]) func rowsThatTwoMovesOfAFileMeetAreSeenAgainWhenTheyBegin(_ meetsBoth: Bool) throws
    {
        let folder = TemporaryFolder()
        let path = folder.file("new.db")
        let plain = try Connection(path: path)
        try plain.execute(
            script: "CREATE TABLE s(id INTEGER PRIMARY KEY, a, b); INSERT INTO s VALUES (1, 1, 0), (2, 0, 1); "
                + "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b); CREATE TABLE u(id INTEGER PRIMARY KEY, a, b)"
        )
        // A process that has died after storing them leaves these records.
        let store = StateStore(connection: plain)
        try store.create()
        try store.save(MigrationRecord(id: 6, sourcePath: nil))
        for (id, target, condition) in [(7, "t", "a = 1"), (8, "u", "b = 1")] {
            try store.save(
                TableRecord(
                    id: Int64(id),
                    migration: 6,
                    target: target,
                    source: "s",
                    condition: condition,
                    phase: .starting,
                    copied: 0,
                    settled: 0
                )
            )
            try plain.execute("CREATE TABLE midstream_ledger_\(id)(key INTEGER PRIMARY KEY)")
        }
        if meetsBoth { try plain.execute("INSERT INTO s VALUES (3, 1, 1)") }
        plain.close()
        let database = try Database(path: path)
        #expect(database.isMigrated == meetsBoth)
        let rows = "SELECT (SELECT count(*) FROM t) + (SELECT count(*) FROM u)"
        #expect(try database.fetchValue(Int.self, rows) == (meetsBoth ? 0 : 2))
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM s") == (meetsBoth ? 3 : 2))
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, rows) == (meetsBoth ? 0 : 2))
    }

    @Test func aSourceOfAnotherEncodingIsRefused() throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(script: "PRAGMA encoding = 'UTF-16le'; CREATE TABLE t(a)")
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(a)")
        let error = #expect(throws: MigrationError.self) {
            try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "t" }
        }
        #expect(error?.code == .unsupported)
        #expect(error?.message.contains("PRAGMA encoding") == true)
        #expect(try database.fetchAll("SELECT name FROM sqlite_master").count == 1)
    }

    @Test func aSourceThatWasReplacedIsRefused() throws {
        let fixture = try halfMoved()
        let other = try MovingFixture(rows: 70)
        Files.copyDatabase(other.source, to: fixture.source)
        let error = #expect(throws: MigrationError.self) { try Database(path: fixture.target) }
        #expect(error?.code == .foreignState)
        #expect(error?.message.contains("is not the file") == true)
    }

    @Test func aSourceThatIsMissingIsAnErrorAndNotHalfATable() throws {
        let fixture = try halfMoved()
        #expect(rename(fixture.source, fixture.source + ".away") == 0)
        let error = #expect(throws: MigrationError.self) { try Database(path: fixture.target) }
        #expect(error?.code == .sourceUnavailable)
        #expect(error?.message.contains("old.db") == true)
        #expect(!Files.exists(fixture.source))
        #expect(rename(fixture.source + ".away", fixture.source) == 0)
        #expect(try moveToEnd(fixture.open()) == nil)
    }

    @Test func aSourceThatHasMovedMayBeMissing() throws {
        let fixture = try MovingFixture(rows: 10)
        let database = try fixture.open()
        for _ in 0..<100 where try database.readMigrationProgress().tables.first?.phase == .copying {
            try database.stepMigration(rows: 100)
        }
        #expect(try database.readMigrationProgress().tables.first?.phase == .copied)
        database.close()
        Files.removeDatabase(fixture.source)
        let again = try Database(path: fixture.target)
        #expect(try again.fetchValue(Int.self, "SELECT count(*) FROM accounts") == 10)
        #expect(try moveToEnd(again) == nil)
    }

    @Test func aNewerFormatIsAnError() throws {
        let fixture = try halfMoved()
        let plain = try Connection(path: fixture.target)
        try plain.execute("UPDATE midstream_state SET format = format + 1")
        plain.close()
        let error = #expect(throws: MigrationError.self) { try Database(path: fixture.target) }
        #expect(error?.code == .foreignState)
        #expect(error?.message.contains("format 2") == true)
    }

    @Test func thePairCanBeMovedToAnotherFolder() throws {
        let fixture = try halfMoved()
        let elsewhere = TemporaryFolder()
        for name in ["old.db", "new.db"] {
            Files.copyDatabase(fixture.folder.file(name), to: elsewhere.file(name))
            Files.removeDatabase(fixture.folder.file(name))
        }
        let database = try Database(path: elsewhere.file("new.db"))
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
        #expect(try moveToEnd(database) == nil)
        #expect(try MovingFixture.objects(elsewhere.file("old.db")).contains { $0.hasPrefix("view old_accounts") })
    }

    /// There are 60 rows with gaps between their rowids, which are no column; 20 rows have moved.
    private static func beginWithoutKey(
        in folder: TemporaryFolder,
        _ retirement: SourceRetirement = .drop
    ) throws -> (old: Connection, Database) {
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(
            script: """
                CREATE TABLE s(x);
                INSERT INTO s WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 80) SELECT i FROM n;
                DELETE FROM s WHERE x % 4 = 0;
                """
        )
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(x)")
        let source = MigrationSource.file(folder.file("old.db"))
        try database.addMigration(source: source, retirement: retirement) { if $0.name == "t" { $0.sourceTable = "s" } }
        try database.stepMigration(rows: 20)
        return (old, database)
    }

    @Test func aSourceWhoseRowsHaveOtherRowidsSinceAVacuumIsRefused() throws {
        let folder = TemporaryFolder()
        let (old, database) = try Self.beginWithoutKey(in: folder)
        try old.vacuumAllTheSame()
        let error = #expect(throws: MigrationError.self) { try database.stepMigration(rows: 20) }
        #expect(error?.code == .sourceChanged)
        #expect(try MovingFixture.count("t", in: database.path) == 20)
        database.close()
        let again = #expect(throws: MigrationError.self) { try Database(path: folder.file("new.db")) }
        #expect(again?.code == .sourceChanged)
        #expect(try MovingFixture.count("s", in: folder.file("old.db")) == 60)
    }

    @Test(arguments: ["finished", "cancelled"])
    func aVacuumOfASourceIsRefusedWhileItsRowsAreKnownByRowidsOfNoColumn(_ end: String) throws {
        let folder = TemporaryFolder()
        let (old, database) = try Self.beginWithoutKey(in: folder, .keep)
        #expect(throws: SQLiteError.self) { try old.execute("VACUUM") }
        #expect(try old.fetchValue(String.self, "PRAGMA integrity_check") == "ok")
        if end == "finished" {
            try finishMigration(database)
        } else {
            try database.cancelMigration()
            while try !database.stepMigration().isFinished {}
        }
        try old.execute("VACUUM")
        #expect(try !MovingFixture.objects(folder.file("old.db")).contains { $0.contains("rowids") })
        #expect(try old.fetchValue(Int.self, "SELECT count(*) * 10000 + sum(x) FROM s") == 602_400)
    }

    @Test(arguments: [0, 20, 60]) func aSourceIsReleasedOnceItsTargetIsLost(moved: Int64) throws {
        let fixture = try MovingFixture(rows: 60)
        let database = try fixture.open(retirement: .keep)
        try database.stepMigration(rows: moved)
        if moved == 60 { try finishMigration(database) }
        let there = #expect(throws: MigrationError.self) { try Database.releaseSource(fixture.source) }
        #expect(there?.code == .misuse)
        database.close()
        let lost = fixture.folder.file("lost.db")
        Files.copyDatabase(fixture.target, to: lost)
        Files.removeDatabase(fixture.target)

        let next = fixture.folder.file("next.db")
        try Connection(path: next).execute("CREATE TABLE accounts\(MovingFixture.columns)")
        let other = try Database(path: next)
        func add() throws {
            try other.addMigration(source: .file(fixture.source)) { table in
                if table.name == "accounts" { table.sourceTable = "old_accounts" }
            }
        }
        let refusal = #expect(throws: MigrationError.self) { try add() }
        #expect(refusal?.code == .foreignState)
        #expect(refusal?.message.contains("releaseSource") == true, "\(refusal?.message ?? "")")
        #expect(try Database.releaseSource(fixture.source) == ["old_accounts"])
        #expect(try Database.releaseSource(fixture.source) == [])
        try Connection(path: fixture.source).execute("UPDATE old_accounts SET amount = amount + 1")
        try add()
        try finishMigration(other)
        #expect(try other.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total + 60)
        other.close()

        // The lost file comes back, and nothing is changed in it.
        Files.copyDatabase(lost, to: fixture.target)
        if moved < 60 {
            let back = #expect(throws: MigrationError.self) {
                let database = try Database(path: fixture.target)
                try database.stepMigration(rows: 60)
            }
            #expect(back?.code == .foreignState, "\(String(describing: back))")
        }
        #expect(try MovingFixture.count("accounts", in: next) == 60)
    }

    @Test func anOlderBuildThatCreatesTheTableAnewDoesNotWriteIntoAVoid() throws {
        let fixture = try MovingFixture(rows: 10)
        let database = try fixture.open()
        #expect(try moveToEnd(database) == nil)
        let old = try Connection(path: fixture.source)
        try old.execute("CREATE TABLE IF NOT EXISTS old_accounts\(MovingFixture.columns)")
        let error = #expect(throws: SQLiteError.self) { try old.execute("INSERT INTO old_accounts VALUES (1, 'a', 1)") }
        #expect(error?.message == "table old_accounts is moving to table accounts of new.db: write it there")
        #expect(try old.fetchAll("SELECT id, owner, amount FROM old_accounts").isEmpty)
    }
}
