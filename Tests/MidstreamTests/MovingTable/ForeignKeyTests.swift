import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// Enforced foreign keys connect tables with moving ones. Writes of such tables act as natively, and move no more rows
/// than they need.
@Suite struct ForeignKeyTests {
    /// While the table has triggers, SQLite would compute all rows before it writes the first one.
    @Test(arguments: ["p", "c"])
    func anInsertReadsWhatItsOwnKeysHaveChanged(_ moving: String) throws {
        var configuration = DatabaseConfiguration()
        configuration.enforcesForeignKeys = true
        let pair = try Pair(
            schema: """
                CREATE TABLE p(id INTEGER PRIMARY KEY, k TEXT UNIQUE);
                CREATE TABLE c(id INTEGER PRIMARY KEY, x TEXT REFERENCES p(k) ON DELETE CASCADE);
                """,
            rows: """
                INSERT INTO p VALUES (1, 'a'), (2, 'b'), (3, 'd'); INSERT INTO c VALUES (1, 'a'), (2, 'b'), (3, 'b'), (4, 'd')
                """,
            tables: ["p", "c"],
            moved: moving == "p" ? 2 : 5,
            configuration: configuration
        )
        let sql = "REPLACE INTO p(id, k) SELECT id + 1, 'q' || id FROM c ORDER BY id"
        try pair.database.execute(sql)
        try pair.native.execute(sql)
        let all = "SELECT id, k FROM p UNION ALL SELECT id, x FROM c"
        #expect(try texts(pair.database.fetchAll(all)) == texts(pair.native.fetchAll(all)))
    }

