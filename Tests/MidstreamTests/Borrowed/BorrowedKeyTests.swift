import Midstream
import SQLiteC
import SQLiteConnection
import Testing

/// Enforced foreign keys on connections of other code: they act on all rows, as on a table that does not move.
@Suite struct BorrowedKeyTests {
    private static let schema = """
        CREATE TABLE author(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
        CREATE TABLE book(
            id INTEGER PRIMARY KEY, author INTEGER NOT NULL REFERENCES author(id) ON DELETE CASCADE ON UPDATE CASCADE,
            sequel INTEGER REFERENCES book(id) ON DELETE SET NULL);
        CREATE TABLE loan(book INTEGER REFERENCES book(id) ON DELETE RESTRICT, who TEXT);
        """
    private static let rows = """
        INSERT INTO author WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
            SELECT i, 'name ' || i FROM n;
        INSERT INTO book WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
            SELECT i, 1 + i % 40, CASE WHEN i % 7 = 0 THEN i - 1 END FROM n;
        """
    /// These rows are in the target from the start.
    private static let extra = "INSERT INTO loan VALUES (NULL, 'nobody')"

    /// Which tables move.
    private static let movings: [Set<String>] = [["author", "book"], ["book"], ["author"]]

    private static func pair(_ moving: Set<String>, moved: Int64 = 15) throws -> Pair {
        let still = Set(["author", "book"]).subtracting(moving)
        let pair = try Pair(schema: schema, rows: rows, extra: "", tables: moving, moved: 0)
        // The tables that do not move have their rows in the target from the start.
        let outside = try Connection(path: pair.target)
        try outside.execute("ATTACH '\(pair.source)' AS old")
        for name in still.sorted() { try outside.execute("INSERT INTO main.\(name) SELECT * FROM old.\(name)") }
        try outside.execute(script: extra)
        try pair.native.execute(script: extra)
        outside.close()
        try pair.native.configure(.foreignKeys, true)
        try pair.database.stepMigration(rows: moved)
        return pair
    }

    private static var enforcing: DatabaseConfiguration {
        var configuration = DatabaseConfiguration()
        configuration.enforcesForeignKeys = true
        return configuration
    }

    private static let contents = [
        "SELECT * FROM author ORDER BY id", "SELECT * FROM book ORDER BY id", "SELECT * FROM loan ORDER BY rowid",
    ]

    private static func code(_ body: () throws -> Void) throws -> ResultCode {
        do {
            try body()
            return .ok
        } catch let error as SQLiteError {
            return error.code
        }
    }

