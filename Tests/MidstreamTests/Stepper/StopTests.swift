import Midstream
import SQLiteConnection
import SQLiteFeatures
import Synchronization
import Testing

/// Any process can ask how far a migration is. It is told why a table is stopped, at which row, and what to do.
@Suite struct StopTests {
    private func stop(_ folder: TemporaryFolder, _ table: String = "t") throws -> MigrationStop? {
        let progress = try Database.readMigrationProgress(ofFile: folder.file("new.db"))
        return progress.tables.first { $0.name == table }?.stop
    }

    @Test func aRefusedRowIsToldOfUntilItIsMended() throws {
        let move = try SmallMove(
            source: "CREATE TABLE t(id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (1, 1), (2, 5), (3, 3)",
            target: "CREATE TABLE t(id INTEGER PRIMARY KEY, x CHECK (x <> 5))"
        )
        let database = move.database
        #expect(try stop(move.folder) == nil)
        let told = Mutex<[MigrationProgress]>([])
        database.onMigrationProgress { progress in told.withLock { $0.append(progress) } }
        #expect(throws: MigrationError.self) { while true { try database.stepMigration() } }
        let stop = try #require(try stop(move.folder))
        #expect(stop.code == .rowRefused && stop.row == "rowid 2")
        #expect(stop.message.contains("table t refuses the row with rowid 2"))
        #expect(stop.message.contains("CHECK constraint failed"))
        #expect(try database.readMigrationProgress().tables[0].stop == stop)
        #expect(told.withLock { $0.last?.outcome } == .failed)
        #expect(told.withLock { $0.last?.tables[0].stop } == stop)
        // As long as the table stays stopped for this reason, nothing is written again.
        let version = try database.fetchValue(Int.self, "PRAGMA schema_version")
        #expect(throws: MigrationError.self) { try database.stepMigration() }
        #expect(try database.fetchValue(Int.self, "PRAGMA schema_version") == version)
        try database.execute("DELETE FROM t WHERE id = 2")
        try database.stepMigration()
        #expect(try self.stop(move.folder) == nil)
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 2)
        let names = try database.fetchAll("SELECT name FROM sqlite_master WHERE name LIKE 'midstream%'")
        #expect(texts(names) == [])
    }

    @Test func aRowOfATableWithoutRowidsIsNamedByItsKey() throws {
        let move = try SmallMove(
            source:
                "CREATE TABLE t(a TEXT, b, x, PRIMARY KEY (a, b)) WITHOUT ROWID; INSERT INTO t VALUES ('it''s', 2, 5)",
            target: "CREATE TABLE t(a TEXT, b, x CHECK (x <> 5), PRIMARY KEY (a, b)) WITHOUT ROWID"
        )
        let error = #expect(throws: MigrationError.self) { while true { try move.database.stepMigration() } }
        #expect(error?.message.contains("the row with key ('it''s', 2)") == true, "\(String(describing: error))")
        #expect(try stop(move.folder)?.row == "key ('it''s', 2)")
        move.database.close()
        let again = try Database(path: move.folder.file("new.db"))
        #expect(try again.readMigrationProgress().tables[0].stop?.row == "key ('it''s', 2)")
        try again.execute("UPDATE t SET x = 6")
        try finishMigration(again)
    }

    @Test func aDrainThatSucceedsForgetsTheReason() throws {
        let move = try SmallMove(
            source: "CREATE TABLE t(id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (1, 5), (2, 2)",
            target: "CREATE TABLE t(id INTEGER PRIMARY KEY, x CHECK (x <> 5))"
        )
        #expect(throws: MigrationError.self) { while true { try move.database.stepMigration() } }
        try move.database.execute("DELETE FROM t WHERE id = 1; CREATE INDEX i ON t(x)")
        #expect(try stop(move.folder) == nil)
    }

    @Test func aTableThatReturnsIsNotStoppedAnyMore() throws {
        let move = try SmallMove(
            source: "CREATE TABLE t(id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (1, 1), (2, 5)",
            target: "CREATE TABLE t(id INTEGER PRIMARY KEY, x CHECK (x <> 5))"
        )
        #expect(throws: MigrationError.self) { while true { try move.database.stepMigration() } }
        try move.database.cancelMigration()
        #expect(try stop(move.folder) == nil)
    }

    /// Only the process that makes steps can tell of the lock.
    @Test func aLockThatIsHeldForLongIsToldOf() throws {
        let move = try SmallMove(
            source: "CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1), (2), (3)",
            target: "CREATE TABLE t(id INTEGER PRIMARY KEY)"
        )
        let holder = try Connection(path: move.folder.file("new.db"))
        try holder.execute("BEGIN IMMEDIATE")
        let end = ContinuousClock().now + .milliseconds(1200)
        var progress = try move.database.stepMigration()
        #expect(progress.tables[0].stop == nil)
        while ContinuousClock().now < end { progress = try move.database.stepMigration() }
        #expect(progress.outcome == .busy && progress.tables[0].stop?.code == .locked)
        let message = progress.tables[0].stop?.message ?? ""
        #expect(message.contains("another connection is writing \(move.folder.file("new.db"))"), "\(message)")
        try holder.execute("COMMIT")
        try finishMigration(move.database)
    }

    /// As long as somebody reads a file without a WAL, SQLite keeps the file from being written.
    @Test func aSourceThatIsReadWithoutAWALIsNamedWithItsReader() throws {
        let folder = TemporaryFolder()
        let reader = try Connection(path: folder.file("old.db"))
        try reader.execute(script: "CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1), (2)")
        try reader.execute("BEGIN")
        #expect(try reader.fetchValue(Int.self, "SELECT count(*) FROM t") == 2)
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY)")
        func add() throws { try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "t" } }
        let error = #expect(throws: MigrationError.self) { try add() }
        #expect(error?.code == .locked)
        let message = error?.message ?? ""
        #expect(message.contains("is reading \(folder.file("old.db")), which has no WAL"), "\(message)")
        try reader.execute("COMMIT")
        try add()
        try finishMigration(database)
    }
}
