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

/// Rebuilds beside other migrations, savepoints, connections and clauses that could lose rows.
@Suite struct RebuildEdgeTests {
    /// Inserts `count` rows, which `select` makes of the numbers `i` from 1 on.
    private static func rows(_ count: Int, into table: String, _ select: String) -> String {
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(count)) "
            + "INSERT INTO \(table) SELECT \(select) FROM n;"
    }

    private func rows(_ database: Database, _ sql: String) throws -> [String] { texts(try database.fetchAll(sql)) }

    private func rebuild(_ database: Database, _ schema: String, _ change: (inout TableRebuild) -> Void = { _ in })
        throws
    {
        _ = try database.write { access in
            try access.rebuild("t") { table in
                table.schema = schema
                table.rowsCopiedAtOnce = 0
                change(&table)
            }
        }
    }

    /// The triggers go as they go when a table is dropped. Otherwise they would belong to the table's backup, and in
    /// the end to no table.
    @Test(arguments: [0, 1000]) func temporaryTriggersGoAndBreakNothing(_ atOnce: Int) throws {
        let folder = TemporaryFolder()
        let database = try Database(path: folder.file("app.db"))
        try database.execute(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE TABLE o(x); INSERT INTO t VALUES (1, 1)"
        )
        try database.write { try $0.execute("CREATE TEMP TRIGGER tt AFTER DELETE ON t BEGIN SELECT 1; END") }
        try rebuild(database, "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT)") { $0.rowsCopiedAtOnce = atOnce }
        #expect(try database.write { try $0.fetchAll("SELECT * FROM sqlite_temp_master WHERE name = 'tt'") }.isEmpty)
        try finishMigration(database)
        try database.execute("ALTER TABLE o RENAME TO o2")
        try rebuild(database, "CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        try finishMigration(database)
        #expect(try rows(database, "SELECT * FROM t") == ["1|1"])
    }

    /// A thousand rows may have a gigabyte.
    @Test func fewLargeRowsAreNotCopiedAtOnce() throws {
        let folder = TemporaryFolder()
        let database = try Database(path: folder.file("app.db"))
        try database.execute(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a);" + Self.rows(30, into: "t", "i, zeroblob(100000)")
        )
        let ways = try database.write { access in
            let large = try access.rebuild("t") { $0.schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, a BLOB)" }
            try access.execute(
                "CREATE TABLE u(id INTEGER PRIMARY KEY, a);" + Self.rows(900, into: "u", "i, zeroblob(900)")
            )
            let small = try access.rebuild("u") { $0.schema = "CREATE TABLE u(id INTEGER PRIMARY KEY, a BLOB)" }
            return [large.way, small.way]
        }
        #expect(ways == [.online, .atOnce])
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, "SELECT sum(length(a)) FROM t") == 3_000_000)
    }

    // MARK: Sources that have moved

    /// In one file, only the fence tells that the rows have moved.
    @Test(arguments: [0, 1000])
    func aKeptSourceOfTheSameFileStaysOneThatHasMoved(_ atOnce: Int) throws {
        let folder = TemporaryFolder()
        let database = try Database(path: folder.file("new.db"))
        try database.execute(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (1, 1), (2, 2); CREATE TABLE u(id INTEGER PRIMARY KEY, v)"
        )
        func add() throws {
            try database.addMigration(source: .sameDatabase, retirement: .keep) {
                if $0.name == "u" { $0.sourceTable = "t" }
            }
            try finishMigration(database)
        }
        try add()
        try database.execute("DELETE FROM u")
        try rebuild(database, "CREATE TABLE t(id INTEGER PRIMARY KEY, v INT)") { $0.rowsCopiedAtOnce = atOnce }
        #expect(throws: SQLiteError.self) { try database.execute("UPDATE t SET v = 3") }
        try finishMigration(database)
        try add()
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM u") == 0)
        #expect(throws: SQLiteError.self) { try database.execute("UPDATE t SET v = 3") }
        #expect(try rows(database, "SELECT id, v FROM t") == ["1|1", "2|2"])
    }

    @Test(arguments: [0, 1000])
    func aKeptSourceOfAnotherFileStaysFenced(_ atOnce: Int) throws {
        let folder = TemporaryFolder()
        let old = try Database(path: folder.file("old.db"))
        try old.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (1, 1)")
        let new = try Database(path: folder.file("new.db"))
        try new.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        try new.addMigration(source: .file(old.path), retirement: .keep) {
            $0.sourceTable = $0.name == "t" ? "t" : nil
        }
        try finishMigration(new)
        var options = SchemaOptions()
        options.rowsChangedAtOnce = atOnce
        try old.upgrade(to: DatabaseSchema(sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, v INT)"), options: options)
        for _ in 0..<2 {
            #expect(throws: SQLiteError.self) { try old.execute("UPDATE t SET v = 2") }
            try finishMigration(old)
        }
        #expect(try rows(old, "SELECT id, v FROM t") == ["1|1"])
    }

    /// No row is deleted, even if no row has been in the table yet.
    @Test func noRowOfAKeptSourceIsDeletedWhileItIsRebuilt() throws {
        let folder = TemporaryFolder()
        let old = try Database(path: folder.file("old.db"))
        try old.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
        let new = try Database(path: folder.file("new.db"))
        try new.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        try new.addMigration(source: .file(folder.file("old.db")), retirement: .keep) { $0.sourceTable = $0.name }
        try finishMigration(new)
        try rebuild(old, "CREATE TABLE t(id INTEGER PRIMARY KEY, v, w)") { $0.unmatchedColumns = .ignored }
        for sql in ["DELETE FROM t", "DELETE FROM t WHERE id = 2", "DELETE FROM t WHERE v > 0"] {
            let error = #expect(throws: SQLiteError.self, "\(sql)") { try old.execute(sql) }
            #expect(error?.code == .constraintTrigger, "\(String(describing: error))")
        }
        #expect(try old.fetchValue(Int.self, "SELECT count(*) FROM t") == 3)
    }

    /// Otherwise a step would fail, and say what to do about a change by a program without Midstream.
    @Test func stepsBesideRebuildsDoNotFail() async throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(script: "CREATE TABLE t(id INTEGER PRIMARY KEY, v);" + Self.rows(200, into: "t", "i, i"))
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        try database.addMigration(source: .file(folder.file("old.db"))) {
            $0.sourceTable = $0.name == "t" ? "t" : nil
        }
        let threads = Threads()
        threads.loop("steps") { _ in try database.stepMigration(rows: 0) }
        for number in 0..<Sample.size(60) {
            try rebuild(database, "CREATE TABLE t(id INTEGER PRIMARY KEY, v, x\(number) DEFAULT 1)") {
                $0.columns["x\(number)"] = .defaultValue
                $0.unmatchedColumns = .ignored
                usleep(1000)
            }
            usleep(1000)
        }
        threads.end()
        await threads.join()
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, "SELECT sum(v) FROM t") == 20_100)
    }

    // MARK: Chains

    @Test(arguments: ["", " WITHOUT ROWID"], [0, 5] as [Int64])
    func aTableWhoseKeyChangesTwiceKeepsItsRows(_ options: String, _ moved: Int64) throws {
        let key = options.isEmpty ? "x INTEGER NOT NULL UNIQUE" : "x INTEGER PRIMARY KEY"
        let pair = try UpgradePair(
            "CREATE TABLE t(\(key), a TEXT)\(options);" + Self.rows(20, into: "t(x, a)", "100 - i * 3, 'a' || i")
        )
        try rebuild(pair.database, "CREATE TABLE t(x INTEGER PRIMARY KEY, a TEXT)")
        try pair.database.stepMigration(rows: moved)
        try pair.execute("UPDATE t SET a = 'changed' WHERE x IN (97, 46, 61)")
        try pair.execute("DELETE FROM t WHERE x IN (94, 43, 64)")
        try pair.execute("INSERT INTO t VALUES (5, 'five')")
        try rebuild(pair.database, "CREATE TABLE t(x INTEGER, a TEXT, b DEFAULT 1)") {
            $0.columns["b"] = .defaultValue
        }
        let sql = "SELECT x, a FROM t ORDER BY x"
        #expect(try rows(pair.database, sql) == texts(pair.native.fetchAll(sql)))
        for execute in [pair.native.execute(script:), { try pair.database.execute($0) }] {
            try execute("UPDATE t SET a = 'later' WHERE x = 49")
        }
        #expect(try rows(pair.database, sql) == texts(pair.native.fetchAll(sql)))
        try finishMigration(pair.database)
        #expect(try rows(pair.database, sql) == texts(pair.native.fetchAll(sql)))
    }

    /// A single row does not show this constraint, so a rebuild does not find it out before it begins.
    private static let isNotNull = "a IS NOT NULL OR rowid < 0"

    /// A rebuild that needs the rows of the rebuild before it says which of them cannot come.
    @Test func aRowThatIsRefusedIsToldOfByTheNextRebuild() throws {
        let pair = try UpgradePair(
            "CREATE TABLE t(x INTEGER PRIMARY KEY, a);"
                + Self.rows(20, into: "t", "i, CASE i WHEN 7 THEN NULL ELSE i % 5 END")
        )
        try rebuild(pair.database, "CREATE TABLE t(x INTEGER PRIMARY KEY, a CHECK (\(Self.isNotNull)))")
        #expect(throws: MigrationError.self) { try finishMigration(pair.database) }
        let error = #expect(throws: SQLiteError.self) {
            let schema = "CREATE TABLE t(x INTEGER PRIMARY KEY, a CHECK (\(Self.isNotNull)) COLLATE NOCASE, b UNIQUE)"
            try rebuild(pair.database, schema) {
                $0.columns["b"] = .expression("a + x")
            }
        }
        #expect(error?.code == .constraintCheck)
        #expect(error?.message.hasPrefix("CHECK constraint failed") == true)
        #expect(error?.message.contains("the row with rowid 7 of table t") == true)
        #expect(try pair.database.fetchValue(Int.self, "SELECT count(*) FROM t") == 20)
        try pair.database.execute("DELETE FROM t WHERE x = 7")
        try rebuild(pair.database, "CREATE TABLE t(x INTEGER PRIMARY KEY, a NOT NULL COLLATE NOCASE, b)") {
            $0.columns["b"] = .expression("a + x")
        }
        try finishMigration(pair.database)
        #expect(try pair.database.fetchValue(Int.self, "SELECT count(b) FROM t") == 19)
    }

    /// The refused row is the first one, or comes after rows that have moved.
    @Test(arguments: [1, 12]) func aRowThatIsRefusedIsMendedByAnotherRebuild(_ refused: Int) throws {
        let pair = try UpgradePair(
            "CREATE TABLE t(x INTEGER PRIMARY KEY, a);"
                + Self.rows(20, into: "t", "i, CASE WHEN i IN (\(refused), 19) THEN NULL ELSE i END")
        )
        let schema = "CREATE TABLE t(x INTEGER PRIMARY KEY, a CHECK (\(Self.isNotNull)))"
        try rebuild(pair.database, schema)
        let error = #expect(throws: MigrationError.self) { try finishMigration(pair.database) }
        #expect(error?.code == .rowRefused)
        let words = "the new shape of table t refuses the row with rowid \(refused). "
        #expect(error?.message.hasPrefix(words) == true)
        #expect(error?.message.contains("rebuilt once more") == true)
        try rebuild(pair.database, schema) { $0.columns["a"] = .expression("coalesce(a, 'none')") }
        try pair.rebuildNatively("t", schema, "x, a", from: "x, coalesce(a, 'none')")
        for sql in ["UPDATE t SET a = a || '!' WHERE x >= 19", "DELETE FROM t WHERE x = 5"] { try pair.execute(sql) }
        try pair.finish()
    }

    @Test func aChainOfOtherKeysKeepsItsRows() throws {
        let pair = try UpgradePair(
            """
            CREATE TABLE a(x INTEGER NOT NULL UNIQUE, v); CREATE TABLE b(x INTEGER PRIMARY KEY, v);
            CREATE TABLE c(x INTEGER, v);
            """ + Self.rows(20, into: "a", "100 - i * 3, 'a' || i")
        )
        try pair.database.addMigration(source: .sameDatabase) { $0.sourceTable = $0.name == "b" ? "a" : nil }
        try pair.database.stepMigration(rows: 5)
        try pair.database.execute("DELETE FROM b WHERE x IN (94, 43, 64)")
        try pair.database.addMigration(source: .sameDatabase) { $0.sourceTable = $0.name == "c" ? "b" : nil }
        #expect(try pair.database.fetchValue(Int.self, "SELECT count(DISTINCT x) FROM c") == 17)
        try finishMigration(pair.database)
        #expect(try pair.database.fetchValue(Int.self, "SELECT count(*) FROM c") == 17)
    }

    @Test(arguments: [0, 3] as [Int64]) func anAutoIncrementOfTheSecondRebuildGivesNoKeyTwice(_ moved: Int64) throws {
        let pair = try UpgradePair(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT);" + Self.rows(20, into: "t", "i, i")
        )
        try rebuild(pair.database, "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT NOT NULL)")
        try pair.database.stepMigration(rows: moved)
        try rebuild(pair.database, "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT NOT NULL)")
        try pair.database.execute("DELETE FROM t WHERE id = 20")
        try pair.database.execute("INSERT INTO t(a) VALUES ('new')")
        #expect(try rows(pair.database, "SELECT id FROM t WHERE a = 'new'") == ["21"])
        try finishMigration(pair.database)
        #expect(try pair.database.fetchValue(Int.self, "SELECT count(*) FROM t") == 20)
    }

    @Test(arguments: [true, false]) func itIsToldHowTheRowsOfAnEarlierRebuildCome(_ canMoveOn: Bool) throws {
        let pair = try UpgradePair("CREATE TABLE t(id INTEGER PRIMARY KEY, a);" + Self.rows(3000, into: "t", "i, i"))
        let first = canMoveOn ? "a TEXT" : "a INTEGER"
        try pair.database.write { access in
            _ = try access.rebuild("t") { $0.schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, \(first))" }
        }
        let rebuilt = try pair.database.write { access in
            try access.rebuild("t") { table in
                table.schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT NOT NULL, b)"
                // Nothing else can be made of a value while it moves, if it is converted while it moves.
                table.columns["b"] = .expression(canMoveOn ? "id + 1" : "a + 1")
            }
        }
        #expect(rebuilt.way == .online)
        #expect((rebuilt.reason == nil) == canMoveOn)
        #expect(try pair.database.fetchValue(Int.self, "SELECT count(*) FROM t WHERE b = id + 1") == 3000)
        try finishMigration(pair.database)
        #expect(try pair.database.fetchValue(Int.self, "SELECT count(b) FROM t") == 3000)
    }

    // MARK: Sources

    @Test(arguments: ["DROP TABLE old", "ALTER TABLE main.OLD RENAME TO other", "ALTER TABLE \"old\" ADD COLUMN b"])
    func theSourceOfAMoveWithinTheFileIsNeitherChangedNorDropped(_ sql: String) throws {
        let pair = try UpgradePair(
            "CREATE TABLE old(id INTEGER PRIMARY KEY, a); CREATE TABLE new(id INTEGER PRIMARY KEY, a);"
                + Self.rows(300, into: "old", "i, i")
        )
        try pair.database.addMigration(source: .sameDatabase) { $0.sourceTable = $0.name == "new" ? "old" : nil }
        try pair.database.stepMigration(rows: 10)
        let error = #expect(throws: MigrationError.self) { try pair.database.execute(sql) }
        #expect(error?.code == .refusedStatement && error?.table?.lowercased() == "old")
        #expect(error?.message.contains("are moving to table new") == true)
        try finishMigration(pair.database)
        #expect(try pair.database.fetchValue(Int.self, "SELECT count(*) FROM new") == 300)
    }

    @Test func tablesOfOtherFilesMayHaveTheNameOfASource() throws {
        let pair = try UpgradePair(
            "CREATE TABLE old(id INTEGER PRIMARY KEY, a); CREATE TABLE new(id INTEGER PRIMARY KEY, a);"
                + Self.rows(30, into: "old", "i, i")
        )
        try pair.database.addMigration(source: .sameDatabase) { $0.sourceTable = $0.name == "new" ? "old" : nil }
        try pair.database.stepMigration(rows: 10)
        try pair.database.withoutTransaction { access in
            try access.execute("ATTACH ':memory:' AS aux; CREATE TABLE aux.old(x); ALTER TABLE aux.old ADD COLUMN y")
            try access.execute("DROP TABLE aux.old; CREATE TEMP TABLE old(x); DROP TABLE old")
            #expect(throws: MigrationError.self) { try access.execute("DROP TABLE old") }
        }
        try finishMigration(pair.database)
        #expect(try pair.database.fetchValue(Int.self, "SELECT count(*) FROM new") == 30)
    }

    @Test func theSourceOfAnotherFileIsNotRebuilt() throws {
        let pair = try UpgradePair("CREATE TABLE t(id INTEGER PRIMARY KEY, a);" + Self.rows(100, into: "t", "i, i"))
        let other = try Database(path: pair.folder.file("new.db"))
        try other.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
        try other.addMigration(source: .file(pair.path)) { $0.sourceTable = $0.name }
        try other.stepMigration(rows: 30)
        let refused: [(String, () throws -> Void)] = [
            ("rebuild", { try rebuild(pair.database, "CREATE TABLE t(id INTEGER PRIMARY KEY, a NOT NULL)") }),
            ("drop", { try pair.database.execute("DROP TABLE t") }),
            ("alter", { try pair.database.execute("ALTER TABLE t ADD COLUMN b") }),
        ]
        for (name, change) in refused {
            let error = #expect(throws: MigrationError.self, "\(name)", performing: change)
            #expect(error?.code == .refusedStatement && error?.message.contains("table t of new.db") == true)
        }
        #expect(throws: SQLiteError.self) { try pair.database.execute("UPDATE t SET a = 'lost'") }
        try finishMigration(other)
        #expect(try rows(other, "SELECT count(*), sum(a) FROM t") == ["100|5050"])
    }

    // MARK: Within a transaction

    @Test func aRebuildIsRolledBackToASavepoint() throws {
        let pair = try UpgradePair(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE TABLE other(x);" + Self.rows(300, into: "t", "i, i")
        )
        try pair.database.write { access in
            func rebuild() throws {
                _ = try access.rebuild("t") { table in
                    table.schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT NOT NULL)"
                    table.rowsCopiedAtOnce = 0
                }
            }
            try access.execute("SAVEPOINT s")
            try rebuild()
            #expect(try access.fetchValue(Int.self, "SELECT count(*) FROM t WHERE typeof(a) = 'text'") == 300)
            try access.execute("ROLLBACK TO s")
            #expect(try access.fetchValue(Int.self, "SELECT count(*) FROM t") == 300)
            #expect(try access.fetchValue(Int.self, "SELECT count(*) FROM t WHERE typeof(a) = 'integer'") == 300)
            try access.execute("UPDATE t SET a = 7 WHERE id = 9")
            try rebuild()
            try access.execute("SAVEPOINT inner")
            try access.execute("CREATE TABLE later(x); DELETE FROM t WHERE id > 250")
            try access.execute("ROLLBACK TO inner")
            #expect(try access.fetchValue(Int.self, "SELECT count(*) FROM t WHERE typeof(a) = 'text'") == 300)
        }
        #expect(try rows(pair.database, "SELECT a, typeof(a) FROM t WHERE id = 9") == ["7|text"])
        try finishMigration(pair.database)
        #expect(try pair.database.fetchValue(Int.self, "SELECT count(*) FROM t") == 300)
    }

    /// The first statement after a rebuild makes the objects that show the new shape. They go with the savepoint.
    @Test func aSavepointRightAfterARebuildIsRolledBack() throws {
        let pair = try UpgradePair("CREATE TABLE t(id INTEGER PRIMARY KEY, a);" + Self.rows(300, into: "t", "i, i"))
        try pair.database.write { access in
            _ = try access.rebuild("t") { table in
                table.schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT NOT NULL)"
                table.rowsCopiedAtOnce = 0
            }
            for change in ["UPDATE t SET a = 'lost' WHERE id < 9", "CREATE INDEX x ON t(a)", "SELECT count(*) FROM t"] {
                try access.execute("SAVEPOINT s")
                try access.execute(change)
                try access.execute("ROLLBACK TO s")
                #expect(try access.fetchValue(Int.self, "SELECT count(*) FROM t WHERE a = '250'") == 1)
                try access.execute("ROLLBACK TO s; RELEASE s; UPDATE t SET a = a WHERE id = 250")
            }
            try access.execute("UPDATE t SET a = 'kept' WHERE id < 3")
            try access.execute("DELETE FROM t WHERE id = 7")
        }
        let sql = "SELECT count(*), sum(a = 'kept'), sum(typeof(a) = 'text') FROM t"
        #expect(try rows(pair.database, sql) == ["299|2|299"])
        try finishMigration(pair.database)
        #expect(try rows(pair.database, sql) == ["299|2|299"])
    }

    /// The second rebuild ends the first one's move. The rollback brings that move back.
    @Test(arguments: [false, true])
    func aRebuildThatEndsTheOneBeforeIsRolledBack(_ toSavepoint: Bool) throws {
        struct Failure: Error {}
        let pair = try UpgradePair("CREATE TABLE t(id INTEGER PRIMARY KEY, a);" + Self.rows(300, into: "t", "i, i"))
        try rebuild(pair.database, "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b)") {
            $0.columns["b"] = .expression("a || '-'")
        }
        try pair.database.stepMigration(rows: 20)
        let sql = "SELECT count(*), sum(length(b)) FROM t"
        let before = try rows(pair.database, sql)
        do {
            try pair.database.write { access in
                try access.execute("SAVEPOINT s; UPDATE t SET b = 'lost' WHERE id < 40")
                _ = try access.rebuild("t") { table in
                    table.schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b, c)"
                    table.columns["c"] = .expression("b || '-'")
                    table.rowsCopiedAtOnce = 0
                }
                #expect(try access.fetchValue(Int.self, "SELECT count(*) FROM t WHERE c LIKE '%-'") == 300)
                guard toSavepoint else { throw Failure() }
                try access.execute("ROLLBACK TO s")
                #expect(try texts(access.fetchAll(sql)) == before)
                try access.execute("UPDATE t SET b = b WHERE id < 50")
            }
        } catch is Failure {}
        #expect(try rows(pair.database, sql) == before)
        try pair.database.execute("UPDATE t SET b = b WHERE id > 250")
        try finishMigration(pair.database)
        #expect(try rows(pair.database, sql) == before)
    }

    @Test func anIndexMayQualifyItsColumns() throws {
        let pair = try UpgradePair(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE INDEX i ON t(a) WHERE t.a > 3 AND \"T\" . a < 40;"
                + Self.rows(50, into: "t", "i, i")
        )
        try rebuild(pair.database, "CREATE TABLE t(id INTEGER PRIMARY KEY, a NOT NULL)")
        #expect(try pair.database.fetchValue(Int.self, "SELECT count(*) FROM t WHERE a > 3 AND a < 40") == 36)
        try finishMigration(pair.database)
        #expect(
            try pair.database.fetchValue(Int.self, "SELECT count(*) FROM t INDEXED BY i WHERE t.a > 3 AND t.a < 40")
                == 36
        )
        #expect(try pair.database.fetchValue(String.self, "PRAGMA integrity_check") == "ok")
    }

    @Test(arguments: ["UNIQUE ON CONFLICT IGNORE", "UNIQUE ON CONFLICT REPLACE", "NOT NULL ON CONFLICT IGNORE"])
    func noRowIsLostToAConflictClause(_ constraint: String) throws {
        let pair = try UpgradePair(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a);" + Self.rows(30, into: "t", "i, nullif(i / 2, 7)")
        )
        #expect(throws: (any Error).self) {
            try pair.database.write { access in
                try access.rebuild("t") { $0.schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, a \(constraint))" }
            }
        }
        #expect(try pair.database.fetchValue(Int.self, "SELECT count(*) FROM t") == 30)
    }

    // MARK: Several at once

    @Test func severalConnectionsUpgradeAtOnce() throws {
        let pair = try UpgradePair("CREATE TABLE t(id INTEGER PRIMARY KEY, a);" + Self.rows(3000, into: "t", "i, i"))
        var upgrades = SchemaUpgrades()
        for number in 0..<8 {
            upgrades.add("s\(number)") { access in
                _ = try access.rebuild("t") { table in
                    table.schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, a, c\(number) DEFAULT \(number))"
                    table.unmatchedColumns = .ignored
                }
            }
        }
        let databases = try (0..<4).map { _ in try Database(path: pair.path) }
        let steps = Mutex<[String]>([])
        let given = upgrades
        DispatchQueue.concurrentPerform(iterations: 4) { index in
            do {
                let report = try databases[index].upgrade(given)
                steps.withLock { $0 += report.steps }
                _ = try databases[index].stepMigration(rows: 100)
            } catch {
                Issue.record("\(error)")
            }
        }
        #expect(steps.withLock { $0.sorted() } == (0..<8).map { "s\($0)" })
        #expect(try databases[0].fetchAll("SELECT * FROM t WHERE c7 = 7").count == 3000)
        try finishMigration(databases[1])
        #expect(try databases[2].fetchValue(Int.self, "SELECT count(*) FROM t") == 3000)
    }
}
