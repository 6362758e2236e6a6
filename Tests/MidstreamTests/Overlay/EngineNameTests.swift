import Midstream
import SQLiteConnection
import Testing

/// The application's columns have the names that the engine's own tables and queries use.
@Suite struct EngineNameTests {
    private struct Names {
        let columns: String
        /// The row with the number `i`.
        let row: String
        let key: String
    }

    private static let names: [String: Names] = [
        "rowid": Names(
            columns: """
                (id INTEGER PRIMARY KEY, watermark, phase, total, copied, settled, undo_stage, ceiling, key, k0,
                    midstream_key0, midstream_value0, midstream_value1)
                """,
            row: "i, 1000, 7, 8, 9, 10, NULL, 3, 400 + i, 5, 6 - i, 7, 8",
            key: "id"
        ),
        "rowid, watermark below": Names(
            columns: "(id INTEGER PRIMARY KEY, watermark, midstream_value1)",
            row: "i, -1, i",
            key: "id"
        ),
        "rowid, counted alone": Names(
            columns: "(id INTEGER PRIMARY KEY, watermark)",
            row: "i, 1000",
            key: "id"
        ),
        "key": Names(
            columns: "(k0 TEXT NOT NULL, only, key, midstream_key0, midstream_value1, PRIMARY KEY (k0)) WITHOUT ROWID",
            row: "'k' || (1000 + i), i, 1, 2, i",
            key: "k0"
        ),
        "key, counted alone": Names(
            columns: "(k0 TEXT NOT NULL PRIMARY KEY, only) WITHOUT ROWID",
            row: "'k' || (1000 + i), i",
            key: "k0"
        ),
        "two, one of which descends": Names(
            columns:
                "(k1 INTEGER NOT NULL, k0 TEXT NOT NULL, midstream_value0, PRIMARY KEY (k1 DESC, k0)) WITHOUT ROWID",
            row: "i / 7, 'k' || (1000 + i), i",
            key: "k0"
        ),
    ]

    @Test(arguments: names.keys.sorted(), [true, false])
    func aTableWithThemMovesAndReturns(_ name: String, _ returns: Bool) throws {
        let names = try #require(Self.names[name])
        let rows =
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) SELECT \(names.row) FROM n"
        let folder = TemporaryFolder()
        let native = try Connection(path: ":memory:")
        let old = try Connection(path: folder.file("old.db"))
        // The engine's queries have used short names for tables, too.
        for connection in [native, old] {
            try connection.execute(script: "CREATE TABLE r\(names.columns); INSERT INTO r \(rows)")
        }
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE r\(names.columns)")
        try database.addMigration(source: .file(folder.file("old.db"))) { table in
            guard table.name == "r" else { return }
            table.sourceTable = "r"
            table.verification = .complete
        }
        let all = "SELECT * FROM r ORDER BY \(names.key)"
        func check(_ location: SourceLocation = #_sourceLocation) throws {
            for sql in ["SELECT count(*) FROM r", all] {
                #expect(texts(try database.fetchAll(sql)) == texts(try native.fetchAll(sql)), sourceLocation: location)
            }
        }
        try check()
        try database.stepMigration(rows: 40)
        try check()
        for sql in [
            "DELETE FROM r WHERE \(names.key) IN (SELECT \(names.key) FROM r ORDER BY 1 DESC LIMIT 3)",
            "DELETE FROM r WHERE \(names.key) IN (SELECT \(names.key) FROM r ORDER BY 1 LIMIT 3)",
            "INSERT INTO r SELECT \(names.row) FROM (SELECT 205 AS i)",
        ] {
            try database.execute(sql)
            try native.execute(sql)
            try check()
        }
        if returns { try database.cancelMigration() }
        for _ in 0..<60 where try !database.stepMigration(rows: 7).isFinished { try check() }
        if returns {
            database.close()
            let back = try Connection(path: folder.file("old.db"))
            #expect(texts(try back.fetchAll(all)) == texts(try native.fetchAll(all)))
        } else {
            try finishMigration(database)
            try check()
        }
    }

    @Test func keysOfTwoSourcesAreFoundToMeet() throws {
        let columns = "(id INTEGER PRIMARY KEY, name TEXT UNIQUE, midstream_key0, midstream_value1)"
        for rows in [("1, 'a', 7, 8", "1, 'b', 7, 8"), ("1, 'a', 7, 8", "2, 'a', 7, 8")] {
            let folder = TemporaryFolder()
            for (file, row) in [("one.db", rows.0), ("two.db", rows.1)] {
                let old = try Connection(path: folder.file(file))
                try old.execute(script: "CREATE TABLE s\(columns); INSERT INTO s VALUES (\(row))")
                old.close()
            }
            let database = try Database(path: folder.file("new.db"))
            try database.execute("CREATE TABLE t\(columns)")
            func add(_ file: String) throws {
                try database.addMigration(source: .file(folder.file(file))) { table in
                    if table.name == "t" { table.sourceTable = "s" }
                }
            }
            try add("one.db")
            let error = #expect(throws: MigrationError.self) { try add("two.db") }
            #expect(error?.code == .keyCollision)
        }
    }

    @Test func aRowToComeIsFoundToMeetOneOfTheLastTableOfAChain() throws {
        let columns = "(k0 TEXT NOT NULL PRIMARY KEY, only) WITHOUT ROWID"
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute(script: "CREATE TABLE a\(columns); INSERT INTO a VALUES ('a', 1), ('b', 2), ('c', 3), ('d', 4)")
        old.close()
        let middle = try Database(path: folder.file("new.db"))
        try middle.execute("CREATE TABLE b\(columns)")
        try middle.addMigration(source: .file(folder.file("old.db"))) { if $0.name == "b" { $0.sourceTable = "a" } }
        try middle.stepMigration(rows: 2)
        middle.close()
        let last = try Database(path: folder.file("third.db"))
        try last.execute("CREATE TABLE c\(columns); INSERT INTO c VALUES ('d', 4)")
        func add() throws {
            try last.addMigration(source: .file(folder.file("new.db"))) { if $0.name == "c" { $0.sourceTable = "b" } }
        }
        let error = #expect(throws: MigrationError.self) { try add() }
        #expect(error?.code == .keyCollision)
        try last.execute("DELETE FROM c")
        try add()
        #expect(texts(try last.fetchAll("SELECT k0 FROM c ORDER BY k0")) == ["a", "b", "c", "d"])
        #expect(try last.fetchValue(Int.self, "SELECT count(*) FROM c") == 4)
        try finishMigration(last)
        #expect(try last.fetchValue(Int.self, "SELECT count(*) FROM c") == 4)
    }
}
