import Dispatch
import Midstream
import SQLiteConnection
import Synchronization
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Rows that the target does not take are set aside, or mended by the application, and the migration goes on.
@Suite struct RefusedRowPolicyTests {
    private let folder = TemporaryFolder()

    /// Of 1,000 rows each hundredth is negative, which the target does not take, and 500 has no name.
    private func database(
        _ table: String = "(id INTEGER PRIMARY KEY, x INTEGER CHECK (x > 0), name TEXT NOT NULL)",
        policy: RefusedRowPolicy
    ) throws -> Database {
        let isNew = !Files.exists(folder.file("old.db"))
        if isNew {
            let old = try Connection(path: folder.file("old.db"))
            try old.execute(
                script: """
                    CREATE TABLE s(id INTEGER PRIMARY KEY, x INTEGER, name TEXT);
                    INSERT INTO s WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
                        SELECT i, CASE i % 100 WHEN 0 THEN -i ELSE i END, CASE i WHEN 500 THEN NULL ELSE 'n' || i END FROM n
                    """
            )
            old.close()
        }
        let database = try Database(path: folder.file("new.db"))
        if isNew { try database.execute("CREATE TABLE t\(table)") }
        try database.addMigration(source: .file(folder.file("old.db"))) { wish in
            guard wish.name == "t" else { return }
            wish.sourceTable = "s"
            wish.refusedRows = policy
        }
        return database
    }

    private static let aside = "SELECT midstream_rowid, id, x, name FROM midstream_refused_t ORDER BY id"

