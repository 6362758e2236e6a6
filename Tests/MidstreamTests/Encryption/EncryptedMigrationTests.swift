import Midstream
import MidstreamTesting
import SQLiteConnection
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Migrations between files with keys and files without.
@Suite(.enabled(if: Connection.canEncrypt)) struct EncryptedMigrationTests {
    static func pair(_ source: EncryptionKey?, _ folder: TemporaryFolder) throws {
        let old = try Connection(path: folder.file("old.db"), options: OpenOptions(key: source))
        try old.execute("PRAGMA journal_mode = WAL")
        try old.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x TEXT UNIQUE)")
        try old.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) INSERT INTO t SELECT i, 'needle ' || i FROM n"
        )
    }

    static func open(_ folder: TemporaryFolder, _ target: EncryptionKey?, _ source: EncryptionKey?) throws -> Database {
        var configuration = DatabaseConfiguration()
        configuration.sourceKey = { [old = folder.file("old.db")] path in path == old ? source : nil }
        let database = try Database(path: folder.file("new.db"), key: target, configuration: configuration)
        try database.execute("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, x TEXT UNIQUE)")
        try database.addMigration(source: .file(folder.file("old.db"), key: source)) { $0.sourceTable = "t" }
        return database
    }

    @Test(arguments: 0..<TestKeys.all.count, 0..<TestKeys.all.count)
    func rowsMoveFromAnyFileToAnyOther(_ target: Int, _ source: Int) throws {
        let folder = TemporaryFolder()
        let (target, source) = (TestKeys.all[target], TestKeys.all[source])
        try Self.pair(source, folder)
        do {
            let database = try Self.open(folder, target, source)
            try database.stepMigration(rows: 100)
            try database.execute("UPDATE t SET x = 'changed' WHERE id = 400")
            try database.execute("DELETE FROM t WHERE id = 401")
            database.close()
        }
        // The database is opened as at another launch.
        let database = try Self.open(folder, target, source)
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t WHERE x LIKE 'needle%'") == 498)
        while try !database.stepMigration(rows: 100).isFinished {}
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 499)
        #expect(try database.fetchValue(String.self, "SELECT x FROM t WHERE id = 400") == "changed")
        #expect(try database.fetchValue(String.self, "PRAGMA integrity_check") == "ok")
        database.close()
        for suffix in ["", "-wal"] where target != nil {
            #expect(!Self.bytes(folder.file("new.db" + suffix)).contains("needle"))
        }
    }

    /// The last file of a chain needs the key of the first one. Without it, opening the last file changes nothing.
    @Test func aChainNeedsTheKeyOfItsFirstSource() throws {
        let folder = TemporaryFolder()
        let keys = ["old", "new", "third"].map { name in TestKeys.cheap(name) { _ in } }
        try Self.pair(keys[0], folder)
        let middle = try Self.open(folder, keys[1], keys[0])
        try middle.stepMigration(rows: 100)
        middle.close()
        func openThird(_ sourceKey: EncryptionKey?) throws -> Database {
            var configuration = DatabaseConfiguration()
            configuration.sourceKey = { path in path.hasSuffix("old.db") ? sourceKey : nil }
            let database = try Database(path: folder.file("third.db"), key: keys[2], configuration: configuration)
            try database.execute("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, x TEXT UNIQUE)")
            try database.addMigration(source: .file(folder.file("new.db"), key: keys[1])) { $0.sourceTable = "t" }
            return database
        }
        let error = #expect(throws: MigrationError.self) { _ = try openThird(nil) }
        #expect(error?.code == .sourceUnavailable && error?.message.contains("old.db") == true)
        try Self.open(folder, keys[1], keys[0]).execute("UPDATE t SET x = 'still new.db''s' WHERE id = 450")
        let database = try openThird(keys[0])
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t WHERE x LIKE 'needle%'") == 499)
        try finishMigration(database)
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 500)
        #expect(try database.fetchValue(String.self, "SELECT x FROM t WHERE id = 450") == "still new.db's")
    }

    @Test func aStoredMigrationWhoseKeyIsMissingOrWrongSaysSo() throws {
        let folder = TemporaryFolder()
        let key = TestKeys.cheap("of the source") { _ in }
        try Self.pair(key, folder)
        try Self.open(folder, nil, key).close()
        let missing = #expect(throws: MigrationError.self) { _ = try Database(path: folder.file("new.db")) }
        #expect(missing?.code == .sourceUnavailable)
        #expect(
            missing?.message.hasSuffix(
                "the file is encrypted, or is no database: give its key, by the source of addMigration or by "
                    + "DatabaseConfiguration.sourceKey"
            ) == true
        )
        var configuration = DatabaseConfiguration()
        configuration.sourceKey = { _ in TestKeys.cheap("another") { _ in } }
        let wrong = #expect(throws: MigrationError.self) {
            _ = try Database(path: folder.file("new.db"), configuration: configuration)
        }
        #expect(wrong?.message.contains("the key or the settings of the cipher do not fit") == true)
        // With the right key, all rows are there.
        let database = try Self.open(folder, nil, key)
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 500)
    }

    @Test func aTargetIsEncryptedFromItsFirstByteOrNotMade() throws {
        let folder = TemporaryFolder()
        var configuration = DatabaseConfiguration()
        configuration.journalMode = .unchanged
        let key = TestKeys.cheap("secret") { _ in }
        let database = try Database(path: folder.file("new.db"), key: key, configuration: configuration)
        #expect(!Self.bytes(folder.file("new.db")).isEmpty)
        #expect(!Self.bytes(folder.file("new.db")).hasPrefix("SQLite"))
        // A reader is opened before anything is written, and finds the salt.
        #expect(try database.fetchAll("SELECT * FROM sqlite_master").isEmpty)
        try database.execute("CREATE TABLE t(x)")
        #expect(try database.fetchAll("SELECT * FROM t").isEmpty)
        let wrong = #expect(throws: SQLiteError.self) {
            _ = try Database(path: folder.file("new.db"), key: TestKeys.cheap("Secret") { _ in })
        }
        #expect(wrong?.code == .notADatabase)
        let none = #expect(throws: SQLiteError.self) { _ = try Database(path: folder.file("new.db")) }
        #expect(none?.message == "the file is encrypted, or is no database: give its key")
    }

    /// Keys must be found nowhere: neither in files, nor in SQL that a connection holds, nor in errors or events.
    @Test func keysLeaveNoTrace() throws {
        let folder = TemporaryFolder()
        let (targetText, sourceText) = ("Target-Needle-9f3", "Source-Needle-7c1")
        let (target, source) = (TestKeys.cheap(targetText) { _ in }, TestKeys.cheap(sourceText) { _ in })
        try Self.pair(source, folder)
        let said = Said()
        let database = try Self.open(folder, target, source)
        database.onMigrated { event in said.add("\(event)") }
        try database.stepMigration(rows: 10)
        said.add("\(database) \(database.path) \(try database.readMigrationProgress())")
        said.add(dumped(MigrationSource.file(folder.file("old.db"), key: source)))
        said.add(try database.fetchAll("SELECT * FROM sqlite_master").map { "\($0)" }.joined())
        for table in ["midstream_state", "midstream_migrations", "midstream_tables", "pragma_database_list"] {
            said.add(texts((try? database.fetchAll("SELECT * FROM \(table)")) ?? []).joined())
        }
        for body in [
            { _ = try Database(path: folder.file("new.db"), key: source) },
            { _ = try Database(path: folder.file("old.db"), key: target) },
            { try database.addMigration(source: .file(folder.file("old.db"), key: target)) { $0.sourceTable = "t" } },
            { try database.execute("SELECT broken") },
        ] as [() throws -> Void] {
            do { try body() } catch { said.add("\(error) " + dumped(error)) }
        }
        while try !database.stepMigration(rows: 100).isFinished {}
        database.close()
        var texts = [said.text]
        for name in ["old.db", "old.db-wal", "new.db", "new.db-wal"] { texts.append(Self.bytes(folder.file(name))) }
        for text in texts {
            for secret in [targetText, sourceText, hex(targetText), hex(sourceText)] {
                #expect(!text.contains(secret))
            }
        }
    }

    private final class Said: @unchecked Sendable {
        private(set) var text = ""
        func add(_ more: String) { text += more + "\n" }
    }

    private func dumped(_ value: Any) -> String {
        var text = ""
        dump(value, to: &text)
        return text
    }

    private func hex(_ text: String) -> String {
        text.utf8.map { String($0, radix: 16) }.joined()
    }

    /// A file's bytes as characters.
    static func bytes(_ path: String) -> String {
        guard let file = fopen(path, "r") else { return "" }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        while case let byte = fgetc(file), byte != EOF { bytes.append(UInt8(truncatingIfNeeded: byte)) }
        return String(decoding: bytes, as: Unicode.ASCII.self)
    }

    /// Each of them would make the file with a salt of its own.
    @Test(.enabled(if: Connection.canEncrypt)) func severalMayOpenANewFileAtOnce() async {
        for _ in 0..<60 {
            let folder = TemporaryFolder()
            let threads = Threads()
            for name in ["a", "b", "c", "d"] {
                threads.start(name) { _ in
                    let database = try Database(path: folder.file("new.db"), key: TestKeys.cheap("key") { _ in })
                    defer { database.close() }
                    try database.execute("CREATE TABLE IF NOT EXISTS t(x); INSERT INTO t VALUES (1)")
                }
            }
            await threads.join()
        }
    }

    @Test(.enabled(if: Connection.canEncrypt)) func severalMayMakeAWholeFileAtOnce() async throws {
        for _ in 0..<20 {
            let folder = TemporaryFolder()
            let old = try Connection(path: folder.file("old.db"))
            try old.execute(script: "CREATE TABLE t(x); INSERT INTO t VALUES (1), (2)")
            old.close()
            let threads = Threads()
            for name in ["a", "b", "c", "d"] {
                threads.start(name) { _ in
                    let database = try Database(
                        path: folder.file("new.db"),
                        key: TestKeys.cheap("key") { _ in },
                        movingAllOf: .file(folder.file("old.db"))
                    )
                    defer { database.close() }
                    #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 2)
                }
            }
            await threads.join()
        }
    }

    /// A file is made to look empty while it is attached. A connection that deletes its journal meanwhile commits.
    @Test func aThreadAttachesAFileWhileAnotherCommits() async throws {
        let folder = TemporaryFolder()
        await #expect(processExitsWith: .success) { [path = folder.path as String] in
            try FailingVFS.register()
            let key = TestKeys.cheap("old") { _ in }
            let old = try Connection(path: path + "/old.db", options: OpenOptions(key: key))
            try old.execute("CREATE TABLE t(id INTEGER PRIMARY KEY)")
            old.close()
            let writer = try Connection(path: path + "/new.db")
            writer.setBusyTimeout(milliseconds: 5000)
            try writer.attach(path + "/old.db", as: "old", key: key)
            FailingVFS.slowSyncs(by: .milliseconds(3))
            let threads = Threads()
            threads.loop("attached", after: 0) { _ in
                let other = try Connection(path: path + "/other.db")
                other.setBusyTimeout(milliseconds: 5000)
                try other.attach(path + "/old.db", as: "old", key: key)
                _ = try other.fetchAll("SELECT count(*) FROM old.t")
                other.close()
            }
            var lost: [Int64] = []
            for id in 1...200 as ClosedRange<Int64> {
                try writer.execute("INSERT INTO old.t VALUES (?)", [id])
                if try writer.fetchValue(Int64.self, "SELECT count(*) FROM old.t") != id { lost.append(id) }
                // The thread that waits for the lock gets it in this pause.
                usleep(UInt32.random(in: 0...8000))
            }
            threads.end()
            try await threads.joinInChild()
            precondition(lost.isEmpty, "commits were undone: \(lost)")
            precondition(threads.count(of: "attached") > 5, "hardly anything was attached")
        }
    }
}
