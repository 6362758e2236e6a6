import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Tables that get another shape while the application reads and writes them.
@Suite struct RebuildTests {
    private static let schema = """
        CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE messages(
            id INTEGER PRIMARY KEY AUTOINCREMENT, sender INTEGER REFERENCES people(id) ON DELETE CASCADE,
            body TEXT CHECK (length(messages.body) < 100), code TEXT UNIQUE, old_date TEXT);
        CREATE INDEX by_sender ON messages(sender, id);
        CREATE INDEX long_ones ON messages(body) WHERE length(body) > 8;
        CREATE TABLE attachments(message INTEGER REFERENCES messages(id) ON DELETE CASCADE, data);
        CREATE TABLE log(what);
        CREATE VIEW latest AS SELECT id, body FROM messages WHERE id > 250;
        CREATE TRIGGER noted AFTER UPDATE OF body ON messages BEGIN INSERT INTO log VALUES (NEW.id || NEW.body); END;
        CREATE TRIGGER counted AFTER INSERT ON people BEGIN
            INSERT INTO log SELECT count(*) FROM messages; END;
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20)
            INSERT INTO people SELECT i, 'p' || i FROM n;
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
            INSERT INTO messages SELECT i, i % 20 + 1, 'body ' || i, 'c' || i, i FROM n;
        DELETE FROM messages WHERE id IN (7, 300);
        INSERT INTO attachments SELECT id, 'x' FROM messages WHERE id % 3 = 0;
        """

    private static let second = """
        CREATE TABLE messages(
            id INTEGER PRIMARY KEY AUTOINCREMENT, sender INTEGER NOT NULL REFERENCES people(id) ON DELETE CASCADE,
            body TEXT COLLATE NOCASE NOT NULL DEFAULT '', code TEXT UNIQUE, sent INTEGER, flag DEFAULT 3)
        """

    private static func rebuild(_ table: inout TableRebuild) {
        table.schema = second
        table.columns["sent"] = .column("old_date")
        table.columns["flag"] = .defaultValue
        table.rowsCopiedAtOnce = 0
    }

    private static func rebuildNatively(_ pair: UpgradePair) throws {
        try pair.rebuildNatively(
            "messages",
            second,
            "id, sender, body, code, sent",
            from: "id, sender, body, code, old_date"
        )
    }

    private static let workload = [
        "UPDATE messages SET body = 'changed' WHERE id IN (3, 150, 280)",
        "INSERT INTO messages(sender, body, code) VALUES (2, 'new', 'n1')",
        "INSERT INTO messages(sender, body, code) VALUES (2, 'again', 'C9')",
        "DELETE FROM messages WHERE sent BETWEEN 100 AND 120",
        "UPDATE messages SET code = 'k' || id WHERE sender = 5",
        "INSERT OR REPLACE INTO messages(id, sender, body, code) VALUES (299, 1, 'r', 'c1')",
        "INSERT INTO people VALUES (21, 'p21')",
        "DELETE FROM people WHERE id = 4",
        "UPDATE latest SET body = 1 WHERE 0",
    ]

    @Test(arguments: [false, true], [0, 40, 290] as [Int64])
    func aTableIsReadAndWrittenInItsNewShapeAtOnce(_ enforcesForeignKeys: Bool, _ moved: Int64) throws {
        var configuration = DatabaseConfiguration()
        configuration.enforcesForeignKeys = enforcesForeignKeys
        let pair = try UpgradePair(Self.schema, configuration: configuration)
        try Self.rebuildNatively(pair)
        try pair.database.write { access in
            let rebuilt = try access.rebuild("messages", Self.rebuild)
            #expect(rebuilt.name == "messages")
            #expect(rebuilt.way == .online)
            #expect(rebuilt.reason == nil)
            // In the same transaction.
            #expect(try access.fetchValue(Int.self, "SELECT sum(sent) FROM messages WHERE flag = 3") == 44843)
        }
        pair.expectSame()
        try pair.database.stepMigration(rows: moved)
        for sql in Self.workload {
            try pair.execute(sql)
            try pair.database.stepMigration(rows: 3)
        }
        try pair.reopen()
        for sql in ["DELETE FROM people WHERE id = 9", "DELETE FROM messages WHERE id = 60"] { try pair.execute(sql) }
        try pair.finish()
    }

