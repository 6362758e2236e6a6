import Midstream
import SQLiteConnection
import SQLiteFeatures
import Synchronization
import Testing

/// A source stays as long as it has something that has not arrived in the target.
@Suite struct RemainderTests {
    private let folder = TemporaryFolder()
    private var old: String { folder.file("old.db") }
    private var new: String { folder.file("new.db") }

    /// Collects the events about sources that stay.
    final class Events: Sendable {
        private let texts = Mutex<[String]>([])
        var all: [String] { texts.withLock(\.self) }

        init(_ database: Database) {
            database.onMigrated { [self] event in
                switch event {
                case .sourceKept(let table, _, let reason): texts.withLock { $0.append("\(table): \(reason)") }
                case .sourceDropped(let table, _): texts.withLock { $0.append("\(table) dropped") }
                case .sourceFileKept(_, let reason): texts.withLock { $0.append(reason) }
                default: break
                }
            }
        }
    }

    /// A source with a table and one more object; the target's schema; and the name by which the object is given up.
    struct Thing: CustomTestStringConvertible, Sendable {
        let sql: String
        let name: String
        /// What the target needs so that it has the object.
        var counterpart: String?
        /// What the target has in any case.
        var target = ""
        var testDescription: String { sql }
    }

    static let things = [
        Thing(sql: "CREATE TABLE u(x)", name: "u"),
        Thing(sql: "CREATE VIEW v AS SELECT x FROM t", name: "v", counterpart: "CREATE VIEW v AS SELECT 1"),
        Thing(
            sql: "CREATE VIEW v AS SELECT x FROM t; CREATE TRIGGER tv INSTEAD OF DELETE ON v BEGIN SELECT 1; END",
            name: "tv",
            counterpart: "CREATE TRIGGER tv INSTEAD OF DELETE ON v BEGIN SELECT 1; END",
            target: "CREATE VIEW v AS SELECT 1;"
        ),
        Thing(
            sql: "CREATE VIRTUAL TABLE f USING fts4(a); INSERT INTO f VALUES ('one'), ('two')",
            name: "f",
            counterpart: "CREATE VIRTUAL TABLE f USING fts4(a); INSERT INTO f VALUES ('one'), ('two')"
        ),
        Thing(sql: "PRAGMA user_version = 17", name: "user_version", counterpart: "PRAGMA user_version = 18"),
        Thing(sql: "PRAGMA application_id = 17", name: "application_id", counterpart: "PRAGMA application_id = 17"),
    ]

    private func make(_ thing: Thing, withCounterpart: Bool) throws -> Database {
        try Connection(path: old).execute(script: "CREATE TABLE t(x); INSERT INTO t VALUES (1), (2); \(thing.sql)")
        let plain = try Connection(path: new)
        try plain.execute(
            script: "CREATE TABLE t(x);" + thing.target + (withCounterpart ? thing.counterpart ?? "" : "")
        )
        plain.close()
        return try Database(path: new)
    }

    private func move(_ database: Database, _ retirement: SourceRetirement, givingUp names: Set<String> = []) throws {
        try database.addMigration(source: .file(old), retirement: retirement, givingUp: names) { table in
            if table.name == "t" { table.sourceTable = "t" }
        }
    }

