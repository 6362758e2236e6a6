@testable import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// Single statements, alone or first in a transaction. Another process changes what moves after they have been
/// prepared, and before they have their lock or their snapshot.
@Suite struct WaitingStatementTests {
    /// What the other process does.
    enum Event: CaseIterable {
        /// The process begins to move the table's rows from another file.
        case begins
        /// The process begins so, and moves some rows.
        case beginsAndMoves
        /// The process rebuilds a table that does not move, so that its rows move into another shape.
        case rebuilds
        /// The process rebuilds a table that moves already.
        case rebuildsWhatMoves
        /// The process moves the remaining rows.
        case ends
        /// The process cancels the migration, and brings some rows back.
        case bringsBack

        /// Whether the table has its rows before the event.
        var isWhole: Bool { self != .begins && self != .beginsAndMoves }
        var movesBefore: Bool { isWhole && self != .rebuilds }
        var isRebuild: Bool { self == .rebuilds || self == .rebuildsWhatMoves }
    }

    static let writes =
        [
            "UPDATE t SET a = 0 WHERE id = 3", "UPDATE t SET a = a + 1", "DELETE FROM t WHERE id = 3",
            "DELETE FROM t WHERE a > 100", "DELETE FROM t", "INSERT INTO t(id, a) VALUES (3, 'again')",
            "INSERT INTO t(id, a) VALUES (1000, 'again')", "INSERT INTO t(a) VALUES ('next')",
            "INSERT OR REPLACE INTO t(id, a) VALUES (3, 'other')",
            "INSERT INTO z SELECT a FROM t", "UPDATE z SET x = (SELECT sum(a) FROM t)",
        ]
        + SQLiteFeature.upsert.ifAvailable([
            "INSERT INTO t(id, a) VALUES (17, 'new') ON CONFLICT(id) DO UPDATE SET a = a || excluded.a"
        ])
    static let definitions = [
        "CREATE TABLE y AS SELECT a FROM t", "CREATE INDEX i ON t(a)", "CREATE UNIQUE INDEX i ON t(a)",
        "ALTER TABLE t ADD COLUMN b DEFAULT 5", "DROP TABLE t", "VACUUM",
        "CREATE TRIGGER g AFTER DELETE ON t BEGIN INSERT INTO z VALUES (old.a); END",
    ]

    static let rows = """
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20) SELECT i, i * 10 FROM n
        """
    /// The rows that come in addition to the source's. The first of them is neither the first nor the last row that
    /// goes back.
    static let newRows = "INSERT INTO t(id, a) VALUES (1000, 'new'), (2000, 'new 1'), (2001, 'new 2'), (2002, 'new 3')"

    @Test(arguments: Event.allCases, writes + definitions)
    func isRunAsIfItHadComeAfter(_ event: Event, _ statement: String) throws {
        if event == .bringsBack, Self.definitions.dropFirst().contains(statement) { return }
        let ways: [(Bool, (beginning: String, end: String)?)] = [
            (false, nil), (true, nil), (false, ("BEGIN", "COMMIT")), (true, ("SAVEPOINT a", "RELEASE a")),
        ]
        for (isPreparedBefore, ends) in ways {
            // VACUUM cannot run in a transaction.
            if ends != nil, statement == "VACUUM" { continue }
            let files = try WaitingFiles(event)
            let waiting = try Waiting(files.target)
            if isPreparedBefore, Self.writes.contains(statement) {
                try waiting.access.execute("SAVEPOINT s")
                try? waiting.access.execute(statement)
                try waiting.access.execute("ROLLBACK TO s; RELEASE s")
            }
            _ = try waiting.access.fetchAll("SELECT * FROM t WHERE id = 19")
            if let ends { try waiting.access.execute(ends.beginning) }
            let error = errorCode {
                try waiting.run(
                    {
                        let hasHappened = try files.happen(event)
                        #expect(hasHappened)
                    },
                    while: { try $0.execute(statement) }
                )
            }
            let oracle = try Connection(path: ":memory:")
            try files.makeOracle(oracle, event)
            #expect(error == errorCode { try oracle.execute(statement) }, "\(event), \(statement)")
            if let ends { try waiting.access.execute(ends.end) }
            waiting.close()
            try files.finish()
            for query in ["SELECT * FROM t ORDER BY id", "SELECT * FROM z ORDER BY x", "SELECT * FROM y ORDER BY a"] {
                let wanted = Result { try oracle.fetchAll(query).map(\.values) }
                let found = Result { try files.fetchAll(query, event) }
                if query.contains("FROM y"), (try? wanted.get()) == nil { continue }
                if query.contains("FROM t"), statement == "DROP TABLE t" { continue }
                #expect(try found.get() == wanted.get(), "\(event), \(statement)")
            }
        }
    }

    /// The statement waits for no lock: another process is faster than the statement.
    @Test(arguments: Event.allCases, [true, false])
    func aReadHasOneSnapshot(_ event: Event, _ isOfTableAlone: Bool) throws {
        let files = try WaitingFiles(event)
        let waiting = try Waiting(files.target)
        let before = try Result { try waiting.access.fetchAll("SELECT id, a FROM t ORDER BY id").map(\.values) }.get()
        var hasHappened = false
        try waiting.access.connection.createFunction("meanwhile", argumentCount: 0) { _, result in
            if !hasHappened { _ = try files.happen(event) }
            hasHappened = true
            result.set(Int64(1))
        }
        let rows = try waiting.access.fetchAll(
            isOfTableAlone
                ? "SELECT t.id, t.a FROM (SELECT meanwhile() AS m) CROSS JOIN t WHERE m ORDER BY t.id"
                : "SELECT t.id, t.a FROM (SELECT meanwhile() AS m FROM z) CROSS JOIN t WHERE m ORDER BY t.id"
        )
        #expect(hasHappened)
        #expect(rows.map(\.values) == before, "\(event)")
        waiting.close()
        try files.finish()
    }