    /// The statements give what they give natively, and the tables are the same afterwards.
    private static func check(
        _ statements: [String],
        _ moving: Set<String>,
        as library: ForeignConnection.Library = .plain
    )
        throws
    {
        let pair = try pair(moving)
        let foreign = try ForeignConnection(pair.target, as: library)
        try foreign.execute("PRAGMA foreign_keys = ON")
        try foreign.install()
        for sql in statements {
            let native = try code { try pair.native.execute(script: sql) }
            let own = try code { try foreign.execute(sql) }
            #expect(own == native, "\(sql), \(moving.sorted()): \(String(cString: sqlite3_errmsg(foreign.handle)))")
            #expect(foreign.wrapped.isInTransaction == pair.native.isInTransaction)
            for question in contents {
                #expect(
                    try foreign.rows(question) == texts(pair.native.fetchAll(question)),
                    "\(sql), \(moving.sorted())"
                )
            }
        }
        #expect(foreign.close() == SQLITE_OK)
        try pair.finish()
        let moved = try Connection(path: pair.target)
        for question in contents {
            #expect(try texts(moved.fetchAll(question)) == texts(pair.native.fetchAll(question)))
        }
        #expect(try moved.fetchAll("PRAGMA foreign_key_check").isEmpty)
    }

    @Test(arguments: movings, [ForeignConnection.Library.plain, .grdb, .sqliteSwift])
    func keysActOnAllRows(_ moving: Set<String>, _ library: ForeignConnection.Library) throws {
        try Self.check(
            [
                // The parent is pending, then the parent has moved, then there is no parent.
                "INSERT INTO book VALUES (500, 39, NULL)", "INSERT INTO book VALUES (501, 2, 500)",
                "INSERT INTO book VALUES (502, 400, NULL)", "UPDATE book SET author = 38 WHERE id IN (3, 190)",
                "UPDATE book SET author = 400 WHERE id = 191",
                // Children on both sides.
                "DELETE FROM author WHERE id = 39", "DELETE FROM author WHERE id = 2",
                "UPDATE author SET id = 1000 WHERE id = 37", "DELETE FROM book WHERE id IN (6, 181)",
                // A table that does not move.
                "INSERT INTO loan VALUES (150, 'Ada')", "INSERT INTO loan VALUES (1500, 'Ada')",
                "DELETE FROM book WHERE id = 150",
                "DELETE FROM author WHERE id = (SELECT author FROM book WHERE id = 150)",
                "DELETE FROM loan WHERE who = 'Ada'",
                "DELETE FROM author WHERE id = (SELECT author FROM book WHERE id = 150)",
                "REPLACE INTO author VALUES (20, 'again')", "REPLACE INTO author VALUES (900, 'name 33')",
                "INSERT OR IGNORE INTO author VALUES (21, 'ignored')", "DELETE FROM author",
            ],
            moving,
            as: library
        )
    }

    @Test(arguments: movings) func keysActInTransactionsToo(_ moving: Set<String>) throws {
        try Self.check(
            [
                "BEGIN IMMEDIATE; PRAGMA defer_foreign_keys = ON; INSERT INTO book VALUES (500, 400, NULL)",
                "INSERT INTO author VALUES (400, 'late'); COMMIT",
                "BEGIN; DELETE FROM author WHERE id IN (5, 39); ROLLBACK",
                "BEGIN; SAVEPOINT s; DELETE FROM author WHERE id = 38; ROLLBACK TO s; DELETE FROM author WHERE id = 6; COMMIT",
                "BEGIN; INSERT INTO loan VALUES (180, 'x'); DELETE FROM book WHERE id = 180", "COMMIT",
                // What a row lacks does not count for the rows after it.
                "BEGIN; PRAGMA defer_foreign_keys = ON; UPDATE book SET author = 401 WHERE id = 4",
                "INSERT INTO author VALUES (401, 'later'); COMMIT", "UPDATE book SET author = 402 WHERE id = 5",
                "INSERT INTO author VALUES (402, 'last')",
            ],
            moving
        )
    }

    /// Libraries switch enforcement off for a while, and nothing reports that.
    @Test(arguments: movings) func enforcementMayBeSwitchedAtAnyTime(_ moving: Set<String>) throws {
        let pair = try Self.pair(moving)
        let foreign = try ForeignConnection(pair.target)
        try foreign.execute("PRAGMA foreign_keys = OFF")
        try foreign.install()
        for (setting, sql) in [("OFF", "DELETE FROM author WHERE id = 39"), ("ON", "DELETE FROM author WHERE id = 38")]
        {
            try foreign.execute("PRAGMA foreign_keys = \(setting); \(sql)")
            try pair.native.execute(script: "PRAGMA foreign_keys = \(setting); \(sql)")
            for question in Self.contents {
                #expect(try foreign.rows(question) == texts(pair.native.fetchAll(question)))
            }
        }
        #expect(try foreign.rows("SELECT count(*) FROM book WHERE author = 39") == ["5"])
        #expect(try foreign.rows("SELECT count(*) FROM book WHERE author = 38") == ["0"])
    }

    /// Native SQLite checks a key at the end of a statement, and the overlay writes each row by a statement of its own.
    @Test func whatALaterRowCouldMendIsRefused() throws {
        let pair = try Self.pair(["author", "book"])
        let foreign = try ForeignConnection(pair.target)
        try foreign.execute("PRAGMA foreign_keys = ON")
        let overlay = try foreign.install()
        let sql = "INSERT INTO book VALUES (600, 1, 601), (601, 1, NULL)"
        let error = #expect(throws: SQLiteError.self) { try foreign.execute(sql) }
        #expect(error?.code == .constraintForeignKey)
        #expect(error?.message.contains("MigrationOverlay.execute") ?? false)
        #expect(try foreign.rows("SELECT count(*) FROM book WHERE id >= 600") == ["0"])
        try overlay.execute(sql)
        #expect(try foreign.rows("SELECT count(*) FROM book WHERE id >= 600") == ["2"])
        // One row can be mended by no other.
        let single = #expect(throws: SQLiteError.self) { try foreign.execute("INSERT INTO book VALUES (700, 1, 701)") }
        #expect(single?.message == "FOREIGN KEY constraint failed")
    }

    @Test func rowsThatReferToEachOtherInACircleAreRefused() throws {
        let schema = """
            CREATE TABLE a(id INTEGER PRIMARY KEY, b REFERENCES b(id));
            CREATE TABLE b(id INTEGER PRIMARY KEY, a REFERENCES a(id));
            """
        let pair = try Pair(
            schema: schema,
            rows: "INSERT INTO a VALUES (1, 1), (2, 2); INSERT INTO b VALUES (1, 1), (2, 2)",
            tables: ["a", "b"]
        )
        let foreign = try ForeignConnection(pair.target)
        try foreign.execute("PRAGMA foreign_keys = ON")
        try foreign.install()
        let sql = "UPDATE a SET b = 1 WHERE id = 2"
        let error = #expect(throws: SQLiteError.self) { try foreign.execute(sql) }
        #expect(
            error?.message
                == "table a is moving, and rows that foreign keys connect with this one must move first: run the statement "
                + "through a Database that opens the same file"
        )
        #expect(try foreign.rows("SELECT * FROM a UNION ALL SELECT * FROM b") == ["1|1", "2|2", "1|1", "2|2"])
        let database = try Database(path: pair.target, configuration: Self.enforcing)
        try database.execute(sql)
        #expect(try foreign.rows("SELECT * FROM a ORDER BY id") == ["1|1", "2|1"])
        try foreign.execute("UPDATE a SET b = 2")
        #expect(try foreign.rows("SELECT * FROM a ORDER BY id") == ["1|2", "2|2"])
    }

    /// SQLite evaluates one row of VALUES once for the triggers and once for the row.
    @Test func aKeyThatIsComputedTwiceIsRefused() throws {
        let pair = try Self.pair(["author", "book"])
        let foreign = try ForeignConnection(pair.target)
        try foreign.execute("PRAGMA foreign_keys = ON")
        let overlay = try foreign.install()
        let sql = "INSERT INTO loan(book, who) VALUES (abs(random()) % 2 + 190, 'x')"
        let error = #expect(throws: SQLiteError.self) { try foreign.execute(sql) }
        #expect(error?.message.contains("compute a key twice") ?? false)
        try overlay.execute(sql)
        try foreign.execute("INSERT INTO loan(who, book) VALUES (hex(randomblob(8)), 180), (datetime('now'), 181)")
        try foreign.execute("INSERT INTO loan(who, book) VALUES (hex(randomblob(8)), 182)")
        try foreign.execute("INSERT INTO book VALUES (700, 30, NULL)")
        try foreign.execute("INSERT INTO loan(who, book) VALUES ('y', last_insert_rowid())")
        #expect(try foreign.rows("SELECT count(*), max(book) FROM loan") == ["6|700"])
    }

    /// If a table has a trigger, SQLite evaluates all rows before it inserts the first one, also while the trigger does nothing.
    @Test(arguments: ["ON", "OFF"]) func rowsThatAskForEarlierOnesAreRefused(_ setting: String) throws {
        let pair = try Self.pair(["author", "book"])
        let foreign = try ForeignConnection(pair.target)
        try foreign.execute("PRAGMA foreign_keys = \(setting)")
        let overlay = try foreign.install()
        let sql = "INSERT INTO loan(who) VALUES (last_insert_rowid()), (last_insert_rowid())"
        let error = #expect(throws: SQLiteError.self) { try foreign.execute(sql) }
        #expect(error?.message.contains("depend on the rows before it") ?? false)
        #expect(try foreign.rows("SELECT count(*) FROM loan") == ["1"])
        try overlay.uninstall()
        #expect(try foreign.rows("SELECT count(*) FROM sqlite_temp_master") == ["0"])
        try foreign.execute(sql)
        #expect(try foreign.rows("SELECT count(*) FROM loan") == ["3"])
    }

    /// A key to the table itself may act on rows that the statement has yet to come to.
    @Test func severalRowsThatAKeyChangesAreRefused() throws {
        let pair = try Pair(
            schema: "CREATE TABLE node(id INTEGER PRIMARY KEY, "
                + "parent REFERENCES node(id) ON DELETE CASCADE ON UPDATE CASCADE, label)",
            rows: "INSERT INTO node VALUES (1, NULL, 'a'), (2, 1, 'b'), (3, 2, 'c'), (4, NULL, 'd')",
            tables: ["node"],
            moved: 1
        )
        let foreign = try ForeignConnection(pair.target)
        try foreign.execute("PRAGMA foreign_keys = ON")
        let overlay = try foreign.install()
        for sql in ["DELETE FROM node WHERE id IN (1, 2)", "UPDATE node SET id = id + 1000, label = parent"] {
            let error = #expect(throws: SQLiteError.self) { try foreign.execute(sql) }
            #expect(error?.message.hasSuffix(": run the statement with MigrationOverlay.execute") ?? false)
            #expect(try foreign.rows("SELECT * FROM node") == ["1|NULL|a", "2|1|b", "3|2|c", "4|NULL|d"])
        }
        try foreign.execute("UPDATE node SET id = 20 WHERE id = 2")
        #expect(try foreign.rows("SELECT * FROM node ORDER BY id") == ["1|NULL|a", "3|20|c", "4|NULL|d", "20|1|b"])
        try overlay.execute("DELETE FROM node WHERE id IN (1, 20)")
        #expect(try foreign.rows("SELECT * FROM node") == ["4|NULL|d"])
    }

    /// A pending row that the target refuses cannot be deleted past its keys.
    @Test func aRefusedRowIsNotDeletedPastItsKeys() throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(
            script: """
                CREATE TABLE author(id INTEGER PRIMARY KEY, name); CREATE TABLE book(id INTEGER PRIMARY KEY, author);
                INSERT INTO author VALUES (6, 'a'), (7, NULL); INSERT INTO book VALUES (1, 7), (2, 6)
                """
        )
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute(
            """
            CREATE TABLE author(id INTEGER PRIMARY KEY, name NOT NULL);
            CREATE TABLE book(id INTEGER PRIMARY KEY, author REFERENCES author(id) ON DELETE CASCADE)
            """
        )
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = $0.name }
        let foreign = try ForeignConnection(folder.file("new.db"))
        try foreign.execute("PRAGMA foreign_keys = ON")
        try foreign.install()
        #expect(throws: SQLiteError.self) { try foreign.execute("DELETE FROM author WHERE id = 7") }
        #expect(try foreign.rows("SELECT * FROM book ORDER BY id") == ["1|7", "2|6"])
        try foreign.execute("DELETE FROM author WHERE id = 6")
        #expect(try foreign.rows("SELECT * FROM book ORDER BY id") == ["1|7"])
        try foreign.execute("PRAGMA foreign_keys = OFF; DELETE FROM author WHERE id = 7")
        #expect(try foreign.rows("SELECT count(*) FROM author") == ["0"])
    }

    /// The child's TEXT equals an untyped parent's number where SQLite acts, though not where it checks. So the children break their
    /// key, and must move at once.
    @Test func anActionComparesByTheChildsAffinity() throws {
        let pair = try Pair(
            schema: "CREATE TABLE p(id INTEGER PRIMARY KEY, k UNIQUE); "
                + "CREATE TABLE c(id INTEGER PRIMARY KEY, k TEXT REFERENCES p(k) ON DELETE SET NULL)",
            rows: "INSERT INTO p VALUES (1, 10), (2, 20); INSERT INTO c VALUES (1, '10'), (2, '10'), (3, '20')",
            tables: ["p", "c"],
            moved: 1
        )
        let foreign = try ForeignConnection(pair.target)
        try foreign.execute("PRAGMA foreign_keys = ON")
        try foreign.install()
        try pair.native.execute("PRAGMA foreign_keys = ON")
        try pair.native.execute("DELETE FROM p WHERE id = 1")
        #expect(try texts(pair.native.fetchAll("SELECT * FROM c")) == ["1|NULL", "2|NULL", "3|20"])
        #expect(throws: SQLiteError.self) { try foreign.execute("DELETE FROM p WHERE id = 1") }
        #expect(try foreign.rows("SELECT count(k) FROM c") == ["3"])
        let database = try Database(path: pair.target, configuration: Self.enforcing)
        try database.execute("DELETE FROM p WHERE id = 1")
        #expect(try foreign.rows("SELECT * FROM c ORDER BY id") == ["1|NULL", "2|NULL", "3|20"])
    }

    @Test func changesOfTheSchemaAreNoticed() throws {
        let pair = try Self.pair(["book"])
        let foreign = try ForeignConnection(pair.target)
        try foreign.execute("PRAGMA foreign_keys = ON; CREATE TABLE inbox(name)")
        let overlay = try foreign.install()
        try foreign.execute("DELETE FROM author WHERE id = 40")
        // A TEMP trigger replaces a parent of pending rows.
        try foreign.execute(
            "CREATE TEMP TRIGGER t AFTER INSERT ON inbox BEGIN REPLACE INTO author VALUES (900, NEW.name); END"
        )
        try foreign.execute("INSERT INTO inbox VALUES ('name 33')")
        #expect(try foreign.rows("SELECT count(*) FROM book WHERE author = 33") == ["0"])
        // A key of the parent that the triggers do not know.
        try foreign.execute("DROP TRIGGER t; CREATE UNIQUE INDEX i ON author(id, name)")
        let sql = "REPLACE INTO author VALUES (901, 'name 34')"
        let error = #expect(throws: SQLiteError.self) { try foreign.execute(sql) }
        #expect(error?.message.contains("call MigrationOverlay.refresh") ?? false)
        try overlay.refresh()
        try foreign.execute(sql)
        #expect(try foreign.rows("SELECT count(*) FROM book WHERE author = 34") == ["0"])
    }

    /// The triggers stay until the overlay is renewed, and do no harm.
    @Test(arguments: movings) func tablesThatHaveMovedAreNative(_ moving: Set<String>) throws {
        let pair = try Self.pair(moving)
        let foreign = try ForeignConnection(pair.target)
        try foreign.execute("PRAGMA foreign_keys = ON")
        let overlay = try foreign.install()
        try foreign.execute("DELETE FROM author WHERE id = 39")
        try pair.finish()
        try foreign.execute("DELETE FROM author WHERE id = 38; INSERT INTO loan VALUES (150, 'x')")
        #expect(throws: SQLiteError.self) { try foreign.execute("INSERT INTO book VALUES (800, 38, NULL)") }
        #expect(throws: SQLiteError.self) { try foreign.execute("DELETE FROM book WHERE id = 150") }
        try overlay.refresh()
        #expect(try foreign.rows("SELECT count(*) FROM sqlite_temp_master WHERE type = 'trigger'") == ["0"])
        try foreign.execute("DELETE FROM author WHERE id = 37")
        #expect(try foreign.rows("SELECT count(*) FROM book WHERE author IN (37, 38, 39)") == ["0"])
    }

    /// The key names columns of the parent that are not unique: native SQLite refuses all writes.
    @Test func whatCannotBeFollowedIsRefusedAtOnce() throws {
        let pair = try Pair(
            schema:
                "CREATE TABLE t(id INTEGER PRIMARY KEY, k); CREATE UNIQUE INDEX i ON t(k); CREATE TABLE c(x REFERENCES t(k));",
            rows: "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
            tables: ["t"]
        )
        let other = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, k); CREATE TABLE c(x REFERENCES t(k));",
            rows: "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
            tables: ["t"]
        )
        for (pair, isRefused) in [(pair, false), (other, true)] {
            let foreign = try ForeignConnection(pair.target)
            try foreign.execute("PRAGMA foreign_keys = ON")
            if isRefused {
                let error = #expect(throws: MigrationError.self) { try foreign.install() }
                #expect(error?.code == .unsupported)
                #expect(error?.message.contains("foreign keys are enforced") ?? false)
                // Nothing of the overlay is left.
                #expect(try foreign.rows("SELECT count(*) FROM sqlite_temp_master") == ["0"])
                try foreign.execute("PRAGMA foreign_keys = OFF")
            }
            try foreign.install()
            try foreign.execute("DELETE FROM t WHERE k = 'a'")
            #expect(try foreign.rows("SELECT id FROM t") == ["2"])
            try foreign.execute("PRAGMA foreign_keys = ON")
            let code = try Self.code { try foreign.execute("UPDATE t SET id = 3 WHERE id = 2") }
            #expect(code == (isRefused ? .error : .ok))
        }
    }

    /// The function counts what keys have done, and no promotion.
    @Test func totalChangesCountsWhatKeysDo() throws {
        let pair = try Self.pair(["author", "book"])
        let foreign = try ForeignConnection(pair.target)
        try foreign.execute("PRAGMA foreign_keys = ON")
        try foreign.install()
        for sql in [
            "DELETE FROM author WHERE id IN (3, 39)", "INSERT INTO loan VALUES (180, 'x')",
            "INSERT INTO book VALUES (700, 30, 199)",
            "UPDATE author SET id = 2000 WHERE id = 28",
        ] {
            let question = "SELECT total_changes()"
            let before = (try foreign.rows(question), texts(try pair.native.fetchAll(question)))
            try foreign.execute(sql)
            try pair.native.execute(sql)
            let after = (try foreign.rows(question), texts(try pair.native.fetchAll(question)))
            func difference(_ one: [String], _ other: [String]) -> Int? {
                Int(other[0]).flatMap { last in Int(one[0]).map { last - $0 } }
            }
            #expect(difference(before.0, after.0) == difference(before.1, after.1), "\(sql)")
        }
    }
}