    @Test(arguments: things) func whatTheTargetLacksKeepsTheFileUntilItIsGivenUp(_ thing: Thing) throws {
        let database = try make(thing, withCounterpart: false)
        let events = Events(database)
        try move(database, .deleteFileWhenEmpty)
        try finishMigration(database)
        #expect(events.all.count == 1 && events.all.allSatisfy { $0.contains(thing.name) }, "\(events.all)")
        #expect(Files.exists(old))
        #expect(try Connection(path: old).fetchValue(Int.self, "SELECT count(*) FROM sqlite_master") ?? 0 > 0)
        try move(database, .deleteFileWhenEmpty, givingUp: ["nothing"])
        #expect(Files.exists(old))
        try move(database, .deleteFileWhenEmpty, givingUp: [thing.name.uppercased()])
        #expect(!Files.exists(old))
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 2)
    }

    @Test(arguments: things.filter { $0.counterpart != nil }) func whatTheTargetHasKeepsNoFile(_ thing: Thing) throws {
        let database = try make(thing, withCounterpart: true)
        let events = Events(database)
        try move(database, .deleteFileWhenEmpty)
        try finishMigration(database)
        #expect(!Files.exists(old), "\(events.all)")
        #expect(events.all.isEmpty)
    }

    @Test(arguments: things) func whatTheTargetLacksKeepsAFileFromBeingWiped(_ thing: Thing) throws {
        let database = try make(thing, withCounterpart: false)
        try move(database, .keep)
        try finishMigration(database)
        database.close()
        let left = try Database.unmovedObjects(ofSourceAtPath: old, movedTo: new)
        #expect(left.map(\.name) == [thing.name])
        let error = #expect(throws: MigrationError.self) { try Database.wipeSource(atPath: old, movedTo: new) }
        #expect(error?.code == .misuse && error?.message.contains(thing.name) == true)
        #expect(Files.exists(old))
        try Database.wipeSource(atPath: old, movedTo: new, givingUp: [thing.name])
        #expect(!Files.exists(old))
    }

    /// Nothing has moved from the source, so only an equal file would have all that it has.
    @Test func aSourceWithoutRowsIsNotWipedForAnUnrelatedFile() throws {
        try Connection(path: old).execute(
            script: """
                CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, x); INSERT INTO t VALUES (9, 1); DELETE FROM t;
                CREATE VIEW v AS SELECT x FROM t; PRAGMA user_version = 17;
                """
        )
        try Connection(path: new).execute(
            script: "CREATE TABLE t(x); CREATE VIEW v AS SELECT 1; PRAGMA user_version = 18"
        )
        let before = Files.bytes(old)
        let error = #expect(throws: MigrationError.self) { try Database.wipeSource(atPath: old, movedTo: new) }
        for words in ["table t", "view v", "PRAGMA user_version (17 in the source, 18 in the target)"] {
            #expect(error?.message.contains(words) == true, "\(String(describing: error))")
        }
        #expect(Files.bytes(old) == before)
        Files.removeDatabase(new)
        // The files are equal, except for the counter.
        let other = try Connection(path: new)
        try other.execute(
            script: """
                CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, x);
                CREATE VIEW v AS SELECT x FROM t; PRAGMA user_version = 17;
                """
        )
        #expect(
            try Database.unmovedObjects(ofSourceAtPath: old, movedTo: new).map(\.description)
                == ["table t (its AUTOINCREMENT counter is larger than that of the target's table)"]
        )
        try other.execute("INSERT INTO t VALUES (9, 1)")
        other.close()
        try Database.wipeSource(atPath: old, movedTo: new)
        #expect(!Files.exists(old))
    }

    // MARK: One table

    private static let audited = """
        CREATE TABLE t(id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (1, 1), (2, 2); CREATE TABLE log(x);
        CREATE VIEW v AS SELECT x FROM t; CREATE TRIGGER audit AFTER DELETE ON t BEGIN INSERT INTO log VALUES (OLD.x); END;
        """

    /// The other objects of the file are in use.
    @Test func aTableIsDroppedFromAFileThatHasMore() throws {
        try Connection(path: old).execute(
            script: Self.audited + "DROP TRIGGER audit; CREATE TRIGGER other AFTER DELETE ON log BEGIN SELECT 1; END"
        )
        let database = try Database(path: new)
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
        let events = Events(database)
        try move(database, .drop)
        try finishMigration(database)
        #expect(events.all.isEmpty)
        let plain = try Connection(path: old)
        let names = texts(
            try plain.fetchAll("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'midstream%' ORDER BY 2")
        )
        #expect(names == ["table|log", "trigger|other", "view|t", "view|v"])
        try plain.execute("INSERT INTO log VALUES (1)")
    }

    @Test func aTableIsKeptWhoseTriggerTheTargetLacksUntilThatIsGivenUp() throws {
        try Connection(path: old).execute(script: Self.audited)
        let database = try Database(path: new)
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x)")
        let events = Events(database)
        try move(database, .drop)
        try finishMigration(database)
        #expect(events.all.count == 1 && events.all.allSatisfy { $0.hasPrefix("t: trigger audit would be dropped") })
        #expect(try MovingFixture.count("t", in: old) == 2)
        #expect(throws: SQLiteError.self) { try Connection(path: old).execute("DELETE FROM t") }
        // The event is reported again.
        try move(database, .drop)
        #expect(events.all.count == 2)
        try move(database, .drop, givingUp: ["audit"])
        #expect(events.all.count == 3 && events.all.last == "t dropped")
        #expect(try MovingFixture.count("t", in: old) == 0)
        #expect(try MovingFixture.objects(old).contains { $0.hasPrefix("view t ") })
    }

    @Test(arguments: ["other name", "same name", "given up", "given up later"])
    func aTableIsDroppedWhoseTriggerTheTargetHasOrThatIsGivenUp(_ how: String) throws {
        try Connection(path: old).execute(script: Self.audited)
        let database = try Database(path: new)
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x); CREATE TABLE log(x)")
        let program = "AFTER DELETE ON t BEGIN INSERT INTO log VALUES (OLD.x); END"
        if how == "other name" { try database.execute("CREATE TRIGGER t_deleted \(program)") }
        if how == "same name" { try database.execute("CREATE TRIGGER audit AFTER DELETE ON t BEGIN SELECT 1; END") }
        let events = Events(database)
        try move(database, .drop, givingUp: how == "given up" ? ["audit"] : [])
        try database.stepMigration(rows: 1)
        if how == "given up later" { try move(database, .drop, givingUp: ["audit"]) }
        database.close()
        // The target stores what is given up.
        let again = try Database(path: new)
        let later = Events(again)
        try finishMigration(again)
        #expect(events.all.isEmpty && later.all.isEmpty, "\(later.all)")
        #expect(try MovingFixture.count("t", in: old) == 0)
    }

    @Test(arguments: [true, false]) func aTableOfTheSameFileIsKeptWhoseTriggerWouldBeLost(_ hasCounterpart: Bool) throws
    {
        let database = try Database(path: new)
        let program = "BEGIN INSERT INTO log VALUES (OLD.x); END"
        try database.execute(
            """
            CREATE TABLE s(id INTEGER PRIMARY KEY, x); INSERT INTO s VALUES (1, 1), (2, 2); CREATE TABLE log(x);
            CREATE TRIGGER audit AFTER DELETE ON s \(program); CREATE TABLE t(id INTEGER PRIMARY KEY, x);
            """
        )
        if hasCounterpart { try database.execute("CREATE TRIGGER t_audit AFTER DELETE ON t \(program)") }
        let events = Events(database)
        try database.addMigration(source: .sameDatabase) { if $0.name == "t" { $0.sourceTable = "s" } }
        try finishMigration(database)
        let names = texts(try database.fetchAll("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1"))
        #expect(names == (hasCounterpart ? ["log", "t"] : ["log", "s", "t"]))
        #expect(events.all.isEmpty == hasCounterpart, "\(events.all)")
    }

    // MARK: Later

    static let ends = [
        "DROP TABLE t", "ALTER TABLE t RENAME TO other; CREATE TABLE t(x)",
        "DROP TABLE t; CREATE TABLE t(x); INSERT INTO t VALUES (3)", "DELETE FROM t",
    ]

    /// Whatever a later call says of a table whose rows have moved, it destroys no table with content that the target
    /// lacks.
    @Test(arguments: ends, [SourceRetirement.drop, .deleteFileWhenEmpty])
    func aTableThatWasToBeKeptIsNotDroppedLater(_ end: String, _ later: SourceRetirement) throws {
        for isAway in [false, true] {
            let folder = TemporaryFolder()
            let (old, new) = (folder.file("old.db"), folder.file("new.db"))
            try Connection(path: old).execute(script: "CREATE TABLE t(x); INSERT INTO t VALUES (1), (2)")
            func move(_ retirement: SourceRetirement, _ database: Database) throws {
                try database.addMigration(source: .file(old), retirement: retirement, allowsNoTables: true) { table in
                    if table.name == "t" { table.sourceTable = "t" }
                }
            }
            var database = try Database(path: new)
            try database.execute("CREATE TABLE t(x)")
            try move(.keep, database)
            if isAway {
                for _ in 0..<1000 where try database.stepMigration(rows: 1).tables.first?.phase == .copying {}
                database.close()
                Files.copyDatabase(old, to: old + "-away")
                Files.removeDatabase(old)
                database = try Database(path: new)
            }
            try finishMigration(database)
            database.close()
            if isAway { Files.copyDatabase(old + "-away", to: old) }
            try Connection(path: new).execute(script: end)
            database = try Database(path: new)
            for _ in 0..<2 { try move(later, database) }
            #expect(Files.exists(old))
            #expect(try MovingFixture.count("t", in: old) == 2, "\(end), \(isAway)")
        }
    }

    /// Moves all rows of a table that stays, because of a trigger that the target lacks.
    private func moveAudited() throws {
        try Connection(path: old).execute(script: Self.audited)
        let database = try Database(path: new)
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x); CREATE TABLE log(x)")
        try move(database, .drop)
        try finishMigration(database)
        database.close()
    }

    /// The table was kept for a trigger. Only the target's rows tell that the target's table is the one into which the
    /// rows moved.
    @Test(
        arguments: ends + [
            "", "DELETE FROM t WHERE x = 1", "UPDATE t SET x = 9 WHERE x = 2; INSERT INTO t(x) VALUES (8)",
        ]
    )
    func aTableThatWasKeptForATriggerIsDroppedLaterWhereItsRowsAre(_ end: String) throws {
        try moveAudited()
        if !end.isEmpty { try Connection(path: new).execute(script: end) }
        let database = try Database(path: new)
        let events = Events(database)
        for _ in 0..<2 {
            try database.addMigration(source: .file(old), givingUp: ["audit"], allowsNoTables: true) { table in
                if table.name == "t" { table.sourceTable = "t" }
            }
        }
        let isKept = Self.ends.contains(end)
        #expect(try MovingFixture.count("t", in: old) == (isKept ? 2 : 0), "\(events.all)")
        if !isKept { #expect(events.all == ["t dropped"]) }
    }

    /// A program without Midstream has written the kept table, or made it anew: its rows are in no other file.
    @Test(arguments: [
        "DROP TABLE t; CREATE TABLE t(id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (1, 1), (2, 2), (4, 4)",
        "DROP TABLE t; CREATE TABLE t(id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (1, 1), (2, 2)",
        "fence", "PRAGMA writable_schema = 1; DELETE FROM sqlite_master WHERE name LIKE 'midstream_fence_insert%'",
    ])
    func aTableThatWasWrittenSinceIsNotDroppedLater(_ write: String) throws {
        try moveAudited()
        var plain = try Connection(path: old)
        if write == "fence" {
            for row in try plain.fetchAll("SELECT name FROM sqlite_master WHERE name LIKE 'midstream_fence_%'") {
                try plain.execute("DROP TRIGGER \(row.get(0, as: String.self))")
            }
        } else {
            try plain.execute(script: write)
        }
        plain.close()
        plain = try Connection(path: old)
        if !write.hasPrefix("DROP") { try plain.execute("INSERT INTO t VALUES (4, 4)") }
        let rows = try plain.fetchValue(Int64.self, "SELECT count(*) FROM t")
        plain.close()
        let database = try Database(path: new)
        for _ in 0..<2 {
            try database.addMigration(source: .file(old), givingUp: ["audit"], allowsNoTables: true) { table in
                if table.name == "t" { table.sourceTable = "t" }
            }
        }
        #expect(try MovingFixture.count("t", in: old) == rows)
    }

    /// Two tables have parts of a source's rows, and the target has lost the rows of one part.
    @Test(arguments: ["DROP TABLE a", "DELETE FROM a"]) func aSharedTableStaysWhereAPartHasGone(_ end: String) throws {
        try Connection(path: old).execute(
            script: "CREATE TABLE t(id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (1, 1), (2, 2)"
        )
        let database = try Database(path: new)
        try database.execute("CREATE TABLE a(id INTEGER PRIMARY KEY, x)")
        try database.execute("CREATE TABLE b(id INTEGER PRIMARY KEY, x)")
        func move(_ name: String, _ condition: String) throws {
            try database.addMigration(source: .file(old)) { table in
                guard table.name == name else { return }
                table.sourceTable = "t"
                table.condition = condition
            }
            try finishMigration(database)
        }
        try move("a", "id < 2")
        try database.execute(end)
        try move("b", "id >= 2")
        #expect(try MovingFixture.count("t", in: old) == 2)
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM b") == 1)
    }

    /// Most of the rows that had come are gone again, together with the target's table.
    @Test func aTableWithFewOfTheRowsDropsNoneOfTheOthers() throws {
        try Connection(path: old).execute(
            script: Self.audited + "; WITH RECURSIVE n(i) AS (SELECT 3 UNION ALL SELECT i + 1 FROM n WHERE i < 300) "
                + "INSERT INTO t SELECT i, i FROM n"
        )
        var database = try Database(path: new)
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x); CREATE TABLE log(x)")
        try move(database, .drop)
        try finishMigration(database)
        try database.execute("DELETE FROM t WHERE id > 100")
        database.close()
        database = try Database(path: new)
        try move(database, .drop, givingUp: ["audit"])
        #expect(try MovingFixture.count("t", in: old) == 300)
    }

    @Test(arguments: ["DROP TABLE t", "DELETE FROM t"]) func aFileIsNotWipedWhoseRowsAreNotInTheTargetAnyMore(
        _ end: String
    ) throws {
        try Connection(path: old).execute(script: "CREATE TABLE t(x); INSERT INTO t VALUES (1), (2)")
        let database = try Database(path: new)
        try database.execute("CREATE TABLE t(x)")
        try move(database, .keep)
        try finishMigration(database)
        database.close()
        try Connection(path: new).execute(end)
        let error = #expect(throws: MigrationError.self) { try Database.wipeSource(atPath: old, movedTo: new) }
        #expect(error?.message.contains("are not in the target any more") == true, "\(error?.message ?? "")")
        #expect(try MovingFixture.count("t", in: old) == 2)
        try Database.wipeSource(atPath: old, movedTo: new, givingUp: ["t"])
        #expect(!Files.exists(old))
    }
}