    /// If a table has no INTEGER PRIMARY KEY, VACUUM gives the target's rows other rowids than the source's rows have.
    @Test(arguments: [false, true]) func aVACUUMFindsWhatHasBegunToMove(_ isMoving: Bool) throws {
        let folder = TemporaryFolder()
        let path = folder.file("new.db")
        let plain = try Connection(path: path)
        try plain.execute("PRAGMA journal_mode = WAL")
        try plain.execute(script: "CREATE TABLE t(a, b); CREATE TABLE other(a)")
        try plain.execute(
            "INSERT INTO t(rowid, a, b) VALUES (3, 1, 0), (6, 2, 0), (9, 3, 0), (12, 4, 0), (15, 5, 0), (18, 6, 0)"
        )
        plain.close()
        let database = try Database(path: path)
        if isMoving {
            _ = try database.write { access in
                try access.rebuild("other") { table in
                    table.schema = "CREATE TABLE other(a, b)"
                    table.columns["b"] = .value(0)
                }
            }
        }
        let waiting = try Waiting(path)
        try waiting.run(
            {
                _ = try database.write { access in
                    try access.rebuild("t") { table in
                        table.schema = "CREATE TABLE t(a, b, c DEFAULT 1)"
                        table.columns["c"] = .defaultValue
                        table.rowsCopiedAtOnce = 0
                    }
                }
                try database.execute("UPDATE t SET b = 1 WHERE a IN (2, 5)")
                _ = try database.stepMigration(rows: 2)
            },
            while: { try $0.execute("VACUUM") }
        )
        waiting.close()
        let wanted = try database.fetchAll("SELECT a, b, c FROM t ORDER BY a").map(\.values)
        #expect(wanted.map { $0[0] } == (1...6).map { .integer($0) })
        try finishMigration(database)
        #expect(try database.fetchAll("SELECT a, b, c FROM t ORDER BY a").map(\.values) == wanted)
    }