    @Test func aSmallTableIsCopiedInTheTransaction() throws {
        let pair = try UpgradePair(Self.schema)
        try Self.rebuildNatively(pair)
        let rebuilt = try pair.database.write { access in
            try access.rebuild("messages") { table in
                Self.rebuild(&table)
                table.rowsCopiedAtOnce = 298
            }
        }
        #expect(rebuilt.way == .atOnce)
        #expect(try pair.database.readMigrationProgress().tables.isEmpty)
        for sql in Self.workload { try pair.execute(sql) }
        try pair.finish()
    }

    /// A unique index that the former shape has not cannot be searched there.
    @Test func whatCannotMoveInStepsIsCopiedInTheTransaction() throws {
        let pair = try UpgradePair(Self.schema)
        let schema = "CREATE TABLE messages(id INTEGER PRIMARY KEY, body TEXT UNIQUE, code TEXT)"
        let text = "CREATE INDEX by_code ON messages(code)"
        for name in ["by_sender", "long_ones", "noted"] {
            try pair.native.execute("DROP \(name == "noted" ? "TRIGGER" : "INDEX") \(name)")
        }
        try pair.rebuildNatively("messages", schema, "id, body, code", from: "id, body, code")
        try pair.native.execute(text)
        let rebuilt = try pair.database.write { access in
            try access.rebuild("messages") { table in
                table.schema = schema
                table.indexes = [text]
                table.triggers = []
                table.unmatchedColumns = .ignored
                table.rowsCopiedAtOnce = 0
            }
        }
        #expect(rebuilt.way == .atOnce)
        #expect(rebuilt.reason?.contains("has no index on (body)") == true)
        try pair.finish()
    }

