import Dispatch
import MidstreamTesting
import SQLiteConnection
import Testing

@testable import Midstream

/// What sweeps have found, each finding by itself.
@Suite struct FaultTests {
    fileprivate struct Wrong: Error {
        let description: String
    }

    fileprivate static func expect(_ isTrue: Bool, _ description: String) throws {
        if !isTrue { throw Wrong(description: description) }
    }

    fileprivate static func code(of body: () throws -> Void) -> ResultCode? {
        do {
            try body()
            return nil
        } catch {
            return (error as? SQLiteError)?.code
        }
    }

    fileprivate static let sum = "SELECT sum(amount) FROM accounts"

    /// Without memory, ROLLBACK cannot be prepared.
    @Test func aTransactionThatCouldNotBeRolledBackIsEndedBeforeTheNext() async throws {
        let fixture = try MovingFixture(rows: 200)
        try fixture.open().close()
        await #expect(processExitsWith: .success) { [target = fixture.target as String] in
            try FailingMemory.register()
            let database = try Database(path: target)
            for isWrite in [true, false] {
                let code = FaultTests.code {
                    let block: (DatabaseAccess) throws -> Void = { access in
                        _ = try access.fetchAll("SELECT * FROM accounts WHERE id < 7")
                        if isWrite { try access.execute("UPDATE accounts SET amount = 0 WHERE id = 3") }
                        FailingMemory.fail(at: 1, persistently: true)
                        try access.execute("SELECT 1, 2, 3")
                    }
                    if isWrite { try database.write(block) } else { try database.read(block) }
                }
                FailingMemory.clear()
                try FaultTests.expect(code?.primary == .outOfMemory, "\(String(describing: code))")
                try FaultTests.expect(try database.fetchValue(Int.self, FaultTests.sum) == 20_000, "rows changed")
                try database.write { try $0.execute("UPDATE accounts SET amount = amount WHERE id = 9") }
                try FaultTests.expect(try database.stepMigration(rows: 10).outcome == .worked, "a step is kept out")
            }
        }
    }

    /// SQLite prepares a statement again if the transaction has changed the schema. If SQLite lacks memory as it takes back what it has
    /// done by then, it ends the transaction and reports success.
    @Test func aTransactionThatEndsWithoutAnErrorIsNoticed() async throws {
        let folder = TemporaryFolder()
        await #expect(processExitsWith: .success) { [path = folder.path as String] in
            try FailingMemory.register()
            for number in 1...120 {
                let connection = try Connection(path: "\(path)/\(number).db")
                try connection.execute("PRAGMA journal_mode = WAL")
                try connection.execute("CREATE TABLE t(a PRIMARY KEY)")
                try connection.execute("INSERT INTO t VALUES (1), (2), (3)")
                let change = try connection.prepare("UPDATE t SET a = a + ?")
                try change.bind([10])
                try connection.execute("BEGIN")
                try connection.execute("INSERT INTO t VALUES (4)")
                try connection.execute("CREATE TABLE u(a)")
                FailingMemory.fail(at: number)
                let code = FaultTests.code { try change.run() }
                FailingMemory.clear()
                try FaultTests.expect(code == nil || code == .outOfMemory, "\(number): \(String(describing: code))")
                try FaultTests.expect(code != nil || connection.isInTransaction, "\(number): the transaction is over")
                connection.close()
            }
        }
    }

    /// Each commit takes longer than a step should take. A step then moves as many rows as add little to that time.
    @Test func aStepMovesManyRowsWhereSyncsAreSlow() async throws {
        let folder = TemporaryFolder()
        let columns = "(id INTEGER PRIMARY KEY, a INTEGER, t TEXT)"
        for name in (1...3).flatMap({ ["fast\($0)", "slow\($0)"] }) {
            let source = try Connection(path: folder.file("\(name)-source.db"))
            try source.execute("CREATE TABLE m\(columns)")
            try source.execute(
                "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000) "
                    + "INSERT INTO m SELECT i, i * 7919 % 12000, printf('%.120c', 'x') FROM n"
            )
            source.close()
        }
        await #expect(processExitsWith: .success) { [path = folder.path as String] in
            try FailingVFS.register()
            func steps(_ name: String) throws -> Int {
                var configuration = DatabaseConfiguration()
                configuration.journalMode = .unchanged
                let database = try Database(path: path + "/\(name).db", configuration: configuration)
                try database.execute(
                    "CREATE TABLE m(id INTEGER PRIMARY KEY, a INTEGER, t TEXT); CREATE INDEX i ON m(a)"
                )
                try database.addMigration(source: .file(path + "/\(name)-source.db")) {
                    if $0.name == "m" { $0.sourceTable = "m" }
                }
                var steps = 0
                while try !database.stepMigration(budget: .milliseconds(10)).isFinished { steps += 1 }
                return steps
            }
            // Now and then, the machine may be slow as well.
            var found = ""
            for attempt in 1...3 {
                FailingVFS.slowSyncs(by: .zero)
                let withFastSyncs = try steps("fast\(attempt)")
                FailingVFS.slowSyncs(by: .milliseconds(4))
                let withSlowSyncs = try steps("slow\(attempt)")
                if withSlowSyncs < 100 + 4 * withFastSyncs { return }
                found += "\(withSlowSyncs) steps, and \(withFastSyncs); "
            }
            try FaultTests.expect(false, found)
        }
    }

    /// The journal that is left must be rolled back before anybody can read. Connections that only read cannot do that.
    @Test func readersGoOnAfterAWriteThatFailedWithARollbackJournal() async throws {
        let fixture = try MovingFixture(rows: 200)
        try fixture.open().close()
        let connection = try Connection(path: fixture.target)
        try connection.execute("PRAGMA journal_mode = DELETE")
        connection.close()
        await #expect(processExitsWith: .success) { [target = fixture.target as String] in
            try FailingVFS.register()
            var configuration = DatabaseConfiguration()
            configuration.journalMode = .unchanged
            let database = try Database(path: target, configuration: configuration)
            try FaultTests.expect(try database.fetchValue(Int.self, FaultTests.sum) == 20_000, "rows before")
            FailingVFS.fail(FileFault(.write, number: 1, isPersistent: true, files: [target]))
            let code = FaultTests.code { try database.execute("UPDATE accounts SET amount = 7") }
            FailingVFS.clear()
            try FaultTests.expect(code?.primary == .ioError, "\(String(describing: code))")
            try FaultTests.expect(try database.fetchValue(Int.self, FaultTests.sum) == 20_000, "rows after")
        }
    }

    /// For instance, a volume is not yet writable when the application starts.
    @Test func aSourceThatWasReadOnlyIsWrittenWhenItCanBe() async throws {
        let fixture = try MovingFixture(rows: 200)
        try fixture.open().close()
        await #expect(processExitsWith: .success) {
            [target = fixture.target as String, source = fixture.source as String] in
            try FailingVFS.register()
            let database = try Database(path: target)
            FailingVFS.fail(FileFault(.open, number: 1, isPersistent: true, code: .readOnly, files: [source]))
            try FaultTests.expect(try database.stepMigration(rows: 50).outcome == .worked, "rows are read")
            var code: ResultCode?
            for _ in 0..<20 where code == nil { code = FaultTests.code { _ = try database.stepMigration() } }
            try FaultTests.expect(code?.primary == .readOnly, "\(String(describing: code))")
            try FaultTests.expect(FaultTests.code { _ = try database.stepMigration() }?.primary == .readOnly, "again")
            FailingVFS.clear()
            try finishMigration(database)
            try FaultTests.expect(try database.fetchValue(Int.self, FaultTests.sum) == 20_000, "rows")
        }
    }

    /// There are two sources. The first one fails completely.
    @Test(arguments: [ResultCode.readOnly, .ioError, .full])
    func aSourceThatFailsKeepsNoOther(_ code: ResultCode) async throws {
        let fixture = try MovingFixture(rows: 200)
        let more = fixture.folder.file("more.db")
        try Connection(path: more).execute(
            script: "CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1), (2)"
        )
        await #expect(processExitsWith: .success) {
            [
                target = fixture.target as String, source = fixture.source as String, more = more as String,
                raw = code.rawValue as Int32
            ] in
            try FailingVFS.register()
            let code = ResultCode(rawValue: raw)
            var database = try Database(path: target)
            try MovingFixture.addMigration(database, source)
            try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY)")
            try database.addMigration(source: .file(more)) { if $0.name == "t" { $0.sourceTable = "t" } }
            // The first source is written when it is retired.
            try FaultTests.finishTable(database, "accounts")
            // A connection that can only read a file with a WAL needs a WAL that is there.
            let other = try Connection(path: source)
            _ = try other.fetchAll("SELECT name FROM sqlite_master")
            database.close()
            database = try Database(path: target)
            let operation: FileOperation = code == .readOnly ? .open : .write
            let files = Set(["", "-wal", "-shm"].map { source + $0 })
            FailingVFS.fail(FileFault(operation, number: 1, isPersistent: true, code: code, files: files))
            var codes: Set<ResultCode> = []
            for _ in 0..<50 {
                if let code = FaultTests.code(of: { _ = try database.stepMigration() }) { codes.insert(code.primary) }
            }
            try FaultTests.expect(codes == [code], "\(codes)")
            let left = try database.readMigrationProgress().tables.filter { $0.phase != .done }.map(\.name)
            try FaultTests.expect(left == ["accounts"], "\(left)")
            FailingVFS.clear()
            try finishMigration(database)
            try FaultTests.expect(try database.fetchValue(Int.self, FaultTests.sum) == 20_000, "rows")
            other.close()
        }
    }

    /// The target's disk may be another one that has room.
    @Test func aFullDiskOfTheSourceIsNamedAsAMigrationBegins() async throws {
        let fixture = try MovingFixture(rows: 20)
        try Connection(path: fixture.source).execute("PRAGMA journal_mode = DELETE")
        await #expect(processExitsWith: .success) {
            [target = fixture.target as String, source = fixture.source as String] in
            try FailingVFS.register()
            let database = try Database(path: target)
            let files = Set(["", "-journal"].map { source + $0 })
            FailingVFS.fail(FileFault(.write, number: 1, isPersistent: true, code: .full, files: files))
            var message = ""
            do {
                try MovingFixture.addMigration(database, source)
            } catch let error as SQLiteError {
                message = error.message
            }
            let isNamed = message.hasPrefix("the disk of ") && message.contains(source)
            try FaultTests.expect(isNamed, "\(message)")
            FailingVFS.clear()
            try MovingFixture.addMigration(database, source)
            try finishMigration(database)
        }
    }

    /// Makes steps until nothing of a table is left to copy.
    fileprivate static func finishTable(_ database: Database, _ table: String) throws {
        while try database.readMigrationProgress().tables.contains(where: { $0.name == table && $0.phase == .copying })
        {
            try database.stepMigration(rows: 100, of: table)
        }
    }

    /// While the overlay cannot be put back, a block must not read the target's part of a table alone.
    @Test func aBlockThatHasChangedASchemaReadsWholeTablesOrFails() async throws {
        let fixture = try MovingFixture(rows: 200)
        let opened = try fixture.open()
        try opened.execute("CREATE TABLE extra(x)")
        opened.close()
        await #expect(processExitsWith: .success) { [target = fixture.target as String] in
            try FailingMemory.register()
            let database = try Database(path: target)
            try database.stepMigration(rows: 20)
            for number in 1... {
                var wasTouched = false
                do {
                    try database.write { access in
                        FailingMemory.fail(at: number * 7 * Sample.share, persistently: true)
                        try? access.execute("ALTER TABLE extra ADD COLUMN x\(number)")
                        let rows = try? access.fetchValue(Int.self, FaultTests.sum)
                        wasTouched = FailingMemory.failures > 0
                        FailingMemory.clear()
                        guard access.isInTransaction else { return }
                        if let rows { try FaultTests.expect(rows == 20_000, "\(number): \(rows)") }
                        try FaultTests.expect(
                            try access.fetchValue(Int.self, FaultTests.sum) == 20_000,
                            "\(number): rows after"
                        )
                    }
                } catch let error as SQLiteError where error.code.primary == .outOfMemory {
                    // SQLite has rolled the transaction back.
                }
                try FaultTests.expect(
                    try database.fetchValue(Int.self, FaultTests.sum) == 20_000,
                    "\(number): rows in the end"
                )
                if !wasTouched { break }
            }
        }
    }

    /// For want of memory, SQLite may roll a transaction back in anything that reads, even as it looks up what a
    /// statement names. The statements that come next would then be written without the transaction.
    @Test(
        arguments: [
            ["SELECT sum(amount) FROM accounts"], ["SELECT count(*) FROM seen"], ["PRAGMA table_info(accounts)"],
            ["PRAGMA table_info(none)"], ["REINDEX"], ["DROP TABLE IF EXISTS none"], ["SAVEPOINT s", "ROLLBACK TO s"],
            ["CREATE TRIGGER IF NOT EXISTS noted AFTER INSERT ON extra BEGIN SELECT 1; END"],
            ["SAVEPOINT s", "CREATE VIEW other AS SELECT x FROM extra", "ROLLBACK TO s"],
        ]
    )
    func aTransactionThatWantOfMemoryHasEndedIsToldOf(_ statements: [String]) async throws {
        let fixture = try MovingFixture(rows: 200)
        let opened = try fixture.open()
        try opened.execute("CREATE TABLE extra(x); CREATE VIEW seen AS SELECT id FROM accounts WHERE id > 7")
        try opened.execute("CREATE TRIGGER noted AFTER INSERT ON extra BEGIN SELECT 1; END")
        opened.close()
        await #expect(processExitsWith: .success) { [target = fixture.target as String, statements] in
            try FailingMemory.register()
            let database = try Database(path: target)
            try database.stepMigration(rows: 20)
            for number in 1... {
                var wasTouched = false
                try database.withoutTransaction { access in
                    try access.execute("BEGIN IMMEDIATE")
                    try access.execute("UPDATE accounts SET amount = 0 WHERE id = 150")
                    FailingMemory.fail(at: number * Sample.share)
                    let code = FaultTests.code {
                        for sql in statements { _ = try access.fetchAll("\(sql) /* \(number) */") }
                    }
                    wasTouched = FailingMemory.failures > 0
                    FailingMemory.clear()
                    try FaultTests.expect(code == nil || code?.primary == .outOfMemory, "\(number): \(code as Any)")
                    try FaultTests.expect(code != nil || access.isInTransaction, "\(number): nobody was told")
                    if access.isInTransaction { try access.execute("ROLLBACK") }
                }
                let rows = try database.fetchValue(Int.self, FaultTests.sum)
                try FaultTests.expect(rows == 20_000, "\(number): \(rows as Any)")
                if !wasTouched { break }
            }
        }
    }

    @Test func aTextThatThereIsNoMemoryForIsAnErrorAndNotEmpty() async throws {
        await #expect(processExitsWith: .success) {
            try FailingMemory.register()
            let connection = try Connection(path: ":memory:")
            try connection.execute("PRAGMA encoding = 'UTF-16'")
            try connection.execute("CREATE TABLE t(x)")
            try connection.execute("INSERT INTO t VALUES (?)", [String(repeating: "text ", count: 200)])
            for number in 1... {
                FailingMemory.fail(at: number)
                var text: String?
                let code = FaultTests.code { text = try connection.fetchValue("SELECT x FROM t") }
                let wasTouched = FailingMemory.failures > 0
                FailingMemory.clear()
                try FaultTests.expect(code == nil || code?.primary == .outOfMemory, "\(String(describing: code))")
                try FaultTests.expect(code != nil || text?.count == 1000, "\(number): \(String(describing: text))")
                if !wasTouched { break }
            }
        }
    }

    @Test func whoWaitsForAReaderGetsOneWhenAnotherCannotBeOpened() async throws {
        let folder = TemporaryFolder()
        let path = folder.file("a.db")
        try Connection(path: path).execute("CREATE TABLE t(x)")
        let threads = Threads()
        let isWaiting = DispatchSemaphore(value: 0)
        let pool = ReaderPool(capacity: 1) {
            threads.count("opening")
            if threads.count(of: "opening") == 1 {
                isWaiting.wait()
                throw SQLiteError(code: .cannotOpen)
            }
            return try DatabaseAccess(
                connection: Connection(path: path, options: OpenOptions(access: .readOnly)),
                kind: .reader,
                gate: nil,
                keys: Keyring(),
                counters: StatementCounters()
            )
        }
        threads.start("first") { threads in
            do { try pool.withReader { _ in } } catch { threads.count("failed") }
        }
        while threads.count(of: "opening") == 0 { try await Task.sleep(for: .milliseconds(1)) }
        threads.start("second") { threads in
            try pool.withReader { _ in threads.count("read") }
        }
        try await Task.sleep(for: .milliseconds(50))
        isWaiting.signal()
        await threads.join()
        #expect(threads.count(of: "failed") == 1 && threads.count(of: "read") == 1)
        pool.close()
    }

    /// AUTOINCREMENT chooses a rowid beyond it in any case.
    @Test func aRowThatIsRefusedKeepsNobodyFromInserting() throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(
            script: "CREATE TABLE s(id INTEGER PRIMARY KEY AUTOINCREMENT, x); INSERT INTO s(x) VALUES (1), (2), (NULL)"
        )
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, x CHECK (x IS NOT NULL))")
        try database.addMigration(source: .file(folder.file("old.db"))) { if $0.name == "t" { $0.sourceTable = "s" } }
        try database.execute("INSERT INTO t(x) VALUES (4)")
        #expect(try database.fetchValue(Int.self, "SELECT max(id) FROM t") == 4)
    }
}