    /// A VACUUM of a file that the application has attached takes no row of it for missing.
    @Test(arguments: [
        "UPDATE att.t SET a = 0 WHERE id = 3", "DELETE FROM att.t", "INSERT INTO att.z SELECT a FROM att.t",
    ])
    func anAttachedFileIsRefused(_ statement: String) throws {
        let files = try WaitingFiles(.rebuilds)
        let main = files.folder.file("main.db")
        try Connection(path: main).execute(script: "PRAGMA journal_mode = WAL; CREATE TABLE z(x)")
        let waiting = try Waiting(main)
        try waiting.access.execute("ATTACH '\(files.target)' AS att")
        #expect(throws: MigrationError.self) {
            try waiting.run({ _ = try files.happen(.rebuilds) }, waitingFor: files.target) { try $0.execute(statement) }
        }
        waiting.close()
        try files.finish()
    }

    /// The source's file already has claims, on a table that began to move earlier.
    @Test(arguments: ["DROP TABLE o", "ALTER TABLE o RENAME TO p"], [nil, "BEGIN", "SAVEPOINT s"])
    func aSourceThatHasBegunToMoveStays(_ statement: String, _ beginning: String?) throws {
        let files = try WaitingFiles(.begins)
        let plain = try Connection(path: files.source)
        try plain.execute("CREATE TABLE z(x)")
        try files.database.addMigration(source: .file(files.source)) { if $0.name == "z" { $0.sourceTable = "z" } }
        let waiting = try Waiting(files.source)
        if let beginning { try waiting.access.execute(beginning) }
        #expect(throws: MigrationError.self) {
            try waiting.run({ _ = try files.happen(.begins) }) { try $0.execute(statement) }
        }
        waiting.close()
        #expect(try plain.fetchValue(Int64.self, "SELECT count(*) FROM o") == 20)
        try files.finish()
    }

    /// SQLite prepares such a statement again because of a value of its LIKE. A full-text table's own statements
    /// prepare others.
    @Test func whatIsPreparedAnewForOtherReasonsRuns() throws {
        let folder = TemporaryFolder()
        let database = try Database(path: folder.file("a.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT COLLATE NOCASE); CREATE INDEX i ON t(a)")
        try database.execute("INSERT INTO t(a) VALUES ('a'), ('ab'), ('b')")
        for (pattern, rows) in [("ab%", Int64(1)), ("a%", 1), ("b%", 1), ("b%", 0)] {
            try database.withoutTransaction { access in
                if rows == 1 {
                    try access.execute("BEGIN")
                    try access.execute("DELETE FROM t WHERE a LIKE ?", [pattern])
                    #expect(access.changes == rows)
                    try access.execute("ROLLBACK")
                }
                try access.execute("DELETE FROM t WHERE a LIKE ?", [pattern])
                #expect(access.changes == rows)
            }
        }
        try database.withoutTransaction { access in
            try access.execute("INSERT INTO t(a) VALUES ('x'), ('y')")
            // This expires prepared statements.
            try access.execute("ANALYZE; CREATE TEMP TABLE u(x)")
            try access.execute("DELETE FROM t WHERE a LIKE ?", ["x"])
            #expect(access.changes == 1)
            #expect(try access.fetchValue(Int64.self, "SELECT changes()") == 1)
        }
    }

    /// A transaction that began with a read would have a snapshot, and could not wait for the lock.
    @Test(arguments: [true, false], ["BEGIN", "SAVEPOINT s"])
    func aTransactionThatFoundTheFileLockedIsAsFreshAsBefore(_ isMoving: Bool, _ beginning: String) throws {
        let files = try WaitingFiles(isMoving ? .rebuildsWhatMoves : .rebuilds)
        let waiting = try Waiting(files.target)
        let access = waiting.access
        let lock = try Connection(path: files.target)
        try lock.execute("BEGIN IMMEDIATE")
        try access.execute(beginning)
        for sql in ["UPDATE t SET a = 0 WHERE id = 3", "UPDATE t SET a = 0 WHERE id = 17", "CREATE TABLE y(a)"] {
            #expect(throws: SQLiteError.self, "\(sql)") { try access.execute(sql) }
        }
        try lock.execute("ROLLBACK")
        _ = try files.happen(.rebuilds)
        let wasDone = try access.fetchValue(Int64.self, "SELECT count(*) FROM t WHERE a = 0")
        #expect(wasDone == 0 && access.isInTransaction)
        for id in [3, 17] { try access.execute("UPDATE t SET a = 0 WHERE id = ?", [Int64(id)]) }
        // What the transaction has done by now stays its own.
        #expect(throws: SQLiteError.self) { try access.execute("INSERT OR FAIL INTO t(id, a) VALUES (30, 0), (3, 0)") }
        #expect(try access.fetchValue(Int64.self, "SELECT count(*) FROM t WHERE a = 0 AND n >= -1") == 3)
        try access.execute("ROLLBACK")
        try access.execute(beginning)
        #expect(throws: SQLiteError.self) { try access.execute("INSERT OR FAIL INTO t(id, a) VALUES (30, 0), (3, 0)") }
        try access.execute("COMMIT")
        #expect(try access.fetchValue(Int64.self, "SELECT count(*) FROM t WHERE a = 0") == 1)
        waiting.close()
        try files.finish()
    }

    /// Pragmas that expire prepared statements come before the first statement.
    @Test(arguments: ["defer_foreign_keys = 1", "recursive_triggers = 1"], [true, false])
    func aTransactionWaitsAfterAPragmaOfTheConnection(_ pragma: String, _ isMoving: Bool) throws {
        let files = try WaitingFiles(isMoving ? .rebuildsWhatMoves : .begins)
        let waiting = try Waiting(files.target)
        try waiting.access.execute("INSERT INTO z VALUES (1)")
        try waiting.access.execute("BEGIN; PRAGMA \(pragma)")
        try waiting.run({}, while: { try $0.execute("INSERT INTO z VALUES (1)") })
        try waiting.access.execute("COMMIT")
        #expect(try waiting.access.fetchValue(Int64.self, "SELECT count(*) FROM z WHERE x = 1") == 2)
        waiting.close()
        try files.finish()
    }

    /// The prepared statement names a table that has gone. SQLite reports this only when it has the lock.
    @Test(arguments: [true, false]) func aTransactionWhoseFirstStatementFailsSeesWhatMoves(_ isPreparedBefore: Bool)
        throws
    {
        let files = try WaitingFiles(.begins)
        let other = try Connection(path: files.target)
        try other.execute("CREATE TABLE q(x)")
        let waiting = try Waiting(files.target)
        let access = waiting.access
        if isPreparedBefore { try access.execute("INSERT INTO q VALUES (1)") }
        try access.execute("BEGIN")
        try other.execute("DROP TABLE q")
        other.close()
        _ = try files.happen(.begins)
        #expect(throws: SQLiteError.self) { try access.execute("INSERT INTO q VALUES (2)") }
        #expect(try access.fetchValue(Int64.self, "SELECT count(*) FROM t") == 20)
        try access.execute("INSERT INTO z VALUES (5); COMMIT")
        #expect(try access.fetchValue(Int64.self, "SELECT count(*) FROM z WHERE x = 5") == 1)
        waiting.close()
        try files.finish()
    }

    /// A transaction that a block itself has begun is not begun again while the engine works in it.
    @Test(arguments: ["COMMIT; BEGIN", "ROLLBACK; SAVEPOINT s", "COMMIT; BEGIN IMMEDIATE"])
    func anotherTransactionOfABlockKeepsARebuild(_ beginning: String) throws {
        let folder = TemporaryFolder()
        let database = try Database(path: folder.file("one.db"))
        try database.execute(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1, 2); CREATE TABLE z(x)"
        )
        let end = beginning.hasSuffix("s") ? "RELEASE s" : "COMMIT"
        try database.write { access in
            try access.execute(beginning)
            try access.rebuild("t") { $0.schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, a DEFAULT 5)" }
            try access.execute("INSERT INTO z VALUES (1); UPDATE t SET a = 3; \(end)")
        }
        try database.write { access in
            try access.execute(beginning)
            let schema = DatabaseSchema(
                sql: "CREATE TABLE t(id INTEGER PRIMARY KEY, a DEFAULT 5, c); CREATE TABLE z(x, y)"
            )
            try access.upgrade(to: schema)
            try access.execute("INSERT INTO z VALUES (2, 2); \(end)")
        }
        #expect(try texts(database.fetchAll("SELECT * FROM t")) == ["1|3|NULL"])
        #expect(try texts(database.fetchAll("SELECT * FROM z")) == ["1|NULL", "2|2"])
    }

    static let beginningsElsewhere = [
        "INSERT INTO x VALUES (1)", "UPDATE x SET a = 1 WHERE 0", "DELETE FROM ax", "INSERT INTO ax SELECT 1",
        "CREATE TEMP TABLE y(a)", "CREATE TABLE aux.ay(a)", "CREATE TABLE IF NOT EXISTS z(x)",
        "DROP VIEW IF EXISTS nope", "CREATE INDEX IF NOT EXISTS aux.ai ON ax(a)", "ANALYZE aux", "REINDEX aux.ai",
        "PRAGMA recursive_triggers = 1", "PRAGMA aux.user_version = 3", "SELECT 1", "SELECT * FROM x", "SAVEPOINT r",
        "UPDATE v SET a = 0",
    ]

    /// The first statement need not begin a snapshot of the target: by the next statement, another process may have
    /// changed what moves.
    @Test(arguments: Event.allCases, beginningsElsewhere)
    func aTransactionThatBeginsElsewhereReadsAllRows(_ event: Event, _ first: String) throws {
        let followers = ["SELECT count(*) FROM t", "UPDATE t SET a = 'z'", "INSERT INTO z SELECT id FROM t"]
        // The last two events wait for the open snapshot to end.
        let isSlow = event == .ends || event == .bringsBack
        for next in isSlow ? [followers[first.utf8.count % followers.count]] : followers {
            let files = try WaitingFiles(event)
            let other = files.folder.file("other.db")
            try Connection(path: other).execute(script: "CREATE TABLE ax(a); CREATE INDEX ai ON ax(a)")
            let waiting = try Waiting(files.target)
            let access = waiting.access
            try access.execute(
                "ATTACH '\(other)' AS aux; CREATE TEMP TABLE x(a); CREATE TEMP VIEW v AS SELECT a FROM x"
            )
            try access.execute("CREATE TEMP TRIGGER vt INSTEAD OF UPDATE ON v BEGIN INSERT INTO x VALUES (new.a); END")
            let rows = event.movesBefore ? Int64(24) : event.isWhole ? 20 : 0
            try access.execute("BEGIN; \(next); ROLLBACK")
            try access.execute("BEGIN")
            try access.execute(first)
            _ = try? files.happen(event)
            do {
                if next.hasPrefix("SELECT") {
                    let found = try access.fetchValue(Int64.self, next)
                    #expect(found == rows || found == 20, "\(event), \(first)")
                } else {
                    try access.execute(next)
                    #expect(access.changes == rows || access.changes == 20, "\(event), \(first), \(next)")
                }
                try access.execute("COMMIT")
            } catch let error as SQLiteError {
                // Natively, too, a write fails if the snapshot has begun and others have written since.
                #expect(ResultCode.busy ~= error.code, "\(event), \(first), \(next): \(error)")
                try access.execute("ROLLBACK")
            }
            waiting.close()
            try files.finish()
        }
    }

    /// The transaction need not be begun again. For that, it would have to give up its lock.
    @Test(arguments: Event.allCases, ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
    func aTransactionThatBeginsWithItsLockKeepsIt(_ event: Event, _ beginning: String) throws {
        let files = try WaitingFiles(event)
        let waiting = try Waiting(files.target)
        let access = waiting.access
        try waiting.run({ _ = try files.happen(event) }, while: { try $0.execute(beginning) })
        let other = try Connection(path: files.target)
        #expect(throws: SQLiteError.self) { try other.execute("INSERT INTO z VALUES (1)") }
        access.connection.setBusyHandler { _ in
            Issue.record("a lock is waited for")
            return false
        }
        try access.execute("INSERT INTO z VALUES (2)")
        #expect(throws: SQLiteError.self) { try other.execute("INSERT INTO z VALUES (1)") }
        #expect(try access.fetchValue(Int64.self, "SELECT count(*) FROM t") == (event.movesBefore ? 24 : 20))
        try access.execute("ROLLBACK")
        access.connection.setBusyHandler(nil)
        #expect(try access.fetchValue(Int64.self, "SELECT count(*) FROM z") == 1)
        waiting.close()
        try files.finish()
    }

    @Test func whatAnErrorLeavesDoneElsewhereStays() throws {
        let files = try WaitingFiles(.begins)
        let waiting = try Waiting(files.target)
        let access = waiting.access
        var count = 0
        try access.connection.createFunction("meanwhile", argumentCount: 0) { _, result in
            count += 1
            if count == 3 { _ = try files.happen(.begins) }
            result.set(Int64(min(count, 4)))
        }
        try access.execute("CREATE TEMP TABLE x(a UNIQUE); BEGIN")
        #expect(throws: SQLiteError.self) {
            try access.execute("INSERT OR FAIL INTO x SELECT meanwhile() FROM (VALUES (1), (2), (3), (4), (5))")
        }
        do {
            try access.execute("INSERT INTO z VALUES (1)")
            try access.execute("COMMIT")
        } catch let error as SQLiteError {
            #expect(ResultCode.busy ~= error.code)
            try access.execute("COMMIT")
        }
        #expect(try access.fetchValue(Int64.self, "SELECT count(*) FROM x") == 4)
        waiting.close()
        try files.finish()
    }

    @Test(arguments: Event.allCases, ["BEGIN", "SAVEPOINT s"])
    func aValuesHandleBeginsTheSnapshot(_ event: Event, _ beginning: String) throws {
        let files = try WaitingFiles(event)
        let plain = try Connection(path: files.target)
        if !event.isWhole { try plain.execute("INSERT INTO t VALUES (100, 'old')") }
        let waiting = try Waiting(files.target)
        let access = waiting.access
        try access.execute("UPDATE t SET a = CAST(a AS TEXT) WHERE id = 17")
        try access.execute(beginning)
        _ = try files.happen(event)
        let id: Int64 = event.isWhole ? 17 : 100
        try access.execute("PRAGMA recursive_triggers = 0")
        let text = try access.withBlob(table: "t", column: "a", rowID: id, isWritable: true) { blob in
            try blob.write([UInt8(ascii: "N")], at: 0)
            return try blob.read(count: blob.count, at: 0)
        }
        #expect(text.count == 3)
        for statement in ["INSERT INTO z VALUES (1)", "CREATE TABLE y(a)"] { try access.execute(statement) }
        try access.execute("COMMIT")
        #expect(texts(try access.fetchAll("SELECT a FROM t WHERE id = ?", [id])) == [event.isWhole ? "N70" : "Nld"])
        #expect(try access.fetchValue(Int64.self, "SELECT count(*) FROM z") == 2)
        waiting.close()
        try files.finish()
    }

    /// For instance in an import's first transaction: nothing of a file has been read by then.
    @Test(arguments: ["PRAGMA defer_foreign_keys = 1", "PRAGMA recursive_triggers = 1", "PRAGMA foreign_keys"])
    func aPragmaOfTheConnectionBeginsNoSnapshot(_ pragma: String) throws {
        for event in [Event.begins, .rebuildsWhatMoves] {
            let files = try WaitingFiles(event)
            let waiting = try Waiting(files.target)
            let access = waiting.access
            try access.execute("PRAGMA foreign_keys = 1")
            try access.execute("BEGIN")
            try access.execute(pragma)
            _ = try files.happen(event)
            let isDeferred = try access.fetchValue(Int64.self, "PRAGMA defer_foreign_keys")
            try access.execute("UPDATE t SET a = 0")
            #expect(access.changes == (event.movesBefore ? 24 : 20))
            #expect(try access.fetchValue(Int64.self, "PRAGMA defer_foreign_keys") == isDeferred)
            try access.execute("COMMIT")
            waiting.close()
            try files.finish()
        }
    }

    @Test(
        arguments: [
            "CREATE TABLE y(a)", "CREATE TABLE y AS SELECT 1 AS a", "CREATE INDEX zi ON z(x)",
            "CREATE VIEW y AS SELECT 1",
            "CREATE TRIGGER zt AFTER INSERT ON z BEGIN SELECT 1; END", "ALTER TABLE z ADD COLUMN y", "DROP TABLE q",
            "CREATE TABLE IF NOT EXISTS z(x)", "CREATE TABLE IF NOT EXISTS y(a)", "DROP INDEX qi", "REINDEX q",
            "ANALYZE q",
            "INSERT INTO q SELECT 1 WHERE 0", "DELETE FROM q", "CREATE VIRTUAL TABLE y USING fts4(a)",
        ],
        ["INSERT INTO z(x) VALUES (9)", "CREATE TABLE w(a)", "SELECT * FROM t", "UPDATE t SET a = 0", "SAVEPOINT n"]
    )
    func whatATransactionBeginsWithStays(_ first: String, _ next: String) throws {
        for isMoving in [true, false] {
            let files = try WaitingFiles(isMoving ? .ends : .rebuilds)
            let oracle = try Connection(path: ":memory:")
            try files.makeOracle(oracle, isMoving ? .ends : .begins)
            let preparation = "CREATE TABLE q(a); CREATE INDEX qi ON q(a); INSERT INTO q VALUES (1)"
            let script =
                "SAVEPOINT b; \(first); \(next); COMMIT; BEGIN; \(first == "DELETE FROM q" ? first : "SELECT 1"); COMMIT"
            try files.database.execute(preparation)
            try oracle.execute(script: preparation)
            try files.database.withoutTransaction { try $0.execute(script) }
            try oracle.execute(script: script)
            for query in [
                "SELECT name FROM sqlite_master WHERE name NOT LIKE 'midstream%' AND name <> 'sqlite_sequence' ORDER BY name",
                "SELECT count(*) FROM z", "SELECT * FROM t ORDER BY id",
            ] {
                #expect(try texts(files.database.fetchAll(query)) == texts(oracle.fetchAll(query)), "\(query)")
            }
            try files.finish()
        }
    }

    /// The transaction then includes what the statement has written.
    @Test(.needs(.returning), arguments: ["z", "temp.x"], ["BEGIN", "BEGIN IMMEDIATE"])
    func aTransactionMayBeginInALoopOverAWrite(_ table: String, _ beginning: String) throws {
        for next in ["INSERT INTO x VALUES (9)", "UPDATE t SET a = 0", "CREATE TABLE y(a)", "SELECT * FROM t"] {
            // While the loop writes the target, nobody else can.
            for event in [nil, .begins, .rebuildsWhatMoves] as [Event?] where event == nil || table == "temp.x" {
                let files = try WaitingFiles(event ?? .ends)
                let waiting = try Waiting(files.target)
                let access = waiting.access
                try access.execute("CREATE TEMP TABLE x(a)")
                let before = try access.fetchValue(Int64.self, "SELECT count(*) FROM \(table)") ?? 0
                try access.forEachRow("INSERT INTO \(table) VALUES (501), (502), (503) RETURNING 1") { _ in
                    if !access.isInTransaction {
                        if let event { _ = try files.happen(event) }
                        try access.execute(beginning)
                    }
                    return true
                }
                var more: Int64 = 3
                try access.execute(next)
                if next.contains("INTO x"), table == "temp.x" { more = 4 }
                try access.execute("COMMIT")
                #expect(try access.fetchValue(Int64.self, "SELECT count(*) FROM \(table)") == before + more)
                waiting.close()
                try files.finish()
            }
        }
    }

    /// A statement may fail in the loop over another one that writes outside transactions. It takes nothing else with
    /// it.
    @Test(
        .needs(.returning),
        arguments: [
            "CREATE TABLE y(a)", "SELECT count(*) FROM t", "CREATE INDEX ti ON t(a)", "DROP TABLE t",
            "ALTER TABLE o2 ADD COLUMN b",
            "PRAGMA foreign_key_check", "CREATE TEMP TABLE t(a)",
            "CREATE TRIGGER tt AFTER INSERT ON t BEGIN SELECT 1; END",
            "UPDATE t SET a = 0 WHERE id = 17", "DELETE FROM t WHERE id IN (3, 17)", "CREATE VIEW w AS SELECT * FROM t",
            "INSERT INTO t(a) VALUES (1)", "BEGIN; COMMIT", "SAVEPOINT s", "VACUUM", "ANALYZE", "REINDEX", "BLOB",
        ],
        ["z", "temp.x"]
    )
    func aLoopOverAWriteKeepsItsRows(_ statement: String, _ table: String) throws {
        // While the loop writes the target, nobody else can.
        for event in [nil, .rebuilds, .rebuildsWhatMoves, .ends] as [Event?] where event == nil || table == "temp.x" {
            for isMoving in event == nil ? [true, false] : [true] {
                let files = try WaitingFiles(event ?? (isMoving ? .ends : .rebuilds))
                try Connection(path: files.target).execute("CREATE TABLE o2(a)")
                let waiting = try Waiting(files.target)
                let access = waiting.access
                try access.execute("CREATE TEMP TABLE x(a)")
                try access.execute("UPDATE t SET a = 'text' WHERE id = 3")
                let before = try access.fetchValue(Int64.self, "SELECT count(*) FROM \(table)") ?? 0
                var (count, written) = (0, Int64(0))
                try access.forEachRow("INSERT INTO \(table) VALUES (501), (502), (503) RETURNING 1") { _ in
                    count += 1
                    if count == 1, let event { _ = try files.happen(event) }
                    if statement == "BLOB" {
                        _ = try? access.withBlob(table: "t", column: "a", rowID: 3, isWritable: true) {
                            try $0.write([65], at: 0)
                        }
                    } else {
                        try? access.execute(statement)
                    }
                    _ = try? access.fetchAll("SELECT * FROM t")
                    do {
                        try access.execute("INSERT INTO o2(a) VALUES (\(count))")
                        written += 1
                    } catch {
                        // The source cannot be detached meanwhile.
                        #expect(event == .ends || statement.hasPrefix("ALTER"), "\(error)")
                    }
                    return true
                }
                #expect(count == 3 && (!access.isInTransaction || statement == "BEGIN; COMMIT"))
                if access.isInTransaction { try access.execute("COMMIT") }
                #expect(try access.fetchValue(Int64.self, "SELECT count(*) FROM \(table)") == before + 3)
                #expect(try access.fetchValue(Int64.self, "SELECT count(*) FROM o2") == written)
                if statement == "BLOB", event != .ends {
                    #expect(texts(try access.fetchAll("SELECT a FROM t WHERE id = 3")) == ["Aext"])
                }
                waiting.close()
                try files.finish()
            }
        }
    }

    /// A block may end its transaction, and begin another.
    @Test(arguments: Event.allCases, ["COMMIT; BEGIN", "ROLLBACK; SAVEPOINT s", "COMMIT"])
    func anotherTransactionOfABlockHasASnapshotOfItsOwn(_ event: Event, _ beginning: String) throws {
        for next in ["SELECT count(*) FROM t", "UPDATE t SET a = 'z'"] {
            let files = try WaitingFiles(event)
            let waiting = try Waiting(files.target)
            try waiting.access.withTransaction { access in
                _ = try access.fetchAll("SELECT * FROM t")
                try access.execute(beginning)
                _ = try files.happen(event)
                let rows = Int64(event.movesBefore ? 24 : 20)
                if next.hasPrefix("SELECT") {
                    #expect(try access.fetchValue(Int64.self, next) == rows)
                } else {
                    try access.execute(next)
                    #expect(access.changes == rows)
                }
                if access.isInTransaction { try access.execute("COMMIT") }
            }
            waiting.close()
            try files.finish()
        }
    }

    /// Whatever is checked before the first statement, each savepoint exists once.
    @Test(arguments: [true, false]) func savepointsBeforeTheFirstStatementStay(_ isMoving: Bool) throws {
        let files = try WaitingFiles(isMoving ? .ends : .rebuilds)
        try files.database.withoutTransaction { access in
            for first in ["UPDATE t SET a = 0 WHERE id = 3", "DROP TABLE z", "PRAGMA user_version = 3"] {
                try access.execute("BEGIN; COMMIT; BEGIN; SAVEPOINT a; SAVEPOINT b; SAVEPOINT c; RELEASE b")
                #expect(throws: SQLiteError.self) { try access.execute("RELEASE c") }
                try access.execute("SAVEPOINT d")
                try access.execute(first)
                try access.execute("ROLLBACK TO d; RELEASE a")
                #expect(throws: SQLiteError.self) { try access.execute("RELEASE a") }
                #expect(access.isInTransaction)
                try access.execute("ROLLBACK; SAVEPOINT e; SAVEPOINT e")
                try access.execute(first)
                try access.execute("RELEASE e")
                #expect(access.isInTransaction)
                try access.execute("ROLLBACK TO e; RELEASE e")
                #expect(!access.isInTransaction)
            }
        }
        #expect(texts(try files.database.fetchAll("SELECT a FROM t WHERE id IN (3, 17)")) == ["30", "170"])
        try files.finish()
    }

    /// A statement writes in the loop over another one that writes. SQLite commits both when the last one has ended.
    @Test(.needs(.returning), arguments: [true, false]) func aLoopOverAWriteMayWrite(_ isMoving: Bool) throws {
        let files = try WaitingFiles(isMoving ? .ends : .rebuilds)
        try files.database.withoutTransaction { access in
            try access.execute("CREATE TABLE q(a TEXT COLLATE NOCASE); INSERT INTO q VALUES ('b'), ('c'), ('d')")
            try access.execute("CREATE INDEX qi ON q(a); CREATE TEMP TABLE x(a)")
            try access.execute("DELETE FROM q WHERE a LIKE ?", ["x%"])
            var letters = ["b%", "c%", "d%"]
            try access.forEachRow("INSERT INTO z VALUES (1), (2), (3) RETURNING x") { _ in
                try access.execute("DELETE FROM q WHERE a LIKE ?", [letters.removeFirst()])
                #expect(access.changes == 1)
                try access.execute("PRAGMA recursive_triggers = \(letters.count % 2)")
                try access.execute("UPDATE t SET a = a + 1 WHERE id IN (3, 17)")
                try access.execute("INSERT INTO temp.x SELECT a FROM t WHERE id = 17")
                return true
            }
            #expect(letters.isEmpty && !access.isInTransaction)
        }
        #expect(try files.database.fetchValue(Int64.self, "SELECT count(*) FROM q") == 0)
        #expect(try files.database.fetchValue(Int64.self, "SELECT count(*) FROM z") == 4)
        #expect(texts(try files.database.fetchAll("SELECT a FROM t WHERE id IN (3, 17)")) == ["33", "173"])
        try files.finish()
    }

    /// Only a statement that writes the target waits for the target's lock.
    @Test(arguments: [true, false]) func whatIsOfOtherFilesDoesNotWait(_ isMoving: Bool) throws {
        let files = try WaitingFiles(isMoving ? .ends : .rebuilds)
        let other = files.folder.file("other.db")
        try Connection(path: other).execute(script: "CREATE TABLE ax(a); CREATE VIEW av AS SELECT 1")
        let waiting = try Waiting(files.target)
        let access = waiting.access
        try access.execute(
            "ATTACH '\(other)' AS aux; CREATE TEMP TABLE x(a TEXT COLLATE NOCASE); CREATE INDEX temp.xi ON x(a)"
        )
        try access.execute("INSERT INTO x VALUES ('a')")
        let lock = try Connection(path: files.target)
        try lock.execute("BEGIN IMMEDIATE")
        for sql in [
            "INSERT INTO x VALUES ('b')", "PRAGMA recursive_triggers = 1", "INSERT INTO x VALUES ('b')",
            "INSERT INTO ax VALUES (1)", "DELETE FROM x WHERE a LIKE 'a%'", "CREATE TEMP VIEW w AS SELECT 1",
            "DROP VIEW temp.w",
            "ALTER TABLE temp.x ADD COLUMN b", "ALTER TABLE aux.ax ADD COLUMN b", "DROP VIEW aux.av",
            "DROP VIEW IF EXISTS nope", "INSERT INTO x(a) VALUES ('c')",
        ] {
            #expect(throws: Never.self, "\(sql)") { try access.execute(sql) }
        }
        try lock.execute("ROLLBACK")
        waiting.close()
        try files.finish()
    }

    @Test func foreignKeysStayDeferredOverWhatReadsNoFile() throws {
        let folder = TemporaryFolder()
        var configuration = DatabaseConfiguration()
        configuration.enforcesForeignKeys = true
        let database = try Database(path: folder.file("a.db"), configuration: configuration)
        try database.execute("CREATE TABLE p(id INTEGER PRIMARY KEY); CREATE TABLE c(p REFERENCES p)")
        try database.withoutTransaction { access in
            try access.execute("PRAGMA defer_foreign_keys = 1")
            _ = try access.fetchAll("SELECT 1")
            try access.execute("BEGIN; INSERT INTO c VALUES (1); INSERT INTO p VALUES (1); COMMIT")
        }
    }

    @Test func aVACUUMMayFindAnIndexOfAnyName() throws {
        let folder = TemporaryFolder()
        let database = try Database(path: folder.file("a.db"))
        try database.execute("CREATE TABLE u(a); CREATE INDEX midstream_u ON u(a)")
        try database.execute("VACUUM")
    }

    private func errorCode(_ body: () throws -> Void) -> ResultCode? {
        do {
            try body()
            return nil
        } catch {
            return (error as? SQLiteError)?.code ?? (error as? MigrationError)?.cause?.code ?? .abort
        }
    }
}

