import Midstream
import SQLiteConnection
import Testing

/// If a call says something of a table that already moves, it is what the table's move began with, or it takes effect.
@Suite struct SaidOtherwiseTests {
    private typealias Filter = @Sendable (inout TableMigration) -> Void

    private static let first: Filter = { table in
        table.sourceTable = "s"
        table.unmatchedColumns = .ignored
        table.columns = [
            "a": .expression("lower( a )"), "b": .column("c"), "d": .value(.real(1.5)), "e": .defaultValue,
        ]
    }

    private func begin() throws -> TemporaryFolder {
        let folder = TemporaryFolder()
        try Connection(path: folder.file("old.db")).execute(
            script:
                "CREATE TABLE s(id INTEGER PRIMARY KEY, a, c, left); INSERT INTO s VALUES (1, 'A', 2, 3), (2, 'B', 2, 3)"
        )
        let database = try Database(path: folder.file("new.db"))
        try database.execute(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b, d, e DEFAULT (1 + 2), f DEFAULT CURRENT_TIMESTAMP)"
        )
        try database.addMigration(source: .file(folder.file("old.db")), filter: Self.first)
        database.close()
        return folder
    }

    @Test func theSameGoesOn() throws {
        let folder = try begin()
        let database = try Database(path: folder.file("new.db"))
        for _ in 0..<2 {
            try database.addMigration(source: .file(folder.file("old.db"))) { table in
                Self.first(&table)
                table.columns["A"] = .expression("LOWER(a) -- in other words")
                table.columns["a"] = nil
            }
            try database.stepMigration(rows: 1)
        }
        try finishMigration(database)
        #expect(texts(try database.fetchAll("SELECT id, a, b, d, e FROM t")) == ["1|a|2|1.5|3", "2|b|2|1.5|3"])
        // Nothing moves any more.
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "s" }
    }

    private static let others: [(String, Filter)] = [
        ("a", { $0.columns["a"] = .expression("upper(a)") }), ("a", { $0.columns["a"] = nil }),
        ("a", { $0.columns["a"] = .column("a") }), ("b", { $0.columns["b"] = .column("a") }),
        ("b", { $0.columns["b"] = .expression("c") }), ("d", { $0.columns["d"] = .value(.integer(1)) }),
        ("d", { $0.columns["d"] = .defaultValue }), ("e", { $0.columns["e"] = .value(.integer(4)) }),
        ("id", { $0.columns["id"] = .expression("a") }), ("f", { $0.unmatchedColumns = .refused }),
        ("verification", { $0.verification = .count }), ("condition", { $0.condition = "id = 1" }),
    ]

    @Test(arguments: others.indices) func somethingElseIsRefused(_ index: Int) throws {
        let folder = try begin()
        let database = try Database(path: folder.file("new.db"))
        let (what, change) = Self.others[index]
        let error = #expect(throws: MigrationError.self) {
            try database.addMigration(source: .file(folder.file("old.db"))) { table in
                Self.first(&table)
                change(&table)
            }
        }
        #expect(error?.code == .misuse && error?.table == "t", "\(String(describing: error))")
        if what != "condition" { #expect(error?.message.contains(" \(what) ") == true, "\(error?.message ?? "")") }
        try finishMigration(database)
        #expect(try database.fetchValue(String.self, "SELECT a FROM t") == "a")
    }

    @Test func anotherRetirementIsRefusedUntilAllHasMoved() throws {
        let folder = try begin()
        let database = try Database(path: folder.file("new.db"))
        let source = MigrationSource.file(folder.file("old.db"))
        let error = #expect(throws: MigrationError.self) {
            try database.addMigration(source: source, retirement: .keep, filter: Self.first)
        }
        #expect(error?.code == .misuse && error?.message.contains("retirement .drop, and now retirement .keep") == true)
        try finishMigration(database)
    }

    /// Each table keeps its own retirement, whatever is said of other tables of its file, and whatever happens to the
    /// table meanwhile.
    @Test(arguments: [true, false]) func tablesOfASourceHaveRetirementsOfTheirOwn(_ isSameFile: Bool) throws {
        let folder = TemporaryFolder()
        let sourcePath = folder.file(isSameFile ? "new.db" : "old.db")
        try Connection(path: sourcePath).execute(
            script: """
                CREATE TABLE s1(id INTEGER PRIMARY KEY, a); INSERT INTO s1 VALUES (1, 1), (2, 2);
                CREATE TABLE s2(id INTEGER PRIMARY KEY, a); INSERT INTO s2 VALUES (1, 3), (2, 4);
                CREATE TABLE s3(id INTEGER PRIMARY KEY, a); INSERT INTO s3 VALUES (1, 5), (2, 6);
                """
        )
        let database = try Database(path: folder.file("new.db"))
        for name in ["t1", "t2", "t3", "t4"] {
            try database.execute("CREATE TABLE \(name)(id INTEGER PRIMARY KEY, a)")
        }
        let source = isSameFile ? MigrationSource.sameDatabase : .file(folder.file("old.db"))
        func begin(_ target: String, _ from: String, _ retirement: SourceRetirement, where condition: String? = nil)
            throws
        {
            try database.addMigration(source: source, retirement: retirement) { table in
                guard table.name == target else { return }
                table.sourceTable = from
                table.condition = condition
            }
        }
        func beginAll() throws {
            try begin("t1", "s1", .drop)
            try begin("t2", "s2", .keep)
            try begin("t3", "s3", .keep, where: "id = 1")
            try begin("t4", "s3", .drop, where: "id = 2")
        }
        try beginAll()
        try database.write { access in
            _ = try access.rebuild("t2") { table in
                table.schema = "CREATE TABLE t2(id INTEGER PRIMARY KEY, a TEXT)"
                table.rowsCopiedAtOnce = 0
            }
        }
        try beginAll()
        let error = #expect(throws: MigrationError.self) { try begin("t2", "s2", .drop) }
        #expect(error?.code == .misuse && error?.message.contains("retirement .keep, and now retirement .drop") == true)
        try finishMigration(database)
        try beginAll()
        #expect(texts(try database.fetchAll("SELECT a FROM t2 UNION ALL SELECT a FROM t3")) == ["3", "4", "5"])
        database.close()
        let left = try Connection(path: sourcePath).fetchAll(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 's_' ORDER BY name"
        )
        #expect(texts(left) == ["s2", "s3"])
    }

    @Test func allTablesOfAFileThatIsToBeDeletedSaySo() throws {
        let folder = try begin()
        let database = try Database(path: folder.file("new.db"))
        try Connection(path: folder.file("old.db")).execute("CREATE TABLE other(id INTEGER PRIMARY KEY)")
        try database.execute("CREATE TABLE other(id INTEGER PRIMARY KEY)")
        func add(_ retirement: SourceRetirement) throws {
            try database.addMigration(source: .file(folder.file("old.db")), retirement: retirement) { table in
                if table.name == "other" { table.sourceTable = "other" }
            }
        }
        let error = #expect(throws: MigrationError.self) { try add(.deleteFileWhenEmpty) }
        #expect(error?.code == .misuse && error?.message.contains("to be deleted when it is empty") == true)
        try add(.drop)
        try finishMigration(database)
        try add(.drop)
    }

    /// This holds within one file as well, where only the fence tells of it once all rows have moved.
    @Test func aTableThatWasToBeKeptIsDroppedByNoLaterPart() throws {
        let folder = TemporaryFolder()
        let database = try Database(path: folder.file("new.db"))
        for name in ["s", "t1", "t2"] { try database.execute("CREATE TABLE \(name)(id INTEGER PRIMARY KEY, a)") }
        try database.execute("INSERT INTO s VALUES (1, 1), (2, 2)")
        for (name, id, retirement) in [("t1", 1, SourceRetirement.keep), ("t2", 2, .drop)] {
            try database.addMigration(source: .sameDatabase, retirement: retirement) { table in
                guard table.name == name else { return }
                table.sourceTable = "s"
                table.condition = "id = \(id)"
            }
            try finishMigration(database)
        }
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM s") == 2)
        #expect(texts(try database.fetchAll("SELECT a FROM t1 UNION ALL SELECT a FROM t2")) == ["1", "2"])
    }

    /// The application has dropped the table, and its fence with it. A table that has the name then is another one.
    @Test(arguments: [true, false]) func aTableThatWasKeptAndMadeAnewMovesAgain(_ isSameFile: Bool) throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1, 1)"
        try old.execute(script: schema)
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        try database.execute("CREATE TABLE t2(id INTEGER PRIMARY KEY, a)")
        try database.addMigration(source: .file(folder.file("old.db")), retirement: .keep) { table in
            if table.name == "t" { table.sourceTable = "t" }
        }
        try finishMigration(database)
        try old.execute(script: "DROP TABLE t; " + schema)
        try old.execute("CREATE TABLE t2(id INTEGER PRIMARY KEY, a)")
        old.close()
        let source = isSameFile ? MigrationSource.sameDatabase : .file(folder.file("old.db"))
        let again = try isSameFile ? Database(path: folder.file("old.db")) : database
        try again.addMigration(source: source) { table in
            if table.name == "t2" { table.sourceTable = "t" }
        }
        try finishMigration(again)
        #expect(try again.fetchValue(Int.self, "SELECT count(*) FROM t2") == 1)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 1)
    }

    /// The policies for rows that cannot move may be changed at any time.
    @Test func otherPoliciesTakeEffect() throws {
        let move = try SmallMove(
            source: "CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1, 1), (2, NULL), (3, 3)",
            target: "CREATE TABLE t(id INTEGER PRIMARY KEY, a NOT NULL)"
        )
        #expect(throws: MigrationError.self) { try finishMigration(move.database) }
        try move.database.addMigration(source: .file(move.folder.file("old.db"))) { table in
            table.sourceTable = "t"
            table.refusedRows = .setAside
            table.unreadableRows = .skip
        }
        try finishMigration(move.database)
        #expect(texts(try move.database.fetchAll("SELECT id FROM t")) == ["1", "3"])
    }

    @Test(arguments: [true, false]) func otherwiseOfTriggersIsRefused(_ fires: Bool) throws {
        let source = "CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1, 1), (2, 2)"
        let target = """
            CREATE TABLE log(x); CREATE TABLE t(id INTEGER PRIMARY KEY, a);
            CREATE TRIGGER new_t AFTER INSERT ON t BEGIN INSERT INTO log VALUES (NEW.id); END;
            """
        let move = try SmallMove(source: source, target: target) { table in
            if table.name == "log" { table.sourceTable = nil }
            table.firesTriggers = fires
        }
        func again(_ fires: Bool?) throws {
            try move.database.addMigration(source: .file(move.folder.file("old.db"))) { table in
                guard table.name == "t" else { return }
                table.sourceTable = "t"
                table.firesTriggers = fires
            }
        }
        let error = #expect(throws: MigrationError.self) { try again(!fires) }
        #expect(error?.code == .misuse)
        let words = "with firesTriggers = \(fires), and now firesTriggers = \(!fires) was"
        #expect(error?.message.contains(words) == true, "\(error?.message ?? "")")
        try again(fires)
        // A policy that is not given stays as it was.
        try again(nil)
        try finishMigration(move.database)
        #expect(try move.database.fetchValue(Int.self, "SELECT count(*) FROM log") == (fires ? 2 : 0))
    }

    @Test func aColumnThatWasIgnoredIsNotRefusedLater() throws {
        let source = "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b); INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)"
        let move = try SmallMove(source: source, target: "CREATE TABLE t(id INTEGER PRIMARY KEY, a)") {
            $0.unmatchedColumns = .ignored
        }
        func again(_ policy: UnmatchedColumns) throws {
            try move.database.addMigration(source: .file(move.folder.file("old.db"))) { table in
                table.sourceTable = "t"
                table.unmatchedColumns = policy
            }
        }
        let error = #expect(throws: MigrationError.self) { try again(.refused) }
        #expect(error?.code == .misuse && error?.message.contains("it has no column b") == true)
        try again(.ignored)
        try finishMigration(move.database)
    }
}
