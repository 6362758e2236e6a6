import Midstream
import MidstreamTesting
import SQLiteC
import SQLiteConnection
import SQLiteFeatures
import Testing

/// Connections that other code opened, from the time when the overlay is installed until it is gone.
@Suite struct BorrowedConnectionTests {
    private static let schema = """
        CREATE TABLE messages(id INTEGER PRIMARY KEY, sender TEXT DEFAULT 'nobody', body TEXT UNIQUE, size INTEGER NOT NULL)
        """
    private static let rows = """
        INSERT INTO messages WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100)
        SELECT i, 'user ' || (i % 7), 'body ' || i, i * 10 FROM n
        """

    private static func pair(_ extra: String = "", moved: Int64 = 40) throws -> Pair {
        try Pair(schema: schema, rows: rows, extra: extra, tables: ["messages"], moved: moved)
    }

    // MARK: Ownership

    @Test(arguments: ForeignConnection.Library.allCases)
    func sqliteCloseFindsNothingOpen(library: ForeignConnection.Library) throws {
        let pair = try Self.pair()
        let foreign = try ForeignConnection(pair.target, as: library)
        let overlay = try foreign.install()
        #expect(overlay.movingTables == ["messages"])
        #expect(try foreign.rows("SELECT count(*) FROM messages WHERE sender = 'user 3'") == ["14"])
        if library != .readOnly {
            try foreign.execute("UPDATE messages SET sender = 'user 8' WHERE id BETWEEN 30 AND 50")
            try overlay.execute("DELETE FROM messages WHERE id = 77")
        }
        try overlay.refresh()
        #expect(foreign.close() == SQLITE_OK)
        #expect(throws: MigrationError.self) { try overlay.refresh() }
        #expect(throws: MigrationError.self) { try overlay.execute("SELECT 1") }
        #expect(MigrationOverlay.installed(on: foreign.handle) == nil)
    }

    /// The overlay is not told of statements that the library runs itself.
    @Test(arguments: ["BEGIN", "SAVEPOINT s", "BEGIN IMMEDIATE"], [true, false])
    func aTransactionThatTheOverlayHasBegunIsTheLibrarys(beginning: String, isMoving: Bool) throws {
        let pair = try Self.pair("CREATE TABLE other(a)", moved: isMoving ? 40 : 100)
        let foreign = try ForeignConnection(pair.target)
        let overlay = try foreign.install()
        try overlay.execute(beginning)
        try foreign.execute("INSERT INTO other VALUES (1); UPDATE messages SET sender = 'n' WHERE id IN (30, 70)")
        try overlay.execute("INSERT INTO other VALUES (2)")
        try foreign.execute("COMMIT")
        #expect(try foreign.rows("SELECT a FROM other") == ["1", "2"])
        #expect(try foreign.rows("SELECT id FROM messages WHERE sender = 'n'") == ["30", "70"])
        #expect(foreign.close() == SQLITE_OK)
    }

    /// The scan has read ahead on the target's side before the rollback.
    @Test func aScanGivesNoRowThatWasRolledBack() throws {
        let pair = try Self.pair(moved: 1)
        let foreign = try ForeignConnection(pair.target)
        try foreign.install()
        try foreign.execute("UPDATE messages SET size = 0 WHERE id = 90")
        try foreign.execute("BEGIN; SAVEPOINT s; UPDATE messages SET size = 7 WHERE id = 90")
        try foreign.execute("INSERT INTO messages VALUES (1000, 'a', 'b', 3)")
        let statement = try foreign.wrapped.prepare("SELECT id, size FROM messages WHERE id > 50 ORDER BY id")
        var rows: [Row] = []
        while try statement.step() {
            rows.append(Row(copying: statement))
            if rows.count == 5 || rows.count == 45 { try foreign.execute("ROLLBACK TO s") }
        }
        #expect(texts(rows) == (51...100).map { "\($0)|\($0 == 90 ? 0 : $0 * 10)" })
        try foreign.execute("ROLLBACK")
    }

    @Test func aConnectionThatWritesNothingAnyMoreClosesAfterARollbackOfItsSchema() throws {
        let pair = try Self.pair()
        let foreign = try ForeignConnection(pair.target)
        let overlay = try foreign.install()
        try foreign.execute("BEGIN; CREATE TEMP TABLE t(a); DELETE FROM messages WHERE id = 60; ROLLBACK")
        try overlay.refresh()
        #expect(try foreign.rows("SELECT count(*) FROM messages") == ["100"])
        #expect(foreign.close() == SQLITE_OK)
    }

