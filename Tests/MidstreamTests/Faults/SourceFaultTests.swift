import Midstream
import MidstreamTesting
import SQLiteConnection
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// A source that others hold, move, cut or change. An error says so, nothing is lost, and the migration goes on when
/// the source is as it was.
@Suite struct SourceFaultTests {
    /// A migration that has moved a part of the rows, with a copy of the source as it was.
    private func halfMoved() throws -> MovingFixture {
        let fixture = try MovingFixture(rows: 500)
        let database = try fixture.open()
        try database.stepMigration(rows: 200)
        try database.execute("UPDATE accounts SET amount = amount + 5 WHERE id = 400")
        try database.execute("UPDATE accounts SET amount = amount - 5 WHERE id = 100")
        database.close()
        let old = try Connection(path: fixture.source)
        _ = try old.checkpoint(mode: .truncate)
        old.close()
        Files.copyDatabase(fixture.source, to: fixture.source + "-kept")
        return fixture
    }

    private func restore(_ fixture: MovingFixture) {
        Files.removeDatabase(fixture.source)
        Files.copyDatabase(fixture.source + "-kept", to: fixture.source)
    }

    private func expectWhole(
        _ fixture: MovingFixture,
        retirement: SourceRetirement = .drop,
        _ location: SourceLocation = #_sourceLocation
    ) throws {
        let database = try fixture.open(retirement: retirement)
        #expect(
            try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total,
            sourceLocation: location
        )
        try finishMigration(database)
        #expect(try MovingFixture.count("accounts", in: fixture.target) == 500, sourceLocation: location)
        #expect(
            try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total,
            sourceLocation: location
        )
        database.close()
    }

    @Test(arguments: [0, 1000, 9000]) func oneThatIsCutIsRefused(_ size: Int) throws {
        let fixture = try halfMoved()
        #expect(truncate(fixture.source, off_t(size)) == 0)
        let error = #expect(throws: (any Error).self) {
            let database = try Database(path: fixture.target)
            _ = try database.fetchAll("SELECT * FROM accounts")
        }
        let code = (error as? SQLiteError)?.code ?? (error as? MigrationError)?.cause?.code
        let isPrecise =
            (error as? MigrationError)?.code == .foreignState || code?.primary == .corrupt
            || code == .notADatabase
        #expect(isPrecise, "\(String(describing: error))")
        restore(fixture)
        try expectWhole(fixture)
    }

    @Test func oneWhoseTableIsDroppedIsRefused() throws {
        let fixture = try halfMoved()
        let old = try Connection(path: fixture.source)
        try old.execute("DROP TABLE old_accounts")
        old.close()
        let error = #expect(throws: MigrationError.self) { try Database(path: fixture.target) }
        #expect(error?.code == .sourceChanged)
        restore(fixture)
        try expectWhole(fixture)
    }

    @Test func rowsThatAreAddedPastTheFenceKeepIt() throws {
        let fixture = try halfMoved()
        let old = try Connection(path: fixture.source)
        for name in try old.fetchAll("SELECT name FROM sqlite_master WHERE type = 'trigger'") {
            try old.execute("DROP TRIGGER \(try name.get(0, as: String.self))")
        }
        // This row has moved before.
        try old.execute("DELETE FROM old_accounts WHERE id = 50")
        old.close()
        let database = try fixture.open()
        let error = #expect(throws: MigrationError.self) { try finishMigration(database) }
        #expect(error?.code == .sourceChanged)
        database.close()
        #expect(try MovingFixture.count("old_accounts", in: fixture.source) == 499)
        restore(fixture)
        try expectWhole(fixture)
    }

    @Test func aVacuumOfItChangesNothing() throws {
        let fixture = try halfMoved()
        let old = try Connection(path: fixture.source)
        try old.execute("VACUUM")
        old.close()
        try expectWhole(fixture)
    }

    @Test func oneThatIsHeldIsWaitedFor() throws {
        let fixture = try halfMoved()
        let database = try fixture.open()
        let old = try Connection(path: fixture.source)
        try old.execute("BEGIN IMMEDIATE")
        var outcome = MigrationProgress.Outcome.idle
        for _ in 0..<200 where outcome != .waitingForReaders { outcome = try database.stepMigration().outcome }
        #expect(outcome == .waitingForReaders)
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
        try old.execute("COMMIT")
        old.close()
        database.close()
        try expectWhole(fixture)
    }

    /// Without a WAL, a connection that writes the source keeps readers out as well.
    @Test func oneThatNobodyMayReadIsWaitedFor() throws {
        let fixture = try MovingFixture(rows: 500)
        let database = try Database(path: fixture.target)
        let other = try fixture.open()
        try other.stepMigration(rows: 200)
        other.close()
        let old = try Connection(path: fixture.source)
        try old.execute("PRAGMA journal_mode = DELETE")
        try old.execute("BEGIN EXCLUSIVE")
        #expect(try database.stepMigration(rows: 50).outcome == .busy)
        try old.execute("COMMIT")
        #expect(try database.stepMigration(rows: 50).rowsMovedByStep == 50)
        old.close()
        database.close()
        try expectWhole(fixture)
    }

    /// A process that has the former pair open goes on with that pair, and leaves the other pair alone.
    @Test(arguments: [SourceRetirement.drop, .deleteFileWhenEmpty])
    func aPairThatIsRestoredUnderAnOpenDatabaseStaysWhole(
        _ retirement: SourceRetirement
    ) throws {
        let fixture = try MovingFixture(rows: 500)
        let first = try Database(path: fixture.target)
        try MovingFixture.addMigration(first, fixture.source, retirement: retirement)
        try first.stepMigration(rows: 200)
        first.close()
        for path in [fixture.source, fixture.target] { Files.copyDatabase(path, to: path + "-kept") }
        let database = try Database(path: fixture.target)
        try database.stepMigration(rows: 1)
        for path in [fixture.source, fixture.target] {
            Files.moveDatabase(path, to: path + ".away")
            Files.copyDatabase(path + "-kept", to: path)
        }
        // Each step may well fail.
        for _ in 0..<100 { _ = try? database.stepMigration() }
        database.close()
        #expect(try MovingFixture.count("old_accounts", in: fixture.source) == 500)
        try expectWhole(fixture, retirement: retirement)
    }

    @Test func oneThatIsMovedUnderAnOpenDatabaseLosesNothing() throws {
        let fixture = try halfMoved()
        let database = try fixture.open()
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
        // A connection that has the file goes on with it.
        try database.stepMigration(rows: 1)
        for suffix in ["", "-wal", "-shm"] {
            rename(fixture.source + suffix, fixture.source + ".away" + suffix)
        }
        try database.stepMigration(rows: 50)
        #expect(try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total)
        database.close()
        for suffix in ["", "-wal", "-shm"] {
            rename(fixture.source + ".away" + suffix, fixture.source + suffix)
        }
        try expectWhole(fixture)
    }

    @Test func oneThatCannotBeWrittenIsReadAndStays() async throws {
        let fixture = try halfMoved()
        await #expect(processExitsWith: .success) {
            [source = fixture.source as String, target = fixture.target as String, total = fixture.total as Int64] in
            try FailingVFS.register()
            let database = try Database(path: target)
            let files = Set(["", "-wal", "-journal"].map { source + $0 })
            FailingVFS.fail(FileFault(.write, number: 1, isPersistent: true, code: .readOnly, files: files))
            var failure: (any Error)?
            for _ in 0..<500 where failure == nil {
                do { try database.stepMigration() } catch { failure = error }
            }
            guard (failure as? SQLiteError)?.code.primary == .readOnly else {
                throw Unexpected(error: "\(String(describing: failure))")
            }
            guard try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == total else {
                throw Unexpected(error: "rows are lost")
            }
            FailingVFS.clear()
            try finishMigration(database)
            guard try database.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == total else {
                throw Unexpected(error: "rows are lost in the end")
            }
        }
        #expect(try MovingFixture.count("accounts", in: fixture.target) == 500)
        #expect(try MovingFixture.objects(fixture.source).contains { $0.hasPrefix("view old_accounts") })
    }

    struct Unexpected: Error {
        let error: String
    }

    @Test(arguments: [SourceRetirement.drop, .deleteFileWhenEmpty])
    func aFolderThatIsRenamedMeanwhile(_ retirement: SourceRetirement) throws {
        let fixture = try MovingFixture(rows: 300)
        let database = try Database(path: fixture.target)
        try MovingFixture.addMigration(database, fixture.source, retirement: retirement)
        try database.stepMigration(rows: 100)
        try database.execute("UPDATE accounts SET amount = amount + 1 WHERE id = 250")
        let moved = fixture.folder.path + "-moved"
        try #require(rename(fixture.folder.path, moved) == 0)
        defer { rename(moved, fixture.folder.path) }
        try finishMigration(database)
        database.close()
        // At the next launch, the application finds the files there.
        let again = try Database(path: moved + "/new.db")
        try MovingFixture.addMigration(again, moved + "/old.db", retirement: retirement)
        try finishMigration(again)
        #expect(again.isMigrated)
        #expect(try again.fetchValue(Int64.self, "SELECT sum(amount) FROM accounts") == fixture.total + 1)
        switch retirement {
        case .deleteFileWhenEmpty: #expect(!Files.exists(moved + "/old.db"))
        default: #expect(try MovingFixture.objects(moved + "/old.db").contains { $0.hasPrefix("view old_accounts") })
        }
    }
}