    /// Rows that have yet to move have NULL there, which is equal to nothing.
    @Test(arguments: ["", " WITHOUT ROWID"], [0, 50] as [Int64])
    func aNewUniqueColumnWithoutDefaultNeedsNoIndexBefore(_ options: String, _ moved: Int64) throws {
        let pair = try UpgradePair(
            """
            CREATE TABLE t(id INTEGER PRIMARY KEY NOT NULL, a TEXT)\(options);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) INSERT INTO t SELECT i, 'a' || i FROM n;
            """
        )
        func rebuild(_ columns: String) throws -> RebuiltTable {
            let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY NOT NULL, \(columns))\(options)"
            let common = columns.contains("email") && columns.contains("COLLATE") ? "id, a, email" : "id, a"
            try pair.rebuildNatively("t", schema, common, from: common)
            return try pair.database.write { access in
                try access.rebuild("t") { table in
                    table.schema = schema
                    table.unmatchedColumns = .ignored
                    table.rowsCopiedAtOnce = 0
                }
            }
        }
        func write() throws {
            for sql in [
                "INSERT INTO t(id, a, email) VALUES (1000, 'new', 'x')",
                "UPDATE t SET email = 'x' WHERE id = 100",
                "UPDATE t SET email = 'y' WHERE id IN (101)",
                "UPDATE t SET email = 'z' WHERE id > 150",
                "INSERT OR IGNORE INTO t(id, a, email) VALUES (1001, 'other', 'y')",
                "INSERT OR REPLACE INTO t(id, a, email) VALUES (160, 'replaced', 'y')",
                "INSERT INTO t(id, a, email) VALUES (161, 'taken', 'v')",
                "DELETE FROM t WHERE email = 'x' OR email IS NULL AND id BETWEEN 90 AND 95",
            ] { try pair.execute(sql) }
        }
        let first = try rebuild("a TEXT, email TEXT UNIQUE")
        #expect(first.way == .online && first.reason == nil)
        try pair.database.stepMigration(rows: moved)
        try write()
        let second = try rebuild("a TEXT COLLATE NOCASE, email TEXT UNIQUE, phone INTEGER, UNIQUE (phone, a)")
        #expect(second.way == .online && second.reason == nil, "\(second)")
        try pair.execute("DELETE FROM t WHERE email IN ('x', 'y')")
        try pair.database.stepMigration(rows: moved)
        try write()
        for sql in ["UPDATE t SET phone = 7, a = 'B' WHERE id IN (5, 170)", "UPDATE t SET phone = 7 WHERE id > 180"] {
            try pair.execute(sql)
        }
        #expect(pair.database.migrationStatistics.drained.isEmpty)
        try pair.finish()
    }

    @Test(arguments: [(0, 0), (25, 0), (0, 25), (25, 30)] as [(Int64, Int64)])
    func aTableThatIsStillMovingIsRebuiltAgain(_ moved: (first: Int64, second: Int64)) throws {
        let pair = try UpgradePair(Self.schema)
        let third = """
            CREATE TABLE messages(
                id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT COLLATE NOCASE NOT NULL DEFAULT '', code TEXT UNIQUE,
                author INTEGER, flag DEFAULT 3, size INTEGER DEFAULT 9)
            """
        try Self.rebuildNatively(pair)
        try pair.database.write { _ = try $0.rebuild("messages", Self.rebuild) }
        try pair.database.stepMigration(rows: moved.first)
        for sql in Self.workload.prefix(4) { try pair.execute(sql) }
        for name in ["by_sender"] { try pair.native.execute("DROP INDEX \(name)") }
        try pair.rebuildNatively(
            "messages",
            third,
            "id, body, code, author, flag",
            from: "id, body, code, sender, flag"
        )
        try pair.database.write { access in
            _ = try access.rebuild("messages") { table in
                table.schema = third
                table.columns["author"] = .column("sender")
                table.columns["size"] = .defaultValue
                table.unmatchedColumns = .ignored
                table.indexes.removeAll { $0.contains("by_sender") }
                table.rowsCopiedAtOnce = 0
            }
        }
        pair.expectSame()
        try pair.database.stepMigration(rows: moved.second)
        let copying = try pair.database.readMigrationProgress().tables.filter { $0.phase == .copying }
        #expect(copying.count == 2)
        for sql in Self.workload.dropFirst(5).filter({ !$0.contains("sender") }) { try pair.execute(sql) }
        try pair.execute("UPDATE messages SET author = 7 WHERE id > 40 AND id < 70")
        try pair.finish()
    }

    @Test func aTableThatGetsRowsOfAnotherFileIsRebuilt() throws {
        let pair = try UpgradePair("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b TEXT)")
        let old = try Connection(path: pair.folder.file("old.db"))
        let rows =
            "INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60) "
            + "SELECT i, 'a' || i, 'b' || i FROM n"
        try old.execute(script: "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b TEXT); \(rows)")
        old.close()
        try pair.native.execute(rows)
        let source = MigrationSource.file(pair.folder.file("old.db"))
        try pair.database.addMigration(source: source) { $0.sourceTable = $0.name }
        try pair.database.stepMigration(rows: 20)
        try pair.execute("UPDATE t SET b = 'x' WHERE id IN (2, 50)")
        let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, c TEXT, a TEXT COLLATE NOCASE)"
        try pair.rebuildNatively("t", schema, "id, c, a", from: "id, b, a")
        try pair.database.write { access in
            _ = try access.rebuild("t") { table in
                table.schema = schema
                table.columns["c"] = .column("b")
                table.rowsCopiedAtOnce = 0
            }
        }
        pair.expectSame()
        try pair.execute("UPDATE t SET c = 'y' WHERE a = 'A7' OR id = 55")
        try pair.reopen()
        try pair.database.addMigration(source: source) { $0.sourceTable = $0.name == "t" ? "t" : nil }
        try pair.database.stepMigration(rows: 7)
        try pair.execute("DELETE FROM t WHERE id % 9 = 0")
        try pair.finish()
    }

    @Test func whatIsRolledBackHasNotHappened() throws {
        struct Regret: Error {}
        let pair = try UpgradePair(Self.schema)
        #expect(throws: Regret.self) {
            try pair.database.write { access in
                try access.rebuild("messages", Self.rebuild)
                try access.execute("UPDATE messages SET sent = 1 WHERE id = 2")
                throw Regret()
            }
        }
        pair.expectSame()
        // One that fails leaves what the transaction did before.
        try pair.native.execute("DELETE FROM log")
        try pair.database.write { access in
            try access.execute("DELETE FROM log")
            let error = #expect(throws: SQLiteError.self) {
                try access.rebuild("messages") { table in
                    Self.rebuild(&table)
                    table.indexes.append("CREATE INDEX other ON messages(no_column)")
                }
            }
            #expect(error?.message.contains("no_column") == true)
        }
        pair.expectSame()
        try pair.execute("UPDATE messages SET body = 'after' WHERE id = 2")
        try Self.rebuildNatively(pair)
        try pair.database.write { _ = try $0.rebuild("messages", Self.rebuild) }
        try pair.finish()
    }

    @Test(.needs(.generatedColumns), .needs(.strict)) func otherKindsOfTablesAreRebuilt() throws {
        let pair = try UpgradePair(
            """
            CREATE TABLE k(a TEXT, b INTEGER, c, PRIMARY KEY (a, b DESC)) WITHOUT ROWID;
            CREATE TABLE g(id INTEGER PRIMARY KEY, a INTEGER, b AS (a + 1), c INTEGER);
            CREATE TABLE s(x ANY, y TEXT);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50)
                INSERT INTO k SELECT 'a' || (i % 5), i, i FROM n;
            INSERT INTO g(a, c) SELECT b, b FROM k; INSERT INTO s SELECT a, c FROM k;
            """
        )
        let k = "CREATE TABLE k(a TEXT, b INTEGER, c TEXT, d DEFAULT 1, PRIMARY KEY (a, b DESC)) WITHOUT ROWID"
        let g = "CREATE TABLE g(id INTEGER PRIMARY KEY, a INTEGER, b AS (a + 1), d AS (a * 2) STORED, c TEXT)"
        let s = "CREATE TABLE s(x ANY, y TEXT, z INTEGER DEFAULT 4) STRICT"
        try pair.rebuildNatively("k", k, "a, b, c", from: "a, b, c")
        try pair.rebuildNatively("g", g, "id, a, c", from: "id, a, c")
        try pair.rebuildNatively("s", s, "x, y", from: "x, y")
        try pair.database.write { access in
            for (name, schema) in [("k", k), ("g", g), ("s", s)] {
                let rebuilt = try access.rebuild(name) { table in
                    table.schema = schema
                    table.unmatchedColumns = .ignored
                    table.rowsCopiedAtOnce = 0
                }
                #expect(rebuilt.way == .online, "\(rebuilt)")
            }
        }
        pair.expectSame()
        for sql in [
            "UPDATE k SET c = 'x' WHERE b > 40", "DELETE FROM k WHERE a = 'a2' AND b < 20",
            "INSERT INTO g(a) VALUES (70)", "UPDATE g SET a = a + 100 WHERE d = 30",
            "INSERT INTO s VALUES (1, 'y', 'z')",
            "UPDATE s SET z = 5 WHERE y = '17'",
        ] {
            try pair.execute(sql)
            try pair.database.stepMigration(rows: 4)
        }
        try pair.finish()
    }

    @Test func whatDoesNotFitIsRefused() throws {
        let pair = try UpgradePair(Self.schema)
        func expect(_ code: MigrationError.Code, _ words: String, _ change: (inout TableRebuild) -> Void) throws {
            let error = #expect(throws: MigrationError.self) {
                try pair.database.write { _ = try $0.rebuild("messages", change) }
            }
            #expect(error?.code == code)
            #expect(error?.message.contains(words) == true, "\(error?.message ?? "")")
        }
        try expect(.misuse, "a CREATE TABLE with its name") { $0.schema = "CREATE TABLE other(a)" }
        try expect(.misuse, "a CREATE TABLE with its name") { $0.schema = "CREATE TABLE messages AS SELECT 1" }
        try expect(.unequalTables, "the source lacks flag") { table in
            table.schema = Self.second
            table.columns["sent"] = .column("old_date")
        }
        try expect(.misuse, "no index or trigger of table messages") { $0.indexes = ["CREATE INDEX i ON log(what)"] }
        try expect(.misuse, "nobody can be asked") { $0.refusedRows = .ask { _ in .stop } }
        #expect(throws: MigrationError.self) { try pair.database.read { _ = try $0.rebuild("messages") { _ in } } }
        #expect(throws: MigrationError.self) { try pair.database.write { _ = try $0.rebuild("none") { _ in } } }
        #expect(throws: MigrationError.self) { try pair.database.write { _ = try $0.rebuild("latest") { _ in } } }
        try pair.database.write { _ = try $0.rebuild("messages", Self.rebuild) }
        let error = #expect(throws: MigrationError.self) { try pair.database.cancelMigration() }
        #expect(error?.message.contains("has been rebuilt") == true)
    }

    /// Copied at once, they would fail the upgrade.
    @Test(arguments: [0, 1000]) func rowsThatAreRefusedAreSetAside(_ rowsCopiedAtOnce: Int) throws {
        let pair = try UpgradePair(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1, 'x'), (2, NULL), (3, 'z');"
        )
        try pair.database.write { access in
            _ = try access.rebuild("t") { table in
                table.schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, a NOT NULL)"
                table.refusedRows = .setAside
                table.rowsCopiedAtOnce = rowsCopiedAtOnce
            }
        }
        try finishMigration(pair.database)
        #expect(texts(try pair.database.fetchAll("SELECT * FROM t")) == ["1|x", "3|z"])
    }

    @Test(
        .needs(.partialIndexes),
        .needs(.indexesOnExpressions),
        arguments: [
            "t(a) WHERE t.b = 1", "t(a COLLATE NOCASE DESC, b) WHERE b", "t(a + 1)", "t((a + 1) DESC, 'x,y' || b)",
        ]
    )
    func aUniqueIndexOfAnyKindIsChecked(_ terms: String) throws {
        let pair = try UpgradePair(
            """
            CREATE TABLE t(id INTEGER PRIMARY KEY, a, b); INSERT INTO t VALUES (1, NULL, 1), (2, NULL, 1), (3, 7, 1);
            INSERT INTO t VALUES (4, 8, 1);
            """
        )
        func rebuild() throws -> RebuiltTable {
            try pair.database.write { access in
                try access.rebuild("t") { table in
                    table.indexes = ["CREATE UNIQUE INDEX u ON \(terms)"]
                    table.rowsCopiedAtOnce = 0
                }
            }
        }
        try pair.execute("UPDATE t SET a = 7 WHERE id = 4")
        let error = #expect(throws: MigrationError.self) { try rebuild() }
        #expect(error?.code == .keyCollision, "\(error?.message ?? "")")
        try pair.execute("UPDATE t SET a = 8 WHERE id = 4")
        #expect(try rebuild().way == .online)
        #expect(throws: SQLiteError.self) { try pair.database.execute("INSERT INTO t VALUES (5, 7, 1)") }
        try pair.execute("INSERT INTO t VALUES (5, 9, 1)")
        try finishMigration(pair.database)
        pair.expectSame()
    }

    /// What is generated is looked at as it will be.
    @Test(.needs(.generatedColumns), .needs(.partialIndexes), arguments: ["new", "changed"], [true, false])
    func aUniqueIndexOnAGeneratedColumnIsChecked(_ column: String, _ isUnique: Bool) throws {
        let rows = isUnique ? "(1, 'A', 0), (2, 'b', 0), (3, 'a', 1)" : "(1, 'A', 0), (2, 'a', 0), (3, 'c', 1)"
        let columns = "id INTEGER PRIMARY KEY, name TEXT, deleted INTEGER"
        let index = "CREATE UNIQUE INDEX u ON t(key) WHERE deleted = 0"
        let pair = try UpgradePair(
            column == "new"
                ? "CREATE TABLE t(\(columns)); INSERT INTO t VALUES \(rows);"
                : "CREATE TABLE t(\(columns), key TEXT AS (name)); \(index); INSERT INTO t(id, name, deleted) VALUES \(rows);"
        )
        func rebuild() throws -> RebuiltTable {
            try pair.database.write { access in
                try access.rebuild("t") { table in
                    table.schema = "CREATE TABLE t(\(columns), key TEXT AS (lower(name)))"
                    table.indexes = [index]
                    table.rowsCopiedAtOnce = 0
                }
            }
        }
        if isUnique {
            #expect(try rebuild().way == .online)
            try finishMigration(pair.database)
            #expect(texts(try pair.database.fetchAll("SELECT key FROM t ORDER BY id")) == ["a", "b", "a"])
        } else {
            let error = #expect(throws: MigrationError.self) { try rebuild() }
            #expect(error?.code == .keyCollision, "\(error?.message ?? "")")
        }
    }

    /// A statement of the block before it has had the overlay taken down.
    @Test(.enabled(if: Connection.libraryVersionNumber >= 3_025_000), arguments: [false, true])
    func aSourceWhoseColumnWasRenamedIsNoticedWithinABlock(_ isAfterAnother: Bool) throws {
        let move = try SmallMove(
            source: "CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT); INSERT INTO t VALUES (1, 'a'), (2, 'b')",
            target: "CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT)"
        )
        try move.database.execute("CREATE TABLE settings(id INTEGER PRIMARY KEY)")
        let other = try Connection(path: move.folder.file("old.db"))
        try other.execute("ALTER TABLE t RENAME COLUMN body TO text_")
        let error = #expect(throws: MigrationError.self) {
            try move.database.write { access in
                if isAfterAnother { try access.execute("ALTER TABLE settings ADD COLUMN x") }
                _ = try access.rebuild("t") { table in
                    table.schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT UNIQUE)"
                }
            }
        }
        #expect(
            error.map { [.sourceChanged, .unequalTables].contains($0.code) } == true,
            "\(error.map { "\($0)" } ?? "")"
        )
        #expect(try other.fetchAll("SELECT text_ FROM t ORDER BY id").map(\.values) == [[.text("a")], [.text("b")]])
    }

    /// A row that has yet to come has the present for a time, which is another each time it is read.
    @Test(.enabled(if: Connection.libraryVersionNumber >= 3_020_000))
    func aRebuildOfARebuildAsksTheRowsToComeForTheirTimes() throws {
        let pair = try UpgradePair(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, d TEXT); INSERT INTO t VALUES (1, '2020-01-01'), (2, 'now');"
        )
        try pair.database.write { access in
            _ = try access.rebuild("t") { table in
                table.schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, d TEXT, more)"
                table.columns["more"] = .value(.null)
                table.rowsCopiedAtOnce = 0
            }
        }
        let rebuilt = try pair.database.write { access in
            try access.rebuild("t") { table in
                table.schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, d TEXT, more, j)"
                table.columns["j"] = .expression("julianday(d)")
                table.rowsCopiedAtOnce = 0
            }
        }
        #expect(rebuilt.way != .online)
        let first = texts(try pair.database.fetchAll("SELECT id, j FROM t ORDER BY id"))
        usleep(5000)
        #expect(texts(try pair.database.fetchAll("SELECT id, j FROM t ORDER BY id")) == first)
        try finishMigration(pair.database)
        #expect(texts(try pair.database.fetchAll("SELECT id, j FROM t ORDER BY id")) == first)
    }

    @Test func aConstraintsNameMayHaveNoConstraint() throws {
        let pair = try UpgradePair("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT CONSTRAINT foo, b CONSTRAINT bar)")
        try pair.database.write { access in
            _ = try access.rebuild("t") { $0.schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT NOT NULL, b)" }
        }
        let schema = DatabaseSchema(sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT NOT NULL, b CONSTRAINT c)")
        #expect(try pair.database.plan(for: schema).isEmpty)
    }
}
