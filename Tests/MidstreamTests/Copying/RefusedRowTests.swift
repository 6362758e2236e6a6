import Midstream
import MidstreamTesting
import SQLiteConnection
import Testing

/// A row that the target does not take stops the migration with an error, and loses nothing.
@Suite struct RefusedRowTests {
    private func database(_ folder: TemporaryFolder, _ constraint: String, _ rows: String, _ extra: String = "") throws
        -> Database
    {
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(script: "CREATE TABLE s(id INTEGER PRIMARY KEY, x INTEGER); INSERT INTO s \(rows)")
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, x INTEGER \(constraint)); \(extra)")
        try database.addMigration(source: .file(folder.file("old.db"))) { if $0.name == "t" { $0.sourceTable = "s" } }
        return database
    }

    private static let rows =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) SELECT i, CASE i WHEN 60 THEN -1 ELSE i END FROM n"

    private func stepUntilRefused(_ database: Database, _ step: () throws -> MigrationProgress) throws
        -> MigrationError?
    {
        do {
            for _ in 0..<100 where try step().isFinished { return nil }
        } catch let error as MigrationError {
            return error
        }
        return nil
    }

    @Test(arguments: [true, false])
    func theRowsBeforeItMoveAndItIsTold(_ isByTime: Bool) throws {
        let folder = TemporaryFolder()
        let database = try database(folder, "CHECK (x > 0)", Self.rows)
        for _ in 0..<2 {
            let error = try stepUntilRefused(database) {
                isByTime ? try database.stepMigration() : try database.stepMigration(rows: 30)
            }
            #expect(error?.code == .rowRefused && error?.table == "t" && error?.key == 60)
            #expect(error?.cause.map { ResultCode.constraint ~= $0.code } == true)
            #expect(try MovingFixture.count("t", in: database.path) == 59)
            #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 100)
            #expect(try database.fetchValue(Int.self, "SELECT x FROM t WHERE id = 60") == -1)
        }
        #expect(try MovingFixture.count("s", in: folder.file("old.db")) == 100)
    }

    @Test(arguments: [
        "UPDATE t SET x = 600 WHERE id = 60", "DELETE FROM t WHERE x < 0", "UPDATE t SET x = abs(x) WHERE id > 50",
    ])
    func theMigrationGoesOnWhenTheRowIsMended(_ statement: String) throws {
        let folder = TemporaryFolder()
        let database = try database(folder, "CHECK (x > 0)", Self.rows)
        #expect(try stepUntilRefused(database) { try database.stepMigration() }?.key == 60)
        try database.execute(statement)
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t WHERE x < 0") == 0)
        let count = try database.fetchValue(Int.self, "SELECT count(*) FROM t")
        #expect(count == (statement.hasPrefix("DELETE") ? 99 : 100))
        #expect(try MovingFixture.objects(database.path).filter { $0.contains("midstream") } == [])
    }

    /// SQLite gives the next rowid behind the largest one of the target, which that row would be.
    @Test func aRowWithTheLargestRowIDIsNamedWhereItKeepsOthersFromBeingInserted() throws {
        let pair = try SmallMove(
            source: "CREATE TABLE t(id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (1, 1), (3, -3)",
            target: "CREATE TABLE t(id INTEGER PRIMARY KEY, x CHECK (x > 0))"
        )
        let error = #expect(throws: SQLiteError.self) { try pair.database.execute("INSERT INTO t(x) VALUES (7)") }
        #expect(error.map { ResultCode.constraint ~= $0.code } == true)
        #expect(error?.message.contains("the largest rowid, 3, must move first") == true, "\(error?.message ?? "")")
        try pair.database.execute("INSERT INTO t VALUES (9, 7)")
        try pair.database.execute("INSERT INTO t(x) VALUES (8)")
        #expect(texts(try pair.database.fetchAll("SELECT * FROM t ORDER BY id")) == ["1|1", "3|-3", "9|7", "10|8"])
    }

    @Test func aNullThatTheTargetDoesNotTakeCanBeDeleted() throws {
        let folder = TemporaryFolder()
        let database = try database(folder, "NOT NULL", "VALUES (1, 1), (2, NULL), (3, 3)")
        #expect(try stepUntilRefused(database) { try database.stepMigration() }?.key == 2)
        try database.execute("DELETE FROM t WHERE id = 2")
        try finishMigration(database)
        #expect(try database.fetchAll("SELECT id FROM t").map { $0[0] } == [.integer(1), .integer(3)])
    }

    @Test(arguments: ["CREATE INDEX other ON t(x)", "ALTER TABLE t ADD COLUMN more"], [false, true])
    func aStatementThatNeedsAllRowsInOnePlaceTellsWhy(_ sql: String, _ isBlock: Bool) throws {
        let folder = TemporaryFolder()
        let database = try database(folder, "CHECK (x > 0)", Self.rows)
        let before = texts(try database.fetchAll("SELECT * FROM t ORDER BY id"))
        let error = #expect(throws: SQLiteError.self) {
            if isBlock { try database.write { try $0.execute(sql) } } else { try database.execute(sql) }
        }
        #expect(error?.code.primary == .constraint && error?.sql == sql, "\(String(describing: error))")
        #expect(error?.message.contains("t in one place") == true, "\(String(describing: error))")
        #expect(texts(try database.fetchAll("SELECT * FROM t ORDER BY id")) == before)
    }

    @Test func theBatchesOfTheStepBeforeItMoveToo() throws {
        let folder = TemporaryFolder()
        let rows =
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) "
            + "SELECT i, CASE i WHEN 19000 THEN -1 ELSE i END FROM n"
        let database = try database(folder, "CHECK (x > 0)", rows)
        // Rows of the ledger on both sides of the batch that is refused.
        try database.execute("UPDATE t SET x = x WHERE id IN (2, 5000, 18999)")
        let error = try stepUntilRefused(database) { try database.stepMigration(budget: .seconds(60)) }
        #expect(error?.code == .rowRefused && error?.key == 19000)
        #expect(try MovingFixture.count("t", in: database.path) == 18_999)
        try database.execute("DELETE FROM t WHERE id = 19000")
        try finishMigration(database)
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 19_999)
    }

    @Test(arguments: ["IGNORE", "REPLACE"])
    func aConstraintsOwnConflictClauseNeitherLosesNorChangesIt(_ clause: String) throws {
        let folder = TemporaryFolder()
        let constraint = "NOT NULL ON CONFLICT \(clause) DEFAULT 7"
        let database = try database(folder, constraint, "VALUES (1, 1), (2, NULL), (3, 3)")
        #expect(try stepUntilRefused(database) { try database.stepMigration() }?.key == 2)
        let values = try database.fetchAll("SELECT x FROM t ORDER BY id").map { $0[0] }
        #expect(values == [.integer(1), .null, .integer(3)])
        try database.execute("DELETE FROM t WHERE id = 2")
        try finishMigration(database)
        #expect(try database.fetchAll("SELECT id FROM t").map { $0[0] } == [.integer(1), .integer(3)])
    }

    // MARK: DELETE

    /// Rows 2 and 4 cannot be in the target.
    private func databaseToDeleteFrom(_ folder: TemporaryFolder, _ extra: String) throws -> Database {
        try database(
            folder,
            "NOT NULL",
            "VALUES (1, 1), (2, NULL), (3, 3), (4, NULL), (5, 5)",
            "CREATE TABLE log(what); " + extra
        )
    }

    private func ids(_ database: Database) throws -> [String] { texts(try database.fetchAll("SELECT id FROM t")) }

    @Test(
        arguments: ["DELETE FROM t WHERE id IN (2, 3)", "DELETE FROM t", "DELETE FROM t WHERE random() IS NOT NULL"],
        [true, false]
    )
    func aDeleteThatFailsDeletesNone(_ sql: String, _ isBlock: Bool) throws {
        let folder = TemporaryFolder()
        let database = try databaseToDeleteFrom(
            folder,
            "CREATE TRIGGER no BEFORE DELETE ON t WHEN OLD.id = 3 BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
        if isBlock {
            try database.write { access in _ = #expect(throws: SQLiteError.self) { try access.execute(sql) } }
        } else {
            #expect(throws: SQLiteError.self) { try database.execute(sql) }
        }
        #expect(try ids(database) == ["1", "2", "3", "4", "5"])
    }

    /// A trigger, or a foreign key, would have to see the row in the target.
    @Test(arguments: [
        "CREATE TRIGGER a AFTER DELETE ON t BEGIN INSERT INTO log VALUES (OLD.id); END",
        "CREATE TRIGGER a BEFORE DELETE ON t BEGIN SELECT RAISE(IGNORE); END",
        "CREATE TABLE child(x REFERENCES t ON DELETE CASCADE); INSERT INTO child VALUES (2)",
    ])
    func aDeleteThatOthersMustSeeIsTheRowsError(_ extra: String) throws {
        let folder = TemporaryFolder()
        let database = try databaseToDeleteFrom(folder, extra)
        try database.withoutTransaction { access in
            try access.execute("PRAGMA foreign_keys = ON; BEGIN")
            let error = #expect(throws: SQLiteError.self) { try access.execute("DELETE FROM t WHERE id = 2") }
            #expect(error?.message.hasPrefix("NOT NULL constraint failed") == true)
            try access.execute("COMMIT")
        }
        #expect(try ids(database) == ["1", "2", "3", "4", "5"])
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM log") == 0)
    }

    @Test(arguments: [
        "DELETE FROM t WHERE id IN (2, 3, 4)", "DELETE FROM t WHERE (SELECT count(*) FROM t) = 5",
        "DELETE FROM t WHERE id >= (SELECT min(id) FROM t WHERE x IS NULL)", "DELETE FROM t",
        "DELETE FROM t WHERE id > 1 AND random() IS NOT NULL",
    ])
    func theyAreDeletedAndCountedWithTheOthers(_ sql: String) throws {
        let folder = TemporaryFolder()
        // With any trigger, such a statement drains the table.
        let isChosen = sql.contains("random")
        let database = try databaseToDeleteFrom(
            folder,
            isChosen ? "" : "CREATE TRIGGER a AFTER UPDATE ON t BEGIN INSERT INTO log VALUES (OLD.id); END"
        )
        let native = try Connection(path: ":memory:")
        try native.execute(script: "CREATE TABLE t(id INTEGER PRIMARY KEY, x INTEGER)")
        try native.execute("INSERT INTO t VALUES (1, 1), (2, NULL), (3, 3), (4, NULL), (5, 5)")
        try native.execute(sql)
        try database.write { access in
            let before = access.totalChanges
            try access.execute(sql)
            #expect(access.changes == native.changes)
            #expect(access.totalChanges - before == native.changes)
            #expect(try access.fetchValue(Int64.self, "SELECT changes()") == native.changes)
        }
        #expect(try ids(database) == texts(native.fetchAll("SELECT id FROM t")))
    }

    /// A constraint that an older table's rows violate, which the engine meets as it brings one over.
    @Test(arguments: [
        "INSERT OR @ INTO t VALUES (13, 2, 'n')", "INSERT OR @ INTO t VALUES (2000, 2, 'b13')",
        "UPDATE OR @ t SET b = 'b13' WHERE id = 2", "INSERT OR @ INTO t VALUES (3000, 2, 'm'), (13, 2, 'n')",
        // What the definition says counts then.
        "INSERT INTO t VALUES (2000, 2, 'b13')", "UPDATE t SET b = 'b13' WHERE id = 2",
    ])
    func aStatementThatMeetsOneHasTheTransactionRolledBackIfItSaysSo(_ sql: String) throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a, b UNIQUE)")
        try old.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20) INSERT INTO t SELECT i, i % 10, 'b' || i FROM n"
        )
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b UNIQUE ON CONFLICT ROLLBACK, CHECK (a <> 3)); CREATE TABLE plain(x)"
        )
        try database.execute("INSERT INTO plain VALUES (0)")
        try database.addMigration(source: .file(folder.file("old.db"))) { if $0.name == "t" { $0.sourceTable = "t" } }
        for (word, kept) in sql.contains("@") ? [("ABORT", 2), ("ROLLBACK", 2)] : [("", 1)] {
            let statement = sql.replacing("@", with: word)
            _ = try? database.write { db in
                try db.execute("INSERT INTO plain VALUES (1)")
                let error = #expect(throws: SQLiteError.self) { try db.execute(statement) }
                #expect(error.map { ResultCode.constraint ~= $0.code } == true)
            }
            #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM plain") == kept, "\(statement)")
            #expect(throws: SQLiteError.self) { try database.execute(statement) }
        }
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 20)
    }

    /// Each key has a clause of its own, and those that an upsert names have its answer.
    @Test(arguments: [
        "INSERT INTO t VALUES (90, 1, 'x', 13, 'x')", "INSERT INTO t VALUES (13, 1, 'x', 90, 'x')",
        "UPDATE t SET c = 13 WHERE id = 2", "UPDATE t SET id = 13 WHERE id = 2",
        "INSERT INTO t VALUES (90, 1, 'b13', 90, 'x')",
        "INSERT INTO t VALUES (90, 1, 'x', 90, 'd13')", "UPDATE t SET d = 'd13' WHERE id = 2",
        "INSERT OR ABORT INTO t VALUES (90, 1, 'b13', 90, 'x')",
        "INSERT OR ROLLBACK INTO t VALUES (90, 1, 'x', 13, 'x')",
        "INSERT INTO t VALUES (90, 1, 'b13', 90, 'x') ON CONFLICT (id) DO NOTHING",
        "INSERT INTO t VALUES (90, 1, 'x', 13, 'x') ON CONFLICT (rowid) DO UPDATE SET a = 1",
        "INSERT OR ROLLBACK INTO t VALUES (90, 1, 'x', 13, 'x') ON CONFLICT (rowid) DO NOTHING",
        "INSERT OR ROLLBACK INTO t VALUES (90, 1, 'x', 13, 'x') ON CONFLICT (id) DO NOTHING ON CONFLICT (b) DO NOTHING",
        // These have another answer natively than an error of the key, but none that ends the transaction.
        "INSERT INTO t VALUES (2, 1, 'x', 90, 'x') ON CONFLICT (id) DO UPDATE SET b = 'b13'",
        "INSERT OR ROLLBACK INTO t VALUES (2, 1, 'x', 90, 'x') ON CONFLICT (id) DO UPDATE SET c = 13",
        "INSERT INTO t VALUES (90, 1, 'B13', 90, 'x')", "INSERT INTO t VALUES (90, 1, 'x', 90, 'D13')",
        "INSERT OR ROLLBACK INTO t VALUES (13, 1, 'x', 90, 'x') ON CONFLICT (\"C\") DO NOTHING",
    ])
    func aTransactionIsRolledBackByTheKeysThatSaySo(_ sql: String) throws {
        if sql.contains("DO "), Connection.libraryVersionNumber < 3_024_000 { return }
        let folder = TemporaryFolder()
        let columns = "id INTEGER PRIMARY KEY, a, b TEXT UNIQUE ON CONFLICT ROLLBACK, c INT UNIQUE, d"
        let keys = "UNIQUE (d COLLATE nocase) /* ON CONFLICT FAIL */ ON CONFLICT ROLLBACK"
        let index = "CREATE UNIQUE INDEX n ON t(b COLLATE NOCASE)"
        let rows = """
            INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20)
            SELECT i, i % 10, 'b' || i, i, 'd' || i FROM n
            """
        let native = try Connection(path: folder.file("plain.db"))
        try native.execute(script: "CREATE TABLE t(\(columns), \(keys)); \(index); CREATE TABLE plain(x); \(rows)")
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(script: "CREATE TABLE t(\(columns), \(keys)); \(index); \(rows)")
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(\(columns), CHECK (a <> 3), \(keys)); \(index); CREATE TABLE plain(x)")
        try database.addMigration(source: .file(folder.file("old.db"))) { if $0.name == "t" { $0.sourceTable = "t" } }
        try native.execute(script: "BEGIN; INSERT INTO plain VALUES (1)")
        #expect(throws: SQLiteError.self) { try native.execute(sql) }
        var isKept = false
        _ = try? database.withoutTransaction { db in
            try db.execute("BEGIN; INSERT INTO plain VALUES (1)")
            #expect(throws: SQLiteError.self) { try db.execute(sql) }
            isKept = db.isInTransaction
        }
        #expect(isKept == native.isInTransaction)
    }

    /// Natively these do something else than fail, or nothing.
    @Test(arguments: [
        "INSERT INTO t VALUES (90, 1, 'b20') ON CONFLICT (b ASC) DO NOTHING",
        "INSERT INTO t AS s VALUES (90, 1, 'b20') ON CONFLICT (s.b) DO UPDATE SET a = 1",
        "INSERT OR ROLLBACK INTO t VALUES (90, 1, 'b20') ON CONFLICT (b COLLATE binary) DO NOTHING",
        "INSERT OR ROLLBACK INTO t VALUES (20, 1, 'x') ON CONFLICT (_rowid_) DO NOTHING",
        "INSERT OR ROLLBACK INTO t VALUES (90, 1, 'b20') ON CONFLICT DO NOTHING",
        "INSERT OR ROLLBACK INTO t(a, b) VALUES (1, 'x')",
    ])
    func aTransactionIsKeptWhereNothingCollides(_ sql: String) throws {
        if sql.contains("DO "), Connection.libraryVersionNumber < 3_024_000 { return }
        let folder = TemporaryFolder()
        try Connection(path: folder.file("old.db")).execute(
            script: """
                CREATE TABLE t(id INTEGER PRIMARY KEY, a, b UNIQUE);
                INSERT INTO t VALUES (1, 1, 'b1'), (2, 2, 'b2'), (20, 3, 'b20')
                """
        )
        let database = try Database(path: folder.file("new.db"))
        try database.execute(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a CHECK (a <> 3), b UNIQUE ON CONFLICT ROLLBACK); CREATE TABLE plain(x)"
        )
        try database.addMigration(source: .file(folder.file("old.db"))) { if $0.name == "t" { $0.sourceTable = "t" } }
        try database.withoutTransaction { db in
            try db.execute("BEGIN; INSERT INTO plain VALUES (1)")
            #expect(throws: SQLiteError.self) { try db.execute(sql) }
            try db.execute("COMMIT")
        }
        #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM plain") == 1)
    }

    /// SQLite rolls back for the statement's own collisions alone.
    @Test(
        arguments: [
            "UPDATE OR ROLLBACK p SET id = 50 WHERE id = 1",
            "INSERT OR ROLLBACK INTO t VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET b = 'b19'",
            "INSERT OR ROLLBACK INTO t VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET b = NULL",
            "INSERT OR ROLLBACK INTO t VALUES (1, 'x')", "INSERT OR ROLLBACK INTO t VALUES (100, 'b19')",
            "UPDATE OR ROLLBACK t SET b = NULL WHERE id = 19", "INSERT OR ABORT INTO t VALUES (1, 'x')",
        ],
        [true, false]
    )
    func aTransactionIsKeptWhereSQLiteKeepsIt(_ sql: String, _ moves: Bool) throws {
        if sql.contains("DO UPDATE"), Connection.libraryVersionNumber < 3_024_000 { return }
        var configuration = DatabaseConfiguration()
        configuration.enforcesForeignKeys = true
        let pair = try Pair(
            schema: """
                CREATE TABLE t(id INTEGER PRIMARY KEY, b NOT NULL UNIQUE); CREATE TABLE p(id INTEGER PRIMARY KEY);
                CREATE TABLE c(p NOT NULL REFERENCES p ON UPDATE SET NULL)
                """,
            rows: """
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20) INSERT INTO t SELECT i, 'b' || i FROM n;
                INSERT INTO p VALUES (1), (2); INSERT INTO c VALUES (1)
                """,
            extra: "CREATE TABLE plain(x)",
            tables: ["t", "p", "c"],
            moved: 1
        )
        if !moves { try pair.finish() }
        pair.database.close()
        let database = try Database(path: pair.target, configuration: configuration)
        try pair.native.configure(.foreignKeys, true)
        var (isKeptNatively, isKept) = (false, false)
        for text in ["BEGIN", "INSERT INTO plain VALUES (1)"] { try pair.native.execute(text) }
        let native = #expect(throws: SQLiteError.self) { try pair.native.execute(sql) }
        isKeptNatively = pair.native.isInTransaction
        _ = try? database.withoutTransaction { db in
            for text in ["BEGIN", "INSERT INTO plain VALUES (1)"] { try db.execute(text) }
            let error = #expect(throws: SQLiteError.self) { try db.execute(sql) }
            #expect(error?.code == native?.code)
            isKept = db.isInTransaction
        }
        #expect(isKept == isKeptNatively)
    }
}