    /// SQLite takes a new row for the parent of a row that has no parent, by the affinity of the parent's column, and would count that
    /// as the end of the new row's own violation.
    @Test func aRowThatBreaksItsKeyIsNotExcusedByAnOrphan() throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT REFERENCES t(id));",
            rows: "INSERT INTO t VALUES (1, NULL), (22, '5.0'), (23, '6')",
            tables: ["t"],
            moved: 2
        )
        try pair.native.configure(.foreignKeys, true)
        var configuration = DatabaseConfiguration()
        configuration.enforcesForeignKeys = true
        let database = try Database(path: pair.target, configuration: configuration)
        for sql in ["INSERT INTO t VALUES (5, ' ')", "INSERT INTO t VALUES (6, ' ')"] {
            for run in [{ try pair.native.execute(sql) }, { try database.execute(sql) }] {
                let error = #expect(throws: SQLiteError.self) { try run() }
                #expect(error?.code == .constraintForeignKey, "\(sql)")
            }
        }
        let foreign = try ForeignConnection(pair.target)
        try foreign.execute("PRAGMA foreign_keys = ON")
        try foreign.install()
        #expect(throws: SQLiteError.self) { try foreign.execute("INSERT INTO t VALUES (5, ' ')") }
    }

    /// While SQLite inserts a row that refers to itself, it compares the two values without their affinities.
    @Test func aRowThatRefersToItselfByAnotherTypeMovesFirst() throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a, k TEXT UNIQUE, p NUMERIC REFERENCES t(k));",
            rows: "INSERT INTO t VALUES (1, 'x', '7', 7), (2, 'y', 'z', 'z'), (3, 'y', '8', NULL)",
            tables: ["t"]
        )
        try pair.native.configure(.foreignKeys, true)
        var configuration = DatabaseConfiguration()
        configuration.enforcesForeignKeys = true
        let database = try Database(path: pair.target, configuration: configuration)
        for sql in ["UPDATE t SET a = 'b' WHERE id = 2", "UPDATE t SET a = 'c' WHERE id = 1"] {
            try pair.native.execute(sql)
            try database.execute(sql)
            let question = "SELECT * FROM t ORDER BY id"
            #expect(try texts(database.fetchAll(question)) == texts(pair.native.fetchAll(question)))
            // The row that refers to itself by another type has the table drained.
            #expect(database.migrationStatistics.drained.isEmpty == sql.hasSuffix("2"))
        }
    }

    private static let people = """
        CREATE TABLE users(id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE chats(id INTEGER PRIMARY KEY, owner INTEGER REFERENCES users(id) ON DELETE SET NULL ON UPDATE CASCADE);
        CREATE TABLE messages(
            id INTEGER PRIMARY KEY,
            chat INTEGER NOT NULL REFERENCES chats ON DELETE CASCADE ON UPDATE CASCADE,
            author INTEGER DEFAULT 1 REFERENCES users(id) ON DELETE SET DEFAULT,
            reply INTEGER REFERENCES messages(id) ON DELETE CASCADE,
            pinned INTEGER REFERENCES users(id) ON DELETE RESTRICT
        );
        CREATE INDEX messages_chat ON messages(chat);
        """
    private static let rows = """
        INSERT INTO users WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30) SELECT i, 'u' || i FROM n;
        INSERT INTO chats WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30) SELECT i, i FROM n;
        INSERT INTO messages WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
            SELECT i, 1 + i % 30, 1 + (i * 7) % 30, CASE WHEN i % 3 = 0 THEN i - 1 WHEN i = 50 THEN 58 END,
                CASE i WHEN 20 THEN 9 END FROM n;
        """

    /// Runs statements on both sides. Compares what each statement gives, and what all tables contain after it.
    private func compare(
        _ statements: [String],
        schema: String = people,
        rows: String = rows,
        extra: String = "",
        tables: Set<String> = ["users", "chats", "messages"],
        moved: Int64 = 0,
        drains: Bool? = false
    ) throws {
        var configuration = DatabaseConfiguration()
        configuration.enforcesForeignKeys = true
        let pair = try Pair(
            schema: schema,
            rows: rows,
            extra: extra,
            tables: tables,
            moved: moved,
            configuration: configuration
        )
        let all = try pair.native.fetchAll("SELECT name FROM sqlite_master WHERE type = 'table'").map {
            try $0.get(0, as: String.self)
        }
        try pair.database.withoutTransaction { access in
            // Filling the plain database has set numbers there that the target's connection does not have.
            pair.native.lastInsertRowID = access.lastInsertRowID
            try pair.native.execute("DELETE FROM \(all[0]) WHERE 0")
            for sql in statements {
                func result(_ run: () throws -> Void) -> String {
                    do { try run() } catch { return "\(error)".components(upTo: ", in") }
                    return "done"
                }
                let before = (access.lastInsertRowID, pair.native.lastInsertRowID)
                let native = result { try pair.native.execute(sql) }
                let own = result { try access.execute(sql) }
                #expect(own.prefix(20) == native.prefix(20), "\(sql): \(own), and natively \(native)")
                #expect(access.changes == pair.native.changes, "\(sql)")
                // Before 3.18, the number cannot be set, so the two sides begin with different numbers.
                let inserted = (access.lastInsertRowID, pair.native.lastInsertRowID)
                let isInserted = (inserted.0 != before.0, inserted.1 != before.1)
                if before.0 == before.1 || isInserted.0 || isInserted.1 {
                    #expect(inserted.0 == inserted.1, "\(sql)")
                }
                #expect(access.isInTransaction == pair.native.isInTransaction, "\(sql)")
                for table in all {
                    let query = "SELECT * FROM \(table) ORDER BY 1"
                    let own = texts(try access.fetchAll(query))
                    let native = texts(try pair.native.fetchAll(query))
                    #expect(own == native, "\(sql): \(table)")
                }
            }
        }
        if let drains { #expect(pair.database.migrationStatistics.drained.isEmpty != drains) }
        try pair.finish()
        for table in all {
            let query = "SELECT * FROM \(table) ORDER BY 1"
            let own = texts(try pair.database.fetchAll(query))
            #expect(own == texts(try pair.native.fetchAll(query)))
        }
    }

    @Test(arguments: [
        ["INSERT INTO messages(chat, author) VALUES (29, 30)"], ["INSERT INTO messages(chat, author) VALUES (29, 31)"],
        ["INSERT INTO messages(chat, author, reply) SELECT chat, author, id FROM messages WHERE id > 40"],
        ["UPDATE messages SET chat = 30 WHERE id IN (55, 2)"], ["UPDATE messages SET chat = 31 WHERE id IN (55, 2)"],
        ["DELETE FROM users WHERE id = 9"], ["DELETE FROM users WHERE id IN (8, 10)"],
        ["DELETE FROM chats WHERE id = 28"],
        ["UPDATE users SET id = 100 + id WHERE id = 12"], ["UPDATE users SET name = 'x'"],
        ["UPDATE chats SET id = 100 + id WHERE id > 27"], ["DELETE FROM messages WHERE id = 50"],
        ["DELETE FROM messages WHERE id = 58"], ["DELETE FROM messages"], ["DELETE FROM chats"], ["DELETE FROM users"],
        ["REPLACE INTO chats VALUES (28, 3)", "INSERT OR REPLACE INTO chats VALUES (27, 99)"],
        ["UPDATE OR REPLACE chats SET id = 20 WHERE id = 21"],
        ["INSERT OR IGNORE INTO users VALUES (30, 'z')", "DELETE FROM messages WHERE author = 30"],
        ["BEGIN", "DELETE FROM chats WHERE id = 28", "ROLLBACK", "DELETE FROM chats WHERE id = 29"],
        [
            "BEGIN", "PRAGMA defer_foreign_keys = 1", "INSERT INTO messages(chat) VALUES (77)", "COMMIT",
            "INSERT INTO chats VALUES (77, NULL)", "COMMIT",
        ],
    ])
    func keysActAsNatively(_ statements: [String]) throws {
        for moved: Int64 in [0, 45] { try compare(statements, moved: moved) }
    }

    @Test func keysOfTablesThatDoNotMoveActAsNatively() throws {
        try compare(
            [
                "INSERT INTO likes VALUES (1, 60, 'a')", "INSERT INTO likes VALUES (2, 61, 'b')",
                "UPDATE likes SET message = 59", "DELETE FROM messages WHERE id = 59", "SELECT * FROM likes",
                "INSERT INTO likes VALUES (3, 57, 'c'), (4, 58, 'd')", "DELETE FROM users WHERE id = 4",
            ],
            extra: "CREATE TABLE likes(id INTEGER PRIMARY KEY, message REFERENCES messages(id) ON DELETE CASCADE, x)"
        )
    }

    @Test func parentsThatDoNotMoveHaveChildrenThatDo() throws {
        try compare(
            ["DELETE FROM p WHERE id = 3", "UPDATE p SET id = 30 WHERE id = 2", "REPLACE INTO p VALUES (1, 'other')"],
            schema: "CREATE TABLE p(id INTEGER PRIMARY KEY, x UNIQUE); "
                + "CREATE TABLE c(id INTEGER PRIMARY KEY, p REFERENCES p ON DELETE CASCADE ON UPDATE SET NULL)",
            rows: "INSERT INTO p VALUES (1, 'a'), (2, 'b'), (3, 'c'); "
                + "INSERT INTO c SELECT 10 * a.id + b.id, a.id FROM p AS a, p AS b",
            extra: "INSERT OR IGNORE INTO p VALUES (1, 'a'), (2, 'b'), (3, 'c')",
            tables: ["c"]
        )
    }

    @Test(arguments: [0, 3]) func keysOfSeveralColumnsWithCollationsActAsNatively(moved: Int64) throws {
        try compare(
            [
                "INSERT INTO c VALUES (9, 'ANNA', '2')", "INSERT INTO c VALUES (10, 'anna', 9)",
                "INSERT INTO c VALUES (11, NULL, 9)", "UPDATE p SET a = 'ANNA' WHERE b = 1",
                "UPDATE p SET a = 'eve' WHERE a = 'bob' AND b = 1", "DELETE FROM p WHERE a = 'carl'",
                "DELETE FROM p WHERE b = 2",
            ],
            schema: """
                CREATE TABLE p(a TEXT COLLATE NOCASE, b INTEGER, PRIMARY KEY(b, a)) WITHOUT ROWID;
                CREATE TABLE c(id INTEGER PRIMARY KEY, a TEXT, b INTEGER,
                    FOREIGN KEY(a, b) REFERENCES p(a, b) ON UPDATE CASCADE ON DELETE SET NULL);
                """,
            rows: """
                INSERT INTO p VALUES ('anna', 1), ('anna', 2), ('bob', 1), ('carl', 1);
                INSERT INTO c VALUES (1, 'Anna', 1), (2, 'BOB', 1), (3, 'bob', 1), (4, 'Carl', 1), (5, 'anna', NULL);
                """,
            tables: ["p", "c"],
            moved: moved
        )
    }

    /// With deferred keys, the two statements may come in this order in a transaction.
    @Test(arguments: [0, 2, 4]) func deferredKeysAreCountedAsNatively(moved: Int64) throws {
        try compare(
            [
                "BEGIN", "INSERT INTO c VALUES (10, 9)", "UPDATE c SET p = 8 WHERE id = 3", "COMMIT",
                "INSERT INTO p VALUES (9)", "COMMIT", "INSERT INTO p VALUES (8)", "COMMIT",
                "BEGIN", "DELETE FROM p WHERE id = 2", "COMMIT", "DELETE FROM c WHERE p = 2", "COMMIT",
                "BEGIN", "DELETE FROM p WHERE id = 1", "ROLLBACK",
            ],
            schema: "CREATE TABLE p(id INTEGER PRIMARY KEY); CREATE TABLE c(id INTEGER PRIMARY KEY, "
                + "p INTEGER REFERENCES p(id) DEFERRABLE INITIALLY DEFERRED)",
            rows: "INSERT INTO p VALUES (1), (2), (3), (4); INSERT INTO c VALUES (1, 1), (2, 2), (3, 2), (4, 4)",
            tables: ["p", "c"],
            moved: moved
        )
    }

    /// The child moves before its parent.
    @Test func aChildWhoseParentHasYetToMoveHidesNoViolation() throws {
        try compare(
            [
                "UPDATE t SET up = 77 WHERE id IN (1, 2)",
                "UPDATE t SET up = CASE id WHEN 1 THEN 77 ELSE 3 END WHERE id < 3",
            ],
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, up INTEGER REFERENCES t(id))",
            rows: "INSERT INTO t VALUES (1, 9), (2, 9), (3, NULL), (9, NULL)",
            tables: ["t"],
            moved: 2
        )
    }

    /// A row that breaks a key from the start cannot be promoted by itself, nor can rows that need each other.
    @Test(arguments: [
        ["UPDATE c SET x = 1 WHERE id = 1"], ["DELETE FROM c WHERE id = 2"], ["REPLACE INTO c VALUES (1, 1, NULL, 2)"],
    ])
    func whereAPromotionWouldBreakAKeyTheTablesAreDrained(_ statements: [String]) throws {
        try compare(
            statements,
            schema: "CREATE TABLE p(id INTEGER PRIMARY KEY); "
                + "CREATE TABLE c(id INTEGER PRIMARY KEY, p REFERENCES p, c REFERENCES c, x)",
            rows: "PRAGMA foreign_keys = OFF; INSERT INTO p VALUES (1); "
                + "INSERT INTO c VALUES (1, 99, NULL, 0), (2, 1, 3, 0), (3, 1, 2, 0); PRAGMA foreign_keys = ON",
            tables: ["p", "c"],
            drains: true
        )
    }

    /// SQLite counts a violation for a row that is inserted, and the end of one for each child that the row gets.
    /// Without triggers, SQLite counts neither, but refuses the row.
    @Test(
        arguments: [
            (["p", "c", "g"], 0), (["p", "c", "g"], 1), (["p", "c", "g"], 3), (["p"], 0), (["c"], 0), (["g"], 0),
        ] as [(Set<String>, Int64)]
    )
    func aRowThatBreaksAKeyIsRefusedThoughItIsTheParentOfAnOrphan(_ tables: Set<String>, moved: Int64) throws {
        for statements in [
            ["INSERT INTO c VALUES (6, 99)"], ["INSERT INTO c VALUES (6, 99), (7, 1)"], ["INSERT INTO c VALUES (6, 1)"],
            ["INSERT INTO c SELECT 6, 99"], ["UPDATE c SET id = 6 WHERE id = 1"],
        ] {
            let fixed = [
                "p": "INSERT OR IGNORE INTO p VALUES (1), (2);", "c": "INSERT OR IGNORE INTO c VALUES (1, 1), (2, 2);",
                "g": "INSERT OR IGNORE INTO g VALUES (1, 1), (2, 6), (3, 2);",
            ]
            let rows = "PRAGMA foreign_keys = OFF; \(fixed.values.joined()) PRAGMA foreign_keys = ON"
            try compare(
                statements,
                schema: """
                    CREATE TABLE p(id INTEGER PRIMARY KEY); CREATE TABLE c(id INTEGER PRIMARY KEY, p REFERENCES p);
                    CREATE TABLE g(id INTEGER PRIMARY KEY, c REFERENCES c)
                    """,
                rows: rows,
                extra: "PRAGMA foreign_keys = OFF; "
                    + fixed.filter { !tables.contains($0.key) }.values.joined() + " PRAGMA foreign_keys = ON",
                tables: tables,
                moved: moved,
                drains: nil
            )
        }
    }

    /// If the column is NOT NULL, REPLACE deletes no row. So SQLite refuses the new row before it inserts the row.
    @Test func aRowThatIsRefusedFirstSetsNoLastInsertRowID() throws {
        try compare(
            [
                "INSERT INTO c(p) VALUES (99)", "BEGIN", "INSERT INTO c(p) VALUES (98)", "COMMIT",
                "INSERT INTO c(p) VALUES (1)",
            ],
            schema: "CREATE TABLE p(id INTEGER PRIMARY KEY); CREATE TABLE c(id INTEGER PRIMARY KEY, "
                + "p NOT NULL ON CONFLICT REPLACE DEFAULT 1 REFERENCES p)",
            rows: "INSERT INTO p VALUES (1); INSERT INTO c VALUES (1, 1), (2, 1)",
            tables: ["p", "c"]
        )
    }

    /// SQLite does not find a parent by its rowid for a REAL column, but it finds the child of a parent that is
    /// deleted.
    @Test func aChildWhoseColumnIsRealIsDeletedWithItsParent() throws {
        try compare(
            ["DELETE FROM p WHERE id = 2", "INSERT INTO c VALUES (9, 1)", "SELECT * FROM c"],
            schema: "CREATE TABLE p(id INTEGER PRIMARY KEY); "
                + "CREATE TABLE c(id INTEGER PRIMARY KEY, p REAL REFERENCES p ON DELETE CASCADE)",
            rows: "PRAGMA foreign_keys = OFF; INSERT INTO p VALUES (1), (2); INSERT INTO c VALUES (1, 1), (2, 2); "
                + "PRAGMA foreign_keys = ON",
            tables: ["p", "c"],
            drains: true
        )
    }

    /// SQLite fires TEMP triggers even if triggers are switched off.
    @Test func rowsThatAreDrainedFireNoTriggerOfTheKeys() throws {
        try compare(
            ["INSERT INTO messages(chat) VALUES (3)", "PRAGMA foreign_key_check", "DELETE FROM users WHERE id = 4"],
            extra: "CREATE TABLE other(a UNIQUE ON CONFLICT REPLACE)",
            drains: true
        )
    }

    @Test func theFirstInsertOfManyRowsPromotesWhatItNeeds() throws {
        var configuration = DatabaseConfiguration()
        configuration.enforcesForeignKeys = true
        let pair = try Pair(
            schema: Self.people,
            rows: Self.rows,
            tables: ["users", "chats", "messages"],
            configuration: configuration
        )
        try pair.database.execute("INSERT INTO messages(chat, author) VALUES (30, 29)")
        #expect(try pair.database.readMigrationProgress().tables.allSatisfy { $0.phase == .copying })
        let ledgers = try pair.database.fetchAll(
            "SELECT name FROM sqlite_master WHERE name LIKE 'midstream\\_ledger%' ESCAPE '\\' AND type = 'table'"
        ).map { try $0.get(0, as: String.self) }
        #expect(ledgers.count == 3)
        for ledger in ledgers {
            // These are the chat, its owner, the author, and the message with the largest rowid, with the rows that it
            // refers to.
            let promoted = try pair.database.fetchValue(Int.self, "SELECT count(*) FROM \(ledger)")
            #expect((promoted ?? 0) <= 5)
        }
    }

    // MARK: A key whose other end is elsewhere

    private func target(_ schema: String, waiving waived: Set<String> = []) throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(script: Self.people + Self.rows)
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute(schema)
        try database.addMigration(source: .file(folder.file("old.db"))) { table in
            table.sourceTable = table.name
            table.waivedForeignKeys = waived
        }
        var steps = 0
        while try !database.stepMigration().isFinished, steps < 1000 { steps += 1 }
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM chats") == 30)
    }

    private static let chats = "CREATE TABLE chats(id INTEGER PRIMARY KEY, owner INTEGER REFERENCES users(id))"

    @Test func aKeyWhoseOtherEndStaysBehindIsRefused() throws {
        let error = #expect(throws: MigrationError.self) { try target(Self.chats) }
        #expect(error?.code == .missingTable)
        #expect(error?.table == "chats")
        #expect(error?.message.contains("foreign key to table users") == true)
        try target(Self.chats, waiving: ["Users"])
        try target(Self.chats + "; CREATE TABLE users(id INTEGER PRIMARY KEY, name TEXT)")
    }
}

