@testable import Midstream
import SQLiteConnection
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Files that move as a whole.
@Suite struct WholeFileTests {
    static func source(_ folder: TemporaryFolder, _ key: EncryptionKey?) throws {
        let old = try Connection(path: folder.file("old.db"), options: OpenOptions(key: key))
        try old.execute(
            script: """
                PRAGMA encoding = 'UTF-16le';
                CREATE TABLE a(id INTEGER PRIMARY KEY AUTOINCREMENT, x TEXT UNIQUE);
                CREATE TABLE "b c"(y, z REFERENCES a(id));
                CREATE INDEX by_y ON "b c"(y, z);
                CREATE VIEW v AS SELECT x, y FROM a JOIN "b c" ON z = id;
                CREATE TABLE log(n);
                CREATE TRIGGER t AFTER DELETE ON a BEGIN INSERT INTO log VALUES (1); END;
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) INSERT INTO a SELECT i, 'x' || i FROM n;
                INSERT INTO "b c" SELECT id % 7, id FROM a;
                DELETE FROM a WHERE id = 300;
                PRAGMA user_version = 17;
                PRAGMA application_id = 1234;
                ANALYZE;
                """
        )
    }

    @Test(arguments: [(0, 1), (1, 0), (2, 3), (0, 0)])
    func everythingMovesWithTheKeyThatIsWanted(_ from: Int, _ to: Int) throws {
        let keys = TestKeys.all
        guard from < keys.count, to < keys.count else { return }
        let folder = TemporaryFolder()
        try Self.source(folder, keys[from])
        func open() throws -> Database {
            try Database(
                path: folder.file("new.db"),
                key: keys[to],
                movingAllOf: .file(folder.file("old.db"), key: keys[from])
            )
        }
        do {
            let database = try open()
            #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM v") == 299)
            try database.stepMigration(rows: 50)
            try database.execute("DELETE FROM a WHERE id = 299")
            try database.execute("INSERT INTO a(x) VALUES ('new')")
            #expect(try database.fetchValue(Int64.self, "SELECT max(id) FROM a") == 301)
            database.close()
        }
        let database = try open()
        while try !database.stepMigration(rows: 100).isFinished {}
        database.close()

        let new = try Connection(path: folder.file("new.db"), options: OpenOptions(key: keys[to]))
        #expect(try new.fetchValue(String.self, "PRAGMA encoding") == "UTF-16le")
        #expect(try new.fetchValue(Int64.self, "PRAGMA user_version") == 17)
        #expect(try new.fetchValue(Int64.self, "PRAGMA application_id") == 1234)
        #expect(try new.fetchValue(String.self, "PRAGMA integrity_check") == "ok")
        #expect(texts(try new.fetchAll("SELECT count(*), max(id) FROM a")) == ["299|301"])
        #expect(
            texts(try new.fetchAll("SELECT count(*) FROM log UNION ALL SELECT count(*) FROM \"b c\"")) == ["2", "300"]
        )
        #expect(try new.fetchValue(Int64.self, "SELECT count(*) FROM sqlite_stat1") ?? 0 > 0)
        #expect(
            texts(try new.fetchAll("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite%' ORDER BY name"))
                == ["a", "b c", "by_y", "log", "t", "v"]
        )
        new.close()
        // The next launch finds that the move is over, with the source and without it.
        try open().close()
        try Database.wipeSource(
            atPath: folder.file("old.db"),
            key: keys[from],
            movedTo: folder.file("new.db"),
            targetKey: keys[to]
        )
        #expect(!Files.exists(folder.file("old.db")))
        #expect(try open().isMigrated)
    }

    @Test func whatCannotMoveLeavesNoFile() throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute("CREATE TABLE w(rowid, oid, _rowid_)")
        let error = #expect(throws: MigrationError.self) {
            _ = try Database(path: folder.file("new.db"), movingAllOf: .file(folder.file("old.db")))
        }
        #expect(error?.code == .unsupported)
        for name in ["new.db", "new.db-wal", "new.db-journal"] { #expect(!Files.exists(folder.file(name))) }
        let missing = #expect(throws: MigrationError.self) {
            _ = try Database(path: folder.file("new.db"), movingAllOf: .file(folder.file("none.db")))
        }
        #expect(missing?.code == .sourceUnavailable)
    }

    /// The names begin like the engine's own.
    @Test func aTriggerOfSuchANameComesAlongAndATableOfSuchANameIsNotLost() throws {
        let folder = TemporaryFolder()
        try Self.source(folder, nil)
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(
            script: """
                CREATE UNIQUE INDEX midstream_ux ON a(x, id); CREATE VIEW midstream_v AS SELECT x FROM a;
                CREATE TABLE midstream_notes(x); INSERT INTO midstream_notes VALUES (1), (2);
                CREATE TABLE midstream_refused_a(id, reason); INSERT INTO midstream_refused_a VALUES (1, 'why');
                CREATE TRIGGER midstream_sync AFTER DELETE ON a BEGIN INSERT INTO log VALUES (OLD.id); END
                """
        )
        func open() throws -> Database {
            try Database(path: folder.file("new.db"), movingAllOf: .file(folder.file("old.db")))
        }
        let error = #expect(throws: MigrationError.self) { _ = try open() }
        #expect(error?.code == .unsupported && error?.table == "midstream_refused_a")
        #expect(try old.fetchValue(Int64.self, "SELECT count(*) FROM midstream_refused_a") == 1)
        try old.execute("ALTER TABLE midstream_refused_a RENAME TO refused")
        old.close()
        let database = try open()
        #expect(try database.fetchValue(String.self, "SELECT reason FROM refused") == "why")
        #expect(
            try database.fetchValue(Int64.self, "SELECT 1 FROM sqlite_master WHERE name = 'midstream_ux'") == 1
        )
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM midstream_v") == 299)
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM midstream_notes") == 2)
        let before = try database.fetchValue(Int64.self, "SELECT count(*) FROM log") ?? 0
        try database.execute("DELETE FROM a WHERE id = 7")
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM log") == before + 2)
    }

    @Test func aSourceWithRowsThatHaveNotMovedIsNotWiped() throws {
        let folder = TemporaryFolder()
        try Self.source(folder, nil)
        let refused = #expect(throws: MigrationError.self) { try Self.wipe(folder) }
        #expect(refused?.code == .misuse)
        let database = try Database(path: folder.file("new.db"), movingAllOf: .file(folder.file("old.db")))
        try database.stepMigration(rows: 50)
        #expect(throws: (any Error).self) { try Self.wipe(folder) }
        while try !database.stepMigration(rows: 100).isFinished {}
        // The source is still open.
        let old = try Connection(path: folder.file("old.db"))
        try old.execute("BEGIN")
        _ = try old.fetchAll("SELECT * FROM a")
        #expect(throws: SQLiteError.self) { try Self.wipe(folder) }
        try old.execute("COMMIT")
        old.close()
        database.close()
        try Self.wipe(folder)
        #expect(!Files.exists(folder.file("old.db")))
    }

    /// A process dies when it has overwritten the beginning of the source, which is then no database.
    @Test(arguments: ["open", "wipe", "another"]) func aSourceThatIsHalfWipedKeepsNothingClosed(_ next: String)
        async throws
    {
        let folder = TemporaryFolder()
        let old: String = folder.file("old.db")
        let new: String = folder.file("new.db")
        let plain = try Connection(path: old)
        try plain.execute(
            script: """
                CREATE TABLE t(x);
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
                    INSERT INTO t SELECT 'needle' || hex(randomblob(500)) FROM n;
                """
        )
        plain.close()
        func open() throws -> Database { try Database(path: new, movingAllOf: .file(old)) }
        var database = try open()
        try finishMigration(database)
        database.close()
        await #expect(processExitsWith: .signal(SIGKILL)) { [old = old as String, new = new as String] in
            // The process can write up to this size: 1 MB of zeros.
            var limit = rlimit(rlim_cur: 1 << 20, rlim_max: 1 << 20)
            #if canImport(Glibc)
                let resource = __rlimit_resource_t(RLIMIT_FSIZE.rawValue)
            #else
                let resource = RLIMIT_FSIZE
            #endif
            signal(SIGXFSZ, SIG_IGN)
            guard setrlimit(resource, &limit) == 0 else { return }
            try? Database.wipeSource(atPath: old, movedTo: new)
            kill(getpid(), SIGKILL)
        }
        if next == "another" {
            // This file of the same name has nothing to do with the wiped one.
            try Connection(path: old).execute(script: "CREATE TABLE u(x); INSERT INTO u VALUES (1)")
            #expect(throws: MigrationError.self) { try Database.wipeSource(atPath: old, movedTo: new) }
            #expect(try MovingFixture.count("u", in: old) == 1)
        }
        if next == "wipe" { try Database.wipeSource(atPath: old, movedTo: new) }
        if next != "another" {
            database = try open()
            #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t WHERE x LIKE 'needle%'") == 3000)
            database.close()
            #expect(!Files.exists(old))
        }
        #expect(!Files.exists(old + "-midstream_wiped"))
    }

    /// The link leads to a file that has another name by then, and so leads nowhere.
    @Test func wipingGoesOnThroughALink() throws {
        let folder = TemporaryFolder()
        let (file, link) = (folder.file("old.db"), folder.file("link.db"))
        for isAbsolute in [false, true] {
            try Connection(path: file).execute("CREATE TABLE t(x)")
            #expect(symlink(isAbsolute ? file : "old.db", link) == 0)
            #expect(rename(file, file + "-midstream_wiped") == 0)
            try Database.wipeSource(atPath: link, movedTo: folder.file("new.db"))
            #expect(!Files.exists(file + "-midstream_wiped"))
            #expect(unlink(link) != 0, "the link is left")
        }
    }

    /// These journals belong to a file that another program makes under the name meanwhile.
    @Test func wipingLeavesJournalsAloneOnceTheFileHasAnotherName() throws {
        let folder = TemporaryFolder()
        let file = folder.file("old.db")
        try Connection(path: file).execute("CREATE TABLE t(x)")
        #expect(rename(file, file + "-midstream_wiped") == 0)
        let other = folder.file("other")
        try Connection(path: other).execute("CREATE TABLE u(x)")
        let journals = ["-wal", "-shm", "-journal"].map { file + $0 }
        for journal in journals { Files.copy(other, to: journal) }
        try Database.wipeSource(atPath: file, movedTo: other)
        #expect(!Files.exists(file + "-midstream_wiped"))
        for journal in journals { #expect(Files.exists(journal) && Files.bytes(journal) == Files.bytes(other)) }
    }

    @Test func aJournalThatPersistsIsWipedAsWell() throws {
        let folder = TemporaryFolder()
        let file = folder.file("old.db")
        let plain = try Connection(path: file)
        try plain.execute(
            script:
                "PRAGMA journal_mode = PERSIST; CREATE TABLE t(x); INSERT INTO t VALUES (zeroblob(9999)); DROP TABLE t"
        )
        plain.close()
        let journal = folder.file("journal")
        #expect(link(file + "-journal", journal) == 0)
        #expect(Files.bytes(journal).contains { $0 != 0 })
        let new = folder.file("new.db")
        try Connection(path: new).execute("CREATE TABLE u(x)")
        try Database.wipeSource(atPath: file, movedTo: new)
        #expect(!Files.exists(file) && !Files.exists(file + "-journal"))
        #expect(!Files.bytes(journal).isEmpty && Files.bytes(journal).allSatisfy { $0 == 0 })
    }

    /// The application's next version has one more table, and one with another name.
    @Test(arguments: [SourceRetirement.keep, .drop, .deleteFileWhenEmpty])
    func theNewFileMayGetTablesOfItsOwn(_ retirement: SourceRetirement) throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(
            script: "CREATE TABLE t(x); INSERT INTO t VALUES (1), (2); CREATE TABLE u(x); INSERT INTO u VALUES (3);"
        )
        old.close()
        func launch() throws -> Database {
            let source = MigrationSource.file(folder.file("old.db"))
            return try Database(path: folder.file("new.db"), movingAllOf: source, retirement: retirement)
        }
        let first = try launch()
        try first.execute("CREATE TABLE early(y)")
        try first.stepMigration(rows: 1)
        first.close()
        for launchNumber in 0..<3 {
            let database = try launch()
            try database.execute("CREATE TABLE later\(launchNumber)(y)")
            if launchNumber == 1 { try database.execute("ALTER TABLE u RENAME TO v") }
            let name = launchNumber > 0 ? "v" : "u"
            #expect(try database.fetchAll("SELECT x FROM t UNION ALL SELECT x FROM \(name) ORDER BY 1").count == 3)
            if launchNumber == 1 { try finishMigration(database) }
            database.close()
        }
    }

    /// The maker's process has died before a table began to move.
    @Test func aFileThatWasMadeIsNotOpenedWithoutItsSource() throws {
        let folder = TemporaryFolder()
        let (old, new) = (folder.file("old.db"), folder.file("new.db"))
        try Connection(path: old).execute(script: "CREATE TABLE t(x); INSERT INTO t VALUES (1), (2)")
        func launch() throws -> Database {
            try Database(path: new, movingAllOf: .file(old), retirement: .deleteFileWhenEmpty)
        }
        #expect(try WholeFile.create(new, nil, from: old, nil) != nil)
        Files.moveDatabase(old, to: old + "-away")
        for _ in 0..<2 {
            let error = #expect(throws: MigrationError.self) { try launch() }
            #expect(error?.code == .sourceUnavailable)
        }
        Files.moveDatabase(old + "-away", to: old)
        var database = try launch()
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 2)
        try finishMigration(database)
        database.close()
        #expect(!Files.exists(old))
        database = try launch()
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 2)
    }

    /// While there are such tables, the file must not be deleted.
    @Test func tablesThatHaveNotMovedAreNamed() throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(
            script: "CREATE TABLE t(x); INSERT INTO t VALUES (1), (2); CREATE TABLE u(x); INSERT INTO u VALUES (3);"
        )
        func unmoved() throws -> [String] {
            try Database.unmovedObjects(ofSourceAtPath: folder.file("old.db"), movedTo: folder.file("new.db")).map(
                \.name
            )
        }
        let database = try Database(path: folder.file("new.db"), movingAllOf: .file(folder.file("old.db")))
        #expect(try unmoved() == ["t", "u"])
        try finishMigration(database)
        #expect(try unmoved() == [])
        try old.execute("CREATE TABLE later(x)")
        #expect(try unmoved() == ["later"])
        try old.execute("INSERT INTO later VALUES (1)")
        #expect(try unmoved() == ["later"])
    }

    /// The file's own source was deleted by hand once all its rows had come.
    @Test(arguments: [true, false]) func whatIsNotedOfASourceThatIsGoneKeepsNoFile(_ isWiped: Bool) throws {
        let folder = TemporaryFolder()
        let (first, old, new) = (folder.file("first.db"), folder.file("old.db"), folder.file("new.db"))
        try Connection(path: first).execute(
            script: "CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1), (2)"
        )
        let middle = try Database(path: old)
        try middle.execute("CREATE TABLE t(id INTEGER PRIMARY KEY)")
        try middle.addMigration(source: .file(first)) { $0.sourceTable = $0.name }
        let reader = try Connection(path: old)
        try reader.execute("BEGIN")
        _ = try reader.fetchAll("SELECT * FROM t")
        for _ in 0..<5 { try middle.stepMigration(rows: 10) }
        middle.close()
        Files.removeDatabase(first)
        try reader.execute("COMMIT")
        reader.close()
        let again = try Database(path: old)
        try finishMigration(again)
        again.close()
        #expect(try MovingFixture.objects(old).contains { $0.hasPrefix("table midstream_unreleased ") })
        let database = try Database(
            path: new,
            movingAllOf: .file(old),
            retirement: isWiped ? .keep : .deleteFileWhenEmpty
        )
        try finishMigration(database)
        if isWiped {
            #expect(try Database.unmovedObjects(ofSourceAtPath: old, movedTo: new).isEmpty)
            try Database.wipeSource(atPath: old, movedTo: new)
        }
        #expect(!Files.exists(old))
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 2)
    }

    /// Rows that had moved from a former table of that name do not count any more.
    @Test func aSourceWithATableThatIsMadeAnewIsNotWiped() throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute("CREATE TABLE t(x)")
        try old.execute("INSERT INTO t VALUES (1), (2), (3)")
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(x)")
        try database.addMigration(source: .file(folder.file("old.db")), retirement: .drop) { $0.sourceTable = "t" }
        try finishMigration(database)
        database.close()
        #expect(try old.fetchAll("SELECT * FROM t").isEmpty)
        try old.execute(script: "DROP VIEW t; CREATE TABLE t(x); INSERT INTO t VALUES (4), (5);")
        old.close()
        let error = #expect(throws: MigrationError.self) { try Self.wipe(folder) }
        #expect(error?.code == .misuse)
        let left = try Connection(path: folder.file("old.db"))
        #expect(try left.fetchValue(Int.self, "SELECT count(*) FROM t") == 2)
        try left.execute("DELETE FROM t")
        left.close()
        try Self.wipe(folder)
        #expect(!Files.exists(folder.file("old.db")))
    }

    /// Otherwise the target could never be opened again.
    @Test func aSourceWithoutRowsThatStillMovesIsNotWiped() throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute("CREATE TABLE t(x)")
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(x)")
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "t" }
        database.close()
        let error = #expect(throws: MigrationError.self) { try Self.wipe(folder) }
        #expect(error?.code == .misuse)
        let again = try Database(path: folder.file("new.db"))
        try finishMigration(again)
        again.close()
        try Self.wipe(folder)
        #expect(!Files.exists(folder.file("old.db")))
    }

    private static func wipe(_ folder: TemporaryFolder) throws {
        try Database.wipeSource(atPath: folder.file("old.db"), movedTo: folder.file("new.db"))
    }

    private static func open(_ folder: TemporaryFolder) throws -> Database {
        try Database(path: folder.file("new.db"), movingAllOf: .file(folder.file("old.db")))
    }

    /// Somebody writes the source. A thread that moves all of the source waits for that writer, and fails.
    private static func beginsInVain(
        _ folder: TemporaryFolder,
        _ code: MigrationError.Code
    ) throws -> (holder: Connection, threads: Threads) {
        try source(folder, nil)
        let holder = try Connection(path: folder.file("old.db"))
        try holder.execute("PRAGMA journal_mode = WAL")
        try holder.execute("BEGIN IMMEDIATE")
        let threads = Threads()
        threads.start("first") { _ in
            let error = #expect(throws: MigrationError.self) { _ = try open(folder) }
            #expect(error?.code == code)
        }
        #expect(waitForFile(folder.file("new.db-wal")))
        return (holder, threads)
    }

    /// The move cannot begin while somebody writes the source. What others have written into the new file stays.
    @Test(arguments: [true, false]) func aFileThatSomebodyUsesIsNotTakenBack(_ isOpen: Bool) async throws {
        let folder = TemporaryFolder()
        let (holder, threads) = try Self.beginsInVain(folder, .locked)
        let other = try Connection(path: folder.file("new.db"))
        other.setBusyTimeout(milliseconds: 5000)
        if isOpen { #expect(try other.fetchValue(Int.self, "SELECT count(*) FROM log") == 0) }
        try other.execute("INSERT INTO log(rowid, n) VALUES (8, 8)")
        if !isOpen { other.close() }
        await threads.join()
        if isOpen { try other.execute("INSERT INTO log(rowid, n) VALUES (9, 9)") }
        other.close()
        try holder.execute("ROLLBACK")
        holder.close()
        let database = try Self.open(folder)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM log WHERE n > 1") == (isOpen ? 2 : 1))
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM v") == 299)
    }

    /// An old build upgrades the source meanwhile. Otherwise its rows would come, but not its new version.
    @Test(arguments: [
        "PRAGMA user_version = 18", "CREATE VIEW w AS SELECT 1", "CREATE TABLE later(x)", "DROP TRIGGER t",
    ])
    func aSourceThatIsUpgradedWhileItIsCopiedIsCopiedAgain(_ change: String) async throws {
        let folder = TemporaryFolder()
        let (holder, threads) = try Self.beginsInVain(folder, .sourceChanged)
        try holder.execute("UPDATE a SET x = x || '!'")
        try holder.execute(change)
        usleep(100_000)
        try holder.execute("COMMIT")
        await threads.join()
        let schema = "SELECT name FROM sqlite_master WHERE name NOT LIKE 'midstream%' ORDER BY 1"
        let names = texts(try holder.fetchAll(schema))
        let version = try holder.fetchValue(Int64.self, "PRAGMA user_version")
        #expect(try holder.fetchAll("SELECT 1 FROM sqlite_master WHERE name LIKE 'midstream_%'").isEmpty)
        holder.close()
        #expect(!Files.exists(folder.file("new.db")))
        let database = try Self.open(folder)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM v WHERE x LIKE '%!'") == 299)
        let new = try Connection(path: folder.file("new.db"))
        defer { new.close() }
        #expect(texts(try new.fetchAll(schema)) == names)
        #expect(try new.fetchValue(Int64.self, "PRAGMA user_version") == version)
    }

    /// The maker has died before all tables moved, or before it could check whether they are what was copied.
    @Test(
        arguments: ["made", "starting", "copying"],
        ["", "PRAGMA user_version = 18", "ALTER TABLE a ADD COLUMN c", "DROP TABLE log"]
    )
    func aFileThatIsBeingMadeIsItsMakersAlone(_ stage: String, change: String) async throws {
        let folder = TemporaryFolder()
        let (old, new, third) = (folder.file("old.db"), folder.file("new.db"), folder.file("third.db"))
        let holder = try Connection(path: old)
        try holder.execute("PRAGMA journal_mode = WAL")
        try holder.execute(
            script: """
                CREATE TABLE a(id INTEGER PRIMARY KEY, b); INSERT INTO a VALUES (1, 1), (2, 2); CREATE TABLE log(n);
                CREATE VIEW v AS SELECT * FROM a; PRAGMA user_version = 17
                """
        )
        @Sendable func open() throws -> Database { try Database(path: new, movingAllOf: .file(old), retirement: .drop) }
        var visitor: Database?
        if stage == "starting" {
            try await Self.cutShort(folder, holder, change.isEmpty ? "COMMIT" : change + "; COMMIT", open)
            #expect(try Connection(path: new).fetchValue("SELECT max(phase) FROM midstream_tables") == 0)
        } else {
            // The file was already open.
            visitor = try Database(path: new)
            #expect(try visitor?.fetchAll("SELECT * FROM sqlite_master").isEmpty == true)
            _ = try WholeFile.create(new, nil, from: old, nil)
        }
        if stage == "copying" {
            let maker = try Self.openToMake(new)
            try maker.addMigration(source: .file(old), retirement: .drop) { $0.sourceTable = $0.name }
            maker.close()
        }
        // An old build now changes the source.
        if stage != "starting", !change.isEmpty { try holder.execute(change) }
        holder.close()
        func isRefused(_ code: MigrationError.Code = .misuse, _ body: () throws -> Void) {
            let error = #expect(throws: MigrationError.self) { try body() }
            #expect(error?.code == code, "\(String(describing: error))")
        }
        let other = try Database(path: third)
        try other.execute("CREATE TABLE a(id INTEGER PRIMARY KEY, b)")
        for isAway in [true, false] {
            if isAway { Files.moveDatabase(old, to: old + "-away") }
            isRefused { _ = try Database(path: new) }
            isRefused { _ = try Database.readMigrationProgress(ofFile: new) }
            if let visitor {
                for sql in [
                    "SELECT count(*) FROM a", "INSERT INTO log VALUES (3)", "CREATE INDEX x ON log(n)", "VACUUM",
                ] {
                    isRefused { try visitor.execute(sql) }
                }
                isRefused { _ = try visitor.read { try $0.fetchAll("SELECT * FROM log") } }
                isRefused { try visitor.stepMigration() }
                isRefused { try visitor.cancelMigration() }
                isRefused { try visitor.addMigration(source: .file(third)) { _ in } }
                #expect(!visitor.isMigrated)
            }
            isRefused { try other.addMigration(source: .file(new)) { $0.sourceTable = $0.name } }
            isRefused { _ = try Database(path: folder.file("fourth.db"), movingAllOf: .file(new)) }
            isRefused(.unsupported) { try other.execute("ATTACH '\(new)' AS x") }
            let foreign = try ForeignConnection(new)
            isRefused { try foreign.install() }
            _ = foreign.close()
            if isAway {
                isRefused(.sourceUnavailable) {
                    _ = try Database(path: new, movingAllOf: .file(old), retirement: .drop)
                }
                Files.moveDatabase(old + "-away", to: old)
            }
        }
        other.close()
        visitor?.close()
        if !change.isEmpty { isRefused(.sourceChanged) { _ = try open() } }
        let database = try open()
        func read(_ sql: String) throws -> Int? { try database.fetchValue(Int.self, sql) }
        #expect(try read("SELECT count(*) FROM v") == 2)
        try finishMigration(database)
        #expect(try read("SELECT count(*) FROM v") == 2)
        #expect(try read("PRAGMA user_version") == (change.contains("18") ? 18 : 17))
        #expect(try MovingFixture.objects(new).filter { $0.contains(WholeFileNote.table) } == [])
    }

    /// Leaves the new file as it is while its tables are about to move and somebody writes the source.
    private static func cutShort(
        _ folder: TemporaryFolder,
        _ holder: Connection,
        _ script: String,
        _ open: @escaping @Sendable () throws -> Database
    ) async throws {
        let (new, kept) = (folder.file("new.db"), folder.file("kept.db"))
        try holder.execute("BEGIN IMMEDIATE")
        let threads = Threads()
        threads.start("opener") { _ in _ = try? open() }
        usleep(500_000)
        Files.copyDatabase(new, to: kept)
        try holder.execute(script: script)
        await threads.join()
        Files.removeDatabase(new)
        Files.copyDatabase(kept, to: new)
    }

    /// Opens a file as the maker of a whole file does.
    private static func openToMake(_ path: String) throws -> Database {
        var configuration = DatabaseConfiguration()
        configuration.movesWholeFile = true
        return try Database(path: path, configuration: configuration)
    }

    private static func maker(_ folder: TemporaryFolder) throws -> Database {
        let (old, new) = (folder.file("old.db"), folder.file("new.db"))
        try Connection(path: old).execute(
            script: """
                CREATE TABLE t(x INTEGER PRIMARY KEY); INSERT INTO t VALUES (1), (2);
                CREATE TABLE u(x INTEGER PRIMARY KEY); INSERT INTO u VALUES (1), (2)
                """
        )
        _ = try WholeFile.create(new, nil, from: old, nil)
        let maker = try openToMake(new)
        try maker.addMigration(source: .file(old), retirement: .drop) { $0.sourceTable = $0.name }
        return maker
    }

    /// While the copied source is away, an old build makes a new one of the same schema; or the source is restored
    /// without its claims.
    @Test func aFileThatWasMadeOfAnotherOneIsMadeAnew() throws {
        let folder = TemporaryFolder()
        let (old, new) = (folder.file("old.db"), folder.file("new.db"))
        let schema = "CREATE TABLE t(x); INSERT INTO t VALUES "
        try Connection(path: old).execute(script: schema + "(1), (2)")
        _ = try WholeFile.create(new, nil, from: old, nil)
        Files.moveDatabase(old, to: old + "-away")
        try Connection(path: old).execute(script: schema + "(3)")
        let error = #expect(throws: MigrationError.self) { _ = try Self.open(folder) }
        #expect(error?.code == .sourceChanged)
        let database = try Self.open(folder)
        #expect(texts(try database.fetchAll("SELECT x FROM t")) == ["3"])
        try finishMigration(database)
    }

    /// The source was claimed, or the new file was being taken back, when the process ended. Then an old build has made
    /// another file in the source's place, until the source is restored.
    @Test(arguments: [true, false]) func aClaimIsNotForgottenWhereAnotherFileIsThere(_ isWithdrawn: Bool) throws {
        let folder = TemporaryFolder()
        let (old, new) = (folder.file("old.db"), folder.file("new.db"))
        do {
            let maker = try Self.maker(folder)
            try maker.engine.withStepper { stepper in
                guard isWithdrawn else { return }
                try stepper.connection.execute("UPDATE \(WholeFileNote.table) SET source = NULL")
                try Setup(stepper: stepper).setBackWithdrawn(from: old)
            }
        }
        Files.moveDatabase(old, to: old + "-away")
        try Connection(path: old).execute(script: "CREATE TABLE t(x, y); CREATE TABLE u(x, y)")
        let error = #expect(throws: MigrationError.self) { _ = try Self.open(folder) }
        #expect(error?.code == .sourceChanged)
        #expect(try MovingFixture.objects(old).count == 2)
        Files.removeDatabase(old)
        Files.moveDatabase(old + "-away", to: old)
        let database = try Self.open(folder)
        try finishMigration(database)
        #expect(try MovingFixture.count("t", in: new) == 2)
    }

    /// Rows that were to come into the source come there again.
    @Test func whatWasTakenOverWithAWholeFileIsGivenBack() throws {
        let folder = TemporaryFolder()
        let (origin, old, new) = (folder.file("x.db"), folder.file("old.db"), folder.file("new.db"))
        let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, x)"
        try Connection(path: origin).execute(script: schema + "; INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
        try Connection(path: old).execute(script: schema + "; INSERT INTO t VALUES (10, 10)")
        do {
            let first = try Database(path: old)
            try first.addMigration(source: .file(origin)) { $0.sourceTable = $0.name }
            try first.stepMigration(rows: 1)
        }
        // This file was made before that, and has taken the moves over.
        try Connection(path: new).execute(
            script: schema
                + "; CREATE TABLE midstream_copy(source TEXT, file TEXT); INSERT INTO midstream_copy VALUES ('another', NULL)"
        )
        do {
            let maker = try Self.openToMake(new)
            try maker.addMigration(source: .file(old)) { $0.sourceTable = $0.name }
        }
        #expect(throws: MigrationError.self) { _ = try Self.open(folder) }
        let first = try Database(path: old)
        #expect(try first.fetchValue(Int.self, "SELECT sum(x) FROM t") == 16)
        try finishMigration(first)
        #expect(try MovingFixture.count("t", in: old) == 4)
    }

    @Test func aFileWithoutTablesMoves() throws {
        let folder = TemporaryFolder()
        try Connection(path: folder.file("old.db")).execute("PRAGMA user_version = 7")
        for _ in 0..<3 {
            let database = try Self.open(folder)
            #expect(try database.fetchValue(Int.self, "PRAGMA user_version") == 7)
            #expect(try database.stepMigration().isFinished)
        }
    }

    /// One table had another name when the maker asked which tables there are.
    @Test func aFileIsNotFinishedBeforeAllOfItsTablesMove() throws {
        let folder = TemporaryFolder()
        let (old, new) = (folder.file("old.db"), folder.file("new.db"))
        try Connection(path: old).execute(
            script: "CREATE TABLE t(x); INSERT INTO t VALUES (1), (2); CREATE TABLE u(x); INSERT INTO u VALUES (3)"
        )
        _ = try WholeFile.create(new, nil, from: old, nil)
        do {
            let maker = try Self.openToMake(new)
            try maker.addMigration(source: .file(old), retirement: .keep) { if $0.name == "t" { $0.sourceTable = "t" } }
            #expect(try !maker.engine.withStepper { try WholeFile.compare(old, nil, finishing: true, $0) })
        }
        #expect(throws: MigrationError.self) { try Database(path: new) }
        let database = try Self.open(folder)
        #expect(try database.fetchValue(Int.self, "SELECT x FROM u") == 3)
        try finishMigration(database)
    }

    /// The two tables have the same shape. So the source's schema as a whole is what it was when each table was fenced
    /// under the other one's name.
    @Test func aFileOfWhichTwoTablesWereSwappedIsMadeAnew() throws {
        let folder = TemporaryFolder()
        let old = folder.file("old.db")
        let plain = try Connection(path: old)
        try plain.execute(
            script: """
                CREATE TABLE "t"(x INTEGER PRIMARY KEY); INSERT INTO t VALUES (1), (2);
                CREATE TABLE "u"(x INTEGER PRIMARY KEY); INSERT INTO u VALUES (3)
                """
        )
        let swap = "ALTER TABLE t RENAME TO s; ALTER TABLE u RENAME TO t; ALTER TABLE s RENAME TO u"
        _ = try WholeFile.create(folder.file("new.db"), nil, from: old, nil)
        try plain.execute(script: swap)
        do {
            let maker = try Self.openToMake(folder.file("new.db"))
            try maker.addMigration(source: .file(old)) { $0.sourceTable = $0.name }
        }
        try plain.execute(script: swap)
        plain.close()
        let error = #expect(throws: MigrationError.self) { _ = try Self.open(folder) }
        #expect(error?.code == .sourceChanged)
        let database = try Self.open(folder)
        for _ in 0..<2 {
            #expect(texts(try database.fetchAll("SELECT x FROM t ORDER BY x")) == ["1", "2"])
            #expect(texts(try database.fetchAll("SELECT x FROM u")) == ["3"])
            try finishMigration(database)
        }
    }

    /// When the next process compares, what had changed is as it was before.
    @Test(arguments: [0, 1, 2]) func aFileThatIsTakenBackIsNotGoneOnWith(_ steps: Int) throws {
        let folder = TemporaryFolder()
        do {
            let maker = try Self.maker(folder)
            try maker.cancelMigration()
            for _ in 0..<steps { try maker.stepMigration() }
        }
        if steps < 2 {
            let error = #expect(throws: MigrationError.self) { _ = try Self.open(folder) }
            #expect(error?.code == .sourceChanged)
        }
        let database = try Self.open(folder)
        try database.execute("INSERT INTO t VALUES (3)")
        try finishMigration(database)
        for table in ["t", "u"] {
            let count = try database.fetchValue(Int.self, "SELECT count(*) FROM \(table)")
            #expect(count == (table == "t" ? 3 : 2))
        }
    }

    /// A process that takes the file back makes steps. Another process has begun a table anew meanwhile.
    @Test func noRowComesIntoAFileThatIsBeingMade() throws {
        let folder = TemporaryFolder()
        let maker = try Self.maker(folder)
        try maker.cancelMigration(of: ["t"])
        for _ in 0..<20 { try maker.stepMigration() }
        #expect(try MovingFixture.count("u", in: folder.file("new.db")) == 0)
        #expect(try MovingFixture.count("u", in: folder.file("old.db")) == 2)
    }

    /// A table that was added later is about to move when the process dies, and the source is away.
    @Test(arguments: [SourceRetirement.keep, .drop])
    func aTableThatIsAboutToMoveKeepsItsFileFromBeingOpenedWithoutTheSource(_ retirement: SourceRetirement) async throws
    {
        let folder = TemporaryFolder()
        let (old, new) = (folder.file("old.db"), folder.file("new.db"))
        try Connection(path: old).execute(script: "CREATE TABLE t(x); INSERT INTO t VALUES (1); CREATE TABLE rest(x)")
        @Sendable func open() throws -> Database {
            try Database(path: new, movingAllOf: .file(old), retirement: retirement)
        }
        do { try finishMigration(open()) }
        let holder = try Connection(path: old)
        try holder.execute("PRAGMA journal_mode = WAL")
        try holder.execute(script: "CREATE TABLE late(x); INSERT INTO late VALUES (1), (2)")
        try Connection(path: new).execute("CREATE TABLE late(x)")
        try await Self.cutShort(folder, holder, "ROLLBACK", open)
        holder.close()
        #expect(try Connection(path: new).fetchValue("SELECT min(phase) FROM midstream_tables") == 0)
        Files.moveDatabase(old, to: old + "-away")
        let error = #expect(throws: MigrationError.self) { _ = try open() }
        #expect(error?.code == .sourceUnavailable)
        Files.moveDatabase(old + "-away", to: old)
        #expect(try open().fetchValue(Int.self, "SELECT count(*) FROM late") == 2)
    }

    /// The file under the name of the target contains nothing, and neither does what is left of it after a rollback.
    @Test(arguments: ["header", "large", "journal"]) func aFileWithoutAnythingIsNotOpenedWithoutItsSource(
        _ kind: String
    )
        throws
    {
        let folder = TemporaryFolder()
        let (old, new) = (folder.file("old.db"), folder.file("new.db"))
        try Connection(path: old).execute(script: "CREATE TABLE t(x); INSERT INTO t VALUES (1), (2)")
        switch kind {
        case "header": try Database(path: new).close()
        case "large":
            try Connection(path: new).execute(
                script: "CREATE TABLE x(x); INSERT INTO x VALUES (zeroblob(100000)); DROP TABLE x"
            )
            #expect(Files.size(new) > 65_536)
        default:
            let cut = folder.file("cut.db")
            let connection = try Connection(path: cut)
            try connection.execute(script: "PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN")
            for number in 0..<20 { try connection.execute("CREATE TABLE x\(number)(x)") }
            try connection.execute("INSERT INTO x0 VALUES (zeroblob(100000))")
            Files.copyDatabase(cut, to: new)
            #expect(Files.exists(new + "-journal") && Files.size(new) > 0)
        }
        Files.moveDatabase(old, to: old + "-away")
        let error = #expect(throws: MigrationError.self) { _ = try Database(path: new, movingAllOf: .file(old)) }
        #expect(error?.code == .sourceUnavailable)
        Files.moveDatabase(old + "-away", to: old)
        let database = try Database(path: new, movingAllOf: .file(old))
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 2)
        try finishMigration(database)
    }

    /// A table of the source has moved to another file. A table that the application creates under its name is the
    /// application's own.
    @Test func theNewFileMayGetATableWhoseNamesakeHasMovedElsewhere() throws {
        let folder = TemporaryFolder()
        let (old, new) = (folder.file("old.db"), folder.file("new.db"))
        try Connection(path: old).execute(script: "CREATE TABLE t(x); INSERT INTO t VALUES (1), (2); CREATE TABLE u(x)")
        let first = try Database(path: folder.file("first.db"))
        try first.execute("CREATE TABLE t(x)")
        try first.addMigration(source: .file(old)) { $0.sourceTable = $0.name }
        try finishMigration(first)
        first.close()
        func open() throws -> Database { try Database(path: new, movingAllOf: .file(old)) }
        let database = try open()
        try finishMigration(database)
        try database.execute("DROP VIEW IF EXISTS t; CREATE TABLE t(x); INSERT INTO t VALUES (9)")
        database.close()
        #expect(try open().fetchValue(Int.self, "SELECT x FROM t") == 9)
    }

    /// An old build upgrades the source before one of its tables is fenced, and the maker could not take the file back.
    @Test(arguments: [
        "ALTER TABLE t ADD COLUMN extra", "ALTER TABLE t RENAME COLUMN x TO y", "ALTER TABLE t RENAME TO other",
        "DROP TABLE u",
        "ALTER TABLE t RENAME TO backup; CREATE TABLE t(x, extra); INSERT INTO t(x) SELECT x FROM backup; DROP TABLE backup",
    ])
    func aFileThatWasMadeOfAnotherSchemaIsMadeAnew(_ change: String) throws {
        if change.contains("RENAME COLUMN"), Connection.libraryVersionNumber < 3_025_000 { return }
        let folder = TemporaryFolder()
        let (old, new) = (folder.file("old.db"), folder.file("new.db"))
        try Connection(path: old).execute(script: "CREATE TABLE t(x); INSERT INTO t VALUES (1), (2); CREATE TABLE u(x)")
        #expect(try WholeFile.create(new, nil, from: old, nil) != nil)
        try Connection(path: old).execute(script: change)
        let before = try Connection(path: old).fetchAll("SELECT name, sql FROM sqlite_master ORDER BY 1")
        let error = #expect(throws: MigrationError.self) { _ = try Database(path: new, movingAllOf: .file(old)) }
        #expect(error?.code == .sourceChanged)
        let database = try Database(path: new, movingAllOf: .file(old))
        let table = change.contains("TO other") ? "other" : "t"
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM \(table)") == 2)
        try finishMigration(database)
        #expect(try database.fetchAll("SELECT name, sql FROM sqlite_master ORDER BY 1") == before)
    }

    /// The file under the name of the target contains nothing. Another process may have opened it before, for instance.
    @Test(arguments: [true, false]) func aFileWithoutAnythingIsFilled(_ isByDatabase: Bool) throws {
        let folder = TemporaryFolder()
        let (old, new) = (folder.file("old.db"), folder.file("new.db"))
        try Connection(path: old).execute(script: "CREATE TABLE t(x); INSERT INTO t VALUES (1), (2)")
        if isByDatabase {
            try Database(path: new).close()
        } else {
            try Connection(path: new).execute("PRAGMA journal_mode = WAL")
        }
        #expect(Files.size(new) > 0)
        let database = try Database(path: new, movingAllOf: .file(old))
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 2)
        try finishMigration(database)
    }

    /// The file is already open when it is made of another one.
    @Test func nobodyReadsTheTablesOfAFileThatWasMadeBeforeTheyMove() throws {
        let folder = TemporaryFolder()
        let (old, new) = (folder.file("old.db"), folder.file("new.db"))
        try Connection(path: old).execute(script: "CREATE TABLE t(x); INSERT INTO t VALUES (1), (2)")
        let visitor = try Database(path: new)
        #expect(try visitor.fetchAll("SELECT * FROM sqlite_master").isEmpty)
        #expect(try WholeFile.create(new, nil, from: old, nil) != nil)
        for sql in ["SELECT count(*) FROM t", "INSERT INTO t VALUES (3)"] {
            let error = #expect(throws: MigrationError.self) { try visitor.execute(sql) }
            #expect(error?.code == .misuse)
        }
        let error = #expect(throws: MigrationError.self) { try visitor.read { try $0.fetchAll("SELECT * FROM t") } }
        #expect(error?.code == .misuse)
        let database = try Database(path: new, movingAllOf: .file(old))
        #expect(try visitor.fetchValue(Int.self, "SELECT count(*) FROM t") == 2)
        try visitor.execute("INSERT INTO t VALUES (3)")
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 3)
    }

    /// A file may have notes of claims in files that may come back. The file that is made in its place has these notes
    /// as well.
    @Test func whatAFileThatIsMadeAnewTellsOfClaimsStays() throws {
        let folder = TemporaryFolder()
        let (old, new) = (folder.file("old.db"), folder.file("new.db"))
        try Connection(path: old).execute(
            script: "CREATE TABLE t(x); INSERT INTO t VALUES (1), (2); CREATE VIEW v AS SELECT * FROM t"
        )
        _ = try WholeFile.create(new, nil, from: old, nil)
        try Connection(path: new).execute(
            script: """
                CREATE TABLE midstream_unreleased(id INTEGER PRIMARY KEY, moved INTEGER NOT NULL, source TEXT, file TEXT, writes INTEGER, retirement TEXT);
                INSERT INTO midstream_unreleased VALUES (1, -1, 'elsewhere.db', NULL, NULL, NULL)
                """
        )
        try Connection(path: old).execute("ALTER TABLE t ADD COLUMN extra")
        func open() throws -> Database { try Database(path: new, movingAllOf: .file(old)) }
        let error = #expect(throws: MigrationError.self) { _ = try open() }
        #expect(error?.code == .sourceChanged)
        let database = try open()
        #expect(texts(try database.fetchAll("SELECT * FROM v")) == ["1|NULL", "2|NULL"])
        try finishMigration(database)
        database.close()
        let plain = try Connection(path: new)
        #expect(
            try plain.fetchValue(Int.self, "SELECT count(*) FROM midstream_unreleased WHERE source = 'elsewhere.db'")
                == 1
        )
    }

    /// The slower processes find that the source is not what it was, and take nothing back.
    @Test func whatHasRetiredMeanwhileIsNoChange() async throws {
        for _ in 0..<10 {
            let folder = TemporaryFolder()
            try Self.source(folder, nil)
            let threads = Threads()
            for name in ["a", "b", "c"] {
                threads.start(name) { threads in
                    let (new, old) = (folder.file("new.db"), folder.file("old.db"))
                    let database = try Database(path: new, movingAllOf: .file(old), retirement: .drop)
                    for _ in 0..<2 {
                        let count = try database.fetchValue(Int.self, "SELECT count(*) FROM v")
                        if count != 299 { threads.note("\(name) sees \(String(describing: count))") }
                        try finishMigration(database)
                    }
                }
            }
            await threads.join()
        }
    }

    /// A process that cannot make the file removes it, beside a process that can make it and has waited for that.
    @Test func aFileThatCannotBeMadeIsNotRemovedFromUnderOthers() async throws {
        for _ in 0..<60 {
            let folder = TemporaryFolder()
            let (good, bad, new) = (folder.file("old.db"), folder.file("bad.db"), folder.file("new.db"))
            try Connection(path: good).execute("CREATE TABLE t(x)")
            try Connection(path: bad).execute(script: "CREATE TABLE t(x); CREATE TABLE midstream_state(x)")
            let threads = Threads()
            for number in 0..<2 {
                threads.start("fails \(number)") { threads in
                    while !threads.isOver {
                        do {
                            if try WholeFile.create(new, nil, from: bad, nil) != nil {
                                threads.note("made of the bad one")
                            }
                        } catch let error as MigrationError where error.code == .unsupported {}
                    }
                }
            }
            threads.start("makes it") { threads in
                defer { threads.end() }
                usleep(UInt32.random(in: 0..<3000))
                _ = try WholeFile.create(new, nil, from: good, nil)
                let plain = try Connection(path: new)
                // Other connections check whether the file contains anything.
                plain.setBusyTimeout(milliseconds: 5000)
                try plain.execute("INSERT INTO t VALUES (1)")
                plain.close()
                usleep(3000)
            }
            await threads.join()
            #expect(try MovingFixture.count("t", in: new) == 1)
        }
    }

    /// Two processes start for the first time.
    @Test func aFileIsMadeOnce() async throws {
        let folder = TemporaryFolder()
        try Self.source(folder, nil)
        let threads = Threads()
        for name in ["a", "b", "c"] {
            threads.start(name) { threads in
                let database = try Database(path: folder.file("new.db"), movingAllOf: .file(folder.file("old.db")))
                let count = try database.fetchValue(Int.self, "SELECT count(*) FROM v")
                if count != 299 { threads.note("\(name) sees \(String(describing: count))") }
            }
        }
        await threads.join()
    }
}