/// A connection as another process has it, which waits for locks.
private final class Waiting {
    let access: DatabaseAccess
    private let path: String

    init(_ path: String) throws {
        self.path = path
        access = try DatabaseAccess(
            connection: Connection(path: path),
            kind: .writer,
            keys: Keyring(),
            counters: StatementCounters()
        )
        try access.overlay.refresh()
    }

    func close() { access.close() }

    /// Runs `body`, which waits for the write lock, and meanwhile lets `event` happen.
    ///
    /// - Parameter file: The file whose lock `body` waits for; `nil` for the target.
    func run(
        _ event: @escaping () throws -> Void,
        waitingFor file: String? = nil,
        while body: (DatabaseAccess) throws -> Void
    ) throws {
        let lock = try Connection(path: file ?? path)
        try lock.execute("BEGIN IMMEDIATE")
        var failure: (any Error)?
        access.connection.setBusyHandler { _ in
            guard lock.isInTransaction else { return false }
            do {
                try lock.execute("ROLLBACK")
                try event()
            } catch {
                failure = error
            }
            return true
        }
        defer { access.connection.setBusyHandler(nil) }
        let result = Result { try body(access) }
        if let failure { throw failure }
        #expect(!lock.isInTransaction)
        lock.close()
        try result.get()
    }
}

