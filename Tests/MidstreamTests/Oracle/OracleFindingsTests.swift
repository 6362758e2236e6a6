import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// Differences that the random statements have found, each made as small as possible.
@Suite struct OracleFindingsTests {
    /// A moving table of three rows, (1, '1', 10), (2, '05', NULL) and (3, 'c', 30), all of them pending.
    private static func database(_ folder: TemporaryFolder, _ options: String = "") throws -> Database {
        let schema = "(id INTEGER PRIMARY KEY, a TEXT, b INTEGER)\(options)"
        let source = try Connection(path: folder.file("old.db"))
        try source.execute("CREATE TABLE t\(schema)")
        try source.execute("INSERT INTO t VALUES (1, '1', 10), (2, '05', NULL), (3, 'c', 30)")
        source.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t\(schema); CREATE TABLE n(x, y INTEGER); CREATE VIEW v AS SELECT a FROM t")
        try database.addMigration(source: .file(folder.file("old.db"))) { table in
            if table.name == "t" { table.sourceTable = "t" }
        }
        return database
    }

    @Test func isNullKeepsTheNumbersOfParameters() throws {
        let folder = TemporaryFolder()
        let database = try Self.database(folder)
        #expect(try database.fetchAll("SELECT id FROM t WHERE b IS NULL ORDER BY id LIMIT 6").count == 1)
        #expect(try database.fetchAll("SELECT id FROM t WHERE id ISNULL ORDER BY id").isEmpty)
    }

    @Test(.needs(.limitedWrites)) func aLimitedDeleteKeepsItsParametersAndItsRows() throws {
        let folder = TemporaryFolder()
        let database = try Self.database(folder)
        try database.execute("DELETE FROM t ORDER BY id DESC LIMIT ?", [1])
        #expect(try database.fetchAll("SELECT id FROM t ORDER BY id").map { $0[0] } == [.integer(1), .integer(2)])
        try database.execute("UPDATE t SET b = :b WHERE id > 0 ORDER BY id LIMIT :n", [":b": 7, ":n": 1])
        #expect(try database.fetchAll("SELECT id FROM t WHERE b = 7").map { $0[0] } == [.integer(1)])
        #expect(throws: SQLiteError.self) { try database.execute("DELETE FROM t LIMIT ?", [1, 2]) }
    }

    @Test func membershipInASubqueryComparesByBothAffinities() throws {
        let folder = TemporaryFolder()
        let database = try Self.database(folder)
        try database.execute("INSERT INTO n VALUES ('x', 5)")
        let sql = "SELECT t.id FROM n JOIN t ON t.a IN (SELECT y FROM n) WHERE n.x = 'x'"
        #expect(try database.fetchAll(sql).map { $0[0] } == [.integer(2)])
    }