    /// SQLite keeps each prepared statement in memory, whether it runs or not.
    @Test func statementsOfManyShapesLeaveFewOfTheEnginesOwn() throws {
        let columns = (0..<9).map { "c\($0)" }
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, \(columns.joined(separator: ", ")))",
            rows: "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9) "
                + "INSERT INTO t SELECT i, i, i, i, i, i, i, i, i, i FROM n",
            tables: ["t"],
            moved: 4
        )
        let foreign = try ForeignConnection(pair.target)
        try foreign.install()
        func count() -> Int {
            var (found, next) = (0, sqlite3_next_stmt(foreign.handle, nil))
            while let statement = next { (found, next) = (found + 1, sqlite3_next_stmt(foreign.handle, statement)) }
            return found
        }
        var most = 0
        for shape in (1..<512) + [1, 2, 511] {
            let used = columns.indices.filter { shape & (1 << $0) != 0 }.map { columns[$0] }.joined(separator: ", ")
            let sql = "SELECT id, \(used) FROM t WHERE id > \(shape % 10)"
            #expect(try foreign.rows(sql) == texts(pair.native.fetchAll(sql)), "\(sql)")
            most = max(most, count())
        }
        #expect(most < 300)
        #expect(foreign.close() == SQLITE_OK)
    }

    @Test func withSqliteCloseV2StatementsGoOnUntilTheyEnd() throws {
        let pair = try Self.pair()
        let foreign = try ForeignConnection(pair.target)
        try foreign.install()
        let statement = try foreign.wrapped.prepare("SELECT id FROM messages ORDER BY id")
        #expect(try statement.step())
        foreign.wrapped.close()
        #expect(sqlite3_close_v2(foreign.handle) == SQLITE_OK)
        var count = 1
        while try statement.step() { count += 1 }
        #expect(count == 100)
    }

    @Test func uninstalledItIsAConnectionLikeAnyOther() throws {
        let pair = try Self.pair()
        let foreign = try ForeignConnection(pair.target, as: .grdb)
        let overlay = try foreign.install()
        #expect(try MigrationOverlay.install(on: foreign.handle) === overlay)
        try foreign.execute("DELETE FROM messages WHERE id = 90")
        try overlay.uninstall()
        #expect(MigrationOverlay.installed(on: foreign.handle) == nil)
        #expect(try foreign.rows("SELECT count(*) FROM messages") == ["40"])
        #expect(try foreign.rows("SELECT count(*) FROM sqlite_temp_master") == ["0"])
        #expect(try foreign.rows("PRAGMA database_list").filter { $0.contains("midstream_source") } == [])
        #expect(throws: SQLiteError.self) { try foreign.execute("DELETE FROM messages WHERE id = 1") }
        try foreign.install()
        #expect(try foreign.rows("SELECT count(*) FROM messages") == ["99"])
        #expect(foreign.close() == SQLITE_OK)
    }

    /// The overlay is removed as a whole, or not at all: with only a part of it, writes of pending rows would be lost.
    @Test func whileAStatementRunsItStaysWhole() throws {
        let pair = try Self.pair("CREATE TABLE other(x); INSERT INTO other VALUES (1), (2)")
        let foreign = try ForeignConnection(pair.target)
        do {
            let statement = try foreign.wrapped.prepare("SELECT x FROM other")
            #expect(try statement.step())
            #expect(throws: MigrationError.self) { try foreign.install() }
            statement.reset()
            let overlay = try foreign.install()
            #expect(try statement.step())
            let error = #expect(throws: MigrationError.self) { try overlay.uninstall() }
            #expect(error?.code == .misuse)
            try foreign.execute(
                "UPDATE messages SET sender = 'n' WHERE id IN (30, 70); DELETE FROM messages WHERE id = 90"
            )
            #expect(try foreign.rows("SELECT count(*) FROM messages") == ["99"])
            statement.reset()
            try overlay.uninstall()
        }
        #expect(try foreign.rows("SELECT count(*) FROM messages") == ["41"])
        try foreign.install()
        #expect(try foreign.rows("SELECT id FROM messages WHERE sender = 'n'") == ["30", "70"])
        #expect(foreign.close() == SQLITE_OK)
    }

    @Test(
        arguments: ["SELECT id FROM messages", "DELETE FROM messages WHERE id = 30", "SELECT changes() FROM messages"],
        [true, false]
    )
    func whatWasPreparedBeforeItWentIsPreparedAnew(_ sql: String, _ steps: Bool) throws {
        let pair = try Self.pair("CREATE TABLE other(x)")
        let foreign = try ForeignConnection(pair.target)
        let overlay = try foreign.install()
        var statement: OpaquePointer?
        #expect(sqlite3_prepare_v2(foreign.handle, sql, -1, &statement, nil) == SQLITE_OK)
        if steps {
            _ = sqlite3_step(statement)
            sqlite3_reset(statement)
        }
        try overlay.uninstall()
        try foreign.execute("CREATE TABLE more(x)")
        // Without the overlay, a write is refused.
        #expect(sqlite3_step(statement) == (sql.hasPrefix("SELECT") ? SQLITE_ROW : SQLITE_ERROR))
        sqlite3_finalize(statement)
        #expect(foreign.close() == SQLITE_OK)
    }

    /// While a statement reads, the overlay cannot be brought up to date.
    @Test(arguments: ["SELECT x FROM other", "SELECT id FROM messages"])
    func aTableThatHasMovedIsCountedWhileAStatementReads(_ reading: String) throws {
        let pair = try Self.pair("CREATE TABLE other(x); INSERT INTO other VALUES (1), (2)")
        let foreign = try ForeignConnection(pair.target)
        let overlay = try foreign.install()
        try pair.finish()
        try foreign.execute("BEGIN")
        do {
            let statement = try foreign.wrapped.prepare(reading)
            #expect(try statement.step())
            #expect(texts(try overlay.fetchAll("SELECT count(*) FROM messages")) == ["100"])
            #expect(try foreign.rows("SELECT count(*) FROM messages") == ["100"])
        }
        try foreign.execute("COMMIT")
        #expect(texts(try overlay.fetchAll("SELECT count(*) FROM messages")) == ["100"])
        #expect(foreign.close() == SQLITE_OK)
    }

    @Test(arguments: [true, false]) func theCountsOfChangesStay(_ isRefused: Bool) throws {
        let pair = try Self.pair("CREATE TABLE other(x); CREATE TABLE log(n, m)")
        let foreign = try ForeignConnection(pair.target)
        if isRefused {
            try foreign.execute(
                "CREATE TEMP TRIGGER g AFTER INSERT ON other BEGIN SELECT count(*) FROM main.messages; END"
            )
            #expect(throws: MigrationError.self) { try foreign.install() }
            try foreign.execute("DROP TRIGGER temp.g")
        } else {
            try foreign.install().uninstall()
        }
        let plain = try ForeignConnection(pair.folder.file("plain.db"))
        for connection in [foreign, plain] {
            try connection.execute(
                """
                CREATE TRIGGER counting AFTER INSERT ON other BEGIN INSERT INTO log VALUES (changes(), NEW.x); END;
                INSERT INTO other VALUES (1), (2), (3); UPDATE other SET x = 0 WHERE x > 1
                """
            )
            #expect(try connection.rows("SELECT changes()") == ["2"])
        }
        for query in ["SELECT * FROM log", "SELECT changes()"] {
            #expect(try foreign.rows(query) == plain.rows(query))
        }
        #expect(try foreign.rows("SELECT total_changes()") == ["8"])
        #expect(foreign.close() == SQLITE_OK)
        #expect(plain.close() == SQLITE_OK)
    }

    @Test func inATransactionItComesAndGoesNot() throws {
        let pair = try Self.pair()
        let foreign = try ForeignConnection(pair.target)
        try foreign.execute("BEGIN")
        #expect(throws: MigrationError.self) { try foreign.install() }
        try foreign.execute("ROLLBACK")
        let overlay = try foreign.install()
        try foreign.execute("BEGIN")
        #expect(throws: MigrationError.self) { try overlay.refresh() }
        #expect(throws: MigrationError.self) { try overlay.uninstall() }
        try foreign.execute("COMMIT")
        #expect(foreign.close() == SQLITE_OK)
    }

    // MARK: Statements

    @Test func aStatementThatFailsInATransactionIsUndoneAlone() throws {
        let pair = try Self.pair()
        let foreign = try ForeignConnection(pair.target, as: .grdb)
        try foreign.install()
        try foreign.execute(
            "CREATE TEMP TABLE new(body, size); INSERT INTO new VALUES ('a', 1), ('b', 2), ('body 80', 3)"
        )
        try foreign.execute("BEGIN; INSERT INTO messages(body, size) VALUES ('kept', 1)")
        let error = #expect(throws: SQLiteError.self) {
            try foreign.execute("INSERT INTO messages(body, size) SELECT body, size FROM new")
        }
        #expect(error?.code.rawValue == SQLITE_CONSTRAINT | 8 << 8)
        #expect(error?.message == "UNIQUE constraint failed: messages.body")
        #expect(throws: SQLiteError.self) { try foreign.execute("UPDATE messages SET body = 'x' WHERE id > 70") }
        try foreign.execute("COMMIT")
        #expect(
            try foreign.rows("SELECT id, body FROM messages WHERE id > 100 OR body IN ('a', 'b', 'x')") == ["101|kept"]
        )
        #expect(try foreign.rows("SELECT sender FROM messages WHERE id = 101") == ["nobody"])
        #expect(foreign.close() == SQLITE_OK)
    }

    @Test func whatFailsForAnotherReasonIsUndoneToo() throws {
        let pair = try Pair(
            schema: "CREATE TABLE log(x)",
            rows: "INSERT INTO log VALUES (1), (2), (3)",
            tables: ["log"],
            moved: 1
        )
        let foreign = try ForeignConnection(pair.target)
        try foreign.install()
        try foreign.execute("BEGIN; INSERT INTO log VALUES (4)")
        let overflow = "CASE x WHEN 3 THEN abs(-9223372036854775808) ELSE x END"
        #expect(throws: SQLiteError.self) {
            try foreign.execute("INSERT INTO log SELECT \(overflow) FROM (SELECT 1 AS x UNION ALL VALUES (2), (3))")
        }
        try foreign.execute("COMMIT")
        #expect(try foreign.rows("SELECT x FROM log") == ["1", "2", "3", "4"])
        #expect(foreign.close() == SQLITE_OK)
    }

    @Test func orClausesActAsNatively() throws {
        let pair = try Self.pair()
        let foreign = try ForeignConnection(pair.target)
        try foreign.install()
        let statements = [
            "INSERT OR IGNORE INTO messages(id, body, size) VALUES (90, 'n', 1), (200, 'o', 1), (201, 'body 3', 1)",
            "INSERT OR REPLACE INTO messages(id, body, size) VALUES (300, 'body 95', 1), (90, 'body 91', 2)",
            "INSERT OR FAIL INTO messages(id, body, size) VALUES (400, 'p', 1), (50, 'q', 1), (401, 'r', 1)",
            "UPDATE OR IGNORE messages SET body = 'body 1' WHERE id > 95",
            "UPDATE OR FAIL messages SET id = id + 3 WHERE id > 95",
            "UPDATE messages SET size = NULL WHERE id = 70",
            "BEGIN", "INSERT OR ROLLBACK INTO messages(id, size) VALUES (70, 1)", "COMMIT",
            "DELETE FROM messages WHERE id % 3 = 0",
            "INSERT INTO messages(size) SELECT size FROM messages WHERE id > 80",
            "REPLACE INTO messages DEFAULT VALUES", "UPDATE messages SET rowid = 1000 WHERE rowid = 71",
        ]
        for sql in statements {
            var codes: [Int32] = []
            var states: [[Int64]] = []
            for (handle, connection) in [(foreign.handle, foreign.wrapped), (nil, pair.native)] {
                do {
                    if let handle {
                        _ = handle
                        try foreign.execute(sql)
                    } else {
                        try connection.execute(sql)
                    }
                    codes.append(0)
                } catch let error as SQLiteError {
                    codes.append(error.code.rawValue)
                }
                states.append([connection.changes, connection.lastInsertRowID, connection.isInTransaction ? 1 : 0])
            }
            #expect(codes[0] == codes[1], "\(sql)")
            #expect(states[0] == states[1], "\(sql)")
            let all = "SELECT * FROM messages ORDER BY id"
            #expect(try foreign.rows(all) == texts(pair.native.fetchAll(all)), "\(sql)")
        }
        #expect(
            try foreign.rows("SELECT total_changes()") == texts(pair.native.fetchAll("SELECT total_changes() - 100"))
        )
        #expect(foreign.close() == SQLITE_OK)
    }

    /// The OR clause does not apply to a pending row that the target refuses. But SQLite would apply it, and leave the
    /// new row out without a word.
    @Test(arguments: ["IGNORE", "FAIL", "ROLLBACK", "ABORT", "REPLACE"])
    func orClausesSayNothingOfPendingRowsThatAreRefused(_ clause: String) throws {
        let columns = "(id INTEGER PRIMARY KEY, body TEXT UNIQUE, size INTEGER"
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(
            script:
                "CREATE TABLE t\(columns)); INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 1), (8, 'c', NULL), (9, 'd', NULL);"
        )
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t\(columns) NOT NULL)")
        try database.addMigration(source: .file(folder.file("old.db"))) { if $0.name == "t" { $0.sourceTable = "t" } }
        let foreign = try ForeignConnection(folder.file("new.db"))
        try foreign.install()
        let all = try foreign.rows("SELECT * FROM t ORDER BY id")
        try foreign.execute("BEGIN")
        for sql in [
            "INSERT OR \(clause) INTO t(body, size) VALUES ('x', 1)",
            "UPDATE OR \(clause) t SET size = 3 WHERE id IN (1, 8)",
        ] {
            #expect(throws: SQLiteError.self, "\(sql)") { try foreign.execute(sql) }
            #expect(try foreign.rows("SELECT * FROM t ORDER BY id") == all, "\(sql)")
            #expect(foreign.wrapped.isInTransaction, "\(sql)")
        }
        // The clause does apply to the new row's own constraints.
        try foreign.execute("INSERT INTO t VALUES (3, 'e', 1)")
        if clause == "IGNORE" { try foreign.execute("INSERT OR IGNORE INTO t VALUES (2, 'f', 1), (4, 'a', 1)") }
        #expect(try foreign.rows("SELECT count(*) FROM t") == ["5"])
        #expect(foreign.close() == SQLITE_OK)
    }

    /// The statement writes a table of that name in another file, or in `main` by its name, and the table's trigger
    /// writes the moving table.
    @Test(arguments: ["aux", "main"]) func triggersOfTempOnTablesOfTheSameNameAreRefused(_ schema: String) throws {
        let pair = try Self.pair()
        let foreign = try ForeignConnection(pair.target)
        try foreign.install()
        if schema == "aux" {
            try foreign.execute("ATTACH ':memory:' AS aux; CREATE TABLE aux.messages(id, body, size)")
        }
        try foreign.execute(
            "CREATE TEMP TRIGGER tr AFTER UPDATE ON \(schema).messages BEGIN UPDATE messages SET body = 'x', size = 7 WHERE id = 70; END"
        )
        if schema == "aux" { try foreign.execute("INSERT INTO aux.messages VALUES (1, 'a', 1)") }
        let before = try foreign.rows("SELECT * FROM messages ORDER BY id")
        #expect(throws: SQLiteError.self) {
            try foreign.execute("UPDATE \(schema).messages SET size = 8 WHERE id = 1")
        }
        #expect(try foreign.rows("SELECT * FROM messages ORDER BY id") == before)
        #expect(foreign.close() == SQLITE_OK)
    }

    /// After the rollback, SQLite has no union table, so none is let go of when the connection closes.
    @Test func aConnectionClosesAfterARefreshThatFollowsARollbackOfItsSchema() throws {
        let pair = try Self.pair("CREATE TABLE other(a)")
        let foreign = try ForeignConnection(pair.target)
        let overlay = try foreign.install()
        #expect(try foreign.rows("SELECT count(*) FROM messages") == ["100"])
        try foreign.execute("BEGIN; CREATE TABLE x(a); ROLLBACK")
        try overlay.refresh()
        try overlay.execute("INSERT INTO other VALUES (1)")
        #expect(foreign.close() == SQLITE_OK)
    }

    /// SQLite gives the version of a schema that was undone to another schema.
    @Test func aSchemaThatWasUndoneIsNotTakenForAnother() throws {
        func version(_ pair: Pair) throws -> Int64 {
            try Connection(path: pair.target).fetchValue(Int64.self, "PRAGMA schema_version") ?? 0
        }
        func cancel(_ pair: Pair) throws {
            let database = try Database(path: pair.target)
            try database.cancelMigration()
            database.close()
        }
        let measured = try Self.pair()
        let before = try version(measured)
        try cancel(measured)
        let raised = try version(measured) - before

        let pair = try Self.pair()
        let foreign = try ForeignConnection(pair.target)
        try foreign.install()
        try foreign.execute("BEGIN")
        for number in 0..<raised { try foreign.execute("CREATE TABLE x\(number)(a)") }
        #expect(try foreign.rows("SELECT count(*) FROM messages") == ["100"])
        try foreign.execute("ROLLBACK")
        try cancel(pair)
        let error = #expect(throws: SQLiteError.self) { try foreign.rows("SELECT count(*) FROM messages") }
        #expect(error?.message.contains("to move back") == true, "\(String(describing: error))")
        #expect(foreign.close() == SQLITE_OK)
    }

    @Test(
        .enabled(if: SQLiteFeature.returning.isAvailable && SQLiteFeature.upsert.isAvailable),
        arguments: [
            "INSERT INTO messages(body, size) VALUES ('new', 1) RETURNING id",
            "INSERT INTO messages(id, body, size) VALUES (70, 'new', 1) ON CONFLICT(id) DO UPDATE SET body = excluded.body",
            "UPDATE messages SET body = 'new' WHERE id = 70 RETURNING id, body",
            "DELETE FROM messages WHERE id = 70 RETURNING body",
            "UPDATE messages SET size = (SELECT max(size) + 1 FROM messages) WHERE id > 90",
            "UPDATE OR REPLACE messages SET body = 'same' WHERE id > 90",
            "UPDATE messages SET size = o.size FROM messages AS o WHERE o.id = messages.id - 1 AND o.id > 80",
        ]
    )
    func whatIsRefusedIsDoneByExecute(sql: String) throws {
        let pair = try Self.pair()
        let foreign = try ForeignConnection(pair.target, as: .grdb)
        let overlay = try foreign.install()
        try foreign.execute("BEGIN; UPDATE messages SET size = 5 WHERE id = 60")
        try pair.native.execute("UPDATE messages SET size = 5 WHERE id = 60")
        let all = "SELECT * FROM messages ORDER BY id"
        let before = try foreign.rows(all)
        #expect(throws: SQLiteError.self) { _ = try foreign.rows(sql) }
        #expect(try foreign.rows(all) == before)
        #expect(sqlite3_get_autocommit(foreign.handle) == 0)
        try foreign.execute("UPDATE messages SET size = 5 WHERE id = 60")
        #expect(texts(try overlay.fetchAll(sql)) == texts(try pair.native.fetchAll(sql)))
        #expect(sqlite3_changes(foreign.handle) == Int32(pair.native.changes))
        try foreign.execute("COMMIT")
        #expect(try foreign.rows(all) == texts(pair.native.fetchAll(all)))
        #expect(foreign.close() == SQLITE_OK)
    }

    @Test func writesInTriggersOfTempAreRefused() throws {
        let pair = try Self.pair("CREATE TABLE other(a)")
        let foreign = try ForeignConnection(pair.target)
        try foreign.install()
        try foreign.execute(
            "CREATE TEMP TRIGGER tr AFTER INSERT ON other BEGIN DELETE FROM messages WHERE id = NEW.a; END"
        )
        let error = #expect(throws: SQLiteError.self) { try foreign.execute("INSERT INTO other VALUES (70)") }
        #expect(error?.message.contains("MigrationOverlay.execute") == true)
        #expect(try foreign.rows("SELECT count(*) FROM messages") == ["100"])
        #expect(try foreign.rows("SELECT count(*) FROM other") == ["0"])
        #expect(foreign.close() == SQLITE_OK)
    }

    @Test func aTextThatIsComparedWithANumberIsRightOrRefused() throws {
        let pair = try Self.pair("CREATE TABLE numbers(n INTEGER, m INTEGER); INSERT INTO numbers VALUES (5, 700)")
        for connection in [pair.native] { try connection.execute("UPDATE messages SET sender = '05' WHERE id = 70") }
        let foreign = try ForeignConnection(pair.target)
        try foreign.install()
        try foreign.execute("UPDATE messages SET sender = '05' WHERE id = 70")
        for condition in [
            "sender = 5", "sender = '05'", "sender = (SELECT n FROM numbers)", "sender IN (SELECT n FROM numbers)",
        ] {
            let sql = "SELECT id FROM messages WHERE \(condition)"
            #expect(try foreign.rows(sql) == texts(pair.native.fetchAll(sql)), "\(sql)")
        }
        guard SQLiteFeature.rowValuesInQueries.isAvailable else { return }
        let sql = "SELECT id FROM messages WHERE (sender, size) IN (SELECT n, m FROM numbers)"
        #expect(texts(try pair.native.fetchAll(sql)) == ["70"])
        if let rows = try? foreign.rows(sql) { #expect(rows == ["70"]) }
        #expect(foreign.close() == SQLITE_OK)
    }

    @Test func anAuthorizerThatIsSetAnewExpiresNothingThatMatters() throws {
        let pair = try Self.pair()
        let foreign = try ForeignConnection(pair.target, as: .grdb)
        try foreign.install()
        let update = try foreign.wrapped.prepare("UPDATE messages SET size = size + ?1 WHERE id = ?2")
        for id in Int64(1)...100 {
            if id % 10 == 0 { foreign.registerAuthorizer() }
            try update.bind(Int64(1), at: 1)
            try update.bind(id, at: 2)
            try update.run()
        }
        #expect(try foreign.rows("SELECT sum(size) FROM messages") == ["50600"])
        #expect(try foreign.rows("PRAGMA integrity_check") == ["ok"])
        withExtendedLifetime(update) {}
    }

    @Test func librariesFindThePrimaryKey() throws {
        let pair = try Self.pair()
        let foreign = try ForeignConnection(pair.target)
        try foreign.install()
        #expect(
            try foreign.rows("PRAGMA table_info(messages)") == [
                "0|id|INTEGER|1|NULL|1", "1|sender|TEXT|0|NULL|0", "2|body|TEXT|0|NULL|0", "3|size|INTEGER|1|NULL|0",
            ]
        )
        #expect(try foreign.rows("SELECT rowid, id FROM messages WHERE rowid IN (1, 99)") == ["1|1", "99|99"])
        #expect(throws: SQLiteError.self) { try foreign.execute("DROP TABLE messages") }
        #expect(try foreign.rows("SELECT count(*) FROM messages") == ["100"])
        #expect(foreign.close() == SQLITE_OK)
    }

    /// A statement that only counts looks at no row. If it gives rows, a loop over it may write between two of them.
    @Test func rowsAreCountedWithoutBeingLookedAt() throws {
        let pair = try Self.pair()
        let foreign = try ForeignConnection(pair.target)
        try foreign.install()
        #expect(try foreign.rows("SELECT count(*) FROM messages WHERE id > 10") == ["90"])
        try foreign.execute("DELETE FROM messages WHERE id IN (3, 60)")
        for _ in 0..<2 { #expect(try foreign.rows("SELECT count(*) FROM messages") == ["98"]) }
        #expect(try foreign.rows("SELECT count(*) + 0 * max(size) FROM messages WHERE id > 50") == ["49"])
        let loop = try foreign.wrapped.prepare("SELECT 1 FROM messages")
        var rows = 0
        while try loop.step() {
            rows += 1
            if rows == 40 { try foreign.execute("DELETE FROM messages") }
        }
        #expect(rows == 40)
        withExtendedLifetime(loop) {}
    }

    /// SQLite asks a virtual table for the order of a column only if the column cannot be NULL.
    @Test(.enabled(if: Connection.libraryVersionNumber >= 3_030_000), arguments: ["min", "max"])
    func theFirstAndTheLastKeyAreFoundWithoutAScan(_ function: String) throws {
        let pair = try Self.pair()
        let foreign = try ForeignConnection(pair.target)
        try foreign.install()
        let statement = try foreign.wrapped.prepare("SELECT \(function)(id) FROM messages")
        #expect(try statement.step())
        #expect(statement.int64(at: 0) == (function == "min" ? 1 : 100))
        // A scan takes several steps of SQLite's machine for each of the 100 rows.
        var steps: Int32 = 0
        var next = sqlite3_next_stmt(foreign.handle, nil)
        while let prepared = next {
            let sql = sqlite3_sql(prepared).map { String(cString: $0) } ?? ""
            if sql.contains("\(function)(id)") {
                steps = sqlite3_stmt_status(prepared, SQLITE_STMTSTATUS_VM_STEP, 0)
            }
            next = sqlite3_next_stmt(foreign.handle, prepared)
        }
        #expect((1..<100).contains(steps))
    }
}