extension String {
    fileprivate func components(upTo end: String) -> String {
        var text = Substring(self)
        while !text.isEmpty, !text.hasPrefix(end) { text = text.dropFirst() }
        return String(dropLast(text.count))
    }

    /// The triggers that promote a row's ends then belong to a table that does not exist.
    @Test func anotherProcessMayMoveTheTableAndRenameIt() throws {
        // After this, SQLite 3.15 cannot read its TEMP schema any more.
        guard Connection.libraryVersionNumber >= 3_040_000 else { return }
        let folder = TemporaryFolder()
        let schema = "CREATE TABLE people(id INTEGER PRIMARY KEY, boss INTEGER REFERENCES people(id))"
        for file in ["old.db", "new.db"] {
            let connection = try Connection(path: folder.file(file))
            try connection.execute(script: "\(schema); CREATE INDEX by_boss ON people(boss);")
            if file == "old.db" { try connection.execute("INSERT INTO people VALUES (1, NULL), (2, 1)") }
            connection.close()
        }
        var configuration = DatabaseConfiguration()
        configuration.enforcesForeignKeys = true
        let database = try Database(path: folder.file("new.db"), configuration: configuration)
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = $0.name }
        try database.execute("UPDATE people SET boss = 2 WHERE id = 1")
        let mover = try Database(path: folder.file("new.db"))
        while try !mover.stepMigration().isFinished {}
        mover.close()
        let other = try Connection(path: folder.file("new.db"))
        try other.execute("ALTER TABLE people RENAME TO persons")
        other.close()
        try database.execute("CREATE TABLE others(id INTEGER PRIMARY KEY)")
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM persons") == 2)
    }
}