    /// The scan has read the target's row ahead, beyond the pending rows.
    @Test(arguments: ["", " DESC"]) func aLoopReadsTheNextRowAsItHasWrittenIt(_ order: String) throws {
        let folder = TemporaryFolder()
        let (native, old) = (try Connection(path: ":memory:"), try Connection(path: folder.file("old.db")))
        for connection in [native, old] {
            try connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, amount INTEGER, balance INTEGER)")
            try connection.execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12) INSERT INTO t SELECT i, 10, 0 FROM n"
            )
        }
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, amount INTEGER, balance INTEGER)")
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "t" }
        try database.execute("UPDATE t SET amount = 10 WHERE id IN (4, 8, 9)")
        func run(
            _ forEachRow: (String, (Statement) throws -> Bool) throws -> Void,
            _ execute: @escaping (String, Arguments) throws -> Void
        ) throws -> [String] {
            var rows: [String] = []
            try forEachRow("SELECT id, amount, balance FROM t ORDER BY id\(order)") { row in
                rows.append("\(row.int64(at: 0)) \(row.int64(at: 2))")
                let next = row.int64(at: 0) + (order.isEmpty ? 1 : -1)
                if next == 9 {
                    try execute("DELETE FROM t WHERE id = ?", [next])
                } else {
                    try execute("UPDATE t SET balance = ? WHERE id = ?", [row.int64(at: 2) + row.int64(at: 1), next])
                }
                return true
            }
            return rows
        }
        let expected = try run(
            { sql, body in
                let statement = try native.prepare(sql)
                while try statement.step(), try body(statement) {}
            },
            { try native.execute($0, $1) }
        )
        let found = try database.write { access in
            try run({ try access.forEachRow($0, [], $1) }, { try access.execute($0, $1) })
        }
        #expect(found == expected)
        let all = "SELECT * FROM t ORDER BY id"
        #expect(try database.fetchAll(all) == native.fetchAll(all))
    }

    /// The text is compared when rows are counted ahead, too.
    @Test(arguments: ["UTF-8", "UTF-16le"]) func textThatIsNotUnicodeIsCountedAsItIs(_ encoding: String) throws {
        let folder = TemporaryFolder()
        let bytes = encoding == "UTF-8" ? "x'ff'" : "x'00d8'"
        let native = try Connection(path: folder.file("native.db"))
        let source = try Connection(path: folder.file("old.db"))
        for connection in [native, source] {
            try connection.execute("PRAGMA encoding = '\(encoding)'")
            try connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, c NUMERIC)")
            try connection.execute(
                """
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
                INSERT INTO t SELECT i, CASE WHEN i % 2 THEN CAST(\(bytes) AS TEXT) ELSE '\u{fffd}' END FROM n
                """
            )
        }
        let target = try Connection(path: folder.file("new.db"))
        try target.execute("PRAGMA encoding = '\(encoding)'")
        try target.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, c NUMERIC)")
        target.close()
        let database = try Database(path: folder.file("new.db"))
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "t" }
        let queries = [
            "SELECT count(*) FROM t WHERE c = CAST(\(bytes) AS TEXT)", "SELECT count(*) FROM t WHERE c = '\u{fffd}'",
            "SELECT sum(1) FROM t WHERE c = CAST(\(bytes) AS TEXT)", "SELECT count(*) FROM t a JOIN t b ON a.c = b.c",
        ]
        for moved in [0, 90] {
            try database.stepMigration(rows: Int64(moved))
            for sql in queries {
                #expect(try database.fetchAll(sql) == native.fetchAll(sql), "\(moved) moved: \(sql)")
            }
        }
    }

    /// SQLite removes a byte order mark from UTF-16 that is bound, and two characters on their way from UTF-8.
    @Test(arguments: ["UTF-8", "UTF-16le", "UTF-16be"], ["", " WITHOUT ROWID"])
    func textThatBeginsLikeAByteOrderMarkIsFound(_ encoding: String, _ suffix: String) throws {
        let folder = TemporaryFolder()
        let texts =
            encoding == "UTF-8"
            ? ["efbbbf61", "efbfbe61", "efbfbf", "61"]
            : ["fffe6100", "feff0061", "fffefffe", "6100ffff", "6100feff", "6100", "00d8", "00dc6100"]
        let all = texts.map { "CAST(x'\($0)' AS TEXT)" }
        let definition = "CREATE TABLE t(k TEXT PRIMARY KEY, u TEXT UNIQUE, x)\(suffix)"
        let native = try Connection(path: folder.file("native.db"))
        let source = try Connection(path: folder.file("old.db"))
        for connection in [native, source] {
            try connection.execute("PRAGMA encoding = '\(encoding)'")
            try connection.execute(definition)
            for text in all { try connection.execute("INSERT INTO t VALUES (\(text), \(text) || 'u', 0)") }
        }
        source.close()
        let target = try Connection(path: folder.file("new.db"))
        try target.execute("PRAGMA encoding = '\(encoding)'")
        try target.execute(definition)
        target.close()
        let database = try Database(path: folder.file("new.db"))
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "t" }
        let rows = "SELECT hex(k), hex(u), x FROM t ORDER BY 1"
        func check(_ sql: String) throws {
            try native.execute(sql)
            try database.execute(sql)
            #expect(try database.fetchAll(rows) == native.fetchAll(rows), "\(sql)")
        }
        for text in all {
            for column in ["k = \(text)", "u = \(text) || 'u'", "k IN (\(text), 'b')", "k >= \(text)", "k < \(text)"] {
                let sql = "SELECT count(*), max(hex(k)) FROM t WHERE \(column)"
                #expect(try database.fetchAll(sql) == native.fetchAll(sql), "\(sql)")
            }
            try check("UPDATE t SET x = x + 1 WHERE k = \(text)")
            try check("UPDATE t SET k = k || 'x' WHERE u = \(text) || 'u'")
            try check("UPDATE t SET k = \(text) WHERE k = \(text) || 'x'")
        }
        for text in all.prefix(2) { try check("DELETE FROM t WHERE k = \(text)") }
        try check("INSERT INTO t VALUES (\(all[0]), 'new', 5)")
        while try !database.stepMigration(rows: 1).isFinished {
            #expect(try database.fetchAll(rows) == native.fetchAll(rows))
        }
        #expect(try database.fetchAll(rows) == native.fetchAll(rows))
    }

    @Test func textOfAColumnOfNumbersIsComparedAsNatively() throws {
        let folder = TemporaryFolder()
        let database = try Self.database(folder)
        try database.execute("INSERT INTO n VALUES ('x', '')")
        #expect(try database.fetchAll("SELECT t.id FROM n JOIN t ON t.a < n.y ORDER BY 1").count == 2)
    }

    @Test func aViewSpeltWithItsSchemaSeesPendingRows() throws {
        let folder = TemporaryFolder()
        let database = try Self.database(folder)
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM main.v") == 3)
    }

    @Test func aNameOfThreePartsInASubqueryMeansTheTarget() throws {
        let folder = TemporaryFolder()
        let database = try Self.database(folder)
        try database.execute("INSERT INTO n VALUES (1, 30)")
        try database.execute("DELETE FROM t WHERE EXISTS (SELECT 1 FROM n WHERE n.y = main.t.b)")
        #expect(try database.fetchAll("SELECT id FROM t").count == 2)
    }

    @Test func writesOfTheEngineDoNotShowInChanges() throws {
        let folder = TemporaryFolder()
        let database = try Self.database(folder)
        try database.withoutTransaction { access in
            try access.execute("UPDATE n SET y = 1")
            #expect(access.changes == 0)
            try access.execute("INSERT INTO n VALUES (1, 1), (2, 2)")
            #expect(access.changes == 2)
            try access.execute("REINDEX t")
            #expect(access.changes == 2)
        }
        try database.write { #expect($0.changes == 2) }
    }

    @Test func laterRowsOfAnInsertTellOfEarlierOnes() throws {
        let folder = TemporaryFolder()
        let database = try Self.database(folder)
        try database.execute("INSERT INTO t(a, b) VALUES ('x', 0), ('y', last_insert_rowid())")
        #expect(try database.fetchValue(Int64.self, "SELECT b FROM t WHERE id = 5") == 4)
    }

    @Test(.needs(.limitedWrites)) func collectedKeysDoNotShowInTotalChanges() throws {
        let folder = TemporaryFolder()
        let database = try Self.database(folder)
        try database.withoutTransaction { access in
            for total in 1...3 {
                try access.execute("UPDATE t SET b = 1 WHERE id > 0 ORDER BY id LIMIT 1")
                #expect(access.totalChanges == Int64(total))
            }
        }
    }

    @Test func anErrorNamesTheTableAsItWasWritten() throws {
        let folder = TemporaryFolder()
        let database = try Self.database(folder)
        let error = #expect(throws: SQLiteError.self) { try database.execute("INSERT INTO t SELECT 1") }
        #expect(error?.message == "table t has 3 columns but 1 values were supplied")
        let other = #expect(throws: SQLiteError.self) { _ = try database.fetchAll("SELECT main.t.zz FROM t") }
        #expect(other?.message == "no such column: main.t.zz")
    }

    @Test(.needs(.strict)) func aStrictTableReportsTheConstraintThatSQLiteWouldReport() throws {
        let folder = TemporaryFolder()
        let database = try Self.database(folder, " STRICT")
        let error = #expect(throws: SQLiteError.self) {
            try database.execute("INSERT INTO t(id, b) VALUES (1, 'text')")
        }
        #expect(error?.message == "UNIQUE constraint failed: t.id")
    }

    @Test func aTableDrainedInATransactionIsMovingAgainAfterTheRollback() throws {
        let folder = TemporaryFolder()
        let database = try Self.database(folder)
        try database.withoutTransaction { access in
            try access.execute("BEGIN")
            try access.execute("CREATE UNIQUE INDEX late ON t(a)")
            #expect(try access.fetchValue(Int64.self, "SELECT count(*) FROM v") == 3)
            try access.execute("ROLLBACK")
            #expect(try access.fetchValue(Int64.self, "SELECT count(*) FROM v") == 3)
            try access.execute("SAVEPOINT s; DROP TABLE t; ROLLBACK TO s")
            #expect(try access.fetchValue(Int64.self, "SELECT count(*) FROM t WHERE id > 0") == 3)
            try access.execute("RELEASE s; BEGIN; ALTER TABLE t ADD COLUMN c; ROLLBACK")
            #expect(try access.fetchValue(Int64.self, "SELECT count(*) FROM t WHERE id > 0") == 3)
        }
        #expect(!database.isMigrated)
    }

    @Test(.needs(.renameColumn)) func anyTableCanBeAlteredWhileAnotherMoves() throws {
        let folder = TemporaryFolder()
        let database = try Self.database(folder)
        try database.execute("ALTER TABLE n RENAME COLUMN x TO z")
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t WHERE id < 9") == 3)
        try database.execute("ALTER TABLE t RENAME COLUMN b TO c")
        #expect(try database.fetchValue(Int64.self, "SELECT max(c) FROM t") == 30)
    }

    @Test func aSequenceThatWasSetBackStaysSo() throws {
        let folder = TemporaryFolder()
        let source = try Connection(path: folder.file("old.db"))
        let schema = "t(id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT)"
        try source.execute("CREATE TABLE \(schema)")
        try source.execute("INSERT INTO t VALUES (7, 'a')")
        source.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE \(schema)")
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "t" }
        try database.execute("UPDATE sqlite_sequence SET seq = 3 WHERE name = 't'")
        while try !database.stepMigration(rows: 9).isFinished {}
        #expect(try database.fetchValue(Int64.self, "SELECT seq FROM sqlite_sequence WHERE name = 't'") == 3)
    }

    @Test(.needs(.limitedWrites)) func aLimitedWriteTakesACommonTableForItsTarget() throws {
        let folder = TemporaryFolder()
        let database = try Self.database(folder)
        // SQLite 3.46 and later do not take the common table for the target, and delete.
        let native = try Connection(path: ":memory:")
        try native.execute(script: "CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1), (2), (3)")
        let sql = "WITH t AS (SELECT * FROM t) DELETE FROM t ORDER BY id LIMIT 1"
        let isRefused = (try? native.execute(sql)) == nil
        #expect(((try? database.execute(sql)) == nil) == isRefused)
        let count = "SELECT count(*) FROM t"
        #expect(try database.fetchValue(Int64.self, count) == native.fetchValue(Int64.self, count))
    }

    @Test func aRowValueInAListComparesEachColumnByBothAffinities() throws {
        let folder = TemporaryFolder()
        let database = try Self.database(folder)
        try database.execute("INSERT INTO n VALUES (1, 1), ('1', 1)")
        let sql = "SELECT count(*) FROM t WHERE (a, id) IN (SELECT x, y FROM n WHERE typeof(x) = ?)"
        #expect(try database.fetchValue(Int64.self, sql, ["integer"]) == 0)
        #expect(try database.fetchValue(Int64.self, sql, ["text"]) == 1)
        try database.execute("CREATE VIEW w AS SELECT id FROM t WHERE (a, id) IN (SELECT x, y FROM n)")
        try database.execute("DELETE FROM n WHERE typeof(x) = 'text'")
        #expect(try database.fetchAll("SELECT * FROM w").isEmpty)
        #expect(try database.fetchAll("SELECT * FROM t WHERE a = '1'").count == 1)
    }

    @Test(.needs(.strict)) func anyColumnOfAStrictTableHasNoAffinity() throws {
        let folder = TemporaryFolder()
        let source = try Connection(path: folder.file("old.db"))
        let schema = "t(id INTEGER PRIMARY KEY, a ANY) STRICT"
        try source.execute("CREATE TABLE \(schema)")
        try source.execute("INSERT INTO t VALUES (1, '5.0'), (2, 5)")
        source.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE \(schema); CREATE TABLE n(y INTEGER); INSERT INTO n VALUES (5)")
        try database.addMigration(source: .file(folder.file("old.db"))) { if $0.name == "t" { $0.sourceTable = "t" } }
        let sql = "SELECT count(*) FROM n JOIN t ON t.a = n.y"
        #expect(try database.fetchValue(Int64.self, sql) == 2)
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t WHERE a = 5") == 1)
    }

    @Test func aTextThatTheMergeComparedIsFoundByABloomFilter() throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b); CREATE INDEX ta ON t(a, b)",
            rows: "INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2), (3, 4, 5)",
            tables: ["t"],
            moved: 1
        )
        let sql = """
            SELECT DISTINCT t.a FROM t JOIN (SELECT ifnull(a, NULL) AS p FROM t LIMIT 50) AS s ON t.a IS s.p ORDER BY 1
            """
        #expect(try texts(pair.database.fetchAll(sql)) == texts(pair.native.fetchAll(sql)))
    }

    @Test func aColumnThatIsKnownToEqualANumberComparesAsAColumn() throws {
        let folder = TemporaryFolder()
        let database = try Self.database(folder)
        try database.execute("UPDATE t SET a = '%' WHERE id = 1")
        #expect(try database.fetchAll("SELECT * FROM t WHERE id = 1 AND a >= id").count == 1)
        #expect(try database.fetchAll("SELECT * FROM t WHERE a = 1 AND id = 1").isEmpty)
    }

    @Test(.needs(.returning)) func aParameterReturnedFromALimitedWriteKeepsItsName() throws {
        let folder = TemporaryFolder()
        let database = try Self.database(folder)
        let sql = "DELETE FROM t WHERE a IN (?, :a, ?) AND id < :n RETURNING $p1, b, :n LIMIT -1"
        try database.withoutTransaction { access in
            try access.forEachRow(sql, ["1", "c", "x", 3, "out"]) { statement in
                #expect(statement.columnNames.names == ["$p1", "b", ":n"])
                #expect(Row(copying: statement).values == ["out", 10, 3])
                return true
            }
            #expect(access.changes == 1)
        }
    }

    @Test func aScanGoesOnAfterAConflictRolledItsTransactionBack() throws {
        let folder = TemporaryFolder()
        let database = try Database(path: folder.file("new.db"))
        let columns = "(x PRIMARY KEY ON CONFLICT ROLLBACK, y TEXT)"
        try database.execute("CREATE TABLE t\(columns); CREATE TABLE old\(columns)")
        try database.execute("INSERT INTO old(rowid, x) VALUES (3, 14), (8, '1')")
        try database.addMigration(source: .sameDatabase) { if $0.name == "t" { $0.sourceTable = "old" } }
        try database.execute("INSERT OR REPLACE INTO t(x) VALUES ('a'), ('b')")
        try database.withoutTransaction { access in
            try access.execute("BEGIN")
            var seen: [Int64] = []
            try access.forEachRow("SELECT rowid FROM t ORDER BY rowid") { statement in
                seen.append(statement.int64(at: 0))
                if seen.count % 2 == 1 {
                    try access.execute("DELETE FROM t WHERE rowid = ?", [seen[seen.count - 1]])
                } else {
                    #expect(throws: SQLiteError.self) { try access.execute("UPDATE t SET x = 'a' WHERE rowid <= 8") }
                }
                return true
            }
            #expect(seen == [3, 8, 9, 10])
        }
    }

    @Test(arguments: [
        "WITH c AS (SELECT count(*) FROM t) SELECT * FROM c",
        "WITH c AS (SELECT rowid AS k FROM main.t) SELECT k FROM c",
        "WITH RECURSIVE c(k) AS (SELECT 1 UNION SELECT t.rowid FROM c JOIN t ON t.rowid = k + 1) SELECT k FROM c",
        "SELECT * FROM w", "INSERT INTO n(x) WITH C AS (SELECT 1 FROM t) SELECT * FROM c",
    ])
    func readingNoColumnInACommonTableDrainsNothing(_ sql: String) throws {
        let folder = TemporaryFolder()
        let database = try Self.database(folder)
        try database.execute("CREATE VIEW w AS WITH c AS (SELECT count(*) FROM t) SELECT * FROM c")
        try database.withoutTransaction { _ = try $0.fetchAll(sql) }
        #expect(try database.fetchValue(Int64.self, "SELECT copied FROM midstream_tables") == 0)
        #expect(!database.isMigrated)
    }

    @Test(arguments: ["ROLLBACK TO s", "ROLLBACK", "UPDATE OR ROLLBACK t SET id = 3 WHERE id = 1"], 1...6)
    func aScanHasEachRowOnceAlthoughPromotionsAreRolledBack(_ rollback: String, _ position: Int) throws {
        let folder = TemporaryFolder()
        let database = try Self.database(folder)
        try database.execute("INSERT INTO t VALUES (5, 'x', 1), (7, 'y', 1)")
        try database.withoutTransaction { access in
            for order in ["id", "id DESC", "a, id"] {
                try access.execute("SAVEPOINT s; UPDATE t SET b = 8 WHERE id <> 2; UPDATE t SET b = 9 WHERE id = 5")
                var seen: [Int64] = []
                try access.forEachRow("SELECT id FROM t ORDER BY \(order)") { statement in
                    seen.append(statement.int64(at: 0))
                    if seen.count == position { try? access.execute(rollback) }
                    return true
                }
                #expect(seen.sorted() == [1, 2, 3, 5, 7], "\(order)")
                if access.isInTransaction { try access.execute("ROLLBACK") }
            }
        }
    }

    /// What the scan has read ahead on the target's side was never there, has another value again, or is not the next
    /// row any more. In another order than the key's, the next row is the one that was read ahead.
    @Test(
        arguments: [
            ("id INTEGER PRIMARY KEY, a INTEGER, b)", "id"),
            ("id INTEGER, a INTEGER, b, PRIMARY KEY (id)) WITHOUT ROWID", "id"),
            ("id INTEGER, a INTEGER, b, PRIMARY KEY (a DESC, id DESC)) WITHOUT ROWID", "a, id"),
            ("id INTEGER, a INTEGER, b, PRIMARY KEY (id DESC, a)) WITHOUT ROWID", "id, a DESC"),
            ("id INTEGER PRIMARY KEY, a INTEGER, b); CREATE INDEX ta ON t(a)", "a"),
        ],
        ["ROLLBACK TO s", "ROLLBACK", "UPDATE OR ROLLBACK t SET id = 4, a = 4 WHERE id = 1"]
    )
    func aScanGoesOnWithWhatARollbackBroughtBack(_ table: (columns: String, order: String), _ rollback: String) throws {
        var changes = [
            "INSERT INTO t VALUES (100, 100, 'new'), (-3, -3, 'new')", "UPDATE t SET b = 'set' WHERE id IN (0, 40, 60)",
        ]
        if table.order != "a" {
            changes += ["DELETE FROM t WHERE id IN (2, 20, 30, 50, 70)", "DELETE FROM t WHERE id > 40"]
        }
        let reversed = table.order.split(separator: ", ").map { $0.hasSuffix(" DESC") ? $0.dropLast(5) : $0 + " DESC" }
        for order in [table.order, reversed.joined(separator: ", ")] {
            for (change, position) in changes.flatMap({ change in [1, 3, 5, 6].map { (change, $0) } }) {
                let pair = try Pair(
                    schema: "CREATE TABLE t(\(table.columns)",
                    rows: "INSERT INTO t VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 4, 4), (5, 5, 5)",
                    tables: ["t"]
                )
                let others = "INSERT INTO t VALUES (0, 0, 0), (20, 20, 0), (30, 30, 0), (40, 40, 0), (50, 50, 0)"
                var (mine, theirs): ([String], [String]) = ([], [])
                let query = "SELECT id, b FROM t ORDER BY \(order)"
                try pair.native.execute(script: others + "; BEGIN; SAVEPOINT s; " + change)
                let statement = try pair.native.prepare(query)
                while try statement.step() {
                    theirs += texts([Row(copying: statement)])
                    if theirs.count == position { try? pair.native.execute(rollback) }
                }
                try pair.database.execute(others)
                try pair.database.withoutTransaction { access in
                    try access.execute("BEGIN; SAVEPOINT s; " + change)
                    try access.forEachRow(query) { row in
                        mine += texts([Row(copying: row)])
                        if mine.count == position { try? access.execute(rollback) }
                        return true
                    }
                    if access.isInTransaction { try access.execute("ROLLBACK") }
                }
                #expect(mine == theirs, "\(query): \(change), \(rollback) at \(position)")
            }
        }
    }

    /// In the order of the keys, a loop meets the rows that its body makes further on. In any order, it meets each row
    /// as the row is by then.
    @Test(
        arguments: [
            ("id INTEGER PRIMARY KEY, a INTEGER, b)", "id"), ("id INTEGER PRIMARY KEY, a INTEGER, b)", "id DESC"),
            ("id INTEGER, a INTEGER, b, PRIMARY KEY (id)) WITHOUT ROWID", "id"),
            ("id INTEGER, a INTEGER, b, PRIMARY KEY (a DESC, id)) WITHOUT ROWID", "a, id DESC"),
            ("id INTEGER PRIMARY KEY, a INTEGER, b); CREATE INDEX ta ON t(a)", "a"),
        ],
        [true, false]
    )
    func aLoopMeetsWhatItsBodyHasWritten(_ table: (columns: String, order: String), _ isInTransaction: Bool) throws {
        var changes = [
            "UPDATE t SET b = 'set' WHERE id IN (4, 7, 20)", "DELETE FROM t WHERE id IN (4, 7, 20)",
            "UPDATE t SET b = b || '.' WHERE id > 0",
        ]
        if table.order != "a" {
            changes += [
                "INSERT OR IGNORE INTO t VALUES (3, 3, 'new'), (6, 6, 'new'), (15, 15, 'new')",
                "UPDATE t SET id = 6, a = 6 WHERE id = 20",
                "DELETE FROM t WHERE id = 7; INSERT OR REPLACE INTO t VALUES (7, 7, 'again')",
            ]
        }
        for (change, position) in changes.flatMap({ change in [1, 2, 4, 6].map { (change, $0) } }) {
            let pair = try Pair(
                schema: "CREATE TABLE t(\(table.columns)",
                rows: "INSERT INTO t VALUES (1, 1, 1), (2, 2, 2), (4, 4, 4), (5, 5, 5), (8, 8, 8), (9, 9, 9)",
                tables: ["t"],
                moved: 1
            )
            let before = "INSERT INTO t VALUES (0, 0, 0), (7, 7, 7), (20, 20, 0), (30, 30, 0)"
            let query = "SELECT id, b FROM t WHERE b <> 4 OR id > 0 ORDER BY \(table.order)"
            var (mine, theirs): ([String], [String]) = ([], [])
            try pair.native.execute(script: before + (isInTransaction ? "; BEGIN" : ""))
            let statement = try pair.native.prepare(query)
            while try statement.step() {
                theirs += texts([Row(copying: statement)])
                if theirs.count == position { try pair.native.execute(script: change) }
            }
            try pair.database.execute(before)
            try pair.database.withoutTransaction { access in
                if isInTransaction { try access.execute("BEGIN") }
                try access.forEachRow(query) { row in
                    mine += texts([Row(copying: row)])
                    if mine.count == position { try access.execute(change) }
                    return true
                }
                if isInTransaction { try access.execute("COMMIT") }
            }
            #expect(mine == theirs, "\(query): \(change) at \(position)")
        }
    }

    @Test func aCommaAfterAJoinsConditionNamesATable() throws {
        let folder = TemporaryFolder()
        let database = try Self.database(folder)
        let sql = "SELECT count(*) FROM t AS x LEFT JOIN n ON x.a = n.x, MAIN.t AS y"
        #expect(try database.fetchValue(Int64.self, sql) == 9)
        #expect(try database.fetchValue(Int64.self, "SELECT copied FROM midstream_tables") == 0)
    }

    @Test(arguments: ["x'61'", "61", "(lower('A'))", "a", "\"a\"", "'a'", "CURRENT_DATE", "-5", "1 + 2"])
    func nullThatReplaceTurnsIntoTheDefaultMeetsPendingRows(_ written: String) throws {
        let folder = TemporaryFolder()
        let value = written == "1 + 2" ? "(1 + 2)" : written
        let schema = "t(x TEXT NOT NULL DEFAULT \(value) PRIMARY KEY, y INTEGER)"
        let source = try Connection(path: folder.file("old.db"))
        try source.execute("CREATE TABLE \(schema)")
        try source.execute("INSERT INTO t(y) VALUES (1)")
        source.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE \(schema)")
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "t" }
        try database.execute("REPLACE INTO t VALUES (NULL, 2)")
        #expect(texts(try database.fetchAll("SELECT y FROM t")) == ["2"])
        #expect(throws: SQLiteError.self) { try database.execute("INSERT INTO t VALUES (NULL, 3)") }
        while try !database.stepMigration(rows: 9).isFinished {}
        #expect(texts(try database.fetchAll("SELECT y FROM t")) == ["2"])
    }

    @Test(arguments: ["TEXT COLLATE NOCASE", "COLLATE NOCASE", "BLOB", "INTEGER COLLATE NOCASE"])
    func aPatternFindsBlobs(_ type: String) throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a \(type)); CREATE INDEX i ON t(a)",
            rows: "INSERT INTO t VALUES (1, x'61'), (2, 'a'), (3, 'b'), (4, x'62'), (5, 'AB'), (6, 7)",
            tables: ["t"],
            moved: 1
        )
        let foreign = try ForeignConnection(pair.target)
        try foreign.install()
        for term in [
            "a LIKE 'a%'", "a GLOB 'a*'", "a LIKE 'b%' OR a LIKE 'A_'", "a NOT LIKE 'a%'", "a LIKE '7%'",
            "a LIKE 'a%' ESCAPE '!'", "a LIKE 'a!%' ESCAPE '!'", "like('a%', a)", "like('b%', a, '!')", "glob('a*', a)",
            "likely(a) GLOB 'a*'", "a COLLATE BINARY GLOB 'b*'", "(a COLLATE NOCASE) LIKE 'a%'",
            "a LIKE 'a%' AND a < 'b'",
            "a LIKE 'a%' AND a < x'62'", "a LIKE 'a%' ESCAPE '!' AND id < 5",
        ] {
            let sql = "SELECT id FROM t WHERE \(term) ORDER BY id"
            let expected = texts(try pair.native.fetchAll(sql))
            #expect(texts(try pair.database.fetchAll(sql)) == expected, "\(sql)")
            #expect(try foreign.rows(sql) == expected, "of another library: \(sql)")
        }
    }

    /// The text of infinity is within the range that SQLite makes of the pattern; infinity is not.
    @Test(arguments: ["REAL", "INTEGER", "NUMERIC", "", "DATETIME"]) func aPatternFindsInfinity(_ type: String) throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a \(type), b)",
            rows:
                "INSERT INTO t VALUES (1, 9e999, 1), (2, 5, 1), (3, 'Ink', 1), (4, 'J', 1), (5, -9e999, 1), (6, 9e999, 2)",
            tables: ["t"],
            moved: 1
        )
        let foreign = try ForeignConnection(pair.target)
        try foreign.install()
        for term in [
            "a GLOB 'I*'", "a GLOB 'In*' AND b = 1", "a GLOB '-I*'", "a GLOB 'I*' OR id = 2", "a GLOB 'I*' AND a > 'A'",
        ] {
            let sql = "SELECT id FROM t WHERE \(term) ORDER BY id"
            let expected = texts(try pair.native.fetchAll(sql))
            #expect(texts(try pair.database.fetchAll(sql)) == expected, "\(sql)")
            #expect(try foreign.rows(sql) == expected, "of another library: \(sql)")
        }
    }

    @Test(arguments: ["", " LIMIT -1"]) func aWriteReadsAViewThatIsPreparedAnew(_ limit: String) throws {
        if !limit.isEmpty, !SQLiteFeature.limitedWrites.isAvailable { return }
        let folder = TemporaryFolder()
        let database = try Self.database(folder)
        try database.execute(
            "CREATE VIEW w AS SELECT ifnull(a, NULL) AS x FROM t UNION ALL SELECT ifnull(random() & 0, NULL)"
        )
        try database.execute("UPDATE t SET b = 7 WHERE a NOT IN (SELECT x FROM w WHERE x >= -1)" + limit)
        #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t WHERE b = 7") == 0)
        let sql = "UPDATE t SET b = 7 WHERE a NOT IN (SELECT x FROM w WHERE x >= ?)" + limit
        for _ in 0..<3 {
            try database.execute("CREATE TEMP TABLE scratch(x); DROP TABLE temp.scratch")
            try database.write { db in try db.execute(sql, [-1]) }
            #expect(try database.fetchValue(Int64.self, "SELECT count(*) FROM t WHERE b = 7") == 0)
        }
    }

    @Test func anIndexIsNotFollowedForAComparisonThatItCannotMake() throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b); CREATE INDEX i ON t(a, b)",
            rows: "INSERT INTO t VALUES (1, 'z', 1), (2, '5', 2), (3, 'b', 3), (4, '40', 4), (5, 'a', 5)",
            tables: ["t"],
            moved: 2
        )
        for sql in [
            "SELECT id FROM t WHERE a > CAST('' AS REAL)", "SELECT id FROM t WHERE a < CAST(50 AS INTEGER)",
            "SELECT id, b FROM t WHERE a >= CAST(4 AS REAL) AND b > 0",
        ] {
            #expect(texts(try pair.database.fetchAll(sql)) == texts(try pair.native.fetchAll(sql)), "\(sql)")
        }
    }

    @Test func foreignKeysOfATableThatOnlyTheSourceHasAreNotChecked() throws {
        let folder = TemporaryFolder()
        let database = try Self.database(folder)
        try Connection(path: folder.file("old.db")).execute("CREATE TABLE u(x)")
        let native = try Connection(path: folder.file("plain.db"))
        let checks = ["u", "nowhere"].flatMap {
            ["PRAGMA foreign_key_check(\($0))", "PRAGMA[foreign_key_check](\($0))"]
        }
        for sql in checks {
            let expected = Result { try native.fetchAll(sql) }
            let answer = Result { try database.withoutTransaction { try $0.fetchAll(sql) } }
            switch (expected, answer) {
            case (.success(let expected), .success(let answer)): #expect(texts(answer) == texts(expected))
            case (.failure(let expected), .failure(let answer)):
                #expect((answer as? SQLiteError)?.message == (expected as? SQLiteError)?.message)
            default: Issue.record("\(sql): \(answer), natively \(expected)")
            }
        }
    }

    @Test(.needs(.limitedWrites)) func whatALimitedWriteReadsIsNotTheSourcesTable() throws {
        let folder = TemporaryFolder()
        let database = try Self.database(folder)
        try Connection(path: folder.file("old.db")).execute("CREATE TABLE IF NOT EXISTS gone(x)")
        for sql in [
            "UPDATE t SET b = 1 WHERE a IN (SELECT x FROM gone) LIMIT 2", "DELETE FROM t WHERE a IN gone LIMIT 2",
        ] {
            let error = #expect(throws: SQLiteError.self) { try database.execute(sql) }
            #expect(error?.message == "no such table: gone")
        }
    }

    @Test(arguments: ["BEGIN", "BEGIN IMMEDIATE", "SAVEPOINT s", "write"], [false, true])
    func foreignKeysDeferredBeforeATransactionAreDeferredInIt(_ beginning: String, _ isChanged: Bool) throws {
        // Before SQLite 3.28, a source that is only read refuses this. Midstream then gets the lock by a statement,
        // which ends the deferment.
        if beginning == "BEGIN IMMEDIATE", Connection.libraryVersionNumber < 3_028_000 { return }
        let folder = TemporaryFolder()
        let database = try Self.database(folder)
        try database.execute("CREATE TABLE p(x INTEGER PRIMARY KEY); CREATE TABLE c(x REFERENCES p)")
        try database.execute("PRAGMA foreign_keys = ON; PRAGMA defer_foreign_keys = ON")
        // Midstream has to make the overlay anew.
        if isChanged { try Connection(path: folder.file("new.db")).execute("CREATE INDEX late ON n(x)") }
        let statements = ["INSERT INTO c VALUES (1)", "SELECT * FROM t", "INSERT INTO p VALUES (1)"]
        if beginning == "write" {
            try database.write { access in for sql in statements { try access.execute(sql) } }
        } else {
            try database.withoutTransaction { access in
                for sql in [beginning] + statements { try access.execute(sql) }
                try access.execute(beginning == "SAVEPOINT s" ? "RELEASE s" : "COMMIT")
            }
        }
        // A database without moving tables reads the schema's version, too.
        let plain = try Database(path: folder.file("plain.db"))
        try plain.execute(
            "CREATE TABLE p(x INTEGER PRIMARY KEY); CREATE TABLE c(x REFERENCES p); PRAGMA foreign_keys = ON"
        )
        try plain.execute("PRAGMA defer_foreign_keys = ON")
        try plain.write { for sql in statements where !sql.contains("FROM t") { try $0.execute(sql) } }
        // The deferment has ended with the transaction, or with a statement that reads.
        #expect(throws: SQLiteError.self) { try database.write { try $0.execute("INSERT INTO c VALUES (2)") } }
        try database.execute("PRAGMA defer_foreign_keys = ON; SELECT * FROM t")
        #expect(throws: SQLiteError.self) { try database.execute("BEGIN; INSERT INTO c VALUES (2)") }
    }

    @Test func foreignKeysAreDeferredInAStatementWhoseTriggersAskForChanges() throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a)",
            rows: "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)",
            extra: """
                CREATE TABLE p(x INTEGER PRIMARY KEY); CREATE TABLE c(x REFERENCES p ON DELETE RESTRICT);
                INSERT INTO p VALUES (1); INSERT INTO c VALUES (1); CREATE TABLE n(x);
                CREATE TRIGGER d AFTER DELETE ON p BEGIN INSERT INTO n VALUES (changes()); DELETE FROM c; END
                """,
            tables: ["t"]
        )
        try pair.native.execute(script: "PRAGMA foreign_keys = ON; UPDATE t SET a = 1")
        try pair.database.execute("PRAGMA foreign_keys = ON; UPDATE t SET a = 1")
        #expect(throws: SQLiteError.self) { try pair.native.execute("DELETE FROM p") }
        #expect(throws: SQLiteError.self) { try pair.database.execute("DELETE FROM p") }
        let script = "UPDATE t SET a = 2; PRAGMA defer_foreign_keys = ON; DELETE FROM p"
        try pair.native.execute(script: script)
        try pair.database.execute(script)
        #expect(
            texts(try pair.database.fetchAll("SELECT x FROM n")) == texts(try pair.native.fetchAll("SELECT x FROM n"))
        )
    }

    @Test(.needs(.pragmaFunctions)) func aDroppedTableIsNotDescribedByItsSource() throws {
        let folder = TemporaryFolder()
        let database = try Self.database(folder)
        #expect(try database.fetchAll("SELECT * FROM pragma_table_info('T')").count == 3)
        try database.write { access in
            try access.execute("DROP VIEW v; DROP TABLE t")
            #expect(try access.fetchAll("SELECT * FROM pragma_table_info('T')").isEmpty)
            #expect(try access.fetchAll("SELECT * FROM pragma_table_info('n')").count == 2)
        }
    }

    @Test func aStatementThatCannotBeCommittedHasChangedNothing() throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a)",
            rows: "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)",
            extra: """
                CREATE TABLE p(x INTEGER PRIMARY KEY); CREATE TABLE c(x REFERENCES p DEFERRABLE INITIALLY DEFERRED);
                CREATE TRIGGER d AFTER UPDATE ON t BEGIN INSERT INTO c VALUES (1); END
                """,
            tables: ["t"]
        )
        try pair.native.execute(script: "PRAGMA foreign_keys = ON; INSERT INTO p VALUES (2), (3)")
        try pair.database.execute("PRAGMA foreign_keys = ON; INSERT INTO p VALUES (2), (3)")
        try pair.database.withoutTransaction { access in
            let before = (pair.native.totalChanges, access.totalChanges)
            #expect(throws: SQLiteError.self) { try pair.native.execute("UPDATE t SET a = 5 WHERE id > 1") }
            #expect(throws: SQLiteError.self) { try access.execute("UPDATE t SET a = 5 WHERE id > 1") }
            #expect(access.changes == pair.native.changes)
            #expect(access.totalChanges - before.1 == pair.native.totalChanges - before.0)
            let reported = try access.fetchValue(Int64.self, "SELECT changes()")
            #expect(reported == pair.native.changes)
        }
    }

    /// With a trigger, as moving tables have one, SQLite checks types before it looks whether the row is to be ignored.
    /// What the first attempt did is undone.
    @Test(.needs(.strict), arguments: [true, false])
    func aRowOfTheWrongTypeThatIsIgnoredIsNoError(_ isInTransaction: Bool) throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER) STRICT",
            rows: "INSERT INTO t VALUES (9, 1)",
            extra: """
                CREATE TABLE log(n INTEGER PRIMARY KEY, what);
                CREATE TRIGGER r AFTER INSERT ON t BEGIN INSERT INTO log(what) VALUES (NEW.id); END;
                CREATE TABLE u(id INTEGER PRIMARY KEY, a);
                INSERT INTO u VALUES (4, 41), (9, 'B'), (11, 3)
                """,
            tables: ["t"]
        )
        let sql = "INSERT OR IGNORE INTO t SELECT id, a FROM u ORDER BY id"
        if isInTransaction { try pair.native.execute("BEGIN") }
        try pair.native.execute(sql)
        try pair.database.withoutTransaction { access in
            if isInTransaction { try access.execute("BEGIN") }
            try access.execute(sql)
            #expect(access.lastInsertRowID == pair.native.lastInsertRowID)
            #expect(access.changes == pair.native.changes)
            for table in ["t", "log"] {
                let rows = try texts(pair.native.fetchAll("SELECT * FROM \(table) ORDER BY 1"))
                #expect(try texts(access.fetchAll("SELECT * FROM \(table) ORDER BY 1")) == rows)
            }
            if isInTransaction { try access.execute("COMMIT") }
        }
    }

    /// With a trigger, as moving tables have one, SQLite checks types first; without a trigger, it checks NOT NULL
    /// first.
    @Test(.needs(.strict)) func ofTypeAndNotNullAStrictTableReportsWhatSQLiteDoesUnlessItIsBeingRead() throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT NOT NULL, b INTEGER) STRICT",
            rows: "INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)",
            tables: ["t"],
            moved: 1
        )
        let sql = "UPDATE t SET a = NULL, b = 'x' WHERE id = 2"
        let native = #expect(throws: SQLiteError.self) { try pair.native.execute(sql) }
        #expect(native?.message == "NOT NULL constraint failed: t.a")
        try pair.database.withoutTransaction { access in
            try access.forEachRow("SELECT id FROM t") { _ in
                let error = #expect(throws: SQLiteError.self) { try access.execute(sql) }
                #expect(error?.message == "cannot store TEXT value in INTEGER column t.b")
                return true
            }
            let error = #expect(throws: SQLiteError.self) { try access.execute(sql) }
            #expect(error?.message == native?.message)
        }
    }

    /// The count is what the last statement of the application has changed, even if rows come over for this statement.
    @Test(
        arguments: [
            "UPDATE t SET x = 1 WHERE g = 7 AND changes() = 0", "DELETE FROM t WHERE g = 7 AND changes() = 0",
            "UPDATE t SET x = total_changes() WHERE g = 7",
            "UPDATE t SET x = changes() WHERE g = 7 ORDER BY id LIMIT 2",
        ],
        [0, 2] as [Int64]
    )
    func changesAreThoseOfTheStatementBefore(_ sql: String, _ moved: Int64) throws {
        if sql.contains("LIMIT"), try !Self.hasUpdateLimit() { return }
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, g, x); CREATE INDEX i ON t(g)",
            rows: "INSERT INTO t VALUES (1, 7, 0), (2, 7, 0), (3, 7, 0), (4, 1, 0)",
            tables: ["t"],
            moved: moved
        )
        try pair.native.execute(script: "BEGIN; UPDATE t SET x = 9 WHERE id = 99")
        try pair.native.execute(sql)
        let native = pair.native.changes
        try pair.native.execute("COMMIT")
        let found = try pair.database.write { db in
            try db.execute("UPDATE t SET x = 9 WHERE id = 99")
            try db.execute(sql)
            return db.changes
        }
        #expect(found == native)
        let all =
            sql.contains("total_changes")
            ? "SELECT id, x = (SELECT min(x) FROM t WHERE g = 7) FROM t WHERE g = 7" : "SELECT * FROM t ORDER BY id"
        #expect(texts(try pair.database.fetchAll(all)) == texts(try pair.native.fetchAll(all)))
    }

    /// If a column is NOT NULL, SQLite answers such a question even if there is no row.
    @Test(arguments: [0, 2] as [Int64]) func whatMayNotBeNullIsNotBesideACountOfNone(_ moved: Int64) throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a NOT NULL, b, c TEXT NOT NULL DEFAULT '' COLLATE NOCASE)",
            rows: "INSERT INTO t VALUES (1, 1, 1, 'x'), (2, 2, NULL, 'y'), (3, 3, 3, 'Z')",
            tables: ["t"]
        )
        if moved > 0 { try pair.database.stepMigration(rows: moved) }
        for sql in [
            "SELECT count(*), a IS NULL, a ISNULL, a IS NOT NULL, b IS NULL FROM t WHERE id > 100",
            "SELECT count(*), id IS NULL, rowid IS NULL, c IS NULL FROM t WHERE id > 100",
            "SELECT max(b), a IS NULL FROM t WHERE b = 'zz'", "SELECT count(*), c NOT NULL FROM t WHERE c = 'none'",
            "SELECT count(*), t.a IS NULL, t.id IS NULL FROM (SELECT 9 AS n) LEFT JOIN t ON t.id = n",
            "SELECT t.a IS NULL, t.id IS NULL FROM (SELECT 9 AS n) LEFT JOIN t ON t.id = n",
            "SELECT id FROM t WHERE a IS NOT NULL AND b IS NULL ORDER BY id",
            "SELECT id FROM t WHERE c IS NULL OR id IS NULL",
            "SELECT id FROM t WHERE (a, c) IN (SELECT b, 'X' FROM t) OR b NOT IN (SELECT a FROM t WHERE a > 1) ORDER BY id",
        ] {
            #expect(texts(try pair.database.fetchAll(sql)) == texts(try pair.native.fetchAll(sql)), "\(sql)")
        }
    }

    /// A source may have values that the target refuses.
    @Test func whatTheTargetRefusesIsFoundAsNull() throws {
        let move = try SmallMove(
            source: "CREATE TABLE s(id INTEGER PRIMARY KEY, a); INSERT INTO s VALUES (1, 1), (2, NULL)",
            target: "CREATE TABLE t(id INTEGER PRIMARY KEY, a NOT NULL)",
            from: "s"
        )
        let sql = "SELECT id, a IS NULL FROM t WHERE a IS NULL"
        #expect(texts(try move.database.fetchAll(sql)) == ["2|1"])
        try move.database.execute("DELETE FROM t WHERE a IS NULL")
        try finishMigration(move.database)
        #expect(texts(try move.database.fetchAll("SELECT * FROM t")) == ["1|1"])
    }

    /// By its first query, the column of the compound is one of numbers; by its second, it has text.
    @Test(arguments: [0, 2, 5] as [Int64], ["b TEXT", "b"])
    func textOfACompoundThatLooksLikeANumberIsComparedAsOne(_ moved: Int64, _ column: String) throws {
        let queries = [
            "SELECT id FROM t WHERE b = (SELECT v FROM vq WHERE typeof(v) = 'text') ORDER BY id",
            "SELECT id FROM t WHERE b IS (SELECT v FROM vq WHERE typeof(v) = 'text') ORDER BY id",
            "SELECT id FROM t WHERE b >= (SELECT v FROM vq WHERE typeof(v) = 'text') ORDER BY id",
            "SELECT vq.v, t.id FROM vq CROSS JOIN t ON t.b = vq.v ORDER BY 1, 2",
            "SELECT vq.v, t.id FROM vq LEFT JOIN t ON t.b > vq.v ORDER BY 1, 2",
            "WITH RECURSIVE q(n, v) AS (SELECT 0, x FROM o UNION SELECT n + 1, ' +2.0' FROM q WHERE n < 1) "
                + "SELECT n, id FROM q CROSS JOIN t ON b = v ORDER BY 1, 2",
            "WITH q(v) AS (VALUES ((SELECT x FROM o)), ('2.0')) SELECT v, id FROM q CROSS JOIN t ON b = v ORDER BY 1, 2",
            "SELECT id FROM o AS a CROSS JOIN t WHERE b = '2.0' AND a.x = 1",
        ]
        let writes = [
            "INSERT INTO log SELECT id FROM t WHERE b = (SELECT v FROM vq WHERE typeof(v) = 'text')",
            "WITH q(v) AS (VALUES ((SELECT x FROM o)), ('2.0')) INSERT INTO log SELECT id FROM q CROSS JOIN t ON b = v",
            "UPDATE t SET c = c || 'hit' WHERE b = (SELECT v FROM vq WHERE typeof(v) = 'text')",
            "DELETE FROM t WHERE b >= (SELECT v FROM vq WHERE typeof(v) = 'text') AND id < 3",
            "DELETE FROM t WHERE b = (SELECT v FROM vq WHERE typeof(v) = 'text')",
        ]
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, \(column), c TEXT); CREATE INDEX i ON t(b)",
            rows:
                "INSERT INTO t VALUES (1, '2', ''), (2, '2.0', ''), (3, '1', ''), (4, '9', ''), (5, '02', ''), (6, 'x', '')",
            extra: """
                CREATE TABLE o(x INT); INSERT INTO o VALUES (1), (7); CREATE TABLE log(id);
                CREATE VIEW vq AS SELECT x AS v FROM o UNION SELECT '2.0'
                """,
            tables: ["t"]
        )
        if moved > 0 { try pair.database.stepMigration(rows: moved) }
        for sql in queries {
            #expect(texts(try pair.database.fetchAll(sql)) == texts(try pair.native.fetchAll(sql)), "\(sql)")
        }
        for sql in writes {
            try pair.native.execute(sql)
            let changes = try pair.database.write { access in
                try access.execute(sql)
                return access.changes
            }
            #expect(changes == pair.native.changes, "\(sql)")
            for all in ["SELECT * FROM t ORDER BY id", "SELECT * FROM log ORDER BY id"] {
                #expect(texts(try pair.database.fetchAll(all)) == texts(try pair.native.fetchAll(all)), "\(sql)")
            }
        }
    }

    private static func hasUpdateLimit() throws -> Bool {
        let connection = try Connection(path: ":memory:")
        return try connection.fetchOne(
            "SELECT 1 WHERE sqlite_compileoption_used('ENABLE_UPDATE_DELETE_LIMIT')"
        ) != nil
    }

    @Test(arguments: [0, 2] as [Int64]) func aConditionMayNameTheSource(_ moved: Int64) throws {
        let move = try SmallMove(
            source:
                "CREATE TABLE s(id INTEGER PRIMARY KEY, kind INTEGER, a INTEGER); INSERT INTO s VALUES (1, 1, 3), (2, 2, 9), (3, 1, 7), (4, 1, 8)",
            target: "CREATE TABLE t(id INTEGER PRIMARY KEY, kind INTEGER, a INTEGER)",
            from: "s"
        ) { $0.condition = "s.kind = 1" }
        let database = move.database
        if moved > 0 { try database.stepMigration(rows: moved) }
        try database.execute("UPDATE t SET a = 70 WHERE id = 3")
        #expect(texts(try database.fetchAll("SELECT kind, count(*), max(a) FROM t GROUP BY kind")) == ["1|3|70"])
        #expect(texts(try database.fetchAll("SELECT count(*), min(a) FROM t WHERE a > 5")) == ["2|8"])
        #expect(texts(try database.fetchAll("SELECT count(*) FROM t")) == ["3"])
        try finishMigration(database)
        #expect(texts(try database.fetchAll("SELECT id FROM t ORDER BY id")) == ["1", "3", "4"])
    }
}