/// The two files, and the database of the process that changes what moves.
private struct WaitingFiles {
    let folder = TemporaryFolder()
    let database: Database

    var target: String { folder.file("new.db") }
    var source: String { folder.file("old.db") }

    init(_ event: WaitingStatementTests.Event) throws {
        let old = try Connection(path: folder.file("old.db"))
        try old.execute("PRAGMA journal_mode = WAL")
        try old.execute("CREATE TABLE o(id INTEGER PRIMARY KEY, a)")
        let new = try Connection(path: folder.file("new.db"))
        try new.execute("PRAGMA journal_mode = WAL")
        try new.execute(
            script: "CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE TABLE z(x); INSERT INTO z VALUES (0)"
        )
        let isNative = event == .rebuilds
        try (isNative ? new : old).execute("INSERT INTO \(isNative ? "t" : "o") \(WaitingStatementTests.rows)")
        old.close()
        new.close()
        database = try Database(path: folder.file("new.db"))
        guard event.movesBefore else { return }
        try addMigration()
        _ = try database.stepMigration(rows: 10)
        try database.execute(WaitingStatementTests.newRows)
    }

    private func addMigration() throws {
        try database.addMigration(source: .file(source)) { if $0.name == "t" { $0.sourceTable = "o" } }
    }

    /// - Returns: `false` if somebody's snapshot keeps rows from going back.
    func happen(_ event: WaitingStatementTests.Event) throws -> Bool {
        switch event {
        case .begins: try addMigration()
        case .beginsAndMoves:
            try addMigration()
            _ = try database.stepMigration(rows: 6)
        case .rebuilds, .rebuildsWhatMoves:
            _ = try database.write { access in
                try access.rebuild("t") { table in
                    table.schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, a, n DEFAULT -1)"
                    table.columns["n"] = .expression("id * 2")
                    table.rowsCopiedAtOnce = 0
                }
            }
            _ = try database.stepMigration(rows: 3)
        case .ends:
            // Somebody may still read the source.
            for _ in 0..<50 where try !database.stepMigration().isFinished {}
        case .bringsBack:
            try database.cancelMigration()
            let plain = try Connection(path: target, options: OpenOptions(access: .readOnly))
            for _ in 0..<100 {
                _ = try database.stepMigration(rows: 3)
                if try plain.fetchOne("SELECT 1 FROM t WHERE id = 1000") == nil { return true }
            }
            return false
        }
        return true
    }

    func makeOracle(_ oracle: Connection, _ event: WaitingStatementTests.Event) throws {
        try oracle.execute(
            script: "CREATE TABLE t(id INTEGER PRIMARY KEY, a\(event.isRebuild ? ", n DEFAULT -1" : "")); "
                + "CREATE TABLE z(x); INSERT INTO z VALUES (0); INSERT INTO t(id, a) \(WaitingStatementTests.rows)"
        )
        if event.movesBefore { try oracle.execute(WaitingStatementTests.newRows) }
        if event.isRebuild { try oracle.execute("UPDATE t SET n = id * 2") }
    }

    func finish() throws {
        try finishMigration(database)
        database.close()
    }

    /// What the files contain in the end, read by SQLite alone.
    func fetchAll(_ query: String, _ event: WaitingStatementTests.Event) throws -> [[SQLiteValue]] {
        let isBack = event == .bringsBack && query.contains("FROM t")
        let plain = try Connection(path: isBack ? source : target, options: OpenOptions(access: .readOnly))
        return try plain.fetchAll(isBack ? query.replacing("FROM t", with: "FROM o") : query).map(\.values)
    }
}
