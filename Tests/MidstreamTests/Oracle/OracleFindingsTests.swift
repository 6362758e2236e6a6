import Midstream
import SQLiteConnection
import Testing

/// What the random statements found once, each as small as it got.
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

    @Test func aLimitedDeleteKeepsItsParametersAndItsRows() throws {
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

    @Test func anErrorNamesTheTableAsItWasWritten() throws {
        let folder = TemporaryFolder()
        let database = try Self.database(folder)
        let error = #expect(throws: SQLiteError.self) { try database.execute("INSERT INTO t SELECT 1") }
        #expect(error?.message == "table t has 3 columns but 1 values were supplied")
        let other = #expect(throws: SQLiteError.self) { _ = try database.fetchAll("SELECT main.t.zz FROM t") }
        #expect(other?.message == "no such column: main.t.zz")
    }

    @Test func aStrictTableReportsTheConstraintThatSQLiteWouldReport() throws {
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

    @Test func anyTableCanBeAlteredWhileAnotherMoves() throws {
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

    @Test func aLimitedWriteTakesACommonTableForItsTarget() throws {
        let folder = TemporaryFolder()
        let database = try Self.database(folder)
        #expect(throws: SQLiteError.self) {
            try database.execute("WITH t AS (SELECT * FROM t) DELETE FROM t ORDER BY id LIMIT 1")
        }
    }
}
