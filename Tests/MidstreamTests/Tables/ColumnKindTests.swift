import Midstream
import SQLiteConnection
import SQLiteFeatures
import Testing

/// Generated columns, and keys that triggers cannot tell of.
@Suite struct ColumnKindTests {
    @Test(.needs(.generatedColumns), arguments: [0, 2] as [Int64])
    func generatedColumnsMoveWithTheirTable(_ moved: Int64) throws {
        let pair = try Pair(
            schema: """
                CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, v TEXT AS (upper(a)), s INTEGER AS (length(a)) STORED);
                CREATE INDEX i ON t(v)
                """,
            rows: "INSERT INTO t(id, a) VALUES (1, 'one'), (2, 'two'), (3, 'three'), (5, 'five')",
            tables: ["t"],
            moved: moved
        )
        for sql in [
            "UPDATE t SET a = 'dos' WHERE v = 'TWO'", "INSERT INTO t(a) VALUES ('six')",
            "INSERT INTO t VALUES (9, 'nine')",
            "DELETE FROM t WHERE s = 5",
        ] {
            try pair.database.execute(sql)
            try pair.native.execute(sql)
        }
        for sql in ["SELECT * FROM t", "SELECT id FROM t WHERE v > 'F' ORDER BY v", "SELECT sum(s), max(v) FROM t"] {
            #expect(texts(try pair.database.fetchAll(sql)) == texts(try pair.native.fetchAll(sql)), "\(sql)")
        }
        #expect(throws: SQLiteError.self) { try pair.database.execute("UPDATE t SET v = 'x'") }
        try pair.finish()
        let all = "SELECT * FROM t"
        #expect(texts(try pair.database.fetchAll(all)) == texts(try pair.native.fetchAll(all)))
    }

    @Test(.needs(.generatedColumns), arguments: ["upper(a)", "lower( A )", "lower(a) STORED", "lower(a)"])
    func aColumnMayBeGeneratedInAnotherWay(_ expression: String) throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, v TEXT GENERATED ALWAYS AS (lower(a)))")
        try old.execute("INSERT INTO t(a) VALUES ('Ab'), ('Cd')")
        old.close()
        let database = try Database(path: folder.file("new.db"))
        let stored = expression.hasSuffix("STORED")
        let inner = expression.replacing(" STORED", with: "")
        try database.execute(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, v TEXT AS (\(inner))\(stored ? " STORED" : ""))"
        )
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "t" }
        let expected = inner == "upper(a)" ? ["AB", "CD"] : ["ab", "cd"]
        #expect(texts(try database.fetchAll("SELECT v FROM t ORDER BY v")) == expected)
        try finishMigration(database)
        #expect(texts(try database.fetchAll("SELECT v FROM t ORDER BY v")) == expected)
    }

    @Test(.needs(.generatedColumns)) func aGeneratedColumnMayBecomeAPlainOne() throws {
        let folder = TemporaryFolder()
        let old = try Connection(path: folder.file("old.db"))
        try old.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, v TEXT AS (upper(a)))")
        try old.execute("INSERT INTO t(a) VALUES ('one'), ('two')")
        old.close()
        let database = try Database(path: folder.file("new.db"))
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, v TEXT)")
        try database.addMigration(source: .file(folder.file("old.db"))) { $0.sourceTable = "t" }
        try database.execute("UPDATE t SET v = 'ZWEI' WHERE v = 'TWO'; INSERT INTO t VALUES (3, 'three', 'DREI')")
        #expect(texts(try database.fetchAll("SELECT v FROM t")) == ["ONE", "ZWEI", "DREI"])
        try finishMigration(database)
        #expect(texts(try database.fetchAll("SELECT v FROM t")) == ["ONE", "ZWEI", "DREI"])
    }

    /// The key that a new row must not share.
    private static let keys = ["(lower(a))", "(a) WHERE b > 0", "(a, b + 1)"]

    @Test(.needs(.indexesOnExpressions), arguments: keys) func aHiddenKeyIsKeptAcrossTheFiles(_ key: String) throws {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b INTEGER); CREATE UNIQUE INDEX u ON t\(key)",
            rows: "INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2), (3, 'z', 0)",
            tables: ["t"],
            moved: 1
        )
        try pair.database.execute("DELETE FROM t WHERE id = 3")
        #expect(pair.database.migrationStatistics.drains(of: "t") == 0)
        let sql = "INSERT INTO t VALUES (9, 'y', 2)"
        let theirs = #expect(throws: SQLiteError.self) { try pair.native.execute(sql) }
        let mine = #expect(throws: SQLiteError.self) { try pair.database.execute(sql) }
        #expect(mine?.code == theirs?.code)
        #expect(mine?.message == theirs?.message)
        #expect(pair.database.migrationStatistics.drained["t"]?[.otherKeys] == 1)
        try pair.finish()
    }

    /// To the column, the two are the same; to the index they are not.
    @Test(arguments: [("NOCASE", "a", "A"), ("RTRIM", "a", "a ")], ["", "OR IGNORE ", "OR REPLACE "])
    func anIndexOfAnotherCollationKeepsItsKey(_ key: (collation: String, first: String, second: String), _ or: String)
        throws
    {
        let pair = try Pair(
            schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT COLLATE \(key.collation)); "
                + "CREATE UNIQUE INDEX u ON t(a COLLATE BINARY)",
            rows: "INSERT INTO t VALUES (1, '\(key.first)'), (2, '\(key.second)'), (3, 'c')",
            tables: ["t"],
            moved: 1
        )
        let sql = "UPDATE \(or)t SET a = '\(key.second)' WHERE id = 1"
        var messages: [String?] = []
        for run in [{ try pair.native.execute(sql) }, { try pair.database.execute(sql) }] {
            do {
                try run()
                messages.append(nil)
            } catch let error as SQLiteError {
                messages.append(error.message)
            }
        }
        #expect(messages[0] == messages[1])
        #expect((messages[0] == nil) == !or.isEmpty)
        let dump = "SELECT id || a FROM t ORDER BY id"
        #expect(texts(try pair.database.fetchAll(dump)) == texts(try pair.native.fetchAll(dump)))
        try pair.finish()
    }

    @Test func aTableMayHaveManyKeyColumns() throws {
        let names = (0..<40).map { "c\($0)" }
        let keys = (0..<3).map { "UNIQUE (\(names.shuffled().prefix(38).joined(separator: ", ")), c\($0))" }
        let pair = try Pair(
            schema: "CREATE TABLE t(\(names.joined(separator: ", ")), \(keys.joined(separator: ", ")))",
            rows: "INSERT INTO t(c0, c1, c2) VALUES (1, 2, 3)",
            tables: ["t"]
        )
        try pair.database.execute("INSERT INTO t(c0) VALUES (5)")
        #expect(try pair.database.fetchValue(Int64.self, "SELECT count(*) FROM t") == 2)
        try pair.finish()
    }
}