    /// It is the application's to deal with.
    @Test(
        arguments: [
            "DROP TABLE midstream_refused_t", "ALTER TABLE midstream_refused_t RENAME TO mine",
            "DROP TABLE midstream_refused_t; CREATE TABLE midstream_refused_t(x)",
        ]
    )
    func theTableOfThoseThatWereSetAsideMayGoMeanwhile(_ change: String) throws {
        let database = try database(policy: .setAside)
        try database.stepMigration(rows: 350)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM midstream_refused_t") == 3)
        try database.execute(change)
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 990)
        let names = try database.fetchAll(
            "SELECT name FROM sqlite_master WHERE name LIKE 'midstream_refused_t%' ORDER BY length(name)"
        )
        let table: String = try #require(names.last).get(0)
        #expect(
            try database.fetchValue(Int.self, "SELECT count(*) FROM \(table) WHERE midstream_rowid = id AND id > 350")
                == 7
        )
    }

    @Test(arguments: ["steps", "drain", "rows"]) func theyAreSetAsideWithTheReason(_ way: String) throws {
        let database = try database(policy: .setAside)
        let told = Mutex<Int64>(0)
        database.onMigrated { event in
            if case .rowsSetAside("t", let count) = event { told.withLock { $0 += count } }
        }
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 1000)
        switch way {
        case "steps": try database.stepMigration()
        case "rows": for _ in 0..<7 { try database.stepMigration(rows: 150) }
        default: try database.execute("ALTER TABLE t ADD COLUMN y")
        }
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 990)
        let rows = texts(try database.fetchAll(Self.aside))
        #expect(rows.count == 10)
        #expect(rows[0] == "100|100|-100|n100" && rows[4] == "500|500|-500|NULL")
        let reasons = try database.fetchAll("SELECT DISTINCT midstream_reason FROM midstream_refused_t")
        #expect(texts(reasons).contains { $0.contains("constraint failed") })
        if way != "drain" { #expect(told.withLock { $0 } == 10) }
        #expect(try MovingFixture.count("s", in: folder.file("old.db")) == 0)
        // What is kept can be mended later, and is the application's.
        try database.execute(
            "INSERT INTO t(id, x, name) SELECT id, abs(x), coalesce(name, '') FROM midstream_refused_t"
        )
        try database.execute("DROP TABLE midstream_refused_t")
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 1000)
    }

    @Test func theProgressNamesTheTable() throws {
        let database = try database(policy: .setAside)
        try database.stepMigration(rows: 150)
        let table = try database.readMigrationProgress().tables[0]
        #expect(table.refusedRowsTable == "midstream_refused_t")
        #expect(table.movedRows == 150)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 999)
    }

    @Test func theApplicationMendsThem() throws {
        let asked = Mutex<[RefusedRow]>([])
        let database = try database(
            policy: .ask { row in
                asked.withLock { $0.append(row) }
                guard case .integer(let x) = row.values["x"], x != -700 else { return .setAside }
                return .replace(["X": .integer(-x), "name": .text("mended")])
            }
        )
        try finishMigration(database)
        let rows = asked.withLock { $0 }
        #expect(rows.count == 10)
        #expect(rows[0].rowID == 100 && rows[0].table == "t" && rows[0].sourceTable == "s")
        #expect(rows[0].values == ["id": .integer(100), "x": .integer(-100), "name": .text("n100")])
        #expect(ResultCode.constraint ~= rows[0].reason.code)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t WHERE name = 'mended' AND x = id") == 9)
        #expect(texts(try database.fetchAll(Self.aside)) == ["700|700|-700|n700"])
    }

    /// It would wait for the step that it is asked in.
    @Test(.timeLimit(.minutes(1))) func whoIsAskedCannotWrite() async throws {
        let asked = Mutex<Database?>(nil)
        let codes = Mutex<Set<MigrationError.Code?>>([])
        let isAsked = DispatchSemaphore(value: 0)
        let database = try database(
            policy: .ask { _ in
                isAsked.signal()
                // By then another thread has the writer, and waits for the step.
                usleep(50_000)
                do {
                    try asked.withLock(\.self)?.execute("CREATE TABLE other(x)")
                    codes.withLock { _ = $0.insert(nil) }
                } catch {
                    codes.withLock { _ = $0.insert((error as? MigrationError)?.code) }
                }
                return .setAside
            }
        )
        asked.withLock { $0 = database }
        let threads = Threads()
        threads.start("writer") { _ in
            isAsked.wait()
            try database.execute("UPDATE t SET x = x WHERE id = 7")
        }
        try finishMigration(database)
        await threads.join()
        #expect(codes.withLock(\.self) == [.misuse])
        asked.withLock { $0 = nil }
        try database.execute("CREATE TABLE other(x)")
    }

    @Test func whatIsStillRefusedStops() throws {
        let database = try database(policy: .ask { _ in .replace(["x": .integer(-5)]) })
        let error = #expect(throws: MigrationError.self) { try finishMigration(database) }
        #expect(error?.code == .rowRefused && error?.key == 100)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 1000)
    }

    /// Who is asked, and has no row set aside, finds no table for such rows.
    @Test(arguments: [true, false]) func noTableIsMadeForRowsThatAreNotSetAside(_ mends: Bool) throws {
        let database = try database(
            policy: .ask { row in
                mends ? .replace(["x": row.values["id"] ?? .integer(1), "name": .text("mended")]) : .stop
            }
        )
        if mends {
            try finishMigration(database)
        } else {
            #expect(throws: MigrationError.self) { try finishMigration(database) }
        }
        #expect(try database.readMigrationProgress().tables.allSatisfy { $0.refusedRowsTable == nil })
        #expect(try database.fetchOne("SELECT 1 FROM sqlite_master WHERE name LIKE 'midstream_refused%'") == nil)
    }

    /// A reader would find two rows of one key.
    @Test(arguments: ["TEXT COLLATE NOCASE UNIQUE", "TEXT UNIQUE"], ["N2", "n2", "n1"])
    func anAnswerHasNoKeyOfARowThatIsToCome(_ type: String, _ name: String) throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(
            script: """
                CREATE TABLE t(id INTEGER PRIMARY KEY, name \(type), b);
                INSERT INTO t VALUES (1, 'n1', NULL), (2, 'n2', 0), (3, 'n3', 0)
                """
        )
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, name \(type), b NOT NULL)")
        try database.addMigration(source: .file(folder.file("old.db"))) { table in
            table.sourceTable = "t"
            table.refusedRows = .ask { _ in .replace(["name": .text(name), "b": .integer(0)]) }
        }
        if name == "n1" || name == "N2" && !type.contains("NOCASE") {
            try finishMigration(database)
        } else {
            let error = #expect(throws: MigrationError.self) { try database.stepMigration(rows: 1) }
            #expect(error?.code == .rowRefused && error?.key == 1)
            #expect(error?.cause.map { "\($0)" }?.contains("UNIQUE constraint failed: t.name") == true)
        }
        for term in ["name", "+name"] {
            #expect(
                texts(try database.fetchAll("SELECT id FROM t WHERE \(term) = 'n2' ORDER BY id")) == ["2"]
            )
        }
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 3)
    }

    /// Nor one of another source's, whichever of the two comes first, nor one that only a partial index keeps apart.
    @Test(arguments: ["s1", "s2"], ["n21", "n13", "own"])
    func anAnswerHasNoKeyOfARowOfAnotherSource(_ refused: String, _ name: String) throws {
        let folder = TemporaryFolder()
        for (file, first) in [("s1", 10), ("s2", 20)] {
            let old = try Connection(path: folder.file(file))
            try old.execute(
                script: """
                    CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT UNIQUE, b);
                    INSERT INTO t SELECT i, 'n' || i, 1 FROM (SELECT \(first) AS i UNION SELECT \(first + 1) UNION SELECT \(first + 2)
                        UNION SELECT \(first + 3));
                    """
            )
            if file == refused { try old.execute("UPDATE t SET b = NULL WHERE id % 10 = 1") }
            old.close()
        }
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT UNIQUE, b NOT NULL)")
        for file in ["s1", "s2"] {
            try database.addMigration(source: .file(folder.file(file))) { table in
                table.sourceTable = "t"
                table.refusedRows = .ask { _ in .replace(["name": .text(name), "b": .integer(0)]) }
            }
        }
        var refusal: MigrationError?
        do { try finishMigration(database) } catch let error as MigrationError { refusal = error }
        let names = texts(try database.fetchAll("SELECT name FROM t ORDER BY +name"))
        #expect(names.count == 8 && Set(names).count == 8)
        if name == "own" {
            #expect(refusal == nil)
        } else {
            // Which of the rows moves first does not matter: natively both could not be there.
            let isItsOwn = name == (refused == "s1" ? "n11" : "n21")
            #expect((refusal == nil) == isItsOwn)
            #expect(refusal.map { $0.code == .rowRefused } ?? true)
        }
    }

    /// What another source has matters for other values alone.
    @Test(arguments: [true, false]) func anAnswerWithoutValuesNeedsNoOtherSource(_ mends: Bool) throws {
        let folder = TemporaryFolder()
        for (file, first) in [("s1", 10), ("s2", 20)] {
            let old = try Connection(path: folder.file(file))
            try old.execute(
                script:
                    "CREATE TABLE t(id INTEGER PRIMARY KEY, b); INSERT INTO t VALUES (\(first), NULL), (\(first + 1), 1)"
            )
            old.close()
        }
        func begin(_ database: Database, _ files: [String]) throws {
            for file in files {
                try database.addMigration(source: .file(folder.file(file))) { table in
                    table.sourceTable = "t"
                    table.refusedRows = .ask { _ in mends ? .replace(["b": .integer(0)]) : .setAside }
                }
            }
        }
        let first = try Database(path: folder.file("new.db"))
        try first.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, b NOT NULL)")
        try begin(first, ["s1", "s2"])
        first.close()
        let database = try Database(path: folder.file("new.db"))
        Files.moveDatabase(folder.file("s2"), to: folder.file("away"))
        try begin(database, ["s1"])
        let error = #expect(throws: MigrationError.self) { try finishMigration(database) }
        #expect(error?.code == .sourceUnavailable)
        #expect(try MovingFixture.count("t", in: folder.file("new.db")) == (mends ? 0 : 1))
        Files.moveDatabase(folder.file("away"), to: folder.file("s2"))
        try begin(database, ["s2"])
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == (mends ? 4 : 2))
    }

    @Test(arguments: [
        "CREATE UNIQUE INDEX u ON t(x) WHERE name <> ''", "CREATE UNIQUE INDEX u ON t(name) WHERE x <> 0",
        "CREATE UNIQUE INDEX u ON t(abs(x))",
    ])
    func anAnswerLeavesAloneWhatCannotBeLookedUp(_ index: String) throws {
        let database = try database(
            "(id INTEGER PRIMARY KEY, x INTEGER CHECK (x > 0), name TEXT NOT NULL); \(index)",
            policy: .ask { row in
                guard row.values["x"] == .integer(-500) else { return .setAside }
                return .replace(["x": .integer(501), "name": .text("n501")])
            }
        )
        let error = #expect(throws: MigrationError.self) { try finishMigration(database) }
        #expect(error?.code == .misuse && error?.message.contains("unique index u") == true)
        // How far it has come depends on the time that batches take.
        let all = "SELECT (SELECT count(*) FROM t) + (SELECT count(*) FROM midstream_refused_t)"
        #expect(try database.fetchValue(Int.self, all) == 1000)
        #expect(try database.fetchValue(Int.self, "SELECT x FROM t WHERE id = 500") == -500)
    }

    /// It would wait for itself.
    @Test func theAnswerCannotWrite() throws {
        let told = Mutex<MigrationError?>(nil)
        let path = folder.file("new.db")
        let other = Mutex<Database?>(nil)
        let database = try database(
            policy: .ask { _ in
                do {
                    try other.withLock { try $0?.execute("DELETE FROM t WHERE id = 1") }
                } catch {
                    told.withLock { $0 = error as? MigrationError }
                }
                return .setAside
            }
        )
        other.withLock { $0 = database }
        try finishMigration(database)
        #expect(told.withLock { $0?.code } == .misuse)
        #expect(try MovingFixture.count("t", in: path) == 990)
    }

    /// The names of the table's own columns are the source's as well.
    @Test func theSourceMayHaveTheNamesOfTheReport() throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(
            script: """
                CREATE TABLE t(id INTEGER PRIMARY KEY, midstream_reason, Midstream_RowID, midstream_rowid_2);
                INSERT INTO t VALUES (1, NULL, 'a', 'b'), (2, 'r', 'c', 'd')
                """
        )
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, midstream_reason NOT NULL, Midstream_RowID, midstream_rowid_2)"
        )
        try database.addMigration(source: .file(folder.file("old.db"))) { table in
            table.sourceTable = "t"
            table.refusedRows = .setAside
        }
        try finishMigration(database)
        #expect(
            texts(try database.fetchAll("SELECT * FROM midstream_refused_t"))
                == ["NOT NULL constraint failed: t.midstream_reason|1|1|NULL|a|b"]
        )
        let columns = try database.fetchAll("PRAGMA table_info(midstream_refused_t)")
        #expect(
            try columns.map { try $0.get(1, as: String.self) }.prefix(2) == ["midstream_reason_2", "midstream_rowid_3"]
        )
    }

    @Test(arguments: [1998, 1999]) func aRowThatIsSetAsideHasTwoColumnsMore(_ count: Int) throws {
        let folder = TemporaryFolder()
        let columns = "(id INTEGER PRIMARY KEY, " + (2...count).map { "c\($0)" }.joined(separator: ", ")
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(
            script: "CREATE TABLE t\(columns)); INSERT INTO t(id) VALUES (1), (2); UPDATE t SET c9 = 5 WHERE id = 2"
        )
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t\(columns), CHECK (c9 IS NOT NULL))")
        func begin() throws {
            try database.addMigration(source: .file(folder.file("old.db"))) { table in
                table.sourceTable = "t"
                table.refusedRows = .setAside
            }
        }
        guard count <= 1998 else {
            var error = #expect(throws: MigrationError.self) { try begin() }
            #expect(error?.code == .unsupported)
            // Nor when the policy changes.
            try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "t" }
            try begin()
            error = #expect(throws: MigrationError.self) { try finishMigration(database) }
            #expect(error?.code == .unsupported)
            #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 2)
            return
        }
        try begin()
        try finishMigration(database)
        #expect(texts(try database.fetchAll("SELECT midstream_rowid, id, c9 FROM midstream_refused_t")) == ["1|1|NULL"])
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 1)
    }

    @Test(arguments: ["id", "nowhere"]) func whatCannotBeReplacedIsAnError(_ column: String) throws {
        let database = try database(policy: .ask { _ in .replace([column: .integer(1)]) })
        let error = #expect(throws: MigrationError.self) { try finishMigration(database) }
        #expect(error?.code == .misuse)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 1000)
    }

    /// A process that does not say what is to be done stops, whatever another one said.
    @Test func thePolicyMayChange() throws {
        try database(policy: .ask { _ in .setAside }).close()
        let silent = try Database(path: folder.file("new.db"))
        #expect(throws: MigrationError.self) { try finishMigration(silent) }
        silent.close()
        let stopping = try database(policy: .stop)
        #expect(throws: MigrationError.self) { try finishMigration(stopping) }
        stopping.close()
        let database = try database(policy: .setAside)
        try finishMigration(database)
        #expect(texts(try database.fetchAll(Self.aside)).count == 10)
    }

    @Test func withoutRowIDsTheKeyIsAmongTheColumns() throws {
        let database = try database(
            "(id INTEGER PRIMARY KEY, x INTEGER CHECK (x > 0), name TEXT NOT NULL) WITHOUT ROWID",
            policy: .setAside
        )
        try finishMigration(database)
        #expect(texts(try database.fetchAll(Self.aside)).first == "NULL|100|-100|n100")
    }

    /// Whether the application gives all columns back as it was shown them, or one alone.
    @Test(arguments: [true, false], ["", " WITHOUT ROWID"])
    func whatIsNotMendedStaysAsItIs(_ givesAll: Bool, _ options: String) throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(script: "CREATE TABLE s(id TEXT PRIMARY KEY, a, x, y TEXT)\(options)")
        try old.execute(
            """
            INSERT INTO s VALUES (CAST(x'ff31' AS TEXT), NULL, CAST(x'ff41' AS TEXT), CAST(x'410042' AS TEXT)),
                ('2', NULL, -0.0, 5), ('3', 'a', x'ff', NULL)
            """
        )
        let all = "SELECT hex(id), ifnull(a, 'mended'), typeof(x), quote(CAST(x AS BLOB)), hex(y) FROM "
        let expected = texts(try old.fetchAll(all + "s ORDER BY id"))
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id TEXT PRIMARY KEY, a NOT NULL, x, y TEXT)\(options)")
        try database.addMigration(source: .file(folder.file("old.db"))) { wish in
            guard wish.name == "t" else { return }
            wish.sourceTable = "s"
            wish.refusedRows = .ask { row in
                var values = givesAll ? row.values : [:]
                values["a"] = .text("mended")
                return .replace(values)
            }
        }
        try finishMigration(database)
        #expect(texts(try database.fetchAll(all + "t ORDER BY id")) == expected)
    }
}
