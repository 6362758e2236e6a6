import Midstream
import SQLiteC
import SQLiteConnection
import SQLiteFeatures
import Testing

/// Tables that cannot go on, and what becomes of the tables beside them.
@Suite struct StoppedTableTests {
    private func steps(_ database: Database, _ count: Int = 20) -> Set<MigrationError.Code> {
        var codes: Set<MigrationError.Code> = []
        for _ in 0..<count {
            do {
                try database.stepMigration(budget: .milliseconds(10))
            } catch {
                if let error = error as? MigrationError { codes.insert(error.code) }
            }
        }
        return codes
    }

    private static func policy(_ name: String, answering values: [String: SQLiteValue]) -> RefusedRowPolicy {
        switch name {
        case "stop": .stop
        case "ask": .ask { _ in .replace(values) }
        default: .setAside
        }
    }

    /// The table `a` comes first.
    @Test func aTableThatStopsKeepsNoOther() throws {
        let pair = try Pair(
            schema:
                "CREATE TABLE a(id INTEGER PRIMARY KEY, x CHECK (x <> 5)); CREATE TABLE b(id INTEGER PRIMARY KEY, x)",
            rows:
                "INSERT INTO b VALUES (1, 1), (2, 2); PRAGMA ignore_check_constraints = 1; INSERT INTO a VALUES (1, 5)",
            tables: ["a", "b"]
        )
        #expect(steps(pair.database) == [.rowRefused])
        #expect(try pair.database.readMigrationProgress().tables.filter { $0.phase != .done }.map(\.name) == ["a"])
        #expect(texts(try pair.database.fetchAll("SELECT * FROM b ORDER BY id")) == ["1|1", "2|2"])
        try pair.database.execute("DELETE FROM a")
        try pair.finish()
    }

    /// The source's rows. If the table stops at a bad row, such a row is reported before the table begins. So there the
    /// row becomes bad only later, by a program that writes past the fence.
    private func rows(_ policy: String) -> String {
        let value = policy == "stop" ? "{}" : "no json"
        return
            "CREATE TABLE s(id INTEGER PRIMARY KEY, b); INSERT INTO s VALUES (1, '{}'), (2, '\(value)'), (3, '{\"a\": 3}')"
    }

    private func spoil(_ move: SmallMove) throws {
        let foreign = try Connection(path: move.folder.file("old.db"))
        try foreign.configure(.triggers, false)
        try foreign.execute("UPDATE s SET b = 'no json' WHERE id = 2")
    }

    /// No constraint refuses the row; a function in an index fails on it.
    @Test(.needs(.indexesOnExpressions), .needs(.jsonFunctions), arguments: ["stop", "set aside", "ask"])
    func aRowThatAnExpressionFailsOnIsRefused(_ policy: String) throws {
        let move = try SmallMove(
            source: rows(policy),
            target: "CREATE TABLE t(id INTEGER PRIMARY KEY, b); CREATE INDEX i ON t(json_extract(b, '$.a'))",
            from: "s"
        ) { table in
            table.refusedRows = Self.policy(policy, answering: ["b": .text("{}")])
        }
        let database = move.database
        switch policy {
        case "stop":
            try spoil(move)
            #expect(steps(database) == [.rowRefused])
            try database.execute("DELETE FROM t WHERE id = 2")
            try finishMigration(database)
            #expect(texts(try database.fetchAll("SELECT id FROM t ORDER BY id")) == ["1", "3"])
        case "set aside":
            try finishMigration(database)
            #expect(texts(try database.fetchAll("SELECT id FROM t ORDER BY id")) == ["1", "3"])
        default:
            try finishMigration(database)
            #expect(texts(try database.fetchAll("SELECT b FROM t WHERE id = 2")) == ["{}"])
        }
    }

    /// The mapping has no value for a row. So the row has no hash, and cannot be shown.
    @Test(
        .needs(.jsonFunctions),
        arguments: ["stop", "set aside", "ask"],
        [MigrationVerification.batches, .complete]
    )
    func aRowThatAMappingFailsOnIsRefused(_ policy: String, _ verification: MigrationVerification) throws {
        let move = try SmallMove(
            source: rows(policy),
            target: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)",
            from: "s"
        ) { table in
            table.unmatchedColumns = .ignored
            table.columns["v"] = .expression("json_extract(b, '$.a')")
            table.verification = verification
            table.refusedRows = Self.policy(policy, answering: ["v": .text("answered")])
        }
        let database = move.database
        switch policy {
        case "stop":
            try spoil(move)
            #expect(steps(database) == [.rowRefused])
            try database.execute("DELETE FROM t WHERE id = 2")
            // The rows are read in the order of the key, and in that of the mapped column.
            for order in ["id", "v"] {
                #expect(texts(try database.fetchAll("SELECT * FROM t ORDER BY \(order)")) == ["1|NULL", "3|3"])
            }
            #expect(texts(try database.fetchAll("SELECT id FROM t WHERE v = 3")) == ["3"])
            try finishMigration(database)
            #expect(texts(try database.fetchAll("SELECT * FROM t ORDER BY id")) == ["1|NULL", "3|3"])
        case "set aside":
            // The row is set aside before the table begins to move, so nobody reads it.
            #expect(texts(try database.fetchAll("SELECT * FROM t ORDER BY v")) == ["1|NULL", "3|3"])
            #expect(try database.fetchValue(Int.self, "SELECT count(*) FROM t") == 2)
            try finishMigration(database)
            #expect(texts(try database.fetchAll("SELECT * FROM t ORDER BY id")) == ["1|NULL", "3|3"])
        default:
            try finishMigration(database)
            #expect(texts(try database.fetchAll("SELECT v FROM t WHERE id = 2")) == ["answered"])
        }
    }

    /// A program has written past the fence, so that the condition fails.
    @Test(.needs(.jsonFunctions)) func aConditionThatFailsKeepsNoOtherTable() throws {
        let move = try SmallMove(
            source: "CREATE TABLE s(id INTEGER PRIMARY KEY, b); INSERT INTO s VALUES (1, '{\"a\": 1}'), (2, '{}')",
            target: "CREATE TABLE t(id INTEGER PRIMARY KEY, b)",
            from: "s"
        ) { $0.condition = "json_extract(b, '$.a') = 1" }
        let folder = move.folder
        let foreign = try Connection(path: folder.file("old.db"))
        try foreign.configure(.triggers, false)
        try foreign.execute("UPDATE s SET b = 'no json' WHERE id = 2")
        try Connection(path: folder.file("more.db"))
            .execute(script: "CREATE TABLE u(id INTEGER PRIMARY KEY); INSERT INTO u VALUES (1)")
        try move.database.execute("CREATE TABLE u(id INTEGER PRIMARY KEY)")
        try move.database.addMigration(source: .file(folder.file("more.db"))) { table in
            if table.name == "u" { table.sourceTable = "u" }
        }
        #expect(steps(move.database) == [.sqliteError])
        #expect(try move.database.readMigrationProgress().tables.filter { $0.phase != .done }.map(\.name) == ["t"])
        let error = #expect(throws: MigrationError.self) { try move.database.stepMigration() }
        #expect(error?.table == "t" && error?.message.contains("malformed JSON") == true)
    }

    /// Without a WAL, a connection that writes a source keeps readers from it.
    @Test func aSourceThatIsHeldKeepsNoOther() throws {
        let move = try SmallMove(
            source: "CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1), (2), (3)",
            target: "CREATE TABLE t(id INTEGER PRIMARY KEY)"
        )
        let (folder, database) = (move.folder, move.database)
        try Connection(path: folder.file("more.db"))
            .execute(script: "CREATE TABLE u(id INTEGER PRIMARY KEY); INSERT INTO u VALUES (1)")
        try database.execute("CREATE TABLE u(id INTEGER PRIMARY KEY)")
        try database.addMigration(source: .file(folder.file("more.db"))) { table in
            if table.name == "u" { table.sourceTable = "u" }
        }
        database.close()
        let holder = try Connection(path: folder.file("old.db"))
        try holder.execute("PRAGMA journal_mode = DELETE")
        let again = try Database(path: folder.file("new.db"))
        try again.stepMigration(rows: 1)
        try holder.execute("BEGIN EXCLUSIVE")
        #expect(steps(again, 50) == [])
        #expect(try again.readMigrationProgress().tables.filter { $0.phase != .done }.map(\.name) == ["t"])
        #expect(try again.stepMigration().outcome == .busy)
        try holder.execute("COMMIT")
        try finishMigration(again)
        #expect(try again.fetchValue(Int.self, "SELECT count(*) FROM t") == 3)
    }

    /// The application has the collation on another library's connections, but a `Database` does not have it.
    @Test(arguments: [MigrationVerification.count, .batches, .complete])
    func aColumnWithACollationOfTheApplicationsMoves(_ verification: MigrationVerification) throws {
        let folder = TemporaryFolder()
        for file in ["old.db", "new.db"] {
            let foreign = try ForeignConnection(folder.file(file))
            sqlite3_create_collation_v2(
                foreign.handle,
                "of_the_application",
                SQLITE_UTF8,
                nil,
                { _, _, _, _, _ in 0 },
                nil
            )
            try foreign.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, c TEXT COLLATE of_the_application)")
            if file == "old.db" { try foreign.execute("INSERT INTO t VALUES (1, 'a'), (2, 'B')") }
            #expect(foreign.close() == SQLITE_OK)
        }
        let database = try Database(path: folder.file("new.db"))
        try database.addMigration(source: .file(folder.file("old.db"))) { table in
            table.sourceTable = "t"
            table.verification = verification
        }
        try finishMigration(database)
        #expect(texts(try database.fetchAll("SELECT * FROM t ORDER BY id")) == ["1|a", "2|B"])
    }

    /// Rows that statements promoted beyond the last pending row count as well.
    @Test func aDrainBesideRowsThatAreSetAsideIsVerified() throws {
        let move = try SmallMove(
            source: "CREATE TABLE t(id INTEGER PRIMARY KEY, a); "
                + "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10) "
                + "INSERT INTO t SELECT i, CASE i WHEN 5 THEN 'bad' ELSE i END FROM n",
            target: "CREATE TABLE t(id INTEGER PRIMARY KEY, a CHECK (a <> 'bad'))"
        ) { table in
            table.refusedRows = .setAside
            table.verification = .complete
        }
        let database = move.database
        try database.execute("UPDATE t SET a = 'x' WHERE id = 10")
        try database.execute("CREATE INDEX i ON t(a)")
        try finishMigration(database)
        #expect(texts(try database.fetchAll("SELECT count(*), max(a) FROM t")) == ["9|x"])
    }
}
